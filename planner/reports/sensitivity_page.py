"""HTML pages of a sensitivity analysis: comparison of scenarios, and regrets of plans.

The page of scenarios has the answer, bars of the first objective, all objectives, and which jobs wait.
The page of intervals has the answer, the regret of each plan at each end, and the intervals.
"""

from __future__ import annotations

from ...instances.common.base import Uncertain
from ..registry import KINDS
from ..sensitivity import ExtremeScenario, Regret, Robust, Row, Scenario, WhatIf, signed
from .page import (
    Cell,
    CellColumn,
    Column,
    Facts,
    Table,
    exact,
    figure_column,
    instance_facts,
    number,
    provenance,
    render,
    result_cell,
    seconds,
    share,
    table_of,
    text,
    text_column,
)
from .plot_style import LEGEND_ABOVE, Figure, axis, colour, line_at, plot_of, plot_text
from .text import listed, percent, short


def what_if_page(analysis: WhatIf) -> str:
    """Return the HTML page of a comparison of scenarios."""
    instance, result = analysis.baseline.instance, analysis.baseline.result
    proven = all(scenario.result.status in ("optimal", "infeasible") for scenario in analysis.all())
    figure = _scenario_figure(analysis)
    return render(
        "what_if.html.j2",
        data={"figures": {"bars": figure} if figure else {}},
        title=f"{instance.name}: what if?",
        kicker=KINDS[instance.kind].title,
        verdict=("all proven", "good") if proven else ("not all is proven", "fair"),
        claimed=(),
        lead=analysis.headline(),
        sections=[("scenarios", "Scenarios"), ("objectives", "All objectives"), ("about", "The instance")],
        height=figure["layout"]["height"] if figure else 0,
        answers=_answers(analysis),
        objectives=_objectives(analysis),
        about=instance_facts(instance),
        assumptions=instance.assumptions,
        footer=provenance(result, result.solver, result.backend),
    )


def _answers(analysis: WhatIf) -> Table:
    """Return the table of the scenarios' plans, and of the jobs that they do not place."""
    before = analysis.baseline.left_out()

    def waits(scenario: Scenario) -> Cell:
        left_out = scenario.left_out()
        names = [name if name in before else f"{name} (only here)" for name in left_out]
        return text(listed(names, 6))

    columns: list[CellColumn[Scenario]] = [
        text_column("scenario", lambda each: each.name),
        (Column("status"), lambda each: result_cell(each.result)),
        text_column("what the plan does", lambda each: each.answer(), wide=True),
    ]
    if any(scenario.left_out() for scenario in analysis.all()):
        columns.append((Column("left out", wide=True), waits))
    columns.append(figure_column("time to solve", lambda each: each.result.runtime_s, seconds))
    return table_of("answers", "What is done in each scenario", analysis.all(), columns, sortable=False)


def _objectives(analysis: WhatIf) -> Table:
    columns: list[CellColumn[Row]] = [
        text_column("scenario", lambda row: row.scenario.name),
        (Column("objective"), lambda row: text(row.objective.name if row.objective else None)),
        figure_column("value", lambda row: row.objective.value if row.objective else None, exact),
        (
            Column("difference", True, "of the plans"),
            lambda row: Cell(signed(row.difference), row.difference),
        ),
        (Column("proven difference", True, "of the best possible"), lambda row: Cell(row.proven, row.least)),
        figure_column("bound", lambda row: row.objective.bound if row.objective else None, exact),
        figure_column("gap", lambda row: row.objective.gap if row.objective else None, share),
        figure_column(
            "certified bound", lambda row: row.objective.certified_bound if row.objective else None, exact
        ),
    ]
    return table_of("goals", "Each objective beside what it is now", analysis.rows(), columns, sortable=False)


def _scenario_figure(analysis: WhatIf) -> Figure | None:
    """Return the bar plot of the first objective by scenario; None with fewer than two values."""
    known = [(each.name, each.first) for each in analysis.all()]
    first = [(name, record.value) for name, record in known if record and record.value is not None]
    now = analysis.baseline.first
    if now is None or now.value is None or len(first) < 2:
        return None
    names, values = [plot_text(name) for name, _ in first], [value for _, value in first]
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": values,
        "y": names,
        "marker": {"color": ["@open" if k == 0 else colour(0) for k in range(len(first))]},
        "hovertemplate": "%{y}: %{x:,.6~g}<extra></extra>",
    }
    unit = "" if now.unit == now.name else f" [{now.unit}]"
    x = axis(f"{now.name.replace('_', ' ')}{unit}", rangemode="tozero", separatethousands=True)
    y = axis("", autorange="reversed", type="category")
    return plot_of([trace], x, y, 110 + 36 * len(first), shapes=[line_at("x", now.value)])


FACTOR_DIGITS = 3


