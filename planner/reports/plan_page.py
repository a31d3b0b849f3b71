"""The page of a plan: objectives and bounds, the plan itself, advice; or why there is none."""

from __future__ import annotations

from ...instances.common.base import Instance
from ...solvers.common.result import Result
from ..kind import PlannerKind
from ..registry import KINDS
from ..verification.findings import Verification
from .page import render
from .provenance import (
    Facts,
    check_same,
    headline,
    instance_facts,
    objectives_table,
    provenance,
)
from .text import duration


def plan_page(instance: Instance, result: Result, checked: Verification | None = None) -> str:
    """Return the page of a result, with a plan or without one.

    Parameters
    ----------
    checked
        What the check of a stored result found; the page shows what is only claimed.

    Raises
    ------
    OptionError
        If the result is of another instance.
    """
    check_same(instance, result.instance_sha256, "the result")
    kind = KINDS[instance.kind]
    parts = kind.page(instance, result)
    sections = [*parts.pop("sections"), ("objectives", "How good it is"), ("about", "The instance")]
    if result.diagnosis is not None:
        sections.insert(0, ("why", "Why there is no plan"))
    return render(
        kind.template,
        title=instance.name,
        kicker=kind.title,
        verdict=_verdict(result, checked),
        claimed=checked.claimed if checked else (),
        lead=f"{_answer(kind, instance, result)}By {result.solver} in {duration(result.runtime_s)}.",
        sections=sections,
        has_plan=result.plan is not None,
        objectives=objectives_table(result),
        notes=_notes(result),
        diagnosis=result.diagnosis,
        about=[*instance_facts(instance), *parts.pop("about")],
        assumptions=instance.assumptions,
        footer=[*provenance(result, result.solver, result.backend), *_seed(result)],
        **parts,
    )


def _verdict(result: Result, checked: Verification | None) -> tuple[str, str]:
    """Return the status in words; nobody reads `proven` where the solver alone says so."""
    if checked is None and result.only_claimed:
        return "optimal, as the solver says; not all is certified", "fair"
    return headline(result.status, result.limit, checked)


def _answer(kind: PlannerKind, instance: Instance, result: Result) -> str:
    """Return what the plan does, with a blank after it; nothing where that is not known."""
    if result.plan is None:
        return ""
    answer = kind.lead(instance, result) if kind.lead else kind.answer_of(instance, result.plan)
    return f"{answer} " if answer else ""


def _notes(result: Result) -> list[str]:
    notes = [result.message] if result.message else []
    if result.plan is not None:
        notes.append(
            "The plan was checked against the instance, apart from the solver, before it was returned."
        )
    return notes


def _seed(result: Result) -> Facts:
    facts = [] if result.seed is None else [("seed", str(result.seed))]
    return facts + ([] if result.plan_sha256 is None else [("sha256 of the plan", result.plan_sha256)])
