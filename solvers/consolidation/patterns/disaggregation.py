"""Disaggregation of pattern counts into named servers and jobs, and the patterns of a given plan.

The patterns of a plan are warm-start columns, so that the master problem contains the plan.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

import numpy as np

from ....formulations.consolidation.classes import ClassTable, JobClass
from ....formulations.consolidation.formulation import ConsolidationFormulation
from ....formulations.consolidation.plan import JobPlacement, Plan, entry_of
from ....instances.common.arrays import Ints
from .master import Column, RestrictedMaster
from .pricing import JobPattern, Stay

Node = tuple[int, int]
"""Number of a shape, and of one of its pieces."""


class Disaggregation:
    """Converts an integer solution of the pattern formulation into named servers and jobs.

    Servers and jobs of a class are taken in the order of the instance, and equal slots and pieces are matched
    in that order too.
    """

    def __init__(self, formulation: ConsolidationFormulation, master: RestrictedMaster, values: Ints) -> None:
        self.formulation, self.classes = formulation, master.classes
        self.used = [(c, int(n)) for c, n in zip(master.columns, values.tolist(), strict=False) if n > 0]
        self.slots_free: dict[Node, list[int]] = defaultdict(list)
        self.asked: dict[Node, list[int]] = defaultdict(list)
        self.apart: dict[Node, list[int]] = defaultdict(list)
        self.current: dict[Node, list[int]] = defaultdict(list)
        # Of each job by group and server.
        self.tasks: dict[int, dict[int, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
        self.idle: dict[int, set[int]] = {}

    def plan(self) -> list[JobPlacement]:
        """Return the plan on named servers: the placement of each job, in the order of the instance."""
        self._servers()
        loose = self._jobs()
        self._exchange(self.slots_free, ("split", "host"))
        self._exchange(self.apart, ("apart",))
        self._match(loose)
        formulation = self.formulation
        names = list(formulation.servers)
        plan = []
        for position, job in enumerate(formulation.instance.jobs):
            groups = job.task_groups
            tasks = self.tasks.get(position, {})
            named = {
                groups[g].name: {names[n]: count for n, count in sorted(placed.items())}
                for g, placed in sorted(tasks.items())
            }
            plan.append(entry_of(job, named))
        return plan

    def _match(self, loose: Sequence[tuple[int, int]]) -> None:
        """Assign the tasks of jobs to the server capacity that patterns reserve for tasks of their size.

        If racks are an objective, the largest jobs choose first.
        """
        needs: dict[int, list[tuple[Node, tuple[int, ...], int]]] = defaultdict(list)
        for node, jobs in [*self.asked.items(), *self.apart.items()]:
            for job in jobs:
                groups = tuple(range(self.classes.pieces[node[0]].shape[1]))
                needs[job].append((node, groups, 1))
        for job, number in loose:
            for part in self.classes.jobs[number].parts:
                count = part.tasks[0] - self.tasks[job][part.groups[0]].total()
                if count:
                    needs[job].append(((part.shape, 0), part.groups, count))
        order = sorted(needs)
        racks = dict.fromkeys(self.formulation.servers, "")
        if "racks" in self.formulation.instance.objectives:
            # Large jobs need a rack with much left, so they choose while there are some.
            order.sort(key=lambda job: -sum(count for _, _, count in needs[job]))
            racks = {server: self.formulation.rack_of(server) for server in racks}
        slots_left = SlotAssignment(self.slots_free, [*racks.values()])
        for job in order:
            total: dict[Node, int] = defaultdict(int)
            for node, _, count in needs[job]:
                total[node] += count
            own_servers = {server for placed in self.tasks[job].values() for server in placed}
            servers = slots_left.take(total, own_servers)
            # Pieces that meet on a server are merged.
            for node, groups, count in needs[job]:
                counts = self.classes.pieces[node[0]][node[1]].tolist()
                for _ in range(count):
                    self._put(job, zip(groups, counts, strict=True), servers[node].pop(0))

    def _put(self, job: int, tasks: Iterable[tuple[int, int]], server: int) -> None:
        """Add tasks of a job, pairs of group and number, to a server."""
        for g, count in tasks:
            if count:
                self.tasks[job][g][server] += count

    def _servers(self) -> None:
        """Assign each server pattern of the solution to the next servers of its class."""
        following: dict[int, int] = defaultdict(int)
        for column, times in self.used:
            if column.type != "server":
                continue
            number, pattern = column.what
            # Members are taken in order, each for one pattern.
            first = following[number]
            following[number] += times
            members = self.classes.servers[number].members[first : first + times]
            for k, slot in pattern:
                single = self.classes.single(k)
                copies = int(self.classes.slots[k][slot, 0]) if single else 1
                slots_left = self.slots_free if self.classes.task_shapes[k].current is None else self.current
                slots_left[k, 0 if single else slot] += [n for n in members for _ in range(copies)]

    def _jobs(self) -> list[tuple[int, int]]:
        """Assign each job pattern of the solution to jobs of its class; return loose jobs with their class.

        Loose jobs are those whose number of servers does not matter.

        Patterns with pieces that stay go to the jobs on these servers, the others to the next jobs.
        """
        loose = []
        free: dict[int, list[int]] = {}
        patterns = [(column, times) for column, times in self.used if column.type == "job"]
        # Patterns with pieces that stay come first, for they need certain jobs.
        for column, times in sorted(patterns, key=lambda pattern: not pattern[0].what[2]):
            number, pattern, stay = column.what
            job = self.classes.jobs[number]
            waiting = free.setdefault(number, list(reversed(job.members)))
            members = self._stay(number, stay, times, waiting)
            if not stay:
                members = [waiting.pop() for _ in range(times)]
            if job.loose:
                loose += [(member, number) for member in members]
                continue
            parts = self.apart if job.fewest is not None and not job.lost else self.asked
            for i in pattern:
                parts[job.parts[0].shape, i] += members
        return loose

    def _stay(
        self, number: int, stay: Sequence[tuple[int, int]], times: int, waiting: list[int]
    ) -> list[int]:
        """Assign the staying tasks of a job pattern to jobs on their current servers; return these jobs."""
        job = self.classes.jobs[number]
        members: list[int] = []
        idle = self.idle.setdefault(number, set(job.members))
        for h, i in stay:
            current = job.current[h]
            counts = self.classes.pieces[current.shape][i].tolist()
            tasks = [*zip(job.parts[current.part].groups, counts, strict=True)]
            slots_left = self.current[current.shape, i]
            # A class of several jobs has them on one server each.
            for _ in range(times if len(job.members) > 1 else 1):
                server = slots_left.pop()
                member = job.members[0]
                if len(job.members) > 1:
                    member = next(m for m in self.classes.placed_now[current.shape][server] if m in idle)
                    idle.discard(member)
                members.append(member)
                self._put(member, tasks, server)
        if stay:
            gone = set(members)
            waiting[:] = [member for member in waiting if member not in gone]
        return list(dict.fromkeys(members))

    def _exchange(self, lists: dict[Node, list[int]], types: tuple[str, ...]) -> None:
        """Apply exchange columns to the servers listed by task combination, largest combinations first."""
        steps = [(column, times) for column, times in self.used if column.type in types]
        for column, times in sorted(steps, key=self._size, reverse=True):
            node = (column.what[0], column.what[1])
            first = max(0, len(lists[node]) - times)  # exchanges without cost may be used too often
            moved = lists[node][first:]
            del lists[node][first:]
            if column.type == "host":
                lists[column.what[2], column.what[3]] += moved
            else:
                for i in column.what[2:]:
                    lists[column.what[0], i] += moved

    def _size(self, step: tuple[Column, int]) -> tuple[int, int, bool]:
        """Return a sort key of an exchange column: tasks, demand, GPU restriction.

        The key only decreases along exchanges.
        """
        k, i, *_ = step[0].what
        shape, counts = self.classes.task_shapes[k], self.classes.pieces[k][i]
        return int(counts.sum()), sum(map(sum, shape.demands)), shape.gpu_model is not None


class SlotAssignment:
    """Assigns capacity that patterns reserve for tasks (slots) to jobs on few racks, greedily.

    It takes the rack with fewest slots of those with all that the job needs; if there is none, the racks
    with most of them, one after the other. Of a rack the servers come in their order.

    Parameters
    ----------
    free
        Servers with a slot of each size, repeated for several slots.
    racks
        Rack of each server; the same for all where racks do not matter.
    """

    def __init__(self, free: Mapping[Node, Iterable[int]], racks: Sequence[Hashable]) -> None:
        numbers = {rack: number for number, rack in enumerate(dict.fromkeys(racks))}
        self.racks = [numbers[rack] for rack in racks]
        self.only = [0] * (len(numbers) == 1)
        self.free: dict[Node, list[list[int]]] = {node: [[] for _ in numbers] for node in free}
        for node, servers in free.items():
            for server in sorted(servers, reverse=True):
                self.free[node][self.racks[server]].append(server)

    def take(self, needs: Mapping[Node, int], here: Collection[int]) -> dict[Node, list[int]]:
        """Return the servers for the tasks of a job, by task shape and combination of tasks.

        Parameters
        ----------
        here
            Servers on which the job is already; their racks are included.
        """
        left = dict(needs)
        taken: dict[Node, list[int]] = {node: [] for node in needs}
        own_racks = self.only.copy() or sorted({self.racks[server] for server in here}, reverse=True)
        while any(left.values()):
            rack = own_racks.pop() if own_racks else self._best_rack(left)
            for node, wanted in left.items():
                slots = self.free[node][rack]
                count = min(wanted, len(slots))
                taken[node] += [slots.pop() for _ in range(count)]
                left[node] -= count
        return taken

    def _best_rack(self, left: Mapping[Node, int]) -> int:
        """Return the rack that covers most of what is wanted, and of such racks that with least to spare."""
        counts = np.array([[*map(len, self.free[node])] for node in left])
        covered = np.minimum(counts, np.array([*left.values()])[:, None]).sum(axis=0)
        return int(np.lexsort((counts.sum(axis=0), -covered))[0])


def add_plan_columns(formulation: ConsolidationFormulation, master: RestrictedMaster, plan: Plan) -> None:
    """Add the server and job patterns of a feasible plan to the master problem."""
    reader = _PlanReader(master.classes)
    entries = {entry.job: entry for entry in plan}
    positions = {name: n for n, name in enumerate(formulation.servers)}
    for c, job in enumerate(master.classes.jobs):
        for member in job.members:
            instance_job = formulation.instance.jobs[member]
            tasks: dict[int, list[int]] = {}
            for g, group in enumerate(instance_job.task_groups):
                for name, count in entries[instance_job.name].tasks.get(group.name, {}).items():
                    tasks.setdefault(positions[name], [0] * len(instance_job.task_groups))[g] = count
            if tasks:
                master.add_job_pattern(c, *reader.pattern(job, member, tasks))
    for number, server in enumerate(master.classes.servers):
        for n in server.members:
            others = ((k, reader.rows[k][tuple(counts)]) for k, counts in sorted(reader.held[n].items()))
            master.add_server_pattern(number, (*sorted(reader.stayed[n]), *others))


class _PlanReader:
    """Reads the patterns of jobs from a plan, and records the tasks on each server.

    Attributes
    ----------
    held
        Server → shape → tasks of each group that do not stay in their current placement.
    stayed
        Server → shapes of current placements, and rows of pieces that stay.
    """

    def __init__(self, classes: ClassTable) -> None:
        self.classes = classes
        self.rows = [{tuple(row): i for i, row in enumerate(slots.tolist())} for slots in classes.slots]
        self.held: dict[int, dict[int, list[int]]] = defaultdict(dict)
        self.stayed: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def pattern(self, job: JobClass, member: int, tasks: dict[int, list[int]]) -> tuple[JobPattern, Stay]:
        """Return a job's pattern and its staying tasks, from its tasks by server and group.

        Both are indices of combinations of tasks.
        """
        pattern: list[int] = []
        stay: list[tuple[int, int]] = []
        for server, counts in tasks.items():
            for p, part in enumerate(job.parts):
                tasks_here = [counts[g] for g in part.groups]
                for h, current in enumerate(job.current):
                    if current.part == p and member in self.classes.placed_now[current.shape].get(server, ()):
                        # Of a loose job as many tasks stay as were there; of others the whole piece does.
                        staying = (
                            tuple(map(min, tasks_here, current.kept)) if job.loose else tuple(tasks_here)
                        )
                        if any(staying):
                            row = self.rows[current.shape][staying]
                            stay.append((h, row))
                            self.stayed[server].append((current.shape, row))
                            tasks_here = [a - b for a, b in zip(tasks_here, staying, strict=True)]
                if any(tasks_here):
                    contents = self.held[server].setdefault(part.shape, [0] * len(tasks_here))
                    contents[:] = [a + b for a, b in zip(contents, tasks_here, strict=True)]
                    # Tasks of loose jobs are pieces by themselves, which no pattern has to name.
                    if not job.loose:
                        pattern.append(self.rows[part.shape][tuple(tasks_here)])
        return tuple(sorted(pattern, reverse=True)), tuple(sorted(stay))
