"""Independent stages of a graph for the check: groups of layers that share a stage, their order, and ideals.

It implements docs/problems/staging.md without the code of the solvers. Layers that share a stage are found by
reachability; ideals are enumerated from all layers downwards.

A stage J − I is enumerated by removing groups from the larger ideal J, in falling order. The tensors that it
sends beyond J are cut however many groups it has, so that computing and sending bound all larger stages with
the same end. Parts are rounded down, so that no stage is excluded as too slow. Where stages relay, a stage
transfers what crosses its two ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from ....instances.common.arrays import Flags, Floats, Ints, narrow
from ....instances.common.errors import TooLargeError
from ....instances.staging.instance import Layer, StagingInstance
from ...common.clock import check_time, until_time_limit
from ...common.compiled import compiled
from ..stages import MAX_SEGMENTS
from .interval_bounds import Segments, layer_parts, unit_types

MAX_IDEALS = 200_000


@dataclass
class Group:
    """A group of layers of a graph that must share a pipeline stage.

    Attributes
    ----------
    layers
        Indices of the layers.
    parts
        S, A, S', A' on each type, shape (T, 4); S is infinite where it cannot run.
    before, after
        Numbers of the groups in the same stage or an earlier one, and in the same stage or a later one.
    """

    layers: list[int]
    parts: Floats
    memory_gib: float
    before: set[int]
    after: set[int]


class GroupOrder:
    """The groups of layers that must share a stage, their order, and the tensors sent between them.

    Attributes
    ----------
    groups
        Groups by number; numbers have gaps.
    tensors
        The groups that a tensor touches, with its seconds on each type, shape (T,).
    touching
        The indices in `tensors` of those that touch a group.
    """

    def __init__(self, instance: StagingInstance) -> None:
        self.instance = instance
        number, arcs = _groups_and_arcs(instance)
        members: dict[int, list[int]] = {}
        for layer, head in enumerate(number):
            members.setdefault(head, []).append(layer)
        self.groups: dict[int, Group] = {}
        single = layer_parts(instance)
        for head, own in members.items():
            memory = math.fsum(instance.layers[layer].most_memory_gib for layer in own)
            self.groups[head] = Group(own, single[own].sum(axis=0), memory, set(), set())
        for a, b in arcs:
            if number[a] != number[b]:
                self.groups[number[b]].before.add(number[a])
                self.groups[number[a]].after.add(number[b])
        place = {layer.name: index for index, layer in enumerate(instance.layers)}
        touched: dict[int, set[int]] = {}
        for edge in instance.edges or ():
            source = place[edge.source]
            touched.setdefault(source, {number[source]}).add(number[place[edge.target]])
        sent = (
            (own, _transfer_seconds(instance, instance.layers[source])) for source, own in touched.items()
        )
        self.tensors = [(frozenset(own), s) for own, s in sent if len(own) > 1 and s.any()]
        self.touching: dict[int, set[int]] = {number: set() for number in self.groups}
        for index, (numbers, _) in enumerate(self.tensors):
            for one in numbers:
                self.touching[one].add(index)
        self._merge_idle()
        # A tensor that now touches a single group is never cut.
        self.tensors = [(own, s) for own, s in self.tensors if len(own) > 1]

    def _merge_idle(self) -> None:
        """Merge groups of layers without time into neighbours, while that makes no plan worse."""
        needed = math.fsum(layer.most_memory_gib for layer in self.instance.layers)
        roomy = needed <= unit_types(self.instance).room_gib.min()
        moved = True
        while moved:
            moved = False
            for number, group in list(self.groups.items()):
                check_time()
                runs = np.isfinite(group.parts[:, 0])
                if group.parts[runs].any() or (group.memory_gib and not roomy):
                    continue
                to = next(
                    (other for other in self._merge_candidates(number) if self._can_merge(number, other)),
                    None,
                )
                if to is not None:
                    self._merge(number, to)
                    moved = True

    def _merge_candidates(self, number: int) -> list[int]:
        """Return the groups into which the order of stages always allows merging a group of layers."""
        group = self.groups[number]
        neighbours = [next(iter(side)) for side in (group.before, group.after) if len(side) == 1]
        busy = any(len(self.tensors[index][0]) > 1 for index in self.touching[number])
        alone = not group.before and not group.after and not busy
        return [other for other in self.groups if other != number] if alone else neighbours

    def _can_merge(self, number: int, other: int) -> bool:
        """Return whether merging a group of layers without time into another makes no stage slower."""
        runs, needed = (np.isfinite(self.groups[one].parts[:, 0]) for one in (number, other))
        more = np.zeros(len(runs))
        for index in self.touching[number]:
            own, seconds = self.tensors[index]
            if len(own) > 1 and other not in own:
                more = more + seconds
            elif own == {number, other}:
                more = more - seconds
        # Rounding must not accept a merge that adds a little time.
        return bool((needed <= runs).all() and (more <= 0).all())

    def _merge(self, number: int, other: int) -> None:
        group, host = self.groups.pop(number), self.groups[other]
        host.layers += group.layers
        host.memory_gib += group.memory_gib
        for one in [self.groups[near] for near in group.before | group.after]:
            for side in (one.before, one.after):
                if number in side:
                    side.discard(number)
                    if one is not host:
                        side.add(other)
        host.before |= group.before - {other}
        host.after |= group.after - {other}
        for index in self.touching.pop(number):
            own, seconds = self.tensors[index]
            self.tensors[index] = (own - {number} | {other}, seconds)
            self.touching[other].add(index)


def _transfer_seconds(instance: StagingInstance, layer: Layer) -> Floats:
    """Return the time [s] for one device of each type to send or receive a layer's output, shape (T,)."""
    link = instance.link_gbit_per_s
    usual = 0.0 if link is None else layer.output_bytes * 8 / (link * 1e9)
    given = layer.transfer_s or {}
    return np.array([given.get(one.name, usual) for one in instance.types])


