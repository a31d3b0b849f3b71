"""The cheapest path of a core within the limits by labelling: exact, and fast where prices leave little open.

A resource-constrained shortest path (Irnich & Desaulniers 2005). A label is a partial path from the first
layer: what it consumes, what it costs, and the type it ends with. It is pruned where dual prices prove that
no completion stays below the cutoff within the limits, and of labels with equal consumption only the cheapest
stays. The cutoff is raised in steps: the cheapest path below a low cutoff is found before the labels that a
higher one would let through are made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ..common.base import Clock
from .core import Core, CoreAnswer
from .intervals import Interval, Segments


@dataclass(frozen=True)
class LabellingSettings:
    """Tuning of the labelling algorithm.

    Attributes
    ----------
    cutoff_steps
        How far from the bound to the cutoff the search goes, one after another.
    pairs_at_once
        Labels times columns that are worked on together.
    most_work
        Labels times price vectors: about a second.
    rounding_margin
        Relative slack for rounding, on the side that keeps labels.
    price_factors, single_factors
        What all prices together, and single ones, are multiplied by.
    """

    cutoff_steps: tuple[float, ...] = (0.25, 0.5, 1.0)
    pairs_at_once: int = 200_000
    most_work: int = 8_000_000
    rounding_margin: float = 1e-12
    price_factors: tuple[float, ...] = (0.0, 0.5, 0.8, 0.9, 1.1, 1.25, 2.0)
    single_factors: tuple[float, ...] = (0.0, 0.5, 2.0)


SETTINGS = LabellingSettings()


class _Labels(NamedTuple):
    """Labels that wait at a layer, in columns.

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
        """Return some of the labels."""
        return _Labels(self.unit_type[keep], self.consumption[keep], self.cost[keep], self.last[keep])


@dataclass
class _Records:
    """The predecessor of every label that was kept: the record before it, and the column of the core."""

    before: list[Ints] = field(default_factory=lambda: [np.array([-1])])
    column: list[Ints] = field(default_factory=lambda: [np.array([-1])])
    count: int = 1

    def add(self, before: Ints, column: Ints) -> Ints:
        """Return the indices of new records."""
        self.before.append(before)
        self.column.append(column)
        self.count += len(before)
        return np.arange(self.count - len(before), self.count)

    def trace(self, at: int) -> list[int]:
        """Return the columns that lead to a record, first to last."""
        before, column = np.concatenate(self.before), np.concatenate(self.column)
        found: list[int] = []
        while at > 0:
            found.append(int(column[at]))
            at = int(before[at])
        return found[::-1]


def search_labels(
    segments: Segments, interval: Interval, core: Core, prices: Floats, cutoff: float, clock: Clock
) -> CoreAnswer | None:
    """Return the cheapest path of a core below the cutoff, or that there is none; None if it gave up.

    Parameters
    ----------
    prices
        y ≥ 0; any are right, good ones make it fast.
    cutoff
        Infinite: any path within the limits is of interest.
    """
    search = _Search(segments, interval, core, prices, clock)
    answer: CoreAnswer | None = None
    if math.isinf(cutoff):
        answer = search.below(2 * float(search.cost.sum()) + 1.0)  # no path costs so much
        if answer is not None and answer.path is None:
            answer = CoreAnswer(None, math.inf)
        return answer
    for step in SETTINGS.cutoff_steps:
        bounded = math.isfinite(interval.bound)
        answer = search.below(interval.bound + step * (cutoff - interval.bound) if bounded else cutoff)
        if answer is None or answer.path is not None:
            break
    return answer


