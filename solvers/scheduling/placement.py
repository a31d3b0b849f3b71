"""Placement of running jobs on servers: whether chosen jobs find places, and on which servers they run.

Servers under the engine: whether the jobs that a policy chose find places, and where they are. Jobs are
placed in the order in which the policy chose them. One that runs keeps its servers. One that starts goes
where those that run leave room, or, if the policy stops jobs, where those that come after it are; these look
for another place at their turn, and one that moves starts again. A job that finds no place waits: to the
policy it looks, for that moment, as if it asked for the whole cluster, and the policy chooses again, blocking
or skipping it as it would do on a pool.

Servers under the engine of rounds: configurations that a policy chose find places. Every configuration of
every job counts as a job of `Places`, of which at most one runs. One that finds no place is replaced by the
fastest that takes no more of anything, and finds one. Who finds none at all waits, and the policy is asked
again about the others, which may use what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...formulations.common.clock import check_time, time_left_s
from ...formulations.scheduling.evaluation import tasks_in
from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.scheduling.instance import SchedulingInstance
from ..common.base import solve_document
from ..common.result import SolveOptions
from .kernels import best_fit, most_tasks
from .seen import Seen

Place = tuple[Ints, Ints]
"""Servers, and how many tasks of a job are on each."""


def placed_together(
    free: Floats, demand: Floats, tasks: Sequence[int], limit_s: float | None
) -> list[Place] | None:
    """Return the places of jobs that together need the fewest servers more than they must; None without any.

    Parameters
    ----------
    free
        What each server has left, shape (N, R).
    demand
        What a task of each job takes, shape (J, R).
    limit_s
        Seconds after which the best places that were found count.
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
    # Entries of another kind are known by what they say, for their class must not be imported.
    entries: Sequence[Any] = result.plan
    by_job = {entry.job: entry.tasks for entry in entries}
    return [_place(by_job[f"j{k}"]) for k in range(len(tasks))]


def _amounts(resources: Sequence[str], amounts: Floats, all_of_them: bool = False) -> dict[str, float]:
    pairs = zip(resources, amounts.tolist(), strict=True)
    return {name: amount for name, amount in pairs if amount or all_of_them}


def _place(groups: Mapping[str, Mapping[str, int]]) -> Place:
    """Return servers and counts of the only group of a job."""
    (on,) = groups.values()
    servers = sorted((int(name[1:]), count) for name, count in on.items())
    return np.array([n for n, _ in servers]), np.array([count for _, count in servers])


RULES = ("best-fit", "consolidate", "exact")
SLACK = 5e-10
"""Share of a server's amounts by which they may be exceeded; the check allows twice as much."""
SKEWED = 0.3
"""Jobs are skewed where the largest tensor has more than this share of the model, if nothing else is said."""
STUBBORN = 2
"""After so many refusals of a job its policy is overruled."""
LONGEST_S = 5.0
"""Seconds for the jobs that start at one moment."""


