"""The result of a search for a staging frontier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ...formulations.staging.certificate import MOST_INTERVALS
from ...formulations.staging.plan import Stage
from ...instances.common.fields import Many, Model, in_slices
from ...instances.common.html_summary import card, figure, percent
from ..common.frontier import AnyFrontier

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

    kind: Literal["staging"] = "staging"
    most_usd: Annotated[float, Field(ge=0)] | None = None
    points: Many[FrontierPoint] = ()
    certificate: Annotated[list[dict[str, Any]], in_slices(MOST_INTERVALS)] = []

    def _repr_html_(self) -> str:
        """Return a card for notebooks."""
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
