"""Servers under the engine of rounds: configurations that a policy chose find places.

Every configuration of every job counts as a job of `Places`, of which at most one runs. One that finds no
place is replaced by the fastest that takes no more of anything, and finds one. Who finds none at all waits,
and the policy is asked again about the others, which may use what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from ....formulations.scheduling.constraints import tasks_in
from ....instances.common.arrays import Flags, Floats, Ints
from ....instances.scheduling.instance import SchedulingInstance
from .kernels import most_tasks
from .places import SLACK, Places

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
