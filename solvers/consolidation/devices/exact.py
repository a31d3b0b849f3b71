"""`exact` on single devices, and wrappers that extend other methods to single devices.

The bound is that of the relaxation by shape, and of the pooled relaxation where this is small enough. The
plan comes from a greedy method guided by dual prices, and from ruin and recreate. Objectives that are not
proven then are optimised by the compact model with named servers and devices, if it is small.
"""

from __future__ import annotations

import itertools
import logging
import math
import operator
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ....formulations.consolidation.certificate import PRICED_BY_SHAPE
from ....formulations.consolidation.formulation import ConsolidationFormulation, DeviceFormulation
from ....formulations.consolidation.plan import (
    Plan,
    assign_devices,
    keep_current_devices,
    without_devices,
)
from ....instances.common.errors import OutOfTimeError, TooLargeError
from ....instances.common.fields import Fields
from ...backends.base import BackendError
from ...common.base import BruteForce, Clock, Enumeration, Outcome, PresolvingSolver, Solver
from ...common.result import Limit, SolveOptions
from ...common.search_control import report_progress
from .. import cp_sat
from ..progress import Progress
from .ruin_and_recreate import DevicePlacement, RuinAndRecreate, best_greedy_placement, repaired_plan
from .shape_relaxation import Cluster, ShapeProgram, ShapeRelaxation

log = logging.getLogger("clusterplan")

MAX_POOLED_SIZE = 100_000
"""Largest number of jobs times servers for which the pooled relaxation is solved as well."""
POOLED_SHARE = 0.4
PROOF_SHARE, CHECK_MULTIPLE = 0.05, 3
"""Time kept for later prices and the final check: share of the rest, and multiple of the first check."""
ROUNDS_PER_CHECK = 200
"""Rounds of ruin and recreate between two comparisons of plan and bound."""
MIN_FIRST_PLAN_S = 1.0
"""Seconds for a first plan even after the time limit."""
MAX_ROUNDS = 4_000
"""Rounds of ruin and recreate without a time limit."""
MAX_COMPACT_SIZE, ROUNDS_BEFORE_COMPACT = 20_000, 400
"""Largest size of a small compact model (task groups times servers and devices); rounds before it."""


