"""Shortest paths of segments over (layer, type), for many weightings of the segments at once.

A path is a sequence of segments, each beginning where the one before ends. Where neighbours have to differ in
type, a segment follows the cheapest path of any other type to its first layer, so that two numbers a layer,
the cheapest and the second cheapest type, carry the dynamic program: O(L²T) for a weighting.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...formulations.common.clock import check_time
from ...instances.common.arrays import Floats, Ints
from .kernels import backward, cheapest, forward


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
        self.layers, self.types = layers, types
        self.first, self.last, self.unit_type = first, last, unit_type
        self.alternating = alternating

    def only(self, keep: NDArray[np.bool_] | Ints) -> SegmentGraph:
        """Return the graph of some of the segments."""
        first, last, unit_type = self.first[keep], self.last[keep], self.unit_type[keep]
        return SegmentGraph(self.layers, self.types, first, last, unit_type, self.alternating)

    @cached_property
    def _arcs(self) -> tuple[Ints, Ints, Ints]:
        """Where the segments of each last layer begin, shape (L + 1,); all first layers and types."""
        edges = np.searchsorted(self.last, np.arange(self.layers + 1))
        return edges, np.ascontiguousarray(self.first), np.ascontiguousarray(self.unit_type)

    def forward(self, weight: Floats) -> tuple[Floats, Floats]:
        """Return the least weights of paths from the first layer on.

        Parameters
        ----------
        weight
            Of each segment, shape (B, n), infinite where it cannot be used.

        Returns
        -------
        shortest, arrival
            Least weight of a path of all layers, shape (B,), and, shape (B, T, L + 1), of one that ends
            before layer p and that a segment of type t may follow.
        """
        check_time()
        shortest, arrival = forward(*self._arcs, weight, self.types, self.alternating)
        return shortest, arrival

    def backward(self, weight: Floats) -> Floats:
        """Return the least weight of a path from layer p to the end that may follow a segment of type t.

        Shape (B, L + 1, T); `weight` is as in `forward`.
        """
        return self._backward(weight, np.zeros((len(weight), self.types, self.layers + 1)))[0]

    def through(self, weight: Floats, arrival: Floats) -> Floats:
        """Return the least weight of a path through each segment, shape (B, n), for reduced-cost fixing."""
        return self._backward(weight, arrival)[1]

    def _backward(self, weight: Floats, arrival: Floats) -> tuple[Floats, Floats]:
        check_time()
        rest, through = backward(*self._arcs, weight, arrival, self.alternating)
        return rest, through

    def cheapest(self, weight: Floats, arrival: Floats) -> Ints:
        """Return the segments, in order, of a path of least weight.

        Parameters
        ----------
        weight, arrival
            Of one weighting, shapes (n,) and (T, L + 1); there has to be a path.
        """
        path: Ints = cheapest(*self._arcs, weight, arrival, self.alternating)
        return path
