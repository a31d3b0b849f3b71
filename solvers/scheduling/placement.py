"""Placement of jobs on servers in a simulation: which chosen jobs can be placed, and on which servers.

Jobs are placed in the order in which the policy chose them. A running job keeps its servers. A starting job
goes where running jobs leave room or, if the policy preempts, where jobs later in the order run; these look
for other servers in their turn, and a job that moves is restarted. A job that cannot be placed waits: for
that moment its demand appears to the policy as that of the whole cluster, and the policy chooses again,
blocking or skipping it as it would on a pool.

For round-based policies every configuration of every job counts as a job of `Places`, of which at most one
runs. A configuration that cannot be placed is replaced by the fastest one that takes no more of any resource
and can be placed. A job without such a configuration waits, and the policy is asked again about the others,
which may use what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...formulations.common.clock import check_time, time_left_s
from ...formulations.scheduling.evaluation import task_count
from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.scheduling.instance import SchedulingInstance
from ..common.base import solve_document
from ..common.result import SolveOptions
from .kernels import best_fit, most_tasks
from .seen import Seen

TaskPlacement = tuple[Ints, Ints]
"""Servers, and the number of tasks of a job on each."""


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
            "task_demand": _amounts(resources, demand[k]),
            "must_place": True,
            "spread": "preferred",
            "value": 1,
        }
        for k, count in enumerate(tasks)
    ]
    useful = np.flatnonzero((free > 0).any(axis=1)).tolist()
    servers = [
        {"name": f"s{n}", "capacity": _amounts(resources, np.maximum(free[n], 0.0), all_of_them=True)}
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
    result = solve_document(document, "exact", options)
    if result.plan is None:
        return None
    # The class of entries of another kind must not be imported.
    entries: Sequence[Any] = result.plan
    by_job = {entry.job: entry.tasks for entry in entries}
    return [_place(by_job[f"j{k}"]) for k in range(len(tasks))]


def _amounts(resources: Sequence[str], amounts: Floats, all_of_them: bool = False) -> dict[str, float]:
    pairs = zip(resources, amounts.tolist(), strict=True)
    return {name: amount for name, amount in pairs if amount or all_of_them}


def _place(groups: Mapping[str, Mapping[str, int]]) -> TaskPlacement:
    """Convert the consolidation plan of a job's only task group to arrays of servers and task counts."""
    (on,) = groups.values()
    servers = sorted((int(name[1:]), count) for name, count in on.items())
    return np.array([n for n, _ in servers]), np.array([count for _, count in servers])


RULES = ("best-fit", "consolidate", "exact")
SLACK = 5e-10
"""Relative tolerance of a server's capacity; the check allows twice as much."""
SKEW_THRESHOLD = 0.3
"""Default skew threshold: jobs are skewed whose largest tensor has more than this share of the model."""
MAX_REFUSALS = 2
"""Refusals of a job after which the policy's choice of it is ignored."""
JOINT_TIME_LIMIT_S = 5.0
"""Time limit in seconds for placing the jobs that start at one moment."""


