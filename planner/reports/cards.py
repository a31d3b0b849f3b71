"""Short fragments of HTML for notebooks: a small table each, without scripts, for light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from ...instances.allocation import AllocationInstance
from ...instances.base import Instance
from ...instances.consolidation import ConsolidationInstance
from ...instances.staging import StagingInstance
from ..output import percent
from .words import counted, duration, listed, short, status_words

if TYPE_CHECKING:
    from ...solvers.allocation_frontier import AllocationFrontier
    from ...solvers.frontier import Frontier
    from ...solvers.result import Result
    from ..comparison import Comparison

MOST_LINES = 12
MOST_POINTS = 6
# No colours but those of the notebook: text inherits, and lines are a translucent grey.
EDGE = "1px solid rgba(128,128,128,.4)"
TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.2em 0"
CELL = "padding:.15em .7em;vertical-align:top"


def result_card(result: Result) -> str:
    """Return a result: how good it is in each objective, and its plan in a line."""
    head = f"{status_words(result.status, result.limit)}, by {result.solver} in {duration(result.runtime_s)}"
    rows = [
        [
            record.name if record.unit == record.name else f"{record.name} [{record.unit}]",
            short(record.value, 8),
            short(record.bound, 8),
            percent(record.gap),
            short(record.certified_bound, 8),
        ]
        for record in result.objectives
    ]
    lines = _plan_lines(result)
    if result.message:
        lines.append(result.message)
    if result.diagnosis is not None:
        lines += [f"why: {reason}" for reason in result.diagnosis.reasons[:MOST_LINES]]
    titles = ["objective", "value", "bound", "gap", "certified bound"]
    return _card(f"{result.instance} ({result.kind})", head, titles, rows, lines)


def _plan_lines(result: Result) -> list[str]:
    if result.plan is None:
        return []
    if result.kind == "staging":
        from .chains import in_short

        return [f"plan: {in_short(result.plan, 8)}"]  # type: ignore[arg-type]
    placed = sum(entry.model_dump(include={"placed"})["placed"] for entry in result.plan)
    return [f"plan: {placed:,} of {counted(len(result.plan), 'job')} placed"]


def frontier_card(frontier: Frontier | AllocationFrontier) -> str:
    """Return a frontier: some of its points, the ends among them, and what is certified."""
    count = len(frontier.points)
    chosen = sorted({round(part * (count - 1) / (MOST_POINTS - 1)) for part in range(MOST_POINTS)})
    chosen = chosen if count else []
    titles, rows = _clusters(frontier, chosen) if frontier.kind == "allocation" else _plans(frontier, chosen)
    head = f"{status_words(frontier.status, frontier.limit)}: {counted(count, 'point')}"
    error = frontier.certified_error
    known = "not certified"
    if error is not None:
        known = f"certified: no plan beats the points by more than {percent(error)}"
    more = [f"{len(rows)} of {count:,} points are shown"] if len(rows) < count else []
    reasons = frontier.diagnosis.reasons[:MOST_LINES] if frontier.diagnosis else ()
    return _card(f"Frontier of {frontier.instance}", head, titles, rows, [known, *more, *reasons])


def _plans(frontier: Frontier, chosen: Sequence[int]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            f"{index + 1:,}",
            short(frontier.points[index].throughput_samples_per_s),
            short(frontier.points[index].cost_usd),
            duration(frontier.points[index].time_s),
            short(frontier.points[index].rate_usd_per_hour),
        ]
        for index in chosen
    ]
    return ["point", "samples/s", "USD", "training", "USD/h"], rows


def _clusters(frontier: AllocationFrontier, chosen: Sequence[int]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            f"{index + 1:,}",
            short(frontier.points[index].rate_usd_per_hour),
            duration(frontier.points[index].mean_completion_s),
            duration(frontier.points[index].bound_s),
        ]
        for index in chosen
    ]
    return ["point", "USD/h", "mean completion", "bound"], rows


def comparison_card(comparison: Comparison) -> str:
    """Return how each solver did over all instances."""
    titles = [
        "solver",
        "instances",
        "optimal",
        "plans",
        "failed",
        "best plan",
        "seconds (mean)",
        "gap (mean)",
    ]
    rows = [
        [
            one.solver,
            *(f"{count:,}" for count in (one.instances, one.optimal, one.plans, one.failed, one.wins)),
            duration(one.mean_runtime_s),
            percent(one.mean_gap_to_best_bound),
        ]
        for one in comparison.summary()
    ]
    solvers, instances = len(comparison.solvers), len(comparison.instances)
    head = f"{counted(solvers, 'solver')} on {counted(instances, 'instance')}"
    lines = ["interrupted: some pairs are missing"] if comparison.interrupted else []
    lines += [f"left out: {fault}" for fault in comparison.faults[:MOST_LINES]]
    return _card("Comparison", head, titles, rows, lines)


def instance_card(instance: Instance) -> str:
    """Return what is to be planned."""
    rows = [[name, value] for name, value in _instance_rows(instance)]
    lines = [f"source: {instance.source}"] if instance.source else []
    if instance.assumptions:
        lines.append(f"{counted(len(instance.assumptions), 'assumption')}; see .assumptions")
    return _card(instance.name, instance.kind, [], rows, lines)


def _instance_rows(instance: Instance) -> list[tuple[str, str]]:
    if isinstance(instance, AllocationInstance):
        there = [f"{short(amount)} {name}" for name, amount in instance.resources.items()]
        rows = [("jobs", f"{len(instance.jobs):,}"), ("resources", listed(there, 10))]
        return [*rows, ("objective", instance.objective.replace("_", " "))]
    if isinstance(instance, StagingInstance):
        kinds = [f"{'' if kind.limit is None else f'{kind.limit:,} '}{kind.name}" for kind in instance.types]
        rows = [("layers", f"{len(instance.layers):,}"), ("types", listed(kinds, 10))]
        return [*rows, ("objective", instance.objective)]
    if isinstance(instance, ConsolidationInstance):
        servers = sum(server.count or 1 for server in instance.servers)
        rows = [("servers", f"{servers:,}"), ("jobs", f"{len(instance.jobs):,}")]
        return [*rows, ("objectives", ", ".join(instance.objectives))]
    return []


def _card(
    title: str, head: str, titles: Sequence[str], rows: Sequence[Sequence[str]], lines: Sequence[str]
) -> str:
    """Return a fragment; all text is escaped here."""
    parts = [f"<div><strong>{escape(title)}</strong>: {escape(head)}"]
    if rows:
        parts.append(f'<table style="{TABLE}">')
        if titles:
            cells = "".join(_cell("th", name, index) for index, name in enumerate(titles))
            parts.append(f"<thead><tr>{cells}</tr></thead>")
        body = "".join(
            "<tr>"
            + "".join(_cell("td", text, index if titles else 0) for index, text in enumerate(row))
            + "</tr>"
            for row in rows
        )
        parts.append(f"<tbody>{body}</tbody></table>")
    parts += [f'<div style="opacity:.8">{escape(line)}</div>' for line in lines]
    return "".join(parts) + "</div>"


def _cell(tag: str, text: str, index: int) -> str:
    scope = ' scope="col"' if tag == "th" else ""
    align = "right" if index else "left"
    return f'<{tag}{scope} style="{CELL};text-align:{align};border-bottom:{EDGE}">{escape(text)}</{tag}>'
