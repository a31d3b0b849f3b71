"""Allocation on CP-SAT: one literal for each configuration, exactly one for each job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...formulations.allocation.formulation import AllocationFormulation
from ...formulations.common.clock import check_time, refuse_beyond
from ..backends import cp_sat


class AllocationCpSat(cp_sat.CpSat[AllocationFormulation]):
    """The multiple-choice model, natively on CP-SAT."""

    kinds = ("allocation",)
    what = "multiple-choice model on OR-Tools CP-SAT"

    def model(self, formulation: AllocationFormulation) -> cp_sat.CpModel:
        """Return the model."""
        from ortools.sat.python import cp_model

        configs, jobs = formulation.configurations, range(len(formulation.instance.jobs))
        model = cp_model.CpModel()
        refuse_beyond(formulation.model_terms, "the model for CP-SAT")
        x: list[Any] = []
        for j in jobs:
            check_time()
            x += [model.new_bool_var(f"x{k}") for k in configs.of(j)]
            model.add_exactly_one(x[k] for k in configs.of(j))
        for r in range(len(configs.resources)):
            check_time()
            weights, limit = cp_sat.whole_at_most(configs.demand[:, r].tolist(), float(configs.capacity[r]))
            model.add(cp_model.LinearExpr.weighted_sum(x, weights) <= limit)
        makespan = formulation.instance.objective == "makespan"
        figures = configs.time_s if makespan else configs.cost
        per_job = np.maximum.reduceat(figures, configs.start[:-1])
        # The scale of the integer costs depends on the largest value that the objective can take.
        most = float(per_job.max() if makespan else per_job.sum())
        # Rounded down on a fixed scale: decimals of measured speeds have no small common denominator.
        terms = cp_sat.whole_terms(figures.tolist(), "min", most)
        if makespan:
            expression: Any = model.new_int_var(0, max(terms.numbers), "makespan")
            for j in jobs:
                check_time()
                own = configs.of(j)
                model.add(
                    cp_model.LinearExpr.weighted_sum([x[k] for k in own], [terms.numbers[k] for k in own])
                    <= expression
                )
        else:
            expression = cp_model.LinearExpr.weighted_sum(x, terms.numbers)

        def decode(value: Callable[[Any], int]) -> Sequence[Any]:
            return formulation.plan_of([next(k for k in configs.of(j) if value(x[k])) for j in jobs])

        def hint(plan: Sequence[Any]) -> list[tuple[Any, int]]:
            chosen = set(formulation.indices_of(plan))
            return [(x[k], int(k in chosen)) for k in range(len(x))]

        objective = cp_sat.CpObjective(
            formulation.objectives[0], expression, "min", lambda b: b / terms.scale
        )
        return cp_sat.CpModel(model, [objective], decode, hint)
