"""Exact methods for graphs of layers: dynamic programming over limited devices, or search over stage times.

Where devices alone decide, the fastest plan is found by dynamic programming over (ideal, units used of each
type): V(I, u) is the least time of the slowest stage over plans of the ideal I that use u units (Tarnawski
et al. 2020). Ideals are expanded by rising size, and stages that are not faster than the best known plan
are skipped. An ideal is left out where the work that is left does not fit the devices that are
left. Bounds rise until a plan meets them.

Methods for graphs have the names of those for chains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...formulations.common.compiled import compiled, is_compiled
from ...formulations.staging.formulation import GraphFormulation, StagingFormulation
from ...formulations.staging.graph_order import MAX_IDEALS
from ...formulations.staging.graph_stages import (
    GraphArrays,
    StageBuffers,
    graph_arrays,
    stage_buffers,
    stages_from,
    weighted_work,
)
from ...formulations.staging.stages import Plan, Stage, compiled_time_s
from ...instances.common.arrays import Floats, Ints
from ...instances.common.errors import OutOfTimeError, TooLargeError
from ..common.base import Clock, Outcome, PresolvingSolver, Trace
from ..common.result import Limit, SolveOptions
from .exact import StagingExact, certificate
from .graph_heuristic import first_plan
from .search import limit_of

FINITE_CUTOFF_S = 1e200
"""Finite substitute for an infinite cutoff, whose product with no units left is undefined."""
ROUNDING_FACTOR = 1 + 1e-9
"""Tolerance, as a factor, when what is left to do is compared with the units left."""


class Devices(NamedTuple):
    """States of the dynamic program (units used of each type as one number), and the units they leave.

    Attributes
    ----------
    stride
        State = Σ_t used_t · stride_t, shape (T,).
    left
        Units of each type that are left in each state, shape (T, U).
    capacity
        Σ_t y_t · (units left), for each way y to weigh the types, shape (Y, U).
    work
        Weighted work outside each ideal, shape (Y, I).
    room, memory
        Memory of the units left in each state, shape (U,), and of the blocks outside each ideal, shape (I,).
    """

    stride: Ints
    left: Ints
    capacity: Floats
    work: Floats
    room: Floats
    memory: Floats


class Values(NamedTuple):
    """Table V of the dynamic program with predecessors, shape (I, U): ideal before, type and units."""

    time: Floats
    before: Ints
    type: Ints
    units: Ints


FastestPath = tuple[float, list[tuple[int, int, int, int]]]
"""The slowest stage time of a path of ideals, and (smaller ideal, larger ideal, type, units) per stage."""


def count_states(limits: list[int]) -> int:
    """Return the number of states of the dynamic program: combinations of units used within the limits."""
    return math.prod(limit + 1 for limit in limits)


def devices_of(problem: GraphArrays, limits: list[int]) -> Devices:
    """Return the states of the dynamic program of a graph, with work and memory left outside each ideal."""
    strides = [count_states(limits[:t]) for t in range(len(limits))]
    states = np.arange(count_states(limits))
    left = np.array([limit - states // s % (limit + 1) for s, limit in zip(strides, limits, strict=True)])
    weights, least = weighted_work(problem.parts[:, :, 0] + problem.parts[:, :, 1])
    with np.errstate(invalid="ignore"):
        room = np.where(left > 0, left * problem.room[:, None], 0.0)
    outside = ~problem.inside
    return Devices(
        np.array(strides),
        left,
        np.array([y @ left for y in weights]).reshape(len(weights), len(states)),
        np.array([outside @ own for own in least]).reshape(len(weights), len(outside)),
        room.sum(axis=0),
        outside @ problem.memory,
    )


@compiled
def _extend(
    values: Values,
    stride: Ints,
    left: Ints,
    most_units: Floats,
    source: int,
    count: int,
    rows: StageBuffers,
    cutoff: float,
) -> float:
    """Extend the plans of an ideal by stages; return the least stage time of a whole plan, or `cutoff`."""
    ideals, states = values.time.shape
    for row in range(count):
        last, t, before = rows.last[row], rows.type[row], np.inf
        parts = rows.parts[row, 0], rows.parts[row, 1], rows.parts[row, 2], rows.parts[row, 3]
        for units in range(1, int(most_units[t]) + 1):
            time = compiled_time_s(parts, units)
            # Further units that do not speed a stage up are of no use.
            if time >= before:
                break
            before = time
            if time >= cutoff:
                continue
            for state in range(states):
                if left[t, state] < units:
                    continue
                after = state + units * stride[t]
                slowest = max(values.time[source, state], time)
                if slowest < values.time[last, after] and slowest < cutoff:
                    values.time[last, after] = slowest
                    values.before[last, after] = source
                    values.type[last, after] = t
                    values.units[last, after] = units
                    if last == ideals - 1:
                        cutoff = slowest
    return cutoff


def fastest_path(
    problem: GraphArrays, devices: Devices, cutoff: float, clock: Clock
) -> tuple[FastestPath | None, bool]:
    """Return the fastest plan below the cutoff, None without one, and whether the search was completed."""
    ideals, states = len(problem.inside), len(devices.room)
    values = Values(
        np.full((ideals, states), np.inf),
        np.full((ideals, states), -1, dtype=np.int32),
        np.zeros((ideals, states), dtype=np.int16),
        np.zeros((ideals, states), dtype=np.int32),
    )
    values.time[0, 0] = 0.0
    rows, best, complete = stage_buffers(problem), cutoff, True
    for source in range(ideals - 1):
        if clock.expired:
            complete = False
            break
        time = values.time[source]
        if not (time < best).any():
            continue
        fits = devices.memory[source] <= devices.room * ROUNDING_FACTOR
        for capacity, work in zip(devices.capacity, devices.work[:, source], strict=True):
            fits &= work <= min(best, FINITE_CUTOFF_S) * capacity * ROUNDING_FACTOR
        time[~fits | (time >= best)] = np.inf
        if np.isfinite(time).any():
            count = stages_from(problem, source, best, rows)
            best = _extend(
                values, devices.stride, devices.left, problem.most_units, source, count, rows, best
            )
    return _path(values, devices) if best < cutoff else None, complete


def _path(values: Values, devices: Devices) -> FastestPath:
    ideal = len(values.time) - 1
    state = int(values.time[ideal].argmin())
    time, stages = float(values.time[ideal, state]), []
    while ideal:
        before, t = int(values.before[ideal, state]), int(values.type[ideal, state])
        units = int(values.units[ideal, state])
        stages.append((before, ideal, t, units))
        ideal, state = before, state - units * int(devices.stride[t])
    return time, stages[::-1]


FIRST_STEP = 0.01
"""The first cutoff is this much above the lower bound, relatively; each further one twice as much."""


@dataclass
class DeviceSearch:
    """Dynamic programming with rising cutoffs: raises a bound on the stage time until a plan meets it.

    A cutoff a little above the bound leaves few stages, so that passes that find no plan are cheap, and the
    first one that finds a plan does little more work than the proof needs.
    """

    formulation: GraphFormulation
    options: SolveOptions
    clock: Clock
    time_s: float = math.inf
    plan: tuple[Stage, ...] | None = None
    bound_s: float = 0.0
    limit: Limit = "none"
    trace: Trace = field(default_factory=list)

    def run(self) -> Outcome:
        """Run the dynamic program with rising cutoffs until the gap is closed or the time is up."""
        formulation = self.formulation
        self.bound_s = formulation.least_s
        latest = math.nextafter(min(formulation.latest_s, formulation.slowest_sum_s), math.inf)
        try:
            with self.clock.enforced():
                one = formulation.restricted_to_one_order()
                self._run_dynamic_program(one, self._prepared(one), latest)
                if formulation.ideals.complete:
                    self._close(latest)
        except (KeyboardInterrupt, OutOfTimeError) as stop:
            self.limit = limit_of(stop)
        return self._outcome(latest)

    def _close(self, latest: float) -> None:
        """Raise the bound on the slowest stage time and improve the plan until the gap is closed."""
        step = FIRST_STEP
        least = self.bound_s if self.bound_s > 0 else latest / 1e6
        prepared = self._prepared(self.formulation)
        while self.bound_s < (latest if self.plan is None else self.time_s * (1 - self.options.gap)):
            known = min(self.time_s, latest)
            cutoff = min(known, max(self.bound_s, least) * (1 + step))
            # Near the best plan the proof of all the rest is hardly dearer.
            cutoff = known if cutoff * (1 + step) > known else cutoff
            before = self.time_s
            self._run_dynamic_program(self.formulation, prepared, cutoff)
            self.bound_s = self.time_s if self.time_s < before else cutoff
            of_time = self.formulation.of_stage_time
            value = None if self.plan is None else of_time(self.time_s)
            self.trace.append((self.clock.elapsed_s, value, of_time(self.bound_s)))
            step *= 2

    @staticmethod
    def _prepared(formulation: GraphFormulation) -> tuple[GraphArrays, Devices]:
        problem = graph_arrays(formulation.instance, formulation.blocks, formulation.ideals)
        limits = unit_limits(formulation)
        return problem, devices_of(problem, limits)

    def _run_dynamic_program(
        self, formulation: GraphFormulation, prepared: tuple[GraphArrays, Devices], cutoff: float
    ) -> None:
        """Run the dynamic program with a cutoff on the stage time; keep its plan if the fastest."""
        path, complete = fastest_path(*prepared, cutoff, self.clock)
        if path is not None and path[0] < self.time_s:
            self.time_s, stages = path
            self.plan = tuple(formulation.stage(first, last - 1, t, k) for first, last, t, k in stages)
            self.trace.append((self.clock.elapsed_s, formulation.of_stage_time(self.time_s), None))
        if not complete:
            raise OutOfTimeError("the pass ended early")

    def _outcome(self, latest: float) -> Outcome:
        formulation = self.formulation
        outcome = Outcome(self.plan, limit=self.limit, trace=self.trace)
        if self.plan is None and self.limit == "none" and formulation.ideals.complete:
            outcome.infeasible = self.bound_s >= latest
        bound = None if outcome.infeasible or self.bound_s <= 0 else formulation.of_stage_time(self.bound_s)
        outcome.bounds = (bound,)
        if not formulation.ideals.complete:
            # The bound is the elementary one, which needs no certificate.
            outcome.message = one_order_note(formulation)
        elif bound is not None or outcome.infeasible:
            outcome.certificate = certificate(formulation, [], bound, latest)
        return outcome


def one_order_note(formulation: GraphFormulation) -> str:
    """Return the message that only plans of one topological order of the layers were searched."""
    ideals = formulation.ideals
    many = f"{len(ideals):,} ideals, too many stages" if ideals.complete else f"over {MAX_IDEALS:,} ideals"
    return (
        f"the graph has {many}, so that only one order of its layers was looked at; the bound holds for all "
        "plans"
    )


MAX_STATES = 30_000_000
"""Most ideals times states of a dynamic program, each some 20 bytes."""
FEW_STEPS = 5000
"""Most steps of the dynamic program for a stage; with more, the search over stage times comes first."""


def graph_size_text(formulation: GraphFormulation) -> str:
    """Return a text on the numbers of layers, equivalence classes, blocks and ideals of a graph."""
    layers, classes = len(formulation.instance.layers), len(formulation.classes.members)
    blocks = len(formulation.blocks)
    text = f"{layers:,} layers" if classes == layers else f"{layers:,} layers in {classes:,} classes"
    if blocks < classes:
        text += f", {classes - blocks:,} without time joined to a neighbour, which makes no plan worse"
    return f"{text}; {len(formulation.ideals):,} ideals" if formulation.ideals.complete else text


def unit_limits(formulation: GraphFormulation) -> list[int]:
    """Return the numbers of units of the types that have a limit."""
    return [one.limit for one in formulation.instance.types if one.limit is not None]


def steps_per_stage(formulation: GraphFormulation) -> int:
    """Return the dynamic program's operations per stage: numbers of units times states."""
    return int(formulation.hardware.most.max()) * count_states(unit_limits(formulation))


