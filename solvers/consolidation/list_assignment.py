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

import numpy as np

from ...formulations.common.clock import check_time
from ...formulations.common.objective import common_divisor, exact_fraction
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import JobPlacement, entry_of
from ...instances.common.arrays import Floats
from ..common.base import Clock, Outcome, Solver
from ..common.result import SolveOptions

Rule = Callable[[float, Floats, Floats], Floats]
"""Size of a slice, loads and numbers of slices of servers → ranks; the first server of the lowest has it."""
SMALL_SHARE = 100
"""A block so many times as small as the average counts as a request alone."""


class Blocks(NamedTuple):
    """N blocks and P servers with R resources.

    Attributes
    ----------
    tasks
        Number of tasks of each block.
    sizes, before
        Traffic of one task of each block, shape (N,), and that on each server, shape (P,), in whole units.
    demand, room
        Demand of one task of each block, shape (N, R), and free capacity of each server, shape (P, R).
    """

    tasks: list[int]
    sizes: Floats
    before: Floats
    demand: Floats
    room: Floats


def blocks_of(formulation: ConsolidationFormulation) -> Blocks | None:
    """Return the jobs of an instance as blocks; None if some have several groups, or may be left out."""
    jobs, servers = formulation.instance.jobs, formulation.servers.values()
    if not all(len(job.task_groups) == 1 and formulation.instance.requires(job) for job in jobs):
        return None
    groups, names = [job.task_groups[0] for job in jobs], formulation.instance.resource_names
    traffic = [g.traffic_gbit_per_s for g in groups] + [s.traffic_gbit_per_s for s in servers]
    rates = [*map(exact_fraction, traffic)]
    unit = common_divisor(rates) or Fraction(1)
    counts = np.array([float(rate / unit) for rate in rates])
    amounts = [group.demand for group in groups] + [server.available for server in servers]
    table = np.array([[each.get(name, 0.0) for name in names] for each in amounts])
    return Blocks([g.tasks for g in groups], *np.split(counts, [len(jobs)]), *np.split(table, [len(jobs)]))


def assigned(blocks: Blocks, slices: Iterable[tuple[int, int]], rule: Rule) -> list[Counter[int]] | None:
    """Return the tasks of each block by server, with slices (block, tasks) placed in this order.

    None if no server has room for some slice.
    """
    loads, left, counts = blocks.before.copy(), blocks.room.copy(), np.zeros(len(blocks.before))
    placed = [Counter[int]() for _ in blocks.tasks]
    for block, tasks in slices:
        check_time()
        size, demand = tasks * blocks.sizes[block], tasks * blocks.demand[block]
        fits = (demand <= left).all(axis=1)
        chosen = int(np.where(fits, rule(size, loads, counts), np.inf).argmin())
        if not fits[chosen]:
            return None
        loads[chosen] += size
        counts[chosen] += 1
        left[chosen] -= demand
        placed[block][chosen] += tasks
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
        del options
        blocks = blocks_of(formulation)
        if blocks is None:
            return Outcome(message="paa places jobs of one group with must_place: true; take best-fit")
        totals, count = np.array(blocks.tasks) * blocks.sizes, len(blocks.before)
        total = blocks.before.sum() + totals.sum()

        def rule(size: float, loads: Floats, requests: Floats) -> Floats:
            # The average is `total / count`; sums are compared in multiples of `count`, which are whole.
            if SMALL_SHARE * size * count < total:
                return requests
            ranks: Floats = np.where(count * (loads + size) > total, loads, -1.0 - loads)
            return ranks

        whole = max(blocks.tasks, default=1)  # tasks without traffic are one slice
        most = [max(1, int(total // (count * size))) if size else whole for size in blocks.sizes]
        slices = (
            (block, min(most[block], blocks.tasks[block] - start))
            for block in np.argsort(-totals, kind="stable").tolist()
            for start in range(0, blocks.tasks[block], most[block])
        )
        with clock.enforced():
            placed = assigned(blocks, slices, rule)
        if placed is None:
            return Outcome(message="paa: no server has room left for some block")
        plan = plan_of(formulation, placed)
        broken = formulation.violations(plan)  # the paper knows no models of GPUs, and no required spread
        return Outcome(message=f"paa: its plan breaks a constraint: {broken[0]}") if broken else Outcome(plan)
