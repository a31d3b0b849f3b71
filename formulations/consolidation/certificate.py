"""The certificates of a placement as plain data: dual prices of pieces, or of devices by shape of server.

The certificate of a placement: dual prices of pieces for each objective, as plain data that methods write. A
piece is what one job has on one server. Dual prices π of pieces decompose every plan (Lagrangian relaxation
of the pattern formulation, Gilmore & Gomory 1961): jobs pay for the pieces of their pattern, servers are paid
for the pieces they hold. For an objective fᵢ to be minimised, with multipliers μ ≥ 0 for the earlier ones and
the plan's own values F of these,

    fᵢ ≥ Σ_j min(0, min over patterns of e·job + π·pattern)
       + Σ_n min(0, min over patterns of e·server − π·pattern) − μ·F

where e is what fᵢ + μ·f counts for a job or server. A job that must be placed has no 0 to choose. This holds
for every plan whose earlier objectives are no worse than F, whatever the prices.

The certificate of a placement on single devices, as plain data that methods write. Two kinds of prices bound
an objective. `pooled` is a certificate of the pooled relaxation. `devices` holds for each shape of server
prices of what tasks take: of each resource, of a whole device, of each share and each profile. Whatever the
prices (Lagrangian relaxation of the linear programme by shape with patterns of devices, Gilmore & Gomory
1961), for an objective f to be minimised, with multipliers μ ≥ 0 for the earlier ones and the plan's own
values F of these,

    f ≥ Σ_j min(0, e_j + Σ_tasks min over shapes of the price of a task)
      + Σ_n min(0, e_n − Σ_r λ_r·free_r − Σ_devices max over contents of their prices) − μ·F

where e is what f + μ·f counts for a job or server. A job that must be placed has no 0 to choose.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ...instances.common.fields import Many, Model, Name, validated_in_batches

LARGEST = 1e12
"""No price or multiplier may exceed this."""
MUST_PLACE = "must_place"
"""The goal that comes before all objectives: 0 jobs that must be placed are missing."""
PRICED = ("value", "spread", "servers", "slowdown", "migrations")
"""Objectives that depend on patterns alone; the others name servers."""
Price = Annotated[float, Field(ge=0, le=LARGEST)]


class CertifiedGoal(Model):
    """Prices for one objective.

    Attributes
    ----------
    prices
        For each shape the price of each of its pieces, in the order of the classes.
    multipliers
        What a unit of each earlier objective is worth in this one, and one more job that moves.
    """

    objective: Literal["must_place", "value", "spread", "servers", "slowdown", "migrations"]
    prices: Many[Many[Price]]
    multipliers: dict[Literal["moves", "value", "spread", "servers", "slowdown", "migrations"], Price] = {}


class CertifiedTraffic(Model):
    """Prices that show that an earlier goal would get worse if no server had more traffic than this."""

    below: Annotated[float, Field(ge=0)]
    goal: CertifiedGoal


class ConsolidationCertificate(Model):
    """Prices for each objective that is bounded by them; the others only have what counting gives."""

    goals: Annotated[tuple[CertifiedGoal, ...], Field(max_length=8), validated_in_batches(8)]
    traffic: CertifiedTraffic | None = None


PRICED_BY_SHAPE = ("value", "servers")
"""Objectives that get prices by shape."""
PriceOf = Annotated[dict[Name, Price], Field(max_length=10_000)]


class DevicePrices(Model):
    """Prices of the devices of one name on servers of one shape."""

    whole: Price = 0.0
    shares: Annotated[dict[Annotated[int, Field(ge=1, le=999)], Price], Field(max_length=999)] = {}
    profiles: PriceOf = {}


class ShapePrices(Model):
    """Prices on servers of one shape: of a unit of each resource, and of devices by name."""

    resources: PriceOf = {}
    devices: Annotated[dict[Name, DevicePrices], Field(max_length=100)] = {}


class PricedGoal(Model):
    """Prices for one objective, for each shape in the order of the servers.

    Attributes
    ----------
    multipliers
        What a unit of each earlier objective is worth in this one.
    """

    objective: Literal["value", "servers"]
    shapes: Many[ShapePrices]
    multipliers: dict[Literal["value", "servers"], Price] = {}


class DeviceCertificate(Model):
    """A certificate of the pooled relaxation, and prices by shape."""

    pooled: dict[str, Any] | None = None
    devices: Annotated[tuple[PricedGoal, ...], Field(max_length=2)] = ()
