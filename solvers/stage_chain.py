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

from ..formulations.stage_times import Floats, Ints


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
        columns = (column[keep] for column in (self.first, self.last, self.kind))
        return Chain(self.layers, self.kinds, *columns, self.apart)

    @cached_property
    def _ending(self) -> list[_Block | None]:
        edges = np.searchsorted(self.last, np.arange(self.layers + 1)).tolist()
        state = self.first * self.kinds + self.kind
        return [
            self._block(slice(a, b), state[a:b], self.kind[a:b])
            for a, b in zip(edges, edges[1:], strict=False)
        ]

    @cached_property
    def _beginning(self) -> list[_Block | None]:
        order = np.lexsort((self.kind, self.first))
        edges = np.searchsorted(self.first[order], np.arange(self.layers + 1)).tolist()
        state = ((self.last + 1) * self.kinds + self.kind)[order]
        return [
            self._block(order[a:b], state[a:b], self.kind[order[a:b]])
            for a, b in zip(edges, edges[1:], strict=False)
        ]

    @staticmethod
    def _block(place: slice | Ints, state: Ints, kind: Ints) -> _Block | None:
        if not len(kind):
            return None
        starts = np.flatnonzero(np.concatenate([[True], kind[1:] != kind[:-1]]))
        return _Block(place, state, starts, kind[starts])

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
        flat = reach.reshape(len(weight), -1)
        for layer, block in enumerate(self._ending):
            arrive.fill(np.inf)
            if block is not None:
                ways = weight[:, block.place] + flat.take(block.state, axis=1)
                arrive[:, block.kinds] = np.minimum.reduceat(ways, block.starts, axis=1)
            reach[:, layer + 1] = self._onward(arrive)
        return arrive.min(axis=1), reach

    def backward(self, weight: Floats) -> Floats:
        """Return the least weight of a chain from layer p to the end that may follow a run of type t.

        Shape (B, L + 1, T); `weight` is as in `forward`.
        """
        leave = np.full((len(weight), self.kinds), np.inf)
        rest = np.full((len(weight), self.layers + 1, self.kinds), np.inf)
        rest[:, self.layers] = 0.0
        flat = rest.reshape(len(weight), -1)
        for layer in range(self.layers - 1, -1, -1):
            leave.fill(np.inf)
            block = self._beginning[layer]
            if block is not None:
                ways = weight[:, block.place] + flat.take(block.state, axis=1)
                leave[:, block.kinds] = np.minimum.reduceat(ways, block.starts, axis=1)
            rest[:, layer] = self._onward(leave)
        return rest

    def _onward(self, least: Floats) -> Floats:
        """Return for each type the least over the types that may be its neighbour."""
        if not self.apart:
            return least.min(axis=1, keepdims=True)
        rows, best = np.arange(len(least)), least.argmin(axis=1)
        first = least[rows, best]
        others = least.copy()
        others[rows, best] = np.inf
        result = np.repeat(first[:, None], self.kinds, axis=1)
        result[rows, best] = others.min(axis=1)
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
            assert block is not None
            assert isinstance(block.place, slice)
            ways = weight[block.place] + reach.take(block.state)
            if self.apart and after >= 0:
                ways[self.kind[block.place] == after] = np.inf
            run = block.place.start + int(ways.argmin())
            yield run
            layer, after = int(self.first[run]), int(self.kind[run])
