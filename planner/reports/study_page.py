"""HTML pages of studies: comparison of scenarios, and regrets of plans.

The page of scenarios has the answer, bars of the first objective, all objectives, and which jobs wait.
The page of intervals has the answer, the regret of each plan at each end, and the intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ...instances.common.base import Instance
from ..registry import KINDS
from ..study import NO_OBJECTIVE, Regret, Robust, Row, Scenario, Study, WhatIf, signed
from .page import (
    Cell,
    CellColumn,
    Column,
    Table,
    exact,
    figure_column,
    inside_cell,
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
from .text import listed, percent, short, titled


def _page(
    template: str,
    study: Study,
    instance: Instance,
    made: Sequence[Scenario],
    question: str,
    figure: Figure | None,
    complete: bool = True,
    **parts: Any,
) -> str:
    """Return the HTML page of a study.

    Parameters
    ----------
    made
        The variant whose solve the footer tells of; empty if nothing was solved.
    figure
        The plot, if there is one.
    complete
        Whether all variants were solved.
    parts
        Other variables of the template.
    """
    proven = complete and all(each.result.status in ("optimal", "infeasible") for each in study.all())
    return render(
        template,
        data={"figures": {"bars": figure} if figure else {}},
        title=f"{instance.name}: {question}",
        kicker=KINDS[instance.kind].title,
        verdict=("all proven", "good") if proven else ("not all is proven", "fair"),
        lead=study.headline(),
        about=instance_facts(instance),
        assumptions=instance.assumptions,
        footer=[fact for each in made for fact in provenance(each.result)],
        **parts,
    )


def _plans(
    id: str,
    caption: str,
    study: Study,
    titles: tuple[str, str],
    *more: CellColumn[Scenario],
    reason: bool = True,
) -> Table:
    """Return the table of the plan of each variant.

    Parameters
    ----------
    titles
        Titles of the columns of names, and of what the plans do.
    more
        Further columns before the time to solve.
    reason
        Whether the reason is told why there is no plan.
    """
    return table_of(
        id,
        caption,
        study.all(),
        [
            text_column(titles[0], "name"),
            (Column("status"), lambda each: result_cell(each.result)),
            text_column(titles[1], lambda each: each.answer(reason), wide=True),
            *more,
            figure_column("time to solve", "result.runtime_s", seconds),
        ],
        sortable=False,
    )


def what_if_page(analysis: WhatIf) -> str:
    """Return the HTML page of a comparison of scenarios."""
    before = analysis.baseline.left_out()

    def waits(scenario: Scenario) -> Cell:
        names = [name if name in before else f"{name} (only here)" for name in scenario.left_out()]
        return text(listed(names, 6))

    some = any(scenario.left_out() for scenario in analysis.all())
    left_out: list[CellColumn[Scenario]] = [(Column("left out", wide=True), waits)] if some else []
    titles = ("scenario", "what the plan does")
    return _page(
        "what_if.html.j2",
        analysis,
        analysis.baseline.instance,
        [analysis.baseline],
        "what if?",
        _scenario_figure(analysis),
        answers=_plans("answers", "What is done in each scenario", analysis, titles, *left_out),
        objectives=table_of(
            "goals",
            "Each objective beside what it is now",
            analysis.rows(),
            SCENARIO_COLUMNS,
            sortable=False,
        ),
    )


SCENARIO_COLUMNS: list[CellColumn[Row]] = [
    text_column("scenario", "scenario.name"),
    text_column("status", "scenario.result.status"),
    text_column("objective", lambda row: titled(row.objective)),
    figure_column("value", "objective.value", exact),
    (Column("difference", True, "of the plans"), lambda row: Cell(signed(row.difference), row.difference)),
    (Column("proven difference", True, "of the best possible"), lambda row: Cell(row.proven, row.least)),
    figure_column("bound", "objective.bound", exact),
    figure_column("gap", "objective.gap", share),
    figure_column("certified bound", "objective.certified_bound", exact),
]
"""Columns of the table that compares the objectives of scenarios, on pages and in terminals."""


def _scenario_figure(analysis: WhatIf) -> Figure | None:
    """Return the bar plot of the first objective by scenario; None with fewer than two values."""
    known = [(plot_text(each.name), each.first.value) for each in analysis.all()]
    first = [(name, value) for name, value in known if value is not None]
    now = analysis.baseline.first
    if now.value is None or len(first) < 2:
        return None
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": [value for _, value in first],
        "y": [name for name, _ in first],
        "marker": {"color": ["@open", *[colour(0)] * (len(first) - 1)]},
        "hovertemplate": "%{y}: %{x:,.6~g}<extra></extra>",
    }
    x = axis(titled(now).replace("_", " "), rangemode="tozero", separatethousands=True)
    y = axis("", autorange="reversed", type="category")
    return plot_of([trace], x, y, 110 + 36 * len(first), shapes=[line_at("x", now.value)])


FACTOR_DIGITS = 3


def robust_page(analysis: Robust) -> str:
    """Return the HTML page of plans and their regrets at the ends of uncertainty intervals."""
    objective, titles = _objective(analysis), ("end", "what its plan does")
    return _page(
        "robust.html.j2",
        analysis,
        analysis.instance,
        analysis.ends[len(analysis.ends) // 2 :][:1],
        "how sure is the plan?",
        _regret_figure(analysis, objective),
        len(analysis.ends) == analysis.asked,
        regrets=_regrets(analysis),
        broken=[f"The {line}" for line in analysis.not_allowed()],
        plans=_plans(
            "ends-table",
            "The best plan of each end",
            analysis,
            titles,
            figure_column(objective, "first.value", exact, note="there"),
            figure_column("bound", "first.bound", exact),
            reason=False,
        ),
        intervals=_intervals(analysis),
    )


def _objective(analysis: Robust) -> str:
    """Return the title of the first objective."""
    first = next((end.first for end in analysis.ends if end.first is not NO_OBJECTIVE), None)
    return "value" if first is None else titled(first)


def _regrets(analysis: Robust) -> Table:
    """Return the table of regrets, a row for each plan, a column for each end of the intervals."""
    known = {(one.plan, one.end): one for one in analysis.regrets}
    planned = [end for end in analysis.ends if end.result.plan is not None]

    def lost(end: Scenario) -> CellColumn[Scenario]:
        return Column(f"loses at the {end.name} end", True), lambda row: _lost(known[row.name, end.name])

    best = analysis.best()
    caption = "What each plan loses against the best plan of each end"
    return table_of(
        "regret",
        caption,
        planned,
        [
            (Column("plan of"), lambda row: Cell(row.name, mark="good" if row.name == best else "")),
            *(lost(end) for end in analysis.ends),
            (Column("at most"), lambda row: _worst(analysis, row)),
        ],
        sortable=False,
    )


def _worst(analysis: Robust, end: Scenario) -> Cell:
    if any(one.broken for one in analysis.regrets if one.plan == end.name):
        return Cell("not allowed everywhere", mark="bad")
    worst = analysis.worst(end.name)
    return text(None) if worst is None else Cell(percent(worst), mark="good" if worst == 0 else "fair")


def _lost(one: Regret) -> Cell:
    if one.broken:
        return Cell("not allowed", mark="bad")
    share = f" ({percent(one.share)})" if one.share is not None and one.most else ""
    return Cell(one.proven + share, one.most)


def _intervals(analysis: Robust) -> Table:
    """Return the table of the instance's uncertainty intervals."""
    given, factor = analysis.instance.uncertainty or (), partial(number, digits=FACTOR_DIGITS)
    return table_of(
        "given",
        "All figures go to the same end together",
        given,
        [
            text_column("figure", "figure", wide=True),
            figure_column("low end", "low", factor, "times the figure"),
            figure_column("high end", "high", factor, "times the figure"),
            (
                Column("what was measured"),
                lambda one: inside_cell(one.inside),
            ),
            text_column("rests on", "basis", wide=True),
        ],
        sortable=False,
    )


def _regret_figure(analysis: Robust, objective: str) -> Figure | None:
    """Return the bar plot of each plan's objective at each end; None if no value is known."""
    planned = dict.fromkeys(one.plan for one in analysis.regrets)
    if not any(one.value is not None for one in analysis.regrets):
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
    y = axis(objective, rangemode="tozero", separatethousands=True)
    return plot_of(
        traces, axis("", type="category"), y, 360, barmode="group", legend=LEGEND_ABOVE, showlegend=True
    )
