"""The cheapest chain of a core within the limits, by labels: exact, and fast where prices leave little open.

A label is a way from the first layer to some layer: what it takes, what it costs, the type it ends with. It
goes where prices prove that no completion stays below the cutoff within the limits, and of labels that take
the same only the cheapest stays. The cutoff is raised in steps: a chain below a low cutoff is found, and is
the cheapest, before the labels that a higher one would let through are made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ..common.base import Clock
from .core import Core, CoreAnswer
from .intervals import Cell, Runs
from .shortest_path import Chain

STEPS = (0.25, 0.5, 1.0)
"""How far from the bound to the cutoff the search goes, one after another."""
PAIRS_AT_ONCE = 200_000
"""Labels times columns that are worked on together."""
MOST_WORK = 8_000_000
"""Labels times price vectors: about a second."""
MARGIN = 1e-12
"""Relative slack for rounding, on the side that keeps labels."""
FACTORS = (0.0, 0.5, 0.8, 0.9, 1.1, 1.25, 2.0)
"""What all prices are multiplied by; single ones by the first, second and last."""


@dataclass
class _Labels:
    """Labels that wait at a layer, in columns.

    Attributes
    ----------
    kind, taken, cost
        Type of the last stage, 0 where it does not matter; shapes (n,), (n, R), (n,).
    last
        Place of each label's own record among all records.
    """

    kind: Ints
    taken: Floats
    cost: Floats
    last: Ints

    def only(self, keep: Ints) -> _Labels:
        """Return some of the labels."""
        return _Labels(self.kind[keep], self.taken[keep], self.cost[keep], self.last[keep])


@dataclass
class _Records:
    """How every label that was kept came about: the record before it, and the column of the core."""

    before: list[Ints] = field(default_factory=lambda: [np.array([-1])])
    column: list[Ints] = field(default_factory=lambda: [np.array([-1])])
    count: int = 1

    def add(self, before: Ints, column: Ints) -> Ints:
        """Return the places of new records."""
        self.before.append(before)
        self.column.append(column)
        self.count += len(before)
        return np.arange(self.count - len(before), self.count)

    def trace(self, place: int) -> list[int]:
        """Return the columns that lead to a record, first to last."""
        before, column = np.concatenate(self.before), np.concatenate(self.column)
        found: list[int] = []
        while place > 0:
            found.append(int(column[place]))
            place = int(before[place])
        return found[::-1]


def search_labels(
    runs: Runs, cell: Cell, core: Core, prices: Floats, cutoff: float, clock: Clock
) -> CoreAnswer | None:
    """Return the cheapest chain of a core below the cutoff, or that there is none; None if it gave up.

    Parameters
    ----------
    prices
        y ≥ 0; any are right, good ones make it fast.
    cutoff
        Infinite: any chain within the limits is of interest.
    """
    search = _Search(runs, cell, core, prices, clock)
    answer: CoreAnswer | None = None
    if math.isinf(cutoff):
        answer = search.below(2 * float(search.cost.sum()) + 1.0)  # no chain costs so much
        if answer is not None and answer.path is None:
            answer = CoreAnswer(None, math.inf)
        return answer
    for step in STEPS:
        reach = cell.bound + step * (cutoff - cell.bound) if math.isfinite(cell.bound) else cutoff
        answer = search.below(reach)
        if answer is None or answer.path is not None:
            break
    return answer


class _Search:
    """One core; `below` may be asked several times."""

    def __init__(self, runs: Runs, cell: Cell, core: Core, prices: Floats, clock: Clock) -> None:
        chain = runs.chain
        self.clock, self.limit, self.layers = clock, runs.rows.limit, chain.layers
        self.apart, self.run = chain.apart, core.run
        self.cost = cell.cost[core.run]
        self.taken = (runs.row_of[:, core.run] * cell.units[core.run]).T
        self.first, self.after = chain.first[core.run], chain.last[core.run] + 1
        self.kind = chain.kind[core.run]
        self.order = np.argsort(self.first, kind="stable")
        self.edges = np.searchsorted(self.first[self.order], np.arange(self.layers + 1))
        self.sorted = np.lexsort((self.first, self.kind, self.after))
        place = self.sorted
        self.chain = Chain(
            chain.layers, chain.kinds, self.first[place], self.after[place] - 1, self.kind[place], chain.apart
        )
        self.weights, self.vectors = _multipliers(prices)

    def below(self, cutoff: float) -> CoreAnswer | None:
        """Return the cheapest chain that costs less, or that there is none; None if the search gave up."""
        weights, vectors = self.weights, self.vectors
        values = weights[:, None] * self.cost[self.sorted] + vectors @ self.taken[self.sorted].T
        rest = self.chain.backward(values)
        slack = MARGIN * (np.abs(weights * cutoff) + vectors @ self.limit) + 1e-280
        room = weights * cutoff + vectors @ self.limit + slack
        self.rest, self.room, self.work = rest, room, 0
        records = _Records()
        waiting: list[list[_Labels]] = [[] for _ in range(self.layers + 1)]
        waiting[0].append(_origin(len(self.limit)))
        for layer in range(self.layers):
            labels = _joined(waiting[layer])
            waiting[layer] = []
            if labels is None:
                continue
            labels = _cheapest(self._hopeful(labels, layer))
            columns = self.order[self.edges[layer] : self.edges[layer + 1]]
            size = max(1, PAIRS_AT_ONCE // max(1, len(labels.cost)))
            for start in range(0, len(columns), size):
                if self.work > MOST_WORK or self.clock.expired:
                    return None
                self._move(labels, columns[start : start + size], records, waiting)
        best = _joined(waiting[self.layers])
        if best is None:
            return CoreAnswer(None, cutoff)
        winner = int(best.cost.argmin())
        if best.cost[winner] >= cutoff:
            return CoreAnswer(None, cutoff)
        path = self.run[records.trace(int(best.last[winner]))]
        return CoreAnswer(path, float(best.cost[winner]) * (1 - MARGIN))

    def _hopeful(self, labels: _Labels, layer: int) -> _Labels:
        """Return the labels at a layer that no prices rule out."""
        for m in range(1, len(self.weights) if layer else 0):
            if not len(labels.cost):
                break
            self.work += len(labels.cost)
            least = self.rest[m, layer][labels.kind] if self.apart else self.rest[m, layer, 0]
            value = self.weights[m] * labels.cost + labels.taken @ self.vectors[m] + least
            hopeful = value <= self.room[m]
            if not hopeful.all():
                labels = labels.only(np.flatnonzero(hopeful))
        return labels

    def _move(self, labels: _Labels, columns: Ints, records: _Records, waiting: list[list[_Labels]]) -> None:
        """Let all labels go on with all columns, as far as limits and the first prices allow."""
        label = np.tile(np.arange(len(labels.cost)), len(columns))
        column = np.repeat(columns, len(labels.cost))
        self.work += len(label)
        kind = self.kind[column]
        if self.apart:
            keep = np.flatnonzero(labels.kind[label] != kind)
            label, column, kind = label[keep], column[keep], kind[keep]
        taken, cost = labels.taken[label] + self.taken[column], labels.cost[label] + self.cost[column]
        after = self.after[column]
        least = self.rest[0, after, kind] if self.apart else self.rest[0, after, 0]
        hopeful = cost + taken @ self.vectors[0] + least <= self.room[0]
        hopeful &= (taken <= self.limit * (1 + MARGIN)).all(axis=1)
        keep = np.flatnonzero(hopeful)
        keep = keep[np.argsort(after[keep], kind="stable")]
        if not len(keep):
            return
        ends, starts = np.unique(after[keep], return_index=True)
        last = records.add(labels.last[label[keep]], column[keep])
        moved = _Labels(kind[keep] if self.apart else 0 * keep, taken[keep], cost[keep], last)
        for end, part in zip(ends.tolist(), np.split(np.arange(len(keep)), starts[1:]), strict=True):
            waiting[end].append(moved.only(part))


def _origin(limits: int) -> _Labels:
    return _Labels(np.array([-1]), np.zeros((1, limits)), np.zeros(1), np.array([0]))


def _joined(parts: list[_Labels]) -> _Labels | None:
    if not parts:
        return None
    return _Labels(
        np.concatenate([part.kind for part in parts]),
        np.concatenate([part.taken for part in parts]),
        np.concatenate([part.cost for part in parts]),
        np.concatenate([part.last for part in parts]),
    )


def _cheapest(labels: _Labels) -> _Labels:
    """Return of the labels of one type that take the same the cheapest."""
    if len(labels.cost) < 2:
        return labels
    order = np.lexsort((labels.cost, *labels.taken.T, labels.kind))
    labels = labels.only(order)
    new = np.ones(len(order), dtype=bool)
    new[1:] = (labels.taken[1:] != labels.taken[:-1]).any(axis=1) | (labels.kind[1:] != labels.kind[:-1])
    return labels.only(np.flatnonzero(new))


def _multipliers(prices: Floats) -> tuple[Floats, Floats]:
    """Return weights of the cost, shape (M,), and prices, shape (M, R), around the given prices."""
    found = [(1.0, prices)]
    for factor in FACTORS:
        found.append((1.0, prices * factor))
    for row in np.flatnonzero(prices > 0).tolist():
        for factor in (FACTORS[0], FACTORS[1], FACTORS[-1]):
            changed = prices.copy()
            changed[row] *= factor
            found.append((1.0, changed))
    found += [(0.0, prices), *((0.0, unit) for unit in np.eye(len(prices)))]
    return np.array([weight for weight, _ in found]), np.array([vector for _, vector in found])
