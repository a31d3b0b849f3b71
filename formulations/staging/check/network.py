"""The stages that are left of an interval as a network, whose paths are the plans."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ....instances.common.arrays import Floats, Ints


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

    def __len__(self) -> int:
        return len(self.arcs.cost)

    @property
    def kind(self) -> Ints:
        """The type of each arc; all are one where neighbours need not differ."""
        return self.arcs.type if self.types else np.zeros_like(self.arcs.type)

    def only(self, keep: Ints | NDArray[np.bool_]) -> Network:
        """Return the network of some of the arcs."""
        arcs = self.arcs
        columns = arcs.first[keep], arcs.after[keep], arcs.type[keep], arcs.cost[keep]
        return replace(self, arcs=Arcs(*columns, arcs.consumption[:, keep]))

    def sorted(self) -> Network:
        """Return the network with its arcs by the layer that they lead to."""
        return self.only(np.argsort(self.arcs.after, kind="stable"))

    def compact(self) -> Network:
        """Return the network without layers at which no arc begins or ends."""
        arcs = self.arcs
        layer = np.unique(np.concatenate([[0, self.layers], arcs.first, arcs.after]))
        first, after = np.searchsorted(layer, arcs.first), np.searchsorted(layer, arcs.after)
        return replace(self, arcs=replace(arcs, first=first, after=after), layers=len(layer) - 1)

    def mirrored(self) -> Network:
        """Return the network in which every path runs backwards."""
        arcs = self.arcs
        turned = replace(arcs, first=self.layers - arcs.after, after=self.layers - arcs.first)
        return replace(self, arcs=turned)

    def free(self) -> Network:
        """Return the network without costs."""
        return replace(self, arcs=replace(self.arcs, cost=np.zeros_like(self.arcs.cost)))
