"""How many units each stage gets once layers and types are fixed (HeterPS, section 5.1)."""

from __future__ import annotations

from collections.abc import Sequence

from ..formulations.staging import Stage, StagingFormulation

MOST_FIRST_UNITS = 1000
"""Without a limit, how many values of k_1 are tried beyond its lower bound."""

Run = tuple[int, int, int]
"""First layer, last layer, type."""


def runs_of(types: Sequence[int]) -> list[Run]:
    """Return the maximal runs of equal types: the stages that a type for each layer means."""
    runs: list[Run] = []
    for layer, kind in enumerate(types):
        if runs and runs[-1][2] == kind:
            runs[-1] = (runs[-1][0], layer, kind)
        else:
            runs.append((layer, layer, kind))
    return runs


def balance_load(formulation: StagingFormulation, runs: Sequence[Run]) -> tuple[Stage, ...] | None:
    """Return the best plan on these stages whose other stages are balanced to the first one.

    For every k_1 from its lower bound the other stages get the fewest units that are no slower than the
    first, k_i = ⌈A_i / (ET_1(k_1) − S_i)⌉ over compute and communication; the best plan is kept.

    Returns
    -------
    plan
        Or None if no k_1 leads to a plan within limits, floor and budgets.
    """
    instance, table = formulation.instance, formulation.table
    objective = formulation.objectives[0]
    slowest = formulation.slowest_allowed_s
    first = runs[0]
    lowest = table.fewest_units(*first, slowest) if slowest != float("inf") else 1
    if lowest is None:
        return None
    limit = instance.types[first[2]].limit
    highest = limit if limit is not None else lowest + MOST_FIRST_UNITS
    best: tuple[float, tuple[Stage, ...]] | None = None
    for units in range(lowest, highest + 1):
        target = table.run_time_s(*first, units)
        if target == float("inf"):
            return None
        counts = [units, *(table.fewest_units(*run, target) for run in runs[1:])]
        plan = tuple(
            Stage(first_layer=a, last_layer=b, type=instance.types[t].name, units=count)
            for (a, b, t), count in zip(runs, counts, strict=True)
            if count is not None
        )
        if len(plan) < len(runs):
            break  # more units make the first stage faster still, and the others cannot follow
        if not formulation.resource_violations(plan):
            value = formulation.evaluate(plan)[0]
            if best is None or objective.better(value, best[0]):
                best = value, plan
    return best[1] if best else None
