"""Complete enumeration of all plans of chains and graphs of layers; ground truth for tiny instances."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ...formulations.common.clock import check_time
from ...formulations.staging.formulation import GraphFormulation, StagingFormulation
from ...formulations.staging.graph_order import Classes
from ...formulations.staging.milp import Columns
from ...formulations.staging.stages import Stage, stage_of
from ...instances.common.errors import TooLargeError
from ..common.base import BruteForce, Enumeration, refuse_many

MAX_CLASSES = 14


class StagingBruteForce(BruteForce[StagingFormulation]):
    """Complete enumeration of plans: of stages and units in turn, on a chain or a graph of layers."""

    kinds = ("staging",)
    what = "every chain of stages and number of units; tiny instances only"

    def enumerate(self, formulation: StagingFormulation, search: Enumeration) -> None:
        """Enumerate all plans of a chain or graph of layers depth first, and keep the best."""
        if isinstance(formulation, GraphFormulation):
            _enumerate_graph(formulation, search)
        else:
            _enumerate_chain(formulation, search)


def _enumerate_chain(formulation: StagingFormulation, search: Enumeration) -> None:
    """Enumerate all plans of a chain over (last layer, hardware type, units) of each stage in turn."""
    instance = formulation.instance
    refuse_many(len(instance.layers), "layers")
    choices: dict[int, list[tuple[Stage, int]]] = defaultdict(list)
    for column in Columns(formulation).all:
        check_time()
        choices[column.first].append((formulation.stage(*column[:4]), column.type))
    left = formulation.hardware.limit.tolist()
    plan: list[Stage] = []

    # Units are counted while the plan grows; everything else is judged on whole plans.
    def extend(layer: int, before: int | None) -> None:
        if layer == len(instance.layers):
            search.judge(plan)
            return
        for stage, unit_type in choices[layer]:
            if search.over():
                return
            apart = instance.stage_rule == "free_cuts" or unit_type != before
            if apart and stage.units <= left[unit_type]:
                left[unit_type] -= stage.units
                plan.append(stage)
                extend(stage.last_layer + 1, unit_type)
                plan.pop()
                left[unit_type] += stage.units

    extend(0, None)


def _enumerate_graph(formulation: GraphFormulation, search: Enumeration) -> None:
    """Enumerate all plans of a graph over ideals, hardware types and units of each stage in turn."""
    instance, classes = formulation.instance, formulation.classes
    if len(classes.members) > MAX_CLASSES:
        raise TooLargeError(
            f"brute-force is for tiny instances: {len(classes.members):,} layers can be apart; "
            f"at most {MAX_CLASSES} are allowed; use --solver exact"
        )
    unlimited = next((one.name for one in instance.types if one.limit is None), None)
    if unlimited is not None:
        raise TooLargeError(f"type {unlimited!r} has no limit; give it one, or use --solver exact")
    left = {one.name: one.limit or 0 for one in instance.types}
    most = instance.most_units_per_stage
    plan: list[Stage] = []

    def extend(done: frozenset[int]) -> None:
        if len(done) == len(classes.members):
            search.judge(plan)
            return
        for added in _next_stages(classes, done):
            check_time()
            layers = sorted(layer for index in added for layer in classes.members[index])
            for one in instance.types:
                if not all(one.name in instance.layers[layer].compute_s for layer in layers):
                    continue
                for units in range(1, min(left[one.name], most or left[one.name]) + 1):
                    if search.over():
                        return
                    left[one.name] -= units
                    plan.append(stage_of(layers, one.name, units))
                    extend(done | added)
                    plan.pop()
                    left[one.name] += units

    extend(frozenset())


def _next_stages(classes: Classes, done: frozenset[int]) -> Iterator[frozenset[int]]:
    """Yield the sets of equivalence classes of layers that can form the next stage.

    Classes are numbered in topological order.
    """
    needs: dict[int, set[int]] = {}
    for a, b in classes.arcs:
        needs.setdefault(b, set()).add(a)

    def grow(added: frozenset[int], least: int) -> Iterator[frozenset[int]]:
        for index in range(least, len(classes.members)):
            if index not in done and needs.get(index, set()) <= done | added:
                yield added | {index}
                yield from grow(added | {index}, index + 1)

    yield from grow(frozenset(), 0)