class _Search:
    """One core; `below` may be called several times, with rising cutoffs."""

    def __init__(
        self, segments: Segments, interval: Interval, core: Core, prices: Floats, clock: Clock
    ) -> None:
        graph = segments.graph
        self.clock, self.capacity, self.layers = clock, segments.limits.capacity, graph.layers
        self.alternating, self.segment = graph.alternating, core.segment
        self.cost = interval.cost[core.segment]
        self.consumption = (segments.per_unit[:, core.segment] * interval.units[core.segment]).T
        self.first, self.after = graph.first[core.segment], graph.last[core.segment] + 1
        self.unit_type = graph.unit_type[core.segment]
        # Columns in two orders: by first layer to extend labels, by last layer for the bounds on the rest.
        self.order = np.argsort(self.first, kind="stable")
        self.edges = np.searchsorted(self.first[self.order], np.arange(self.layers + 1))
        self.sorted = np.lexsort((self.first, self.unit_type, self.after))
        self.graph = graph.only(core.segment[self.sorted])
        self.weights, self.vectors = _multipliers(prices)

    def below(self, cutoff: float) -> CoreAnswer | None:
        """Return the cheapest path that costs less, or that there is none; None if the search gave up."""
        weights, vectors = self.weights, self.vectors
        values = weights[:, None] * self.cost[self.sorted] + vectors @ self.consumption[self.sorted].T
        remaining = self.graph.backward(values)
        # Never 0, even where all that is added up is 0.
        slack = SETTINGS.rounding_margin * (np.abs(weights * cutoff) + vectors @ self.capacity) + 1e-280
        threshold = weights * cutoff + vectors @ self.capacity + slack
        self.remaining, self.threshold, self.work = remaining, threshold, 0
        records = _Records()
        waiting: list[list[_Labels]] = [[] for _ in range(self.layers + 1)]
        waiting[0].append(_origin(len(self.capacity)))
        for layer in range(self.layers):
            labels = _joined(waiting[layer])
            waiting[layer] = []
            if labels is None:
                continue
            # The costly price vectors run once a layer, not once an extension.
            labels = _cheapest(self._unpruned(labels, layer))
            columns = self.order[self.edges[layer] : self.edges[layer + 1]]
            size = max(1, SETTINGS.pairs_at_once // max(1, len(labels.cost)))
            for start in range(0, len(columns), size):
                if self.work > SETTINGS.most_work or self.clock.expired:
                    return None
                self._move(labels, columns[start : start + size], records, waiting)
        best = _joined(waiting[self.layers])
        if best is None:
            return CoreAnswer(None, cutoff)
        winner = int(best.cost.argmin())
        # A label may pass by its margin alone; then no path is below the cutoff.
        if best.cost[winner] >= cutoff:
            return CoreAnswer(None, cutoff)
        path = self.segment[records.trace(int(best.last[winner]))]
        return CoreAnswer(path, float(best.cost[winner]) * (1 - SETTINGS.rounding_margin))

    def _unpruned(self, labels: _Labels, layer: int) -> _Labels:
        """Return the labels at a layer that no price vector prunes."""
        for m in range(1, len(self.weights) if layer else 0):
            if not len(labels.cost):
                break
            self.work += len(labels.cost)
            remaining = self.remaining[m, layer]
            least = remaining[labels.unit_type] if self.alternating else remaining[0]
            value = self.weights[m] * labels.cost + labels.consumption @ self.vectors[m] + least
            open_ = value <= self.threshold[m]
            if not open_.all():
                labels = labels.only(np.flatnonzero(open_))
        return labels

    def _move(self, labels: _Labels, columns: Ints, records: _Records, waiting: list[list[_Labels]]) -> None:
        """Extend all labels by all columns, as far as limits and the first prices allow."""
        label = np.tile(np.arange(len(labels.cost)), len(columns))
        column = np.repeat(columns, len(labels.cost))
        self.work += len(label)
        unit_type = self.unit_type[column]
        if self.alternating:
            keep = np.flatnonzero(labels.unit_type[label] != unit_type)
            label, column, unit_type = label[keep], column[keep], unit_type[keep]
        consumption = labels.consumption[label] + self.consumption[column]
        cost = labels.cost[label] + self.cost[column]
        after = self.after[column]
        least = self.remaining[0, after, unit_type] if self.alternating else self.remaining[0, after, 0]
        open_ = cost + consumption @ self.vectors[0] + least <= self.threshold[0]
        open_ &= (consumption <= self.capacity * (1 + SETTINGS.rounding_margin)).all(axis=1)
        keep = np.flatnonzero(open_)
        # Sorted by the layer where they arrive, so that each layer gets one slice.
        keep = keep[np.argsort(after[keep], kind="stable")]
        if not len(keep):
            return
        ends, starts = np.unique(after[keep], return_index=True)
        last = records.add(labels.last[label[keep]], column[keep])
        types = unit_type[keep] if self.alternating else 0 * keep
        moved = _Labels(types, consumption[keep], cost[keep], last)
        for end, part in zip(ends.tolist(), np.split(np.arange(len(keep)), starts[1:]), strict=True):
            waiting[end].append(moved.only(part))


def _origin(limits: int) -> _Labels:
    return _Labels(np.array([-1]), np.zeros((1, limits)), np.zeros(1), np.array([0]))


def _joined(parts: list[_Labels]) -> _Labels | None:
    if not parts:
        return None
    return _Labels(*map(np.concatenate, zip(*parts, strict=True)))


def _cheapest(labels: _Labels) -> _Labels:
    """Return the cheapest of the labels of one type with equal consumption."""
    if len(labels.cost) < 2:
        return labels
    order = np.lexsort((labels.cost, *labels.consumption.T, labels.unit_type))
    labels = labels.only(order)
    new = np.ones(len(order), dtype=bool)
    new[1:] = (labels.consumption[1:] != labels.consumption[:-1]).any(axis=1)
    new[1:] |= labels.unit_type[1:] != labels.unit_type[:-1]
    return labels.only(np.flatnonzero(new))


def _multipliers(prices: Floats) -> tuple[Floats, Floats]:
    """Return weights of the cost, shape (M,), and prices, shape (M, R), around the given prices."""
    found = [(1.0, prices)]
    for factor in SETTINGS.price_factors:
        found.append((1.0, prices * factor))
    for row in np.flatnonzero(prices > 0).tolist():
        for factor in SETTINGS.single_factors:
            changed = prices.copy()
            changed[row] *= factor
            found.append((1.0, changed))
    found += [(0.0, prices), *((0.0, unit) for unit in np.eye(len(prices)))]
    return np.array([weight for weight, _ in found]), np.array([vector for _, vector in found])