def _groups_and_arcs(instance: StagingInstance) -> tuple[list[int], list[tuple[int, int]]]:
    """Return for each layer the first of the layers that share its stage, and the order arcs of layers.

    Layers share a stage if they are of one colour, or of colours that reach each other by arcs.
    """
    layers = instance.layers
    place = {layer.name: index for index, layer in enumerate(layers)}
    colours = [layer.colour or f"\0{index}" for index, layer in enumerate(layers)]
    led = {colour for colour, layer in zip(colours, layers, strict=True) if not layer.backward}
    arcs = []
    for edge in instance.edges or ():
        a, b = place[edge.source], place[edge.target]
        if not layers[a].backward and not layers[b].backward:
            arcs.append((a, b))
        elif layers[a].backward and not {colours[a], colours[b]} <= led:
            arcs.append((b, a))
    names, colour = np.unique(colours, return_inverse=True)
    before, after = colour[np.array(arcs, dtype=np.int64).reshape(-1, 2)].T
    reach = csr_matrix((np.ones(len(arcs)), (before, after)), shape=(len(names), len(names)))
    _, part = connected_components(reach, connection="strong")
    _, first, own = np.unique(part[colour], return_index=True, return_inverse=True)
    return first[own].tolist(), arcs


@dataclass(frozen=True)
class DerivedIdeals:
    """All ideals (down-sets) of the order of groups of layers, from the largest to the smallest.

    Attributes
    ----------
    groups
        Numbers of the groups, in a topological order.
    sets
        The groups of each ideal as bits.
    links
        Indices (ideal, group, ideal): the second ideal is the first without the group.
    """

    groups: list[int]
    sets: list[int]
    links: list[tuple[int, int, int]]


