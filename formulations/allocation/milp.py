"""The compact models of allocation: the multiple-choice knapsack in PuLP, and speeds as sums of monomials.

The speed formulas of allocation as sums of monomials: 1/f(p, w) = Σ c·pᵃ·wᵇ.

================== ==========================================================
``ps_sync``        θ0·M/w + θ1 + θ2·w/p + θ3·w + θ4·p
``ps_async``       θ0/w + θ1/p + θ2 + θ3·p/w
``ring_allreduce`` (θ0·M − θ2)/w + (θ1 + θ2 − θ3) + θ3·w
================== ==========================================================

Where no coefficient is negative the sum is a posynomial, convex in the logarithms of p and w. That is
always so with parameter servers, and for `ring_allreduce` where θ0·M ≥ θ2 and θ1 + θ2 ≥ θ3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ...instances.common.speed import FormulaModel, PsAsync, PsSync
from ..common.clock import check_time, in_time, refuse_beyond
from ..common.milp_model import MilpModel, ModelObjective, at_most, new_problem
from .formulation import AllocationFormulation
from .plan import JobAllocation

MOST_UNITS = 1e9
"""The largest completion time of the model; its unit is the shortest makespan, if that is enough."""


def milp_model(formulation: AllocationFormulation) -> MilpModel[JobAllocation]:
    """Return the multiple-choice model of the formulation."""
    import pulp

    configs = formulation.configurations
    refuse_beyond(formulation.model_terms, "the textbook model")
    problem = new_problem(formulation.instance.name)
    x: list[Any] = []
    for j in range(configs.jobs):
        check_time()
        x += [problem.add_variable(f"x_{j}_{i}", cat=pulp.LpBinary) for i in range(len(configs.of(j)))]
        problem += pulp.lpSum(x[k] for k in configs.of(j)) == 1, f"one_configuration_{j}"
    for r in range(len(configs.resources)):
        check_time()
        problem += at_most(x, configs.demand[:, r].tolist(), float(configs.capacity[r])), f"capacity_{r}"
    if formulation.instance.objective == "makespan":
        # No makespan is below 1, so that tolerances are small beside it; but from 1e20 on, backends take a
        # coefficient for infinite.
        shortest, longest = formulation.elementary_bounds()[0] or 0.0, float(configs.time_s.max(initial=0.0))
        unit = max(shortest, longest / MOST_UNITS) or 1.0
        latest = problem.add_variable("makespan", lowBound=0)
        for j in range(configs.jobs):
            check_time()
            times = pulp.lpSum(float(configs.time_s[k]) / unit * x[k] for k in configs.of(j))
            problem += times <= latest, f"completion_{j}"
        expression = pulp.LpAffineExpression([(latest, unit)])
    else:
        expression = pulp.LpAffineExpression(in_time(zip(x, configs.cost.tolist(), strict=True)))

    def decode(value: Callable[[Any], float]) -> tuple[JobAllocation, ...]:
        best = [max(configs.of(j), key=lambda k: value(x[k])) for j in range(configs.jobs)]
        return formulation.plan_of(best)

    def encode(plan: Sequence[JobAllocation]) -> Mapping[Any, float]:
        chosen = set(formulation.indices_of(plan).tolist())
        start: dict[Any, float] = {x[k]: float(k in chosen) for k in range(len(x))}
        if formulation.instance.objective == "makespan":
            start[latest] = formulation.evaluate(plan)[0] / unit
        return start

    objective = ModelObjective(formulation.objectives[0], expression, "min")
    return MilpModel(problem, (objective,), decode, encode)


class Monomial(NamedTuple):
    """c·pᵃ·wᵇ in seconds; a is `ps`, b is `workers`."""

    coefficient: float
    ps: int
    workers: int


def monomials(speed: FormulaModel) -> tuple[Monomial, ...]:
    """Return the monomials of the seconds of one step; those that are zero are left out."""
    # Each is c, a and b, in the order of the table above.
    if isinstance(speed, PsSync):
        t0, t1, t2, t3, t4 = speed.theta
        terms = [(t0 * speed.batch, 0, -1), (t1, 0, 0), (t2, -1, 1), (t3, 0, 1), (t4, 1, 0)]
    elif isinstance(speed, PsAsync):
        t0, t1, t2, t3 = speed.theta
        terms = [(t0, 0, -1), (t1, -1, 0), (t2, 0, 0), (t3, 1, -1)]
    else:
        t0, t1, t2, t3 = speed.theta
        terms = [(t0 * speed.batch - t2, 0, -1), (t1 + t2 - t3, 0, 0), (t3, 0, 1)]
    return tuple(Monomial(*term) for term in terms if term[0])
