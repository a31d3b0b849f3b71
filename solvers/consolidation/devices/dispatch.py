"""Methods for instances with single devices under the names that they have for those without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....formulations.common.objective import Diagnosis
from ....formulations.consolidation.device_formulation import DeviceFormulation
from ....formulations.consolidation.device_placement import kept_in_place, with_devices, without_devices
from ....formulations.consolidation.formulation import ConsolidationFormulation
from ....formulations.consolidation.plan import JobPlacement
from ...common.base import Clock, Outcome
from ...common.brute_force import Enumeration
from ...common.delegating import Delegating
from ...common.options import SolveOptions
from .cluster import Cluster
from .exact import Search as DeviceSearch
from .exact import certify_on_devices
from .improve import greedily_placed
from .repair import repaired

Certify = Callable[[Any, Outcome, Clock], None]
Diagnose = Callable[[Any, Diagnosis | None, Clock], Diagnosis | None]
Search = Callable[[Any, Clock], Sequence[JobPlacement] | None]


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
        return DeviceSearch(formulation, options, clock).run(self.method)


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


def search_with(search: Search) -> Search:
    """Return a quick search for instances with or without single devices."""

    def on_both(formulation: ConsolidationFormulation, clock: Clock) -> Sequence[JobPlacement] | None:
        if not isinstance(formulation, DeviceFormulation):
            return search(formulation, clock)
        plan = search(formulation.pooled, clock)
        return None if plan is None else repaired(formulation, plan)

    return on_both