def derive_ideals(order: GroupOrder) -> DerivedIdeals:
    """Return all ideals (down-sets) of the order of groups of layers, enumerated downwards.

    Raises
    ------
    TooLargeError
        If there are too many.
    """
    sorter = TopologicalSorter({number: group.before for number, group in order.groups.items()})
    groups = [*sorter.static_order()]
    bit = {number: index for index, number in enumerate(groups)}
    after = [sum(1 << bit[other] for other in order.groups[number].after) for number in groups]
    before = [[bit[other] for other in order.groups[number].before] for number in groups]
    everything = (1 << len(bit)) - 1
    sets, links = [everything], []
    level = {everything: (0, [index for index, later in enumerate(after) if not later])}
    while level:
        check_time()
        smaller: dict[int, tuple[int, list[int]]] = {}
        for ideal, (place, last) in level.items():
            # A group may be removed once all its successors are.
            for index in last:
                rest = ideal ^ 1 << index
                if rest not in smaller:
                    freed = [one for one in before[index] if not after[one] & rest]
                    smaller[rest] = (len(sets), [one for one in last if one != index] + freed)
                    sets.append(rest)
                links.append((place, index, smaller[rest][0]))
        level = smaller
        if len(sets) > MAX_IDEALS:
            raise TooLargeError(f"the graph has more than {MAX_IDEALS:,} ideals")
    return DerivedIdeals(groups, sets, links)


ROUNDING_FACTOR = 1 - 1e-12
"""Factor on sums of times, as the order of addition may differ elsewhere."""
MAX_STAGES = 4_000_000
IDEALS_PER_BLOCK = 4096
"""Number of ideals whose tensors are counted in one matrix product."""


class DerivedGraph(NamedTuple):
    """A graph of layers as arrays; ideals (down-sets) are numbered by rising size from the empty one, 0.

    Attributes
    ----------
    inside
        Whether an ideal has a group, shape (I, G).
    link_start, group, smaller
        Ideal i without group[e] is ideal smaller[e], for e from link_start[i] to link_start[i + 1] - 1, by
        falling group.
    parts, memory
        Parts and memory of each group, shapes (G, T, 4) and (G,).
    size
        Number of groups that a tensor touches, shape (H,).
    own_start, own
        The tensors that touch group g are own[own_start[g]:own_start[g + 1]].
    seconds
        Transfer time of each tensor on each type, shape (H, T).
    crossing
        Where stages relay: seconds of the tensors cut by each ideal on each type, shape (I, T), and no tensor
        is listed above; else zeros.
    drift
        Bound on the rounding error of adding and subtracting seconds on each type, shape (T,).
    room, units
        Memory of a unit of each type, and units that a stage may have, shape (T,).
    adds_up
        Whether computing and communicating add up.
    """

    inside: Flags
    link_start: Ints
    group: Ints
    smaller: Ints
    parts: Floats
    memory: Floats
    size: Ints
    own_start: Ints
    own: Ints
    seconds: Floats
    crossing: Floats
    drift: Floats
    room: Floats
    units: Floats
    adds_up: bool


def derive_graph(instance: StagingInstance) -> DerivedGraph:
    """Return the graph of an instance as arrays: groups of layers, ideals (down-sets) and tensors.

    Raises
    ------
    TooLargeError
        If it has too many ideals.
    """
    order = GroupOrder(instance)
    below = derive_ideals(order)
    count = len(below.sets)
    groups = [order.groups[number] for number in below.groups]
    length = (len(groups) + 7) // 8
    sets = b"".join(ideal.to_bytes(length, "little") for ideal in below.sets[::-1])
    octets = np.frombuffer(sets, dtype=np.uint8).reshape(count, length)
    inside = np.unpackbits(octets, axis=1, bitorder="little")[:, : len(groups)].astype(bool)
    links = np.array(below.links, dtype=np.int64).reshape(-1, 3)
    larger, group, smaller = count - 1 - links[:, 0], links[:, 1], count - 1 - links[:, 2]
    sequence = np.lexsort((-group, larger))
    place = {number: index for index, number in enumerate(below.groups)}
    tensor = np.zeros((len(order.tensors), len(groups)), dtype=bool)
    for row, (own, _) in zip(tensor, order.tensors, strict=True):
        row[[place[number] for number in own]] = True
    seconds = np.array([seconds for _, seconds in order.tensors]).reshape(-1, len(instance.types))
    crossing = np.zeros((count, len(instance.types)))
    if instance.stage_cost == "relay":
        crossing = _crossing_seconds(inside, tensor, seconds)
        tensor, seconds = tensor[:0], seconds[:0]
    touching, touched = np.nonzero(tensor.T)
    hardware = unit_types(instance)
    return DerivedGraph(
        inside,
        np.searchsorted(larger[sequence], np.arange(count + 1)),
        group[sequence],
        smaller[sequence],
        np.array([one.parts for one in groups]),
        np.array([one.memory_gib for one in groups]),
        tensor.sum(axis=1),
        np.searchsorted(touching, np.arange(len(groups) + 1)),
        touched,
        seconds,
        crossing,
        1e-13 * seconds.sum(axis=0),
        hardware.room_gib * (1 + 1e-12),
        hardware.most,
        instance.stage_cost == "sum",
    )


