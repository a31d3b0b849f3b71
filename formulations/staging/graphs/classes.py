"""Classes of layers that are in one stage, their order, and the tensors that pass between them.

Layers of one colour make a class. A forward edge between two classes orders them; a class of backward layers
alone is ordered by the backward edges that touch it, reversed, as if forward layers mirrored them. Classes
in a cycle of this order are one, for no stage can come between them (Tarnawski et al. 2020, appendix).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ....instances.staging.instance import StagingInstance


@dataclass(frozen=True)
class Tensor:
    """The output of a layer, which passes between classes.

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
    """The classes of an instance, in an order of their arcs.

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

    def of_layer(self) -> dict[int, int]:
        """Return the class of each layer."""
        return {layer: index for index, layers in enumerate(self.members) for layer in layers}


def classes_of(instance: StagingInstance) -> Classes:
    """Return the classes of the layers of a graph."""
    import networkx as nx

    edges = instance.edges or ()
    place = {layer.name: index for index, layer in enumerate(instance.layers)}
    pairs = [(place[edge.source], place[edge.target]) for edge in edges]
    colour: list[Hashable] = [
        ("layer", index) if layer.colour is None else ("colour", layer.colour)
        for index, layer in enumerate(instance.layers)
    ]
    order: nx.DiGraph[Hashable] = nx.DiGraph()
    order.add_nodes_from(colour)
    order.add_edges_from(_arcs(instance, pairs, colour))
    merged = nx.condensation(order)
    # The order that follows the document keeps the layers of a branch together where it can.
    first: dict[Hashable, int] = {}
    for index, key in enumerate(colour):
        first.setdefault(key, index)
    rank = {node: min(first[key] for key in merged.nodes[node]["members"]) for node in merged}
    ordered = list(nx.lexicographical_topological_sort(merged, rank.__getitem__))
    position = {node: index for index, node in enumerate(ordered)}
    own = {key: position[node] for key, node in merged.graph["mapping"].items()}
    of_layer = [own[key] for key in colour]
    members: list[list[int]] = [[] for _ in ordered]
    for layer, index in enumerate(of_layer):
        members[index].append(layer)
    arcs = frozenset((position[a], position[b]) for a, b in merged.edges)
    return Classes(tuple(map(tuple, members)), arcs, tuple(_tensors(pairs, of_layer)))


def _arcs(
    instance: StagingInstance, pairs: Sequence[tuple[int, int]], colour: Sequence[Hashable]
) -> Iterator[tuple[Hashable, Hashable]]:
    """Yield which colour comes before which; the same colour may stand twice."""
    backward = [bool(layer.backward) for layer in instance.layers]
    forward = {key for key, back in zip(colour, backward, strict=True) if not back}
    for source, target in pairs:
        if not backward[source] and not backward[target]:
            yield colour[source], colour[target]
        elif backward[source] and not {colour[source], colour[target]} <= forward:
            # The forward pass of an orphan would run against the edges of its backward pass.
            yield colour[target], colour[source]


def _tensors(pairs: Sequence[tuple[int, int]], of_layer: Sequence[int]) -> Iterator[Tensor]:
    reached: dict[int, set[int]] = {}
    for source, target in pairs:
        reached.setdefault(source, {of_layer[source]}).add(of_layer[target])
    for layer, touched in sorted(reached.items()):
        if len(touched) > 1:
            yield Tensor(layer, frozenset(touched))


def place_of(stages: Sequence[Sequence[int]]) -> Mapping[int, int]:
    """Return in which stage each layer is."""
    return {layer: index for index, layers in enumerate(stages) for layer in layers}
