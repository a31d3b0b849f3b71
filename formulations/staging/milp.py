"""The compact model of staging in PuLP: two flows on one network; symbols as in the formulation.

Stage times are in units of the slowest allowed one, so that τ and y lie between 0 and 1.

Every stage that could be part of an optimal plan: the columns of the compact model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...instances.common.arrays import Floats
from ...instances.common.errors import TooLargeError
from ..common.clock import check_time, refuse_beyond
from ..common.milp_model import MilpModel, ModelObjective, at_most, new_problem
from ..common.tolerance import TOLERANCE, loosened
from .formulation import StagingFormulation
from .plan import Column, Stage
from .stage_times import MOST_UNITS, fewest_units, parts_time_s

MOST_COLUMNS = 2_000_000
MOST_UNITS_OF_A_TYPE = 1e6
"""An explicit model has a column for each number of units."""


class Columns:
    """The columns of an instance, in the order of type, units, last layer and first layer.

    Raises
    ------
    TooLargeError
        If a type's units are unbounded or there are more than two million columns.
    """

    def __init__(self, formulation: StagingFormulation) -> None:
        self.formulation = formulation
        self.all = _columns(formulation)

    @property
    def model_terms(self) -> int:
        """Coefficients of an explicit model, roughly; most are in the rows that keep types apart."""
        instance = self.formulation.instance
        apart = len(instance.types) + 1 if instance.stage_rule == "maximal_runs" else 0
        return len(self.all) * (10 + 2 * apart)

    def uses(self, plan: Sequence[Stage]) -> list[bool]:
        """Return for each column whether the plan has that stage."""
        names = [hardware.name for hardware in self.formulation.instance.types]
        used = {(s.first_layer, s.last_layer, names.index(s.type), s.units) for s in plan}
        return [(c.first, c.last, c.type, c.units) in used for c in self.all]

    def stages(self, columns: Sequence[Column]) -> tuple[Stage, ...]:
        """Return the plan that these columns make, from the first layer to the last."""
        ordered = sorted(columns, key=lambda c: c.first)
        return tuple(self.formulation.stage(c.first, c.last, c.type, c.units) for c in ordered)


def _columns(formulation: StagingFormulation) -> list[Column]:
    """Return every stage that limits, memory, floor and cost allow; of units, no more than speed it up."""
    table = formulation.table
    found: list[Column] = []
    for t, highest in enumerate(_highest_units(formulation)):
        own = np.flatnonzero(table.type == t)
        first, last = table.first[own], table.last[own]
        before = None
        for units in range(1, highest + 1):
            check_time()
            time = table.time_s(units)[own]
            if before is not None and not (time < before).any():
                break
            useful = _affordable(formulation, t, units, time)
            if before is not None:
                # A unit more must speed the stage up, and matters only above the least possible stage time.
                useful &= (time < before) & (before > formulation.fastest_s)
            # The limit is checked before the columns are made, which take most of the memory.
            if len(found) + int(useful.sum()) > MOST_COLUMNS:
                raise TooLargeError(
                    f"more than {MOST_COLUMNS:,} possible stages; lower the limits of the types"
                )
            found += [
                Column(int(first[i]), int(last[i]), t, units, float(time[i])) for i in np.flatnonzero(useful)
            ]
            before = time
    return found


def _affordable(
    formulation: StagingFormulation, unit_type: int, units: int, time: Floats
) -> NDArray[np.bool_]:
    """Return which stages on these units keep the throughput floor and, alone, the cost limit."""
    slowest, limit = formulation.latest_s, formulation.instance.cost_limit_usd
    useful: NDArray[np.bool_] = time <= slowest if math.isfinite(slowest) else np.isfinite(time)
    if limit is not None:
        rate = units * formulation.instance.types[unit_type].price_usd_per_hour
        most = loosened(limit) * (1 + TOLERANCE)
        useful[useful] = time[useful] * formulation.cost_usd(1.0, rate) <= most
    return useful


def _highest_units(formulation: StagingFormulation) -> list[int]:
    """Return for each type how many units a sensible plan has at most.

    Raises
    ------
    TooLargeError
        If nothing in the instance bounds a type.
    """
    budget, rate = formulation.instance.hourly_budget_usd, _rate_limit(formulation)
    highest = []
    for hardware in formulation.instance.types:
        bounds = [float(hardware.limit)] if hardware.limit is not None else []
        if hardware.price_usd_per_hour > 0:
            spendable = [usd for usd in (budget, rate) if usd is not None]
            bounds += [usd * (1 + TOLERANCE) / hardware.price_usd_per_hour for usd in spendable]
        if not bounds or min(bounds) > MOST_UNITS_OF_A_TYPE:
            raise TooLargeError(
                f"type {hardware.name!r} has no limit and nothing else bounds its units; give it a limit"
            )
        highest.append(int(min(bounds) * (1 + TOLERANCE)))  # rounding must not lose a unit
    return highest


def _rate_limit(formulation: StagingFormulation) -> float | None:
    """Return the most USD/h an optimal plan can take, from a cost limit or a plan on a single type."""
    if formulation.fastest_s <= 0:
        return None
    limit = formulation.instance.cost_limit_usd
    costs = [] if limit is None else [limit]
    if formulation.instance.objective == "cost":
        costs += _single_type_costs(formulation)
    return min(costs) / (formulation.cost_factor * formulation.fastest_s) if costs else None


def _single_type_costs(formulation: StagingFormulation) -> list[float]:
    """Return the cost of the cheapest plan on each single type that has one.

    k·ET(k) does not fall with k, so the cheapest has the fewest units that keep the floor.
    """
    table, last, found = formulation.table, len(formulation.instance.layers) - 1, []
    for t, hardware in enumerate(formulation.instance.types):
        parts, allowed = table.parts(0, last, t), formulation.slowest_allowed_s
        time = parts_time_s(parts, 1) if math.isinf(allowed) else allowed
        most = MOST_UNITS if hardware.limit is None else min(hardware.limit, MOST_UNITS)
        units = fewest_units(parts, loosened(time), most)
        if not units:
            continue
        stage = formulation.stage(0, last, t, units)
        if not formulation.violations([stage]):
            found.append(formulation.plan_cost_usd([stage]))
    return found


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
