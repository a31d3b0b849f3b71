"""From a plan to columns of the class model, so that the model holds the plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ...formulations.consolidation.classes import ClassTable, JobClass
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import JobPlacement
from .master import Master
from .price_jobs import Cut, Stay


def read_in(formulation: ConsolidationFormulation, master: Master, plan: Sequence[JobPlacement]) -> None:
    """Add the loads and cuts of a feasible plan to the class model."""
    reader = _Reader(master.classes)
    entries = {entry.job: entry for entry in plan}
    positions = {name: n for n, name in enumerate(formulation.servers)}
    for c, job in enumerate(master.classes.jobs):
        for member in job.members:
            asked = formulation.instance.jobs[member]
            tasks: dict[int, list[int]] = {}
            for g, group in enumerate(asked.task_groups):
                for name, count in entries[asked.name].tasks.get(group.name, {}).items():
                    tasks.setdefault(positions[name], [0] * len(asked.task_groups))[g] = count
            if tasks:
                master.add_cut(c, *reader.cut(job, member, tasks))
    for number, server in enumerate(master.classes.servers):
        for n in server.members:
            others = ((k, reader.rows[k][tuple(held)]) for k, held in sorted(reader.held[n].items()))
            master.add_load(number, (*sorted(reader.stayed[n]), *others))


class _Reader:
    """Cuts jobs as a plan does, and notes what each server holds.

    Attributes
    ----------
    held
        Server → kind → tasks of each group of what is not at home.
    stayed
        Server → home kinds and rows of pieces at home.
    """

    def __init__(self, classes: ClassTable) -> None:
        self.classes = classes
        self.rows = [{tuple(row): i for i, row in enumerate(slots.tolist())} for slots in classes.slots]
        self.held: dict[int, dict[int, list[int]]] = defaultdict(dict)
        self.stayed: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def cut(self, job: JobClass, member: int, tasks: dict[int, list[int]]) -> tuple[Cut, Stay]:
        """Return the pieces of a job, and those at home, from its tasks by server and group."""
        cut: list[int] = []
        stay: list[tuple[int, int]] = []
        for server, counts in tasks.items():
            for p, part in enumerate(job.parts):
                here = [counts[g] for g in part.groups]
                for h, home in enumerate(job.homes):
                    if home.part == p and member in self.classes.at_home[home.kind].get(server, ()):
                        at_home = tuple(map(min, here, home.kept)) if job.loose else tuple(here)
                        if any(at_home):
                            row = self.rows[home.kind][at_home]
                            stay.append((h, row))
                            self.stayed[server].append((home.kind, row))
                            here = [a - b for a, b in zip(here, at_home, strict=True)]
                if any(here):
                    held = self.held[server].setdefault(part.kind, [0] * len(here))
                    held[:] = [a + b for a, b in zip(held, here, strict=True)]
                    if not job.loose:
                        cut.append(self.rows[part.kind][tuple(here)])
        return tuple(sorted(cut, reverse=True)), tuple(sorted(stay))
