"""Servers of a plan on pages: a bar for each, with the part that each job uses, and a map of all.

A bar shows the part of a server that each job uses, that others hold, and that is free.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..output import grouped
from .page import Cell, Column, Context, Table, number
from .plot_style import Figure, axis, markers, plot_of, plot_text
from .text import counted, short

MAX_SERVERS = 320
MAX_STATES = 40
ROUNDING_SHARE = 1e-9
"""Shares of a server below this are rounding errors."""
LONGEST, BEGINNING = 18, 7
"""Most characters of a server's label beside its bar, and of the part before the ellipsis."""
MAX_CELLS = 5_000
"""Most servers drawn in a map; each is an element of the page."""
MAP_WIDTH, MAP_HEIGHT = 860, 290
"""Size in pixels of the area in which cells are drawn."""


@dataclass
class ServerUsage:
    """The usage of one server; amounts are in units of the resource drawn, such as GPUs.

    Attributes
    ----------
    resource
        What is drawn of it.
    allocations
        Job, amount and tasks in words, in the order of the plan.
    drained
        Whether the server is to be empty, so that no task may use what is free.
    """

    name: str
    gpu_model: str | None
    rack: str | None
    resource: str
    capacity: float
    taken: float
    drained: bool = False
    allocations: list[tuple[str, float, str]] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, server: Any, resource: str, drained: bool = False) -> ServerUsage:
        """Return the usage of a server of an instance, of which a plan uses nothing yet."""
        capacity = server.capacity.get(resource, 0.0)
        taken = capacity - server.available.get(resource, 0.0)
        return cls(name, server.gpu_model, server.rack, resource, capacity, taken, drained)

    @property
    def used(self) -> float:
        """Amount of the resource that the plan uses."""
        return sum(amount for _, amount, _ in self.allocations)

    @property
    def free(self) -> float:
        """Amount of the resource that neither the plan nor others use."""
        left = self.capacity - self.taken - self.used
        return left if left > ROUNDING_SHARE * self.capacity else 0.0

    @property
    def busy(self) -> float:
        """Share of the server's capacity that is in use, by the plan or by others."""
        return 1.0 - self.free / self.capacity if self.capacity else 0.0

    @property
    def state(self) -> tuple[str, float, float, float]:
        """Key of equivalent servers: GPU model, capacity, amount used by the plan, amount held by others."""
        return (self.gpu_model or "–", self.capacity, round(self.used, 6), round(self.taken, 6))


@dataclass(frozen=True)
class BarSegment:
    """A segment of a server's bar: a job with its `colour`, free capacity, or what others hold (`taken`)."""

    share: float
    words: str
    label: str = ""
    colour: int | None = None
    taken: bool = False


