"""Random chains and graphs of layers as documents, and all their plans, from docs/problems/staging.md."""

from __future__ import annotations

import copy
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .palette import Palette
from .truth import Judgement, TooManyPlansError, Truth, limits, whole

OF_A_STAGE = (None, None, 1, 2)
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
    given = {"stage_cost": rng.choice(COSTS), "most_units_per_stage": rng.choice(OF_A_STAGE)}
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


MAX_PLANS = 6000
MAX_UNITS = 8


@dataclass
class Stage:
    """A run of layers on some units of a type; `time` is whole once all stages are known."""

    type: int
    units: int
    last: int
    seconds: Fraction
    certain: bool
    time: int = 0


class StagingTruth(Truth):
    """All plans of a staging document whose catalogue, if any, is filled in."""

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__(data)
        self.goal = data.get("objective", "cost")
        self.objectives = ((self.goal, "max" if self.goal == "throughput" else "min"),)
        self.free_cuts = data.get("stage_rule") == "free_cuts"
        self.names = [kind["name"] for kind in data["types"]]
        self.prices, self.price_unit = whole(kind["price_usd_per_hour"] for kind in data["types"])
        self.batch = Fraction(data["probe_batch"])
        training = data["training"]
        self.rounds = Fraction(training.get("epochs", 1)) * Fraction(training["samples"])
        self.most = [self._most_units(t) for t in range(len(self.names))]
        flat = list(self._possible_stages())
        times, self.time_unit = whole(stage.seconds for stage in flat)
        for stage, time in zip(flat, times, strict=True):
            stage.time = time
        floor = data.get("throughput_floor_samples_per_s")
        self.slowest = limits(None if floor is None else self.batch / Fraction(floor), self.time_unit)
        self.budget = limits(data.get("hourly_budget_usd"), self.price_unit)
        cost_unit = self.time_unit * self.price_unit / (self.rounds / (3600 * self.batch))
        self.cost_limit = limits(data.get("cost_limit_usd"), cost_unit)
        self.plans = []
        self._steps = 0
        self._enumerate()

    def _possible_stages(self) -> Iterator[Stage]:
        self.stages = [self._stages_from(first) for first in range(len(self.data["layers"]))]
        for starting in self.stages:
            yield from starting.values()

    def _enumerate(self) -> None:
        self._extend(0, -1, 0, 0, [0] * len(self.names), True)

    def _most_units(self, t: int) -> int:
        """Return how many units a stage on a type may need; more only cost more."""
        kind = self.data["types"][t]
        most = kind.get("limit") or math.inf
        budget = self.data.get("hourly_budget_usd")
        if budget is not None and kind["price_usd_per_hour"] > 0:
            most = min(
                most, math.floor(Fraction(budget) / Fraction(kind["price_usd_per_hour"]) * Fraction(1.001))
            )
        if most > MAX_UNITS:
            raise TooManyPlansError
        return int(most)

    @staticmethod
    def _figure(layer: dict[str, Any], key: str, name: str) -> Fraction:
        figure = layer.get(key, 0)
        return Fraction(figure.get(name, 0) if isinstance(figure, dict) else figure)

    def _stages_from(self, first: int) -> dict[tuple[int, int, int], Stage]:
        """Return the stages that begin with a layer, by type, units and last layer."""
        layers, found = self.data["layers"], {}
        link = self.data.get("link_gbit_per_s")
        transfer = Fraction(0)
        if first and link is not None:
            transfer = Fraction(layers[first - 1].get("output_bytes", 0)) * 8 / (Fraction(link) * 10**9)
        for t, name in enumerate(self.names):
            room = self.data["types"][t].get("memory_gib")
            certain_gib, possible_gib = limits(room, 1 << 200)
            parts = [Fraction(0), Fraction(0), Fraction(0), transfer]
            held = Fraction(0)
            for last in range(first, len(layers)):
                layer = layers[last]
                if name not in layer["compute_s"]:
                    break
                held += self._figure(layer, "memory_gib", name)
                if held * (1 << 200) > possible_gib:
                    break
                compute = Fraction(layer["compute_s"][name])
                communication = Fraction(layer.get("communication_s", {}).get(name, 0))
                alpha = self._figure(layer, "compute_parallel", name)
                beta = self._figure(layer, "communication_parallel", name)
                for index, part in enumerate(
                    (compute * (1 - alpha), compute * alpha, communication * (1 - beta), communication * beta)
                ):
                    parts[index] += part
                for k in range(1, self.most[t] + 1):
                    seconds = max(parts[0] + parts[1] / k, parts[2] + parts[3] / k)
                    found[t, k, last] = Stage(t, k, last, seconds, held * (1 << 200) <= certain_gib)
        return found

    def _broken(self, time: int, rate: int, which: int) -> bool:
        return time > self.slowest[which] or rate > self.budget[which] or time * rate > self.cost_limit[which]

    def _extend(self, layer: int, before: int, time: int, rate: int, taken: list[int], certain: bool) -> None:
        self._count_step()
        if layer == len(self.stages):
            self._add(time, rate, certain)
            return
        for stage in self.stages[layer].values():
            if stage.type == before and not self.free_cuts:
                continue
            if taken[stage.type] + stage.units > self.most[stage.type]:
                continue
            longer, dearer = max(time, stage.time), rate + stage.units * self.prices[stage.type]
            if self._broken(longer, dearer, 1):
                continue
            taken[stage.type] += stage.units
            self._extend(stage.last + 1, stage.type, longer, dearer, taken, certain and stage.certain)
            taken[stage.type] -= stage.units

    def _count_step(self) -> None:
        """Refuse an instance with too many plans."""
        self._steps += 1
        if self._steps > 5 * MAX_PLANS or len(self.plans) > MAX_PLANS:
            raise TooManyPlansError

    def _add(self, time: int, rate: int, certain: bool) -> None:
        """Add a plan."""
        self.plans.append(((self._cost(time, rate),), certain and not self._broken(time, rate, 0)))

    def _cost(self, time: int, rate: int) -> int:
        return time * rate if self.goal == "cost" else time

    def value(self, index: int, cost: int) -> Fraction:
        """Return the cost in USD, the throughput in samples/s, or the time in seconds."""
        del index
        if self.goal == "cost":
            return Fraction(cost, self.time_unit * self.price_unit) * self.rounds / (3600 * self.batch)
        seconds = Fraction(cost, self.time_unit)
        return self.batch / seconds if self.goal == "throughput" else self.rounds * seconds / self.batch

    def judge(self, plan: Sequence[dict[str, Any]]) -> Judgement:
        """Return the cost of a plan, and what is wrong with it."""
        layer, before, time, rate, taken = 0, None, 0, 0, [0] * len(self.names)
        for entry in plan:
            if entry["first_layer"] != layer or layer >= len(self.stages) or entry["type"] not in self.names:
                return None, [f"no stage begins like {entry}"]
            key = (self.names.index(entry["type"]), entry["units"], entry["last_layer"])
            stage = self.stages[layer].get(key)
            if stage is None:
                return None, [f"there is no stage {entry}"]
            if stage.type == before and not self.free_cuts:
                return None, ["neighbouring stages have one type"]
            layer, before = stage.last + 1, stage.type
            time, rate = max(time, stage.time), rate + stage.units * self.prices[stage.type]
            taken[stage.type] += stage.units
        if layer != len(self.stages):
            return None, ["layers are missing"]
        return self._judged(time, rate, taken, [])

    def _judged(self, time: int, rate: int, taken: list[int], wrong: list[str]) -> Judgement:
        """Return the cost of stages, and what is wrong with them: what was found before, and the limits."""
        if any(a > b for a, b in zip(taken, self.most, strict=True)):
            wrong.append("more units than there are")
        if self._broken(time, rate, 1):
            wrong.append("the floor, the budget or the cost limit is broken")
        return (self._cost(time, rate),), wrong