class ServerPlacement:
    """Placement of the tasks of running jobs on the servers of an instance during a simulation.

    Parameters
    ----------
    order
        The jobs in the order of their arrival, as indices into the table; jobs are numbered by it here.
    rule
        `best-fit`: each job where it fills servers best. `consolidate`: the same, but a job waits if it could
        do with fewer servers on an idle cluster. `exact`: the jobs that start at a moment are placed together
        on provably the fewest servers; by best-fit where that is not possible.
    skewed_only
        Whether only skewed jobs are consolidated, as Tiresias does.
    gangs
        Demand of a task and number of tasks of each job, where jobs do not run as requested; shapes (J, R)
        and (J,).
    migrates
        Whether running jobs move to other servers to make room for one that cannot be placed otherwise
        (Gandiva).
    """

    def __init__(
        self,
        instance: SchedulingInstance,
        order: Ints,
        rule: str,
        skewed_only: bool,
        gangs: tuple[Floats, Ints] | None = None,
        migrates: bool = False,
    ) -> None:
        table, states = instance.table(), instance.server_states
        self.names = states.names
        self._migrates = migrates
        self._demand, self._tasks = gangs or (table.demand[order], table.tasks[order])
        self._spreading, self._order = table.spreading, order
        self._changes, self._change = states.changes, 0
        self._capacity = states.amounts.copy()
        self._free = states.amounts.copy()
        self._jointly = rule == "exact"
        self._together = np.full(len(order), rule == "consolidate")
        if skewed_only and rule == "best-fit" and table.spreading is not None:
            limit = SKEW_THRESHOLD if instance.skew_threshold is None else instance.skew_threshold
            self._together = table.spreading.skew[order] > limit
        keys = np.column_stack([self._demand, self._tasks, self._together])
        self._shape: Ints = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
        self._fewest: dict[int, int] = {}
        self._on: dict[int, TaskPlacement] = {}
        self._next: dict[int, TaskPlacement] = {}
        self.history: dict[tuple[int, float], TaskPlacement] = {}

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
        over: Flags = np.asarray((self._free < -SLACK * self._capacity).any(axis=1))
        free = self._free.copy()
        for k in np.argsort(-since_s, kind="stable").tolist():
            servers, counts = self._on[int(running[k])]
            if over[servers].any():
                evicted[k] = True
                free[servers] += counts[:, None] * self._demand[running[k]]
                over[servers] = (free[servers] < -SLACK * self._capacity[servers]).any(axis=1)
        return evicted

    def settle(self, choose: Callable[[], Ints], running: Ints, protected: Flags, seen: Seen) -> Ints:
        """Query the policy until all chosen jobs can be placed on servers; return the chosen jobs.

        Parameters
        ----------
        choose
            Returns the policy's choice, and may be called several times.
        running, protected
            The running jobs, and flags of those that continue in any case.
        """
        refusals = np.zeros(len(self._tasks), dtype=np.int64)
        placed = np.fromiter(self._on, dtype=np.int64, count=len(self._on))
        own = seen.demand
        try:
            while True:
                check_time()
                chosen = choose()
                # Jobs that the policy chooses against their demand are dropped.
                chosen = chosen[refusals[chosen] <= MAX_REFUSALS]
                unplaced = self.find(chosen.tolist(), set(running[protected].tolist()))
                if not unplaced:
                    return chosen
                refused = unplaced[0]
                alike = self._shape == self._shape[refused]
                alike[placed] = False
                alike[list(self._next)] = False
                alike[refused] = True
                if own is seen.demand:
                    seen.demand = own.copy()
                # A demand above the capacity does not fit even if nothing else runs.
                again = bool(refusals[refused])
                refusals[refused if again else alike] += 1
                seen.demand[alike] = 2.0 * seen.capacity + 1.0 if again else seen.capacity
        finally:
            seen.demand = own

    def switch(self, stopped: Ints, started: Ints, now_s: float) -> Ints:
        """Release servers of stopped and moving jobs, occupy the new ones; return the jobs that move."""
        moved = [
            j for j, place in self._next.items() if j in self._on and not _same_placement(self._on[j], place)
        ]
        for j in (*stopped.tolist(), *moved):
            self.leave(j)
        for j in (*started.tolist(), *moved):
            servers, counts = self._on[j] = self._next[j]
            self._free[servers] -= counts[:, None] * self._demand[j]
            self.history[j, now_s] = self._on[j]
        return np.array(sorted(moved), dtype=np.int64)

    def leave(self, j: int) -> None:
        """Release the servers of a job that stops; an idle cluster gets exactly its capacity back."""
        servers, counts = self._on.pop(j)
        self._free[servers] += counts[:, None] * self._demand[j]
        if not self._on:
            self._free[:] = self._capacity

    def on(self, j: int) -> Mapping[str, int]:
        """Return the number of tasks of a running job on each of its servers, by server name."""
        return self.named(self._on[j])

    def named(self, place: TaskPlacement) -> dict[str, int]:
        """Return the number of tasks on each server of a placement, by server name."""
        servers, counts = place
        return {self.names[n]: k for n, k in zip(servers.tolist(), counts.tolist(), strict=True)}

    def speeds(self, jobs: Ints) -> Floats:
        """Return the speeds of running jobs on their servers, relative to full speed, shape (jobs,)."""
        if self._spreading is None:
            return np.ones(len(jobs))
        servers = np.array([len(self._on[j][0]) for j in jobs.tolist()], dtype=np.int64)
        return self._spreading.speed(self._order[jobs], servers)

    @property
    def placed_jobs(self) -> list[int]:
        """Jobs that the last call of `find` placed on servers."""
        return list(self._next)

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
        free, slack = self._free.copy(), SLACK * self._capacity
        staying = set(chosen)
        for j in self._on.keys() - staying:
            self._take(free, j, self._on[j], -1)
        keep = [j for j in chosen if j in self._on]
        over: Flags = np.asarray((free < -slack).any(axis=1))
        if over.any():  # the last started jobs on shrunk servers look for other ones
            for j in reversed([j for j in keep if j not in protected]):
                servers = self._on[j][0]
                if over[servers].any():
                    self._take(free, j, self._on[j], -1)
                    keep.remove(j)
                    over[servers] = (free[servers] < -slack[servers]).any(axis=1)
        kept = set(keep)
        if self._jointly and self._all_together(free, [j for j in chosen if j not in kept]):
            self._next |= {j: self._on[j] for j in keep}
            return []
        waiting = [j for j in chosen if j in protected] + [j for j in chosen if j not in protected]
        for position, j in enumerate(waiting):
            if j in kept:
                self._next.setdefault(j, self._on[j])
                continue
            place = self._own_place(free, slack, j) or self._place(free, slack, j)
            if place is None and self._migrates:
                place = self._after_migrations(free, slack, j, [k for k in waiting if k in kept - protected])
            if place is None:
                later = [k for k in waiting[position + 1 :] if k in kept and k not in protected]
                later = [k for k in later if k not in self._next]
                place = self._in_place_of(free, slack, j, later, kept)
            runs = j
            if place is None and alternatives is not None:
                for other in alternatives(j):
                    place = self._own_place(free, slack, other) or self._place(free, slack, other)
                    if place is not None:
                        runs = other
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

    def _own_place(self, free: Floats, slack: Floats, j: int) -> TaskPlacement | None:
        """Return the present placement of a job if it still fits, None otherwise."""
        if j not in self._on:
            return None
        servers, counts = self._on[j]
        asked = counts[:, None] * self._demand[j]
        return self._on[j] if (asked <= free[servers] + slack[servers]).all() else None

    def _place(self, free: Floats, slack: Floats, j: int) -> TaskPlacement | None:
        tasks = int(self._tasks[j])
        most = self._least_servers(j) if self._together[j] else min(tasks, len(free))
        if most == 0:
            return None
        servers, counts = best_fit(free, slack, self._capacity, self._demand[j], tasks, most)
        return (servers, counts) if len(servers) else None

    def _in_place_of(
        self, free: Floats, slack: Floats, j: int, later: list[int], kept: set[int]
    ) -> TaskPlacement | None:
        """Return a placement of a job that displaces the fewest later jobs, None if there is none."""

        def without(count: int) -> Floats:
            left = free.copy()
            for k in later[len(later) - count :]:
                self._take(left, k, self._on[k], -1)
            return left

        low, high = 0, len(later)
        if not later or self._place(without(high), slack, j) is None:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            if self._place(without(middle), slack, j) is None:
                low = middle
            else:
                high = middle
        free[:] = without(high)
        kept.difference_update(later[len(later) - high :])
        return self._place(free, slack, j)

    def _after_migrations(
        self, free: Floats, slack: Floats, j: int, others: list[int]
    ) -> TaskPlacement | None:
        """Return a placement of a job after migrations of small running jobs, None if there is none.

        Parameters
        ----------
        others
            Running jobs that may move.
        """
        asked = self._tasks[j] * self._demand[j]
        if (asked > free.sum(axis=0) + slack.sum(axis=0)).any():
            return None
        others = sorted(others, key=lambda k: float((self._tasks[k] * self._demand[k]).sum()))
        count = 1
        while count <= len(others):
            left, moves = free.copy(), dict[int, TaskPlacement]()
            for k in others[:count]:
                self._take(left, k, self._next.get(k, self._on[k]), -1)
            place = self._place(left, slack, j)
            if place is not None:
                self._take(left, j, place, 1)
                for k in reversed(others[:count]):
                    target = self._own_place(left, slack, k) or self._place(left, slack, k)
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
            slack, tasks = SLACK * self._capacity, int(self._tasks[j])
            counts = [
                most_tasks(self._capacity[n], slack[n], self._demand[j], tasks) for n in range(len(slack))
            ]
            reached = np.cumsum(np.sort(counts)[::-1]) >= tasks
            self._fewest[shape] = int(np.argmax(reached)) + 1 if reached.any() else 0
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