class ServersInUse:
    """The usage of all servers of an instance under a plan, by the resource that is drawn.

    Attributes
    ----------
    resource
        Its name.
    rows
        Name → usage of each server.
    """

    def __init__(self, resource: str, rows: Mapping[str, ServerUsage]) -> None:
        self.resource, self.rows = resource, rows

    @cached_property
    def colours(self) -> dict[str, int]:
        """Number of the colour of each job, in the order of the servers."""
        order = (job for row in self.rows.values() for job, _, _ in row.allocations)
        return {job: index for index, job in enumerate(dict.fromkeys(order))}

    @property
    def busy(self) -> int:
        """Number of servers that the plan uses."""
        return sum(bool(row.allocations) for row in self.rows.values())

    def parts(self) -> Context:
        """Return the variables of `servers.html.j2`, the template that draws servers, and their figures."""
        racks = self.racks()
        detailed = {row.name for rows in racks.values() for row in rows}
        rest = [row for name, row in self.rows.items() if name not in detailed]
        figures = {"map": _map(self)} if rest and len(self.rows) <= MAX_CELLS else {}
        return {
            "data": {"figures": figures},
            "servers": self,
            "racks": [
                (self.title(name, rows), [(row, self.segments(row)) for row in rows])
                for name, rows in racks.items()
            ],
            "named": "" not in racks,
            "detailed": len(detailed),
            "states": self.states_table(rest) if rest else None,
            "slots": _slots,
        }

    def racks(self) -> dict[str, list[ServerUsage]]:
        """Return the servers shown one by one, by rack: at most `MAX_SERVERS`, whole racks if possible."""
        by_rack = grouped((row.rack or "", row) for row in self.rows.values())
        detailed: dict[str, list[ServerUsage]] = {}
        room = MAX_SERVERS
        for name, rows in by_rack.items():
            if room <= 0:
                break
            detailed[name] = rows[:room]
            room -= len(rows)
        return detailed

    @cached_property
    def _domain(self) -> str:
        """DNS domain shared by all server names, such as `.us-east-2.compute.internal`, else empty."""
        domains = {name.partition(".")[2] for name in self.rows}
        return f".{domains.pop()}" if len(domains) == 1 and len(self.rows) > 1 else ""

    def label(self, name: str) -> str:
        """Return a server's name without the shared domain, with its middle cut out if it is long."""
        own = name.removesuffix(self._domain)
        return own if len(own) <= LONGEST else f"{own[:BEGINNING]}…{own[-(LONGEST - BEGINNING - 1) :]}"

    def segments(self, row: ServerUsage) -> list[BarSegment]:
        """Return the segments of a server's bar: its jobs, free capacity, and what others hold."""
        if not row.capacity:
            return []
        parts = []
        for job, amount, tasks in row.allocations:
            words = f"{job}: {tasks}, {short(amount)} {row.resource}"
            parts.append(BarSegment(amount / row.capacity, words, job, self.colours[job]))
        if row.free:
            state = "to be empty" if row.drained else "free"
            words = f"{state}: {short(row.free)} {row.resource}"
            parts.append(BarSegment(row.free / row.capacity, words, state if row.drained else ""))
        if row.taken > ROUNDING_SHARE * row.capacity:
            what = f"taken by others: {short(row.taken)} {row.resource}"
            parts.append(BarSegment(row.taken / row.capacity, what, taken=True))
        return parts

    def title(self, rack: str, rows: Sequence[ServerUsage]) -> str:
        """Return the heading of a rack, with its servers and their usage."""
        of = sum(row.capacity for row in rows)
        busy = of - sum(row.free for row in rows)
        name = f"{rack}: " if rack.startswith("rack") else f"rack {rack}: " if rack else ""
        what = " or ".join(dict.fromkeys(row.resource for row in rows))
        return f"{name}{counted(len(rows), 'server')}, {short(busy)} of {short(of)} {what} in use"

    def states_table(self, rest: Iterable[ServerUsage]) -> Table:
        """Return the table of the servers not drawn one by one, with the count of each equal usage."""
        counts = Counter(row.state for row in rest)
        shown = counts.most_common(MAX_STATES)
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
            for (model, capacity, used, taken), count in shown
        ]
        total = counts.total()
        left = total - sum(count for _, count in shown)
        notes = [f"{left:,} more servers, in {len(counts) - MAX_STATES:,} more states."] if left else []
        caption = f"The other {total:,} servers, by what they hold of {unit}"
        return Table("states", caption, columns, rows, footnotes=notes)


def _slots(capacity: float) -> int:
    """Return into how many units a server's bar is ruled; 1 if there are too many or no integer number."""
    return int(capacity) if capacity == int(capacity) and 1 <= capacity <= 16 else 1


def _map(servers: ServersInUse) -> Figure:
    """Return the plot of all servers as squares in a grid, coloured by the share of capacity in use."""
    rows = list(servers.rows.values())
    wide = math.ceil(math.sqrt(2.5 * len(rows)))

    def words(row: ServerUsage) -> str:
        used, free = short(row.used), short(row.free)
        return f"{plot_text(row.name)}<br>plan {used}, others {short(row.taken)}, free {free}"

    trace = markers(
        [place % wide for place in range(len(rows))],
        [place // wide for place in range(len(rows))],
        customdata=[words(row) for row in rows],
        hovertemplate="%{customdata}<extra></extra>",
        marker={
            "symbol": "square",
            "size": max(2, round(0.85 * min(MAP_WIDTH / wide, MAP_HEIGHT / (len(rows) // wide + 1)))),
            "color": [round(100 * row.busy, 2) for row in rows],
            "cmin": 0,
            "cmax": 100,
            "colorscale": [[0, "@low"], [0.5, "@middle"], [1, "@high"]],
            "colorbar": {
                "title": {"text": f"{plot_text(servers.resource)} in use [%]", "side": "right"},
                "thickness": 12,
                "outlinewidth": 0,
                "tickfont": {"color": "@muted"},
            },
        },
    )
    hidden = {"showgrid": False, "zeroline": False, "showticklabels": False, "ticks": ""}
    x, y = axis("", **hidden), axis("", autorange="reversed", **hidden)
    x["title"], y["title"] = {"text": ""}, {"text": ""}
    return plot_of([trace], x, y, 380, margin={"l": 8, "r": 8, "t": 34, "b": 8})
