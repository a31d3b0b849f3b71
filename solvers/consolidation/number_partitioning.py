"""Tasks spread evenly over servers by their traffic: multiway number partitioning, with capacities.

Whole tasks: the largest first, each on the server with the least load that has room (Graham 1969). Then sets
of at most two tasks are exchanged against sets of at most two, between the fullest server and each other, and
between each and the emptiest, as long as this makes both loads more even. From such a plan a few random
exchanges of two tasks lead to the next one; after many in vain the search begins anew (iterated local search,
Lourenço, Martin & Stützle 2003).

Jobs of many equal tasks: the tasks of one job after the other fill the servers, each with its share of all
tasks (the wrap-around rule of McNaughton 1959). The loads are as even as can be, and of P servers at most
P − 1 begin in the middle of a job.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from ...formulations.common.objective import all_loosened
from ...formulations.consolidation.classes import common_divisor, exact_fraction
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import JobPlacement, entry_of
from ...instances.common.arrays import Floats, Ints
from ...instances.consolidation.job import Group, PlacementJob
from ..common.base import Clock
from ..common.result import SolveOptions
from .progress import Progress

EVEN_OBJECTIVES = ("imbalance", "traffic")
MAX_TOTAL = 2**62
"""Largest sum of loads in units, which arrays of integers can hold."""
MAX_PAIRED_TASKS = 150
"""Tasks of one server, chosen at random, of which all pairs are exchanged."""
KICKS = 3
"""Random exchanges that lead from a plan to the next one."""
MAX_VAIN_KICKS = 60
"""Numbers of times that a plan is left in vain before the search begins anew."""
SPREAD_OF_SIZES = 0.2
"""Standard deviation of the random factor of sizes in the order of a new beginning."""


def is_partitioning(formulation: ConsolidationFormulation) -> bool:
    """Return whether all that counts is to spread tasks evenly that may go, and have to go, on any server."""
    instance = formulation.instance
    objectives = instance.objectives
    if objectives[0] not in EVEN_OBJECTIVES or not {*objectives} <= {*EVEN_OBJECTIVES, "spread"}:
        return False
    if instance.has_aim or instance.has_devices or instance.drained or formulation.running:
        return False
    if not all(_is_spread_freely(formulation, job) for job in instance.jobs):
        return False
    groups = [job.task_groups[0] for job in instance.jobs]
    if all(group.tasks == 1 for group in groups):
        return _sizes(formulation, groups) is not None
    alike = len({group.traffic_gbit_per_s for group in groups}) == 1
    return (
        alike
        and not any(s.traffic_gbit_per_s for s in formulation.servers.values())
        and not (_binding_resources(formulation, groups))
    )


def _is_spread_freely(formulation: ConsolidationFormulation, job: PlacementJob) -> bool:
    instance = formulation.instance
    ruled = instance.spread_of(job) == "required" and job.task_groups[0].tasks > 1
    return len(job.task_groups) == 1 and instance.requires(job) and job.gpu_model is None and not ruled


def _sizes(formulation: ConsolidationFormulation, groups: list[Group]) -> tuple[Ints, Ints] | None:
    """Return the traffic of tasks by group, and that on servers, in whole units; None if it is too large."""
    rates = [exact_fraction(group.traffic_gbit_per_s) for group in groups]
    there = [exact_fraction(server.traffic_gbit_per_s) for server in formulation.servers.values()]
    unit = common_divisor([*rates, *there])
    if unit is None or sum(rates) + sum(there) > MAX_TOTAL * unit:
        return None
    size, before = (np.array([int(rate / unit) for rate in part], dtype=np.int64) for part in (rates, there))
    return size, before


def _binding_resources(formulation: ConsolidationFormulation, groups: list[Group]) -> list[str]:
    """Return the resources of which some server has less free than all tasks demand."""
    binding = []
    for name in formulation.instance.resource_names:
        demand = sum(group.tasks * group.demand.get(name, 0.0) for group in groups)
        if any(server.available.get(name, 0.0) < demand for server in formulation.servers.values()):
            binding.append(name)
    return binding


def search_even_loads(progress: Progress, options: SolveOptions, clock: Clock, most_vain_rounds: int) -> None:
    """Improve the incumbent until its bounds are attained, the time is up, or many rounds were in vain.

    Without capacity for the tasks in this order there may be no incumbent.
    """
    formulation = progress.formulation
    progress.bounds = [*formulation.elementary_bounds()]
    groups = [job.task_groups[0] for job in formulation.instance.jobs]
    if any(group.tasks > 1 for group in groups):
        progress.update_incumbent(_wrap_around(formulation, groups))
        return
    partition = _Partition.of(formulation, groups, np.random.default_rng(options.seed or 0))
    best: tuple[int, ...] | None = None
    current: tuple[tuple[int, ...], Ints] | None = None
    vain = rounds = 0
    while progress.is_open(options.gap) and rounds < most_vain_rounds:
        if current is None:
            if not partition.begin(SPREAD_OF_SIZES if best else 0.0):
                return
        else:
            partition.where = current[1].copy()
            partition.count_loads()
            partition.kick()
        partition.even_out(clock)
        key = partition.key(formulation.instance.objectives)
        better = current is None or key < current[0]
        if current is None or key <= current[0]:
            current = key, partition.where.copy()
        vain, rounds = 0 if better else vain + 1, rounds + 1
        if best is None or key < best:
            best, rounds = key, 0
            progress.update_incumbent(partition.plan(formulation))
        if vain > MAX_VAIN_KICKS:
            current, vain = None, 0
        if clock.expired:
            return


def _wrap_around(formulation: ConsolidationFormulation, groups: list[Group]) -> list[JobPlacement]:
    """Return the plan in which equal tasks, job after job, fill the servers, each with its share."""
    names, total = list(formulation.servers), sum(group.tasks for group in groups)
    each, more = divmod(total, len(names))
    ends = list(accumulate(each + (n < more) for n in range(len(names))))
    plan, at, first = list[JobPlacement](), 0, 0
    for job, group in zip(formulation.instance.jobs, groups, strict=True):
        placed, end = dict[str, int](), first + group.tasks
        while first < end:
            tasks = min(end, ends[at]) - first
            placed[names[at]] = tasks
            first += tasks
            at += first == ends[at]
        plan.append(entry_of(job, {group.name: placed}))
    return plan


class _TaskSets(NamedTuple):
    """Sets of equally many tasks: members (M, k), sum of their sizes (M,), of their demands (M, R)."""

    members: Ints
    size: Ints
    demand: Floats


@lru_cache(maxsize=1000)
def _pairs(count: int) -> tuple[Ints, Ints]:
    return np.triu_indices(count, 1)


@dataclass
class _Partition:
    """A plan of N whole tasks on P servers with R resources that may bind.

    Attributes
    ----------
    size, before
        Traffic of each task (N,) and what is on each server in every plan (P,), in units.
    demand, room
        Demand of each task (N, R), and free capacity of each server (P, R), with the tolerance of the check.
    where
        Server of each task.
    loads, left
        Traffic of each server in units (P,), and its residual capacity (P, R).
    """

    size: Ints
    before: Ints
    demand: Floats
    room: Floats
    where: Ints
    loads: Ints
    left: Floats
    rng: np.random.Generator

    @classmethod
    def of(
        cls, formulation: ConsolidationFormulation, groups: list[Group], rng: np.random.Generator
    ) -> _Partition:
        """Return the partition of an instance, without a plan."""
        sizes = _sizes(formulation, groups)
        assert sizes is not None
        names, servers = _binding_resources(formulation, groups), formulation.servers.values()
        demand = np.array([[group.demand.get(name, 0.0) for name in names] for group in groups])
        free = np.array([[server.available.get(name, 0.0) for name in names] for server in servers])
        where, room = np.zeros(len(groups), dtype=np.int64), all_loosened(free)
        return cls(*sizes, demand, room, where, sizes[1], room, rng)

    def begin(self, spread: float) -> bool:
        """Place the tasks anew, the largest first, sizes varied at random; return whether all have room."""
        self.loads, self.left = self.before.copy(), self.room.copy()
        varied = self.size * (1.0 + spread * self.rng.standard_normal(len(self.size)))
        for task in np.argsort(-varied, kind="stable").tolist():
            fits = np.flatnonzero((self.demand[task] <= self.left).all(axis=1))
            if not len(fits):
                return False
            self._put(task, int(fits[self.loads[fits].argmin()]))
        return True

    def _put(self, task: int, server: int) -> None:
        self.where[task] = server
        self.loads[server] += self.size[task]
        self.left[server] -= self.demand[task]

    def count_loads(self) -> None:
        """Derive loads and residual capacities from the places of all tasks."""
        self.loads, self.left = self.before.copy(), self.room.copy()
        np.add.at(self.loads, self.where, self.size)
        np.subtract.at(self.left, self.where, self.demand)

    def kick(self) -> None:
        """Exchange a few random pairs of tasks between servers, where there is room."""
        for one, other in self.rng.integers(len(self.size), size=(KICKS, 2)).tolist():
            change = self.demand[one] - self.demand[other]
            here, there = self.where[one], self.where[other]
            if here != there and (change <= self.left[there]).all() and (-change <= self.left[here]).all():
                self._exchange(here, there, [one], [other])

    def _exchange(self, here: int, there: int, given: Ints | list[int], taken: Ints | list[int]) -> None:
        for source, target, tasks in ((here, there, given), (there, here, taken)):
            self.where[tasks] = target
            for server, sign in ((source, -1), (target, 1)):
                self.loads[server] += sign * self.size[tasks].sum()
                self.left[server] -= sign * self.demand[tasks].sum(axis=0)

    def even_out(self, clock: Clock) -> None:
        """Exchange tasks of the fullest and of the emptiest server as long as loads become more even."""
        improved = True
        while improved and not clock.expired:
            order = np.argsort(self.loads, kind="stable").tolist()
            pairs = [(order[-1], low) for low in order[:-1]] + [(high, order[0]) for high in order[-2:0:-1]]
            improved = any(self._even_out_two(high, low) for high, low in pairs)

    def _even_out_two(self, high: int, low: int) -> bool:
        """Make the best exchange between two servers; return whether there is one that evens them out."""
        gap = int(self.loads[high] - self.loads[low])
        best, exchange = gap, None
        for taken in self._task_sets(low):
            order = np.argsort(taken.size, kind="stable")
            rising = taken.size[order]
            for given in self._task_sets(high):
                at = np.searchsorted(rising, given.size - gap / 2)
                for near in (np.maximum(at - 1, 0), np.minimum(at, len(rising) - 1)):
                    nearest = order[near]
                    after = np.abs(gap - 2 * (given.size - taken.size[nearest]))
                    change = given.demand - taken.demand[nearest]
                    fits = (change <= self.left[low]) & (-change <= self.left[high])
                    after[~fits.all(axis=1)] = gap
                    first = int(after.argmin())
                    if after[first] < best:
                        best = int(after[first])
                        exchange = given.members[first], taken.members[nearest[first]]
        if exchange is None:
            return False
        self._exchange(high, low, *exchange)
        return True

    def _task_sets(self, server: int) -> list[_TaskSets]:
        """Return no task, each task, and each pair of tasks of a server."""
        tasks = np.flatnonzero(self.where == server)
        if len(tasks) > MAX_PAIRED_TASKS:
            tasks = self.rng.choice(tasks, MAX_PAIRED_TASKS, replace=False)
        one, other = _pairs(len(tasks))
        sets = (tasks[None, :0], tasks[:, None], np.stack((tasks[one], tasks[other]), axis=1))
        return [
            _TaskSets(members, self.size[members].sum(axis=1), self.demand[members].sum(axis=1))
            for members in sets
            if len(members)
        ]

    def key(self, objectives: tuple[str, ...]) -> tuple[int, ...]:
        """Return the objectives of the plan in units, in their order."""
        largest, smallest = int(self.loads.max()), int(self.loads.min())
        values = {"imbalance": largest - smallest, "traffic": largest}
        return tuple(values[name] for name in objectives if name in values)

    def plan(self, formulation: ConsolidationFormulation) -> list[JobPlacement]:
        """Return the plan with names."""
        names, jobs = list(formulation.servers), formulation.instance.jobs
        places = zip(jobs, self.where.tolist(), strict=True)
        return [entry_of(job, {job.task_groups[0].name: {names[n]: 1}}) for job, n in places]
