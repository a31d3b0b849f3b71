"""The page that compares scenarios: the answer, bars of the first objective, all objectives, who waits."""

from __future__ import annotations

from ..registry import KINDS
from ..what_if import Row, Scenario, WhatIf, signed
from .page import render
from .plot_style import Figure, axis, colour, layout, line_at, shown
from .provenance import instance_facts, provenance, result_cell
from .tables import Cell, CellColumn, Column, Table, number, seconds, share, table_of, text


def what_if_page(found: WhatIf) -> str:
    """Return the page of a comparison of scenarios."""
    instance, result = found.baseline.instance, found.baseline.result
    proven = all(scenario.result.status in ("optimal", "infeasible") for scenario in found.all())
    figure = _figure(found)
    return render(
        "what_if.html.j2",
        scripts=(),
        data={"figures": {"bars": figure} if figure else {}},
        title=f"{instance.name}: what if?",
        kicker=KINDS[instance.kind].title,
        verdict=("all proven", "good") if proven else ("not all is proven", "fair"),
        claimed=(),
        lead=found.headline(),
        sections=[("scenarios", "Scenarios"), ("objectives", "All objectives"), ("about", "The instance")],
        height=figure["layout"]["height"] if figure else 0,
        answers=_answers(found),
        objectives=_objectives(found),
        about=instance_facts(instance),
        assumptions=instance.assumptions,
        footer=provenance(result, result.solver, result.backend),
    )


def _answers(found: WhatIf) -> Table:
    """Return what the plan of each scenario does, and whom it leaves out."""
    before = found.baseline.left_out()

    def waits(scenario: Scenario) -> Cell:
        left_out = scenario.left_out()
        names = [name if name in before else f"{name} (only here)" for name in left_out]
        return text(", ".join(names[:6]) + (f" and {len(names) - 6:,} more" if len(names) > 6 else ""))

    columns: list[CellColumn[Scenario]] = [
        (Column("scenario"), lambda each: Cell(each.name)),
        (Column("status"), lambda each: result_cell(each.result)),
        (Column("what the plan does", wide=True), lambda each: Cell(each.answer())),
    ]
    if any(scenario.left_out() for scenario in found.all()):
        columns.append((Column("left out", wide=True), waits))
    columns.append((Column("time to solve", True), lambda each: seconds(each.result.runtime_s)))
    return table_of("answers", "What is done in each scenario", found.all(), columns, sortable=False)


def _objectives(found: WhatIf) -> Table:
    columns: list[CellColumn[Row]] = [
        (Column("scenario"), lambda row: Cell(row.scenario.name)),
        (Column("objective"), lambda row: text(row.objective.name if row.objective else None)),
        (Column("value", True), lambda row: number(row.objective.value if row.objective else None, 8)),
        (
            Column("difference", True, "of the plans"),
            lambda row: Cell(signed(row.difference), row.difference),
        ),
        (Column("proven difference", True, "of the best possible"), lambda row: Cell(row.proven, row.least)),
        (Column("bound", True), lambda row: number(row.objective.bound if row.objective else None, 8)),
        (Column("gap", True), lambda row: share(row.objective.gap if row.objective else None)),
        (
            Column("certified bound", True),
            lambda row: number(row.objective.certified_bound if row.objective else None, 8),
        ),
    ]
    return table_of("goals", "Each objective beside what it is now", found.rows(), columns, sortable=False)


def _figure(found: WhatIf) -> Figure | None:
    """Return a bar for each scenario's first objective, with a line where it is now."""
    known = [(each.name, each.first) for each in found.all()]
    first = [(name, record.value) for name, record in known if record and record.value is not None]
    now = found.baseline.first
    if now is None or now.value is None or len(first) < 2:
        return None
    names, values = [shown(name) for name, _ in first], [value for _, value in first]
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
    return {"data": [trace], "layout": layout(x, y, 110 + 36 * len(first), shapes=[line_at("x", now.value)])}
