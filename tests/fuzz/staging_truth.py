"""All plans of a staging document, from docs/problems/staging.md."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .truth import TooManyPlansError, Truth, limits, whole

MOST_PLANS = 6000
MOST_UNITS = 8


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
        if most > MOST_UNITS:
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
        self._steps += 1
        if self._steps > 5 * MOST_PLANS or len(self.plans) > MOST_PLANS:
            raise TooManyPlansError
        if layer == len(self.stages):
            self.plans.append(((self._cost(time, rate),), certain and not self._broken(time, rate, 0)))
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

    def _cost(self, time: int, rate: int) -> int:
        return time * rate if self.goal == "cost" else time

    def value(self, index: int, cost: int) -> Fraction:
        """Return the cost in USD, the throughput in samples/s, or the time in seconds."""
        del index
        if self.goal == "cost":
            return Fraction(cost, self.time_unit * self.price_unit) * self.rounds / (3600 * self.batch)
        seconds = Fraction(cost, self.time_unit)
        return self.batch / seconds if self.goal == "throughput" else self.rounds * seconds / self.batch

    def judge(self, plan: Sequence[dict[str, Any]]) -> tuple[tuple[int, ...] | None, list[str]]:
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
        wrong = []
        if any(a > b for a, b in zip(taken, self.most, strict=True)):
            wrong.append("more units than there are")
        if self._broken(time, rate, 1):
            wrong.append("the floor, the budget or the cost limit is broken")
        return (self._cost(time, rate),), wrong
