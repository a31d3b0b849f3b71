"""Cheapest chains of stages: shortest paths over (layer, type), for many weightings of the runs at once.

A chain is a sequence of runs, each beginning where the one before ends. Where neighbours have to differ in
type, a run may follow the cheapest way of any other type to its first layer, so that two numbers a layer,
the cheapest and the second cheapest type, carry the recursion: O(L²T) for a weighting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...formulations.common.clock import check_time
from ...instances.common.arrays import Floats, Ints


@dataclass(frozen=True)
class _Block:
    """Runs with a common end (or beginning), those of one type next to each other.

    Attributes
    ----------
    place
        Where in the given order the runs stand: a slice, or indices.
    state
        (position at the other end)·T + type.
    starts, kinds
        Where each type's runs begin, and which type it is.
    """

    place: slice | Ints
    state: Ints
    starts: Ints
    kinds: Ints


def _slices(sorted_layers: Ints) -> Iterator[tuple[int, int, int]]:
    """Yield each layer that occurs, with where it begins and ends."""
    layers, starts = np.unique(sorted_layers, return_index=True)
    edges = [*starts.tolist(), len(sorted_layers)]
    return zip(layers.tolist(), edges, edges[1:], strict=False)


def _groups(kinds: Ints) -> tuple[Ints, Ints]:
    """Return where each of the sorted types begins, and which it is."""
    starts = np.flatnonzero(np.concatenate([[True], kinds[1:] != kinds[:-1]]))
    return starts, kinds[starts]


class Chain:
    """Runs of layers and how they can follow each other.

    Parameters
    ----------
    layers, kinds
        L and T.
    first, last, kind
        Of each run, shape (n,), sorted by last layer, then type.
    apart
        Whether neighbours have to differ in type.
    """

    def __init__(self, layers: int, kinds: int, first: Ints, last: Ints, kind: Ints, apart: bool) -> None:
        self.layers, self.kinds = layers, kinds
        self.first, self.last, self.kind = first, last, kind
        self.apart = apart

    def only(self, keep: NDArray[np.bool_]) -> Chain:
        """Return the chain of some of the runs."""
        first, last, kind = self.first[keep], self.last[keep], self.kind[keep]
        return Chain(self.layers, self.kinds, first, last, kind, self.apart)

    @cached_property
    def _ending(self) -> dict[int, _Block]:
        """Runs by their last layer, those that there are."""
        state = self.first * self.kinds + self.kind
        return {
            layer: _Block(slice(start, end), state[start:end], *_groups(self.kind[start:end]))
            for layer, start, end in _slices(self.last)
        }

    @cached_property
    def _beginning(self) -> dict[int, _Block]:
        """Runs by their first layer, those that there are."""
        order = np.lexsort((self.kind, self.first))
        state, kind = ((self.last + 1) * self.kinds + self.kind)[order], self.kind[order]
        return {
            layer: _Block(order[start:end], state[start:end], *_groups(kind[start:end]))
            for layer, start, end in _slices(self.first[order])
        }

    def forward(self, weight: Floats) -> tuple[Floats, Floats]:
        """Return the cheapest ways from the first layer on.

        Parameters
        ----------
        weight
            Of each run, shape (B, n), infinite where it cannot be used.

        Returns
        -------
        whole, reach
            Least weight of a chain of all layers, shape (B,), and, shape (B, L + 1, T), of one that ends
            before layer p and that a run of type t may follow.
        """
        arrive = np.full((len(weight), self.kinds), np.inf)
        reach = np.full((len(weight), self.layers + 1, self.kinds), np.inf)
        reach[:, 0] = 0.0
        flat, whole = reach.reshape(len(weight), -1), np.full(len(weight), np.inf)
        for layer, block in self._ending.items():
            check_time()
            ways = weight[:, block.place] + flat.take(block.state, axis=1)
            arrive.fill(np.inf)
            arrive[:, block.kinds] = np.minimum.reduceat(ways, block.starts, axis=1)
            if layer == self.layers - 1:
                whole = arrive.min(axis=1)
            reach[:, layer + 1] = self._onward(arrive)
        return whole, reach

    def backward(self, weight: Floats) -> Floats:
        """Return the least weight of a chain from layer p to the end that may follow a run of type t.

        Shape (B, L + 1, T); `weight` is as in `forward`.
        """
        leave = np.full((len(weight), self.kinds), np.inf)
        rest = np.full((len(weight), self.layers + 1, self.kinds), np.inf)
        rest[:, self.layers] = 0.0
        flat = rest.reshape(len(weight), -1)
        for layer, block in reversed(self._beginning.items()):
            check_time()
            ways = weight[:, block.place] + flat.take(block.state, axis=1)
            leave.fill(np.inf)
            leave[:, block.kinds] = np.minimum.reduceat(ways, block.starts, axis=1)
            rest[:, layer] = self._onward(leave)
        return rest

    def _onward(self, least: Floats) -> Floats:
        """Return for each type the least over the types that may be its neighbour; overwrites `least`."""
        if not self.apart:
            return np.asarray(least.min(axis=1, keepdims=True))
        rows, best = np.arange(len(least)), least.argmin(axis=1)
        result = np.empty_like(least)
        result[:] = least[rows, best, None]
        least[rows, best] = np.inf
        result[rows, best] = least.min(axis=1)
        return result

    def beside(self, weight: Floats, reach: Floats) -> Floats:
        """Return the least weight of what a chain needs beside each run, shape (B, n)."""
        rest = self.backward(weight)
        before = reach.reshape(len(weight), -1).take(self.first * self.kinds + self.kind, axis=1)
        after = rest.reshape(len(weight), -1).take((self.last + 1) * self.kinds + self.kind, axis=1)
        before += after
        return before

    def cheapest(self, weight: Floats, reach: Floats) -> Ints:
        """Return the runs, in order, of a chain of least weight.

        Parameters
        ----------
        weight, reach
            Of one weighting, shapes (n,) and (L + 1, T); there has to be a chain.
        """
        return np.array(list(self._trace(weight, reach.ravel()))[::-1], dtype=np.int64)

    def _trace(self, weight: Floats, reach: Floats) -> Iterator[int]:
        layer, after = self.layers, -1
        while layer > 0:
            block = self._ending[layer - 1]
            assert isinstance(block.place, slice)
            ways = weight[block.place] + reach.take(block.state)
            if self.apart and after >= 0:
                ways[self.kind[block.place] == after] = np.inf
            run = block.place.start + int(ways.argmin())
            yield run
            layer, after = int(self.first[run]), int(self.kind[run])
