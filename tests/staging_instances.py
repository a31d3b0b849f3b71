"""Staging instances for tests: chains, and graphs of layers."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from clusterplan.formulations.staging.stages import Stage
from clusterplan.instances.common.faults import validated
from clusterplan.instances.staging.instance import StagingInstance


def _checked(**fields: Any) -> StagingInstance:
    return validated(StagingInstance, fields, "document")


def two_layers(**fields: Any) -> StagingInstance:
    """Return two layers on two types, with a transfer of half a second between them."""
    layers = [
        {"name": "a", "compute_s": {"slow": 4, "fast": 1}, "compute_parallel": 0.5, "output_bytes": 5e8},
        {
            "name": "b",
            "compute_s": {"slow": 8, "fast": 1},
            "communication_s": {"slow": 2, "fast": 2},
            "compute_parallel": {"slow": 1, "fast": 0.8},
            "communication_parallel": 0.25,
        },
    ]
    types = [
        {"name": "slow", "price_usd_per_hour": 1, "limit": 8},
        {"name": "fast", "price_usd_per_hour": 5, "limit": 2},
    ]
    given = {"name": "two", "training": {"samples": 3600, "epochs": 2}, "probe_batch": 2}
    return _checked(**{**given, "link_gbit_per_s": 8, "types": types, "layers": layers, **fields})


def half_serial(limit: int | None = 2, **fields: Any) -> StagingInstance:
    """Return a layer of half a second serial and half parallel, on units of 1 USD/h.

    On k units it takes (1 + 1/k)/2 s and the training costs (k + 1)/2 USD: 1 USD on one, 1.5 USD on two.
    """
    layer = {"name": "a", "compute_s": {"t": 1.0}, "compute_parallel": 0.5}
    hardware = {"name": "t", "price_usd_per_hour": 1.0, "limit": limit}
    given = {"name": "one", "training": {"samples": 3600}, "probe_batch": 1}
    return _checked(**{**given, "types": [hardware], "layers": [layer], **fields})


def alone(units: int) -> Stage:
    """Return the only stage of `half_serial` on so many units."""
    return Stage(first_layer=0, last_layer=0, type="t", units=units)


SLACK = 1e-9


def diamond_rows(*transfer_s: float, **fields: Any) -> list[dict[str, Any]]:
    """Return the layers of the diamond with other fields, and seconds in which each sends its tensor."""
    rows = [layer.model_dump(exclude_none=True) | fields for layer in diamond().layers]
    for row, seconds in zip(rows if transfer_s else (), transfer_s, strict=True):
        row["transfer_s"] = {"gpu": seconds}
    return rows


def diamond(limit: int = 2, **fields: Any) -> StagingInstance:
    """Return a before b and c, and both before d, of 1, 2, 3 and 1 s; a tensor takes half a second.

    Times add up and a stage has one unit. Two stages take 5 s at best (a and b, then c and d), three 4 s
    (a and b, then c, then d).
    """
    layers = [
        {"name": name, "compute_s": {"gpu": seconds}, "compute_parallel": 0, "transfer_s": {"gpu": 0.5}}
        for name, seconds in zip("abcd", (1.0, 2.0, 3.0, 1.0), strict=True)
    ]
    given: dict[str, Any] = {
        "name": "diamond",
        "objective": "time",
        "stage_rule": "free_cuts",
        "stage_cost": "sum",
        "most_units_per_stage": 1,
        "training": {"samples": 1},
        "probe_batch": 1,
        "types": [{"name": "gpu", "price_usd_per_hour": 1.0, "limit": limit}],
        "layers": layers,
        "edges": [{"source": a, "target": b} for a, b in ("ab", "ac", "bd", "cd")],
    }
    return _checked(**{key: value for key, value in {**given, **fields}.items() if value is not None})


def random_graph(seed: int) -> dict[str, Any]:
    """Return a document with branches, joins, colours, a CPU, memory, limits, and any cost rule."""
    rng = random.Random(seed)
    count = rng.randint(2, 5)
    training = rng.random() < 0.4
    names = [f"f{index}" for index in range(count)]
    pairs = [(a, b) for a, b in itertools.combinations(range(count), 2) if rng.random() < 0.45]
    edges = [(names[a], names[b]) for a, b in pairs]
    layers = [_layer(rng, name) for name in names]
    if training:
        backward = [_layer(rng, f"b{index}") for index in range(count)]
        for index, layer in enumerate(backward):
            layer["backward"] = True
            layer["colour"] = f"c{index}"
            if rng.random() < 0.9:
                layers[index]["colour"] = f"c{index}"
        edges += [(f"b{b}", f"b{a}") for a, b in pairs if rng.random() < 0.9]
        edges += [(name, f"b{index}") for index, name in enumerate(names) if rng.random() < 0.5]
        layers += backward
    elif rng.random() < 0.3:
        for layer in rng.sample(layers, 2):
            layer["colour"] = "shared"
    types = [
        {"name": "gpu", "price_usd_per_hour": rng.choice([1.0, 2.5]), "limit": rng.randint(1, 3)},
        {"name": "cpu", "price_usd_per_hour": rng.choice([0.1, 0.5]), "limit": rng.randint(1, 2)},
    ]
    if rng.random() < 0.5:
        types[0]["memory_gib"] = rng.choice([2.0, 3.0, 5.0])
    document: dict[str, Any] = {
        "schema_version": 1,
        "kind": "staging",
        "name": f"graph-{seed}",
        "objective": rng.choice(["cost", "throughput", "time"]),
        "stage_rule": "free_cuts",
        "stage_cost": rng.choice(["overlap", "sum", "relay", None]),
        "most_units_per_stage": rng.choice([1, 2, None]),
        "training": {"samples": 3600.0},
        "probe_batch": 2,
        "link_gbit_per_s": 8.0,
        "types": types,
        "layers": layers,
        "edges": [{"source": a, "target": b} for a, b in edges],
    }
    if rng.random() < 0.4:
        document["throughput_floor_samples_per_s"] = rng.choice([0.1, 0.2, 0.4, 0.8])
    if rng.random() < 0.2:
        document["hourly_budget_usd"] = rng.choice([2.0, 4.0, 6.0])
    if rng.random() < 0.2:
        document["cost_limit_usd"] = rng.choice([5.0, 20.0, 60.0])
    if not any(layer["compute_s"][t] for layer in layers for t in layer["compute_s"]):
        layers[0]["compute_s"] = {"gpu": 1.0, "cpu": 10.0}
    if document.get("stage_cost") == "relay" and rng.random() < 0.7:
        _pipelined(rng, document, names)
    return {key: value for key, value in document.items() if value is not None}


def random_row(seed: int) -> StagingInstance:
    """Return a random graph whose layers have only one order, with edges that skip layers."""
    document = random_graph(seed)
    rows = document["layers"] = [layer for layer in document["layers"] if not layer.get("backward")]
    names = [layer["name"] for layer in rows]
    rows[0]["compute_s"] = {"gpu": 1.0, "cpu": 10.0}
    known = [edge for edge in document["edges"] if {*edge.values()} <= {*names}]
    document["edges"] = known + [{"source": a, "target": b} for a, b in itertools.pairwise(names)]
    random.Random(seed).shuffle(rows)
    return _checked(**document)


def _pipelined(rng: random.Random, document: dict[str, Any], names: list[str]) -> None:
    """Let transfers decide over stages in the middle of a plan: without these relaying changes nothing."""
    rows = [layer for layer in document["layers"] if not layer.get("backward")]
    chain = [*itertools.pairwise(names)]
    if rng.random() < 0.5:
        # Only one tensor skips stages, and those in between do not touch it.
        document["edges"] = [edge for edge in document["edges"] if not {*edge.values()} <= {*names}]
        chain += [(names[0], names[-1])] * (len(names) > 2)
    known = {(edge["source"], edge["target"]) for edge in document["edges"]}
    document["edges"] += [{"source": a, "target": b} for a, b in chain if (a, b) not in known]
    document["types"][0] |= {"limit": 4}
    document["types"][0].pop("memory_gib", None)
    document["objective"] = rng.choice(["time", "throughput"])
    document["most_units_per_stage"] = rng.choice([1, 1, 2])
    for row in rows:
        row["compute_s"]["gpu"] = rng.uniform(0.5, 1.5)
        row["transfer_s"] = {"gpu": rng.uniform(0.5, 2), "cpu": 0.0}


def _layer(rng: random.Random, name: str) -> dict[str, Any]:
    seconds = rng.choice([0.0, 0.0, 1.0, 2.0, 3.0, rng.uniform(0.5, 4)])
    compute = {"gpu": seconds, "cpu": seconds * rng.choice([5.0, 10.0])}
    if rng.random() < 0.1:
        del compute["gpu"]
    layer: dict[str, Any] = {
        "name": name,
        "compute_s": compute,
        "compute_parallel": rng.choice([0.0, 0.5, 0.99]),
        "memory_gib": rng.choice([0.0, 0.5, 1.0, 2.0]),
        "output_bytes": rng.choice([0.0, 1e8, 5e8, 1e9]),
    }
    if rng.random() < 0.5:
        layer["transfer_s"] = {"cpu": 0.0, "gpu": rng.choice([0.0, 0.3, 1.0])}
    if rng.random() < 0.2:
        layer["communication_s"] = {"gpu": 0.5}
        layer["communication_parallel"] = 0.5
    return layer


@dataclass(frozen=True)
class _Choice:
    type: int
    units: int
    seconds: float


class GraphTruth:
    """The best plan of a document, by enumerating all ways to put colours together."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.data = document
        self.layers = {layer["name"]: layer for layer in document["layers"]}
        self.colour = {name: layer.get("colour", f"alone {name}") for name, layer in self.layers.items()}
        self.edges = [(edge["source"], edge["target"]) for edge in document["edges"]]
        self.arcs = set(self._arcs())

    def _arcs(self) -> Iterator[tuple[str, str]]:
        back = {name: layer.get("backward", False) for name, layer in self.layers.items()}
        forward = {self.colour[name] for name in self.layers if not back[name]}
        for a, b in self.edges:
            if not back[a] and not back[b]:
                yield self.colour[a], self.colour[b]
            elif back[a] and back[b] and not {self.colour[a], self.colour[b]} <= forward:
                yield self.colour[b], self.colour[a]

    def best(self) -> float | None:
        """Return the best value of the objective; None if there is no plan."""
        colours = sorted(set(self.colour.values()))
        values = [
            value
            for parts in _partitions(colours)
            for row in self._rows(parts)
            for value in self._values(row)
        ]
        if not values:
            return None
        return max(values) if self.data["objective"] == "throughput" else min(values)

    def _rows(self, parts: list[list[str]]) -> Iterator[list[list[str]]]:
        """Yield the rows of the parts in which no arc runs backwards; one of them if order costs nothing."""
        for row in itertools.permutations(parts):
            place = {colour: index for index, part in enumerate(row) for colour in part}
            if all(place[a] <= place[b] for a, b in self.arcs):
                yield list(row)
                if self.data.get("stage_cost") != "relay":
                    return

    def _values(self, row: list[list[str]]) -> Iterator[float]:
        types = self.data["types"]
        place = {colour: index for index, part in enumerate(row) for colour in part}
        choices = [list(self._choices(set(part), place)) for part in row]
        for chosen in itertools.product(*choices):
            for t, one in enumerate(types):
                if sum(c.units for c in chosen if c.type == t) > one["limit"]:
                    break
            else:
                yield from self._value(chosen)

    def _transfers(self, part: set[str], place: dict[str, int], name: str) -> float:
        """Return the seconds in which a part sends and receives, on one unit of a type."""
        link, here = self.data["link_gbit_per_s"] * 1e9 / 8, place[next(iter(part))]
        touched = received = sent = 0.0
        for layer, row in self.layers.items():
            ends = {place[self.colour[end]] for end in (layer, *(b for a, b in self.edges if a == layer))}
            seconds = row.get("transfer_s", {}).get(name, row["output_bytes"] / link)
            touched += seconds * (here in ends and len(ends) > 1)
            received += seconds * (min(ends) < here <= max(ends))
            sent += seconds * (min(ends) <= here < max(ends))
        return max(received, sent) if self.data.get("stage_cost") == "relay" else touched

    def _choices(self, part: set[str], place: dict[str, int]) -> Iterator[_Choice]:
        own = [name for name in self.layers if self.colour[name] in part]
        for t, one in enumerate(self.data["types"]):
            name = one["name"]
            rows = [self.layers[layer] for layer in own]
            held = sum(row["memory_gib"] for row in rows)
            if any(name not in row["compute_s"] for row in rows):
                continue
            if held > one.get("memory_gib", math.inf) * (1 + SLACK):
                continue
            moved = self._transfers(part, place, name)
            for k in range(1, min(one["limit"], self.data.get("most_units_per_stage", 99)) + 1):
                computing = sum(_shared(r["compute_s"][name], r["compute_parallel"], k) for r in rows)
                moving = sum(
                    _shared(
                        r.get("communication_s", {}).get(name, 0.0), r.get("communication_parallel", 0.0), k
                    )
                    for r in rows
                )
                moving += moved / k
                adds_up = self.data.get("stage_cost") == "sum"
                yield _Choice(t, k, computing + moving if adds_up else max(computing, moving))

    def _value(self, chosen: tuple[_Choice, ...]) -> Iterator[float]:
        data = self.data
        time = max(c.seconds for c in chosen)
        rate = sum(c.units * data["types"][c.type]["price_usd_per_hour"] for c in chosen)
        cost = data["training"]["samples"] / 3600 / data["probe_batch"] * time * rate
        floor = data.get("throughput_floor_samples_per_s")
        if floor is not None and time > data["probe_batch"] / floor * (1 + SLACK):
            return
        if rate > data.get("hourly_budget_usd", math.inf) * (1 + SLACK):
            return
        if cost > data.get("cost_limit_usd", math.inf) * (1 + SLACK):
            return
        if data["objective"] == "cost":
            yield cost
        elif data["objective"] == "throughput":
            yield data["probe_batch"] / time if time else math.inf
        else:
            yield data["training"]["samples"] / data["probe_batch"] * time


def _shared(seconds: float, share: float, units: int) -> float:
    return seconds * (1 - share + share / units)


def _partitions(items: list[str]) -> Iterator[list[list[str]]]:
    if not items:
        yield []
        return
    head, *rest = items
    for parts in _partitions(rest):
        yield [[head], *parts]
        for index in range(len(parts)):
            yield [*parts[:index], [head, *parts[index]], *parts[index + 1 :]]
