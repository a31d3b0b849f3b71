"""The order of a graph of layers: classes that share a stage, blocks of classes, ideals, and stage times.

A class is a set of layers that share a stage: all layers of one colour, or a single layer.
A forward edge between two classes orders them; a class of backward layers alone is ordered by the backward
edges that touch it, reversed, as if forward layers mirrored them. Classes in a cycle of this order are
merged, for no stage can come between them (Tarnawski et al. 2020, appendix).

Blocks are classes after those without time are merged into a neighbour, where that makes no plan worse.
Moving a class n without time and memory into the stage of m changes only transfers. No stage then becomes
slower if each tensor that n touches is also one of m, or if the tensors between n and m alone weigh at least
as much as those of n without m. The order of stages allows it where m is the only class before n, or the
only one after it. Where stages relay, the same holds for the cuts of the ideals between the two stages, which
gain n or lose it.

Stage times: the tensor of a layer is cut by a set of classes if it touches a class in the set and one
outside. D(S), the seconds in which one unit sends and receives, sums the tensors that the stage S cuts, each
once. Then CT = S + A/k and DT = S' + (A' + D)/k as in a chain, and ET = max(CT, DT) where they overlap, CT +
DT where they add up.

Where stages relay, a tensor passes through all stages between the first and the last that it touches. A stage
from ideal I to ideal J receives what I cuts while it sends what J cuts: D = max{D(I), D(J)}, and ET is
max(CT, DT), which is what PipeDream's optimiser computes (Narayanan et al. 2019).

Ideals are down-sets of the order of blocks, those that may precede the beginning of a stage. A stage is the
difference of two ideals I ⊂ J. Blocks are numbered in an order of their arcs, so every superset of I is
reached once by adding blocks in rising order, through ideals alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ...instances.staging.instance import StagingInstance
from ..common.clock import check_time, until_time_limit
from .stages import hardware_of


@dataclass(frozen=True)
class Tensor:
    """The output of a layer that is sent to another class of layers.

    Attributes
    ----------
    layer
        Index of the layer.
    classes
        The classes of the layer and of all that receive it, at least two.
    """

    layer: int
    classes: frozenset[int]


@dataclass(frozen=True)
class Classes:
    """The classes of layers that must share a stage, in a topological order of their arcs.

    Attributes
    ----------
    members
        Indices of the layers of each class, ascending.
    arcs
        Pairs of classes, the first of which is in the stage of the second or an earlier one.
    """

    members: tuple[tuple[int, ...], ...]
    arcs: frozenset[tuple[int, int]]
    tensors: tuple[Tensor, ...]

    @cached_property
    def of_layer(self) -> dict[int, int]:
        """Map each layer to its class (layers that must share a stage), both as indices."""
        return {layer: index for index, layers in enumerate(self.members) for layer in layers}

    @cached_property
    def touching(self) -> list[list[Tensor]]:
        """The tensors that touch each class."""
        found: list[list[Tensor]] = [[] for _ in self.members]
        for tensor in self.tensors:
            for index in tensor.classes:
                found[index].append(tensor)
        return found

    def cut_by(self, inside: Collection[int]) -> list[int]:
        """Return the layers whose tensors a set of classes cuts, each once."""
        touched = {tensor.layer: tensor.classes for index in inside for tensor in self.touching[index]}
        return [layer for layer, around in touched.items() if not around.issubset(inside)]


def classes_of(instance: StagingInstance) -> Classes:
    """Return the classes of layers that must share a stage, with the order and tensors between them."""
    import networkx as nx

    edges = instance.edges or ()
    place = {layer.name: index for index, layer in enumerate(instance.layers)}
    pairs = [(place[edge.source], place[edge.target]) for edge in edges]
    colour: list[Hashable] = [layer.colour or index for index, layer in enumerate(instance.layers)]
    order: nx.DiGraph[Hashable] = nx.DiGraph()
    order.add_nodes_from(colour)
    order.add_edges_from(_arcs(instance, pairs, colour))
    merged = nx.condensation(order)
    nodes = [merged.graph["mapping"][key] for key in colour]
    members: dict[int, list[int]] = {}
    for layer, node in enumerate(nodes):
        members.setdefault(node, []).append(layer)
    # The order that follows the document keeps the layers of a branch together where it can.
    ordered = list(nx.lexicographical_topological_sort(merged, members.__getitem__))
    position = {node: index for index, node in enumerate(ordered)}
    arcs = frozenset((position[a], position[b]) for a, b in merged.edges)
    tensors = _tensors(pairs, [position[node] for node in nodes])
    return Classes(tuple(tuple(members[node]) for node in ordered), arcs, tuple(tensors))


def _arcs(
    instance: StagingInstance, pairs: Sequence[tuple[int, int]], colour: Sequence[Hashable]
) -> Iterator[tuple[Hashable, Hashable]]:
    """Yield the order arcs between colours (layers that share a stage), earlier one first, self-loops too."""
    backward = [bool(layer.backward) for layer in instance.layers]
    forward = {key for key, back in zip(colour, backward, strict=True) if not back}
    for source, target in pairs:
        if not backward[source] and not backward[target]:
            yield colour[source], colour[target]
        elif backward[source] and not {colour[source], colour[target]} <= forward:
            # A class of backward layers alone follows its backward edges, reversed.
            yield colour[target], colour[source]


def _tensors(pairs: Sequence[tuple[int, int]], of_layer: Sequence[int]) -> Iterator[Tensor]:
    reached: dict[int, set[int]] = {}
    for source, target in pairs:
        reached.setdefault(source, {of_layer[source]}).add(of_layer[target])
    for layer, touched in sorted(reached.items()):
        if len(touched) > 1:
            yield Tensor(layer, frozenset(touched))


def transfer_of_layers(instance: StagingInstance) -> Floats:
    """Return the time [s] for one device of each type to send or receive each layer's output, (L, T)."""
    link, seconds = instance.link_gbit_per_s, np.zeros((len(instance.layers), len(instance.types)))
    for row, layer in zip(seconds, instance.layers, strict=True):
        usual = 0.0 if link is None else layer.output_bytes / (link * 1e9 / 8)
        given = layer.transfer_s or {}
        row[:] = [given.get(one.name, usual) for one in instance.types]
    return seconds


