"""The Pareto frontier of a staging instance: plans that no other beats in both cost and throughput."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ...formulations.staging.certificate import MAX_INTERVALS
from ...formulations.staging.formulation import StagingFormulation, formulation_of
from ...formulations.staging.stages import Corner, Stage
from ...instances.common.errors import OutOfTimeError
from ...instances.common.fields import Fields, Many, Model, validated_in_batches
from ...instances.staging.instance import StagingInstance
from ..common.base import Clock
from ..common.conclude import check_deadline, diagnose_with
from ..common.result import AnyFrontier, SolveOptions
from ..frontier import run_facts
from .diagnose import diagnose
from .exact import intervals_of
from .intervals import Candidate, Cheapest, NonDominated, plan_of
from .search import Search

UNLIMITED_COST_RATIO = 10.0
"""Where units are unlimited, plans that cost more than this multiple of the cheapest are left out."""
CHECK_WORK_PER_S = 12_000_000
"""Bounds that the check evaluates per second, roughly."""


class FrontierPoint(Model):
    """One plan of the frontier, with its figures.

    Attributes
    ----------
    time_s
        Seconds of the whole training.
    stage_time_s
        τ: seconds of the slowest stage for a probe batch.
    """

    throughput_samples_per_s: float
    cost_usd: float
    time_s: float
    rate_usd_per_hour: float
    stage_time_s: float
    plan: Many[Stage]

    @property
    def plan_text(self) -> str:
        """The plan on one line; a stage is written as `first-last:type*units`."""
        return " ".join(f"{s.first_layer}-{s.last_layer}:{s.type}*{s.units}" for s in self.plan)


class Frontier(AnyFrontier):
    """What a frontier search found; JSON and back without loss.

    Attributes
    ----------
    status
        `complete`: the error is proven; `partial`: a limit stopped the search; `infeasible`: no plan at all.
    error
        ε that was asked for: for every feasible plan there is a point at least as fast whose cost, less the
        part ε, is no higher.
    certified_error
        ε that our own checker derives from the certificate without trusting a solver; None if it derives
        none, because faster plans than the fastest point are not ruled out.
    most_usd
        Dearer plans were not looked for; None: all were.
    points
        From the fastest to the cheapest.
    """

    slow: ClassVar[str] = "stage_time_s"
    dear: ClassVar[str] = "cost_usd"
    titles: ClassVar[Mapping[str, str]] = {
        "plan": "plan_text",
        "samples/s": "throughput_samples_per_s",
        "USD": "cost_usd",
    }
    figures: ClassVar[tuple[str, ...]] = tuple(FrontierPoint.model_fields)

    kind: Literal["staging"] = "staging"
    most_usd: Annotated[float, Field(ge=0)] | None = None
    points: Many[FrontierPoint] = ()
    certificate: Annotated[list[Fields], validated_in_batches(MAX_INTERVALS)] = []

    def _frame_row(self, point: FrontierPoint) -> Fields:
        """Return the figures of a point, and its plan as one text."""
        return super()._frame_row(point) | {"plan": point.plan_text}


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
    found: Fields = {"status": "partial", "limit": "time", "most_usd": most_usd}
    with suppress(OutOfTimeError):  # before the search could begin
        found = _found(formulation_of(instance), options, error, most_usd, clock)
    return Frontier(**run_facts(instance, options, error, clock), **found)


def _found(
    formulation: StagingFormulation, options: SolveOptions, error: float, most_usd: float | None, clock: Clock
) -> Fields:
    """Return the points and the other fields of the frontier that the search finds."""
    instance = formulation.instance
    known = formulation.elementary_infeasibility()
    most = min((usd for usd in (most_usd, instance.cost_limit_usd) if usd is not None), default=None)
    # Without any bound on units the frontier has no end: it stops at a multiple of the least cost.
    unlimited = instance.hourly_budget_usd is None and any(one.limit is None for one in instance.types)
    if most is None and known is None and unlimited:
        cheapest = Cheapest(math.inf, options.gap)
        Search(formulation, cheapest, clock).run()
        most = None if cheapest.best is None else UNLIMITED_COST_RATIO * cheapest.best.cost_usd
    incumbent = NonDominated(math.inf if most is None else most, error)
    search = Search(formulation, incumbent, clock)
    limit, certificate = "none", list[Fields]()
    if known is None:
        certificate = intervals_of(formulation, search.run(), search.slowest_s)
        limit = search.limit
    points = incumbent.points
    status = "partial" if limit != "none" else "complete" if points else "infeasible"
    infeasible = status == "infeasible"
    deadline = check_deadline(options, clock.elapsed_s)
    return {
        "status": status,
        "limit": limit,
        "certified_error": _certified_error(formulation, points, error, most, certificate, deadline),
        "most_usd": most,
        "points": tuple(frontier_point(formulation, plan_of(formulation, point)) for point in points),
        "certificate": certificate,
        "diagnosis": diagnose_with(diagnose, formulation, known, clock.remaining_s) if infeasible else None,
    }


def _certified_error(
    formulation: StagingFormulation,
    points: list[Candidate],
    error: float,
    most_usd: float | None,
    certificate: list[Fields],
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
            return formulation.check.certified_error(corners, error, most_usd, certificate, work)
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
        time_s=instance.training.total / throughput,
        rate_usd_per_hour=rate,
        stage_time_s=time,
        plan=plan,
    )