class DevicePlacementSearch:
    """State of one solve by `exact` on single devices: incumbent, bounds, and certificate."""

    def __init__(self, formulation: DeviceFormulation, options: SolveOptions, clock: Clock) -> None:
        self.formulation, self.options, self.clock = formulation, options, clock
        self.progress = Progress(formulation, bounds=[*formulation.elementary_bounds()])
        self.certificate: Fields = {}
        self.by_names: list[float | None] = []  # bounds of the model with named servers
        self.check_s = 0.0
        if options.warm_start is not None:
            self.update_incumbent(formulation.parse_plan(options.warm_start))

    def update_incumbent(self, plan: Plan | None) -> None:
        """Replace the incumbent by a plan that is feasible and lexicographically better."""
        if plan is not None:
            if self.formulation.instance.device_moves:
                plan = keep_current_devices(self.formulation.jobs, self.formulation.servers, plan)
            self.progress.update_incumbent(plan)

    def run(self, pooled: Solver[Any]) -> Outcome:
        """Return the best plan found, bounds on its objectives, and the certificate."""
        clock, progress = self.clock, self.progress
        cluster = Cluster(self.formulation)
        patience = clock.share(0.75).at_least(MIN_FIRST_PLAN_S)
        first = best_greedy_placement(cluster, self.options.seed, patience)
        began_s = clock.elapsed_s
        self.update_incumbent(first.placement.plan())
        self.check_s = clock.elapsed_s - began_s
        if self._short_of_time():
            return self._first_plan()
        if len(cluster.servers) * len(cluster.groups_of) <= MAX_POOLED_SIZE:
            self._pooled(pooled)
        if not progress.infeasible:
            program = ShapeProgram(cluster)
            relaxed = self._price(program, 0, clock.share(0.5))
            if relaxed is None and self._short_of_time():
                return self._first_plan()
            self._improve(cluster, relaxed)
            self._price_later(program)
            if self._is_small() and progress.is_open(self.options.gap) and not clock.expired:
                self._name_servers()
                self._price_later(program)
                progress.tighten(self.by_names)
        ended = progress.infeasible or not progress.is_open(self.options.gap)
        limit: Limit = "none" if ended or clock.limit_s is None else "time"
        return progress.outcome(limit, self.certificate or None)

    def _price_later(self, program: ShapeProgram) -> None:
        """Add dual prices for all objectives but the first, and derive all bounds for the incumbent."""
        for index in range(1, len(self.formulation.objectives)):
            self._price(program, index, self.clock)
        # The bound on the first objective does not depend on the plan.
        if self.certificate and len(self.formulation.objectives) > 1:
            self._derive_bounds()

    def _derive_bounds(self) -> None:
        """Derive the bounds on all objectives that the certificate proves for the incumbent."""
        derived = self.formulation.certified_bounds(self.certificate or None, self.progress.values or None)
        self.progress.bounds = [*derived]

    def _is_small(self) -> bool:
        """Return whether the compact model with named servers and devices is within its size limit."""
        servers = self.formulation.servers.values()
        places = sum(1 + sum(map(len, server.device_states.values())) for server in servers)
        return (
            places * sum(len(job.task_groups) for job in self.formulation.instance.jobs) <= MAX_COMPACT_SIZE
        )

    def _name_servers(self) -> None:
        """Optimise the unproven objectives in the compact model, with the proven ones fixed."""
        formulation, progress, deadline = self.formulation, self.progress, self._patience()
        try:
            with deadline.enforced():
                settled = progress.proven(self.options.gap)
                outcome = cp_sat.solve(formulation, progress.plan, settled, self.options, deadline)
        except (BackendError, TooLargeError) as error:
            progress.notes.append(f"without the model with named servers: {error}")
            return
        progress.infeasible = outcome.infeasible and progress.plan is None
        self.update_incumbent(outcome.plan)
        if outcome.plan is None or formulation.violations(outcome.plan):
            return
        # A bound on a later objective holds for the values that the model kept in the earlier ones.
        self.by_names = _kept_bounds(outcome, formulation.evaluate(outcome.plan), progress.values)

    def _short_of_time(self) -> bool:
        """Return whether all of the remaining time is needed for the check of the result."""
        left = self.clock.remaining_s
        return left is not None and left <= CHECK_MULTIPLE * self.check_s

    def _first_plan(self) -> Outcome:
        message = "the plan of best-fit; there was no time for more"
        return Outcome(
            self.progress.plan, limit="time", message=message, certificate=self.certificate or None
        )

    def _pooled(self, solver: Solver[Any]) -> None:
        """Solve the pooled relaxation (devices as plain capacity); if infeasible, so is the instance."""
        known = self.progress.plan
        options = self.options.starting_from(None if known is None else without_devices(known))
        try:
            outcome = solver.solve(self.formulation.pooled, options, self.clock.share(POOLED_SHARE))
        except (BackendError, TooLargeError) as error:
            self.progress.notes.append(f"without the pooled relaxation: {error}")
            return
        if outcome.certificate is not None:
            self.certificate["pooled"] = outcome.certificate
        if outcome.plan is not None:
            self.update_incumbent(repaired_plan(self.formulation, outcome.plan))
        if outcome.infeasible:
            self.progress.infeasible = True
            self._derive_bounds()

    def _price(self, program: ShapeProgram, index: int, clock: Clock) -> ShapeRelaxation | None:
        """Add dual prices for one objective, with the incumbent's values as bounds on earlier ones."""
        values = self.progress.values if self.progress.plan else None
        return price_objective(program, index, values, self.certificate, clock)

    def _patience(self) -> Clock:
        """Return a clock for the search that leaves time for later dual prices and the final check."""
        left = self.clock.remaining_s
        # What is to come takes as long again as the first check.
        return Clock(None if left is None else left - max(PROOF_SHARE * left, CHECK_MULTIPLE * self.check_s))

    def _improve(self, cluster: Cluster, relaxed: ShapeRelaxation | None) -> None:
        """Improve the incumbent by ruin and recreate, until shortly before the time limit or optimality."""
        formulation, clock, progress = self.formulation, self.clock, self.progress
        began_s = clock.elapsed_s
        self._derive_bounds()
        self.check_s += clock.elapsed_s - began_s
        most = MAX_ROUNDS if clock.remaining_s is None else math.inf
        if self._is_small():
            most = ROUNDS_BEFORE_COMPACT
        patience = self._patience()
        placing = DevicePlacement(cluster, relaxed, self.options.seed)
        if progress.plan is None:
            placing.greedy(patience)
        else:
            placing.load(progress.plan)
        ruin = RuinAndRecreate(placing)

        def reached() -> bool:
            values = list(progress.values)
            if progress.plan is not None and formulation.objectives[0].name == "value":
                values[0] = sum(placing.jobs[p].worth for p in placing.placement.jobs)
                report_progress(formulation.objectives[0], values[0], progress.bounds[0])
            return not progress.is_open(self.options.gap, values)

        while not reached() and not patience.expired and ruin.rounds < most:
            ruin.run(patience, ROUNDS_PER_CHECK)
        before_filling = placing.placement.plan() if len(formulation.objectives) > 1 else None
        placing.finish(self.clock)
        self.update_incumbent(placing.placement.plan())
        # Jobs that are worth nothing may cost something in later objectives.
        self.update_incumbent(before_filling)
        log.info("%d rounds of ruin and recreate", ruin.rounds)


