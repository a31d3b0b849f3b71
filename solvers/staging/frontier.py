"""The Pareto frontier of a staging instance: plans that no other beats in both cost and throughput."""

from __future__ import annotations

import math
from typing import Any, Literal

from ...formulations.staging.formulation import StagingFormulation, formulation_of
from ...formulations.staging.stages import Corner, Stage
from ...instances.common.errors import OutOfTimeError
from ...instances.staging.instance import StagingInstance
from ..common.base import Clock
from ..common.conclude import check_deadline, diagnose_with, library_versions
from ..common.result import SolveOptions
from .diagnose import diagnose
from .exact import intervals_of
from .frontier_result import Frontier, FrontierPoint
from .intervals import Candidate, Cheapest, NonDominated, plan_of
from .search import Search

UNLIMITED_COST_RATIO = 10.0
"""Where units are unlimited, plans that cost more than this multiple of the cheapest are left out."""
CHECK_WORK_PER_S = 12_000_000
"""Bounds that the check evaluates per second, roughly."""


def find_frontier(
    instance: StagingInstance, options: SolveOptions, error: float, most_usd: float | None
) -> Frontier:
    """Return the Pareto frontier of training cost and throughput of a staging instance, with its error ε.

    The instance's floor, limits, memory and budgets hold for every point; its objective is ignored.

    Parameters
    ----------
    error
        ε: points that lower the cost by no more than this part may be left out.
    most_usd
        Upper limit on the cost of plans. By default the instance's cost limit; where neither that nor
        anything else bounds the units, ten times the cost of the cheapest plan.
    """
    clock = Clock(options.time_limit_s)
    try:
        return _find(formulation_of(instance), options, error, most_usd, clock)
    except OutOfTimeError:  # before the search could begin
        return Frontier(
            instance=instance.name,
            instance_sha256=instance.sha256(),
            status="partial",
            limit="time",
            error=error,
            most_usd=most_usd,
            runtime_s=clock.elapsed_s,
            options=options,
            versions=library_versions(),
        )


def _find(
    formulation: StagingFormulation, options: SolveOptions, error: float, most_usd: float | None, clock: Clock
) -> Frontier:
    instance = formulation.instance
    known = formulation.elementary_infeasibility()
    most = min((usd for usd in (most_usd, instance.cost_limit_usd) if usd is not None), default=None)
    # Without any bound on units the frontier has no end: it stops at a multiple of the least cost.
    if most is None and known is None and _unbounded(instance):
        cheapest = Cheapest(math.inf, options.gap)
        Search(formulation, cheapest, options, clock).run()
        most = None if cheapest.best is None else UNLIMITED_COST_RATIO * cheapest.best.cost_usd
    incumbent = NonDominated(math.inf if most is None else most, error)
    search = Search(formulation, incumbent, options, clock)
    intervals = search.run() if known is None else None
    certificate = [] if intervals is None else intervals_of(formulation, intervals, search.slowest_s)
    stopped = search.limit
    status: Literal["complete", "partial", "infeasible"] = "complete" if stopped == "none" else "partial"
    if stopped == "none" and not incumbent.points:
        status = "infeasible"
    return Frontier(
        instance=instance.name,
        instance_sha256=instance.sha256(),
        status=status,
        limit=stopped,
        error=error,
        certified_error=_certified_error(
            formulation, incumbent.points, error, most, certificate, check_deadline(options, clock.elapsed_s)
        ),
        most_usd=most,
        points=tuple(frontier_point(formulation, plan_of(formulation, point)) for point in incumbent.points),
        certificate=certificate,
        runtime_s=clock.elapsed_s,
        options=options,
        versions=library_versions(),
        diagnosis=diagnose_with(diagnose, formulation, known, clock.remaining_s)
        if status == "infeasible"
        else None,
    )


def _unbounded(instance: StagingInstance) -> bool:
    """Return whether units are unbounded: a hardware type has no limit, and there is no hourly budget."""
    return instance.hourly_budget_usd is None and any(hardware.limit is None for hardware in instance.types)


def _certified_error(
    formulation: StagingFormulation,
    points: list[Candidate],
    error: float,
    most_usd: float | None,
    certificate: list[dict[str, Any]],
    clock: Clock,
) -> float | None:
    """Return the frontier's error ε that the check proves within the time limit, None if it proves none."""
    if not points:
        return None
    # Half of the time is for the intervals that dual prices leave open, which may prove less than hoped for.
    work = None if clock.limit_s is None else int(CHECK_WORK_PER_S * clock.limit_s / 2)
    corners = [Corner(point.time_s, point.cost_usd) for point in points]
    try:
        with clock.enforced():
            return formulation.certified_error(corners, error, most_usd, certificate, work)
    except OutOfTimeError:
        return None


def frontier_point(formulation: StagingFormulation, plan: tuple[Stage, ...]) -> FrontierPoint:
    """Return a feasible plan as a frontier point, with figures computed from the plan alone."""
    instance = formulation.instance
    time, rate = formulation.stage_time_s(plan), formulation.rate_usd_per_hour(plan)
    throughput = instance.probe_batch / time
    return FrontierPoint(
        throughput_samples_per_s=throughput,
        cost_usd=formulation.cost_usd(time, rate),
        time_s=instance.training.epochs * instance.training.samples / throughput,
        rate_usd_per_hour=rate,
        stage_time_s=time,
        plan=plan,
    )
