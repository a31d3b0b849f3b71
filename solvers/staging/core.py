"""The core problem of one interval of the stage time, and bounds on it from exact unit counts.

The core (Balas & Zemel 1980) holds the segments whose reduced cost stays below the cutoff.

Bounds on the paths of a core count the units of the scarcest types exactly and price the others. The state
of a path is how many units it uses of a few types (state-space augmentation: Boland, Dethridge and
Dumitrescu, "Accelerated label setting algorithms for the elementary resource constrained shortest path
problem", Operations Research Letters 34, 2006). Units that are counted need no price, so that no bound is
below that of the prices alone. Columns whose bound reaches the cutoff are excluded, one group of types after
another, until no more are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ..common.base import Clock
from .intervals import Interval, Segments
from .kernels import least_by_state, through_states

MOST_COLUMNS = 20_000
"""Larger cores are not tried."""


@dataclass(frozen=True)
class Core:
    """Core problem of an interval of stage times: the candidate stages that reduced-cost fixing leaves.

    Attributes
    ----------
    segment
        Index of each, shape (k,).
    complete
        Whether every path that uses another segment reaches the cutoff.
    """

    segment: Ints
    complete: bool = True

    def __len__(self) -> int:
        return len(self.segment)


def core_of(
    segments: Segments, interval: Interval, prices: Floats, cutoff: float, most: int | None = None
) -> Core:
    """Return the core of an interval of stage times: the stages with a Lagrangian bound below the cutoff.

    All others are excluded by their reduced cost.

    Parameters
    ----------
    most
        Keep at most this many segments, those with the cheapest paths: enough to find a plan, but not to
        prove that there is none.
    """
    weight = segments.weight(interval, prices)
    _, arrival = segments.forward(weight)
    value = segments.through(weight, arrival) - float(prices @ segments.limits.capacity)
    # `value`: the Lagrangian bound of all plans that use the segment.
    near = np.flatnonzero(value < cutoff)
    if most is not None and len(near) > most:
        return Core(near[np.argpartition(value[near], most)[:most]], complete=False)
    return Core(near)


MOST_STEPS = 10_000_000
"""Columns times states: some ten milliseconds."""
MOST_ENTRIES = (60_000, 400_000, 2_000_000)
"""Most layers times types times states of a table, in each attempt in turn."""
ENTRIES_OF_LABELS = 2000
"""The same per column, for the tables that bound labels, up to the largest of `most_entries`."""
AGAIN_BELOW = 0.8
"""All groups are tried again if no more than this part of the columns is left."""


class CoreColumns:
    """The candidate stages (columns) of a core as arrays, sorted by the layer after their last one.

    Only layers at which a column begins or ends are numbered, and only types of columns.

    Attributes
    ----------
    segment, first, after, unit_type, cost
        Shape (K,).
    layer, hardware
        Indices of these layers and types in the instance.
    use
        What each consumes of each limit, shape (K, R).
    """

    def __init__(self, segments: Segments, interval: Interval, core: Core) -> None:
        self.segment = np.sort(core.segment)  # segments stand by last layer
        first, after = segments.first[self.segment], segments.last[self.segment] + 1
        self.layer = np.unique(np.concatenate([[0, segments.layers], first, after]))
        self.hardware, self.unit_type = np.unique(segments.type[self.segment], return_inverse=True)
        self.first, self.after = np.searchsorted(self.layer, first), np.searchsorted(self.layer, after)
        self.layers, self.types, self.alternating = (
            len(self.layer) - 1,
            len(self.hardware),
            segments.alternating,
        )
        self.cost = interval.cost[self.segment]
        units = interval.units[self.segment]
        self.use = np.ascontiguousarray(segments.consumptions(self.segment, units).T)
        self.capacity = segments.limits.capacity

    def groups(self, prices: Floats, most_entries: int) -> Iterator[list[int]]:
        """Yield groups of limits with positive price whose units are counted together, dearest first.

        A column may consume only one limit of a group.
        """
        states = most_entries // ((self.layers + 1) * self.types)
        most = min(states, MOST_STEPS // max(1, len(self.segment)))
        whole = (self.use == np.rint(self.use)).all(axis=0)
        left = [int(row) for row in np.argsort(-prices, kind="stable") if prices[row] > 0 and whole[row]]
        while left:
            group: list[int] = []
            size, covered = 1, np.zeros(len(self.segment), dtype=bool)
            for row in left:
                own = self.use[:, row] > 0
                if size * (self.capacity[row] + 1) <= most and not (covered & own).any():
                    group.append(row)
                    size, covered = size * (int(self.capacity[row]) + 1), covered | own
            if not group:
                return
            yield group
            left = [row for row in left if row not in group]


class StateTable(NamedTuple):
    """Lower bounds on the weight of the rest of a path of stages, by layer, type and units left.

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