def dynamic_program_applies(formulation: GraphFormulation) -> bool:
    """Return whether the dynamic program applies: fastest plan, all types limited, no cost limits."""
    instance = formulation.instance
    limits = unit_limits(formulation)
    return (
        instance.objective != "cost"
        and instance.cost_limit_usd is None
        and instance.hourly_budget_usd is None
        and len(limits) == len(instance.types)
        and len(formulation.ideals) * count_states(limits) <= MAX_STATES
    )


class ExactOnGraphs(StagingExact):
    """The method `exact` of staging, for chains and graphs of layers."""

    def is_ready(self, formulation: StagingFormulation) -> bool:
        """Return whether the loops of the search are compiled, so that it finds a plan soon."""
        if isinstance(formulation, GraphFormulation):
            return is_compiled(stages_from)
        return super().is_ready(formulation)

    def heuristic_plan(self, formulation: StagingFormulation, clock: Clock) -> Plan | None:
        """Return a heuristic's plan, None without one; its first attempt on a graph has no time limit."""
        if not isinstance(formulation, GraphFormulation):
            return super().heuristic_plan(formulation, clock)
        with Clock().enforced():
            return first_plan(formulation, clock)

    def search(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Solve staging to proven optimality; with too many ideals only over one order of a graph."""
        if not isinstance(formulation, GraphFormulation):
            return super().search(formulation, options, clock)
        outcome = self._search_graph(formulation, options, clock)
        outcome.message = "; ".join(filter(None, (graph_size_text(formulation), outcome.message)))
        return outcome

    def _search_graph(self, formulation: GraphFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        with clock.enforced():
            few = dynamic_program_applies(formulation)
        if few and steps_per_stage(formulation) <= FEW_STEPS:
            return DeviceSearch(formulation, options, clock).run()
        try:
            if formulation.ideals.complete:
                return super().search(formulation, options, clock)
        except OutOfTimeError:
            raise
        except TooLargeError:
            if few:
                return DeviceSearch(formulation, options, clock).run()
        try:
            outcome = super().search(formulation.restricted_to_one_order(), options, clock)
        except OutOfTimeError:
            raise
        except TooLargeError:
            plan = self.heuristic_plan(formulation, clock)
            if plan is None:
                raise
            message = (
                "even one order of the layers makes too many stages to be searched: the plan is a "
                "heuristic's, and the bound holds for all plans"
            )
            limit: Limit = "time" if clock.expired else "none"
            return Outcome(plan, formulation.elementary_bounds(), limit=limit, message=message)
        # What was searched is a part of all plans: its bound and its certificate say nothing of the others.
        outcome.infeasible, outcome.certificate = False, None
        outcome.bounds = formulation.elementary_bounds()
        outcome.message = one_order_note(formulation)
        return outcome


class OnChains(PresolvingSolver[StagingFormulation]):
    """Wrapper of a method that plans chains and graphs with only one order of layers, and refuses others."""

    def solve(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Solve staging of a row of layers; return a failed outcome with a message for another graph."""
        if isinstance(formulation, GraphFormulation) and not formulation.blocks.in_a_row:
            message = f"{self.name} plans chains of layers, and these make a graph; take exact"
            return Outcome(failed=True, message=message)
        return self.method.solve(formulation, options, clock)