def robust_page(analysis: Robust) -> str:
    """Return the HTML page of plans and their regrets at the ends of uncertainty intervals."""
    proven = all(end.result.status in ("optimal", "infeasible") for end in analysis.ends)
    complete = proven and len(analysis.ends) == analysis.asked
    figure = _regret_figure(analysis)
    return render(
        "robust.html.j2",
        data={"figures": {"ends": figure} if figure else {}},
        title=f"{analysis.instance.name}: how sure is the plan?",
        kicker=KINDS[analysis.instance.kind].title,
        verdict=("all proven", "good") if complete else ("not all is proven", "fair"),
        claimed=(),
        lead=analysis.headline(),
        sections=[
            ("regrets", "Regrets"),
            ("plans", "Plans"),
            ("intervals", "Intervals"),
            ("about", "The instance"),
        ],
        height=figure["layout"]["height"] if figure else 0,
        regrets=_regrets(analysis),
        broken=[
            f"The plan of the {one.plan} end is not allowed at the {one.end} end: {one.broken}"
            for one in analysis.regrets
            if one.broken
        ],
        plans=_plans(analysis),
        intervals=_intervals(analysis),
        about=instance_facts(analysis.instance),
        assumptions=analysis.instance.assumptions,
        footer=_footer(analysis),
    )


def _footer(analysis: Robust) -> Facts:
    if not analysis.ends:
        return []
    result = analysis.ends[len(analysis.ends) // 2].result
    return provenance(result, result.solver, result.backend)


def _regrets(analysis: Robust) -> Table:
    """Return the table of regrets, a row for each plan, a column for each end of the intervals."""
    known = {(one.plan, one.end): one for one in analysis.regrets}
    planned = [end for end in analysis.ends if end.result.plan is not None]

    def lost(end: ExtremeScenario) -> CellColumn[ExtremeScenario]:
        return Column(f"loses at the {end.name} end", True), lambda row: _lost(known[row.name, end.name])

    best = analysis.best()
    columns: list[CellColumn[ExtremeScenario]] = [
        (Column("plan of"), lambda row: Cell(row.name, mark="good" if row.name == best else "")),
        *(lost(end) for end in analysis.ends),
        (Column("at most"), lambda row: _worst(analysis, row)),
    ]
    caption = "What each plan loses against the best plan of each end"
    return table_of("regret", caption, planned, columns, sortable=False)


def _worst(analysis: Robust, end: ExtremeScenario) -> Cell:
    if any(one.broken for one in analysis.regrets if one.plan == end.name):
        return Cell("not allowed everywhere", mark="bad")
    worst = analysis.worst(end.name)
    return text(None) if worst is None else Cell(percent(worst), mark="good" if worst == 0 else "fair")


def _lost(one: Regret) -> Cell:
    if one.broken:
        return Cell("not allowed", mark="bad")
    if one.least is None:
        return text(None)
    return Cell(
        one.proven if one.share is None or not one.most else f"{one.proven} ({percent(one.share)})", one.most
    )


def _plans(analysis: Robust) -> Table:
    """Return the table of the best plan for each end of the intervals, with its objective there."""
    columns: list[CellColumn[ExtremeScenario]] = [
        text_column("end", lambda end: end.name),
        (Column("status"), lambda end: result_cell(end.result)),
        text_column("what its plan does", lambda end: end.answer(), wide=True),
        figure_column(
            _objective(analysis), lambda end: end.first.value if end.first else None, exact, note="there"
        ),
        figure_column("bound", lambda end: end.first.bound if end.first else None, exact),
        figure_column("time to solve", lambda end: end.result.runtime_s, seconds),
    ]
    return table_of("ends-table", "The best plan of each end", analysis.ends, columns, sortable=False)


def _objective(analysis: Robust) -> str:
    first = next((end.first for end in analysis.ends if end.first is not None), None)
    if first is None:
        return "value"
    return first.name if first.unit == first.name else f"{first.name} [{first.unit}]"


def _intervals(analysis: Robust) -> Table:
    """Return the table of the instance's uncertainty intervals."""
    given = analysis.instance.uncertainty or ()
    columns: list[CellColumn[Uncertain]] = [
        text_column("figure", lambda one: one.figure, wide=True),
        (Column("low end", True, "times the figure"), lambda one: number(one.low, FACTOR_DIGITS)),
        (Column("high end", True, "times the figure"), lambda one: number(one.high, FACTOR_DIGITS)),
        (
            Column("what was measured"),
            lambda one: Cell("inside", mark="good") if one.inside else Cell("outside", mark="fair"),
        ),
        text_column("rests on", lambda one: one.basis or "–", wide=True),
    ]
    return table_of("given", "All figures go to the same end together", given, columns, sortable=False)


def _regret_figure(analysis: Robust) -> Figure | None:
    """Return the bar plot of each plan's objective at each end; None if no value is known."""
    planned = [end.name for end in analysis.ends if end.result.plan is not None]
    if not planned or not any(one.value is not None for one in analysis.regrets):
        return None
    traces = []
    for index, name in enumerate(planned):
        own = [one for one in analysis.regrets if one.plan == name]
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
    y = axis(_objective(analysis), rangemode="tozero", separatethousands=True)
    return plot_of(
        traces, axis("", type="category"), y, 360, barmode="group", legend=LEGEND_ABOVE, showlegend=True
    )