def _crossing_seconds(inside: Flags, tensor: Flags, seconds: Floats) -> Floats:
    """Return the total transfer time of the tensors that each ideal cuts, in s, shape (I, T)."""
    blocks, touched = [], tensor.astype(np.float32).T
    for part in np.array_split(inside, len(inside) // IDEALS_PER_BLOCK + 1):
        check_time()
        own = part.astype(np.float32) @ touched
        blocks.append(((own > 0) & (own < touched.sum(axis=0))) @ seconds)
    return np.concatenate(blocks)


@compiled
def _outside_tensors(graph: DerivedGraph, end: int) -> Flags:
    """Return a mask of the tensors that touch a group of layers outside an ideal, shape (H,)."""
    beyond = np.zeros(len(graph.seconds), dtype=np.bool_)
    for g in range(len(graph.memory)):
        if not graph.inside[end, g]:
            for at in range(graph.own_start[g], graph.own_start[g + 1]):
                beyond[graph.own[at]] = True
    return beyond


@compiled
def _remove_group(
    graph: DerivedGraph,
    level: int,
    g: int,
    touched: Ints,
    beyond: Flags,
    possible: Flags,
    sums: Floats,
    cut: Floats,
    sent: Floats,
) -> None:
    """Add a group to the stage being enumerated: its times, and the tensors now cut and sent.

    Only types on which the stage without the group is possible are updated.
    """
    # Loops over the few types avoid the objects of slices.
    types = len(graph.room)
    for t in range(types):
        if possible[level - 1, t]:
            cut[level, t], sent[level, t] = cut[level - 1, t], sent[level - 1, t]
            for part in range(4):
                sums[level, t, part] = sums[level - 1, t, part] + graph.parts[g, t, part]
    for at in range(graph.own_start[g], graph.own_start[g + 1]):
        h = graph.own[at]
        touched[h] += 1
        first, last = touched[h] == 1, touched[h] == graph.size[h]
        if first or last:
            for t in range(types):
                if possible[level - 1, t]:
                    if first:
                        cut[level, t] += graph.seconds[h, t]
                    if first and beyond[h]:
                        sent[level, t] += graph.seconds[h, t]
                    if last:
                        cut[level, t] -= graph.seconds[h, t]


@compiled
def _is_fast_enough(computing: float, communicating: float, adds_up: bool, slowest: float) -> bool:
    """Return whether a stage takes at most `slowest` seconds, with a margin for rounding."""
    time = computing + communicating if adds_up else max(computing, communicating)
    return bool(time * (1 - 1e-12) <= slowest)


@compiled
def stages_ending_at(
    graph: DerivedGraph, end: int, slowest: float, start: Ints, kind: Ints, parts: Floats
) -> int:
    """Write the stages that end with an ideal and take at most `slowest` seconds; return their number.

    Parameters
    ----------
    start, kind, parts
        Smaller ideal, type, and S, A, S' and A' of each stage, written from the first row on.
    """
    groups, types = len(graph.memory), len(graph.room)
    beyond, touched = _outside_tensors(graph, end), np.zeros(len(graph.size), dtype=np.int64)
    # By level, the number of groups taken off: the ideal, its next link, the group taken off last, and sums.
    here, link = np.zeros(groups + 1, dtype=np.int64), np.zeros(groups + 1, dtype=np.int64)
    off = np.full(groups + 1, groups, dtype=np.int64)
    memory, sums = np.zeros(groups + 1), np.zeros((groups + 1, types, 4))
    cut, sent = np.zeros((groups + 1, types)), np.zeros((groups + 1, types))
    # A stage too large or too slow on a type stays so with more groups.
    possible = np.ones((groups + 1, types), dtype=np.bool_)
    for t in range(types):
        sent[0, t] = graph.crossing[end, t]
    here[0], link[0], share = end, graph.link_start[end], 1 / graph.units
    level, written = 0, 0
    while level >= 0:
        at = link[level]
        while at < graph.link_start[here[level] + 1] and graph.group[at] >= off[level]:
            at += 1
        link[level] = at + 1
        if at >= graph.link_start[here[level] + 1]:
            if level > 0:
                for own in range(graph.own_start[off[level]], graph.own_start[off[level] + 1]):
                    touched[graph.own[own]] -= 1
            level -= 1
            continue
        level, g, to = level + 1, graph.group[at], graph.smaller[at]
        here[level], off[level], link[level] = to, g, graph.link_start[to]
        memory[level] = memory[level - 1] + graph.memory[g]
        _remove_group(graph, level, g, touched, beyond, possible, sums, cut, sent)
        larger = False
        for t in range(types):
            possible[level, t] = possible[level - 1, t] and memory[level] <= graph.room[t]
            if not possible[level, t]:
                continue
            computing = sums[level, t, 0] + sums[level, t, 1] * share[t]
            communicating = sums[level, t, 2] + sums[level, t, 3] * share[t]
            least = communicating + sent[level, t] * share[t]
            if np.isinf(computing) or not _is_fast_enough(computing, least, graph.adds_up, slowest):
                possible[level, t] = False
                continue
            larger = True
            # Rounding in adding and subtracting may leave a little too much.
            transfers = max(0.0, cut[level, t] - graph.drift[t])
            transfers = max(transfers, graph.crossing[to, t], graph.crossing[end, t])
            if _is_fast_enough(computing, communicating + transfers * share[t], graph.adds_up, slowest):
                start[written], kind[written] = to, t
                for part in range(4):
                    parts[written, part] = sums[level, t, part]
                parts[written, 3] += transfers
                written += 1
        if not larger:
            link[level] = graph.link_start[to + 1]
    if graph.adds_up:
        # The sum counts as computing.
        parts[:written, 0] += parts[:written, 2]
        parts[:written, 1] += parts[:written, 3]
        parts[:written, 2:] = 0.0
    return written


def stage_buffers(graph: DerivedGraph) -> tuple[Ints, Ints, Floats]:
    """Return arrays for the stages that end with one ideal: smaller ideal, type, and parts of time."""
    most = len(graph.inside) * len(graph.room)
    return np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64), np.empty((most, 4))