class Places:
    """The servers of an instance during one run.

    Parameters
    ----------
    order
        The jobs in the order of their arrival, as indices into the table; jobs here are places in it.
    rule
        `best-fit`: each job where it fills servers best. `consolidate`: the same, and a job that could do
        with fewer servers if nothing else ran waits. `exact`: the jobs that start at a moment are placed
        together on the fewest servers, which is proven; as best-fit does where that is not possible.
    skewed_only
        Whether only skewed jobs are consolidated, as Tiresias does.
    gangs
        What one task takes, and how many tasks there are, where jobs do not run as requested; shapes (J, R)
        and (J,).
    migrates
        Whether jobs move to other servers to make room for one that fits in no gap (Gandiva).
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
            limit = SKEWED if instance.skew_threshold is None else instance.skew_threshold
            self._together = table.spreading.skew[order] > limit
        keys = np.column_stack([self._demand, self._tasks, self._together])
        self._shape: Ints = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
        self._fewest: dict[int, int] = {}
        self._on: dict[int, Place] = {}
        self._next: dict[int, Place] = {}
        self.history: dict[tuple[int, float], Place] = {}

    def move_to(self, now_s: float) -> set[int]:
        """Let servers fail and return; return the jobs on those that have lost something."""
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
        """Return which running jobs have no room any more; those that came last to it lose it first.

        Parameters
        ----------
        since_s
            When each of them began to run there, shape of `running`.
        """
        found = np.zeros(len(running), dtype=bool)
        over: Flags = np.asarray((self._free < -SLACK * self._capacity).any(axis=1))
        free = self._free.copy()
        for k in np.argsort(-since_s, kind="stable").tolist():
            servers, counts = self._on[int(running[k])]
            if over[servers].any():
                found[k] = True
                free[servers] += counts[:, None] * self._demand[running[k]]
                over[servers] = (free[servers] < -SLACK * self._capacity[servers]).any(axis=1)
        return found

    def settle(self, choose: Callable[[], Ints], running: Ints, held: Flags, seen: Seen) -> Ints:
        """Return the jobs that run from now on, all of which have places.

        Parameters
        ----------
        choose
            Asks the policy, which may be asked several times.
        running, held
            The jobs that run, and which of them go on in any case.
        """
        refusals = np.zeros(len(self._tasks), dtype=np.int64)
        there = np.fromiter(self._on, dtype=np.int64, count=len(self._on))
        own = seen.demand
        try:
            while True:
                check_time()
                chosen = choose()
                # A policy that does not heed what jobs ask for is overruled.
                chosen = chosen[refusals[chosen] <= STUBBORN]
                found = self.find(chosen.tolist(), set(running[held].tolist()))
                if not found:
                    return chosen
                refused = found[0]
                alike = self._shape == self._shape[refused]
                alike[there] = False
                alike[list(self._next)] = False
                alike[refused] = True
                if own is seen.demand:
                    seen.demand = own.copy()
                # What is more than there is cannot be chosen even if nothing else runs.
                again = bool(refusals[refused])
                refusals[refused if again else alike] += 1
                seen.demand[alike] = 2.0 * seen.capacity + 1.0 if again else seen.capacity
        finally:
            seen.demand = own

    def switch(self, stopped: Ints, started: Ints, now_s: float) -> Ints:
        """Note who stops and starts; return those that move, who do both."""
        moved = [j for j, place in self._next.items() if j in self._on and not _same(self._on[j], place)]
        for j in (*stopped.tolist(), *moved):
            self.leave(j)
        for j in (*started.tolist(), *moved):
            servers, counts = self._on[j] = self._next[j]
            self._free[servers] -= counts[:, None] * self._demand[j]
            self.history[j, now_s] = self._on[j]
        return np.array(sorted(moved), dtype=np.int64)

    def leave(self, j: int) -> None:
        """Give back what a job has; an idle cluster has exactly what it had at first."""
        servers, counts = self._on.pop(j)
        self._free[servers] += counts[:, None] * self._demand[j]
        if not self._on:
            self._free[:] = self._capacity

    def on(self, j: int) -> Mapping[str, int]:
        """Return the servers of a job that runs, with its tasks on each."""
        return self.named(self._on[j])

    def named(self, place: Place) -> dict[str, int]:
        """Return a place by the names of its servers."""
        servers, counts = place
        return {self.names[n]: k for n, k in zip(servers.tolist(), counts.tolist(), strict=True)}

    def speeds(self, jobs: Ints) -> Floats:
        """Return how fast jobs are where they run, as a share of their full speed."""
        if self._spreading is None:
            return np.ones(len(jobs))
        servers = np.array([len(self._on[j][0]) for j in jobs.tolist()], dtype=np.int64)
        return self._spreading.speed(self._order[jobs], servers)

    @property
    def found(self) -> list[int]:
        """The jobs for which places were found last."""
        return list(self._next)

    def find(
        self,
        chosen: Sequence[int],
        held: set[int],
        instead: Callable[[int], Iterable[int]] | None = None,
    ) -> list[int]:
        """Find places for chosen jobs, in their order; return the first that has none.

        Parameters
        ----------
        instead
            What may run where one finds no place; then all are returned that have none, nor one of these.
        """
        self._next = {}
        refused: list[int] = []
        free, slack = self._free.copy(), SLACK * self._capacity
        staying = set(chosen)
        for j in self._on.keys() - staying:
            self._take(free, j, self._on[j], -1)
        keep = [j for j in chosen if j in self._on]
        over: Flags = np.asarray((free < -slack).any(axis=1))
        if over.any():  # those who came last to a server that has lost something look for another place
            for j in reversed([j for j in keep if j not in held]):
                servers = self._on[j][0]
                if over[servers].any():
                    self._take(free, j, self._on[j], -1)
                    keep.remove(j)
                    over[servers] = (free[servers] < -slack[servers]).any(axis=1)
        kept = set(keep)
        if self._jointly and self._all_together(free, [j for j in chosen if j not in kept]):
            self._next |= {j: self._on[j] for j in keep}
            return []
        waiting = [j for j in chosen if j in held] + [j for j in chosen if j not in held]
        for position, j in enumerate(waiting):
            if j in kept:
                self._next.setdefault(j, self._on[j])
                continue
            place = self._own_place(free, slack, j) or self._place(free, slack, j)
            if place is None and self._migrates:
                place = self._after_migrations(free, slack, j, [k for k in waiting if k in kept - held])
            if place is None:
                later = [k for k in waiting[position + 1 :] if k in kept and k not in held]
                later = [k for k in later if k not in self._next]
                place = self._in_place_of(free, slack, j, later, kept)
            runs = j
            if place is None and instead is not None:
                for other in instead(j):
                    place = self._own_place(free, slack, other) or self._place(free, slack, other)
                    if place is not None:
                        runs = other
                        break
            if place is None:
                refused.append(j)
                if instead is None:
                    break
                continue
            self._take(free, runs, place, 1)
            self._next[runs] = place
        return refused

    def _take(self, free: Floats, j: int, place: Place, sign: int) -> None:
        servers, counts = place
        free[servers] -= sign * counts[:, None] * self._demand[j]

    def _own_place(self, free: Floats, slack: Floats, j: int) -> Place | None:
        """Return where a job runs, if there is still room for it."""
        if j not in self._on:
            return None
        servers, counts = self._on[j]
        asked = counts[:, None] * self._demand[j]
        return self._on[j] if (asked <= free[servers] + slack[servers]).all() else None

    def _place(self, free: Floats, slack: Floats, j: int) -> Place | None:
        tasks = int(self._tasks[j])
        most = self._least_servers(j) if self._together[j] else min(tasks, len(free))
        if most == 0:
            return None
        servers, counts = best_fit(free, slack, self._capacity, self._demand[j], tasks, most)
        return (servers, counts) if len(servers) else None

    def _in_place_of(
        self, free: Floats, slack: Floats, j: int, later: list[int], kept: set[int]
    ) -> Place | None:
        """Return a place that a job has if the fewest of those that come after it give up theirs."""

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

    def _after_migrations(self, free: Floats, slack: Floats, j: int, others: list[int]) -> Place | None:
        """Return a place that a job has if some small ones move, all of which find another.

        Parameters
        ----------
        others
            Jobs that run, and may move.
        """
        asked = self._tasks[j] * self._demand[j]
        if (asked > free.sum(axis=0) + slack.sum(axis=0)).any():
            return None
        others = sorted(others, key=lambda k: float((self._tasks[k] * self._demand[k]).sum()))
        count = 1
        while count <= len(others):
            left, moves = free.copy(), dict[int, Place]()
            for k in others[:count]:
                self._take(left, k, self._next.get(k, self._on[k]), -1)
            place = self._place(left, slack, j)
            if place is not None:
                self._take(left, j, place, 1)
                for k in reversed(others[:count]):
                    there = self._own_place(left, slack, k) or self._place(left, slack, k)
                    if there is None:
                        break
                    self._take(left, k, there, 1)
                    moves[k] = there
                if len(moves) == count:
                    self._next |= moves
                    self._take(left, j, place, -1)
                    free[:] = left
                    return place
            count *= 2
        return None

    def _least_servers(self, j: int) -> int:
        """Return the fewest servers that a job could use if nothing else ran; 0 if it could not run."""
        shape = int(self._shape[j])
        if shape not in self._fewest:
            slack, tasks = SLACK * self._capacity, int(self._tasks[j])
            held = [
                most_tasks(self._capacity[n], slack[n], self._demand[j], tasks) for n in range(len(slack))
            ]
            reached = np.cumsum(np.sort(held)[::-1]) >= tasks
            self._fewest[shape] = int(np.argmax(reached)) + 1 if reached.any() else 0
        return self._fewest[shape]

    def _all_together(self, free: Floats, jobs: list[int]) -> bool:
        """Find places for all of these jobs at once; whether there are."""
        if not jobs:
            return True
        left = time_left_s()
        limit_s = LONGEST_S if left is None else min(LONGEST_S, max(left, 0.01))
        places = placed_together(free, self._demand[jobs], self._tasks[jobs].tolist(), limit_s)
        if places is None:
            return False
        self._next |= dict(zip(jobs, places, strict=True))
        return True


def _same(a: Place, b: Place) -> bool:
    return a is b or (np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1]))


MOST_ASKED = 3
"""How often a policy is asked at one moment."""
Ask = Callable[[Ints], tuple[Ints, Ints | None]]
"""Jobs → row of each, −1 for none, and the order in which they find places, None for that of the jobs."""


def gangs_of(instance: SchedulingInstance) -> tuple[Floats, Ints]:
    """Return what one task takes in each row of the menus, and how many there are, shapes (K, R) and (K,)."""
    table, menus = instance.table(), instance.menus()
    tasks = table.tasks[menus.owner]
    for j in menus.malleable:
        for row in range(int(menus.first[j]), int(menus.first[j + 1])):
            tasks[row] = tasks_in(table, j, menus.labels[row])
    return menus.usage / tasks[:, None], tasks


def placeable(instance: SchedulingInstance, gangs: tuple[Floats, Ints]) -> Flags:
    """Return which rows of the menus the servers can hold when nothing else runs, with the most they have."""
    states = instance.server_states
    most = states.amounts.copy()
    for _, n, amounts in states.changes:
        most[n] = np.maximum(most[n], amounts)
    kinds, of = np.unique(np.column_stack(gangs), axis=0, return_inverse=True)
    servers, count = np.unique(most, axis=0, return_counts=True)
    held = np.zeros(len(kinds), dtype=bool)
    for k, kind in enumerate(kinds):
        tasks = int(kind[-1])
        room = [most_tasks(one, SLACK * one, kind[:-1], tasks) for one in servers]
        held[k] = float(np.array(room) @ count) >= tasks
    return held[of.ravel()]


class RowPlaces:
    """The servers of an instance during one run.

    Parameters
    ----------
    menu_row, first
        The row of the instance's menus that each row is, and where those of each job begin; shapes (K,) and
        (J + 1,).
    usage, speed
        Of each row, shapes (K, R) and (K,).
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
        self.places = Places(instance, of, rule, False, own, migrates)
        self._of = of

    def settle(self, ask: Ask, jobs: Ints, held: Sequence[int], may_wait: bool) -> Ints:
        """Return the row of each of these jobs, −1 for none, all of which have places.

        Parameters
        ----------
        held
            Rows that go on in any case, of other jobs.
        may_wait
            Whether something will happen if nothing runs now.
        """
        there, refused = jobs, [-1]
        for _ in range(MOST_ASKED):
            rows, order = ask(there)
            if order is not None:
                rows = rows[order]
            wanted = [*held, *rows[rows >= 0].tolist()]
            refused = self.places.find(wanted, set(held), self._smaller)
            if not refused:
                break
            left = there[~np.isin(there, self._owner[refused])]
            if not len(left):
                break
            there = left
        if not self.places.found and not may_wait:
            self.places.find([int(self._first[jobs[0]])], set(), lambda _: self._any(jobs))
        found = np.full(len(self._first) - 1, -1)
        chosen = np.array(self.places.found, dtype=np.int64)
        found[self._owner[chosen]] = chosen
        return found[jobs]

    def owners(self, rows: Iterable[int] | Ints) -> Ints:
        """Return the jobs of rows."""
        found: Ints = self._owner[np.array(list(rows), dtype=np.int64)]
        return found

    def servers(self) -> dict[tuple[int, float], dict[str, int]]:
        """Return job, as index into the table, and start of each segment → its servers."""
        history = self.places.history.items()
        return {(int(self._of[row]), at_s): self.places.named(place) for (row, at_s), place in history}

    def _smaller(self, row: int) -> Iterator[int]:
        """Yield the other configurations of a job that take no more of anything, the fastest first."""
        j = self._owner[row]
        own = np.arange(self._first[j], self._first[j + 1])
        own = own[(self._usage[own] <= self._usage[row]).all(axis=1) & (own != row)]
        yield from own[np.argsort(-self._speed[own], kind="stable")].tolist()

    def _any(self, jobs: Ints) -> Iterator[int]:
        """Yield all configurations of all jobs."""
        for j in jobs.tolist():
            own = np.arange(self._first[j], self._first[j + 1])
            yield from own[np.argsort(-self._speed[own], kind="stable")].tolist()
