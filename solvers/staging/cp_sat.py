"""Staging on CP-SAT: a path of stages, and the cost as a product of two whole numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...formulations.common.clock import check_time, refuse_beyond
from ...formulations.common.milp_model import whole_row
from ...formulations.common.tolerance import TOLERANCE
from ...formulations.staging.formulation import StagingFormulation
from ..backends import cp_sat
from ..common.base import Clock, Outcome, Solver
from ..common.options import SolveOptions

TIME_STEPS = 2**28
"""Whole steps in the slowest allowed stage time."""
MOST_RATE = 2**33
"""The rate of all units together stays below this, so that the product fits in 63 bits."""


SETTINGS = {"cp_model_presolve": False}
"""With presolve, OR-Tools 9.15 calls dearer plans optimal on some of these products of large numbers."""


class StagingCpSat(Solver[StagingFormulation]):
    """The stage model, natively on CP-SAT."""

    name = "cp-sat"
    kinds = ("staging",)
    proves = True
    features = cp_sat.FEATURES
    what = "path of stages with cost as a product, on OR-Tools CP-SAT"

    def unavailable(self) -> str | None:
        """Return why CP-SAT cannot be used."""
        return cp_sat.unavailable()

    def solve(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Solve with CP-SAT."""
        settings = {**SETTINGS, **options.backend_options}
        options = options.model_copy(update={"backend_options": settings})
        return cp_sat.solve_in_order(formulation, build(formulation), options, clock)


def _whole_prices(prices: Sequence[float], units: float) -> tuple[list[int], float]:
    """Return prices in whole numbers, exactly or rounded down, and their scale."""
    exact, largest = whole_row(prices, 0.0), max(prices, default=0.0)
    if largest == 0:
        return [0] * len(prices), 1.0
    if exact is not None and max(exact[0]) * units < MOST_RATE:
        return exact[0], max(exact[0]) / largest
    scale = MOST_RATE / (units * largest) / 2
    return [math.floor(price * scale) for price in prices], scale


def build(formulation: StagingFormulation) -> cp_sat.CpModel:
    """Return the model; stage times are rounded down, so its bounds are bounds."""
    from ortools.sat.python import cp_model

    instance, columns = formulation.instance, formulation.columns
    covered = sum(column.last - column.first + 1 for column in columns)
    refuse_beyond(formulation.model_terms + 2 * covered, "the model for CP-SAT")
    size = len(instance.layers)
    slowest = min(formulation.latest_s, max((c.time_s for c in columns), default=1.0))
    step = slowest / TIME_STEPS
    model = cp_model.CpModel()
    z = [model.new_bool_var(f"z{i}") for i in range(len(columns))]
    time = model.new_int_var(0, TIME_STEPS, "time")
    arrive: list[list[int]] = [[] for _ in range(size + 1)]
    begin: list[list[int]] = [[] for _ in range(size + 1)]
    cover: list[list[int]] = [[] for _ in range(size)]
    for i, column in enumerate(columns):
        check_time()
        begin[column.first].append(i)
        arrive[column.last + 1].append(i)
        for layer in range(column.first, column.last + 1):
            cover[layer].append(i)
    steps = [min(TIME_STEPS, math.floor(column.time_s / step)) for column in columns]
    for layer in range(size):
        check_time()
        model.add_exactly_one(z[i] for i in cover[layer])
        longest = cp_model.LinearExpr.weighted_sum(
            [z[i] for i in cover[layer]], [steps[i] for i in cover[layer]]
        )
        model.add(longest <= time)
    for at in range(1, size):
        arriving = sum(z[i] for i in arrive[at])
        model.add(arriving == sum(z[i] for i in begin[at]))
        check_time()
        if instance.stage_rule == "maximal_runs":
            for t in range(len(instance.types)):
                model.add(sum(z[i] for i in arrive[at] + begin[at] if columns[i].type == t) <= arriving)
    for t, kind in enumerate(instance.types):
        if kind.limit is not None:
            model.add(sum(c.units * z[i] for i, c in enumerate(columns) if c.type == t) <= kind.limit)
    most_units = max((c.units for c in columns), default=1) * size
    prices, scale = _whole_prices([kind.price_usd_per_hour for kind in instance.types], most_units)
    rates = [prices[c.type] * c.units for c in columns]
    rate = model.new_int_var(0, MOST_RATE, "rate")
    model.add(cp_model.LinearExpr.weighted_sum(z, rates) == rate)
    product = model.new_int_var(0, MOST_RATE * TIME_STEPS, "product")
    model.add_multiplication_equality(product, [time, rate])
    usd = formulation.cost_factor * step / scale
    if instance.cost_limit_usd is not None:
        # Rounded times and prices only lower the product, so this cuts off no plan; the plan is verified.
        model.add(
            product <= min(MOST_RATE * TIME_STEPS, math.ceil(instance.cost_limit_usd * (1 + TOLERANCE) / usd))
        )
    if instance.hourly_budget_usd is not None:
        true_rates = [instance.types[c.type].price_usd_per_hour * c.units for c in columns]
        weights, limit = cp_sat.whole_at_most(true_rates, instance.hourly_budget_usd)
        model.add(cp_model.LinearExpr.weighted_sum(z, weights) <= limit)

    def decode(value: Callable[[Any], int]) -> Sequence[Any]:
        return formulation.stages_of([c for i, c in enumerate(columns) if value(z[i])])

    def hint(plan: Sequence[Any]) -> list[tuple[Any, int]]:
        return [(z[i], int(flag)) for i, flag in enumerate(formulation.uses(plan))]

    objective = formulation.objectives[0]
    if instance.objective == "cost":
        return cp_sat.CpModel(
            model, [cp_sat.CpObjective(objective, product, "min", lambda b: b * usd)], decode, hint
        )
    fastest = cp_sat.CpObjective(objective, time, "min", lambda b: formulation.of_stage_time(b * step))
    return cp_sat.CpModel(model, [fastest], decode, hint)
