"""All plans of a staging document whose layers make a graph, from docs/problems/staging.md.

A plan is a partition of the colours into stages that can stand in a row; how they stand changes figures only
where stages relay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from .staging import Stage, StagingTruth
from .truth import Judgement, TooManyPlansError, limits

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
