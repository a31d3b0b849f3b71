"""Staging on CP-SAT: a path of stages, and the cost as a product of two integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...formulations.common.clock import check_model_size, check_time
from ...formulations.common.formulation import ModelObjective
from ...formulations.common.objective import TOLERANCE, loosened
from ...formulations.staging.formulation import StagingFormulation
from ...formulations.staging.milp import Columns
from ...formulations.staging.stages import Plan
from ..backends import cp_sat

TIME_STEPS = 2**28
"""Integer steps in the slowest allowed stage time."""
MOST_RATE = 2**33
"""The rate of all units together stays below this, so that the product fits in 63 bits."""


class StagingCpSat(cp_sat.CpSat[StagingFormulation]):
    """Staging of a chain of layers on CP-SAT: a path of stages, and its cost as a product of integers."""

    # With presolve, OR-Tools 9.15 calls dearer plans optimal on some of these products of large numbers.
    settings = {"cp_model_presolve": False}

    def __init__(self) -> None:
        super().__init__("staging", "path of stages with cost as a product, on OR-Tools CP-SAT")

    def model(self, formulation: StagingFormulation) -> cp_sat.CpModel:
        """Return the CP-SAT model of a staging instance."""
        return StageModel(formulation).build()


class StageModel:
    """The CP-SAT model of staging: one literal per candidate stage, slowest stage time, and hourly rate.

    Stage times are rounded down, so bounds of the model are bounds of the instance.
    """

    def __init__(self, formulation: StagingFormulation) -> None:
        from ortools.sat.python import cp_model

        self.formulation, self.instance = formulation, formulation.instance
        self.columns = Columns(formulation)
        columns = self.columns.all
        covered = sum(column.last - column.first + 1 for column in columns)
        check_model_size(self.columns.model_terms + 2 * covered, "the model for CP-SAT")
        self.slowest_s = min(formulation.latest_s, max((c.time_s for c in columns), default=1.0))
        self.step_s = self.slowest_s / TIME_STEPS
        self.model = cp_model.CpModel()
        self.weighted_sum = cp_model.LinearExpr.weighted_sum
        self.z = [self.model.new_bool_var(f"z{i}") for i in range(len(columns))]
        self.time = self.model.new_int_var(0, TIME_STEPS, "time")

    def build(self) -> cp_sat.CpModel:
        """Return the model with its objective and the functions that decode plans and encode hints."""
        self._flow()
        self._unit_limits()
        product, usd = self._cost_product()
        self._money_limits(product, usd)

        def decode(value: Callable[[Any], int]) -> Plan:
            return self.columns.stages([c for i, c in enumerate(self.columns.all) if value(self.z[i])])

        def hint(plan: Plan) -> list[tuple[Any, int]]:
            return list(zip(self.z, map(int, self.columns.uses(plan)), strict=True))

        return cp_sat.CpModel(self.model, [self._objective(product, usd)], decode, hint)

    def _flow(self) -> None:
        """Add the flow constraints: stages form a path over all layers, none of them slower than `time`."""
        size, columns, z = self.formulation.table.layers, self.columns.all, self.z
        begin, arrive = self.columns.at_boundaries()
        cover: list[list[int]] = [[] for _ in range(size)]
        for i, column in enumerate(columns):
            check_time()
            for layer in range(column.first, column.last + 1):
                cover[layer].append(i)
        steps = [min(TIME_STEPS, math.floor(column.time_s / self.step_s)) for column in columns]
        for own in cover:
            check_time()
            self.model.add_exactly_one(z[i] for i in own)
            # One row a layer bounds `time` by the stage that covers it: tighter than a row a column.
            self.model.add(self.weighted_sum([z[i] for i in own], [steps[i] for i in own]) <= self.time)
        # Exactly one column covers each layer already; these rows tighten the relaxation.
        for at in range(1, size):
            arriving = sum(z[i] for i in arrive[at])
            self.model.add(arriving == sum(z[i] for i in begin[at]))
            check_time()
            if self.instance.stage_rule == "maximal_runs":
                for t in range(len(self.instance.types)):
                    same = sum(z[i] for i in arrive[at] + begin[at] if columns[i].type == t)
                    self.model.add(same <= arriving)

    def _unit_limits(self) -> None:
        """Add a constraint on the total units of each hardware type that has a limit."""
        for t, hardware in enumerate(self.instance.types):
            if hardware.limit is not None:
                own = ((i, c) for i, c in enumerate(self.columns.all) if c.type == t)
                self.model.add(sum(c.units * self.z[i] for i, c in own) <= hardware.limit)

    def _cost_product(self) -> tuple[Any, float]:
        """Return the variable stage time × hourly rate, and the USD per unit of it."""
        columns = self.columns.all
        most_units = max((c.units for c in columns), default=1) * self.formulation.table.layers
        prices = self.formulation.hardware.price.tolist()
        whole = cp_sat.integer_terms(prices, "min", most_units * max(prices), MOST_RATE)
        # CP-SAT multiplies two variables, not two sums: the rate becomes a variable of its own.
        rate = self.model.new_int_var(0, MOST_RATE, "rate")
        self.model.add(self.weighted_sum(self.z, [whole.numbers[c.type] * c.units for c in columns]) == rate)
        product = self.model.new_int_var(0, MOST_RATE * TIME_STEPS, "product")
        self.model.add_multiplication_equality(product, [self.time, rate])
        return product, self.formulation.cost_factor * self.step_s / whole.scale

    def _money_limits(self, product: Any, usd: float) -> None:
        """Add the constraints of the cost limit and of the hourly budget, if there are any."""
        limit, budget = self.instance.cost_limit_usd, self.instance.hourly_budget_usd
        if limit is not None:
            # Rounded times and prices only lower the product, so this cuts off no plan; the plan is verified.
            most = math.ceil(limit * (1 + TOLERANCE) / usd)
            self.model.add(product <= min(MOST_RATE * TIME_STEPS, most))
        if budget is not None:
            rates = [self.instance.types[c.type].price_usd_per_hour * c.units for c in self.columns.all]
            weights, most = cp_sat.integer_row(rates, loosened(budget))
            self.model.add(self.weighted_sum(self.z, weights) <= most)

    def _objective(self, product: Any, usd: float) -> ModelObjective:
        """Return the CP-SAT objective, with the function that converts model bounds to instance bounds."""
        objective = self.formulation.objectives[0]
        if self.instance.objective == "cost":
            return ModelObjective(objective, product, "min", lambda b: b * usd)
        return ModelObjective(
            objective, self.time, "min", lambda b: self.formulation.of_stage_time(b * self.step_s)
        )
