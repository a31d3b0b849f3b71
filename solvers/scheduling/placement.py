"""Placement of jobs on servers in a simulation: which chosen jobs can be placed, and on which servers.

Jobs are placed in the order in which the policy chose them. A running job keeps its servers. A starting job
goes where running jobs leave room or, if the policy preempts, where jobs later in the order run; these look
for other servers in their turn, and a job that moves is restarted. A job that cannot be placed waits: for
that moment its demand appears to the policy as that of the whole cluster, and the policy chooses again,
blocking or skipping it as it would on a pool.

Where the policy chooses among configurations, each configuration of a job has a row, of which at most one
runs. A configuration that cannot be placed is replaced by the fastest one that takes no more of any resource
and can be placed. A job without such a configuration waits, and the policy is asked again about the others,
which may use what is left.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...formulations.common.clock import check_time, time_left_s
from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.documents import parse_instance
from ...instances.scheduling.instance import SchedulingInstance
from ..common.result import SolveOptions
from ..registry import KINDS
from ..run import solve_with
from .policies.contract import Policy
from .view import View, ViewWriter

TaskPlacement = tuple[Ints, Ints]
"""Servers, and the number of tasks of a job on each."""
PolicyQuery = Callable[..., Ints]
"""Query of a policy: jobs that it is not asked for → the rows that it chooses."""


def best_fit(
    free: Floats, slack: Floats, capacity: Floats, demand: Floats, tasks: int, most: int
) -> TaskPlacement | None:
    """Return a best-fit placement of a job: servers and tasks on each; None if it needs more than `most`.

    Each step takes the server that holds most of the remaining tasks, of several the one with the least
    residual capacity (Gu et al., Tiresias, NSDI'19). Tasks are identical, so that no other choice needs fewer
    servers.

    Parameters
    ----------
    free, slack, capacity
        Residual capacity of servers, its tolerance, and their capacity; shape (N, R).
    demand
        Demand of one task, shape (R,).
    """
    needs, room, there = demand > 0, free + slack, np.where(capacity > 0, capacity, np.inf)
    fit = np.floor(room[:, needs] / demand[needs]).clip(0, tasks)
    # A quotient may be rounded to less than a product that fits.
    fit += (fit < tasks) & ((fit + 1) * demand[needs] <= room[:, needs])
    fits = fit.min(axis=1, initial=tasks).astype(np.int64)
    servers, counts, waiting = list[int](), list[int](), tasks
    while waiting > 0:
        count = np.minimum(fits, waiting)
        candidates = np.flatnonzero(count == count.max())
        if not count[candidates[0]] or len(servers) == most:
            return None
        left = ((free - count[:, None] * demand) / there)[candidates].sum(axis=1)
        best = int(candidates[left.argmin()])
        servers.append(best)
        counts.append(int(count[best]))
        fits[best] = 0
        waiting -= counts[-1]
    return np.array(servers, dtype=np.int64), np.array(counts, dtype=np.int64)


def place_jointly(
    free: Floats, demand: Floats, tasks: Sequence[int], limit_s: float | None
) -> list[TaskPlacement] | None:
    """Return placements of starting jobs on the fewest servers in total (exact); None if none is found.

    Parameters
    ----------
    free
        Residual capacity of each server, shape (N, R).
    demand
        Demand of one task of each job, shape (J, R).
    limit_s
        Time limit in seconds, after which the best placements so far are taken.
    """
    resources = [f"r{r}" for r in range(free.shape[1])]
    jobs = [
        {
            "name": f"j{k}",
            "tasks": int(count),
            "task_demand": dict(zip(resources, demand[k].tolist(), strict=True)),
            "must_place": True,
            "spread": "preferred",
            "value": 1,
        }
        for k, count in enumerate(tasks)
    ]
    useful = np.flatnonzero((free > 0).any(axis=1)).tolist()
    servers = [
        {
            "name": f"s{n}",
            "capacity": dict(zip(resources, np.maximum(free[n], 0.0).tolist(), strict=True)),
        }
        for n in useful
    ]
    if not servers:
        return None
    document = {
        "schema_version": 1,
        "kind": "consolidation",
        "name": "jobs that start",
        "objectives": ["spread", "servers"],
        "servers": servers,
        "jobs": jobs,
    }
    options = SolveOptions(time_limit_s=limit_s, threads=1)
    result = solve_with(parse_instance(document), KINDS["consolidation"].exact, options)
    if result.plan is None:
        return None
    # The class of entries of another kind must not be imported.
    entries: Sequence[Any] = result.plan
    by_job = {entry.job: entry.tasks for entry in entries}
    return [_place(by_job[f"j{k}"]) for k in range(len(tasks))]


def _place(groups: Mapping[str, Mapping[str, int]]) -> TaskPlacement:
    """Convert the consolidation plan of a job's only task group to arrays of servers and task counts."""
    (on,) = groups.values()
    servers, counts = zip(*sorted((int(name[1:]), count) for name, count in on.items()), strict=True)
    return np.array(servers), np.array(counts)


RULES = ("best-fit", "consolidate", "exact")
SLACK = 5e-10
"""Relative tolerance of a server's capacity; the check allows twice as much."""
SKEW_THRESHOLD = 0.3
"""Default skew threshold: jobs are skewed whose largest tensor has more than this share of the model."""
MAX_REFUSALS = 2
"""Refusals of a job after which the policy's choice of it is ignored."""
MAX_QUERIES = 3
"""Most queries of a policy at one event, where it chooses among configurations."""
JOINT_TIME_LIMIT_S = 5.0
"""Time limit in seconds for placing the jobs that start at one moment."""


class ServerPlacement:
    """Placement of the tasks of running jobs on the servers of an instance during a simulation.

    Every configuration of every job has a row, of which at most one of a job runs.

    Parameters
    ----------
    order
        The jobs in the order of their arrival, as indices into the table.
    rows
        The table of configurations.
    rule
        `best-fit`: each job where it fills servers best. `consolidate`: the same, but a job waits if it could
        do with fewer servers on an idle cluster. `exact`: the jobs that start at a moment are placed together
        on provably the fewest servers; by best-fit where that is not possible.
    policy
        Whether it migrates running jobs to make room for one that cannot be placed otherwise (Gandiva), and
        consolidates skewed jobs alone (Tiresias).
    gangs
        Demand of a task, (K, R), and number of tasks, (K,), of each configuration of the instance, where the
        policy chooses among them; None where jobs run as requested.
    """

    def __init__(
        self,
        instance: SchedulingInstance,
        order: Ints,
        rows: ViewWriter,
        rule: str,
        policy: Policy,
        gangs: tuple[Floats, Ints] | None,
    ) -> None:
        table, states = instance.table(), instance.server_states
        self.names = states.names
        self._rows, self._migrates, self._malleable = rows, policy.migrates, gangs is not None
        self._demand, self._tasks = table.demand[order], table.tasks[order]
        if gangs is not None:
            self._demand, self._tasks = gangs[0][rows.menu_row], gangs[1][rows.menu_row]
        self._spreading, self._order = table.spreading, order[rows.owner]
        self._changes, self._change = states.changes, 0
        self._capacity, self._slack = states.amounts.copy(), SLACK * states.amounts
        self._free = states.amounts.copy()
        self._jointly = rule == "exact"
        self._together = np.full(len(rows.owner), rule == "consolidate")
        if policy.skewed_only and rule == "best-fit" and table.spreading is not None:
            limit = SKEW_THRESHOLD if instance.skew_threshold is None else instance.skew_threshold
            self._together = table.spreading.skew[self._order] > limit
        keys = np.column_stack([self._demand, self._tasks, self._together])
        self._shape: Ints = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
        self._fewest: dict[int, int] = {}
        self._on: dict[int, TaskPlacement] = {}
        self._next: dict[int, TaskPlacement] = {}
        self._history: dict[tuple[int, float], TaskPlacement] = {}

    def move_to(self, now_s: float) -> set[int]:
        """Apply capacity changes of servers up to a time; return the jobs on servers that lost capacity."""
        before, fallen = self._change, set[int]()
        while self._change < len(self._changes) and self._changes[self._change][0] <= now_s:
            _, n, amounts = self._changes[self._change]
            if (amounts < self._capacity[n]).any():
                fallen |= {j for j, (servers, _) in self._on.items() if (servers == n).any()}
            self._free[n] += amounts - self._capacity[n]
            self._capacity[n] = amounts
            self._change += 1
        if self._change > before:
            self._slack = SLACK * self._capacity
            self._fewest.clear()
        return fallen

    def lost(self, running: Ints, since_s: Floats) -> Flags:
        """Return flags of the running jobs evicted from overloaded servers, last started first.

        Parameters
        ----------
        since_s
            Start of the current run of each of them, shape of `running`.
        """
        evicted = np.zeros(len(running), dtype=bool)
        over, free = self._overfull(self._free), self._free.copy()
        for k in np.argsort(-since_s, kind="stable").tolist():
            j = int(running[k])
            if over[self._on[j][0]].any():
                evicted[k] = True
                self._take(free, j, self._on[j], -1)
                over = self._overfull(free)
        return evicted

    def settle(self, query: PolicyQuery, held: Ints, view: View, may_wait: bool) -> Ints:
        """Query the policy until all chosen rows can be placed on servers; return the chosen rows.

        Parameters
        ----------
        query
            Returns the rows that the policy chooses without some refused jobs.
        held
            Rows that continue in any case.
        may_wait
            Whether later events follow if no job runs now.
        """
        if self._malleable:
            return self._settle_configurations(query, held, view, may_wait)
        return self._settle_requested(query, held, view)

    def _settle_requested(self, query: PolicyQuery, held: Ints, view: View) -> Ints:
        """As `settle`, where each job has one row: refused jobs appear with a larger demand."""
        refusals = np.zeros(len(self._tasks), dtype=np.int64)
        placed = np.array([*self._on], dtype=np.int64)
        own = view.demand
        try:
            while True:
                check_time()
                chosen = query()
                # Jobs that the policy chooses against their demand are dropped.
                chosen = chosen[refusals[chosen] <= MAX_REFUSALS]
                unplaced = self.find([*held.tolist(), *chosen.tolist()], set(held.tolist()))
                if not unplaced:
                    return chosen
                refused = unplaced[0]
                alike = self._shape == self._shape[refused]
                alike[placed] = False
                alike[list(self._next)] = False
                alike[refused] = True
                if own is view.demand:
                    view.demand = own.copy()
                # A demand above the capacity does not fit even if nothing else runs.
                again = bool(refusals[refused])
                refusals[refused if again else alike] += 1
                view.demand[alike] = 2.0 * view.capacity + 1.0 if again else view.capacity
        finally:
            view.demand = own

    def _settle_configurations(self, query: PolicyQuery, held: Ints, view: View, may_wait: bool) -> Ints:
        """As `settle`, where a row may be replaced by a smaller one of its job."""
        jobs, owner = view.jobs, self._rows.owner
        refused = jobs[:0]
        for _ in range(MAX_QUERIES):
            wanted = [*held.tolist(), *query(refused).tolist()]
            unplaced = self.find(wanted, set(held.tolist()), self._smaller)
            if not unplaced:
                break
            refused = np.append(refused, owner[unplaced])
            if np.isin(jobs, refused).all():
                break
        if not self._next and not may_wait:
            fastest_first = [row for j in jobs.tolist() for row in self._fastest_first(j).tolist()]
            self.find([int(self._rows.first[jobs[0]])], set(), lambda _: fastest_first)
        placed = np.array(list(self._next), dtype=np.int64)
        return placed[np.isin(owner[placed], jobs)]

    def switch(self, stopped: Ints, started: Ints, now_s: float) -> Ints:
        """Release servers of stopped and moving jobs, occupy the new ones; return the jobs that move."""
        moved = [
            j
            for j, place in self._next.items()
            if j in self._on and self._on[j] is not place and not all(map(np.array_equal, self._on[j], place))
        ]
        for j in (*stopped.tolist(), *moved):
            self.leave(j)
        for j in (*started.tolist(), *moved):
            self._on[j] = self._history[j, now_s] = self._next[j]
            self._take(self._free, j, self._on[j], 1)
        return np.array(sorted(moved), dtype=np.int64)

    def leave(self, j: int) -> None:
        """Release the servers of a job that stops; an idle cluster gets exactly its capacity back."""
        self._take(self._free, j, self._on.pop(j), -1)
        if not self._on:
            self._free[:] = self._capacity

    def servers(self) -> dict[tuple[int, float], dict[str, int]]:
        """Return the tasks on each server, by name, of each segment: job (index into the table) and start."""
        return {
            (int(self._order[j]), start_s): {
                self.names[n]: k for n, k in zip(servers.tolist(), counts.tolist(), strict=True)
            }
            for (j, start_s), (servers, counts) in self._history.items()
        }

    def speeds(self, jobs: Ints) -> Floats:
        """Return the speeds of running jobs on their servers, relative to full speed, shape (jobs,)."""
        if self._spreading is None:
            return np.ones(len(jobs))
        servers = np.array([len(self._on[j][0]) for j in jobs.tolist()], dtype=np.int64)
        return self._spreading.speed(self._order[jobs], servers)

    def find(
        self,
        chosen: Sequence[int],
        protected: set[int],
        alternatives: Callable[[int], Iterable[int]] | None = None,
    ) -> list[int]:
        """Place chosen jobs on servers in their order; return the first that cannot be placed, if any.

        Parameters
        ----------
        alternatives
            Returns alternatives to a job that cannot be placed; then all jobs are returned for which there is
            none either.
        """
        self._next = {}
        refused: list[int] = []
        free = self._free.copy()
        for j in self._on.keys() - set(chosen):
            self._take(free, j, self._on[j], -1)
        keep = [j for j in chosen if j in self._on]
        over = self._overfull(free)
        if over.any():  # the last started jobs on shrunk servers look for other ones
            for j in reversed([j for j in keep if j not in protected]):
                if over[self._on[j][0]].any():
                    self._take(free, j, self._on[j], -1)
                    keep.remove(j)
                    over = self._overfull(free)
        kept = set(keep)
        if self._jointly and self._all_together(free, [j for j in chosen if j not in kept]):
            self._next |= {j: self._on[j] for j in keep}
            return []
        waiting = sorted(chosen, key=lambda j: j not in protected)
        for position, j in enumerate(waiting):
            if j in kept:
                self._next.setdefault(j, self._on[j])
                continue
            runs, place = j, self._kept_or_new(free, j)
            if place is None and self._migrates:
                place = self._after_migrations(free, j, [k for k in waiting if k in kept - protected])
            if place is None:
                movable = kept - protected - self._next.keys()
                later = [k for k in waiting[position + 1 :] if k in movable]
                place = self._in_place_of(free, j, later, kept)
            if place is None and alternatives is not None:
                for runs in alternatives(j):
                    place = self._kept_or_new(free, runs)
                    if place is not None:
                        break
            if place is None:
                refused.append(j)
                if alternatives is None:
                    break
                continue
            self._take(free, runs, place, 1)
            self._next[runs] = place
        return refused

    def _take(self, free: Floats, j: int, place: TaskPlacement, sign: int) -> None:
        servers, counts = place
        free[servers] -= sign * counts[:, None] * self._demand[j]

    def _overfull(self, free: Floats) -> Flags:
        """Return flags of the servers on which less than nothing is free."""
        return np.asarray((free < -self._slack).any(axis=1))

    def _kept_or_new(self, free: Floats, j: int) -> TaskPlacement | None:
        """Return the present placement of a job if it still fits, otherwise a new one if there is one."""
        if j in self._on:
            servers, counts = self._on[j]
            if (counts[:, None] * self._demand[j] <= free[servers] + self._slack[servers]).all():
                return self._on[j]
        return self._place(free, j)

    def _place(self, free: Floats, j: int) -> TaskPlacement | None:
        tasks = int(self._tasks[j])
        most = self._least_servers(j) if self._together[j] else min(tasks, len(free))
        return best_fit(free, self._slack, self._capacity, self._demand[j], tasks, most)

    def _in_place_of(self, free: Floats, j: int, later: list[int], kept: set[int]) -> TaskPlacement | None:
        """Return a placement of a job that displaces the fewest later jobs, None if there is none."""

        def without(first: int) -> Floats:
            left = free.copy()
            for k in later[first:]:
                self._take(left, k, self._on[k], -1)
            return left

        if not later or self._place(without(0), j) is None:
            return None
        numbers = range(len(later))
        stay = bisect_left(numbers, True, lo=1, key=lambda first: self._place(without(first), j) is None) - 1
        free[:] = without(stay)
        kept.difference_update(later[stay:])
        return self._place(free, j)

    def _after_migrations(self, free: Floats, j: int, others: list[int]) -> TaskPlacement | None:
        """Return a placement of a job after migrations of small running jobs, None if there is none.

        Parameters
        ----------
        others
            Running jobs that may move.
        """
        asked = self._tasks[j] * self._demand[j]
        if (asked > free.sum(axis=0) + self._slack.sum(axis=0)).any():
            return None
        others = sorted(others, key=lambda k: float((self._tasks[k] * self._demand[k]).sum()))
        count = 1
        while count <= len(others):
            left, moves = free.copy(), dict[int, TaskPlacement]()
            for k in others[:count]:
                self._take(left, k, self._next.get(k, self._on[k]), -1)
            place = self._place(left, j)
            if place is not None:
                self._take(left, j, place, 1)
                for k in reversed(others[:count]):
                    target = self._kept_or_new(left, k)
                    if target is None:
                        break
                    self._take(left, k, target, 1)
                    moves[k] = target
                if len(moves) == count:
                    self._next |= moves
                    self._take(left, j, place, -1)
                    free[:] = left
                    return place
            count *= 2
        return None

    def _least_servers(self, j: int) -> int:
        """Return the minimum number of servers for a job on an idle cluster, 0 if it never fits."""
        shape = int(self._shape[j])
        if shape not in self._fewest:
            room, tasks = self._capacity, int(self._tasks[j])
            place = best_fit(room, SLACK * room, room, self._demand[j], tasks, len(room))
            self._fewest[shape] = 0 if place is None else len(place[0])
        return self._fewest[shape]

    def _all_together(self, free: Floats, jobs: list[int]) -> bool:
        """Place all given jobs jointly on the fewest servers; return whether that is possible."""
        if not jobs:
            return True
        left = time_left_s()
        limit_s = JOINT_TIME_LIMIT_S if left is None else min(JOINT_TIME_LIMIT_S, max(left, 0.01))
        places = place_jointly(free, self._demand[jobs], self._tasks[jobs].tolist(), limit_s)
        if places is None:
            return False
        self._next |= dict(zip(jobs, places, strict=True))
        return True

    def _smaller(self, row: int) -> list[int]:
        """Return a job's configurations with no more usage of any resource than the given one.

        The fastest comes first.
        """
        own, usage = self._fastest_first(int(self._rows.owner[row])), self._rows.usage
        smaller: Flags = (usage[own] <= usage[row]).all(axis=1) & (own != row)
        return [int(other) for other in own[smaller]]

    def _fastest_first(self, j: int) -> Ints:
        """Return a job's configurations, the fastest first."""
        own = np.arange(self._rows.first[j], self._rows.first[j + 1])
        return own[np.argsort(-self._rows.speed[own], kind="stable")]


def task_demands(instance: SchedulingInstance) -> tuple[Floats, Ints]:
    """Return demand per task, (K, R), and number of tasks, (K,), of each configuration of all jobs."""
    menus = instance.menus()
    return menus.usage / menus.tasks[:, None], menus.tasks


def placeable_rows(instance: SchedulingInstance, gangs: tuple[Floats, Ints]) -> Flags:
    """Return flags of the configurations that fit on the idle servers at their largest capacities."""
    states = instance.server_states
    most = states.amounts.copy()
    for _, n, amounts in states.changes:
        most[n] = np.maximum(most[n], amounts)
    kinds, of = np.unique(np.column_stack(gangs), axis=0, return_inverse=True)
    slack, count = SLACK * most, len(most)
    places = [best_fit(most, slack, most, kind[:-1], int(kind[-1]), count) for kind in kinds]
    return np.array([place is not None for place in places])[of.ravel()]
