"""The compact MILP formulations of staging in PuLP: for a chain and for a graph of layers.

For a chain: two flows on one network, whose columns are all stages that could be part of an optimal plan.
Symbols are those of the formulation. τ·z_c is a product of variables: multiplying every path constraint by τ,
in place of big-M rows, keeps the relaxation tight and needs no constant but τ_max = B0/TL. Stage times are in
units of the slowest allowed one, so that τ and y lie between 0 and 1.

For a graph, after the integer programme of Tarnawski et al. (2020): stages are in a sequence of slots d.
Variables: x_cd, whether class c is in slot d; z_do, whether slot d has option o, units of a type; h_ud,
whether slot d cuts tensor u (where stages relay, whether all slots up to d together cut it); τ; and y_do
= τ·z_do where costs matter. Big-M rows enforce the time of an option only in slots that have it. Times are
in units of the slowest allowed one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...instances.common.arrays import Flags, Floats
from ...instances.common.errors import TooLargeError
from ..common.clock import check_model_size, check_time
from ..common.formulation import MilpModel, ModelObjective, new_problem, upper_bound_row
from ..common.objective import TOLERANCE, loosened
from .formulation import GraphFormulation, StagingFormulation
from .stages import Column, Plan, Stage, min_units, parts_time_s, stage_of

MAX_COLUMNS = 2_000_000
MAX_UNITS_OF_A_TYPE = 1e6
"""Maximum number of units of a type, as the model has a column for each number of units."""


class Columns:
    """The columns (possible stages) of the MILP model, by type, devices, last layer and first layer.

    Raises
    ------
    TooLargeError
        If a type's units are unbounded or there are more than two million columns.
    """

    def __init__(self, formulation: StagingFormulation) -> None:
        self.formulation = formulation
        self.all = _useful_columns(formulation)

    @property
    def model_terms(self) -> int:
        """Estimated number of coefficients of the MILP model, mostly in the rows of `maximal_runs`."""
        instance = self.formulation.instance
        apart = len(instance.types) + 1 if instance.stage_rule == "maximal_runs" else 0
        return len(self.all) * (10 + 2 * apart)

    def uses(self, plan: Plan) -> list[bool]:
        """Return, for each column (possible stage), whether the plan uses it."""
        positions = self.formulation.positions(plan)
        if positions is None:
            return [False] * len(self.all)
        table = self.formulation.table
        used = {
            (table.first[at], table.last[at], table.type[at], stage.units)
            for at, stage in zip(positions, plan, strict=True)
        }
        return [column[:4] in used for column in self.all]

    def stages(self, columns: Iterable[Column]) -> tuple[Stage, ...]:
        """Return the plan that consists of the given columns (stages), in the order of the layers."""
        return tuple(self.formulation.stage(*column[:4]) for column in sorted(columns))

    def at_boundaries(self) -> tuple[list[list[int]], list[list[int]]]:
        """Return the indices of the columns that begin with each layer, and of those that end before it."""
        size = self.formulation.table.layers + 1
        begins: list[list[int]] = [[] for _ in range(size)]
        ends: list[list[int]] = [[] for _ in range(size)]
        for i, column in enumerate(self.all):
            check_time()
            begins[column.first].append(i)
            ends[column.last + 1].append(i)
        return begins, ends


def _useful_columns(formulation: StagingFormulation) -> list[Column]:
    """Return the columns (stages) that keep all limits and that some optimal plan may use."""
    table = formulation.table
    result: list[Column] = []
    for t, highest in enumerate(_max_units(formulation)):
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
                # One more unit must speed the stage up, and matters only above the least possible stage time.
                useful &= (time < before) & (before > formulation.fastest_s)
            # The limit is checked before the columns are made, which take most of the memory.
            if len(result) + int(useful.sum()) > MAX_COLUMNS:
                raise TooLargeError(
                    f"more than {MAX_COLUMNS:,} possible stages; lower the limits of the types"
                )
            result += [
                Column(int(first[i]), int(last[i]), t, units, float(time[i])) for i in np.flatnonzero(useful)
            ]
            before = time
    return result


def _affordable(formulation: StagingFormulation, unit_type: int, units: int, time: Floats) -> Flags:
    """Return a mask of the stages that keep the throughput floor and, alone, the cost limit."""
    slowest, limit = formulation.latest_s, formulation.instance.cost_limit_usd
    useful: Flags = time <= slowest if math.isfinite(slowest) else np.isfinite(time)
    if limit is not None:
        rate = units * formulation.instance.types[unit_type].price_usd_per_hour
        most = loosened(limit) * (1 + TOLERANCE)
        useful[useful] = time[useful] * formulation.cost_usd(1.0, rate) <= most
    return useful


def _max_units(formulation: StagingFormulation) -> list[int]:
    """Return an upper bound on the number of devices of each hardware type in an optimal plan.

    Raises
    ------
    TooLargeError
        If the units of a type are unbounded.
    """
    budget, rate = formulation.instance.hourly_budget_usd, _rate_limit(formulation)
    highest = []
    for hardware, most in zip(formulation.instance.types, formulation.hardware.most.tolist(), strict=True):
        bounds = [most]
        if hardware.price_usd_per_hour > 0:
            spendable = [usd for usd in (budget, rate) if usd is not None]
            bounds += [usd * (1 + TOLERANCE) / hardware.price_usd_per_hour for usd in spendable]
        if min(bounds) > MAX_UNITS_OF_A_TYPE:
            raise TooLargeError(
                f"type {hardware.name!r} has no limit and nothing else bounds its units; give it a limit"
            )
        highest.append(int(min(bounds) * (1 + TOLERANCE)))  # rounding must not lose a unit
    return highest


def _rate_limit(formulation: StagingFormulation) -> float | None:
    """Return an upper bound on the USD/h of an optimal plan; None if none is known.

    It comes from the cost limit, or from plans on a single type.
    """
    if formulation.fastest_s <= 0:
        return None
    limit = formulation.instance.cost_limit_usd
    costs = [] if limit is None else [limit]
    if formulation.instance.objective == "cost":
        costs += _single_type_costs(formulation)
    return min(costs) / (formulation.cost_factor * formulation.fastest_s) if costs else None


def _single_type_costs(formulation: StagingFormulation) -> list[float]:
    """Return the cost [USD] of the cheapest one-stage plan on each hardware type that has a feasible one.

    k·ET(k) does not fall with k, so the cheapest has the fewest units that keep the floor.
    """
    table, last, result = formulation.table, formulation.table.layers - 1, []
    for t in range(len(formulation.instance.types)):
        parts, allowed = table.parts(0, last, t), formulation.slowest_allowed_s
        time = parts_time_s(parts, 1) if math.isinf(allowed) else allowed
        units = min_units(parts, loosened(time), int(formulation.hardware.most[t]))
        if not units:
            continue
        stage = formulation.stage(0, last, t, units)
        if not formulation.violations([stage]):
            result.append(formulation.plan_cost_usd([stage]))
    return result


def milp_model(formulation: StagingFormulation) -> MilpModel[Stage]:
    """Return the compact MILP model of staging on a chain, or on a graph of layers with only one order.

    Raises
    ------
    TooLargeError
        If there are too many columns, or the units of a type are unbounded.
    """
    import pulp

    instance, all_columns = formulation.instance, Columns(formulation)
    columns = all_columns.all
    check_model_size(all_columns.model_terms, "the textbook model")
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
    _add_path_rows(all_columns, problem, [(z, 1), (y, tau)])
    spent = _add_limit_rows(formulation, problem, list(zip(columns, z, y, strict=True)), slowest)

    def decode(value: Callable[[Any], float]) -> tuple[Stage, ...]:
        return all_columns.stages(c for c, own in zip(columns, z, strict=True) if value(own) > 0.5)

    def encode(plan: Plan) -> Mapping[Any, float]:
        on = np.array(all_columns.uses(plan), dtype=float)
        share = min(1.0, formulation.stage_time_s(plan) / slowest)
        return dict(zip([*z, *y, tau], [*on.tolist(), *(share * on).tolist(), share], strict=True))

    return MilpModel(problem, (_objective(formulation, spent, tau, slowest),), decode, encode)


def _add_limit_rows(
    formulation: StagingFormulation,
    problem: Any,
    chosen: Sequence[tuple[Column | Option, Any, Any]],
    slowest_s: float,
) -> Any:
    """Add the rows of device limits, cost limit and budget; return the cost expression [USD].

    Parameters
    ----------
    chosen
        What may be chosen, with its variable z and with y = τ·z, None where no costs matter.
    slowest_s
        The unit of τ.
    """
    import pulp

    instance, price = formulation.instance, formulation.hardware.price.tolist()
    for t, hardware in enumerate(instance.types):
        check_time()
        if hardware.limit is not None:
            units = pulp.lpSum(own.units * z for own, z, _ in chosen if own.type == t)
            problem += units <= hardware.limit, f"limit_{t}"
    rates = [price[own.type] * own.units for own, _, _ in chosen]
    spent = pulp.LpAffineExpression(
        [
            (y, formulation.cost_usd(slowest_s, rate))
            for (_, _, y), rate in zip(chosen, rates, strict=True)
            if y is not None
        ]
    )
    if instance.cost_limit_usd is not None:
        # Scaled to 1: solvers have absolute tolerances.
        problem += spent * (1 / instance.cost_limit_usd) <= loosened(1.0), "cost_limit"
    if instance.hourly_budget_usd is not None:
        variables = [z for _, z, _ in chosen]
        problem += upper_bound_row(variables, rates, instance.hourly_budget_usd), "hourly_budget"
    return spent


def _objective(formulation: StagingFormulation, spent: Any, tau: Any, slowest_s: float) -> ModelObjective:
    """Return the objective of a model: the cost, or the stage time in units of the slowest one."""
    import pulp

    objective = formulation.objectives[0]
    if formulation.instance.objective == "cost":
        return ModelObjective(objective, spent, "min")
    fastest = pulp.LpAffineExpression([(tau, 1.0)])
    return ModelObjective(
        objective, fastest, "min", lambda share: formulation.of_stage_time(share * slowest_s)
    )


def _add_path_rows(columns: Columns, problem: Any, flows: list[tuple[list[Any], Any]]) -> None:
    """Add the rows that make each flow a path through the layers, and those of `maximal_runs`."""
    import pulp

    instance, size = columns.formulation.instance, columns.formulation.table.layers
    begins, ends = columns.at_boundaries()
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
                same = [flow[i] for i in ends[at] + begins[at] if columns.all[i].type == t]
                problem += pulp.lpSum(same) <= arriving, f"apart_{f}_{at}_{t}"


class Option(NamedTuple):
    """An option for a slot (position in the pipeline): hardware type index and number of devices."""

    type: int
    units: int


def milp_of(formulation: StagingFormulation) -> MilpModel[Stage]:
    """Return the compact MILP model of staging, on a chain or a graph of layers.

    Raises
    ------
    TooLargeError
        If the model would be too large, or the units of a type are unbounded.
    """
    if isinstance(formulation, GraphFormulation) and not formulation.blocks.in_a_row:
        return _GraphModelBuilder(formulation).model()
    return milp_model(formulation)


def options_of(formulation: GraphFormulation) -> list[Option]:
    """Return all pairs of hardware type and number of devices that one stage may have.

    Raises
    ------
    TooLargeError
        If the units of a type are unbounded.
    """
    instance, result = formulation.instance, []
    for t, one in enumerate(instance.types):
        if one.limit is None and instance.most_units_per_stage is None:
            raise TooLargeError(
                f"type {one.name!r} has no limit, and the textbook model has a variable for each of its units"
            )
        result += [Option(t, units) for units in range(1, int(formulation.hardware.most[t]) + 1)]
    return result


class _GraphModelBuilder:
    def __init__(self, formulation: GraphFormulation) -> None:
        import pulp

        self.formulation, self.instance = formulation, formulation.instance
        self.classes, self.relayed = formulation.classes, formulation.instance.stage_cost == "relay"
        self.options = options_of(formulation)
        self.of_type = [
            [o for o, option in enumerate(self.options) if option.type == t]
            for t in range(len(self.instance.types))
        ]
        limits = [one.limit for one in self.instance.types]
        count = len(self.classes.members)
        self.slots = range(count if None in limits else min(count, sum(limit or 0 for limit in limits)))
        tensors = self.classes.tensors
        # Number of rows with the classes of all slots up to a slot.
        long = len(self.classes.arcs) + (sum(len(u.classes) for u in tensors) if self.relayed else 0)
        options = 3 * len(self.options) if self.relayed else 2 * len(self.options)
        terms = len(self.slots) * ((count + len(tensors)) * (options + 4) + len(self.slots) * long)
        check_model_size(terms, "the textbook model")
        self.slowest_s = min(formulation.latest_s, formulation.slowest_sum_s)
        self.problem = new_problem(self.instance.name)
        binary, slots = {"cat": pulp.LpBinary}, self.slots

        def add(name: str, **kind: Any) -> Any:
            return self.problem.add_variable(name, **kind)

        self.x = [[add(f"x_{c}_{d}", **binary) for d in slots] for c in range(count)]
        self.z = [[add(f"z_{d}_{o}", **binary) for o in range(len(self.options))] for d in slots]
        self.h = [[add(f"h_{u}_{d}", lowBound=0, upBound=1) for d in slots] for u in range(len(tensors))]
        self.tau = add("tau", lowBound=min(1.0, formulation.fastest_s / self.slowest_s), upBound=1)
        money = self.instance.objective == "cost" or self.instance.cost_limit_usd is not None
        columns = range(len(self.options)) if money else range(0)
        self.y = [[add(f"y_{d}_{o}", lowBound=0, upBound=1) for o in columns] for d in slots]

    def model(self) -> MilpModel[Stage]:
        self._add_assignment_rows()
        self._add_cut_rows()
        for d in self.slots:
            self._add_time_rows(d)
            self._add_memory_rows(d)
        chosen = [
            (option, z, y)
            for d in self.slots
            for option, z, y in itertools.zip_longest(self.options, self.z[d], self.y[d])
        ]
        spent = _add_limit_rows(self.formulation, self.problem, chosen, self.slowest_s)
        objective = _objective(self.formulation, spent, self.tau, self.slowest_s)
        return MilpModel(self.problem, (objective,), self._decode, self._encode)

    def _add_assignment_rows(self) -> None:
        """Add the rows that assign each class of layers to one pipeline slot, in the order of the classes."""
        import pulp

        used = [pulp.lpSum(options) for options in self.z]
        for d in self.slots:
            self.problem += used[d] <= (used[d - 1] if d else 1), f"row_{d}"
        for c, places in enumerate(self.x):
            self.problem += pulp.lpSum(places) == 1, f"placed_{c}"
            for d in self.slots:
                self.problem += places[d] <= used[d], f"used_{c}_{d}"
        for a, b in sorted(self.classes.arcs):
            check_time()
            for d in self.slots[:-1]:
                done = pulp.lpSum(self.x[b][: d + 1]) <= pulp.lpSum(self.x[a][: d + 1])
                self.problem += done, f"order_{a}_{b}_{d}"

    def _add_cut_rows(self) -> None:
        """Add the rows that set, by pipeline slot, whether a tensor is cut between its classes of layers."""
        import pulp

        for u, tensor in enumerate(self.classes.tensors):
            check_time()
            around = sorted(tensor.classes)
            for a, b in itertools.pairwise([*around, around[0]]):
                for d in self.slots:
                    own = slice(0 if self.relayed else d, d + 1)
                    apart = pulp.lpSum(self.x[a][own]) - pulp.lpSum(self.x[b][own])
                    self.problem += self.h[u][d] >= apart, f"cut_{u}_{a}_{d}"

    def _add_time_rows(self, d: int) -> None:
        """Add the rows that bound τ by a slot's time on each option, and exclude types that cannot run it."""
        import pulp

        for t, own in enumerate(self.of_type):
            every = self.formulation.parts[:, t]
            parts = np.array([every[list(layers)].sum(axis=0) for layers in self.classes.members])
            able = np.isfinite(parts[:, 0])
            for c in np.flatnonzero(~able).tolist():
                unable = pulp.lpSum(self.z[d][o] for o in own) + self.x[c][d] <= 1
                self.problem += unable, f"unable_{c}_{d}_{t}"
            parts[~able] = 0.0
            moved = self.formulation.transfer_s[[tensor.layer for tensor in self.classes.tensors], t]
            for o in own:
                check_time()
                units = self.options[o].units
                computing = parts[:, 0] + parts[:, 1] / units
                communicating = parts[:, 2] + parts[:, 3] / units
                transfers = moved / units
                if self.instance.stage_cost == "sum":
                    self._add_time_row(d, o, "adds_up", computing + communicating, transfers)
                    continue
                self._add_time_row(d, o, "computing", computing, np.zeros(len(moved)))
                self._add_time_row(d, o, "communicating", communicating, transfers)
                if self.relayed and d:
                    self._add_time_row(d, o, "receiving", communicating, transfers, d - 1)
            if self.y[d]:
                for o in own:
                    self.problem += self.y[d][o] >= self.tau + self.z[d][o] - 1, f"paid_{d}_{o}"

    def _add_time_row(
        self, d: int, o: int, name: str, seconds: Any, transfers: Any, at: int | None = None
    ) -> None:
        """Add the big-M row that bounds τ by a time of option o in slot d, with cuts of slot `at` or d."""
        import pulp

        terms = [(self.x[c][d], s / self.slowest_s) for c, s in enumerate(seconds.tolist()) if s]
        at = d if at is None else at
        terms += [(self.h[u][at], s / self.slowest_s) for u, s in enumerate(transfers.tolist()) if s]
        most = math.fsum(share for _, share in terms)
        if terms:
            time = pulp.LpAffineExpression(terms)
            self.problem += time <= self.tau + most * (1 - self.z[d][o]), f"{name}_{d}_{o}"

    def _add_memory_rows(self, d: int) -> None:
        import pulp

        memory = [
            math.fsum(self.instance.layers[layer].most_memory_gib for layer in own)
            for own in self.classes.members
        ]
        for t, one in enumerate(self.instance.types):
            if one.memory_gib is None or math.fsum(memory) <= one.memory_gib:
                continue
            terms = [(self.x[c][d], amount / one.memory_gib) for c, amount in enumerate(memory) if amount]
            on = pulp.lpSum(self.z[d][o] for o in self.of_type[t])
            room, rest = loosened(1.0), math.fsum(memory) / one.memory_gib - 1
            self.problem += pulp.LpAffineExpression(terms) <= room + rest * (1 - on), f"memory_{d}_{t}"

    def _decode(self, value: Callable[[Any], float]) -> tuple[Stage, ...]:
        plan = []
        for d in self.slots:
            classes = [c for c, places in enumerate(self.x) if value(places[d]) > 0.5]
            on = [option for o, option in enumerate(self.options) if value(self.z[d][o]) > 0.5]
            if classes and on:
                layers = sorted(layer for c in classes for layer in self.classes.members[c])
                plan.append(stage_of(layers, self.instance.types[on[0].type].name, on[0].units))
        return tuple(plan)

    def _encode(self, plan: Plan) -> Mapping[Any, float]:
        index, of_layer = self.formulation.type_index, self.classes.of_layer
        share = min(1.0, self.formulation.stage_time_s(plan) / self.slowest_s)
        start = {self.tau: share}
        inside = [{of_layer[layer] for layer in stage.members} for stage in plan]
        done = set[int]()
        for d in self.slots:
            has = Option(index[plan[d].type], plan[d].units) if d < len(plan) else None
            own = inside[d] if d < len(plan) else set()
            done |= own
            cutting = done if self.relayed else own
            start |= {places[d]: float(c in own) for c, places in enumerate(self.x)}
            start |= {z: float(option == has) for z, option in zip(self.z[d], self.options, strict=True)}
            start |= {y: share * (option == has) for y, option in zip(self.y[d], self.options, strict=False)}
            for u, tensor in enumerate(self.classes.tensors):
                start[self.h[u][d]] = float(bool(tensor.classes & cutting) and bool(tensor.classes - cutting))
        return start
