"""The compact model of staging in PuLP: two flows on one network; symbols as in the formulation.

Stage times are in units of the slowest allowed one, so that τ and y lie between 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..common.clock import check_time, refuse_beyond
from ..common.milp_model import MilpModel, ModelObjective, at_most, new_problem
from .columns import Columns
from .formulation import StagingFormulation
from .plan import Column, Stage


def milp_model(formulation: StagingFormulation) -> MilpModel[Stage]:
    """Return the model.

    Raises
    ------
    TooLargeError
        If there are too many columns, or nothing bounds a type's units.
    """
    import pulp

    instance, all_columns = formulation.instance, Columns(formulation)
    columns = all_columns.all
    refuse_beyond(all_columns.model_terms, "the textbook model")
    longest = max((column.time_s for column in columns), default=1.0)
    slowest = min(formulation.latest_s, longest)
    problem = new_problem(instance.name)
    tau = problem.add_variable("tau", lowBound=min(1.0, formulation.fastest_s / slowest), upBound=1)
    z = [problem.add_variable(f"z_{i}", cat=pulp.LpBinary) for i in range(len(columns))]
    y = [problem.add_variable(f"y_{i}", lowBound=0, upBound=1) for i in range(len(columns))]
    # With binary z these two rows and the flow of τ make y_c = τ·z_c exactly.
    for i, column in enumerate(columns):
        check_time()
        problem += y[i] >= column.time_s / slowest * z[i], f"slowest_{i}"
        problem += y[i] <= z[i], f"only_if_used_{i}"
    _add_paths(formulation, problem, columns, [(z, 1), (y, tau)])
    for t, hardware in enumerate(instance.types):
        check_time()
        if hardware.limit is not None:
            units = pulp.lpSum(c.units * z[i] for i, c in enumerate(columns) if c.type == t)
            problem += units <= hardware.limit, f"limit_{t}"
    rates = [instance.types[c.type].price_usd_per_hour * c.units for c in columns]
    spent = pulp.LpAffineExpression([(y[i], formulation.cost_usd(slowest, r)) for i, r in enumerate(rates)])
    if instance.cost_limit_usd is not None:
        # Scaled to 1: solvers have absolute tolerances.
        problem += spent * (1 / instance.cost_limit_usd) <= 1, "cost_limit"
    if instance.hourly_budget_usd is not None:
        problem += at_most(z, rates, instance.hourly_budget_usd), "hourly_budget"

    def decode(value: Callable[[Any], float]) -> tuple[Stage, ...]:
        return all_columns.stages([c for i, c in enumerate(columns) if value(z[i]) > 0.5])

    def encode(plan: Sequence[Stage]) -> Mapping[Any, float]:
        on = all_columns.uses(plan)
        share = min(1.0, formulation.stage_time_s(plan) / slowest)
        start = {z[i]: float(flag) for i, flag in enumerate(on)}
        return {**start, **{y[i]: share * flag for i, flag in enumerate(on)}, tau: share}

    if instance.objective == "cost":
        objective = ModelObjective(formulation.objectives[0], spent, "min")
    else:
        fastest = pulp.LpAffineExpression([(tau, 1.0)])
        objective = ModelObjective(
            formulation.objectives[0],
            fastest,
            "min",
            lambda share: formulation.of_stage_time(share * slowest),
        )
    return MilpModel(problem, (objective,), decode, encode)


def _add_paths(
    formulation: StagingFormulation, problem: Any, columns: list[Column], flows: list[tuple[list[Any], Any]]
) -> None:
    """Make each flow a path through the layers, and keep neighbours of one type apart if asked to."""
    import pulp

    instance = formulation.instance
    size = len(instance.layers)
    begins: list[list[int]] = [[] for _ in range(size)]
    ends: list[list[int]] = [[] for _ in range(size + 1)]
    for i, column in enumerate(columns):
        begins[column.first].append(i)
        ends[column.last + 1].append(i)
    for f, (flow, amount) in enumerate(flows):
        problem += pulp.lpSum(flow[i] for i in begins[0]) == amount, f"enter_{f}"
        problem += pulp.lpSum(flow[i] for i in ends[size]) == amount, f"leave_{f}"
        for at in range(1, size):
            check_time()
            arriving = pulp.lpSum(flow[i] for i in ends[at])
            problem += arriving == pulp.lpSum(flow[i] for i in begins[at]), f"flow_{f}_{at}"
            if instance.stage_rule == "free_cuts":
                continue
            for t in range(len(instance.types)):
                check_time()
                same = [flow[i] for i in ends[at] + begins[at] if columns[i].type == t]
                problem += pulp.lpSum(same) <= arriving, f"apart_{f}_{at}_{t}"
