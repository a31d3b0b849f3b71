"""The result of a search for a staging frontier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...formulations.staging.certificate import MAX_INTERVALS
from ...formulations.staging.stages import Stage
from ...instances.common.base import figure
from ...instances.common.fields import Many, Model, validated_in_batches
from ..common.result import AnyFrontier

if TYPE_CHECKING:
    import pandas as pd


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
    titles: ClassVar[tuple[str, ...]] = ("plan", "samples/s", "USD")

    kind: Literal["staging"] = "staging"
    most_usd: Annotated[float, Field(ge=0)] | None = None
    points: Many[FrontierPoint] = ()
    certificate: Annotated[list[dict[str, Any]], validated_in_batches(MAX_INTERVALS)] = []

    @staticmethod
    def _card_row(point: FrontierPoint) -> tuple[str, ...]:
        """Return the table cells of a frontier point: its plan, throughput and cost."""
        return _plan_text(point), figure(point.throughput_samples_per_s), figure(point.cost_usd)

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with one row per frontier point; the plan is one text.

        A stage is written as `first-last:type*units`.
        """
        import pandas as pd

        rows = [{**point.model_dump(exclude={"plan"}), "plan": _plan_text(point)} for point in self.points]
        return pd.DataFrame(rows, columns=[*FrontierPoint.model_fields])


def _plan_text(point: FrontierPoint) -> str:
    return " ".join(f"{s.first_layer}-{s.last_layer}:{s.type}*{s.units}" for s in point.plan)
