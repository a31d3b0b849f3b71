"""Search for the fastest plan of a graph on limited devices: bounds rise until a plan meets them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ....formulations.staging.graph_formulation import GraphFormulation
from ....formulations.staging.graph_order import MOST_IDEALS
from ....formulations.staging.graph_stages import Problem, problem_of
from ....formulations.staging.plan import Stage
from ....instances.common.errors import OutOfTimeError
from ...common.base import Clock, Outcome
from ...common.options import SolveOptions
from ...common.result import Limit
from ..exact import certificate
from .device_states import Devices, FastestPath, devices_of, fastest_path

FIRST_STEP = 0.01
"""The first cutoff is this much above the lower bound, relatively; each further one twice as much."""


@dataclass
class DeviceSearch:
    """Raises a lower bound on the stage time until a plan meets it.

    A cutoff a little above the bound leaves few stages, so that passes that find no plan are cheap, and the
    first one that finds a plan has not much more to look at than the proof needs.
    """

    formulation: GraphFormulation
    options: SolveOptions
    clock: Clock
    best: FastestPath | None = None
    plan: tuple[Stage, ...] | None = None
    bound_s: float = 0.0
    limit: Limit = "none"
    trace: list[tuple[float, float | None, float | None]] = field(default_factory=list)

    def run(self) -> Outcome:
        """Search until the gap is closed or the time is up."""
        formulation = self.formulation
        self.bound_s = max(formulation.fastest_s, formulation.shared_work_s)
        latest = math.nextafter(min(formulation.latest_s, formulation.slowest_sum_s), math.inf)
        try:
            with self.clock.enforced():
                one = formulation.of_one_order()
                self._pass(one, self._prepared(one), latest)
                if formulation.ideals.complete:
                    self._close(latest)
        except (KeyboardInterrupt, OutOfTimeError) as stop:
            self.limit = "time" if isinstance(stop, OutOfTimeError) else "interrupt"
        return self._outcome(latest)

    def _close(self, latest: float) -> None:
        """Prove the bound, or find better plans."""
        step = FIRST_STEP
        least = self.bound_s if self.bound_s > 0 else latest / 1e6
        prepared = self._prepared(self.formulation)
        while not self._closed(latest):
            known = latest if self.best is None else self.best.time_s
            cutoff = min(known, max(self.bound_s, least) * (1 + step))
            # Near the best plan the proof of all the rest is hardly dearer.
            cutoff = known if cutoff * (1 + step) > known else cutoff
            before = self.best
            self._pass(self.formulation, prepared, cutoff)
            self.bound_s = cutoff if self.best is before else self.best.time_s  # type: ignore[union-attr]
            self.trace.append(
                (self.clock.elapsed_s, self._value(), self.formulation.of_stage_time(self.bound_s))
            )
            step *= 2

    def _closed(self, latest: float) -> bool:
        if self.best is None:
            return self.bound_s >= latest
        return self.bound_s >= self.best.time_s * (1 - self.options.gap)

    @staticmethod
    def _prepared(formulation: GraphFormulation) -> tuple[Problem, Devices]:
        problem = problem_of(formulation.instance, formulation.blocks, formulation.ideals)
        limits = [one.limit for one in formulation.instance.types if one.limit is not None]
        return problem, devices_of(problem, limits)

    def _pass(self, formulation: GraphFormulation, prepared: tuple[Problem, Devices], cutoff: float) -> None:
        """Keep the fastest plan on some ideals if it is faster than the cutoff."""
        found, complete = fastest_path(*prepared, cutoff, self.clock)
        self._keep(formulation, found)
        if not complete:
            raise OutOfTimeError("the pass ended early")

    def _keep(self, formulation: GraphFormulation, found: FastestPath | None) -> None:
        if found is None or (self.best is not None and found.time_s >= self.best.time_s):
            return
        self.best = found
        self.plan = tuple(formulation.stage(first, last - 1, t, k) for first, last, t, k in found.stages)
        self.trace.append((self.clock.elapsed_s, self._value(), None))

    def _value(self) -> float | None:
        return None if self.best is None else self.formulation.of_stage_time(self.best.time_s)

    def _outcome(self, latest: float) -> Outcome:
        formulation = self.formulation
        outcome = Outcome(self.plan, limit=self.limit, trace=self.trace)
        if self.plan is None and self.limit == "none" and formulation.ideals.complete:
            outcome.infeasible = self.bound_s >= latest
        bound = None if outcome.infeasible or self.bound_s <= 0 else formulation.of_stage_time(self.bound_s)
        outcome.bounds = (bound,)
        if bound is not None or outcome.infeasible:
            outcome.certificate = certificate(formulation, [], bound, latest)
        if not formulation.ideals.complete:
            # The bound is the elementary one, which needs no certificate.
            outcome.certificate = None
            outcome.message = one_order_only(formulation)
        return outcome


def one_order_only(formulation: GraphFormulation) -> str:
    """Say that not all plans were looked at."""
    ideals = formulation.ideals
    many = f"{len(ideals):,} ideals, too many stages" if ideals.complete else f"over {MOST_IDEALS:,} ideals"
    return (
        f"the graph has {many}, so that only one order of its layers was looked at; the bound holds for all "
        "plans"
    )
