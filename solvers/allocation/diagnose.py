"""Why an allocation has no plan: the least capacity that is missing, by an elastic model (Chinneck 2008)."""

from __future__ import annotations

from typing import Any

from ...formulations.allocation.formulation import AllocationFormulation
from ...formulations.common.clock import check_time, refuse_beyond
from ...formulations.common.milp_model import new_problem
from ...formulations.common.objective import Diagnosis
from ..backends import BACKENDS
from ..backends.base import Request
from ..common.base import Clock


def diagnose(formulation: AllocationFormulation, known: Diagnosis | None, clock: Clock) -> Diagnosis | None:
    """Return what counting has found, or the least extra capacity that makes a plan possible."""
    backend = BACKENDS["highs"]
    if known is not None or backend.unavailable():
        return known
    import pulp

    configs, problem = formulation.configurations, new_problem("elastic")
    refuse_beyond(formulation.model_terms, "the relaxed model")
    x: list[Any] = []
    for j in range(configs.jobs):
        check_time()
        x += [problem.add_variable(f"x_{k}", cat=pulp.LpBinary) for k in configs.of(j)]
        problem += pulp.lpSum(x[k] for k in configs.of(j)) == 1
    limits = configs.capacity.tolist()
    extra = [problem.add_variable(f"extra_{r}", lowBound=0) for r in range(len(limits))]
    for r, limit in enumerate(limits):
        check_time()
        taken = list(zip(x, configs.demand[:, r].tolist(), strict=True))
        problem += pulp.LpAffineExpression([*taken, (extra[r], -1.0)]) <= limit
    problem.objective = pulp.LpAffineExpression(
        [(more, 1 / max(limit, 1.0)) for more, limit in zip(extra, limits, strict=True)]
    )
    # Any solution that is found in time will do.
    values = backend.minimise(problem, Request(clock=clock, gap=1e-4)).values
    if values is None:
        return None
    missing = [
        (name, limit, values[more.name])
        for name, limit, more in zip(configs.resources, limits, extra, strict=True)
        if values[more.name] > 1e-6
    ]
    reasons = [
        f"{name}: {more:g} more than the {limit:g} there are would be needed" for name, limit, more in missing
    ]
    together = " and ".join(f"{name} to {limit + more:g}" for name, limit, more in missing)
    return Diagnosis(reasons=tuple(reasons), remedies=(f"raise {together}",)) if missing else None