def state_tables(columns: CoreColumns, prices: Floats, weight: float, most: int) -> list[StateTable]:
    """Return tables of bounds on the rest of a path, each of which counts units of some limits exactly.

    Parameters
    ----------
    weight
        Of the cost.
    most
        Largest number of tables.
    """
    entries = min(MOST_ENTRIES[-1], ENTRIES_OF_LABELS * len(columns.segment))
    groups = itertools.islice(columns.groups(prices, entries), most)
    return [_state_table(columns, prices, weight, rows)[0] for rows in groups]


def narrow_core(
    segments: Segments,
    interval: Interval,
    core: Core,
    prices: Floats,
    cutoff: float,
    clock: Clock,
    weight: float = 1.0,
) -> tuple[Core, float]:
    """Return the core without stages whose bound reaches the cutoff, and a lower bound on all its paths.

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
    for entries in MOST_ENTRIES:
        before = math.inf
        while 0 < len(core) <= AGAIN_BELOW * before:
            before, columns = len(core), CoreColumns(segments, interval, core)
            for rows in columns.groups(prices, entries):
                if clock.expired or not len(core):
                    break
                columns = CoreColumns(segments, interval, core)
                table, through = _state_table(columns, prices, weight, rows)
                value = through - float(table.prices @ columns.capacity)
                bound = max(bound, float(value.min()))
                core = Core(columns.segment[value < cutoff], core.complete)
    return core, bound if len(core) else math.inf


def _state_table(
    columns: CoreColumns, prices: Floats, weight: float, rows: Sequence[int]
) -> tuple[StateTable, Floats]:
    """Return the table of bounds that counts units of some limits, and each stage's minimum path weight."""
    sizes = [int(columns.capacity[row]) + 1 for row in rows]
    states = int(np.prod(sizes))
    priced, places = prices.copy(), np.zeros(len(prices), dtype=np.int64)
    priced[list(rows)] = 0.0
    # How a column changes the state: what is added, to how many first states of each run of how many.
    digits = np.tile(np.array([0, states, states]), (len(columns.segment), 1))
    place = 1
    for row, size in zip(rows, sizes, strict=True):
        own = columns.use[:, row] > 0
        units = np.minimum(columns.use[own, row], size).astype(int)
        digits[own] = place * np.column_stack([units, size - units, np.full_like(units, size)])
        places[row] = place
        place *= size
    weights = weight * columns.cost + columns.use @ priced
    arcs = columns.first, columns.after, columns.unit_type
    to, used = np.full((2, columns.layers + 1, columns.types, states), np.inf)
    to[0, :, 0] = used[0, :, 0] = 0.0
    least_by_state(*arcs, weights, digits, columns.alternating, to)
    # Paths from a layer to the end are paths to it where everything runs backwards.
    order = np.argsort(-columns.first, kind="stable")
    reverse = columns.layers - columns.after[order], columns.layers - columns.first[order]
    backwards = *reverse, columns.unit_type[order], weights[order], digits[order]
    least_by_state(*backwards, columns.alternating, used)
    rest = used[::-1].reshape(columns.layers + 1, columns.types, *sizes[::-1])
    # With more units left, a path may also use fewer.
    for axis in range(2, rest.ndim):
        rest = np.minimum.accumulate(rest, axis=axis)
    rest = np.ascontiguousarray(rest.reshape(to.shape))
    return StateTable(priced, places, rest), through_states(*arcs, weights, digits, to, rest)
