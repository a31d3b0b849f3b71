"""The trade-off of an allocation: mean completion time of the jobs against the hourly cost of the cluster."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ..formulations.allocation_plan import JobAllocation
from ..formulations.base import Diagnosis
from ..instances.fields import Model
from .options import SolveOptions
from .result import Limit


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
        λ of each resource in weighted job-seconds per unit, and what the check derives the bound from.
    """

    rate_usd_per_hour: float
    capacities: dict[str, float]
    mean_completion_s: float
    bound_s: float | None = None
    certified_bound_s: float | None = None
    prices: dict[str, float] | None = None
    certificate: dict[str, Any] | None = None
    plan: tuple[JobAllocation, ...]


class AllocationFrontier(Model):
    """What a search over clusters found; JSON and back without loss.

    Attributes
    ----------
    mix
        `fixed`: every cluster is the instance's, scaled; `any`: any amounts of the resources with a price.
    status
        `complete`: the error is proven; `partial`: a limit stopped the search; `infeasible`: no plan at all.
    error, certified_error
        ε: for every such cluster there is a point that costs no more and whose mean completion time, less
        the part ε, is no longer; as asked for, and as the check derives.
    points
        From the dearest and fastest to the cheapest.
    current
        The instance's own cluster, where it has a plan.
    """

    instance: str
    kind: Literal["allocation"] = "allocation"
    instance_sha256: str
    mix: Literal["fixed", "any"] = "fixed"
    status: Literal["complete", "partial", "infeasible"]
    limit: Limit = "none"
    error: Annotated[float, Field(ge=0, lt=1)]
    certified_error: float | None = None
    points: tuple[AllocationPoint, ...] = ()
    current: AllocationPoint | None = None
    assumptions: tuple[str, ...] = ()
    runtime_s: Annotated[float, Field(ge=0)] = 0.0
    options: SolveOptions = SolveOptions()
    versions: dict[str, str] = {}
    diagnosis: Diagnosis | None = None
