"""Implicit enumeration by the check: is there a path of stages below a cutoff within the limits?

A label holds what the stages so far consume and cost, and the type of the last one (labels of a resource-
constrained shortest path, Irnich & Desaulniers 2005). A label is pruned where dual prices on what is left of
the limits prove that it cannot end below the cutoff, and of labels with equal consumption only the cheapest
stays. Several price vectors around the given one are tried on every label, and any of them may prune it. All
comparisons leave a margin for rounding, on the side that keeps labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ....instances.common.arrays import Floats, Ints
from ...common.check.enumeration import cheapest_states, multipliers
from ...common.clock import check_time

MOST_ARCS = 4000
"""Networks with more are not enumerated."""
MOST_LABELS = 1_000_000
"""Labels that wait at one layer; the enumeration gives up beyond."""
MOST_WORK = 40_000_000
"""Bounds evaluated for one interval, which takes a second or two."""
MOST_DOMINATING = 48
"""Labels of a type that are compared with all others: those that consume and cost no less are dominated."""
MARGIN = 1e-12
"""Relative to everything that is added up."""


@dataclass(frozen=True)
class Arcs:
    """Segments with their fewest units, as arcs from a layer to the layer after the segment.

    Attributes
    ----------
    first, after, type
        First layer, the layer after the last, and type, shape (K,).
    cost
        Shape (K,).
    consumption
        Of each limit, shape (R, K).
    """

    first: Ints
    after: Ints
    type: Ints
    cost: Floats
    consumption: Floats


@dataclass(frozen=True)
class Network:
    """All paths that arcs make.

    Attributes
    ----------
    types
        T where neighbours have to differ in type; 0 where they need not.
    capacity
        Of each limit, shape (R,).
    """

    arcs: Arcs
    layers: int
    types: int
    capacity: Floats


def none_below(
    network: Network, prices: Floats, cutoff: float, most_work: int = MOST_WORK
) -> tuple[bool | None, int]:
    """Return whether no path within the limits costs less than the cutoff, and the work it took.

    Parameters
    ----------
    prices
        y ≥ 0, shape (R,); any are right, good ones make it fast.
    cutoff
        Infinite: whether there is no path within the limits at all.

    Returns
    -------
    answer, work
        True if it is proven, False if there is such a path within rounding, None if the enumeration gave up.
    """
    if len(network.arcs.cost) > MOST_ARCS:
        return None, 0
    if math.isinf(cutoff):
        # Costs play no part, and without them more labels are equal.
        free = replace(network.arcs, cost=np.zeros_like(network.arcs.cost))
        network = replace(network, arcs=free)
    pruning = _Pruning(network, prices, cutoff)
    arcs, order = network.arcs, np.argsort(network.arcs.first, kind="stable")
    edges = np.searchsorted(arcs.first[order], np.arange(network.layers + 1))
    # A label is a row: type of the last stage (-1: none), consumption of each limit, cost.
    waiting: list[list[Floats]] = [[] for _ in range(network.layers + 1)]
    waiting[0].append(np.concatenate([[-1.0], np.zeros(len(network.capacity) + 1)])[None])
    for layer in range(network.layers):
        if not waiting[layer]:
            continue
        labels = pruning.undominated(_cheapest(np.concatenate(waiting[layer])))
        waiting[layer] = []
        for arc in order[edges[layer] : edges[layer + 1]].tolist():
            check_time()
            after, unit_type = int(arcs.after[arc]), int(arcs.type[arc])
            moved = labels[labels[:, 0] != unit_type] if network.types else labels.copy()
            moved[:, 0] = unit_type if network.types else -1.0
            moved[:, 1:-1] += arcs.consumption[:, arc]
            moved[:, -1] += arcs.cost[arc]
            moved = pruning.kept(moved, after, unit_type)
            if len(moved):
                waiting[after].append(moved)
            if sum(map(len, waiting[after])) > MOST_LABELS or pruning.work > min(MOST_WORK, most_work):
                return None, pruning.work
    return not waiting[network.layers], pruning.work


def _cheapest(labels: Floats) -> Floats:
    """Return the cheapest of the labels of one type with equal consumption."""
    same, cost = cheapest_states(labels[:, :-1], labels[:, -1])
    return np.column_stack([same, cost])


class _Pruning:
    """Prunes labels: for every (w, y), w·cost + y·consumption plus the least of the rest has to fit."""

    def __init__(self, network: Network, prices: Floats, cutoff: float) -> None:
        weights, vectors = multipliers(prices)
        if math.isinf(cutoff):
            weights, cutoff = 0 * weights, 0.0
        useful = (weights > 0) | vectors.any(axis=1)
        weights, vectors = weights[useful], vectors[useful]
        arcs = network.arcs
        values = weights[:, None] * arcs.cost + vectors @ arcs.consumption
        self.remaining = _remaining(network, values)
        spare = vectors @ network.capacity
        self.threshold = weights * cutoff + spare
        self.threshold = self.threshold + MARGIN * (np.abs(self.threshold) + spare) + 1e-280
        self.weights, self.vectors = weights, vectors
        self.capacity = network.capacity * (1 + MARGIN)
        self.alternating = bool(network.types)
        self.work = 0

    def undominated(self, labels: Floats) -> Floats:
        """Return the labels without those that consume and cost no less than a strong one of their type."""
        if len(labels) < 2:
            return labels
        alive = np.ones(len(labels), dtype=bool)
        value = self.weights[0] * labels[:, -1] + labels[:, 1:-1] @ self.vectors[0]
        for unit_type in np.unique(labels[:, 0]).tolist():
            own = np.flatnonzero(labels[:, 0] == unit_type)
            # Labels of least priced cost dominate most others; comparing all pairs would cost too much.
            strongest = own[np.argsort(value[own], kind="stable")[:MOST_DOMINATING]]
            self.work += len(own) * len(strongest)
            for strong in strongest.tolist():
                if alive[strong]:
                    worse = (labels[own, 1:] >= labels[strong, 1:]).all(axis=1)
                    alive[own[worse]] = False
                    alive[strong] = True
        return labels[alive]

    def kept(self, labels: Floats, layer: int, unit_type: int) -> Floats:
        """Return the labels that may still end below the cutoff, at a layer after a stage of a type."""
        labels = labels[(labels[:, 1:-1] <= self.capacity).all(axis=1)]
        remaining = self.remaining[:, layer, unit_type if self.alternating else 0]
        for weight, vector, most in zip(self.weights, self.vectors, self.threshold - remaining, strict=True):
            if not len(labels):
                break
            self.work += len(labels)
            labels = labels[weight * labels[:, -1] + labels[:, 1:-1] @ vector <= most]
        return labels


def _remaining(network: Network, values: Floats) -> Floats:
    """Return the least value from each layer to the end, shape (M, L + 1, T), for values of shape (M, K)."""
    arcs, types = network.arcs, max(1, network.types)
    remaining = np.full((len(values), network.layers + 1, types), math.inf)
    remaining[:, network.layers] = 0.0
    order = np.argsort(arcs.first, kind="stable")
    edges = np.searchsorted(arcs.first[order], np.arange(network.layers + 1))
    for layer in range(network.layers - 1, -1, -1):
        least = np.full((len(values), types), math.inf)
        for arc in order[edges[layer] : edges[layer + 1]].tolist():
            unit_type = int(arcs.type[arc]) if network.types else 0
            way = values[:, arc] + remaining[:, arcs.after[arc], unit_type]
            np.minimum(least[:, unit_type], way, out=least[:, unit_type])
        if not network.types:
            remaining[:, layer] = least
            continue
        for unit_type in range(types):
            others = np.delete(least, unit_type, axis=1)
            remaining[:, layer, unit_type] = others.min(axis=1) if others.shape[1] else math.inf
    return remaining
