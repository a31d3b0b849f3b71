"""All plans of a staging document whose layers make a graph, from docs/problems/staging.md.

A plan is a partition of the colours into stages that can stand in a row; how they stand changes no figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from .staging_truth import MOST_PLANS, Stage, StagingTruth
from .truth import TooManyPlansError, limits

FINE = 1 << 200
"""Memory is compared in multiples of 1/FINE GiB."""
MOST_COLOURS = 6


def staging_truth(data: dict[str, Any]) -> StagingTruth:
    """Return all plans of a staging document, of a chain or a graph."""
    return StagingTruth(data) if data.get("edges") is None else GraphTruth(data)


class GraphTruth(StagingTruth):
    """All plans of a graph; in a stage, `last` are its colours as bits."""

    def _possible_stages(self) -> Iterator[Stage]:
        layers = self.data["layers"]
        names = [layer.get("colour") or ("alone", place) for place, layer in enumerate(layers)]
        known = list(dict.fromkeys(names))
        if len(known) > MOST_COLOURS:
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
        self.by_key: dict[tuple[int, int, int], Stage] = {}
        for own in range(1, self.everything + 1):
            for t in range(len(self.names)):
                yield from self._stages_of(own, t)

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

    def _stages_of(self, own: int, t: int) -> Iterator[Stage]:
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
        cut = sum(
            self._transfer(index, name)
            for index in self.received
            if self.touched[index] & own and self.touched[index] & ~own
        )
        for k in range(1, min(self.most[t], self.data.get("most_units_per_stage") or self.most[t]) + 1):
            times = [sum(serial + parallel / k for serial, parallel in part) for part in (computing, moving)]
            times[1] += Fraction(cut) / k
            seconds = sum(times) if self.data.get("stage_cost") == "sum" else max(times)
            stage = self.by_key[t, k, own] = Stage(t, k, own, Fraction(seconds), held <= certain_gib)
            yield stage

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
            if self._stands_in_a_row(parts):
                self._choose(parts, 0, 0, [0] * len(self.names), True)

    def _stands_in_a_row(self, parts: Sequence[int]) -> bool:
        """Return whether the parts have an order against which no arc runs."""
        left = list(parts)
        while left:
            needed = [
                {a for a, b in self.arcs if b & part and not a & part and any(a & other for other in left)}
                for part in left
            ]
            first = [part for part, needs in zip(left, needed, strict=True) if not needs]
            if not first:
                return False
            left = [part for part in left if part not in first]
        return True

    def _choose(self, parts: Sequence[int], time: int, rate: int, taken: list[int], certain: bool) -> None:
        """Add the plans of some stages to what others take."""
        self._steps += 1
        if self._steps > 5 * MOST_PLANS or len(self.plans) > MOST_PLANS:
            raise TooManyPlansError
        if not parts:
            self.plans.append(((self._cost(time, rate),), certain and not self._broken(time, rate, 0)))
            return
        for t in range(len(self.names)):
            for k in range(1, self.most[t] - taken[t] + 1):
                stage = self.by_key.get((t, k, parts[0]))
                if stage is None:
                    break
                longer, dearer = max(time, stage.time), rate + k * self.prices[t]
                if self._broken(longer, dearer, 1):
                    continue
                taken[t] += k
                self._choose(parts[1:], longer, dearer, taken, certain and stage.certain)
                taken[t] -= k

    def judge(self, plan: Sequence[dict[str, Any]]) -> tuple[tuple[int, ...] | None, list[str]]:
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
            stage = self.by_key.get((self.names.index(entry["type"]), entry["units"], own))
            if stage is None or sorted(layers) != whole_colours or own & done:
                return None, [f"there is no stage {entry}"]
            done |= own
            if any(b & done and not a & done for a, b in self.arcs):
                wrong.append("a stage comes before what it needs")
            time, rate = max(time, stage.time), rate + stage.units * self.prices[stage.type]
            taken[stage.type] += stage.units
        if done != self.everything:
            return None, ["layers are missing"]
        if any(a > b for a, b in zip(taken, self.most, strict=True)):
            wrong.append("more units than there are")
        if self._broken(time, rate, 1):
            wrong.append("the floor, the budget or the cost limit is broken")
        return (self._cost(time, rate),), wrong


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
