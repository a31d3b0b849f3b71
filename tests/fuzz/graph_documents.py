"""Random staging documents whose layers make a graph: branches, joins, colours, a backward pass."""

from __future__ import annotations

import copy
import itertools
import random
from typing import Any

from .palette import Palette

MAX_UNITS = (None, None, 1, 2)
COSTS = (None, "overlap", "sum", "relay")


def on_graph(rng: random.Random, palette: Palette, data: dict[str, Any]) -> dict[str, Any]:
    """Return a document of a chain with its layers as a graph."""
    data = copy.deepcopy(data)
    layers = data["layers"]
    kinds = [kind["name"] for kind in data["types"]]
    for layer in layers:
        _vary(rng, palette, layer, kinds)
    if not any(all(layer["compute_s"].values()) for layer in layers):
        layers[0]["compute_s"] = {name: palette.draw("compute") for name in kinds}
    pairs = [(a, b) for a, b in itertools.combinations(range(len(layers)), 2) if rng.random() < 0.5]
    edges = [(layers[a]["name"], layers[b]["name"]) for a, b in pairs]
    chance = rng.random()
    if chance < 0.35:
        edges += _add_backward(rng, layers, pairs)
    elif chance < 0.55 and len(layers) > 1:
        for layer in rng.sample(layers, 2):
            layer["colour"] = "shared"
    if rng.random() < 0.3:
        rng.shuffle(layers)
    data["edges"] = [{"source": a, "target": b} for a, b in edges]
    data["stage_rule"] = "free_cuts"
    given = {"stage_cost": rng.choice(COSTS), "most_units_per_stage": rng.choice(MAX_UNITS)}
    return {**data, **{key: value for key, value in given.items() if value is not None}}


def _vary(rng: random.Random, palette: Palette, layer: dict[str, Any], kinds: list[str]) -> None:
    """Let a layer take no time, everywhere or on one type, and give it seconds of transfers.

    Its memory is one number.
    """
    if isinstance(memory := layer.get("memory_gib"), dict):
        layer["memory_gib"] = max(memory.values())
    chance = rng.random()
    if chance < 0.2:
        layer["compute_s"] = dict.fromkeys(layer["compute_s"], 0)
    elif chance < 0.25:
        layer["compute_s"][rng.choice(list(layer["compute_s"]))] = 0
    if chance < 0.15:
        layer.pop("communication_s", None)
    if rng.random() < 0.4:
        layer["transfer_s"] = {
            name: rng.choice([0, palette.draw("transfer")]) for name in kinds if rng.random() < 0.8
        }


def _add_backward(
    rng: random.Random, layers: list[dict[str, Any]], pairs: list[tuple[int, int]]
) -> list[tuple[str, str]]:
    """Add layers of the backward pass, and return their edges; some have no forward layer of their colour."""
    forward, back = list(layers), {}
    for place, layer in enumerate(forward):
        if rng.random() < 0.75:
            own = copy.deepcopy(layer)
            own |= {"name": f"back-{place}", "backward": True, "colour": f"c{place}"}
            layers.append(own)
            back[place] = own["name"]
            if rng.random() < 0.85:
                layer["colour"] = f"c{place}"
    edges = [(back[b], back[a]) for a, b in pairs if a in back and b in back and rng.random() < 0.8]
    return edges + [
        (layer["name"], back[place])
        for place, layer in enumerate(forward)
        if place in back and rng.random() < 0.5
    ]
