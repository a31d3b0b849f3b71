"""The whole trade-off of a staging instance: every plan that no other beats in both cost and throughput."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ...formulations.common.objective import Diagnosis
from ...formulations.staging.certificate import MOST_INTERVALS
from ...formulations.staging.formulation import StagingFormulation
from ...formulations.staging.frontier_error import MOST_WORK, Corner, certified_error
from ...formulations.staging.plan import Stage
from ...instances.common.errors import OutOfTimeError
from ...instances.common.fields import Many, Model, in_slices
from ...instances.common.html_summary import card, figure, percent
from ...instances.staging.instance import StagingInstance
from ..common.base import Clock
from ..common.conclude import library_versions, time_to_check
from ..common.diagnosis import diagnose_with
from ..common.options import SolveOptions
from ..common.result import Limit
from .diagnose import diagnose
from .exact import intervals_of
from .goals import Candidate, Cheapest
from .goals import Frontier as FrontierGoal
from .search import Search, plan_of

if TYPE_CHECKING:
    import pandas as pd

SPAN = 10.0
"""Where units are unlimited, plans that cost more than so many times the cheapest are left out."""


WORK_PER_S = 12_000_000
"""Bounds that the check evaluates in a second, roughly."""


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


class Frontier(Model):
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

    instance: str
    kind: Literal["staging"] = "staging"
    instance_sha256: str
    status: Literal["complete", "partial", "infeasible"]
    limit: Limit = "none"
    error: Annotated[float, Field(ge=0, lt=1)]
    certified_error: float | None = None
    most_usd: Annotated[float, Field(ge=0)] | None = None
    points: Many[FrontierPoint] = ()
    certificate: Annotated[list[dict[str, Any]], in_slices(MOST_INTERVALS)] = []
    runtime_s: Annotated[float, Field(ge=0)] = 0.0
    options: SolveOptions = SolveOptions()
    versions: Annotated[dict[str, str], in_slices(1_000)] = {}
    diagnosis: Diagnosis | None = None

    def to_json(self) -> str:
        """Return the frontier as one line of JSON."""
        return self.model_dump_json()

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        rows = [
            (_in_short_plan(point), figure(point.throughput_samples_per_s), figure(point.cost_usd))
            for point in self.points
        ]
        proven = percent(self.certified_error)
        lines = [f"frontier of {len(self.points)} points, {self.status}; certified error {proven}"]
        return card(self.instance, lines, ("plan", "samples/s", "USD"), rows)

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each point; the plan as text, `first-last:type*units` for each stage."""
        import pandas as pd

        rows = [
            {**point.model_dump(exclude={"plan"}), "plan": _in_short_plan(point)} for point in self.points
        ]
        return pd.DataFrame(rows, columns=[*FrontierPoint.model_fields])


def _in_short_plan(point: FrontierPoint) -> str:
    return " ".join(map(_in_short, point.plan))


def _in_short(stage: Stage) -> str:
    return f"{stage.first_layer}-{stage.last_layer}:{stage.type}*{stage.units}"


def find_frontier(
    instance: StagingInstance, options: SolveOptions, error: float, most_usd: float | None
) -> Frontier:
    """Return the frontier, and how good it is.

    The instance's floor, limits, memory and budgets hold for every point; its objective plays no part.

    Parameters
    ----------
    error
        ε: points that lower the cost by no more than this part may be left out.
    most_usd
        Look for no dearer plans. By default the instance's cost limit; where neither that nor anything
        else bounds the units, ten times the cost of the cheapest plan.
    """
    clock = Clock(options.time_limit_s)
    try:
        return _find(StagingFormulation(instance), options, error, most_usd, clock)
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
    if most is None and known is None and _unbounded(instance):
        cheapest = Cheapest(math.inf, options.gap)
        Search(formulation, cheapest, options, clock).run()
        most = None if cheapest.best is None else SPAN * cheapest.best.cost_usd
    goal = FrontierGoal(math.inf if most is None else most, error)
    search = Search(formulation, goal, options, clock)
    found = search.run() if known is None else None
    certificate = [] if found is None else intervals_of(formulation, found.cells, search.slowest_s)
    stopped = "none" if found is None else found.limit
    status: Literal["complete", "partial", "infeasible"] = "complete" if stopped == "none" else "partial"
    if stopped == "none" and not goal.points:
        status = "infeasible"
    return Frontier(
        instance=instance.name,
        instance_sha256=instance.sha256(),
        status=status,
        limit=stopped,
        error=error,
        certified_error=_certified(
            formulation, goal.points, error, most, certificate, time_to_check(options, clock.elapsed_s)
        ),
        most_usd=most,
        points=tuple(_point(formulation, candidate) for candidate in goal.points),
        certificate=certificate,
        runtime_s=clock.elapsed_s,
        options=options,
        versions=library_versions(),
        diagnosis=diagnose_with(diagnose, formulation, known, clock.remaining_s)
        if status == "infeasible"
        else None,
    )


def _unbounded(instance: StagingInstance) -> bool:
    """Return whether a plan can have ever more units, and so be ever faster and dearer."""
    return instance.hourly_budget_usd is None and any(kind.limit is None for kind in instance.types)


def _certified(
    formulation: StagingFormulation,
    points: list[Candidate],
    error: float,
    most_usd: float | None,
    certificate: list[dict[str, Any]],
    clock: Clock,
) -> float | None:
    """Return the error that the check derives in time; None if there is none."""
    if not points:
        return None
    # Half of the time is for what prices leave open, which may end with less than was hoped for.
    work = MOST_WORK if clock.limit_s is None else min(MOST_WORK, int(WORK_PER_S * clock.limit_s / 2))
    corners = [Corner(point.time_s, point.cost_usd) for point in points]
    try:
        with clock.enforced():
            return certified_error(formulation, corners, error, most_usd, certificate, work)
    except OutOfTimeError:
        return None


def _point(formulation: StagingFormulation, candidate: Candidate) -> FrontierPoint:
    """Return a point with its figures computed from the plan alone."""
    return describe(formulation, plan_of(formulation, candidate))


def describe(formulation: StagingFormulation, plan: tuple[Stage, ...]) -> FrontierPoint:
    """Return a feasible plan with its figures, computed from the plan alone."""
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
