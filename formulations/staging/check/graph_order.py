"""Independent derivation of a graph for the check: groups of layers that share a stage, order and ideals.

It implements docs/problems/staging.md without the code of the solvers. Layers that share a stage are found by
reachability; ideals are enumerated from all layers downwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from graphlib import TopologicalSorter

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from ....instances.common.arrays import Floats
from ....instances.common.errors import TooLargeError
from ....instances.staging.instance import Layer, StagingInstance
from ...common.clock import check_time
from ...common.objective import loosened

MAX_IDEALS = 200_000
Bools = NDArray[np.bool_]


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
        for head, own in members.items():
            parts = sum(_layer_parts(instance, instance.layers[layer]) for layer in own)
            memory = math.fsum(instance.layers[layer].most_memory_gib for layer in own)
            self.groups[head] = Group(own, np.asarray(parts), memory, set(), set())
        for a, b in arcs:
            if number[a] != number[b]:
                self.groups[number[b]].before.add(number[a])
                self.groups[number[a]].after.add(number[b])
        place = {layer.name: index for index, layer in enumerate(instance.layers)}
        touched: dict[int, set[int]] = {}
        for edge in instance.edges or ():
            source = place[edge.source]
            touched.setdefault(source, {number[source]}).add(number[place[edge.target]])
        self.tensors = [
            (frozenset(numbers), _transfer_seconds(instance, instance.layers[source]))
            for source, numbers in touched.items()
        ]
        self.tensors = [(own, s) for own, s in self.tensors if len(own) > 1 and s.any()]
        self.touching: dict[int, set[int]] = {number: set() for number in self.groups}
        for index, (numbers, _) in enumerate(self.tensors):
            for one in numbers:
                self.touching[one].add(index)
        self._merge_idle()
        # A tensor that now touches a single group is never cut.
        self.tensors = [(own, s) for own, s in self.tensors if len(own) > 1]

    def _merge_idle(self) -> None:
        """Merge groups of layers without time into neighbours, while that makes no plan worse."""
        rooms = [one.memory_gib for one in self.instance.types if one.memory_gib is not None]
        needed = math.fsum(layer.most_memory_gib for layer in self.instance.layers)
        roomy = needed <= loosened(min(rooms, default=math.inf))
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


def _layer_parts(instance: StagingInstance, layer: Layer) -> Floats:
    """Return the parts S, A, S' and A' of a layer's time [s] on each hardware type, shape (T, 4).

    S + A/k is compute time, S' + A'/k communication time, on k devices.
    """
    rows = []
    for one in instance.types:
        alpha, beta = (
            shares.get(one.name, 0.0) if isinstance(shares, dict) else shares
            for shares in (layer.compute_parallel, layer.communication_parallel)
        )
        if one.name in layer.compute_s:
            c, d = layer.compute_s[one.name], layer.communication_s.get(one.name, 0.0)
            rows.append([c * (1 - alpha), c * alpha, d * (1 - beta), d * beta])
        else:
            rows.append([math.inf, 0.0, 0.0, 0.0])
    return np.array(rows)


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