FINE = 1 << 200
"""Memory is compared in multiples of 1/FINE GiB."""
MAX_COLOURS = 6


def staging_truth(data: dict[str, Any]) -> StagingTruth:
    """Return all plans of a staging document, of a chain or a graph."""
    return StagingTruth(data) if data.get("edges") is None else GraphTruth(data)


class GraphTruth(StagingTruth):
    """All plans of a graph; in a stage, `last` are its colours as bits."""

    def _possible_stages(self) -> Iterator[Stage]:
        layers = self.data["layers"]
        names = [layer.get("colour") or ("alone", place) for place, layer in enumerate(layers)]
        known = list(dict.fromkeys(names))
        if len(known) > MAX_COLOURS:
            raise TooManyPlansError
        self.bit = [1 << known.index(name) for name in names]
        self.everything = (1 << len(known)) - 1
        place = {layer["name"]: index for index, layer in enumerate(layers)}
        edges = [(place[edge["source"]], place[edge["target"]]) for edge in self.data["edges"]]
        self.touched = list(self.bit)
        for a, b in edges:
            self.touched[a] |= self.bit[b]
        self.received = {a for a, _ in edges}
        self.arcs = set(self._arcs(edges))
        self.relays = self.data.get("stage_cost") == "relay"
        # Type, units, colours, and those of all stages before, which are 0 where they change nothing.
        self.by_key: dict[tuple[int, int, int, int], Stage] = {}
        for own in range(1, self.everything + 1):
            for before in range(self.everything + 1 if self.relays else 1):
                if not own & before and not (self.relays and self._backwards(before)):
                    for t in range(len(self.names)):
                        yield from self._stages_of(own, t, before)

    def _arcs(self, edges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Yield pairs of colours, the first of which is in the stage of the second or an earlier one."""
        layers = self.data["layers"]
        back = [bool(layer.get("backward")) for layer in layers]
        led = {bit for bit, backward in zip(self.bit, back, strict=True) if not backward}
        for a, b in edges:
            if not back[a] and not back[b]:
                yield self.bit[a], self.bit[b]
            elif back[a] and back[b] and not {self.bit[a], self.bit[b]} <= led:
                yield self.bit[b], self.bit[a]

    def _backwards(self, done: int) -> bool:
        """Return whether colours come before what they need."""
        return any(b & done and not a & done for a, b in self.arcs)

    def _stages_of(self, own: int, t: int, before: int) -> Iterator[Stage]:
        """Yield the stages of some colours on a type, by units."""
        name, kind = self.names[t], self.data["types"][t]
        layers = [layer for layer, bit in zip(self.data["layers"], self.bit, strict=True) if bit & own]
        if any(name not in layer["compute_s"] for layer in layers):
            return
        held = sum(Fraction(layer.get("memory_gib", 0)) for layer in layers) * FINE
        certain_gib, possible_gib = limits(kind.get("memory_gib"), FINE)
        if held > possible_gib:
            return
        computing = [self._divided(layer, "compute", name) for layer in layers]
        moving = [self._divided(layer, "communication", name) for layer in layers]
        ends = (before, before | own) if self.relays else (own,)
        cut = max(self._cut(colours, name) for colours in ends)
        for k in range(1, min(self.most[t], self.data.get("most_units_per_stage") or self.most[t]) + 1):
            times = [sum(serial + parallel / k for serial, parallel in part) for part in (computing, moving)]
            times[1] += cut / k
            seconds = sum(times) if self.data.get("stage_cost") == "sum" else max(times)
            stage = self.by_key[t, k, own, before] = Stage(t, k, own, Fraction(seconds), held <= certain_gib)
            yield stage

    def _cut(self, colours: int, name: str) -> Fraction:
        """Return the seconds of the tensors that some colours touch, and others too."""
        touching = [index for index in self.received if self.touched[index] & colours]
        cut = [index for index in touching if self.touched[index] & ~colours]
        return sum((self._transfer(index, name) for index in cut), Fraction(0))

    def _divided(self, layer: dict[str, Any], what: str, name: str) -> tuple[Fraction, Fraction]:
        """Return the serial and the parallel part of a time of a layer."""
        seconds = Fraction(layer.get(f"{what}_s", {}).get(name, 0))
        share = self._figure(layer, f"{what}_parallel", name)
        return seconds * (1 - share), seconds * share

    def _transfer(self, index: int, name: str) -> Fraction:
        layer, link = self.data["layers"][index], self.data.get("link_gbit_per_s")
        given = (layer.get("transfer_s") or {}).get(name)
        if given is None and link is not None:
            return Fraction(layer.get("output_bytes", 0)) * 8 / (Fraction(link) * 10**9)
        return Fraction(given or 0)

    def _enumerate(self) -> None:
        for parts in _partitions(self.everything):
            for row in self._rows(parts, 0):
                self._choose(row, 0, 0, [0] * len(self.names), True)

    def _rows(self, parts: Sequence[int], done: int) -> Iterator[list[int]]:
        """Yield the orders of parts, after what is done, that no arc runs against; one if they cost alike."""
        if not parts:
            yield []
        for part in parts:
            if self._backwards(done | part):
                continue
            for row in self._rows([other for other in parts if other != part], done | part):
                yield [part, *row]
                if not self.relays:
                    return

    def _stage_at(self, t: int, k: int, own: int, done: int) -> Stage | None:
        return self.by_key.get((t, k, own, done if self.relays else 0))

    def _choose(self, parts: Sequence[int], time: int, rate: int, taken: list[int], certain: bool) -> None:
        """Add the plans of some stages, the last of a row, to what those before take."""
        self._count_step()
        if not parts:
            self._add(time, rate, certain)
            return
        done = self.everything & ~sum(parts)
        for t in range(len(self.names)):
            for k in range(1, self.most[t] - taken[t] + 1):
                stage = self._stage_at(t, k, parts[0], done)
                if stage is None:
                    break
                longer, dearer = max(time, stage.time), rate + k * self.prices[t]
                if self._broken(longer, dearer, 1):
                    continue
                taken[t] += k
                self._choose(parts[1:], longer, dearer, taken, certain and stage.certain)
                taken[t] -= k

    def judge(self, plan: Sequence[dict[str, Any]]) -> Judgement:
        """Return the cost of a plan, and what is wrong with it."""
        done, time, rate, taken = 0, 0, 0, [0] * len(self.names)
        wrong = []
        for entry in plan:
            layers = entry.get("layers") or range(entry["first_layer"], entry["last_layer"] + 1)
            if any(layer >= len(self.bit) for layer in layers) or entry["type"] not in self.names:
                return None, [f"there is no stage {entry}"]
            own = 0
            for layer in layers:
                own |= self.bit[layer]
            whole_colours = [index for index, bit in enumerate(self.bit) if bit & own]
            stage = self._stage_at(self.names.index(entry["type"]), entry["units"], own, done)
            if stage is None or sorted(layers) != whole_colours or own & done:
                return None, [f"there is no stage {entry}"]
            done |= own
            if self._backwards(done):
                wrong.append("a stage comes before what it needs")
            time, rate = max(time, stage.time), rate + stage.units * self.prices[stage.type]
            taken[stage.type] += stage.units
        if done != self.everything:
            return None, ["layers are missing"]
        return self._judged(time, rate, taken, wrong)


def _partitions(rest: int) -> Iterator[list[int]]:
    """Yield the ways to part a set of bits into sets."""
    if not rest:
        yield []
        return
    lowest = rest & -rest
    others = rest ^ lowest
    some = others
    while True:
        for parts in _partitions(others ^ some):
            yield [lowest | some, *parts]
        if not some:
            return
        some = (some - 1) & others
