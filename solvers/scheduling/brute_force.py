"""All orders of the jobs of a tiny trace, each made into a schedule; without preemption one is optimal.

Malleable jobs are tried in all their configurations without preemption, else as it is requested.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...formulations.common.tolerance import TOLERANCE
from ...formulations.scheduling.formulation import SchedulingFormulation
from ...formulations.scheduling.plan import Segment
from ...instances.common.arrays import Floats, Ints
from ...instances.common.errors import TooLargeError
from ...instances.scheduling.instance import SchedulingInstance
from ..common.base import Clock, Outcome, Solver
from ..common.brute_force import Enumeration
from ..common.options import SolveOptions
from ..common.result import Limit
from .engine import Engine, EvictionError, StuckError
from .methods import plan_of
from .policy import ByKey

MOMENT = 4e-15
"""What a moment may be wrong by in doubles, relatively."""
UNPROVEN = "all orders were tried; where jobs may be stopped, or have places, that proves nothing"
MOST_JOBS = 8
"""Jobs have 40,320 orders then."""
MOST_SCHEDULES = 100_000
"""Orders times choices of configurations."""


def proving(instance: SchedulingInstance) -> bool:
    """Return whether trying everything proves the optimum."""
    return instance.preemption == "none" and not instance.events and not instance.servers


def schedules_of(instance: SchedulingInstance) -> int:
    """Return how many orders, times choices of configurations where these are tried, there are."""
    sizes = np.diff(instance.menus().first).tolist() if proving(instance) else ()
    count = len(instance.table())
    return math.factorial(min(count, 20)) * math.prod(sizes)


class Ranked(ByKey):
    """Serves jobs by a fixed rank, with preemption.

    Parameters
    ----------
    rank
        Of each job, in the order of their arrival.
    """

    preempts: ClassVar[bool] = True

    def __init__(self, rank: Floats) -> None:
        self._rank = rank

    def keys_of(self, jobs: Ints) -> Floats:
        """Return the ranks."""
        return self._rank[jobs]


class SchedulingBruteForce(Solver[SchedulingFormulation]):
    """Tries every order of the jobs.

    Without preemption and without events each job starts as early as those before it in the order allow. For
    some order this is an optimal schedule, since both objectives only grow with the ends (Baker 1974). With
    preemption each job takes what those before it leave at every event, which may miss the optimum.
    """

    name, kinds = "brute-force", ("scheduling",)
    proves = True
    what = f"all orders of up to {MOST_JOBS} jobs; a proof where preemption is not allowed"

    def solve(self, formulation: SchedulingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the best schedule over all orders."""
        del options
        instance = formulation.instance
        count = len(instance.table())
        if count > MOST_JOBS or schedules_of(instance) > MOST_SCHEDULES:
            few = f"at most {MOST_JOBS} with few configurations are allowed"
            raise TooLargeError(
                f"brute-force is for tiny instances: there are {count:,} jobs, and {few}; use --solver exact"
            )
        search = Enumeration(formulation, clock)
        proves, first = proving(instance), instance.menus().first.tolist()
        rows = [range(a, b) for a, b in itertools.pairwise(first)] if proves else [range(1)] * count
        for order, chosen in itertools.product(
            itertools.permutations(range(count)), itertools.product(*rows)
        ):
            if search.over():
                break
            plan = _in_order(instance, order, chosen) if proves else _by_rank(instance, order)
            if plan is not None:
                search.judge(plan)
        limit: Limit = "time" if search.out_of_time else "none"
        if search.best is None:
            return Outcome(limit=limit)
        values, best = search.best
        message = None if proves else UNPROVEN
        bounds = (_rounded_down(values[0], best),) if proves and not search.out_of_time else ()
        return Outcome(best, bounds=bounds, limit=limit, message=message)


def _rounded_down(value: float, plan: Sequence[Segment]) -> float:
    """Return a value less what its moments may be wrong by, where that is not within every tolerance."""
    wrong = MOMENT * max(entry.end_s for entry in plan)
    return value - wrong if wrong > 0.1 * TOLERANCE * value else value


def _by_rank(instance: SchedulingInstance, order: tuple[int, ...]) -> list[Segment] | None:
    try:
        return plan_of(instance, Engine(instance, Ranked(np.argsort(order).astype(float)), "best-fit").run())
    except (EvictionError, StuckError):
        return None


def _in_order(instance: SchedulingInstance, order: tuple[int, ...], rows: tuple[int, ...]) -> list[Segment]:
    """Return the schedule in which each job starts as early as those before it allow, and runs to its end."""
    table, menus = instance.table(), instance.menus()
    demand, capacity = menus.usage[list(rows)], instance.capacity_over_time[1][0]
    placed: list[tuple[int, float, float]] = []
    for j in order:
        length = float(menus.work[j] / menus.speed[rows[j]])
        starts = sorted({float(table.arrival_s[j]), *(end for _, _, end in placed)})
        for start in starts:
            if start < table.arrival_s[j]:
                continue
            if _fits(placed, j, start, start + length, demand, capacity):
                placed.append((j, start, start + length))
                break
    return [
        Segment(job=table.names[j], start_s=start, end_s=end, configuration=menus.labels[rows[j]])
        for j, start, end in placed
    ]


def _fits(
    placed: list[tuple[int, float, float]], j: int, start: float, end: float, demand: Floats, capacity: Floats
) -> bool:
    """Return whether a job fits beside those that are placed, at its start and whenever another starts."""
    moments = [start, *(b for _, b, _ in placed if start < b < end)]
    return all(
        (
            demand[j] + sum((demand[k] for k, b, e in placed if b <= t < e), np.zeros(len(capacity)))
            <= capacity * (1 + 1e-9)
        ).all()
        for t in moments
    )
