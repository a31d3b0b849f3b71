"""The page of a plan: how good it is, what it says, and what to buy next; or why there is none."""

from __future__ import annotations

from typing import Any

from ...instances.allocation.instance import AllocationInstance
from ...instances.common.base import Instance
from ...instances.consolidation.instance import ConsolidationInstance
from ...instances.staging.instance import StagingInstance
from ...solvers.common.result import Result
from ..allocation.page import allocation_parts
from ..consolidation.page import consolidation_parts
from ..staging.page import staging_parts
from ..verification.findings import Verification
from .page import render
from .provenance import Facts, check_same, claims, headline, instance_facts, objectives_table, provenance
from .text import duration

KICKER = {
    "allocation": "Allocation: parameter servers and workers of each job",
    "staging": "Staging: which layers run on which hardware",
    "consolidation": "Consolidation: which servers each job runs on",
}


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
    parts = _parts(instance, result)
    sections = [("objectives", "How good it is"), *parts.pop("sections"), ("about", "The instance")]
    if result.diagnosis is not None:
        sections.insert(1, ("why", "Why there is no plan"))
    return render(
        f"plan_{instance.kind}.html.j2",
        title=instance.name,
        kicker=KICKER[instance.kind],
        verdict=headline(result.status, result.limit, checked),
        claimed=claims(checked),
        lead=f"By {result.solver} in {duration(result.runtime_s)}.",
        sections=sections,
        result=result,
        has_plan=result.plan is not None,
        objectives=objectives_table(result),
        notes=_notes(result),
        diagnosis=result.diagnosis,
        about=[*instance_facts(instance), *parts.pop("about")],
        assumptions=instance.assumptions,
        footer=[*provenance(result, result.solver, result.backend), *_seed(result)],
        **parts,
    )


def _parts(instance: Instance, result: Result) -> dict[str, Any]:
    """Return what the template of the kind shows."""
    if isinstance(instance, AllocationInstance):
        return allocation_parts(instance, result)
    if isinstance(instance, StagingInstance):
        return staging_parts(instance, result)
    assert isinstance(instance, ConsolidationInstance)
    return consolidation_parts(instance, result)


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
