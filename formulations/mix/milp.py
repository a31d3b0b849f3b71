"""The compact MILP model of a mix in PuLP.

Symbols are those of the formulation, with x_ki copies of k that serve requests of type i. Of jobs

    b_k ∈ {0, 1}: k has copies;  y_k ≤ u_k b_k;  ℓ ≤ s_k + (S − s_k)(1 − b_k);  ℓ ≤ S Σ_k b_k

where s_k is the least progress in k, S the largest of these, and ℓ the least progress of the plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...instances.common.arrays import run_of_each
from ..common.clock import check_model_size
from ..common.formulation import MilpModel, ModelObjective, new_problem, upper_bound_row
from .formulation import MixFormulation
from .plan import Copies, Plan
from .program import Entries, devices_of, least_progress_of
from .service import plan_of

if TYPE_CHECKING:
    import pulp


def milp_model(formulation: MixFormulation) -> MilpModel[Copies]:
    """Return the model of an instance."""
    import pulp

    program, instance, names = formulation.program, formulation.instance, list(formulation.configurations)
    check_model_size(
        len(program.weights.index) + 2 * len(program.rates.index) + 3 * len(names), "the textbook model"
    )
    problem, size = new_problem(instance.name), range(len(names))
    y = [problem.add_variable(f"y_{k}", 0, int(program.most[k]), pulp.LpInteger) for k in size]
    for r, terms in _by_row(program.weights).items():
        columns, weights = zip(*terms, strict=True)
        problem += upper_bound_row([y[k] for k in columns], weights, program.rows[r].limit)
    cost = pulp.LpAffineExpression([(y[k], abs(c)) for k, c in enumerate(program.cost.tolist())])
    if instance.serves:
        _add_service(problem, formulation, y)
        second = pulp.LpAffineExpression([(y[k], w) for k, w in enumerate(devices_of(instance).tolist())])
    else:
        second = _least_progress(problem, least_progress_of(instance).tolist(), y, program.most.tolist())

    def decode(value: Callable[[Any], float]) -> Plan:
        counts = {name: round(value(y[k])) for k, name in enumerate(names)}
        plan = plan_of(instance, counts)
        return (
            [Copies(configuration=name, count=n) for name, n in counts.items() if n] if plan is None else plan
        )

    def encode(plan: Sequence[Copies]) -> Mapping[Any, float]:
        counts = {entry.configuration: entry.count for entry in plan}
        return {y[k]: float(counts.get(name, 0)) for k, name in enumerate(names)}

    senses = [objective.sense for objective in formulation.objectives]
    objectives = (
        ModelObjective(formulation.objectives[0], cost, senses[0]),
        ModelObjective(formulation.objectives[1], second, senses[1], integral=instance.serves),
    )
    return MilpModel(problem, objectives, decode, encode)


def _by_row(entries: Entries) -> dict[int, list[tuple[int, float]]]:
    """Return the configurations and values of the entries of each row that has some."""
    rows: dict[int, list[tuple[int, float]]] = defaultdict(list)
    columns = run_of_each(entries.start).tolist()
    for k, r, value in zip(columns, entries.index.tolist(), entries.value.tolist(), strict=True):
        rows[r].append((k, value))
    return rows


def _add_service(problem: pulp.LpProblem, formulation: MixFormulation, y: Sequence[Any]) -> None:
    """Add the shares x of the copies' time, in which they serve all requests."""
    import pulp

    rates, demand = formulation.program.rates, formulation.program.demand.tolist()
    time: dict[int, list[Any]] = defaultdict(list)
    for i, terms in _by_row(rates).items():
        shares = [problem.add_variable(f"x_{k}_{i}", 0) for k, _ in terms]
        for (k, _), share in zip(terms, shares, strict=True):
            time[k].append(share)
        if demand[i]:  # in parts of all requests of the type, so that coefficients are alike
            parts = [(share, rate / demand[i]) for share, (_, rate) in zip(shares, terms, strict=True)]
            problem += pulp.LpAffineExpression(parts) >= 1
    for k, shares in time.items():
        problem += pulp.lpSum(shares) <= y[k]


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
