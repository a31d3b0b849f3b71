"""From counts of loads and cuts to named servers and jobs, always in the same way."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...formulations.consolidation.classes import ClassTable
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import JobPlacement, entry_of
from .master import Column
from .slots import Node, RackRooms, Rooms

Whole = NDArray[np.int64]
Tasks = dict[int, dict[int, int]]
"""Group → position of a server → tasks."""


class WriteBack:
    """Names the servers and jobs of a solution of the class model.

    Servers and jobs of a class are taken in the order of the instance. Rooms and pieces that are the same
    to the model are matched in that order too, so that what is neighboured stays together.
    """

    def __init__(
        self,
        formulation: ConsolidationFormulation,
        classes: ClassTable,
        columns: Sequence[Column],
        values: Whole,
    ) -> None:
        self.formulation, self.classes = formulation, classes
        self.used = [(c, int(n)) for c, n in zip(columns, values.tolist(), strict=False) if n > 0]
        self.room: dict[Node, list[int]] = defaultdict(list)
        self.asked: dict[Node, list[int]] = defaultdict(list)
        self.apart: dict[Node, list[int]] = defaultdict(list)
        self.home: dict[Node, list[int]] = defaultdict(list)
        self.tasks: dict[int, Tasks] = {}
        self._left: dict[int, set[int]] = {}

    def plan(self) -> list[JobPlacement]:
        """Return the plan of a solution."""
        self._servers()
        loose = self._jobs()
        self._exchange(self.room, ("split", "host"))
        self._exchange(self.apart, ("apart",))
        self._match(loose)
        formulation = self.formulation
        names = list(formulation.servers)
        plan = []
        for position, asked in enumerate(formulation.instance.jobs):
            groups = asked.task_groups
            tasks = self.tasks.get(position, {})
            named = {
                groups[g].name: {names[n]: count for n, count in sorted(placed.items())}
                for g, placed in sorted(tasks.items())
            }
            plan.append(entry_of(asked, named))
        return plan

    def _match(self, loose: Sequence[tuple[int, int]]) -> None:
        """Put the pieces of jobs on rooms of their size; where racks count, large jobs choose first."""
        needs: dict[int, list[tuple[Node, tuple[int, ...], int]]] = {}
        for node, jobs in [*self.asked.items(), *self.apart.items()]:
            for job in jobs:
                groups = tuple(range(self.classes.pieces[node[0]].shape[1]))
                needs.setdefault(job, []).append((node, groups, 1))
        for job, number in loose:
            for part in self.classes.jobs[number].parts:
                there = self.tasks.get(job, {}).get(part.groups[0], {})
                count = part.tasks[0] - sum(there.values())
                if count:
                    needs.setdefault(job, []).append(((part.kind, 0), part.groups, count))
        order = sorted(needs)
        rooms = Rooms(self.room)
        if "racks" in self.formulation.instance.objectives:
            order.sort(key=lambda job: -sum(count for _, _, count in needs[job]))
            rooms = RackRooms(self.room, self._racks())
        for job in order:
            total: Counter[Node] = Counter()
            for node, _, count in needs[job]:
                total[node] += count
            here = {server for placed in self.tasks.get(job, {}).values() for server in placed}
            servers = rooms.take(total, here)
            for node, groups, count in needs[job]:
                counts = self.classes.pieces[node[0]][node[1]].tolist()
                for _ in range(count):
                    self._put(job, zip(groups, counts, strict=True), servers[node].pop(0))

    def _racks(self) -> list[int]:
        """Return a number for the rack of each server."""
        numbers: dict[str, int] = {}
        return [
            numbers.setdefault(self.formulation.rack_of(name), len(numbers))
            for name in self.formulation.servers
        ]

    def _put(self, job: int, tasks: Any, server: int) -> None:
        groups = self.tasks.setdefault(job, {})
        for g, count in tasks:
            if count:
                placed = groups.setdefault(g, {})
                placed[server] = placed.get(server, 0) + count

    def _servers(self) -> None:
        """Give each load that is used to the next server of its class."""
        following: dict[int, int] = defaultdict(int)
        for column, times in self.used:
            if column.kind != "load":
                continue
            number, load = column.what
            first = following[number]
            following[number] += times
            members = self.classes.servers[number].members[first : first + times]
            for k, slot in load:
                slots = self.classes.slots[k]
                single = len(self.classes.pieces[k]) < len(slots)
                copies = int(slots[slot, 0]) if single else 1
                rooms = self.room if self.classes.kinds[k].home is None else self.home
                rooms[k, 0 if single else slot] += [n for n in members for _ in range(copies)]

    def _jobs(self) -> list[tuple[int, int]]:
        """Give each cut that is used to jobs of its class; return loose jobs and their class.

        Pieces at home decide who gets a cut that has them; the others go to whoever is next.
        """
        loose = []
        free: dict[int, list[int]] = {}
        cuts = [(column, times) for column, times in self.used if column.kind == "cut"]
        for column, times in sorted(cuts, key=lambda cut: not cut[0].what[2]):
            number, cut, stay = column.what
            job = self.classes.jobs[number]
            waiting = free.setdefault(number, list(reversed(job.members)))
            members = self._stay(number, stay, times, waiting)
            if not stay:
                members = [waiting.pop() for _ in range(times)]
            if job.loose:
                loose += [(member, number) for member in members]
                continue
            parts = self.apart if job.fewest is not None and not job.lost else self.asked
            for i in cut:
                parts[job.parts[0].kind, i] += members
        return loose

    def _stay(
        self, number: int, stay: Sequence[tuple[int, int]], times: int, waiting: list[int]
    ) -> list[int]:
        """Keep tasks of some jobs of a class where they are; return the jobs."""
        job = self.classes.jobs[number]
        members: list[int] = []
        for h, i in stay:
            home = job.homes[h]
            counts = self.classes.pieces[home.kind][i].tolist()
            rooms = self.home[home.kind, i]
            if len(job.members) == 1:
                members = [job.members[0]]
                self._put(members[0], zip(job.parts[home.part].groups, counts, strict=True), rooms.pop())
                continue
            for _ in range(times):
                server = rooms.pop()
                member = next(m for m in self.classes.at_home[home.kind][server] if m in self._idle(number))
                self._idle(number).discard(member)
                members.append(member)
                self._put(member, zip(job.parts[home.part].groups, counts, strict=True), server)
        if stay:
            gone = set(members)
            waiting[:] = [member for member in waiting if member not in gone]
        return members

    def _idle(self, number: int) -> set[int]:
        """Return the jobs of a class that have not been given a cut yet."""
        if number not in self._left:
            self._left[number] = set(self.classes.jobs[number].members)
        return self._left[number]

    def _exchange(self, lists: dict[Node, list[int]], kinds: tuple[str, ...]) -> None:
        """Turn rooms, or pieces that are asked for, into smaller ones, the largest first."""
        steps = [(column, times) for column, times in self.used if column.kind in kinds]
        for column, times in sorted(steps, key=lambda step: self._size(step[0]), reverse=True):
            node = (column.what[0], column.what[1])
            first = max(0, len(lists[node]) - times)  # what costs nothing may be done more often than asked
            moved = lists[node][first:]
            del lists[node][first:]
            if column.kind == "host":
                lists[column.what[2], column.what[3]] += moved
            else:
                for i in column.what[2:]:
                    lists[column.what[0], i] += moved

    def _size(self, column: Column) -> tuple[int, int, bool]:
        """Return a figure that only falls along exchanges: of tasks, of what one of each asks, of models."""
        kind, i = self.classes.kinds[column.what[0]], column.what[1]
        counts = self.classes.pieces[column.what[0]][i]
        return int(counts.sum()), sum(map(sum, kind.demands)), kind.gpu_model is not None