def _same_placement(a: TaskPlacement, b: TaskPlacement) -> bool:
    return a is b or (np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1]))


MAX_QUERIES = 3
"""Most queries of a policy at one event."""
PolicyQuery = Callable[[Ints], tuple[Ints, Ints | None]]
"""Query of a policy: jobs → row of each, −1 for none, and the order of placement, None for that of the
jobs."""


def task_demands(instance: SchedulingInstance) -> tuple[Floats, Ints]:
    """Return demand per task, (K, R), and number of tasks, (K,), of each configuration of all jobs."""
    table, menus = instance.table(), instance.menus()
    tasks = table.tasks[menus.owner]
    for j in menus.malleable:
        for row in range(int(menus.first[j]), int(menus.first[j + 1])):
            tasks[row] = task_count(table, j, menus.labels[row])
    return menus.usage / tasks[:, None], tasks


def placeable_rows(instance: SchedulingInstance, gangs: tuple[Floats, Ints]) -> Flags:
    """Return flags of the configurations that fit on the idle servers at their largest capacities."""
    states = instance.server_states
    most = states.amounts.copy()
    for _, n, amounts in states.changes:
        most[n] = np.maximum(most[n], amounts)
    kinds, of = np.unique(np.column_stack(gangs), axis=0, return_inverse=True)
    servers, count = np.unique(most, axis=0, return_counts=True)
    fits = np.zeros(len(kinds), dtype=bool)
    for k, kind in enumerate(kinds):
        tasks = int(kind[-1])
        room = [most_tasks(one, SLACK * one, kind[:-1], tasks) for one in servers]
        fits[k] = float(np.array(room) @ count) >= tasks
    return fits[of.ravel()]


