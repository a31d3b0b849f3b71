"""Labelling algorithm for the cheapest path of a core within the limits; exact, and fast on small cores.

A resource-constrained shortest path (Irnich & Desaulniers 2005). A label is a partial path from the first
layer: what it consumes, what it costs, and the type it ends with. It is pruned where dual prices, or bounds
that count some units exactly, prove that no completion stays below the cutoff within the limits; of labels
with equal consumption only the cheapest stays. Where there are too many labels, a beam of the most promising
ones still finds good paths, but proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ..common.base import Clock
from .core import Core, CoreColumns, StateTable, state_tables
from .intervals import Interval, Segments
from .kernels import extend

PAIRS_AT_ONCE = 200_000
"""Labels times columns that are worked on together."""
MOST_WORK = 40_000_000
"""Bounds of labels that are evaluated: about a second."""
MOST_GROUPS = 4
"""Groups of limits whose units are counted."""
ROUNDING_MARGIN = 1e-12
"""Relative slack for rounding, on the side that keeps labels."""


class CoreAnswer(NamedTuple):
    """The cheapest path of stages that was found in a core, and a lower bound on all its paths.

    Attributes
    ----------
    path
        Segments of a path within the limits, None if none was found.
    bound
        No path of the core costs less; infinite if none is below the cutoff, -inf if unknown.
    """

    path: Ints | None
    bound: float


UNDECIDED = CoreAnswer(None, -math.inf)


class _Labels(NamedTuple):
    """The labels (partial paths of stages from the first layer) that end before one layer, as arrays.

    Attributes
    ----------
    unit_type, consumption, cost
        Type of the last stage, 0 where it does not matter; shapes (n,), (n, R), (n,).
    last
        Index of each label's own record among all records.
    """

    unit_type: Ints
    consumption: Floats
    cost: Floats
    last: Ints

    def only(self, keep: Ints) -> _Labels:
        """Return the labels at the given indices."""
        return _Labels._make(column[keep] for column in self)


def search_labels(
    segments: Segments,
    interval: Interval,
    core: Core,
    prices: Floats,
    cutoff: float,
    clock: Clock,
    beams: Sequence[int] = (),
) -> CoreAnswer:
    """Return the cheapest path of a core below the cutoff, or proof that none exists, or `UNDECIDED`.

    Parameters
    ----------
    prices
        y ≥ 0; any are valid, good ones make the search fast.
    cutoff
        Infinite: any path within the limits is of interest.
    beams
        Beam widths, labels of each layer, that are tried in turn before all labels are; a path that is found
        then need not be the cheapest.
    """
    if not len(core):
        return CoreAnswer(None, math.inf)
    search = _Search(segments, interval, core, prices, clock, float(math.isfinite(cutoff)))
    # No path costs so much.
    most = cutoff if math.isfinite(cutoff) else 2 * float(search.columns.cost.sum()) + 1.0
    answers = (search.below(most, beam) for beam in (*beams, None))
    return next((answer for answer in answers if answer is not UNDECIDED), UNDECIDED)


class _Search:
    """The labelling algorithm on one core; `below` may be called several times, with wider beams."""

    def __init__(
        self,
        segments: Segments,
        interval: Interval,
        core: Core,
        prices: Floats,
        clock: Clock,
        weight: float,
    ) -> None:
        self.clock, self.columns = clock, CoreColumns(segments, interval, core)
        columns = self.columns
        # Columns in another order, by first layer, to extend labels.
        self.order = np.argsort(columns.first, kind="stable")
        self.edges = np.searchsorted(columns.first[self.order], np.arange(columns.layers + 1))
        self.arrays = columns.after, columns.unit_type, columns.use, columns.cost
        self.capacity = columns.capacity * (1 + ROUNDING_MARGIN)
        self.bounds = _bounds(columns, segments, prices, weight)

    def below(self, cutoff: float, beam: int | None = None) -> CoreAnswer:
        """Return the cheapest path below a cutoff in USD, or proof that none exists, or `UNDECIDED`."""
        weights, prices = self.bounds[:2]
        spare = prices @ self.columns.capacity
        # Never 0, even where all that is added up is 0.
        slack = ROUNDING_MARGIN * (np.abs(weights * cutoff) + spare) + 1e-280
        self.threshold, self.work = weights * cutoff + spare + slack, 0
        layers, complete = self.columns.layers, True
        # Of all kept labels: the record before each, and its last stage (column).
        self.records, self.count = [np.full((1, 2), -1)], 1
        queued: list[list[_Labels]] = [[] for _ in range(layers + 1)]
        nothing = np.zeros((1, len(self.capacity)))
        queued[0].append(_Labels(np.array([-1]), nothing, np.zeros(1), np.array([0])))
        for layer in range(layers):
            labels = _concatenated(queued[layer])
            queued[layer] = []
            if labels is None:
                continue
            labels = _cheapest_labels(labels)
            if beam is not None and len(labels.cost) > beam:
                # By a lower bound on the priced cost of the paths that begin with each label.
                value = labels.cost + labels.consumption @ prices[0]
                if layer:
                    value += self.bounds[4][layer, labels.unit_type, 0]
                labels, complete = labels.only(np.argpartition(value, beam)[:beam]), False
            columns = self.order[self.edges[layer] : self.edges[layer + 1]]
            size = max(1, PAIRS_AT_ONCE // len(labels.cost))
            for start in range(0, len(columns), size):
                if (beam is None and self.work > MOST_WORK) or self.clock.expired:
                    return UNDECIDED
                self._extend_labels(labels, columns[start : start + size], queued)
        best = _concatenated(queued[layers])
        # A label may pass by its margin alone; then no path is below the cutoff.
        if best is None or best.cost.min() >= cutoff:
            return CoreAnswer(None, math.inf) if complete else UNDECIDED
        winner = int(best.cost.argmin())
        records, at, path = np.concatenate(self.records), int(best.last[winner]), list[int]()
        while at > 0:
            before, column = records[at].tolist()
            path, at = [column, *path], before
        bound = float(best.cost[winner]) * (1 - ROUNDING_MARGIN)
        return CoreAnswer(self.columns.segment[path], bound if complete else -math.inf)

    def _extend_labels(self, labels: _Labels, columns: Ints, queued: list[list[_Labels]]) -> None:
        """Extend all labels by all given stages; queue those that limits and bounds allow."""
        moved = np.empty((len(labels.cost) * len(columns), 2), dtype=np.int64)
        kept, work = extend(
            (labels.unit_type, labels.consumption, labels.cost),
            columns,
            self.arrays,
            self.capacity,
            self.columns.alternating,
            self.bounds,
            self.threshold,
            moved,
        )
        self.work += work
        if not kept:
            return
        after, unit_type, use, cost = self.arrays
        # Sorted by the layer where they arrive, so that each layer gets one slice.
        moved = moved[:kept][np.argsort(after[moved[:kept, 1]], kind="stable")]
        label, column = moved.T
        ends, starts = np.unique(after[column], return_index=True)
        self.records.append(np.column_stack([labels.last[label], column]))
        last = np.arange(self.count, self.count + kept)
        self.count += kept
        types = unit_type[column] if self.columns.alternating else 0 * column
        extended = _Labels(
            types, labels.consumption[label] + use[column], labels.cost[label] + cost[column], last
        )
        for end, part in zip(ends.tolist(), np.split(np.arange(kept), starts[1:]), strict=True):
            queued[end].append(extended.only(part))


def _bounds(
    columns: CoreColumns, segments: Segments, prices: Floats, weight: float
) -> tuple[Floats, Floats, Ints, Ints, Floats]:
    """Return all lower bounds on the rest of a path as arrays, in the form that `extend` takes.

    Bounds by prices alone are those with one state. The given prices come first, which prune most, then
    those that count units.
    """
    # With and without the cost, and each limit by itself.
    vectors = np.vstack([prices, prices, np.eye(len(prices))])
    weights = np.append(1.0, np.zeros(len(vectors) - 1))
    values = weights[:, None] * columns.cost + vectors @ columns.use.T
    remaining = segments.only(columns.segment).backward(values)
    remaining = remaining[:, columns.layer][:, :, columns.hardware]
    none = np.zeros(len(prices), dtype=np.int64)
    single = [
        (own, StateTable(vector, none, rest[:, :, None]))
        for own, vector, rest in zip(weights.tolist(), vectors, remaining, strict=True)
    ]
    counting = state_tables(columns, prices, weight, MOST_GROUPS)
    every = [*single[:1], *((weight, table) for table in counting), *single[1:]]
    tables = [table for _, table in every]
    return (
        np.array([own for own, _ in every]),
        np.array([table.prices for table in tables]),
        np.array([table.places for table in tables]),
        np.cumsum([table.rest.shape[2] for table in tables]) - 1,
        np.ascontiguousarray(np.concatenate([table.rest for table in tables], axis=2)),
    )


def _concatenated(parts: list[_Labels]) -> _Labels | None:
    if not parts:
        return None
    return _Labels(*map(np.concatenate, zip(*parts, strict=True)))


def _cheapest_labels(labels: _Labels) -> _Labels:
    """Return the cheapest of the labels with equal type and consumption (dominance)."""
    if len(labels.cost) < 2:
        return labels
    order = np.lexsort((labels.cost, *labels.consumption.T, labels.unit_type))
    labels = labels.only(order)
    new = np.ones(len(order), dtype=bool)
    new[1:] = (labels.consumption[1:] != labels.consumption[:-1]).any(axis=1)
    new[1:] |= labels.unit_type[1:] != labels.unit_type[:-1]
    return labels.only(np.flatnonzero(new))
