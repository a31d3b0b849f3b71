"""Blocks placed one after the other by a rule, among them Optimus' parameter assignment algorithm (PAA).

A block is a job of one group of equal tasks that has to be placed; a slice is a number of these tasks.

PAA (Optimus, EuroSys'18, section 5.3) says which parameter server holds which block of parameters. Blocks
come in descending order of size, and a server is filled up to the average size, that of all over the number
of servers. A slice below 1 % of it goes to the server with the fewest requests, one up to the average to the
server with the least room that holds it, or else to that with the most room. What is larger is cut into
slices of the average size, as far as it has tasks to be cut between, and each is placed in the same way. The
first server has a tie. The paper names no capacities; here only servers that have room for a slice count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from ...formulations.consolidation.classes import common_divisor, exact_fraction
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import JobPlacement, entry_of
from ..common.base import Clock, Outcome, Solver
from ..common.result import SolveOptions

Rule = Callable[[int, int, int], tuple[int, ...]]
"""Size of a slice, load and number of slices of a server → its rank; the first of the lowest is chosen."""
SMALL_SHARE = 100
"""A block so many times as small as the average counts as a request alone."""


class Blocks(NamedTuple):
    """Number of tasks of each block, traffic of one of its tasks, and that on each server, in whole units."""

    tasks: list[int]
    sizes: list[int]
    before: list[int]


def blocks_of(formulation: ConsolidationFormulation) -> Blocks | None:
    """Return the jobs of an instance as blocks; None if some have several groups, or may be left out."""
    jobs, servers = formulation.instance.jobs, formulation.servers.values()
    if not all(len(job.task_groups) == 1 and formulation.instance.requires(job) for job in jobs):
        return None
    groups = [job.task_groups[0] for job in jobs]
    sizes = [exact_fraction(group.traffic_gbit_per_s) for group in groups]
    before = [exact_fraction(server.traffic_gbit_per_s) for server in servers]
    unit = common_divisor([*sizes, *before]) or Fraction(1)
    return Blocks(
        [group.tasks for group in groups], *([int(a / unit) for a in part] for part in (sizes, before))
    )


def assigned(
    formulation: ConsolidationFormulation, blocks: Blocks, slices: Iterable[tuple[int, int]], rule: Rule
) -> list[Counter[int]] | None:
    """Return the tasks of each block by server, with slices (block, tasks) placed in this order.

    None if no server has room for some slice.
    """
    left = [Counter(server.available) for server in formulation.servers.values()]
    loads, counts, placed = [*blocks.before], [0] * len(left), [Counter[int]() for _ in blocks.tasks]
    for block, tasks in slices:
        size, demand = tasks * blocks.sizes[block], formulation.instance.jobs[block].task_groups[0].demand
        rooms = [n for n, free in enumerate(left) if all(tasks * demand[r] <= free[r] for r in demand)]
        if not rooms:
            return None
        _, chosen = min((rule(size, loads[n], counts[n]), n) for n in rooms)
        loads[chosen] += size
        counts[chosen] += 1
        placed[block][chosen] += tasks
        left[chosen].subtract({r: tasks * amount for r, amount in demand.items()})
    return placed


def plan_of(formulation: ConsolidationFormulation, placed: Sequence[Mapping[int, int]]) -> list[JobPlacement]:
    """Return the plan with these tasks of each block, by number of the server."""
    names = [*formulation.servers]
    return [
        entry_of(job, {job.task_groups[0].name: {names[n]: tasks for n, tasks in counts.items()}})
        for job, counts in zip(formulation.instance.jobs, placed, strict=True)
    ]


class ParameterAssignment(Solver[ConsolidationFormulation]):
    """PAA of Optimus: blocks of parameters on parameter servers, without improvement."""

    name = "paa"
    kinds = ("consolidation",)
    what = "blocks of parameters on parameter servers by Optimus' rule: best fit below the average load"

    def solve(self, formulation: ConsolidationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the plan of PAA; without one, the reason."""
        del options, clock
        blocks = blocks_of(formulation)
        if blocks is None:
            return Outcome(message="paa places jobs of one group with must_place: true; take best-fit")
        totals = [tasks * size for tasks, size in zip(blocks.tasks, blocks.sizes, strict=True)]
        count, total = len(blocks.before), sum(blocks.before) + sum(totals)

        def rule(size: int, load: int, requests: int) -> tuple[int, ...]:
            # The average is `total / count`; sums are compared in multiples of `count`, which are whole.
            if SMALL_SHARE * size * count < total:
                return (requests,)
            return (1, load) if count * (load + size) > total else (0, -load)

        most = [max(1, total // (count * max(1, size))) for size in blocks.sizes]
        slices = (
            (block, min(most[block], blocks.tasks[block] - start))
            for block in sorted(range(len(totals)), key=lambda block: -totals[block])
            for start in range(0, blocks.tasks[block], most[block])
        )
        placed = assigned(formulation, blocks, slices, rule)
        if placed is None:
            return Outcome(message="paa: no server has room left for some block")
        return Outcome(plan_of(formulation, placed))
