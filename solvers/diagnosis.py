"""Why an instance that a solver proved infeasible has no plan, and the smallest change that would help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..formulations.allocation.formulation import AllocationFormulation
from ..formulations.common.clock import check_time, refuse_beyond
from ..formulations.common.formulation import Formulation
from ..formulations.common.milp_model import new_problem
from ..formulations.common.objective import Diagnosis
from ..formulations.consolidation.formulation import ConsolidationFormulation
from ..formulations.staging.formulation import StagingFormulation
from ..instances.common.errors import TooLargeError
from .backends import BACKENDS, Request
from .common.base import Clock
from .common.options import SolveOptions
from .consolidation.exact import ConsolidationExact
from .staging.diagnose import diagnose as diagnose_staging

MOST_NAMED = 8
"""Jobs that are named; the others are counted."""
PATIENCE_S = 20.0
"""Seconds that a diagnosis may take."""
PLAIN = Diagnosis(reasons=("no plan keeps all constraints together",))
"""What is said where no more is found, or there is no time to look."""


def diagnose(
    formulation: Formulation[Any, Any], known: Diagnosis | None = None, patience_s: float | None = None
) -> Diagnosis:
    """Return what is in the way, from a relaxed model; a plain sentence where that finds nothing.

    Parameters
    ----------
    known
        What counting alone has found; only staging adds to it what could be reached.
    patience_s
        Seconds that are left; at most twenty are taken.
    """
    if known is not None and not isinstance(formulation, StagingFormulation):
        return known
    plain = known or PLAIN
    clock = Clock(PATIENCE_S if patience_s is None else min(PATIENCE_S, patience_s))
    if clock.expired:
        return plain
    try:
        with clock.enforced():
            if isinstance(formulation, AllocationFormulation):
                return _missing_capacity(formulation, clock) or plain
            if isinstance(formulation, StagingFormulation):
                return _both(known, diagnose_staging(formulation, clock)) or plain
            if isinstance(formulation, ConsolidationFormulation):
                return _most_placed(formulation, clock) or plain
    except TooLargeError:
        pass  # the relaxed model has no bound on units, or there was no time; the plain sentence has to do
    return plain


def _both(known: Diagnosis | None, found: Diagnosis | None) -> Diagnosis | None:
    if known is None or found is None:
        return known or found
    return Diagnosis(reasons=(*known.reasons, *found.reasons), remedies=(*found.remedies, *known.remedies))


def _solve(problem: Any, clock: Clock) -> Mapping[str, float] | None:
    """Solve the relaxed model; any solution that was found in time will do."""
    backend = BACKENDS["highs"]
    if backend.unavailable():
        return None
    return backend.minimise(problem, Request(clock=clock, gap=1e-4)).values


def _missing_capacity(formulation: AllocationFormulation, clock: Clock) -> Diagnosis | None:
    """Find the least extra capacity, relative to what there is, that makes a plan possible."""
    import pulp

    menu, problem = formulation.menu, new_problem("elastic")
    refuse_beyond(formulation.model_terms, "the relaxed model")
    x: list[Any] = []
    for j in range(menu.jobs):
        check_time()
        x += [problem.add_variable(f"x_{k}", cat=pulp.LpBinary) for k in menu.of(j)]
        problem += pulp.lpSum(x[k] for k in menu.of(j)) == 1
    limits = menu.capacity.tolist()
    extra = [problem.add_variable(f"extra_{r}", lowBound=0) for r in range(len(limits))]
    for r, limit in enumerate(limits):
        check_time()
        taken = list(zip(x, menu.demand[:, r].tolist(), strict=True))
        problem += pulp.LpAffineExpression([*taken, (extra[r], -1.0)]) <= limit
    problem.objective = pulp.LpAffineExpression(
        [(more, 1 / max(limit, 1.0)) for more, limit in zip(extra, limits, strict=True)]
    )
    values = _solve(problem, clock)
    if values is None:
        return None
    missing = [
        (name, limit, values[more.name])
        for name, limit, more in zip(menu.rows, limits, extra, strict=True)
        if values[more.name] > 1e-6
    ]
    reasons = [
        f"{name}: {more:g} more than the {limit:g} there are would be needed" for name, limit, more in missing
    ]
    together = " and ".join(f"{name} to {limit + more:g}" for name, limit, more in missing)
    return Diagnosis(reasons=tuple(reasons), remedies=(f"raise {together}",)) if missing else None


def _most_placed(formulation: ConsolidationFormulation, clock: Clock) -> Diagnosis | None:
    """Find how many of the jobs that must be placed go together, and which are then left out."""
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
