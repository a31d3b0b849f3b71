"""HTML page of a result or frontier, and the files of a frontier: HTML, Markdown, CSV and JSON.

The page of a plan shows objectives and bounds, the plan itself and advice; or why there is no plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...instances.common.base import Instance
from ...solvers.common.result import AnyFrontier, Result
from ..findings import Verification
from ..kind import PlannerKind
from ..output import write_all
from ..pareto import frontier_table
from ..registry import KINDS, frontier_kinds
from .page import check_same, headline, instance_facts, known_facts, objectives_table, provenance, render
from .text import csv_text, duration, escaped, figure, table_lines


def plan_page(instance: Instance, result: Result, checked: Verification | None = None) -> str:
    """Return the HTML page of a result, with a plan or without one.

    Parameters
    ----------
    checked
        Verification of a stored result; the page lists its unconfirmed claims.

    Raises
    ------
    OptionError
        If the result is of another instance.
    """
    check_same(instance, result.instance_sha256, "the result")
    kind = KINDS[instance.kind]
    parts = kind.page(instance, result)
    seed = None if result.seed is None else str(result.seed)
    return render(
        kind.template,
        title=instance.name,
        kicker=kind.title,
        verdict=_verdict(result, checked),
        claimed=checked.claimed if checked else (),
        lead=f"{_answer(kind, instance, result)}By {result.solver} in {duration(result.runtime_s)}.",
        has_plan=result.plan is not None,
        objectives=objectives_table(result),
        message=result.message,
        diagnosis=result.diagnosis,
        about=[*instance_facts(instance), *parts.pop("about")],
        assumptions=instance.assumptions,
        footer=[
            *provenance(result),
            *known_facts(("seed", seed), ("sha256 of the plan", result.plan_sha256)),
        ],
        **parts,
    )


def _verdict(result: Result, checked: Verification | None) -> tuple[str, str]:
    """Return the status as text, which tells if only the solver claims optimality, and its CSS class."""
    if checked is None and result.only_claimed:
        return "optimal, as the solver says; not all is certified", "fair"
    return headline(result.status, result.limit, checked)


def _answer(kind: PlannerKind, instance: Instance, result: Result) -> str:
    """Return a one-sentence summary of the plan with a blank after it; empty without a plan."""
    if result.plan is None:
        return ""
    answer = kind.lead(instance, result) if kind.lead else kind.answer_of(instance, result.plan)
    return f"{answer} " if answer else ""


def frontier_markdown(frontier: AnyFrontier) -> str:
    """Return the Markdown report of a frontier: its points, thinned if there are many, and its error."""
    table, notes = frontier_table(frontier)
    lines = [f"# Frontier of {escaped(frontier.instance)}", ""]
    if table.rows:
        lines += [*table_lines(table.head, table.texts), ""]
    lines += [f"- {escaped(line)}" for line in notes]
    lines += ["", f"Found in {figure(frontier.runtime_s, 3)} s, {frontier.status}."]
    return "\n".join(lines) + "\n"


MAX_PLAIN = 2_000_000
"""Most characters of a document that is written uncompressed."""


def to_csv(frontier: AnyFrontier) -> str:
    """Return the points of a frontier as CSV."""
    frame = frontier.to_frame()
    return csv_text(list(frame.columns), frame.astype(object).to_numpy().tolist())


def frontier_page(
    instance: Instance,
    frontier: AnyFrontier,
    baselines: Sequence[Result] = (),
    checked: Verification | None = None,
) -> str:
    """Return the HTML page of a frontier.

    Parameters
    ----------
    baselines
        Results of solvers on the same instance, to be compared with the frontier.
    checked
        Verification of a stored frontier; the page lists its unconfirmed claims.

    Raises
    ------
    OptionError
        If the frontier or a baseline is of another instance.
    """
    check_same(instance, frontier.instance_sha256, "the frontier")
    for result in baselines:
        check_same(instance, result.instance_sha256, f"the result of {result.solver}")
    return frontier_kinds()[instance.kind].page(instance, frontier, baselines).html(checked)


def write(
    instance: Instance, frontier: AnyFrontier, folder: Path, baselines: Sequence[Result] = ()
) -> list[Path]:
    """Write `frontier.html`, `.md`, `.csv` and `.json` into a folder, created if missing.

    A large document of thousands of plans is `frontier.json.gz` instead, which is read like the plain one.
    Points that have results of their own are written beside it, so that each can be exported.

    Parameters
    ----------
    baselines
        Results of solvers on the same staging instance, to be compared with the frontier.

    Raises
    ------
    OptionError
        If they cannot be written.
    """
    everything = frontier.to_json() + "\n"
    plain, packed = "frontier.json", "frontier.json.gz"
    name, other = (packed, plain) if len(everything) > MAX_PLAIN else (plain, packed)
    texts = {
        "frontier.html": frontier_page(instance, frontier, baselines),
        "frontier.md": frontier_markdown(frontier),
        "frontier.csv": to_csv(frontier),
        name: everything,
        **{f"{step}.json": result.to_json() + "\n" for step, result in frontier.results().items()},
    }
    written = write_all(folder, texts)
    (folder / other).unlink(missing_ok=True)  # of an earlier run, of which the other files are gone
    return written