@dataclass(frozen=True)
class Blocks:
    """Blocks of layers (classes, merged where they take no time), in a topological order of their arcs.

    Attributes
    ----------
    layers
        Indices of the layers of each block.
    arcs
        Pairs of blocks, the first of which is in the stage of the second or an earlier one.
    parts
        S, A, S' and A' of each block on each type, shape (B, T, 4); S is infinite where it cannot run.
    memory_gib
        Memory of each block, shape (B,).
    tensors
        The blocks that each tensor touches, at least two.
    transfer_s
        Transfer time of each tensor on each type, shape (H, T).
    """

    layers: tuple[tuple[int, ...], ...]
    arcs: frozenset[tuple[int, int]]
    parts: Floats
    memory_gib: Floats
    tensors: tuple[tuple[int, ...], ...]
    transfer_s: Floats

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def in_a_row(self) -> bool:
        """Whether the blocks have only one topological order, so that stages are runs as in a chain."""
        return all(pair in self.arcs for pair in itertools.pairwise(range(len(self))))


def blocks_of(instance: StagingInstance, classes: Classes, parts: Floats, transfer_s: Floats) -> Blocks:
    """Merge the classes of layers without time into neighbours, and return the resulting blocks.

    Parameters
    ----------
    parts, transfer_s
        Parts of each layer's time, shape (L, T, 4), and seconds to send its output, shape (L, T), by type.
    """
    merging = _ClassMerger(instance, classes, parts, transfer_s)
    merging.run()
    return merging.blocks()


