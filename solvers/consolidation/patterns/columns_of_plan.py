"""Warm-start columns: the patterns of a plan, so that the master problem holds the plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ....formulations.consolidation.classes import ClassTable, JobClass
from ....formulations.consolidation.formulation import ConsolidationFormulation
from ....formulations.consolidation.plan import JobPlacement
from .master import RestrictedMaster
from .price_jobs import JobPattern, Stay


def add_plan_columns(
    formulation: ConsolidationFormulation, master: RestrictedMaster, plan: Sequence[JobPlacement]
) -> None:
    """Add the patterns of servers and jobs of a feasible plan to the master problem."""
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
                master.add_job_pattern(c, *reader.pattern(job, member, tasks))
    for number, server in enumerate(master.classes.servers):
        for n in server.members:
            others = ((k, reader.rows[k][tuple(held)]) for k, held in sorted(reader.held[n].items()))
            master.add_server_pattern(number, (*sorted(reader.stayed[n]), *others))


class _Reader:
    """Cuts jobs as a plan does, and notes what each server holds.

    Attributes
    ----------
    held
        Server → shape → tasks of each group of what is not at their current place.
    stayed
        Server → shapes of current placements, and rows of pieces that stay.
    """

    def __init__(self, classes: ClassTable) -> None:
        self.classes = classes
        self.rows = [{tuple(row): i for i, row in enumerate(slots.tolist())} for slots in classes.slots]
        self.held: dict[int, dict[int, list[int]]] = defaultdict(dict)
        self.stayed: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def pattern(self, job: JobClass, member: int, tasks: dict[int, list[int]]) -> tuple[JobPattern, Stay]:
        """Return the pieces of a job, and those at home, from its tasks by server and group."""
        pattern: list[int] = []
        stay: list[tuple[int, int]] = []
        for server, counts in tasks.items():
            for p, part in enumerate(job.parts):
                here = [counts[g] for g in part.groups]
                for h, current in enumerate(job.current):
                    if current.part == p and member in self.classes.placed_now[current.shape].get(server, ()):
                        # Of a loose job as many tasks stay as were there; of others the whole piece does.
                        staying = tuple(map(min, here, current.kept)) if job.loose else tuple(here)
                        if any(staying):
                            row = self.rows[current.shape][staying]
                            stay.append((h, row))
                            self.stayed[server].append((current.shape, row))
                            here = [a - b for a, b in zip(here, staying, strict=True)]
                if any(here):
                    held = self.held[server].setdefault(part.shape, [0] * len(here))
                    held[:] = [a + b for a, b in zip(held, here, strict=True)]
                    # Tasks of loose jobs are pieces by themselves, which no pattern has to name.
                    if not job.loose:
                        pattern.append(self.rows[part.shape][tuple(here)])
        return tuple(sorted(pattern, reverse=True)), tuple(sorted(stay))
