"""The trade-off of scheduling, mean completion time against the size of the cluster: checked and shown."""

from __future__ import annotations

from collections.abc import Iterator

from ...formulations.scheduling.formulation import SchedulingFormulation
from ...instances.common.errors import InstanceError
from ...instances.scheduling.instance import SchedulingInstance
from ...solvers.scheduling.frontier import sized
from ...solvers.scheduling.frontier_result import SchedulingFrontier, SizeBound, SizePoint, error_of
from ..kind import Sentences
from ..output.text import TextColumn, figure, percent
from ..reports.text import duration
from ..verification.findings import Findings
from ..verification.frontier_check import FrontierCheck, altered, order_faults


def sizes(frontier: SchedulingFrontier) -> str:
    """Return words for the sizes that were looked at."""
    return f"from {figure(frontier.least)} to {figure(frontier.most)} {frontier.resource}"


class SchedulingFrontierCheck(FrontierCheck):
    """The check of a frontier of sizes: every plan, figure and bound, and the error that they prove."""

    # A policy's plan and the bound of its cluster are some per cent apart, and two sizes are too.
    default_error = 0.1
    instance: SchedulingInstance
    frontier: SchedulingFrontier

    def __init__(self, instance: SchedulingInstance, frontier: SchedulingFrontier) -> None:
        super().__init__(instance, frontier)
        self.most = f" {sizes(frontier)}"

    def faults(self) -> Iterator[str]:
        """Yield what is wrong beside the head."""
        frontier = self.frontier
        if frontier.resource not in self.instance.pool:
            yield f"resource: there is no {frontier.resource!r}"
            return
        unknown = sorted(set(frontier.prices_usd_per_hour) - set(self.instance.pool))
        yield from (f"prices_usd_per_hour.{name}: there is no such resource" for name in unknown)
        found = [
            fault
            for place, record in (
                *((f"points[{i}]", point) for i, point in enumerate(frontier.points)),
                *((f"others[{i}]", other) for i, other in enumerate(frontier.others)),
            )
            for fault in self._record(place, record)
        ]
        yield from found
        yield from order_faults(frontier)
        stored = frontier.certified_error
        if unknown or found or stored is None:
            return
        records = [*frontier.points, *frontier.others]
        reached = {record.size for record in records}
        if not {frontier.least, frontier.most} <= reached:
            yield "certified_error is given, and the smallest or the largest size is missing"
        proven = error_of(
            [(point.size, point.mean_completion_s) for point in frontier.points],
            [(record.size, record.bound_s) for record in records],
        )
        if proven > stored + 1e-9:
            yield f"certified_error is stored as {stored}; what the certificates prove is {proven}"

    def _record(self, place: str, record: SizeBound) -> Iterator[str]:
        frontier = self.frontier
        if not frontier.least <= record.size <= frontier.most:
            yield f"{place}.size is {record.size:g}, and sizes go {sizes(frontier)}"
            return
        try:
            formulation = SchedulingFormulation(sized(self.instance, frontier.resource, record.size))
        except InstanceError as error:
            yield f"{place}: {str(error).splitlines()[0]}"
            return
        fault = None if record.certificate is None else formulation.certificate_fault(record.certificate)
        if fault is not None:
            yield f"{place}.certificate.{fault}"
            return
        bound = formulation.certified_bounds(record.certificate)[0] or 0.0
        if record.bound_s > bound * (1 + 1e-9):
            yield f"{place}.bound_s is stored as {record.bound_s:.10g}; the check derives {bound:.10g}"
        if isinstance(record, SizePoint):
            yield from self._point(place, record, formulation)

    def _point(self, place: str, point: SizePoint, formulation: SchedulingFormulation) -> Iterator[str]:
        broken = formulation.violations(point.plan)
        yield from (f"{place}: broken constraint: {violation}" for violation in broken)
        if broken:
            return
        value = formulation.evaluate(point.plan)[0]
        yield from altered(f"{place}.mean_completion_s", point.mean_completion_s, value)
        if point.bound_s > value * (1 + 1e-9):
            yield f"{place}.certificate: it would exclude the plan of {place}"
        prices = self.frontier.prices_usd_per_hour
        amounts = formulation.instance.pool
        if prices and point.rate_usd_per_hour is not None:
            rate = sum(price * amounts.get(name, 0.0) for name, price in prices.items())
            yield from altered(f"{place}.rate_usd_per_hour", point.rate_usd_per_hour, rate)

    def check_infeasible(self, found: Findings) -> None:
        """Do nothing: every size that is looked at has a plan."""
        found.faults.append("status is infeasible, and every trace has a plan")

    def given(self) -> Iterator[str]:
        """Yield the prices, which the instance does not say."""
        for name, price in self.frontier.prices_usd_per_hour.items():
            yield f"that {name} costs {price:g} USD/h"


def columns(frontier: SchedulingFrontier) -> list[TextColumn[SizePoint]]:
    """Return the columns of the table for people."""
    found: list[TextColumn[SizePoint]] = [(frontier.resource, True, lambda p: figure(p.size, 6))]
    if frontier.prices_usd_per_hour:
        found.append(("USD/h", True, lambda p: figure(p.rate_usd_per_hour, 6)))
    return [
        *found,
        ("mean completion", True, lambda p: duration(p.mean_completion_s)),
        ("no plan is below", True, lambda p: duration(p.bound_s)),
        ("gap", True, lambda p: percent(gap(p))),
        ("found by", False, lambda p: p.solver),
    ]


def gap(point: SizePoint) -> float:
    """Return how far a plan is from the bound of its size, as a part of its mean."""
    return max(0.0, 1 - point.bound_s / point.mean_completion_s)


def sentences(frontier: SchedulingFrontier) -> Sentences:
    """Return what the lines below the table say."""
    said = [said_of(point, frontier) for point in frontier.points[-1:]]
    return Sentences(
        none="no plan exists",
        about=tuple(said),
        uncertified=f"not certified: how far plans could be below the points {sizes(frontier)}",
        certified=f"certified: for every size {sizes(frontier)} there is a point that is no larger, and no "
        f"plan has a mean more than {percent(frontier.certified_error)} below the point's",
    )


def said_of(point: SizePoint, frontier: SchedulingFrontier) -> str:
    """Return what the bound of a size says, in a sentence."""
    least = duration(point.bound_s)
    return f"certified: on {figure(point.size)} {frontier.resource} no scheduler averages less than {least}"
