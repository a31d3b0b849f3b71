"""Head and foot of a report: status, objectives, claims, options and versions."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ...instances.common.base import Instance
from ...instances.common.errors import OptionError
from ...solvers.common.frontier import AnyFrontier
from ...solvers.common.options import SolveOptions
from ...solvers.common.result import ObjectiveRecord, Result, is_certified
from ..comparison.row import ComparisonRow
from ..verification.findings import Verification
from .tables import Cell, CellColumn, Column, Table, number, share, table_of, text
from .text import MARK, duration, short, status_words

Facts = list[tuple[str, str]]
"""Pairs of what it is and what it says."""


def check_same(instance: Instance, sha256: str, what: str) -> None:
    """Refuse a result or frontier of another instance.

    Raises
    ------
    OptionError
        If the hashes differ.
    """
    if instance.sha256() != sha256:
        raise OptionError(f"{what} is of another instance than {instance.name}, or it was changed since")


def result_cell(result: Result | ComparisonRow) -> Cell:
    """Return the cell of the status of a result, which says what is only claimed."""
    mark = "fair" if result.only_claimed else MARK.get(result.status, "fair")
    return Cell(result.status_text, mark=mark)


def provenance(made: Result | AnyFrontier, solver: str | None = None, backend: str | None = None) -> Facts:
    """Return the lines of a footer."""
    facts = [("solver", solver)] if solver else []
    facts += [("library", backend)] if backend else []
    facts.append(("time to solve", duration(made.runtime_s)))
    facts.append(("options", options_text(made.options)))
    facts.append(("versions", versions_text(made.versions)))
    facts.append(("sha256 of the instance", made.instance_sha256))
    return [(name, value) for name, value in facts if value]


def options_text(options: SolveOptions) -> str:
    """Return the options that are set."""
    given = options.model_dump(exclude_none=True, exclude={"warm_start"})
    given["warm_start"] = "a given plan" if options.warm_start is not None else None
    parts = [f"{name} {_plain(value)}" for name, value in given.items() if value not in (None, {})]
    return ", ".join(parts)


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)


def versions_text(versions: Mapping[str, str]) -> str:
    """Return names and versions of libraries."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def objectives_table(result: Result) -> Table:
    """Return how good the plan is in each objective."""
    columns: list[CellColumn[ObjectiveRecord]] = [
        (Column("objective"), lambda o: Cell(o.name if o.unit == o.name else f"{o.name} [{o.unit}]")),
        (Column("better is"), lambda o: Cell("less" if o.sense == "min" else "more")),
        (Column("value", True), lambda o: number(o.value, 8)),
        (Column("bound", True, "what the method proved"), lambda o: number(o.bound, 8)),
        (Column("gap", True), lambda o: share(o.gap)),
        (
            Column("certified bound", True, "what our own check derives"),
            lambda o: number(o.certified_bound, 8),
        ),
        (Column("certified gap", True), lambda o: share(o.certified_gap)),
        (Column("proven"), lambda o: _proven(o, result.options.gap)),
    ]
    caption = "How good the plan is" if result.plan is not None else "What is proven"
    return table_of("goals", caption, result.objectives, columns, sortable=False)


def _proven(record: ObjectiveRecord, gap: float) -> Cell:
    if not record.proven:
        return text("no", "fair")
    return text("yes", "good") if is_certified(record, gap) else text("by the solver alone", "fair")


def instance_facts(instance: Instance) -> Facts:
    """Return kind and source of the instance."""
    return [("kind", instance.kind), ("source", instance.source or "not given")]


def headline(status: str, limit: str, checked: Verification | None = None) -> tuple[str, str]:
    """Return a status in words, and the class of its style.

    Parameters
    ----------
    checked
        What the check of a stored result found; none where it was just solved.
    """
    if checked is not None and not checked.complete:
        return f"{status}: not all of it is proven here", "fair"
    if checked is not None and checked.within:
        return checked.within, "fair"
    return status_words(status, limit), MARK.get(status, "fair")


def usd(value: float | None, digits: int = 6) -> str:
    """Return an amount of money; none is a dash."""
    return "–" if value is None else f"{short(value, digits)} USD"
