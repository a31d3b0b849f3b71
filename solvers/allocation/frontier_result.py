"""The Pareto frontier of an allocation: mean completion time against the hourly cost of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ...formulations.allocation.plan import JobAllocation
from ...instances.common.base import figure
from ...instances.common.fields import Amounts, Many, ManyNamed, Model, Positive
from ..common.result import AnyFrontier

if TYPE_CHECKING:
    import pandas as pd


class AllocationPoint(Model):
    """One cluster, and the best plan for it that was found.

    Attributes
    ----------
    rate_usd_per_hour
        What the whole cluster costs, used or not.
    capacities
        Units of each resource in it.
    mean_completion_s
        Σ ω_j t_j / Σ ω_j of the plan.
    bound_s, certified_bound_s
        Below which no plan for this cluster can be: as the method proved, and as our own check derives.
    prices, certificate
        λ of each resource in weighted job-seconds per unit, and from what the check derives the bound.
    """

    rate_usd_per_hour: float
    capacities: ManyNamed[str, float]
    mean_completion_s: float
    bound_s: float | None = None
    certified_bound_s: float | None = None
    prices: ManyNamed[str, float] | None = None
    certificate: dict[str, Any] | None = None
    plan: Many[JobAllocation]


class ClusterBound(Model):
    """The bound of a cluster that is no point, because another one is better or it has no plan.

    Attributes
    ----------
    rate_usd_per_hour, capacities
        As of a point; with the mix `any` the hourly cost, and only the resources without a price.
    no_plan
        Whether the cluster is too small for any plan.
    bound_s, certified_bound_s, certificate
        As of a point; without bounds where there is no plan.
    """

    rate_usd_per_hour: float
    capacities: ManyNamed[str, float]
    no_plan: bool = False
    bound_s: float | None = None
    certified_bound_s: float | None = None
    certificate: dict[str, Any] | None = None


class AllocationFrontier(AnyFrontier):
    """The result of a search over clusters; JSON and back without loss.

    Attributes
    ----------
    mix
        `fixed`: every cluster is the instance's, scaled; `any`: any amounts of the resources with a price.
    status
        `complete`: the error is proven; `partial`: a limit stopped the search; `infeasible`: no plan at all.
    error, certified_error
        ε: for every such cluster there is a point that costs no more and whose mean completion time, less
        the part ε, is no longer than that of any plan for the cluster; as asked for, and as the check
        derives. None where the check cannot rule out plans for clusters cheaper than the cheapest point.
    most_usd_per_hour
        Dearer clusters were not looked at; None: all were.
    prices_usd_per_hour
        Of one unit of each resource: those of the document, unless others were given.
    weight
        Σ ω_j, which turns weighted job-seconds into seconds of the mean.
    points
        From the dearest and fastest to the cheapest.
    others
        Clusters that are no points, and on which the error rests too.
    current
        The instance's own cluster, where it has a plan.
    """

    slow: ClassVar[str] = "mean_completion_s"
    dear: ClassVar[str] = "rate_usd_per_hour"
    called: ClassVar[str] = "clusters"
    titles: ClassVar[tuple[str, ...]] = ("cluster", "USD/h", "mean completion, s")

    kind: Literal["allocation"] = "allocation"
    mix: Literal["fixed", "any"] = "fixed"
    most_usd_per_hour: Positive | None = None
    prices_usd_per_hour: Amounts = {}
    weight: float = 1.0
    points: Many[AllocationPoint] = ()
    others: Many[ClusterBound] = ()
    current: AllocationPoint | None = None
    assumptions: Many[str] = ()

    @staticmethod
    def _card_row(point: AllocationPoint) -> tuple[str, ...]:
        """Return the table cells of a frontier point: cluster, hourly cost and mean completion time."""
        cluster = ", ".join(f"{figure(amount)} {name}" for name, amount in point.capacities.items())
        return cluster, figure(point.rate_usd_per_hour), figure(point.mean_completion_s)

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with one row per frontier point, and one column per capacity and price.

        It has no plans.
        """
        import pandas as pd

        figures = ("rate_usd_per_hour", "mean_completion_s", "bound_s", "certified_bound_s")
        resources = list(self.points[0].capacities) if self.points else []
        rows = [
            {name: getattr(point, name) for name in figures}
            | {f"capacity.{name}": point.capacities[name] for name in resources}
            | {f"price.{name}": (point.prices or {}).get(name) for name in resources}
            for point in self.points
        ]
        columns = [*figures, *(f"{part}.{name}" for part in ("capacity", "price") for name in resources)]
        return pd.DataFrame(rows, columns=columns)