def derive_graph_segments(instance: StagingInstance, slowest_s: float) -> Segments:
    """Return all stages of a graph of at most a stage time, as segments between two ideals.

    Raises
    ------
    TooLargeError
        If there are too many.
    """
    graph = derive_graph(instance)
    start, kind, parts = stage_buffers(graph)
    # With only one order of the groups stages are as the segments of a chain.
    most = MAX_SEGMENTS if len(graph.inside) == len(graph.memory) + 1 else MAX_STAGES
    columns, total = [], 0
    for end in until_time_limit(range(1, len(graph.inside))):
        count = stages_ending_at(graph, end, slowest_s, start, kind, parts)
        total += count
        if total > most:
            raise TooLargeError(f"the graph has more than {most:,} possible stages")
        order = np.lexsort((start[:count], kind[:count]))
        columns.append(
            (start[:count][order], np.full(count, end - 1), kind[:count][order], *parts[:count][order].T)
        )
    first, last, unit_type, *rows = map(np.concatenate, zip(*columns, strict=True))
    layers = len(graph.inside) - 1
    price = unit_types(instance).price
    limit = graph.units
    rows = [row * ROUNDING_FACTOR for row in rows]
    places = narrow(first), narrow(last), narrow(unit_type)
    figures = *places, *rows, price, limit
    return Segments(layers, *figures)
