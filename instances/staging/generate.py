"""Generator of staging instances: data-heavy embedding layers first, then compute-heavy dense layers.

Limits and floors are drawn around a reference solution of the model. At a fixed time τ of the slowest
stage, a segment of layers on a type needs the least k ≥ 1 units with max(S + A/k, S' + A'/k) ≤ τ, and the
cheapest plan is a shortest path over (layer, type) in which neighbours differ in type. Prices that are
raised on types with much of the work and lowered on those with little spread the plan over all types.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from ..common.arrays import Floats, Ints
from ..common.errors import OptionError
from .instance import StagingInstance

ROUNDS = 40
"""Number of price adjustments in the search for a plan that uses all types."""


@dataclass(frozen=True)
class Parts:
    """The times and memory of layers, which determine time and feasibility of stages (layer segments).

    Attributes
    ----------
    times
        S, A, S' and A' of each layer on each type, shape (4, L, T).
    transfer
        Seconds for one unit to receive the input of each layer, shape (L,).
    memory, room
        Memory of each layer, shape (L,), and of a unit of each type, shape (T,); infinite: not checked.
    """

    times: Floats
    transfer: Floats
    memory: Floats
    room: Floats

    def units(self, first: int, last: int, slowest_s: float) -> Floats:
        """Return the units needed by the stages from each first layer to `last`, shape (last − first + 1, T).

        A stage takes at most `slowest_s` seconds. Units are infinite if no number of them suffices.
        """
        own = slice(first, last + 1)
        memory = np.cumsum(self.memory[own][::-1])[::-1]
        serial, parallel, waiting, moved = np.cumsum(self.times[:, own][:, ::-1], axis=1)[:, ::-1]
        compute = _least_units(parallel, slowest_s - serial)
        received = _least_units(moved + self.transfer[own, None], slowest_s - waiting)
        units = np.maximum(compute, received)
        # Rounding of sums must not exceed the memory of a unit that was drawn for just these layers.
        return np.where(memory[:, None] <= self.room * (1 + 1e-12), units, np.inf)

    def stage_s(self, first: int, last: int, unit_type: int, units: int) -> float:
        """Return the seconds of the stage of layers `first` to `last` for a probe batch."""
        serial, parallel, waiting, moved = (
            float(column[first : last + 1, unit_type].sum()) for column in self.times
        )
        moved += float(self.transfer[first])
        return max(serial + parallel / units, waiting + moved / units)


def _least_units(parallel: Floats, left_s: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(left_s > 0, np.maximum(1, np.ceil(parallel / left_s - 1e-9)), np.inf)


class Stage(NamedTuple):
    """A stage of a plan: contiguous layers `first` to `last` on units of one type, all by index."""

    first: int
    last: int
    unit_type: int
    units: int


def cheapest_path(parts: Parts, prices: Floats, slowest_s: float) -> list[Stage] | None:
    """Return the cheapest plan with stage times of at most `slowest_s`; None if there is none."""
    _, layers, types = parts.times.shape
    start = np.zeros((layers, types), dtype=np.int64)
    units = np.zeros((layers, types))
    # before[i, t]: the least cost of the layers before i whose last stage is on another type than t.
    before, previous = np.zeros((layers + 1, types)), np.full((layers + 1, types), -1)
    first = best = 0
    for last in range(layers):
        needed = parts.units(first, last, slowest_s)
        possible = np.isfinite(needed).any(axis=1)
        if not possible.any():
            return None
        # A segment that no type can run remains infeasible when extended.
        skipped = int(np.argmax(possible))
        first, needed = first + skipped, needed[skipped:]
        total = before[first : last + 1] + needed * prices
        chosen = np.argmin(total, axis=0)
        start[last] = first + chosen
        units[last] = needed[chosen, np.arange(types)]
        ends = total[chosen, np.arange(types)]
        best = int(np.argmin(ends))
        least = before[last + 1] = ends[best]
        previous[last + 1], ends[best] = best, np.inf
        before[last + 1, best], previous[last + 1, best] = ends.min(), np.argmin(ends)
    if not np.isfinite(least):
        return None
    stages: list[Stage] = []
    unit_type, end = best, layers
    while end:
        first = int(start[end - 1, unit_type])
        stages.append(Stage(first, end - 1, unit_type, int(units[end - 1, unit_type])))
        unit_type, end = int(previous[first, unit_type]), first
    return stages[::-1]


def reachable_time(parts: Parts, prices: Floats, slowest_s: float) -> float:
    """Return a feasible bound on the stage times: `slowest_s`, else the next on a grid of factor 1.3."""
    while cheapest_path(parts, prices, slowest_s) is None:
        slowest_s *= 1.3
    return slowest_s


def used(stages: list[Stage], types: int) -> Ints:
    """Return the number of units of each type that a plan uses, shape (types,)."""
    counts = np.zeros(types, dtype=np.int64)
    for stage in stages:
        counts[stage.unit_type] += stage.units
    return counts


def spread_path(parts: Parts, prices: Floats, slowest_s: float) -> list[Stage]:
    """Return a plan that uses as many hardware types as possible, with similar costs for each.

    It is the cheapest for some other prices, so no other plan has fewer units of every type.
    """
    types = len(prices)
    raised = prices.copy()
    best: list[Stage] = []
    best_score = (-1, 0.0)
    for turn in range(ROUNDS):
        stages = cheapest_path(parts, raised, slowest_s)
        if stages is None:
            break
        money = used(stages, types) * prices
        share = money / money.sum()
        score = (int((money > 0).sum()), -float(share.max()))
        if score > best_score:
            best, best_score = stages, score
        wanted = 1.0 / types
        # Steps shrink, so that the split of the cost converges.
        raised *= np.exp(np.clip((share - wanted) / wanted, -1, 1) * 0.3 / (1 + turn / 10))
    return best


Limits = Literal["none", "loose", "tight"]
PROBE = 32
LINK_GBIT_PER_S = 100
UNITS_PER_TYPE = 5
"""Approximate number of units of each type in a plan at the floor."""
SLACK = 0.9
"""The floor as a share of the throughput of the reference solution."""


@dataclass(frozen=True)
class _RandomModel:
    """Random layers and types of hardware, rounded as in the document.

    Attributes
    ----------
    compute
        Seconds by layer and type, shape (L, T); the other columns have shape (L,) or (T,).
    """

    compute: Floats
    communication: Floats
    alpha: Floats
    beta: Floats
    output_bytes: Floats
    memory: Floats
    price: Floats
    room: Floats
    embeddings: int

    def parts(self, link: bool) -> Parts:
        """Return the times and memory of the layers, with transfers if `link` is set."""
        alpha, beta = self.alpha[:, None], self.beta[:, None]
        communication = np.broadcast_to(self.communication[:, None], self.compute.shape)
        received = np.concatenate(([0.0], self.output_bytes[:-1])) * 8 / (LINK_GBIT_PER_S * 1e9)
        computing = self.compute * (1 - alpha), self.compute * alpha
        times = np.array([*computing, communication * (1 - beta), communication * beta])
        return Parts(times, received if link else np.zeros(len(received)), self.memory, self.room)


def generate_staging(
    layers: int,
    types: int,
    limits: Limits = "loose",
    memory: bool = False,
    transfers: bool = False,
    seed: int = 0,
) -> StagingInstance:
    """Return a random chain of layers and a random choice of hardware.

    Parameters
    ----------
    layers, types
        Number of layers and of types.
    limits
        Units of each type: `none`, no limit; `loose`, twice those of the cheapest plan without limits, so
        that limits seldom bind; `tight`, those of a plan on all types such that no equally fast plan has
        fewer of every type, so that a good plan at the floor needs all units of all types.
    memory, transfers
        Whether units have a memory limit, and whether stages wait for their input.
    seed
        The same seed gives the same instance. There is always a plan.

    Raises
    ------
    OptionError
        If a parameter is out of range.
    """
    if not 1 <= layers <= 2000 or not 1 <= types <= 1000:
        raise OptionError("layers must be 1 to 2000 and types 1 to 1000")
    model = _random_model(layers, types, memory, seed)
    parts = model.parts(transfers)
    wanted_s = float(model.compute.mean(axis=1).sum()) / (UNITS_PER_TYPE * min(layers, types))
    slowest_s = reachable_time(parts, model.price, wanted_s)
    search = spread_path if limits == "tight" else cheapest_path
    plan = search(parts, model.price, slowest_s) or []
    least, times = (1, 1) if limits == "tight" else (4, 2)
    units = None if limits == "none" else times * np.maximum(least, used(plan, types))
    floor = SLACK * PROBE / max(parts.stage_s(*stage) for stage in plan)
    digits = 3 - math.ceil(math.log10(floor)) + 2
    return StagingInstance.model_validate(
        {
            "name": f"synthetic-staging-{layers}-{types}-{limits}-{seed}",
            "source": "synthetic",
            "assumptions": list(_assumptions(limits, plan)),
            "throughput_floor_samples_per_s": round(floor, max(0, digits)),
            "training": {"samples": 1_000_000},
            "probe_batch": PROBE,
            "link_gbit_per_s": LINK_GBIT_PER_S if transfers else None,
            "types": _types(model, units),
            "layers": _layers(model),
        }
    )


def _random_model(layers: int, types: int, memory: bool, seed: int) -> _RandomModel:
    """Return a random model, rounded; every layer fits every type, and a single type holds all layers."""
    rng = np.random.default_rng(seed)
    speed = rng.uniform(1, 10, types)
    price = speed * rng.uniform(0.7, 1.4, types)
    # Data-heavy layers come first, as in click-through-rate models.
    embeddings = max(1, layers // 5)
    embedding = np.arange(layers) < embeddings
    work = rng.uniform(0.5, 2, layers) * np.where(embedding, 0.3, 1.0)
    data = rng.uniform(0.5, 2, layers) * np.where(embedding, 1.0, 0.2)
    compute = work[:, None] / speed * rng.uniform(0.7, 1.3, (layers, types))
    # Embedding layers gain little from fast accelerators.
    compute *= np.where(embedding[:, None], speed**0.6, 1.0)
    layer_memory = rng.uniform(0.1, 2, layers).round(3)
    room = layer_memory.max() * rng.uniform(1, 3, types) if types > 1 else np.array([layer_memory.sum()])
    return _RandomModel(
        compute=np.maximum(compute.round(6), 1e-6),
        communication=(data * 0.05).round(6),
        alpha=rng.uniform(0.9, 0.999, layers).round(4),
        beta=rng.uniform(0.5, 0.95, layers).round(4),
        output_bytes=(data * 2e8).round(),
        memory=layer_memory,
        price=price.round(4),
        room=np.ceil(room * 1000) / 1000 if memory else np.full(types, np.inf),
        embeddings=embeddings,
    )


def _types(model: _RandomModel, units: Ints | None) -> list[dict[str, Any]]:
    return [
        {
            "name": f"type-{t}",
            "price_usd_per_hour": float(price),
            "limit": None if units is None else int(units[t]),
            "memory_gib": float(model.room[t]) if math.isfinite(model.room[t]) else None,
        }
        for t, price in enumerate(model.price)
    ]


def _layers(model: _RandomModel) -> list[dict[str, Any]]:
    names = [f"type-{t}" for t in range(len(model.price))]
    return [
        {
            "name": f"layer-{index}",
            "kind": "embedding" if index < model.embeddings else "dense",
            "memory_gib": float(model.memory[index]),
            "output_bytes": float(model.output_bytes[index]),
            "compute_s": dict(zip(names, row, strict=True)),
            "communication_s": dict.fromkeys(names, float(model.communication[index])),
            "compute_parallel": float(model.alpha[index]),
            "communication_parallel": float(model.beta[index]),
        }
        for index, row in enumerate(model.compute.tolist())
    ]


def _assumptions(limits: Limits, plan: list[Stage]) -> list[str]:
    notes = ["all times, sizes and prices are random"]
    if limits == "tight":
        types = len({stage.unit_type for stage in plan})
        notes.append(
            f"limits are the units of a plan of {len(plan)} stages on {types} types; the floor is {SLACK:g} "
            "of its throughput"
        )
    return notes
