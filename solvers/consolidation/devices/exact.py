"""`exact` on single devices, and what makes certificates of plans that name devices.

The bound is that of the linear programme by shape, and of the pooled relaxation where this is small enough to
be solved; the plan comes from a greedy method that follows the prices, and from ruin and recreate. What these
leave open is settled by the compact model, which names servers and devices, where this is small.

Methods for instances with single devices under the names that they have for those without.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ....formulations.common.objective import Diagnosis
from ....formulations.consolidation.certificate import PRICED_BY_SHAPE
from ....formulations.consolidation.formulation import ConsolidationFormulation, DeviceFormulation
from ....formulations.consolidation.plan import JobPlacement, kept_in_place, with_devices, without_devices
from ....instances.common.errors import OutOfTimeError, TooLargeError
from ...backends.base import BackendError
from ...common.base import Clock, Delegating, Outcome, Solver
from ...common.brute_force import Enumeration
from ...common.result import SolveOptions
from ...common.search_control import keep, tell
from .. import cp_sat
from .classes import Cluster
from .partial_placement import Board
from .ruin_and_recreate import Placing, Ruin, greedily_placed, repaired
from .shape_relaxation import Relaxed, ShapeProgram

log = logging.getLogger("clusterplan")

MOST_POOLED = 100_000
"""Jobs times servers up to which the pooled relaxation is solved as well."""
POOLED_SHARE = 0.4
LEFT_FOR_PROOF, CHECKS = 0.05, 3
"""Of the time that is left, and how often what the first check took: for later prices, and the result."""
ROUNDS_AT_ONCE = 200
"""After so many rounds the plan is compared with the bound."""
FEW_SECONDS = 1.0
"""For a plan where the time is up already."""
MOST_ROUNDS = 4_000
"""Of ruin and recreate without a time limit."""
MOST_NAMED, ROUNDS_BEFORE_NAMED = 20_000, 400
"""Groups of tasks times servers and devices up to which the compact model is small; rounds before it."""


class Search:
    """One solve: the incumbent, and prices that bound it."""

    def __init__(self, formulation: DeviceFormulation, options: SolveOptions, clock: Clock) -> None:
        self.formulation, self.options, self.clock = formulation, options, clock
        self.plan: Sequence[JobPlacement] | None = None
        self.values: tuple[float, ...] = ()
        self.bounds: tuple[float | None, ...] = formulation.elementary_bounds()
        self.certificate: dict[str, Any] = {}
        self.by_names: list[float | None] = []  # bounds of the model with named servers
        self.infeasible = False
        self.notes: list[str] = []
        self.check_s = 0.0
        if options.warm_start is not None:
            self.offer(formulation.parse_plan(options.warm_start))

    def offer(self, plan: Sequence[JobPlacement] | None) -> None:
        """Update the incumbent if a feasible plan improves it."""
        if plan is None or self.formulation.violations(plan):
            return
        if self.formulation.instance.device_moves:
            plan = kept_in_place(self.formulation.jobs, self.formulation.servers, plan)
        values = self.formulation.evaluate(plan)
        if self.plan is None or self.formulation.precedes(values, self.values):
            self.plan, self.values = plan, values
            keep(self.formulation, lambda: Outcome(plan))

    def run(self, pooled: Solver[Any]) -> Outcome:
        """Return the best plan and what is proven about it."""
        clock, formulation = self.clock, self.formulation
        cluster = Cluster(formulation)
        left = clock.remaining_s
        patience = Clock(None if left is None else max(FEW_SECONDS, 0.75 * left))
        first = greedily_placed(cluster, self.options.seed, patience)
        began_s = clock.elapsed_s
        self.offer(first.board.plan())
        self.check_s = clock.elapsed_s - began_s
        if self._short_of_time():
            return self._first_plan()
        if len(cluster.servers) * len(cluster.groups_of) <= MOST_POOLED:
            self._pooled(pooled)
        if not self.infeasible:
            program = ShapeProgram(cluster)
            relaxed = self._price(program, 0, clock.share(0.5))
            if relaxed is None and self._short_of_time():
                return self._first_plan()
            self._improve(cluster, relaxed)
            self._price_later(program)
            if self._is_small() and not self._proven() and not clock.expired:
                self._name_servers()
                self._price_later(program)
                self.bounds = self._with_claimed()
        proven = self._proven()
        return Outcome(
            None if self.infeasible else self.plan,
            self.bounds,
            limit="none" if proven or self.infeasible or clock.limit_s is None else "time",
            infeasible=self.infeasible,
            message="; ".join(self.notes) or None,
            certificate=self.certificate or None,
        )

    def _proven(self) -> bool:
        """Return whether the bounds that are known meet the plan."""
        return self.plan is not None and len(self._settled()) == len(self.values)

    def _settled(self) -> list[float]:
        """Return the values of the first objectives that their bounds meet."""
        found = []
        known = zip(self.formulation.objectives, self.values, self.bounds, strict=False)
        for objective, value, bound in known:
            gap = objective.gap(value, bound)
            if gap is None or gap > self.options.gap:
                break
            found.append(value)
        return found

    def _price_later(self, program: ShapeProgram) -> None:
        """Add prices for the later objectives, and derive all bounds for the plan there is."""
        for index in range(1, len(self.formulation.objectives)):
            self._price(program, index, self.clock)
        # The bound on the first objective does not depend on the plan.
        if self.certificate and len(self.formulation.objectives) > 1:
            self.bounds = self.formulation.certified_bounds(self.certificate, self.values or None)

    def _with_claimed(self) -> tuple[float | None, ...]:
        """Return the tighter of the bounds that prices prove and those of the compact model."""
        pairs = itertools.zip_longest(self.bounds, self.by_names)
        triples = zip(self.formulation.objectives, pairs, strict=True)
        return tuple(objective.tighter(*pair) for objective, pair in triples)

    def _is_small(self) -> bool:
        """Return whether the compact model, which names servers and devices, is small."""
        servers = self.formulation.servers.values()
        places = sum(1 + sum(map(len, server.device_states.values())) for server in servers)
        return places * sum(len(job.task_groups) for job in self.formulation.instance.jobs) <= MOST_NAMED

    def _name_servers(self) -> None:
        """Settle what is not proven by the compact model, with what is proven kept."""
        formulation, patience = self.formulation, self._patience()
        try:
            with patience.enforced():
                found = cp_sat.solve(formulation, self.plan, self._settled(), self.options, patience)
        except (BackendError, TooLargeError) as error:
            self.notes.append(f"without the model with named servers: {error}")
            return
        self.infeasible = found.infeasible and self.plan is None
        self.offer(found.plan)
        if found.plan is None or formulation.violations(found.plan):
            return
        # A bound on a later objective holds for the values that the model kept in the earlier ones.
        pairs = zip(formulation.evaluate(found.plan), self.values, strict=True)
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        self.by_names = list(found.bounds)[: same + 1]

    def _short_of_time(self) -> bool:
        """Return whether what is left is needed for the check of the result."""
        left = self.clock.remaining_s
        return left is not None and left <= CHECKS * self.check_s

    def _first_plan(self) -> Outcome:
        message = "the plan of best-fit; there was no time for more"
        return Outcome(self.plan, limit="time", message=message, certificate=self.certificate or None)

    def _pooled(self, solver: Solver[Any]) -> None:
        """Solve the pooled relaxation; where even it has no plan, there is none."""
        options = self.options
        if self.plan is not None:
            start = tuple(entry.model_dump() for entry in without_devices(self.plan))
            options = options.model_copy(update={"warm_start": start})
        try:
            outcome = solver.solve(self.formulation.pooled, options, self.clock.share(POOLED_SHARE))
        except (BackendError, TooLargeError) as error:
            self.notes.append(f"without the pooled relaxation: {error}")
            return
        if outcome.certificate is not None:
            self.certificate["pooled"] = outcome.certificate
        if outcome.plan is not None:
            self.offer(repaired(self.formulation, outcome.plan))
        if outcome.infeasible:
            self.infeasible = True
            self.bounds = self.formulation.certified_bounds(self.certificate or None)

    def _price(self, program: ShapeProgram, index: int, clock: Clock) -> Relaxed | None:
        """Add prices for one objective, with what the plan reaches in earlier ones kept."""
        relaxed, self.certificate = priced(
            self.formulation, program, index, self.values if self.plan else None, self.certificate, clock
        )
        return relaxed

    def _patience(self) -> Clock:
        """Return the time that is left but for later prices and the check of the result."""
        left = self.clock.remaining_s
        # What is to come takes as long again as the first check.
        return Clock(None if left is None else left - max(LEFT_FOR_PROOF * left, CHECKS * self.check_s))

    def _improve(self, cluster: Cluster, relaxed: Relaxed | None) -> None:
        """Improve the incumbent until the time is nearly up, or the first objective meets its bound."""
        formulation, clock = self.formulation, self.clock
        began_s = clock.elapsed_s
        bounds = self.bounds = formulation.certified_bounds(self.certificate, self.values or None)
        self.check_s += clock.elapsed_s - began_s
        most = MOST_ROUNDS if clock.remaining_s is None else math.inf
        if self._is_small():
            most = ROUNDS_BEFORE_NAMED
        patience = self._patience()
        placing = Placing(Board(cluster), relaxed, self.options.seed)
        if self.plan is None:
            placing.greedy(patience)
        else:
            placing.load(self.plan)
        ruin = Ruin(placing)

        def reached() -> bool:
            values = list(self.values)
            if self.plan is not None and formulation.objectives[0].name == "value":
                values[0] = sum(placing.jobs[p].worth for p in placing.board.jobs)
                tell(formulation.objectives[0], values[0], bounds[0])
            pairs = zip(formulation.objectives, values, bounds, strict=False)
            gaps = [objective.gap(value, bound) for objective, value, bound in pairs]
            return bool(gaps) and all(gap is not None and gap <= self.options.gap for gap in gaps)

        while not reached() and not patience.expired and ruin.rounds < most:
            ruin.run(patience, lambda: False, ROUNDS_AT_ONCE)
        without = placing.board.plan() if len(formulation.objectives) > 1 else None
        placing.finish(self.clock)
        self.offer(placing.board.plan())
        # Jobs that are worth nothing may cost something in later objectives.
        self.offer(without)
        log.info("%d rounds of ruin and recreate", ruin.rounds)


def priced(
    formulation: DeviceFormulation,
    program: ShapeProgram,
    index: int,
    values: Sequence[float] | None,
    certificate: dict[str, Any],
    clock: Clock,
) -> tuple[Relaxed | None, dict[str, Any]]:
    """Return the relaxation of one objective, if it has one, and the certificate with its prices."""
    names = [objective.name for objective in formulation.objectives]
    if names[index] not in PRICED_BY_SHAPE or clock.expired:
        return None, certificate
    levels = {}
    if "value" in names[:index]:
        if values is None:
            return None, certificate
        levels["value"] = -values[names.index("value")] * (1 - 1e-12)
    relaxed = program.solve(names[index], levels, clock)
    if relaxed is None:
        return None, certificate
    goals = [goal for goal in certificate.get("devices", ()) if goal["objective"] != names[index]]
    return relaxed, certificate | {"devices": [*goals, relaxed.goal]}


def certify_on_devices(
    formulation: DeviceFormulation, outcome: Outcome, clock: Clock, infeasibility: dict[str, Any] | None
) -> None:
    """Add prices to the outcome of a method that has none.

    Parameters
    ----------
    infeasibility
        A certificate of the pooled relaxation, if it was proven to have no plan.
    """
    certificate: dict[str, Any] = {} if infeasibility is None else {"pooled": infeasibility}
    if outcome.plan is not None and not formulation.violations(outcome.plan):
        values = formulation.evaluate(outcome.plan)
        with suppress(TooLargeError, OutOfTimeError), clock.enforced():
            program = ShapeProgram(Cluster(formulation))
            for index in range(len(formulation.objectives)):
                _, certificate = priced(formulation, program, index, values, certificate, clock)
    outcome.certificate = certificate or None


Certify = Callable[[Any, Outcome, Clock], None]
Diagnose = Callable[[Any, Diagnosis | None, Clock], Diagnosis | None]
SearchMethod = Callable[[Any, Clock], Sequence[JobPlacement] | None]


class OnDevices(Delegating[ConsolidationFormulation]):
    """A method that plans the pooled relaxation; what single devices do not hold then goes elsewhere."""

    def solve(self, formulation: ConsolidationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Solve with or without single devices."""
        if isinstance(formulation, DeviceFormulation):
            outcome = self.on_devices(formulation, options, clock)
            if outcome.plan is not None:
                outcome.plan = kept_in_place(formulation.jobs, formulation.servers, outcome.plan)
            return outcome
        return self.method.solve(formulation, options, clock)

    def on_devices(self, formulation: DeviceFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Solve the pooled relaxation and put its plan on devices."""
        if options.warm_start is not None:
            start = formulation.parse_plan(options.warm_start)
            pooled_start = tuple(entry.model_dump() for entry in without_devices(start))
            options = options.model_copy(update={"warm_start": pooled_start})
        outcome = self.method.solve(formulation.pooled, options, clock)
        outcome.certificate = outcome.prices = None
        if outcome.plan is None:
            return outcome
        plan = repaired(formulation, outcome.plan)
        must = next((e.job for e in plan if not e.placed and formulation.jobs[e.job].must_place), None)
        if must is not None:
            message = f"{self.name}: no devices are left for job {must!r}, which must be placed"
            return Outcome(limit=outcome.limit, message=message)
        values = formulation.evaluate(plan)
        kept = 0
        # A bound on a later objective holds for plans that reach the relaxation's earlier ones.
        for value, bound in zip(values, outcome.bounds, strict=False):
            kept += 1
            if value != bound:
                break
        outcome.plan, outcome.bounds = plan, tuple(outcome.bounds)[:kept]
        return outcome


class ExactOnDevices(OnDevices):
    """`exact`: prices by shape and ruin and recreate on devices; the pooled relaxation where it is small."""

    def on_devices(self, formulation: DeviceFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Bound the objectives, and improve a plan until it meets the bound or the time is up."""
        return Search(formulation, options, clock).run(self.method)


class BestFitOnDevices(OnDevices):
    """`best-fit`: the largest jobs first, each on the devices that it fills best."""

    def on_devices(self, formulation: DeviceFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Place one job after the other; nothing is moved again."""
        placing = greedily_placed(Cluster(formulation), options.seed, clock)
        must = [p for p, job in enumerate(placing.jobs) if job.must_place and p not in placing.board.jobs]
        if must:
            name = placing.jobs[must[0]].name
            return Outcome(message=f"{self.name}: no devices are left for job {name!r}, which must be placed")
        return Outcome(placing.board.plan(), limit="time" if clock.expired else "none")


class BruteForceOnDevices(OnDevices):
    """`brute-force`: every way to spread every job, and for each the devices of every server."""

    def on_devices(self, formulation: DeviceFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the best plan; its values are bounds if all plans were seen."""
        del options
        search = _NamingDevices(formulation, clock)
        self.method.enumerate(formulation, search)  # type: ignore[attr-defined]
        if search.best is None:
            return Outcome(limit="time") if search.out_of_time else Outcome(infeasible=True)
        values, plan = search.best
        return Outcome(plan, limit="time") if search.out_of_time else Outcome(plan, values)


class _NamingDevices(Enumeration):
    """An enumeration whose plans do not name devices yet."""

    def __init__(self, formulation: DeviceFormulation, clock: Clock) -> None:
        super().__init__(formulation, clock)
        self.on_devices = formulation

    def judge(self, plan: Sequence[JobPlacement]) -> None:
        """Name the devices of a plan, if there are such, and compare it."""
        named = with_devices(self.on_devices.jobs, self.on_devices.servers, plan)
        if named is not None:
            super().judge(named)


def certify_with(certify: Certify) -> Certify:
    """Return what adds certificates to plans, with or without single devices."""

    def on_both(formulation: ConsolidationFormulation, outcome: Outcome, clock: Clock) -> None:
        if not isinstance(formulation, DeviceFormulation):
            certify(formulation, outcome, clock)
            return
        pooled = Outcome(infeasible=True)
        if outcome.infeasible:
            certify(formulation.pooled, pooled, clock)
        certify_on_devices(formulation, outcome, clock, pooled.certificate)

    return on_both


def diagnose_with(diagnose: Diagnose) -> Diagnose:
    """Return what explains infeasibility: with single devices by their sum."""

    def on_both(
        formulation: ConsolidationFormulation, known: Diagnosis | None, clock: Clock
    ) -> Diagnosis | None:
        pooled = formulation.pooled if isinstance(formulation, DeviceFormulation) else formulation
        return diagnose(pooled, known, clock)

    return on_both


def search_with(search: SearchMethod) -> SearchMethod:
    """Return a quick search for instances with or without single devices."""

    def on_both(formulation: ConsolidationFormulation, clock: Clock) -> Sequence[JobPlacement] | None:
        if not isinstance(formulation, DeviceFormulation):
            return search(formulation, clock)
        plan = search(formulation.pooled, clock)
        return None if plan is None else repaired(formulation, plan)

    return on_both
