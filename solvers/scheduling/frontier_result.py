"""Result of a scheduling frontier: cluster sizes against mean completion times, with bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ...formulations.scheduling.plan import Segment
from ...instances.common.base import figure
from ...instances.common.fields import Amounts, Many, Model, Positive
from ..common.result import AnyFrontier

if TYPE_CHECKING:
    import pandas as pd


class SizeBound(Model):
    """The bound of a size that is no point, because a smaller one has as good a plan.

    Attributes
    ----------
    size
        Units of the resource.
    bound_s
        Below which no plan has its mean completion time, as our own check derives.
    certificate
        From what the check derives it; None where it needs nothing.
    """

    size: Positive
    bound_s: float
    certificate: dict[str, Any] | None = None


class SizePoint(SizeBound):
    """One size, and the best plan for it that was found.

    Attributes
    ----------
    mean_completion_s
        Σ ω_j (C_j − r_j) / Σ ω_j of the plan.
    rate_usd_per_hour
        What the cluster costs; None without prices.
    solver
        What found the plan.
    """

    mean_completion_s: float
    rate_usd_per_hour: float | None = None
    solver: str
    plan: Many[Segment]


class SchedulingFrontier(AnyFrontier):
    """The result of a search over sizes; JSON and back without loss.

    Attributes
    ----------
    resource, least, most
        Of which there are how many, from the smallest to the largest size.
    status
        `complete`: the error is proven; `partial`: a limit stopped the search.
    error, certified_error
        ε: for every size from `least` to `most` there is a point that is no larger, and no plan for that size
        has a mean below 1 − ε times the point's; as asked for, and as the bounds prove.
    prices_usd_per_hour
        Of one unit of each resource.
    points
        From the largest and fastest to the smallest.
    others
        Sizes that are no points, on which the error rests too.
    """

    slow: ClassVar[str] = "mean_completion_s"
    dear: ClassVar[str] = "size"
    called: ClassVar[str] = "sizes"
    titles: ClassVar[tuple[str, ...]] = ("size", "mean completion, s", "no plan is below, s")

    kind: Literal["scheduling"] = "scheduling"
    resource: str
    least: Positive
    most: Positive
    prices_usd_per_hour: Amounts = {}
    points: Many[SizePoint] = ()
    others: Many[SizeBound] = ()

    @staticmethod
    def _card_row(point: SizePoint) -> tuple[str, ...]:
        """Return the table cells of a frontier point: cluster size, mean completion time and bound."""
        return figure(point.size), figure(point.mean_completion_s), figure(point.bound_s)

    def to_frame(self) -> pd.DataFrame:
        """Return the frontier points as a data frame, one row per cluster size, without their plans."""
        import pandas as pd

        figures = ["size", "rate_usd_per_hour", "mean_completion_s", "bound_s", "solver"]
        return pd.DataFrame([{f: getattr(p, f) for f in figures} for p in self.points], columns=figures)


def error_of(points: list[tuple[float, float]], bounds: list[tuple[float, float]]) -> float:
    """Return the proven relative error ε of a frontier over all sizes from the smallest to the largest.

    A bound holds for all smaller sizes too, and a plan for all larger ones. So between two neighbouring sizes
    the mean is at least the bound of the larger one, and the best point up to the smaller one counts.

    Parameters
    ----------
    points, bounds
        Sizes with the mean completion times of their plans, and sizes with bounds; in any order.
    """
    steps = sorted({size for size, _ in (*points, *bounds)})
    worst = 0.0
    for index, size in enumerate(steps):
        mean = min((mean for other, mean in points if other <= size), default=float("inf"))
        ahead = steps[min(index + 1, len(steps) - 1)]
        bound = max((bound for other, bound in bounds if other >= ahead), default=0.0)
        worst = max(worst, 1.0 if mean == float("inf") else 1.0 - bound / mean)
    return worst