class _ClassMerger:
    """Merges classes of layers without time into neighbours; merged ones are removed from `members`."""

    def __init__(
        self, instance: StagingInstance, classes: Classes, parts: Floats, transfer_s: Floats
    ) -> None:
        self.members = {index: list(layers) for index, layers in enumerate(classes.members)}
        self.parts = np.array([parts[own].sum(axis=0) for own in self.members.values()])
        memory = [layer.most_memory_gib for layer in instance.layers]
        self.memory = np.array([math.fsum(memory[i] for i in layers) for layers in classes.members])
        # Where one unit holds the whole model, memory is no constraint.
        self.free_memory = math.fsum(memory) <= hardware_of(instance).room_gib.min()
        self.before: dict[int, set[int]] = {index: set() for index in self.members}
        self.after: dict[int, set[int]] = {index: set() for index in self.members}
        for a, b in classes.arcs:
            self.after[a].add(b)
            self.before[b].add(a)
        self.weights: dict[frozenset[int], Floats] = {}
        self.touching: dict[int, set[frozenset[int]]] = {index: set() for index in self.members}
        for tensor in classes.tensors:
            self._add(tensor.classes, transfer_s[tensor.layer])

    def _add(self, touched: frozenset[int], seconds: Floats) -> None:
        if len(touched) > 1 and seconds.any():
            self.weights[touched] = self.weights.get(touched, np.zeros(len(seconds))) + seconds
            for index in touched:
                self.touching[index].add(touched)

    def run(self) -> None:
        """Merge classes of layers without time into neighbours, as long as that makes no plan worse."""
        changed = True
        while changed:
            changed = False
            for index in list(self.members):
                check_time()
                host = self._merge_target(index) if self._has_no_time(index) else None
                if host is not None:
                    self._merge_into(index, host)
                    changed = True

    def _has_no_time(self, index: int) -> bool:
        parts = self.parts[index]
        return not parts[np.isfinite(parts)].any() and (self.free_memory or not self.memory[index])

    def _merge_target(self, index: int) -> int | None:
        """Return a class of layers into which one without time can be merged; None if none allows it."""
        own, sides = self.touching[index], (self.before[index], self.after[index])
        neighbours = [other for side in sides if len(side) == 1 for other in side]
        if not own and not any(sides):
            neighbours = [other for other in self.members if other != index]
        able = np.isfinite(self.parts[index, :, 0])
        nothing = np.zeros(len(able))
        for host in neighbours:
            if (np.isfinite(self.parts[host, :, 0]) & ~able).any():
                continue
            apart = [self.weights[touched] for touched in own if host not in touched]
            if (sum(apart, nothing) <= self.weights.get(frozenset((index, host)), nothing)).all():
                return host
        return None

    def _merge_into(self, index: int, host: int) -> None:
        self.members[host] += self.members.pop(index)
        able = np.isfinite(self.parts[host, :, 0])
        self.parts[host, able] += self.parts[index, able]
        self.memory[host] += self.memory[index]
        for mine, theirs in ((self.before, self.after), (self.after, self.before)):
            for other in mine.pop(index):
                theirs[other].discard(index)
                if other != host:
                    theirs[other].add(host)
                    mine[host].add(other)
        for touched in list(self.touching[index]):
            for other in touched:
                self.touching[other].discard(touched)
            self._add((touched - {index}) | {host}, self.weights.pop(touched))
        del self.touching[index]

    def blocks(self) -> Blocks:
        """Return the remaining classes of layers as blocks, in a topological order."""
        import networkx as nx

        order: nx.DiGraph[int] = nx.DiGraph()
        order.add_nodes_from(self.members)
        order.add_edges_from((a, b) for a in self.members for b in self.after[a])
        ordered = list(nx.lexicographical_topological_sort(order))
        place = {index: position for position, index in enumerate(ordered)}
        types = self.parts.shape[1]
        return Blocks(
            tuple(tuple(sorted(self.members[index])) for index in ordered),
            frozenset((place[a], place[b]) for a, b in order.edges),
            self.parts[ordered],
            self.memory[ordered],
            tuple(tuple(sorted(place[index] for index in touched)) for touched in self.weights),
            np.array(list(self.weights.values())).reshape(-1, types),
        )


MAX_IDEALS = 100_000
"""Maximum number of ideals; beyond it only those of one topological order are used."""


@dataclass(frozen=True)
class Ideals:
    """Ideals (down-sets) of the order of blocks, by rising size, from the empty set to all blocks.

    Attributes
    ----------
    sets
        The blocks of each as the bits of a number.
    start, block, target
        Ideal i with block b = block[e] added is ideal target[e], for e from start[i] to start[i + 1] - 1, by
        rising block.
    complete
        Whether these are all ideals.
    """

    sets: tuple[int, ...]
    start: Ints
    block: Ints
    target: Ints
    complete: bool

    def __len__(self) -> int:
        return len(self.sets)


def ideals_of(count: int, arcs: Collection[tuple[int, int]], most: int = MAX_IDEALS) -> Ideals:
    """Return the ideals (down-sets) of an order; with more than `most`, those of one topological order.

    Parameters
    ----------
    count
        Number of blocks.
    arcs
        Pairs a < b of which a belongs to every ideal with b.
    """
    needs = [0] * count
    followers: list[list[int]] = [[] for _ in range(count)]
    for a, b in arcs:
        needs[b] |= 1 << a
        followers[a].append(b)
    place, sets = {0: 0}, [0]
    addable = [[b for b in range(count) if not needs[b]]]
    start, block, target = [0], [], []
    # Both lists grow meanwhile.
    for ideal, own in until_time_limit(zip(sets, addable, strict=True)):
        if 1 << len(own) > most:
            # Every subset of these blocks makes a larger ideal.
            return prefix_ideals(count)
        for added in own:
            larger = ideal | 1 << added
            number = place.get(larger)
            if number is None:
                number = place[larger] = len(sets)
                if number >= most:
                    return prefix_ideals(count)
                sets.append(larger)
                freed = [b for b in followers[added] if not needs[b] & ~larger]
                addable.append(sorted([b for b in own if b != added] + freed))
            block.append(added)
            target.append(number)
        start.append(len(block))
    return Ideals(tuple(sets), np.array(start), np.array(block), np.array(target), complete=True)


def prefix_ideals(count: int) -> Ideals:
    """Return the ideals (down-sets) that are prefixes of the numbering of the blocks."""
    sets = tuple((1 << size) - 1 for size in range(count + 1))
    places = np.arange(count)
    return Ideals(sets, np.append(places, [count, count]), places, places + 1, complete=False)
