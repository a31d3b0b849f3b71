"""How results are shown: tables for people, JSON lines and CSV for programs."""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ...formulations.common.tolerance import agree
from ...instances.common.printable import visible
from .terminal import below

if TYPE_CHECKING:
    from ...solvers.common.result import ObjectiveRecord, Result

Format = Literal["table", "json", "csv"]
MOST_ROWS = 60
MOST_REASONS = 5
ACTIONS = ("start", "keep", "move", "stop", "wait")
COLUMNS = (
    "instance",
    "kind",
    "solver",
    "status",
    "limit",
    "objective_name",
    "objective",
    "bound",
    "gap",
    "certified_bound",
    "certified_gap",
    "runtime_s",
    "objectives",
)


class VisibleConsole(Console):
    """A console that shows what is not printable in everything it prints."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield what is to be printed, its text made visible."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else visible(segment.text)
            yield segment if text == segment.text else Segment(text, segment.style)


def console(stderr: bool = False) -> VisibleConsole:
    """Return a console that does not cut lines where the output is not a terminal."""
    stream = below(sys.stderr if stderr else sys.stdout)
    width = None if stream.isatty() else 200
    return VisibleConsole(file=stream, width=width, highlight=False, emoji=False)


def figure(value: float | None, digits: int = 7) -> str:
    """Return a number for people; an unknown one is a dash."""
    if value is None:
        return "–"
    if value == int(value) and abs(value) < 1e12:
        return f"{int(value):,}"
    return (
        f"{value:,.{max(0, digits - len(str(int(abs(value)))))}f}"
        if 1e-3 <= abs(value) < 1e12
        else f"{value:.4g}"
    )


def percent(value: float | None) -> str:
    """Return a gap in per cent; a proven one is 0."""
    if value is None:
        return "–"
    if value == 0:
        return "0 %"
    return f"{100 * value:.2f} %" if value >= 5e-5 else f"{100 * value:.0e} %"


def table(columns: Sequence[tuple[str, bool]], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table of plain text; a column is (title, whether it holds numbers)."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for title, numeric in columns:
        made.add_column(title, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
    for row in rows:
        made.add_row(*map(Text, row))
    return made


def status_text(result: Result) -> str:
    """Return the status, and the limit that was hit if any."""
    return result.status if result.limit == "none" else f"{result.status} ({result.limit} limit)"


FIGURES = (("objective", False), ("value", True), ("bound", True), ("gap", True), ("certified bound", True))
NARROW = 130
"""Below this width a result gets a line of its own above its figures."""


def _figures(record: ObjectiveRecord | None) -> list[str]:
    """Return the cells of `FIGURES` for one objective."""
    if record is None:
        return ["–"] * len(FIGURES)
    name = f"{record.name} [{record.unit}]" if record.unit != record.name else record.name
    return [
        name,
        figure(record.value),
        figure(record.bound),
        percent(record.gap),
        figure(record.certified_bound),
    ]


def summary(results: Sequence[Result], width: int) -> list[Table | str]:
    """Return what to print of the results: one wide table, or a line and a small table for each."""
    if width < NARROW:
        return [part for result in results for part in _summary_in_parts(result)]
    columns = [
        ("instance", False),
        ("solver", False),
        ("status", False),
        *FIGURES,
        ("check", False),
        ("seconds", True),
    ]
    rows = []
    for result in results:
        head = [result.instance, result.solver, status_text(result)]
        tail = [_check(result), f"{result.runtime_s:.2f}"]
        for index, record in enumerate(result.objectives or [None]):
            first = index == 0
            rows.append([*(head if first else [""] * 3), *_figures(record), *(tail if first else [""] * 2)])
    return [table(columns, rows)]


def _check(result: Result) -> str:
    """Return what was checked before the result was returned: all of it, or the plan but not every bound."""
    if result.plan is None:
        return "–"
    for record in result.objectives:
        bound, certified = record.bound, record.certified_bound
        if bound != certified and (bound is None or certified is None or not agree(bound, certified)):
            return "plan verified"
    return "verified"


def _summary_in_parts(result: Result) -> list[Table | str]:
    check = f", {_check(result)}" if result.plan is not None else ""
    line = f"{result.instance}: {status_text(result)}, by {result.solver} in {result.runtime_s:.2f} s{check}"
    if not result.objectives:
        return [line]
    return [line, table(FIGURES, map(_figures, result.objectives))]


def plan_table(result: Result) -> Table | None:
    """Return the plan of a result, at most 60 rows of it."""
    if result.plan is None:
        return None
    entries = [entry.model_dump() for entry in result.plan[:MOST_ROWS]]
    if result.kind == "allocation":
        columns = [("job", False), ("placed", False), ("variant", False), ("ps", True), ("workers", True)]
        columns.append(("seconds", True))
        digits = 1 if max(e["completion_s"] for e in entries) >= 1000 else 3
        rows = [
            [
                e["job"],
                "yes" if e["placed"] else "no",
                e["variant"] or "–",
                str(e["ps"]),
                str(e["workers"]),
                f"{e['completion_s']:,.{digits}f}",
            ]
            for e in entries
        ]
    elif result.kind == "staging":
        columns = [("stage", True), ("layers", False), ("type", False), ("units", True)]
        rows = [
            [str(i), f"{e['first_layer']}–{e['last_layer']}", e["type"], str(e["units"])]
            for i, e in enumerate(entries)
        ]
    else:
        acts = any(e["action"] for e in entries)
        columns = [("job", False), ("action" if acts else "placed", False), ("where, or why not", False)]
        rows = [[e["job"], e["action"] or ("yes" if e["placed"] else "no"), _where(e)] for e in entries]
    made = table(columns, rows)
    if len(result.plan) > MOST_ROWS:
        made.caption = f"{len(result.plan) - MOST_ROWS} more; see --format json"
    return made


def _where(entry: dict[str, Any]) -> str:
    if not entry["placed"]:
        return entry["reason"] or ""
    groups = entry["groups"] or {"": entry["servers"]}
    parts = [
        f"{group + ': ' if group else ''}" + ", ".join(f"{n}×{server}" for server, n in placed.items())
        for group, placed in groups.items()
    ]
    return "; ".join(parts)


def notes(result: Result) -> list[str]:
    """Return what else there is to say about a result, a line each."""
    lines = [result.message] if result.message else []
    if result.diagnosis:
        lines += [f"why: {reason}" for reason in result.diagnosis.reasons]
        lines += [f"what would help: {remedy}" for remedy in result.diagnosis.remedies]
    return lines + _what_to_do(result) + _who_waits(result)


def _what_to_do(result: Result) -> list[str]:
    """Return how many jobs a placement on a running cluster starts, keeps, moves and stops."""
    if result.kind != "consolidation" or result.plan is None:
        return []
    counts = Counter(entry.model_dump(include={"action"})["action"] for entry in result.plan)
    parts = [f"{counts[action]:,} to {action}" for action in ACTIONS if counts[action]]
    return [f"jobs: {', '.join(parts)}"] if parts else []


def _who_waits(result: Result) -> list[str]:
    """Return how many jobs a placement leaves out, and the commonest reasons, if the table shows not all."""
    if result.kind != "consolidation" or result.plan is None or len(result.plan) <= MOST_ROWS:
        return []
    entries = [entry.model_dump(include={"placed", "reason"}) for entry in result.plan]
    reasons = Counter(entry["reason"] or "no reason given" for entry in entries if not entry["placed"])
    if not reasons:
        return [f"all {len(entries):,} jobs are placed"]
    shown = [f"  {count:,} × {reason}" for reason, count in reasons.most_common(MOST_REASONS)]
    more = sum(reasons.values()) - sum(count for _, count in reasons.most_common(MOST_REASONS))
    rest = [f"  {more:,} × other reasons; see --format json"] if more else []
    return [f"{sum(reasons.values()):,} of {len(entries):,} jobs are not placed", *shown, *rest]


def safe_cell(value: Any) -> Any:
    """Return a CSV cell that no spreadsheet takes for a formula, and no terminal for a command."""
    if not isinstance(value, str):
        return value
    return visible(f"'{value}" if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value)


def csv_row(result: Result) -> list[Any]:
    """Return the figures of `COLUMNS`."""
    data = result.model_dump()
    data["objective_name"] = result.deciding.name if result.deciding else None
    data["objectives"] = "; ".join(
        f"{r.name}={r.value:.10g}" for r in result.objectives if r.value is not None
    )
    return [safe_cell(data[column]) for column in COLUMNS]


def csv_line(cells: Sequence[Any]) -> str:
    """Return one line of CSV without its end."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()
