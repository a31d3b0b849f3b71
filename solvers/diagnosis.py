"""Why an instance that a solver proved infeasible has no plan, and the smallest change that would help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..formulations.allocation import AllocationFormulation
from ..formulations.base import Diagnosis, Formulation
from ..formulations.consolidation import ConsolidationFormulation
from ..formulations.staging import StagingFormulation
from ..formulations.textbook import TextbookModel
from ..instances.errors import TooLargeError
from .backends import BACKENDS, Request

PATIENCE_S = 20.0
"""Seconds that a diagnosis may take."""


def diagnose(formulation: Formulation[Any, Any]) -> Diagnosis:
    """Return what is in the way, from a relaxed model; a plain sentence where that finds nothing."""
    plain = Diagnosis(reasons=("no plan keeps all constraints together",))
    try:
        if isinstance(formulation, AllocationFormulation):
            return _missing_capacity(formulation) or plain
        if isinstance(formulation, StagingFormulation):
            return _highest_throughput(formulation) or plain
        if isinstance(formulation, ConsolidationFormulation):
            return _most_placed(formulation) or plain
    except TooLargeError:
        pass  # the relaxed model has no bound on units; the plain sentence has to do
    return plain


def _solve(model: TextbookModel[Any]) -> Mapping[str, float] | None:
    """Solve the relaxed model; any solution that was found in time will do."""
    backend = BACKENDS["highs"]
    if backend.unavailable():
        return None
    return backend.minimise(model.problem, Request(time_limit_s=PATIENCE_S, gap=1e-4)).values


def _missing_capacity(formulation: AllocationFormulation) -> Diagnosis | None:
    """Find the least extra capacity, relative to what there is, that makes a plan possible."""
    import pulp

    menu, model = formulation.menu, formulation.textbook()
    short = []
    for r, name in enumerate(menu.rows):
        del model.problem.constraints[f"capacity_{r}"]
        extra = model.problem.add_variable(f"extra_{r}", lowBound=0)
        short.append((name, float(menu.capacity[r]), extra))
        taken = [(x, float(menu.demand[k, r])) for k, x in enumerate(_choices(model, menu))]
        model.problem += pulp.LpAffineExpression([*taken, (extra, -1.0)]) <= float(menu.capacity[r])
    model.problem.sense = pulp.LpMinimize
    model.problem.objective = pulp.LpAffineExpression(
        [(extra, 1 / max(limit, 1.0)) for _, limit, extra in short]
    )
    values = _solve(model)
    if values is None:
        return None
    missing = [(name, limit, values[extra.name]) for name, limit, extra in short if values[extra.name] > 1e-6]
    reasons = [
        f"{name}: {more:g} more than the {limit:g} there are would be needed" for name, limit, more in missing
    ]
    together = " and ".join(f"{name} to {limit + more:g}" for name, limit, more in missing)
    return Diagnosis(reasons=tuple(reasons), remedies=(f"raise {together}",)) if missing else None


def _choices(model: TextbookModel[Any], menu: Any) -> list[Any]:
    by_name = {variable.name: variable for variable in model.problem.variables()}
    return [by_name[f"x_{j}_{k - menu.start[j]}"] for j in range(len(menu.start) - 1) for k in menu.of(j)]


def _highest_throughput(formulation: StagingFormulation) -> Diagnosis | None:
    """Find the highest throughput within limits and budgets, which is below the floor."""
    instance = formulation.instance
    relaxed = StagingFormulation(
        instance.model_copy(update={"objective": "throughput", "throughput_floor_samples_per_s": None})
    )
    model = relaxed.textbook()
    model.set_objective(0)
    values = _solve(model)
    if values is None:
        return None
    best = relaxed.evaluate(model.decode(lambda variable: values[variable.name]))[0]
    floor = instance.throughput_floor_samples_per_s
    if floor is None or best >= floor:
        return None
    within = (
        "the limits and budgets" if instance.hourly_budget_usd or instance.cost_limit_usd else "the limits"
    )
    reason = f"within {within} the highest throughput found is {best:g} samples/s; the floor is {floor:g}"
    return Diagnosis(
        reasons=(reason,), remedies=(f"lower the floor to {best:g}, or raise limits or budgets",)
    )


def _most_placed(formulation: ConsolidationFormulation) -> Diagnosis | None:
    """Find how many of the jobs that must be placed go together, and which are then left out."""
    import pulp

    instance = formulation.instance
    must = {job.name for job in instance.jobs if job.must_place}
    jobs = tuple(
        job.model_copy(update={"must_place": False, "value": 1.0})
        for job in instance.jobs
        if job.name in must
    )
    relaxed = ConsolidationFormulation(instance.model_copy(update={"jobs": jobs, "objectives": ("value",)}))
    model = relaxed.textbook()
    model.set_objective(0)
    model.problem.sense, model.problem.objective = pulp.LpMinimize, -1 * model.problem.objective
    values = _solve(model)
    if values is None:
        return None
    plan = model.decode(lambda variable: values[variable.name])
    out = [entry.job for entry in plan if not entry.placed]
    if not out:
        return None
    reason = f"{len(must) - len(out)} of the {len(must)} jobs that must be placed were found to fit together"
    return Diagnosis(
        reasons=(reason,), remedies=(f"set must_place: false on {', '.join(out[:8])}, or free room for it",)
    )
