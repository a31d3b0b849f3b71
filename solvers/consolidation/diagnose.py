"""Why not all jobs that must be placed go together: the largest part of them that does."""

from __future__ import annotations

from ...formulations.common.objective import Diagnosis
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ..common.base import Clock
from ..common.options import SolveOptions
from .exact import ConsolidationExact

MOST_NAMED = 8
"""Jobs that are named; the others are counted."""


def diagnose(
    formulation: ConsolidationFormulation, known: Diagnosis | None, clock: Clock
) -> Diagnosis | None:
    """Return what counting has found, or how many of the jobs go together, and which are then left out."""
    if known is not None:
        return known
    instance = formulation.instance
    must = [job for job in instance.jobs if job.must_place]
    jobs = tuple(job.model_copy(update={"must_place": False, "value": 1.0}) for job in must)
    relaxed = ConsolidationFormulation(instance.model_copy(update={"jobs": jobs, "objectives": ("value",)}))
    plan = ConsolidationExact().solve(relaxed, SolveOptions(), clock).plan
    if plan is None:
        return None
    out = [entry for entry in relaxed.finish(plan) if not entry.placed]
    if not out:
        return None
    reasons = [
        f"{len(must) - len(out)} of the {len(must)} jobs that must be placed were found to fit together"
    ]
    reasons += [f"with these, job {entry.job!r} {entry.reason}" for entry in out[:MOST_NAMED]]
    more = f" and {len(out) - MOST_NAMED} more" if len(out) > MOST_NAMED else ""
    names = ", ".join(repr(entry.job) for entry in out[:MOST_NAMED])
    remedy = f"set must_place: false on {names}{more}, or free room for them"
    return Diagnosis(reasons=tuple(reasons), remedies=(remedy,))
