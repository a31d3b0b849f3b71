"""How results are shown: tables for people, lines of CSV for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from ...formulations.common.tolerance import agree
from ...solvers.common.result import ObjectiveRecord, Result
from ..registry import KINDS
from .text import MOST_ROWS, figure, first_rows, percent, safe_cell, table

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
    """Return one wide table of the results, or on a narrow terminal a line and a small table for each."""
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
        head = [result.instance, result.solver, result.status_text]
        tail = [_check(result), f"{result.runtime_s:.2f}"]
        for index, record in enumerate(result.objectives or [None]):
            first = index == 0
            rows.append([*(head if first else [""] * 3), *_figures(record), *(tail if first else [""] * 2)])
    return [table(columns, rows)]


def _check(result: Result) -> str:
    """Return `verified` if plan and bounds were certified, `plan verified` if some bound was not."""
    if result.plan is None:
        return "–"
    for record in result.objectives:
        bound, certified = record.bound, record.certified_bound
        if bound != certified and (bound is None or certified is None or not agree(bound, certified)):
            return "plan verified"
    return "verified"


def _summary_in_parts(result: Result) -> list[Table | str]:
    check = f", {_check(result)}" if result.plan is not None else ""
    line = f"{result.instance}: {result.status_text}, by {result.solver} in {result.runtime_s:.2f} s{check}"
    if not result.objectives:
        return [line]
    return [line, table(FIGURES, map(_figures, result.objectives))]


def plan_table(result: Result) -> Table | None:
    """Return the plan of a result, at most 60 rows of it."""
    if result.plan is None:
        return None
    return first_rows(KINDS[result.kind].columns(result.plan[:MOST_ROWS]), result.plan)


def notes(result: Result) -> list[str]:
    """Return message, diagnosis and remarks on the plan of a result, a line each."""
    lines = [result.message] if result.message else []
    if result.diagnosis:
        lines += [f"why: {reason}" for reason in result.diagnosis.reasons]
        lines += [f"what would help: {remedy}" for remedy in result.diagnosis.remedies]
    if result.plan is not None:
        lines += KINDS[result.kind].notes(result, MOST_ROWS)
    return lines


def csv_row(result: Result) -> list[Any]:
    """Return the figures of `COLUMNS`."""
    name = result.deciding.name if result.deciding else None
    values = "; ".join(f"{r.name}={r.value:.10g}" for r in result.objectives if r.value is not None)
    own = {"objective_name": name, "objectives": values}
    return [safe_cell(own[column] if column in own else getattr(result, column)) for column in COLUMNS]
