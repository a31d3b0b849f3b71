"""Shortest paths of segments over (layer, type), for many weightings of the segments at once.

A path is a sequence of segments, each beginning where the one before ends. Where neighbours have to differ in
type, a segment follows the cheapest path of any other type to its first layer, so that two numbers a layer,
the cheapest and the second cheapest type, carry the dynamic program: O(L²T) for a weighting.
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
    """Segments with a common end (or beginning), those of one type next to each other.

    Attributes
    ----------
    place
        Where in the given order the segments stand: a slice, or indices.
    state
        (position at the other end)·T + type.
    starts, types
        Where each type's segments begin, and which type it is.
    """

    place: slice | Ints
    state: Ints
    starts: Ints
    types: Ints


def _slices(sorted_layers: Ints) -> Iterator[tuple[int, int, int]]:
    """Yield each layer that occurs, with where it begins and ends."""
    layers, starts = np.unique(sorted_layers, return_index=True)
    edges = [*starts.tolist(), len(sorted_layers)]
    return zip(layers.tolist(), edges, edges[1:], strict=False)


def _groups(types: Ints) -> tuple[Ints, Ints]:
    """Return where each of the sorted types begins, and which it is."""
    starts = np.flatnonzero(np.concatenate([[True], types[1:] != types[:-1]]))
    return starts, types[starts]


class SegmentGraph:
    """The segments as arcs between layers, and which may follow which.

    Parameters
    ----------
    layers, types
        L and T.
    first, last, unit_type
        Of each segment, shape (n,), sorted by last layer, then type.
    alternating
        Whether neighbours have to differ in type.
    """

    def __init__(
        self, layers: int, types: int, first: Ints, last: Ints, unit_type: Ints, alternating: bool
    ) -> None:
        # Forward blocks are slices of the given order, which is why it has to be sorted.
        self.layers, self.types = layers, types
        self.first, self.last, self.unit_type = first, last, unit_type
        self.alternating = alternating

    def only(self, keep: NDArray[np.bool_] | Ints) -> SegmentGraph:
        """Return the graph of some of the segments."""
        first, last, unit_type = self.first[keep], self.last[keep], self.unit_type[keep]
        return SegmentGraph(self.layers, self.types, first, last, unit_type, self.alternating)

    @cached_property
    def _ending(self) -> dict[int, _Block]:
        """Segments by their last layer, those that there are."""
        state = self.first * self.types + self.unit_type
        return {
            layer: _Block(slice(start, end), state[start:end], *_groups(self.unit_type[start:end]))
            for layer, start, end in _slices(self.last)
        }

    @cached_property
    def _beginning(self) -> dict[int, _Block]:
        """Segments by their first layer, those that there are."""
        order = np.lexsort((self.unit_type, self.first))
        state, unit_type = ((self.last + 1) * self.types + self.unit_type)[order], self.unit_type[order]
        return {
            layer: _Block(order[start:end], state[start:end], *_groups(unit_type[start:end]))
            for layer, start, end in _slices(self.first[order])
        }

    def forward(self, weight: Floats) -> tuple[Floats, Floats]:
        """Return the least weights of paths from the first layer on.

        Parameters
        ----------
        weight
            Of each segment, shape (B, n), infinite where it cannot be used.

        Returns
        -------
        shortest, arrival
            Least weight of a path of all layers, shape (B,), and, shape (B, L + 1, T), of one that ends
            before layer p and that a segment of type t may follow.
        """
        arrival = np.full((len(weight), self.layers + 1, self.types), np.inf)
        arrival[:, 0] = 0.0
        flat, shortest = arrival.reshape(len(weight), -1), np.full(len(weight), np.inf)
        for layer, block in self._ending.items():
            arrive = self._least(block, weight, flat)
            if layer == self.layers - 1:
                shortest = arrive.min(axis=1)
            arrival[:, layer + 1] = self._onward(arrive)
        return shortest, arrival

    def backward(self, weight: Floats) -> Floats:
        """Return the least weight of a path from layer p to the end that may follow a segment of type t.

        Shape (B, L + 1, T); `weight` is as in `forward`.
        """
        rest = np.full((len(weight), self.layers + 1, self.types), np.inf)
        rest[:, self.layers] = 0.0
        flat = rest.reshape(len(weight), -1)
        for layer, block in reversed(self._beginning.items()):
            rest[:, layer] = self._onward(self._least(block, weight, flat))
        return rest

    def _least(self, block: _Block, weight: Floats, beyond: Floats) -> Floats:
        """Return the least weight of a path through a block by a segment of each type, shape (B, T).

        Parameters
        ----------
        beyond
            Of the path at the other ends of the segments, shape (B, (L + 1)·T).
        """
        check_time()
        least = np.full((len(weight), self.types), np.inf)
        ways = weight[:, block.place] + beyond.take(block.state, axis=1)
        # One minimum for each type: its segments stand next to each other.
        least[:, block.types] = np.minimum.reduceat(ways, block.starts, axis=1)
        return least

    def _onward(self, least: Floats) -> Floats:
        """Return for each type the least over the types that may be its neighbour; overwrites `least`."""
        if not self.alternating:
            return np.asarray(least.min(axis=1, keepdims=True))
        # Every type but the cheapest may neighbour the cheapest; that one gets the second cheapest.
        rows, best = np.arange(len(least)), least.argmin(axis=1)
        result = np.empty_like(least)
        result[:] = least[rows, best, None]
        least[rows, best] = np.inf
        result[rows, best] = least.min(axis=1)
        return result

    def around(self, weight: Floats, arrival: Floats) -> Floats:
        """Return the least weight of the rest of a path through each segment, shape (B, n).

        With the segment's own weight it is the least weight of a path through it, for reduced-cost fixing.
        """
        rest = self.backward(weight)
        before = arrival.reshape(len(weight), -1).take(self.first * self.types + self.unit_type, axis=1)
        after = rest.reshape(len(weight), -1).take((self.last + 1) * self.types + self.unit_type, axis=1)
        before += after
        return before

    def cheapest(self, weight: Floats, arrival: Floats) -> Ints:
        """Return the segments, in order, of a path of least weight.

        Parameters
        ----------
        weight, arrival
            Of one weighting, shapes (n,) and (L + 1, T); there has to be a path.
        """
        return np.array(list(self._trace(weight, arrival.ravel()))[::-1], dtype=np.int64)

    def _trace(self, weight: Floats, arrival: Floats) -> Iterator[int]:
        layer, after = self.layers, -1
        while layer > 0:
            block = self._ending[layer - 1]
            assert isinstance(block.place, slice)
            ways = weight[block.place] + arrival.take(block.state)
            # Backwards from the end, the type of the segment after must not come again.
            if self.alternating and after >= 0:
                ways[self.unit_type[block.place] == after] = np.inf
            segment = block.place.start + int(ways.argmin())
            yield segment
            layer, after = int(self.first[segment]), int(self.unit_type[segment])
