"""An exhaustive search of the checker's own: is there a chain of stages below a cutoff within the limits?

States are what the stages so far take and cost, and the type of the last one; they move from layer to layer.
A state goes where prices on what is left prove that it cannot end below the cutoff within the limits, and of
states that take the same only the cheapest stays. Several price vectors around the given one are tried on
every state, and any of them may rule it out. All comparisons leave a margin for rounding, on the side that
keeps states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ..common.check.enumeration import cheapest_states, multipliers
from ..common.clock import check_time

MOST_OPTIONS = 4000
"""Ways to use runs that the search is tried on."""
MOST_STATES = 1_000_000
"""States that wait at one layer; the search gives up beyond."""
MOST_WORK = 40_000_000
"""Bounds evaluated for one interval, which takes a second or two."""
STRONGEST = 48
"""States of a type that are tried against all others: what takes no less and costs no less goes."""
MARGIN = 1e-12
"""Relative to everything that is added up."""


@dataclass(frozen=True)
class Options:
    """Ways to use runs of layers.

    Attributes
    ----------
    first, after, kind
        First layer, the layer after the last, and type, shape (K,).
    cost
        Shape (K,).
    taken
        Of each limit, shape (R, K).
    """

    first: Ints
    after: Ints
    kind: Ints
    cost: Floats
    taken: Floats


@dataclass(frozen=True)
class Chains:
    """All chains that options make.

    Attributes
    ----------
    kinds
        T where neighbours have to differ in type; 0 where they need not.
    most
        What there is of each limit, shape (R,).
    """

    options: Options
    layers: int
    kinds: int
    most: Floats


def none_below(
    chains: Chains, prices: Floats, cutoff: float, most_work: int = MOST_WORK
) -> tuple[bool | None, int]:
    """Return whether no chain within the limits costs less than the cutoff, and the work it took.

    Parameters
    ----------
    prices
        y ≥ 0, shape (R,); any are right, good ones make it fast.
    cutoff
        Infinite: whether there is no chain within the limits at all.

    Returns
    -------
    answer, work
        True if it is proven, False if there is such a chain within rounding, None if the search gave up.
    """
    if len(chains.options.cost) > MOST_OPTIONS:
        return None, 0
    if math.isinf(cutoff):
        # Costs play no part, and without them more states are the same.
        free = replace(chains.options, cost=np.zeros_like(chains.options.cost))
        chains = replace(chains, options=free)
    bounds = _Bounds(chains, prices, cutoff)
    options, order = chains.options, np.argsort(chains.options.first, kind="stable")
    edges = np.searchsorted(options.first[order], np.arange(chains.layers + 1))
    limits = len(chains.most)
    waiting: list[list[Floats]] = [[] for _ in range(chains.layers + 1)]
    waiting[0].append(np.concatenate([[-1.0], np.zeros(limits + 1)])[None])
    for layer in range(chains.layers):
        if not waiting[layer]:
            continue
        states = bounds.undominated(_merged(np.concatenate(waiting[layer])))
        waiting[layer] = []
        for option in order[edges[layer] : edges[layer + 1]].tolist():
            check_time()
            after, kind = int(options.after[option]), int(options.kind[option])
            moved = states[states[:, 0] != kind] if chains.kinds else states.copy()
            moved[:, 0] = kind if chains.kinds else -1.0
            moved[:, 1:-1] += options.taken[:, option]
            moved[:, -1] += options.cost[option]
            moved = bounds.kept(moved, after, kind)
            if len(moved):
                waiting[after].append(moved)
            if sum(map(len, waiting[after])) > MOST_STATES or bounds.work > min(MOST_WORK, most_work):
                return None, bounds.work
    return not waiting[chains.layers], bounds.work


def _merged(states: Floats) -> Floats:
    """Return of the states of one type that take the same the cheapest."""
    same, spent = cheapest_states(states[:, :-1], states[:, -1])
    return np.column_stack([same, spent])


class _Bounds:
    """Rules out states: for every (w, y), w·cost + y·taken, and what the rest adds at least, has to fit."""

    def __init__(self, chains: Chains, prices: Floats, cutoff: float) -> None:
        weights, vectors = multipliers(prices)
        if math.isinf(cutoff):
            weights, cutoff = 0 * weights, 0.0
        useful = (weights > 0) | vectors.any(axis=1)
        weights, vectors = weights[useful], vectors[useful]
        options = chains.options
        values = weights[:, None] * options.cost + vectors @ options.taken
        self.rest = _rest(chains, values)
        self.room = weights * cutoff + vectors @ chains.most
        self.room = self.room + MARGIN * (np.abs(self.room) + vectors @ chains.most) + 1e-280
        self.weights, self.vectors = weights, vectors
        self.most = chains.most * (1 + MARGIN)
        self.apart = bool(chains.kinds)
        self.work = 0

    def undominated(self, states: Floats) -> Floats:
        """Return the states without those that take and cost no less than a strong one of their type."""
        if len(states) < 2:
            return states
        alive = np.ones(len(states), dtype=bool)
        value = self.weights[0] * states[:, -1] + states[:, 1:-1] @ self.vectors[0]
        for kind in np.unique(states[:, 0]).tolist():
            own = np.flatnonzero(states[:, 0] == kind)
            strongest = own[np.argsort(value[own], kind="stable")[:STRONGEST]]
            self.work += len(own) * len(strongest)
            for strong in strongest.tolist():
                if alive[strong]:
                    worse = (states[own, 1:] >= states[strong, 1:]).all(axis=1)
                    alive[own[worse]] = False
                    alive[strong] = True
        return states[alive]

    def kept(self, states: Floats, layer: int, kind: int) -> Floats:
        """Return the states that may still end below the cutoff, having come to a layer on a type."""
        states = states[(states[:, 1:-1] <= self.most).all(axis=1)]
        rest = self.rest[:, layer, kind if self.apart else 0]
        for weight, vector, room in zip(self.weights, self.vectors, self.room - rest, strict=True):
            if not len(states):
                break
            self.work += len(states)
            states = states[weight * states[:, -1] + states[:, 1:-1] @ vector <= room]
        return states


def _rest(chains: Chains, values: Floats) -> Floats:
    """Return what the layers from each on add at least, shape (M, L + 1, T), for values of shape (M, K)."""
    options, kinds = chains.options, max(1, chains.kinds)
    rest = np.full((len(values), chains.layers + 1, kinds), math.inf)
    rest[:, chains.layers] = 0.0
    order = np.argsort(options.first, kind="stable")
    edges = np.searchsorted(options.first[order], np.arange(chains.layers + 1))
    for layer in range(chains.layers - 1, -1, -1):
        least = np.full((len(values), kinds), math.inf)
        for option in order[edges[layer] : edges[layer + 1]].tolist():
            kind = int(options.kind[option]) if chains.kinds else 0
            way = values[:, option] + rest[:, options.after[option], kind]
            np.minimum(least[:, kind], way, out=least[:, kind])
        if not chains.kinds:
            rest[:, layer] = least
            continue
        for kind in range(kinds):
            others = np.delete(least, kind, axis=1)
            rest[:, layer, kind] = others.min(axis=1) if others.shape[1] else math.inf
    return rest
