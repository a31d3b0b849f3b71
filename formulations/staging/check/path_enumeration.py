"""Implicit enumeration by the check: is there a path of stages below a cutoff within the limits?

A label holds what the stages so far consume and cost, and the type of the last one (labels of a resource-
constrained shortest path, Irnich & Desaulniers 2005). A label is pruned where dual prices on what is left of
the limits prove that it cannot end below the cutoff, and of labels with equal consumption only the cheapest
stays. Several price vectors around the given one are tried on every label, and bounds that count the units of
some limits exactly (`state_space.py`); any of them may prune it. All comparisons leave a margin for rounding,
on the side that keeps labels.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from ....instances.common.arrays import Floats
from ...common.check.enumeration import cheapest_states, multipliers
from ...common.clock import time_is_up
from .kernels import extended
from .network import Network
from .state_space import MOST_CELLS, countings, left_by_state, surviving

MOST_ARCS = 20_000
"""Networks with more are not looked at."""
MOST_ENUMERATED = 4000
"""Networks with more arcs, once bounds have left out what they can, are not enumerated."""
MOST_LABELS = 1_000_000
"""Labels that wait at one layer; the enumeration gives up beyond."""
MOST_WORK = 120_000_000
"""Bounds evaluated for one interval, which takes a second or two."""
MOST_COUNTINGS, CELLS_OF_AN_ARC = 4, 2000
"""Groups of limits whose units are counted for the bounds of labels; cells of each, for an arc."""
MOST_DOMINATING = 48
"""Labels of a type that are compared with all others: those that consume and cost no less are dominated."""
MARGIN = 1e-12
"""Relative to everything that is added up."""


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
    if len(network) > MOST_ARCS:
        return None, 0
    # Where costs play no part more labels are equal without them.
    whole = network.free() if math.isinf(cutoff) else network
    network, work = surviving(whole.sorted().compact(), prices, 0.0 if math.isinf(cutoff) else cutoff)
    if not len(network):
        return True, work
    if len(network) > MOST_ENUMERATED:
        return None, work
    pruning = _Pruning(network, prices, cutoff)
    pruning.work = work
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
            if time_is_up():
                return None, pruning.work
            after, moved = int(arcs.after[arc]), pruning.extended(labels, arc)
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
    """Prunes labels: for every (w, y), w·cost + y·consumption plus the least of the rest has to fit.

    Where units are counted, the least of the rest depends on what is left of them.
    """

    def __init__(self, network: Network, prices: Floats, cutoff: float) -> None:
        self.network = network
        weights, vectors = multipliers(prices)
        weight, cutoff = (0.0, 0.0) if math.isinf(cutoff) else (1.0, cutoff)
        weights = weights * weight
        useful = (weights > 0) | vectors.any(axis=1)
        weights, vectors = weights[useful], vectors[useful]
        arcs = network.arcs
        left = [_remaining(network, weights[:, None] * arcs.cost + vectors @ arcs.consumption)]
        places = np.zeros(vectors.shape, dtype=np.int64)
        cells = min(MOST_CELLS[-1], CELLS_OF_AN_ARC * len(network))
        for counting in itertools.islice(countings(network, prices, cells), MOST_COUNTINGS):
            left.append(left_by_state(network, counting))
            weights = np.append(weights, weight)
            vectors, places = np.vstack([vectors, counting.prices]), np.vstack([places, counting.places])
        states = [1] * left[0].shape[2] + [table.shape[2] for table in left[1:]]
        self.left = np.ascontiguousarray(np.concatenate(left, axis=2))
        self.full = np.cumsum(states) - 1
        spare = vectors @ network.capacity
        most = weights * cutoff + spare
        self.most = most + MARGIN * (np.abs(most) + spare) + 1e-280
        self.weights, self.vectors, self.places = weights, vectors, places
        self.capacity = network.capacity * (1 + MARGIN)
        self.use = np.ascontiguousarray(arcs.consumption.T)
        self.kind = network.kind
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

    def extended(self, labels: Floats, arc: int) -> Floats:
        """Return the labels that an arc extends and that may still end below the cutoff."""
        arcs, kind = self.network.arcs, int(self.kind[arc])
        moved, work = extended(
            labels,
            kind,
            self.use[arc],
            float(arcs.cost[arc]),
            self.network.types > 0,
            self.capacity,
            self.weights,
            self.vectors,
            self.places,
            self.full,
            self.most,
            self.left[int(arcs.after[arc]), kind],
        )
        self.work += int(work)
        found: Floats = moved
        return found


def _remaining(network: Network, values: Floats) -> Floats:
    """Return the least value from each layer to the end, shape (L + 1, T, M), for values of shape (M, K)."""
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
    return remaining.transpose(1, 2, 0)
