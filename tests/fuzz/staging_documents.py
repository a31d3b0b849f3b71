"""Random staging documents, tiny enough to look through all their plans."""

from __future__ import annotations

import random
from typing import Any

from .graph_documents import on_graph
from .palette import Palette

ON_GRAPHS = 0.4
"""Share of the documents whose layers make a graph."""
SHARES = (0, 1, 0.5, 0.9, 0.99, 1 / 3, 1e-9, 1 - 1e-9, 0.123456789)


def _shares(rng: random.Random, names: list[str]) -> Any:
    if rng.random() < 0.3:
        return {name: rng.choice(SHARES) for name in names}
    return rng.choice(SHARES) if rng.random() < 0.7 else rng.random()


def _layer(rng: random.Random, palette: Palette, index: int, names: list[str]) -> dict[str, Any]:
    able = rng.sample(names, rng.randint(max(1, len(names) - 1), len(names)))
    layer: dict[str, Any] = {
        "name": f"layer-{index}",
        "compute_s": {name: palette.draw("compute") for name in able},
        "compute_parallel": _shares(rng, names),
    }
    if rng.random() < 0.6:
        layer["communication_s"] = {
            name: palette.draw("communication") for name in able if rng.random() < 0.8
        }
    if rng.random() < 0.5:
        layer["communication_parallel"] = _shares(rng, names)
    if rng.random() < 0.5:
        by_type = rng.random() < 0.3
        layer["memory_gib"] = (
            {name: palette.draw("memory") for name in names} if by_type else palette.draw("memory")
        )
    if rng.random() < 0.5:
        layer["output_bytes"] = min(palette.draw("compute") * rng.choice([1e8, 1.25e8, 3]), 1e15)
    if rng.random() < 0.2:
        layer |= {"kind": rng.choice(["embedding", "dense"]), "weight_bytes": 7.0, "input_bytes": 3.5}
    return layer


def _a_plan(rng: random.Random, data: dict[str, Any]) -> tuple[float, float]:
    """Return the stage time and the rate of a random plan, which need keep no rule."""
    slowest, rate = 0.0, 0.0
    types = data["types"]
    for layer in data["layers"]:
        kind = rng.choice([t for t in types if t["name"] in layer["compute_s"]])
        units, share = rng.randint(1, kind["limit"]), layer["compute_parallel"]
        alpha = share[kind["name"]] if isinstance(share, dict) else share
        slowest = max(slowest, layer["compute_s"][kind["name"]] * (1 - alpha + alpha / units))
        rate += kind["price_usd_per_hour"] * units
    return slowest, rate


def document(rng: random.Random) -> dict[str, Any]:
    """Return a random staging document."""
    palette = Palette(rng)
    names = [f"t{index}" for index in range(rng.randint(1, 3))]
    branches = rng.random() < ON_GRAPHS
    count = rng.randint(1, 4 if len(names) < 3 else 3) + branches
    layers = [_layer(rng, palette, index, names) for index in range(count)]
    memory = [layer.get("memory_gib", 0) for layer in layers]
    held = [max(gib.values()) if isinstance(gib, dict) else gib for gib in memory]
    types: list[dict[str, Any]] = []
    for name in names:
        price = palette.draw("price") if rng.random() < 0.95 else 0
        types.append({"name": name, "price_usd_per_hour": price, "limit": rng.randint(1, 4)})
        if any(held) and rng.random() < 0.5:
            types[-1]["memory_gib"] = max(palette.near(palette.sum_of_some(held)), 1e-12)
    data: dict[str, Any] = {
        "schema_version": 1,
        "kind": "staging",
        "name": "random",
        "training": {"samples": palette.draw("samples")},
        "probe_batch": palette.draw("batch"),
        "types": types,
        "layers": layers,
    }
    if rng.random() < 0.7:
        data["objective"] = rng.choice(["cost", "throughput", "time"])
    if rng.random() < 0.5:
        data["stage_rule"] = rng.choice(["maximal_runs", "free_cuts"])
    if rng.random() < 0.3:
        data["training"]["epochs"] = palette.draw("epochs")
    if rng.random() < 0.5:
        data["link_gbit_per_s"] = rng.choice([1, 10, palette.draw("link")])
    if branches:
        data = on_graph(rng, palette, data)
    _limit(rng, palette, data)
    return data


def _limit(rng: random.Random, palette: Palette, data: dict[str, Any]) -> None:
    """Add a floor, a budget and a cost limit, each of which some plan just keeps or misses."""
    slowest = _a_plan(rng, data)[0]
    if rng.random() < 0.5 and slowest:
        data["throughput_floor_samples_per_s"] = _within(palette.near(data["probe_batch"] / slowest))
    if rng.random() < 0.25 and (rate := _a_plan(rng, data)[1]):
        data["hourly_budget_usd"] = _within(palette.near(rate))
    if rng.random() < 0.25:
        time, rate = _a_plan(rng, data)
        rounds = data["training"]["samples"] * data["training"].get("epochs", 1)
        cost = time * rate * rounds / (3600 * data["probe_batch"])
        data["cost_limit_usd"] = _within(palette.near(cost))
    if "hourly_budget_usd" in data and "edges" not in data:
        for kind in data["types"]:
            if kind["price_usd_per_hour"] and rng.random() < 0.3:
                del kind["limit"]


def _within(amount: float) -> float:
    return min(max(amount, 1e-15), 1e15)
