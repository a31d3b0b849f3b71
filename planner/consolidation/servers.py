"""Servers as rows of slots: what each job takes of them, what others hold, what is free."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ...formulations.consolidation.plan import JobPlacement
from ...instances.consolidation.instance import ConsolidationInstance
from ...instances.consolidation.server import Server
from ..changes import leading
from ..reports.tables import Cell, Column, Table, number
from ..reports.text import counted, short
from .devices import available_of, capacity_of, demand_of

MOST_SERVERS = 320
MOST_STATES = 40
LEAST = 1e-9
"""Shares of a server below this are rounding."""
LONGEST, BEGINNING = 18, 7
"""Letters of a server's name beside its bar, and those that stand before what is left out."""


@dataclass
class Row:
    """One server; amounts are of the resource that is drawn.

    Attributes
    ----------
    held
        Job, amount and tasks, in the order of the plan.
    """

    server: Server
    capacity: float
    taken: float
    held: list[tuple[str, float, int]] = field(default_factory=list)

    @property
    def used(self) -> float:
        """What the plan takes."""
        return sum(amount for _, amount, _ in self.held)

    @property
    def free(self) -> float:
        """What is left."""
        left = self.capacity - self.taken - self.used
        return left if left > LEAST * self.capacity else 0.0

    @property
    def busy(self) -> float:
        """The share of the server that is in use by anybody."""
        return 1.0 - self.free / self.capacity if self.capacity else 0.0

    @property
    def state(self) -> tuple[str, float, float, float]:
        """What servers that look alike have in common: model, capacity, used, held by others."""
        return (self.server.gpu_model or "–", self.capacity, round(self.used, 6), round(self.taken, 6))


@dataclass(frozen=True)
class Segment:
    """A part of a server's bar: `job` is None for what others hold, `colour` for what nobody does."""

    share: float
    words: str
    label: str = ""
    colour: int | None = None
    taken: bool = False


class Servers:
    """All servers of an instance under a plan."""

    def __init__(self, instance: ConsolidationInstance, plan: Sequence[JobPlacement]) -> None:
        names = dict.fromkeys(name for server in instance.servers for name in capacity_of(server))
        groups = [group for job in instance.jobs for group in job.task_groups]
        asked = {name for group in groups for name, amount in group.demand.items() if amount}
        asked |= {name for group in groups for name in group.asks}
        # GPUs that nobody asks for are not what the plan is about.
        self.resource = leading([name for name in names if name in asked] or names)
        self.rows: dict[str, Row] = {}
        for server in instance.expanded_servers:
            capacity = capacity_of(server).get(self.resource, 0.0)
            there = available_of(server).get(self.resource, 0.0)
            self.rows[server.name] = Row(server, capacity, capacity - there)
        self.total: dict[str, list[float]] = self._total(instance, names)
        self._place(instance, plan)
        order = (job for row in self.rows.values() for job, _, _ in row.held)
        self.colours = {job: index for index, job in enumerate(dict.fromkeys(order))}

    @staticmethod
    def _total(instance: ConsolidationInstance, names: Iterable[str]) -> dict[str, list[float]]:
        """Return capacity, what others hold, and what the plan takes, of each resource."""
        total = {name: [0.0, 0.0, 0.0] for name in names}
        for server in instance.servers:
            count, there = server.count or 1, available_of(server)
            for name, amount in capacity_of(server).items():
                total[name][0] += count * amount
                total[name][1] += count * (amount - there.get(name, 0.0))
        return total

    def _place(self, instance: ConsolidationInstance, plan: Sequence[JobPlacement]) -> None:
        jobs = {job.name: job for job in instance.jobs}
        for entry in plan:
            here: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
            for group in jobs[entry.job].task_groups:
                for server, count in entry.tasks.get(group.name, {}).items():
                    demand = demand_of(group, self.rows[server].server)
                    here[server][0] += count * demand.get(self.resource, 0.0)
                    here[server][1] += count
                    for name, amount in demand.items():
                        self.total[name][2] += count * amount
            for server, (amount, tasks) in here.items():
                self.rows[server].held.append((entry.job, amount, int(tasks)))

    def racks(self) -> dict[str, list[Row]]:
        """Return the servers that are shown, by rack: whole racks in their order, while there is room."""
        by_rack: dict[str, list[Row]] = defaultdict(list)
        for row in self.rows.values():
            by_rack["" if row.server.rack is None else row.server.rack].append(row)
        shown: dict[str, list[Row]] = {}
        room = MOST_SERVERS
        for name, rows in by_rack.items():
            if room <= 0:
                break
            shown[name] = rows[:room]
            room -= len(rows)
        return shown

    @cached_property
    def _domain(self) -> str:
        """What follows the first dot of all names, such as `.us-east-2.compute.internal`."""
        domains = {name.partition(".")[2] for name in self.rows}
        return f".{domains.pop()}" if len(domains) == 1 and len(self.rows) > 1 else ""

    def label(self, name: str) -> str:
        """Return a server's name, or its beginning and its end, in which servers of a cloud differ."""
        own = name.removesuffix(self._domain)
        return own if len(own) <= LONGEST else f"{own[:BEGINNING]}…{own[-(LONGEST - BEGINNING - 1) :]}"

    def segments(self, row: Row) -> list[Segment]:
        """Return the parts of a server's bar."""
        if not row.capacity:
            return []
        parts = []
        for job, amount, tasks in row.held:
            words = f"{job}: {counted(tasks, 'task')}, {short(amount)} {self.resource}"
            parts.append(Segment(amount / row.capacity, words, job, self.colours[job]))
        if row.free:
            parts.append(Segment(row.free / row.capacity, f"free: {short(row.free)} {self.resource}"))
        if row.taken > LEAST * row.capacity:
            what = f"taken by others: {short(row.taken)} {self.resource}"
            parts.append(Segment(row.taken / row.capacity, what, taken=True))
        return parts

    def title(self, rack: str, rows: Sequence[Row]) -> str:
        """Return the heading of a rack."""
        of = sum(row.capacity for row in rows)
        busy = of - sum(row.free for row in rows)
        name = f"{rack}: " if rack.startswith("rack") else f"rack {rack}: " if rack else ""
        return f"{name}{counted(len(rows), 'server')}, {short(busy)} of {short(of)} {self.resource} in use"

    def states_table(self, rest: Iterable[Row]) -> Table:
        """Return the servers that are not shown one by one, counted by what they hold."""
        counts = Counter(row.state for row in rest)
        unit = self.resource
        columns = [
            Column("servers", True),
            Column("GPU model"),
            Column(f"{unit} each", True),
            Column("used by the plan", True),
            Column("taken by others", True),
            Column("free", True),
        ]
        rows = [
            [
                number(count),
                Cell(model),
                number(capacity),
                number(used),
                number(taken),
                number(max(0.0, capacity - used - taken)),
            ]
            for (model, capacity, used, taken), count in counts.most_common(MOST_STATES)
        ]
        total = sum(counts.values())
        left = total - sum(count for _, count in counts.most_common(MOST_STATES))
        notes = [f"{left:,} more servers, in {len(counts) - MOST_STATES:,} more states."] if left else []
        caption = f"The other {total:,} servers, by what they hold of {unit}"
        return Table("states", caption, columns, rows, footnotes=notes)
