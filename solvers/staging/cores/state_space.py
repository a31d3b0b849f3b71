"""Bounds on the paths of a core that count the scarcest units exactly and price the others.

The state of a path is how many units it uses of a few types (state-space augmentation: Boland, Dethridge and
Dumitrescu, "Accelerated label setting algorithms for the elementary resource constrained shortest path
problem", Operations Research Letters 34, 2006). Units that are counted need no price, so that no bound is
below that of the prices alone. Columns whose bound reaches the cutoff are excluded, group after group of
types, until that ends.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ....instances.common.arrays import Floats, Ints
from ...common.base import Clock
from ..intervals import Interval, Segments
from .core import Core
from .kernels import least_by_state, through_states


@dataclass(frozen=True)
class StateSpaceSettings:
    """Tuning of the bounds.

    Attributes
    ----------
    most_steps
        Columns times states: some ten milliseconds.
    most_entries
        Layers times types times states of a table, for one try after another.
    entries_of_labels
        The same for each column of the tables that labels are compared with, up to the most of all.
    again_below
        All groups are tried again if no more than this part of the columns is left.
    """

    most_steps: int = 10_000_000
    most_entries: tuple[int, ...] = (60_000, 400_000, 2_000_000)
    entries_of_labels: int = 2000
    again_below: float = 0.8


SETTINGS = StateSpaceSettings()


class Columns:
    """The columns of a core in arrays, by the layer that they lead to.

    Only layers at which a column begins or ends are counted, and only types of columns.

    Attributes
    ----------
    segment, first, after, unit_type, cost
        Shape (K,).
    layer, hardware
        The numbers of layers and types elsewhere.
    use
        What each consumes of each limit, shape (K, R).
    """

    def __init__(self, segments: Segments, interval: Interval, core: Core) -> None:
        self.segment = np.sort(core.segment)  # segments stand by last layer
        graph = segments.graph
        first, after = graph.first[self.segment], graph.last[self.segment] + 1
        self.layer = np.unique(np.concatenate([[0, graph.layers], first, after]))
        self.hardware, self.unit_type = np.unique(graph.unit_type[self.segment], return_inverse=True)
        self.first, self.after = np.searchsorted(self.layer, first), np.searchsorted(self.layer, after)
        self.layers, self.types, self.alternating = (
            len(self.layer) - 1,
            len(self.hardware),
            graph.alternating,
        )
        self.cost = interval.cost[self.segment]
        units = interval.units[self.segment]
        self.use = np.ascontiguousarray(segments.consumptions(self.segment, units).T)
        self.capacity = segments.limits.capacity

    def groups(self, prices: Floats, most_entries: int) -> Iterator[list[int]]:
        """Yield the limits with a price in groups whose units can be counted together, dearest first.

        A column may consume only one limit of a group.
        """
        states = most_entries // ((self.layers + 1) * self.types)
        most = min(states, SETTINGS.most_steps // max(1, len(self.segment)))
        whole = (self.use == np.rint(self.use)).all(axis=0)
        left = [int(row) for row in np.argsort(-prices, kind="stable") if prices[row] > 0 and whole[row]]
        while left:
            group: list[int] = []
            size, taken = 1, np.zeros(len(self.segment), dtype=bool)
            for row in left:
                own = self.use[:, row] > 0
                if size * (self.capacity[row] + 1) <= most and not (taken & own).any():
                    group.append(row)
                    size, taken = size * (int(self.capacity[row]) + 1), taken | own
            if not group:
                return
            yield group
            left = [row for row in left if row not in group]


class StateTable(NamedTuple):
    """A bound on what is left of a path.

    Attributes
    ----------
    prices, places
        Of each limit: its price, and the place value of its units in the state, 0 if they are not counted.
    rest
        Least weight from each layer on after a column of a type, by units left, shape (L + 1, T, states).
    """

    prices: Floats
    places: Ints
    rest: Floats


def state_tables(columns: Columns, prices: Floats, weight: float, most: int) -> list[StateTable]:
    """Return tables that count some limits; costs have this weight.

    Parameters
    ----------
    most
        How many at most.
    """
    entries = min(SETTINGS.most_entries[-1], SETTINGS.entries_of_labels * len(columns.segment))
    groups = itertools.islice(columns.groups(prices, entries), most)
    return [_tables(columns, prices, weight, rows)[0] for rows in groups]


def narrowed(
    segments: Segments,
    interval: Interval,
    core: Core,
    prices: Floats,
    cutoff: float,
    clock: Clock,
    weight: float = 1.0,
) -> tuple[Core, float]:
    """Return the columns of a core with a path below the cutoff, and a bound on all paths of the core.

    Parameters
    ----------
    weight
        Of the cost: 1, or 0 where only units count; then a bound above 0 shows that there is no path.

    Returns
    -------
    core, bound
        The bound holds up to the cutoff; it is infinite if no column is left.
    """
    bound = -np.inf
    for entries in SETTINGS.most_entries:
        before = math.inf
        while 0 < len(core) <= SETTINGS.again_below * before:
            before, columns = len(core), Columns(segments, interval, core)
            for rows in columns.groups(prices, entries):
                if clock.expired or not len(core):
                    break
                columns = Columns(segments, interval, core)
                table, through = _tables(columns, prices, weight, rows)
                value = through - float(table.prices @ columns.capacity)
                bound = max(bound, float(value.min()))
                core = Core(columns.segment[value < cutoff], core.complete)
    return core, bound if len(core) else math.inf


def _tables(
    columns: Columns, prices: Floats, weight: float, rows: Sequence[int]
) -> tuple[StateTable, Floats]:
    """Return the table that counts some limits, and the least weight of a path through each column."""
    sizes = [int(columns.capacity[row]) + 1 for row in rows]
    states = int(np.prod(sizes))
    priced, places = prices.copy(), np.zeros(len(prices), dtype=np.int64)
    priced[list(rows)] = 0.0
    digits = np.tile(np.array([states, 1, 0]), (len(columns.segment), 1))
    place = 1
    for row, size in zip(rows, sizes, strict=True):
        own = columns.use[:, row] > 0
        digits[own] = np.column_stack(
            [np.full((own.sum(), 2), (place, size)), np.minimum(columns.use[own, row], size).astype(int)]
        )
        places[row] = place
        place *= size
    weights = weight * columns.cost + columns.use @ priced
    arcs = columns.first, columns.after, columns.unit_type
    shape, alternating = (columns.layers, columns.types, states), columns.alternating
    to = least_by_state(*arcs, weights, digits, *shape, alternating)
    # Paths from a layer to the end are paths to it where everything runs backwards.
    order = np.argsort(-columns.first, kind="stable")
    reverse = columns.layers - columns.after[order], columns.layers - columns.first[order]
    used = least_by_state(
        *reverse, columns.unit_type[order], weights[order], digits[order], *shape, alternating
    )
    rest = used[::-1].reshape(columns.layers + 1, columns.types, *sizes[::-1])
    # Whoever has more units left may also use fewer.
    for axis in range(2, rest.ndim):
        rest = np.minimum.accumulate(rest, axis=axis)
    rest = np.ascontiguousarray(rest.reshape(to.shape))
    return StateTable(priced, places, rest), through_states(*arcs, weights, digits, to, rest)
