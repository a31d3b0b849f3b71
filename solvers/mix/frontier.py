"""Frontiers of a mix: the least cost of each load of requests, or the most progress on so many devices.

What serves many requests also serves fewer, so that the size of the search is minus the per cent of the
requests, and its objective the cost. More devices make no less progress, so that the size is their number,
and the objective 1/progress, of which the relative error is that of the progress.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

from ...formulations.common.frontier import Sizes
from ...instances.common.errors import OptionError
from ...instances.common.fields import Many, Model, PositiveCount
from ...instances.mix.instance import MAX_COPIES, MixInstance
from ..common.base import Clock
from ..common.result import AnyFrontier, ObjectiveRecord, Result, SolveOptions
from ..frontier import SizeSearch

LEAST, MOST = 10, 200
"""Per cent of the requests between which the load lies unless it is said; the least devices likewise."""


def record_of(result: Result) -> ObjectiveRecord:
    """Return the first objective of a result; one without figures if it has none."""
    return next(iter(result.objectives), ObjectiveRecord(name="cost", sense="min", unit="USD/h"))


class MixStep(Model):
    """A size, and what a solve found for it.

    Attributes
    ----------
    size
        Per cent of the requests of the instance, or devices.
    result
        The result of the solve, which is verified, exported and compared like any other.
    """

    size: PositiveCount
    result: Result

    @property
    def record(self) -> ObjectiveRecord:
        """What is known of the cost [USD/h] or the progress [jobs]."""
        return record_of(self.result)

    @property
    def value(self) -> float:
        """The cost or the progress of the plan."""
        return self.record.value or 0.0

    @property
    def bound(self) -> float:
        """What no plan is better than, as our own check derives."""
        return self.record.certified_bound or 0.0

    @property
    def lacking(self) -> float:
        """Minus the per cent, or minus the progress, which rises along the frontier."""
        return -(self.size if self.record.sense == "min" else self.value)

    @property
    def spent(self) -> float:
        """The cost [USD/h], or the devices."""
        return self.value if self.record.sense == "min" else self.size


class MixFrontier(AnyFrontier):
    """The result of a search over loads or devices; JSON and back without loss.

    Attributes
    ----------
    varied
        Whether sizes are per cent of the requests, or devices.
    least, most
        The smallest and the largest size.
    status
        `complete`: the error is proven; `partial`: a limit stopped the search; `infeasible`: it is proven
        that no size has a plan.
    error, certified_error
        ε: for every load from `least` to `most` that can be served, some point serves as much, and no plan
        for the load costs less than 1 − ε times the point's. For every number of devices some point has no
        more, and makes at least 1 − ε times the progress of any plan. As asked for, and as the bounds prove.
    points
        From the most to the least. The size of the instance itself is one even if another is as good.
    others
        Sizes that are no points, because they have no plan, or another size is as good.
    """

    slow: ClassVar[str] = "lacking"
    dear: ClassVar[str] = "spent"
    called: ClassVar[str] = "sizes"
    titles: ClassVar[Mapping[str, str]] = {"size": "size", "cost or progress": "value", "bound": "bound"}
    figures: ClassVar[tuple[str, ...]] = ("size", "value", "bound")

    kind: Literal["mix"] = "mix"
    varied: Literal["requests", "devices"]
    least: PositiveCount
    most: PositiveCount
    points: Many[MixStep] = ()
    others: Many[MixStep] = ()

    def results(self) -> dict[str, Result]:
        """Return the result of each point by the name of its file."""
        return {f"size-{point.size}": point.result for point in self.points}


def with_size(instance: MixInstance, size: int) -> MixInstance:
    """Return the instance with so many per cent of its requests, or so many devices."""
    if not instance.serves:
        return instance.model_copy(update={"devices": size})
    types = (
        one.model_copy(update={"requests_per_s": (one.requests_per_s or 0.0) * size / 100})
        for one in instance.types
    )
    return instance.model_copy(update={"types": tuple(types)})


def grid_of(instance: MixInstance, least: int, most: int) -> Sizes:
    """Return the sizes of the search: minus the per cent of the requests, or the devices."""
    return Sizes(-most, -least) if instance.serves else Sizes(least, most)


def figures_of(result: Result) -> tuple[float, float]:
    """Return value and bound of what falls as the size rises: cost, or 1/progress; infinite if no plan."""
    if result.status == "infeasible":
        return math.inf, math.inf
    record = record_of(result)
    value, bound = record.value, record.certified_bound
    if record.sense == "min":
        return math.inf if value is None else value, bound or 0.0
    return (1 / value if value else math.inf), (0.0 if bound is None else 1 / bound if bound else math.inf)


class _Search(SizeSearch):
    """Search over loads or devices."""

    most_sizes = 200  # as many as there are from 10 to 200 %

    def of_size(self, size: float) -> MixInstance:
        """Return the instance of a size."""
        return with_size(self.instance, abs(int(size)))

    def is_solved(self, size: float, result: Result) -> bool:
        """Return whether there is a plan, or the proof that there is none."""
        return result.status == "infeasible" or super().is_solved(size, result)

    def figures(self, result: Result) -> tuple[float, float]:
        """Return cost, or 1/progress, and its bound."""
        return figures_of(result)


def find_frontier(
    instance: MixInstance,
    options: SolveOptions,
    error: float,
    most_usd: float | None,
    *,
    least: float | None = None,
    most: float | None = None,
) -> MixFrontier:
    """Return the frontier of cost against load, or of devices against progress, with its proven error ε.

    Parameters
    ----------
    error
        ε, as in `MixFrontier`.
    least, most
        Per cent of the requests, by default from 10 to 200; or devices, from a tenth of all to all.

    Raises
    ------
    OptionError
        If a number is wrong, or a largest cost is given, which the instance says.
    InstanceError
        If the largest load needs more copies than a plan can state.
    """
    if most_usd is not None:
        raise OptionError("--most-usd is not for a mix; give the instance budget_usd_per_hour")
    own, low = own_size(instance), least
    if low is None:
        low = LEAST if instance.serves else -(-own // LEAST)
    high = max(low, MOST if instance.serves else own) if most is None else most
    if not 1 <= low <= high <= MAX_COPIES or {low, high} != {int(low), int(high)}:
        what = "per cent of the requests" if instance.serves else "numbers of devices"
        what += f" from 1 to {MAX_COPIES:,}, the fewer first"
        raise OptionError(f"--from {low:g} --to {high:g}: give whole {what}")
    least, most = int(low), int(high)
    if instance.serves and most > own:
        instance.replace(types=with_size(instance, most).document()["types"])  # not too many copies
    sizes = grid_of(instance, least, most)
    also = [grid_of(instance, own, own).first] if least <= own <= most else []
    search = _Search(instance, sizes, options, error, Clock(options.time_limit_s), also=also)
    search.run()

    points, others = (
        [MixStep(size=abs(int(size)), result=search.solved[size]) for size in sorted(part, key=abs)[::-1]]
        for part in search.ranked()
    )
    facts, last = search.facts(), search.solved.get(sizes.last)
    if last is not None and last.status == "infeasible":
        facts |= {"status": "infeasible", "certified_error": None, "diagnosis": last.diagnosis}
    facts |= {"varied": "requests" if instance.serves else "devices", "least": least, "most": most}
    return MixFrontier(**facts, points=tuple(points), others=tuple(others))


def own_size(instance: MixInstance) -> int:
    """Return the size of the instance itself: 100 %, or all devices, but no more than all jobs can use."""
    if instance.serves:
        return 100
    alone = sum(one.count or 0 for one in instance.types) * max(
        (one.devices for one in instance.configurations), default=1
    )
    there = sum(alone if each.limit is None else each.limit for each in instance.hardware)
    return max(1, min(alone, there, alone if instance.devices is None else instance.devices))
