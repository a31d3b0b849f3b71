"""Bounds on paths that count the units of a few limits exactly and put a price on the others.

A path's state is what it has used of the counted limits, so that a path beyond one of them does not exist.
Only what is not counted is relaxed, and the bound of a path is at least that of the prices alone (state-space
augmentation: Boland, Dethridge & Dumitrescu 2006). Arcs on no path below the cutoff are left out, and with
fewer arcs more limits can be counted together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ....instances.common.arrays import Floats, Ints
from ...common.clock import time_is_up
from .kernels import arrivals_by_state, least_through
from .network import Network

MARGIN = 1e-12
"""Relative to everything that is added up."""
MOST_CELLS = (60_000, 400_000, 2_000_000)
"""Layers times types times states, for one try after another."""
MOST_STEPS = 10_000_000
"""Arcs times states: some ten milliseconds."""
STEPS_OF_A_BOUND = 32
"""Steps that take as long as the bound of a label."""
WORTH_ANOTHER = 0.8
"""Once no more than this part of the arcs is left, all are looked at again."""


@dataclass(frozen=True)
class Counting:
    """Limits that are counted.

    Attributes
    ----------
    rows
        Their numbers; the first one's digit has place value 1.
    prices
        Of each limit, 0 where it is counted; shape (R,).
    places
        Place value of each limit's units in the state, 0 where they are not counted; shape (R,).
    sizes
        How many values each one's digit has.
    """

    rows: tuple[int, ...]
    prices: Floats
    places: Ints
    sizes: tuple[int, ...]

    @property
    def states(self) -> int:
        """How many states there are."""
        return math.prod(self.sizes)


def surviving(network: Network, prices: Floats, cutoff: float) -> tuple[Network, int]:
    """Return a network with all paths below the cutoff that keep the limits, and the work it took."""
    work = 0
    for most_cells in MOST_CELLS:
        before = math.inf
        while 0 < len(network) <= WORTH_ANOTHER * before:
            before = len(network)
            for counting in countings(network, prices, most_cells):
                if time_is_up() or not len(network):
                    return network, work
                cells = (network.layers + 1) * max(1, network.types)
                work += (len(network) + cells) * counting.states // STEPS_OF_A_BOUND
                value = through(network, counting)
                spare = float(counting.prices @ network.capacity)
                most = cutoff + spare + MARGIN * (abs(cutoff) + spare) + 1e-280
                network = network.only(value * (1 - MARGIN) <= most).compact()
    return network, work


def countings(network: Network, prices: Floats, cells: int = MOST_CELLS[-1]) -> Iterator[Counting]:
    """Yield the limits with a price in groups, dearest first; an arc consumes only one limit of a group."""
    kinds = max(1, network.types)
    most = min(cells // ((network.layers + 1) * kinds), MOST_STEPS // max(1, len(network)))
    consumption = network.arcs.consumption
    waiting = [
        row
        for row in np.argsort(-prices, kind="stable").tolist()
        if prices[row] > 0
        and network.capacity[row] < most
        and (consumption[row] == np.rint(consumption[row])).all()
    ]
    while waiting:
        places, rows, sizes = np.zeros(len(prices), dtype=np.int64), list[int](), list[int]()
        busy = np.zeros(len(network), dtype=bool)
        for row in waiting:
            size, own = int(network.capacity[row]) + 1, consumption[row] > 0
            if math.prod(sizes) * size <= most and not (busy & own).any():
                places[row] = math.prod(sizes)
                rows.append(row)
                sizes.append(size)
                busy |= own
        if not sizes:
            return
        yield Counting(tuple(rows), np.where(places > 0, 0.0, prices), places, tuple(sizes))
        waiting = [row for row in waiting if not places[row]]


def left_by_state(network: Network, counting: Counting) -> Floats:
    """Return the least weight from each layer on, after an arc of each type, by what is left.

    Shape (L + 1, T, states); the network's arcs stand by the layer that they lead to.
    """
    backwards = _arrivals(network.mirrored().sorted(), counting)[::-1]
    by_digit = backwards.reshape(*backwards.shape[:2], *counting.sizes[::-1])
    # With more left all is possible that is with less.
    for axis in range(2, by_digit.ndim):
        by_digit = np.minimum.accumulate(by_digit, axis=axis)
    return np.ascontiguousarray(by_digit.reshape(backwards.shape))


def through(network: Network, counting: Counting) -> Floats:
    """Return the least weight of a path through each arc, shape (K,)."""
    arcs = network.arcs
    to, left = _arrivals(network, counting), left_by_state(network, counting)
    columns = arcs.first, arcs.after, network.kind
    found: Floats = least_through(
        *columns, _weights(network, counting), *_digits(network, counting), to, left
    )
    return found


def _arrivals(network: Network, counting: Counting) -> Floats:
    arcs = network.arcs
    columns = arcs.first, arcs.after, network.kind, _weights(network, counting), *_digits(network, counting)
    shape = network.layers, max(1, network.types), counting.states, bool(network.types)
    found: Floats = arrivals_by_state(*columns, *shape)
    return found


def _weights(network: Network, counting: Counting) -> Floats:
    weights: Floats = network.arcs.cost + counting.prices @ network.arcs.consumption
    return weights


def _digits(network: Network, counting: Counting) -> tuple[Ints, Ints, Ints]:
    """Return the place value and the size of the digit that each arc raises, and by how much."""
    count = len(network)
    place, size = np.full(count, counting.states), np.ones(count, dtype=np.int64)
    units = np.zeros(count, dtype=np.int64)
    for row, values in zip(counting.rows, counting.sizes, strict=True):
        consumed = network.arcs.consumption[row]
        own = consumed > 0
        place[own], size[own] = counting.places[row], values
        # An arc that alone exceeds the limit has no state to begin in.
        units[own] = np.minimum(consumed[own], values).astype(np.int64)
    return place, size, units
