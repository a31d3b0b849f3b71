"""Blocks: classes that take no time merged into a neighbour, where that makes no plan worse.

Moving a class n without time and memory into the stage of m changes only transfers. No stage then pays more
if each tensor that n touches is also one of m, or if the tensors between n and m alone weigh at least as much
as those of n without m. The order of stages allows it where m is the only class before n, or the only one
after it. Where stages relay, the same holds of what is cut by the ideals between the two stages, which gain n
or lose it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ....instances.common.arrays import Floats
from ....instances.staging.instance import StagingInstance
from ...common.clock import check_time
from ...common.tolerance import loosened
from ..stage_times import layer_parts
from .classes import Classes
from .stage_times import tensor_seconds


@dataclass(frozen=True)
class Blocks:
    """The blocks of a graph, in an order of their arcs.

    Attributes
    ----------
    layers
        Indices of the layers of each block.
    arcs
        Pairs of blocks, the first of which is in the stage of the second or an earlier one.
    parts
        S, A, S' and A' of each block on each type, shape (B, T, 4); S is infinite where it cannot run.
    memory_gib
        Of each block, shape (B,).
    tensors
        The blocks that each tensor touches, at least two.
    transfer_s
        Of each tensor on each type, shape (H, T).
    """

    layers: tuple[tuple[int, ...], ...]
    arcs: frozenset[tuple[int, int]]
    parts: Floats
    memory_gib: Floats
    tensors: tuple[tuple[int, ...], ...]
    transfer_s: Floats

    def __len__(self) -> int:
        return len(self.layers)


def blocks_of(instance: StagingInstance, classes: Classes) -> Blocks:
    """Return the blocks of the classes of an instance."""
    merging = _Merging(instance, classes)
    merging.run()
    return merging.blocks()


class _Merging:
    """Classes that absorb others; an absorbed one has no place in `members` any more."""

    def __init__(self, instance: StagingInstance, classes: Classes) -> None:
        self.members = {index: list(layers) for index, layers in enumerate(classes.members)}
        single = np.array(
            [[layer_parts(layer, one.name) for one in instance.types] for layer in instance.layers]
        )
        self.parts = np.array([single[list(layers)].sum(axis=0) for layers in classes.members])
        memory = [layer.most_memory_gib for layer in instance.layers]
        self.memory = np.array([math.fsum(memory[i] for i in layers) for layers in classes.members])
        room = [one.memory_gib for one in instance.types if one.memory_gib is not None]
        # Where one unit holds the whole model, memory decides nothing.
        self.free_memory = math.fsum(memory) <= loosened(min(room, default=math.inf))
        self.before: dict[int, set[int]] = {index: set() for index in self.members}
        self.after: dict[int, set[int]] = {index: set() for index in self.members}
        for a, b in classes.arcs:
            self.after[a].add(b)
            self.before[b].add(a)
        self.weights: dict[frozenset[int], Floats] = {}
        self.touching: dict[int, set[frozenset[int]]] = {index: set() for index in self.members}
        for tensor in classes.tensors:
            self._add(tensor.classes, np.array(tensor_seconds(instance, tensor.layer)))

    def _add(self, touched: frozenset[int], seconds: Floats) -> None:
        if len(touched) > 1 and seconds.any():
            self.weights[touched] = self.weights.get(touched, np.zeros(len(seconds))) + seconds
            for index in touched:
                self.touching[index].add(touched)

    def run(self) -> None:
        """Merge until nothing changes."""
        changed = True
        while changed:
            changed = False
            for index in list(self.members):
                check_time()
                host = self._host(index) if self._takes_nothing(index) else None
                if host is not None:
                    self._absorb(index, host)
                    changed = True

    def _takes_nothing(self, index: int) -> bool:
        parts = self.parts[index]
        return bool((np.where(np.isinf(parts), 0.0, parts) == 0).all()) and (
            self.free_memory or not self.memory[index]
        )

    def _host(self, index: int) -> int | None:
        """Return the class that may take in a class without time."""
        own = self.touching[index]
        neighbours: Iterable[int] = [*self.before[index]] if len(self.before[index]) == 1 else []
        if len(self.after[index]) == 1:
            neighbours = [*neighbours, *self.after[index]]
        if not own and not self.before[index] and not self.after[index]:
            neighbours = [other for other in self.members if other != index]
        able = np.isfinite(self.parts[index, :, 0])
        for host in neighbours:
            if (np.isfinite(self.parts[host, :, 0]) & ~able).any():
                continue
            apart = [self.weights[touched] for touched in own if host not in touched]
            between = self.weights.get(frozenset((index, host)), np.zeros(len(able)))
            if bool((sum(apart, np.zeros(len(able))) <= between).all()):
                return host
        return None

    def _absorb(self, index: int, host: int) -> None:
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
        """Return what is left, in an order of its arcs."""
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