class ConfigurationPlacement:
    """Placement of jobs' configurations on the servers of an instance, for round-based policies.

    Parameters
    ----------
    menu_row, first
        The row of the instance's configuration table for each row, and the first row of each job; shapes (K,)
        and (J + 1,).
    usage, speed
        Resource usage and speed of each row, shapes (K, R) and (K,).
    rule, migrates
        As of `Places`.
    """

    def __init__(
        self,
        instance: SchedulingInstance,
        gangs: tuple[Floats, Ints],
        menu_row: Ints,
        first: Ints,
        usage: Floats,
        speed: Floats,
        rule: str,
        migrates: bool,
    ) -> None:
        self._owner = np.repeat(np.arange(len(first) - 1), np.diff(first))
        self._first, self._usage, self._speed = first, usage, speed
        of = instance.menus().owner[menu_row]
        own = (gangs[0][menu_row], gangs[1][menu_row])
        self.places = ServerPlacement(instance, of, rule, False, own, migrates)
        self._of = of

    def settle(self, ask: PolicyQuery, jobs: Ints, protected: Sequence[int], may_wait: bool) -> Ints:
        """Return the configuration in which each job runs and can be placed on servers, −1 for none.

        Parameters
        ----------
        protected
            Rows of other jobs that continue in any case.
        may_wait
            Whether later events follow if no job runs now.
        """
        remaining, refused = jobs, [-1]
        for _ in range(MAX_QUERIES):
            rows, order = ask(remaining)
            if order is not None:
                rows = rows[order]
            wanted = [*protected, *rows[rows >= 0].tolist()]
            refused = self.places.find(wanted, set(protected), self._smaller)
            if not refused:
                break
            left = remaining[~np.isin(remaining, self._owner[refused])]
            if not len(left):
                break
            remaining = left
        if not self.places.placed_jobs and not may_wait:
            self.places.find([int(self._first[jobs[0]])], set(), lambda _: self._any(jobs))
        row_of_job = np.full(len(self._first) - 1, -1)
        chosen = np.array(self.places.placed_jobs, dtype=np.int64)
        row_of_job[self._owner[chosen]] = chosen
        return row_of_job[jobs]

    def owners(self, rows: Iterable[int] | Ints) -> Ints:
        """Return the job of each given row of the configuration table."""
        owners: Ints = self._owner[np.array(list(rows), dtype=np.int64)]
        return owners

    def servers(self) -> dict[tuple[int, float], dict[str, int]]:
        """Return the tasks per server of each segment, by job (index into the table) and start."""
        history = self.places.history.items()
        return {(int(self._of[row]), at_s): self.places.named(place) for (row, at_s), place in history}

    def _smaller(self, row: int) -> Iterator[int]:
        """Yield a job's configurations with no more usage of any resource than the given one.

        The fastest comes first.
        """
        j = self._owner[row]
        own = np.arange(self._first[j], self._first[j + 1])
        own = own[(self._usage[own] <= self._usage[row]).all(axis=1) & (own != row)]
        yield from own[np.argsort(-self._speed[own], kind="stable")].tolist()

    def _any(self, jobs: Ints) -> Iterator[int]:
        """Yield all configurations of the given jobs, job by job, the fastest first."""
        for j in jobs.tolist():
            own = np.arange(self._first[j], self._first[j + 1])
            yield from own[np.argsort(-self._speed[own], kind="stable")].tolist()
