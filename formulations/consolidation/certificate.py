"""The certificates of a placement as plain data: dual prices of pieces, or of devices by shape of server.

A certificate on amounts holds dual prices of pieces for each objective. A piece is the tasks that one job has
on one server. Dual prices π of pieces decompose every plan (Lagrangian relaxation of the pattern formulation,
Gilmore & Gomory 1961): jobs pay for the pieces of their pattern, and servers receive the prices of the pieces
that they hold. For an objective fᵢ to be minimised, with multipliers μ ≥ 0 for the earlier objectives and the
plan's own values F of these,

    fᵢ ≥ Σ_j min(0, min over patterns of e·job + π·pattern)
       + Σ_n min(0, min over patterns of e·server − π·pattern) − μ·F

where e is the contribution of a job or server to fᵢ + μ·f. For a job that must be placed, the minimum does
not include 0. This holds for every plan whose earlier objectives are no worse than F, for any prices.

Where servers are freed or jobs let start, prices of tasks bound the moves; see `check.moves`.

Where a gap is left, a tree branches on how many jobs of a class are placed (Land & Doig 1960). Its leaves
cover all plans, and have prices of their own. In a leaf of which l to u jobs of a class are placed, the term
of the class is min(l·c, u·c), where c is the least cost of one of its jobs.

In a certificate on single devices, two kinds of prices bound an objective. `pooled` is a certificate of the
pooled relaxation. `devices` holds for each shape of server the prices of each resource, of a whole device, of
each share and of each profile. For any prices (Lagrangian relaxation of the linear programme by shape with
patterns of devices, Gilmore & Gomory 1961), for an objective f to be minimised, with multipliers μ ≥ 0 for
the earlier objectives and the plan's own values F of these,

    f ≥ Σ_j min(0, e_j + Σ_tasks min over shapes of the price of a task)
      + Σ_n min(0, e_n − Σ_r λ_r·free_r − Σ_devices max over contents of their prices) − μ·F

where e is the contribution of a job or server to f + μ·f. For a job that must be placed, the minimum does not
include 0.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from ...instances.common.fields import Count, Fields, Many, Model, Name, validated_in_batches

MAX_PRICE = 1e12
"""Upper limit of prices and multipliers."""
MUST_PLACE = "must_place"
"""Name of the goal before all objectives: the number of missing jobs that must be placed is 0."""
PricedObjective = Literal["value", "spread", "servers", "slowdown", "stops", "migrations"]
PRICED: tuple[PricedObjective, ...] = get_args(PricedObjective)
"""Objectives that depend on patterns alone; the others depend on named servers."""
MAX_LEAVES = 1_000
"""Limit on the leaves of a branching tree."""
Price = Annotated[float, Field(ge=0, le=MAX_PRICE)]


class PricedPieces(Model):
    """Prices of pieces for one objective.

    Attributes
    ----------
    prices
        For each shape the price of each of its pieces, in the order of the classes.
    multipliers
        What a unit of each earlier objective is worth in this one, and one more job that moves.
    """

    objective: Literal["must_place", PricedObjective]
    prices: Many[Many[Price]]
    multipliers: dict[Literal["moves", PricedObjective], Price] = {}


class TreeNode(Model):
    """A node of a branching tree, in which either a class of jobs is named, or prices are given.

    A leaf has prices that bound the objective among the plans of the node, or that prove with the objective
    `must_place` that there is no such plan.

    Attributes
    ----------
    job
        Class of jobs of an inner node: at most `most` of its jobs are placed in the first child, more in the
        second.
    """

    job: Count | None = None
    most: Count = 0
    leaf: PricedPieces | None = None


class CertifiedGoal(PricedPieces):
    """Prices for one objective, and a branching tree where they alone leave a gap.

    Attributes
    ----------
    tree
        The nodes in preorder (depth first); empty without a tree.
    """

    tree: Annotated[tuple[TreeNode, ...], Field(max_length=2 * MAX_LEAVES)] = ()


class CertifiedTraffic(Model):
    """Prices that show that an earlier goal would get worse if no server had more traffic than this."""

    below: Annotated[float, Field(ge=0)]
    goal: CertifiedGoal


class MoveNode(Model):
    """A node of a tree that branches on a unit: it is not freed in the first child, and freed in the second.

    A leaf has prices instead, which bound the moves of its plans.
    """

    unit: Name | None = None
    prices: Many[Price] = ()


class TaskPrices(Model):
    """Prices that bound how many units can be freed, or how many tasks have to move.

    Attributes
    ----------
    prices
        Price of a task of each shape, in the order of the jobs.
    tree
        The nodes in preorder (depth first), where prices alone leave a gap.
    """

    objective: Literal["free", "migrations"]
    prices: Many[Price]
    tree: Annotated[tuple[MoveNode, ...], Field(max_length=2 * MAX_LEAVES)] = ()


class ConsolidationCertificate(Model):
    """Prices for each objective that is bounded by them; the others only have what counting gives."""

    goals: Annotated[tuple[CertifiedGoal, ...], Field(max_length=8), validated_in_batches(8)]
    traffic: CertifiedTraffic | None = None
    moves: Annotated[tuple[TaskPrices, ...], Field(max_length=2)] = ()


PriceByName = Annotated[dict[Name, Price], Field(max_length=10_000)]
PRICED_BY_SHAPE = ("value", "servers")
"""Objectives with prices by shape of server."""


class DevicePrices(Model):
    """Prices of the devices of one name on servers of one shape."""

    whole: Price = 0.0
    shares: Annotated[dict[Annotated[int, Field(ge=1, le=999)], Price], Field(max_length=999)] = {}
    profiles: PriceByName = {}


class ShapePrices(Model):
    """Prices on servers of one shape: of a unit of each resource, and of devices by name."""

    resources: PriceByName = {}
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

    pooled: Fields | None = None
    devices: Annotated[tuple[PricedGoal, ...], Field(max_length=2)] = ()