def price_objective(
    program: ShapeProgram,
    index: int,
    values: Sequence[float] | None,
    certificate: Fields,
    clock: Clock,
) -> ShapeRelaxation | None:
    """Add the dual prices of one objective to a certificate; return its relaxation, None if unsolved."""
    names = program.cluster.formulation.instance.objectives
    if names[index] not in PRICED_BY_SHAPE or clock.expired:
        return None
    levels = {}
    if "value" in names[:index]:
        if values is None:
            return None
        levels["value"] = -values[names.index("value")] * (1 - 1e-12)
    relaxed = program.solve(names[index], levels, clock)
    if relaxed is not None:
        goals = [goal for goal in certificate.get("devices", ()) if goal["objective"] != names[index]]
        certificate["devices"] = [*goals, relaxed.goal]
    return relaxed


def certify_on_devices(
    formulation: DeviceFormulation, outcome: Outcome, clock: Clock, infeasibility: Fields | None
) -> None:
    """Add a certificate to the outcome of a method that makes none, on an instance with devices.

    Parameters
    ----------
    infeasibility
        A certificate of the pooled relaxation, if that is proven infeasible.
    """
    certificate: Fields = {} if infeasibility is None else {"pooled": infeasibility}
    if outcome.plan is not None and not formulation.violations(outcome.plan):
        values = formulation.evaluate(outcome.plan)
        with suppress(TooLargeError, OutOfTimeError), clock.enforced():
            program = ShapeProgram(Cluster(formulation))
            for index in range(len(formulation.objectives)):
                price_objective(program, index, values, certificate, clock)
    outcome.certificate = certificate or None


class OnDevices(PresolvingSolver[ConsolidationFormulation]):
    """Wraps a method to plan single devices: it solves the pooled relaxation, whose plan is repaired."""

    def solve(self, formulation: ConsolidationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Solve an instance: with single devices by `on_devices`, without them by the wrapped method."""
        if isinstance(formulation, DeviceFormulation):
            outcome = self.on_devices(formulation, options, clock)
            if outcome.plan is not None:
                outcome.plan = keep_current_devices(formulation.jobs, formulation.servers, outcome.plan)
            return outcome
        return self.method.solve(formulation, options, clock)

    def on_devices(self, formulation: DeviceFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Solve the pooled relaxation (devices as plain capacity) and repair its plan on devices."""
        if options.warm_start is not None:
            start = formulation.parse_plan(options.warm_start)
            options = options.starting_from(without_devices(start))
        outcome = self.method.solve(formulation.pooled, options, clock)
        outcome.certificate = None
        if outcome.plan is None:
            return outcome
        plan = repaired_plan(formulation, outcome.plan)
        message = self._no_room(formulation, plan)
        if message is not None:
            return Outcome(limit=outcome.limit, message=message)
        # A bound on a later objective holds for plans that reach the relaxation's earlier ones.
        outcome.plan, outcome.bounds = plan, _kept_bounds(outcome, formulation.evaluate(plan), outcome.bounds)
        return outcome

    def _no_room(self, formulation: DeviceFormulation, plan: Plan) -> str | None:
        """Return which required job a plan leaves out; None if it places all."""
        out = next((e.job for e in plan if not e.placed and formulation.jobs[e.job].must_place), None)
        why = f"{self.name}: no devices are left for job {out!r}, which must be placed"
        return None if out is None else why


def _kept_bounds(
    outcome: Outcome, values: Sequence[float], others: Sequence[float | None]
) -> list[float | None]:
    """Return the bounds of an outcome up to the first objective in which values differ from others."""
    same = [*itertools.takewhile(bool, map(operator.eq, values, others))]
    return list(outcome.bounds)[: len(same) + 1]


class ExactOnDevices(OnDevices):
    """`exact` with single devices: linear relaxation by server shape, and ruin and recreate."""

    def on_devices(self, formulation: DeviceFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Bound the objectives, and improve a plan until it attains the bounds or the time limit."""
        return DevicePlacementSearch(formulation, options, clock).run(self.method)


class BestFitOnDevices(OnDevices):
    """`best-fit` with single devices: the largest jobs first, each where its devices fit best."""

    def on_devices(self, formulation: DeviceFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Place one job after the other by the greedy method, on the devices that fit best."""
        placing = best_greedy_placement(Cluster(formulation), options.seed, clock)
        plan = placing.placement.plan()
        message = self._no_room(formulation, plan)
        if message is not None:
            return Outcome(message=message)
        return Outcome(plan, limit="time" if clock.expired else "none")


class BruteForceOnDevices(OnDevices):
    """`brute-force` with single devices: all placements, each with an assignment of devices."""

    method: BruteForce[ConsolidationFormulation]

    def on_devices(self, formulation: DeviceFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the optimal plan with its values as bounds, or the best one within the time limit."""
        del options
        return self.method.outcome(formulation, _DeviceEnumeration(formulation, clock))


class _DeviceEnumeration(Enumeration):
    """Enumeration of placements that assigns single devices to each complete plan."""

    formulation: DeviceFormulation

    def judge(self, plan: Plan) -> None:
        """Assign devices to a plan; update the incumbent if an assignment exists and it is better."""
        named = assign_devices(self.formulation.jobs, self.formulation.servers, plan)
        if named is not None:
            super().judge(named)
