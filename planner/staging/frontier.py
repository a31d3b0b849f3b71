"""The frontier of a staging instance, cost against throughput: its verification and its table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...formulations.common.tolerance import agree, within
from ...formulations.staging.formulation import StagingFormulation
from ...formulations.staging.plan import Corner, Stage
from ...instances.staging.instance import StagingInstance
from ...solvers.staging.frontier import describe
from ...solvers.staging.frontier_result import Frontier, FrontierPoint
from ..output.text import figure, percent, table
from ..output.thinning import thinned
from ..verification.findings import HOLDS, Findings, Verification
from ..verification.frontier_check import frontier_faults, note_extent, stated
from ..verification.infeasibility import check_infeasible

if TYPE_CHECKING:
    from rich.table import Table

DEFAULT_ERROR = 1e-4


def verify_staging(instance: StagingInstance, frontier: Frontier) -> Verification:
    """Check a frontier against its instance: every plan, every figure, and the error that it proves."""
    found, formulation = Findings(), StagingFormulation(instance)
    found.faults += _faults(formulation, frontier)
    if frontier.status == "infeasible" and not found.faults:
        _check_infeasible(found, formulation, frontier)
    if found.faults:
        return found.verification(instance.name)
    most = "" if frontier.most_usd is None else f" of at most {frontier.most_usd:g} USD"
    if frontier.points:
        found.confirmed.append(f"{HOLDS} for each of {len(frontier.points)} plans")
    if frontier.certified_error is not None:
        found.confirmed.append(f"no plan{most} beats the points by more than {frontier.certified_error:g}")
    note_extent(found, frontier, most if _narrower(instance, frontier) else "", DEFAULT_ERROR)
    found.stated += stated(frontier)
    return found.verification(instance.name)


def _narrower(instance: StagingInstance, frontier: Frontier) -> bool:
    """Return whether the frontier ends at a cost below what the instance itself allows."""
    limit = math.inf if instance.cost_limit_usd is None else instance.cost_limit_usd
    return frontier.most_usd is not None and frontier.most_usd < limit


def _check_infeasible(found: Findings, formulation: StagingFormulation, frontier: Frontier) -> None:
    """Check that no plan is within the cost that was asked for, and the reasons given."""

    def counts(plan: Sequence[Stage]) -> bool:
        most = math.inf if frontier.most_usd is None else frontier.most_usd
        return within(describe(formulation, tuple(plan)).cost_usd, most)

    proven = formulation.proves_none(frontier.most_usd, frontier.certificate)
    words = "the prices of the certificate prove that there is no plan" if proven else None
    check_infeasible(found, formulation, words, frontier.diagnosis, frontier.versions, counts)


def _faults(formulation: StagingFormulation, frontier: Frontier) -> Iterator[str]:
    yield from frontier_faults(formulation.instance, frontier)
    malformed = formulation.certificate_fault({"intervals": frontier.certificate})
    if malformed is not None:
        yield f"certificate: {malformed}"
    broken = False
    for index, point in enumerate(frontier.points):
        for violation in formulation.violations(point.plan):
            broken = True
            yield f"points[{index}]: broken constraint: {violation}"
    if broken:
        return
    for index, point in enumerate(frontier.points):
        derived = describe(formulation, point.plan)
        for field in sorted(set(FrontierPoint.model_fields) - {"plan"}):
            old, new = getattr(point, field), getattr(derived, field)
            if not agree(old, new):
                yield f"points[{index}].{field} is stored as {old:.10g}; recomputed it is {new:.10g}"
    # The stored figures were compared with the plans above.
    corners = [Corner(point.stage_time_s, point.cost_usd) for point in frontier.points]
    most = math.inf if frontier.most_usd is None else frontier.most_usd
    if not all(within(corner.cost_usd, most) for corner in corners):
        yield f"points: there are plans dearer than most_usd, {most:g}"
    for index, (a, b) in enumerate(itertools.pairwise(corners)):
        if not (a.time_s < b.time_s and a.cost_usd > b.cost_usd):
            yield f"points[{index + 1}] is not slower and cheaper than the one before"
    proven = None
    if corners:
        proven = formulation.certified_error(corners, frontier.error, frontier.most_usd, frontier.certificate)
    stored = frontier.certified_error
    if stored is not None and (proven is None or proven > stored * (1 + 1e-9)):
        yield f"certified_error is stored as {stored}; what the certificate proves is {proven}"


def shown_staging(frontier: Frontier) -> tuple[Table, list[str]]:
    """Return the points as a table for people, thinned where they are many, and lines about the whole."""
    points = thinned(frontier.points, lambda p: (p.throughput_samples_per_s, p.cost_usd))
    columns = [("samples/s", True), ("USD", True), ("hours", True), ("USD/h", True)]
    columns.append(("stages: units of each type, in order", False))
    rows = [
        [
            figure(point.throughput_samples_per_s, 6),
            figure(point.cost_usd, 6),
            figure(point.time_s / 3600, 5),
            figure(point.rate_usd_per_hour, 6),
            _stages(point),
        ]
        for point in points
    ]
    return table(columns, rows), list(_lines(frontier, len(points)))


def _stages(point: FrontierPoint) -> str:
    text = " → ".join(f"{stage.units} {stage.type}" for stage in point.plan[:6])
    return text + (f" … ({len(point.plan)} stages)" if len(point.plan) > 6 else "")


def _lines(frontier: Frontier, shown_points: int) -> Iterator[str]:
    total = len(frontier.points)
    if shown_points < total:
        yield f"{shown_points} of {total} points are shown; --output DIR writes all, with their plans"
    if frontier.status == "infeasible":
        yield "no plan exists"
        if frontier.diagnosis is not None:
            yield from frontier.diagnosis.reasons
            yield from (f"remedy: {remedy}" for remedy in frontier.diagnosis.remedies)
        return
    most = "" if frontier.most_usd is None else f" of at most {figure(frontier.most_usd)} USD"
    if frontier.status == "partial":
        yield f"stopped by the {frontier.limit} limit; the points are plans, but better ones may be missing"
    if frontier.certified_error is None:
        yield f"not certified: that no plan{most} is faster than the fastest point"
    else:
        error = percent(frontier.certified_error)
        yield f"certified: every plan{most} is matched by a point as fast that costs at most {error} more"
