"""The page of plans at the ends of intervals: the answer, what each plan loses where, and the intervals."""

from __future__ import annotations

from ...instances.common.uncertainty import Uncertain
from ..output.text import percent
from ..registry import KINDS
from ..robust import End, Regret, Robust
from .page import render
from .plot_style import Figure, axis, colour, layout
from .provenance import Facts, instance_facts, provenance, result_cell
from .tables import Cell, CellColumn, Column, Table, number, seconds, table_of, text
from .text import short

FACTOR_DIGITS = 3


def robust_page(found: Robust) -> str:
    """Return the page of plans at the ends of intervals."""
    proven = all(end.result.status in ("optimal", "infeasible") for end in found.ends)
    complete = proven and len(found.ends) == found.asked
    figure = _figure(found)
    return render(
        "robust.html.j2",
        scripts=(),
        data={"figures": {"ends": figure} if figure else {}},
        title=f"{found.instance.name}: how sure is the plan?",
        kicker=KINDS[found.instance.kind].title,
        verdict=("all proven", "good") if complete else ("not all is proven", "fair"),
        claimed=(),
        lead=found.headline(),
        sections=[
            ("regrets", "Regrets"),
            ("plans", "Plans"),
            ("intervals", "Intervals"),
            ("about", "The instance"),
        ],
        height=figure["layout"]["height"] if figure else 0,
        regrets=_regrets(found),
        broken=[
            f"The plan of the {one.plan} end is not allowed at the {one.end} end: {one.broken}"
            for one in found.regrets
            if one.broken
        ],
        plans=_plans(found),
        intervals=_intervals(found),
        about=instance_facts(found.instance),
        assumptions=found.instance.assumptions,
        footer=_footer(found),
    )


def _footer(found: Robust) -> Facts:
    if not found.ends:
        return []
    result = found.ends[len(found.ends) // 2].result
    return provenance(result, result.solver, result.backend)


def _regrets(found: Robust) -> Table:
    """Return a row for each plan, and for each end what it loses there."""
    known = {(one.plan, one.end): one for one in found.regrets}
    planned = [end for end in found.ends if end.result.plan is not None]

    def lost(end: End) -> CellColumn[End]:
        return Column(f"loses at the {end.name} end", True), lambda row: _lost(known[row.name, end.name])

    best = found.best()
    columns: list[CellColumn[End]] = [
        (Column("plan of"), lambda row: Cell(row.name, mark="good" if row.name == best else "")),
        *(lost(end) for end in found.ends),
        (Column("at most"), lambda row: _worst(found, row)),
    ]
    caption = "What each plan loses against the best plan of each end"
    return table_of("regret", caption, planned, columns, sortable=False)


def _worst(found: Robust, end: End) -> Cell:
    if any(one.broken for one in found.regrets if one.plan == end.name):
        return Cell("not allowed everywhere", mark="bad")
    worst = found.worst(end.name)
    return text(None) if worst is None else Cell(percent(worst), mark="good" if worst == 0 else "fair")


def _lost(one: Regret) -> Cell:
    if one.broken:
        return Cell("not allowed", mark="bad")
    if one.least is None:
        return text(None)
    return Cell(
        one.proven if one.share is None or not one.most else f"{one.proven} ({percent(one.share)})", one.most
    )


def _plans(found: Robust) -> Table:
    """Return what the plan of each end does, and its value there."""
    columns: list[CellColumn[End]] = [
        (Column("end"), lambda end: Cell(end.name)),
        (Column("status"), lambda end: result_cell(end.result)),
        (Column("what its plan does", wide=True), lambda end: Cell(end.answer())),
        (
            Column(_objective(found), True, "there"),
            lambda end: number(end.first.value if end.first else None, 8),
        ),
        (Column("bound", True), lambda end: number(end.first.bound if end.first else None, 8)),
        (Column("time to solve", True), lambda end: seconds(end.result.runtime_s)),
    ]
    return table_of("ends-table", "The best plan of each end", found.ends, columns, sortable=False)


def _objective(found: Robust) -> str:
    first = next((end.first for end in found.ends if end.first is not None), None)
    if first is None:
        return "value"
    return first.name if first.unit == first.name else f"{first.name} [{first.unit}]"


def _intervals(found: Robust) -> Table:
    """Return the intervals that the instance says."""
    given = found.instance.uncertainty or ()
    columns: list[CellColumn[Uncertain]] = [
        (Column("figure", wide=True), lambda one: Cell(one.figure)),
        (Column("low end", True, "times the figure"), lambda one: number(one.low, FACTOR_DIGITS)),
        (Column("high end", True, "times the figure"), lambda one: number(one.high, FACTOR_DIGITS)),
        (
            Column("what was measured"),
            lambda one: Cell("inside", mark="good") if one.inside else Cell("outside", mark="fair"),
        ),
        (Column("rests on", wide=True), lambda one: text(one.basis)),
    ]
    return table_of("given", "All figures go to the same end together", given, columns, sortable=False)


def _figure(found: Robust) -> Figure | None:
    """Return the value of each plan at each end as groups of bars; one that is not allowed has no bar."""
    planned = [end.name for end in found.ends if end.result.plan is not None]
    if not planned or not any(one.value is not None for one in found.regrets):
        return None
    traces = []
    for index, name in enumerate(planned):
        own = [one for one in found.regrets if one.plan == name]
        traces.append(
            {
                "type": "bar",
                "name": f"plan of the {name} end",
                "x": [f"{one.end} end" for one in own],
                "y": [one.value for one in own],
                "text": [short(one.value, 4) if one.value is not None else "" for one in own],
                "marker": {"color": colour(index)},
                "hovertemplate": f"plan of the {name} end at the %{{x}}: %{{y:,.6~g}}<extra></extra>",
            }
        )
    y = axis(_objective(found), rangemode="tozero", separatethousands=True)
    legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
    drawn = layout(axis("", type="category"), y, 360, barmode="group", legend=legend)
    return {"data": traces, "layout": {**drawn, "showlegend": True}}
