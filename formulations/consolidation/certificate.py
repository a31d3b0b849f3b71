"""The certificate of a placement: dual prices of pieces for each objective, as plain data that methods write.

A piece is what one job has on one server. Dual prices π of pieces decompose every plan (Lagrangian relaxation
of the pattern formulation, Gilmore & Gomory 1961): jobs pay for the pieces of their pattern, servers are
paid for the pieces they hold. For an objective fᵢ to be minimised, with multipliers μ ≥ 0 for the earlier
ones and the plan's own values F of these,

    fᵢ ≥ Σ_j min(0, min over patterns of e·job + π·pattern)
       + Σ_n min(0, min over patterns of e·server − π·pattern) − μ·F

where e is what fᵢ + μ·f counts for a job or server. A job that must be placed has no 0 to choose. This holds
for every plan whose earlier objectives are no worse than F, whatever the prices.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ...instances.common.fields import Many, Model, in_slices

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

    goals: Annotated[tuple[CertifiedGoal, ...], Field(max_length=8), in_slices(8)]
    traffic: CertifiedTraffic | None = None
