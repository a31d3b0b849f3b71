"""The compact MILP model of a mix in PuLP.

Symbols are those of the formulation, with x_ki copies of k that serve requests of type i. Of jobs

    b_k ∈ {0, 1}: k has copies;  y_k ≤ u_k b_k;  ℓ ≤ s_k + (S − s_k)(1 − b_k);  ℓ ≤ S Σ_k b_k

where s_k is the least progress in k, S the largest of these, and ℓ the least progress of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..common.clock import check_model_size
from ..common.formulation import MilpModel, ModelObjective, new_problem, upper_bound_row
from .formulation import MixFormulation
from .plan import Copies, Plan
from .program import FULL, MixProgram, least_progress_of

if TYPE_CHECKING:
    import pulp


def milp_model(formulation: MixFormulation) -> MilpModel[Copies]:
    """Return the model of an instance."""
    import pulp

    program, configurations = formulation.program, formulation.instance.configurations
    weights, rates, parts = program.weights, program.rates, program.parts
    serves = formulation.instance.serves
    check_model_size(
        len(weights.value) + 2 * len(rates.value) + 3 * len(configurations), "the textbook model"
    )
    problem = new_problem(formulation.instance.name)
    y = [problem.add_variable(f"y_{k}", 0, int(most), pulp.LpInteger) for k, most in enumerate(program.most)]
    x = [problem.add_variable(f"x_{entry}", 0) for entry in range(len(rates.value))]
    for r, row in enumerate(program.rows):
        inside = np.flatnonzero(weights.column == r)
        copies = [y[k] for k in weights.configuration[inside]]
        if copies:
            problem += upper_bound_row(copies, weights.value[inside].tolist(), row.limit)
    for i in np.flatnonzero(program.demand).tolist():
        # In parts of all requests of the type, so that coefficients are alike.
        own = np.flatnonzero(rates.column == i)
        problem += pulp.LpAffineExpression(zip((x[e] for e in own), parts[own].tolist(), strict=True)) >= FULL
    for k in np.unique(rates.configuration).tolist():
        problem += pulp.lpSum(x[e] for e in np.flatnonzero(rates.configuration == k)) <= y[k]
    cost = pulp.LpAffineExpression(list(zip(y, abs(program.cost).tolist(), strict=True)))
    if serves:
        second = pulp.LpAffineExpression([(y[k], one.devices) for k, one in enumerate(configurations)])
    else:
        second = _least_progress(problem, [*map(least_progress_of, configurations)], y, program.most.tolist())

    def decode(value: Callable[[Any], float]) -> Plan:
        counts = [round(value(copies)) for copies in y]
        return formulation.copies(counts, _shares(program, counts) if serves else [])

    def encode(plan: Sequence[Copies]) -> Mapping[Any, float]:
        counts = {entry.configuration: float(entry.count) for entry in plan}
        return {copies: counts.get(one.name, 0.0) for copies, one in zip(y, configurations, strict=True)}

    objectives = tuple(
        ModelObjective(objective, expression, objective.sense, integral=integral)
        for objective, expression, integral in zip(
            formulation.objectives, (cost, second), (False, serves), strict=True
        )
    )
    return MilpModel(problem, objectives, decode, encode)


def _shares(program: MixProgram, counts: Sequence[int]) -> list[float]:
    """Return the shares x with so many copies; the files of some backends have too few digits of them."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    rates, size, count = program.rates, len(program.demand), len(program.rates.value)
    values = np.concatenate([-program.parts, np.ones(count)])
    rows = np.concatenate([rates.column, size + rates.configuration])
    places = rows, np.tile(np.arange(count), 2)
    limits = np.concatenate([np.where(program.demand > 0, -FULL, 0.0), counts])
    matrix = coo_array((values, places), shape=(len(limits), count))
    found = linprog(np.ones(count), matrix, limits, method="highs")
    return [0.0] * count if found.x is None else found.x.tolist()


def _least_progress(
    problem: pulp.LpProblem, least: Sequence[float], y: Sequence[Any], most: Sequence[float]
) -> pulp.LpAffineExpression:
    """Add the least progress of the groups that have copies; return it."""
    import pulp

    largest = max(least, default=0.0)
    progress = problem.add_variable("least_progress", 0, largest)
    used = [problem.add_variable(f"b_{k}", cat=pulp.LpBinary) for k in range(len(y))]
    for k, copies in enumerate(y):
        problem += copies <= most[k] * used[k]
        problem += progress + (largest - least[k]) * used[k] <= largest
    problem += progress <= largest * pulp.lpSum(used)
    return pulp.LpAffineExpression([(progress, 1.0)])
