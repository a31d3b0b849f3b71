"""Greedy insertion of jobs in many small sets of servers at a time, each set with weights of its own.

It is best fit for vector bin packing (Panigrahy et al. 2011) in a queue that is given: a job goes on the
server whose weighted residual capacity is least. Step k inserts the k-th job of every set, as arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ....formulations.common.clock import check_time
from ....instances.common.arrays import Flags, Floats, Ints
from .arrays import Pieces, PlacementArrays
from .placer import LOOSE

Scalar = TypeVar("Scalar", bound=np.generic)
LAST = 1e6
"""A penalty that is larger than any weighted residual capacity."""


@dataclass(frozen=True)
class Neighbourhood:
    """G disjoint sets of H servers each, and the jobs to be inserted there.

    Attributes
    ----------
    servers
        Index of each server, shape (G, H).
    left
        What is left on them, shape (R, G, H).
    weights
        Of each resource, in units of `scale`, shape (G, R).
    penalty
        Of a server that holds nothing, as long as this is so, shape (G, H).
    job, row
        The jobs in the order of their insertion, set after set, and their set, shape (I,).
    home
        Column of the server where a job would rather be; -1 for none, shape (I,).
    only_used
        Whether a job may go only on servers without penalty, shape (I,).
    """

    servers: Ints
    left: Floats
    weights: Floats
    penalty: Floats
    job: Ints
    row: Ints
    home: Ints
    only_used: Flags


class Insertion:
    """The state while jobs are inserted.

    Parameters
    ----------
    scale
        What counts as one of each resource, shape (R,).
    """

    def __init__(self, arrays: PlacementArrays, scale: Floats, near: Neighbourhood) -> None:
        self._arrays, self._near = arrays, near
        count, (rows, _) = len(near.job), near.servers.shape
        self._rows = np.arange(rows)
        place = np.arange(count) - np.searchsorted(near.row, self._rows)[near.row]
        steps = int(place.max(initial=-1)) + 1

        def queue(figures: NDArray[Scalar], rest: float) -> NDArray[Scalar]:
            """Return figures of the jobs by step and set."""
            filled = np.full((steps, rows, *figures.shape[1:]), rest, dtype=figures.dtype)
            filled[place, near.row] = figures
            return filled

        unit = arrays.unit[near.job]
        self._job = queue(near.job, -1)
        self._unit = _by_resource(queue(unit, np.inf))
        # No unit of what is not there fits; what a job does not ask for always does.
        self._least = _by_resource(queue(np.where(unit > 0, unit / LOOSE, -np.inf), np.inf))
        self._weight = queue((unit / scale * near.weights[near.row]).sum(axis=1), 0.0)
        self._home = queue(near.home, -1)
        self._only_used = queue(near.only_used, False)
        self._some_home: Flags = np.asarray((self._home >= 0).any(axis=1))
        self._some_only_used: Flags = np.asarray(self._only_used.any(axis=1))
        self._units = queue(arrays.units[near.job], 1)
        self._single: Flags = np.asarray((self._units == 1).all(axis=1))
        self._left = near.left.copy()
        self._score = np.einsum("rgh,gr->gh", near.left / scale[:, None, None], near.weights)
        self._penalty = near.penalty.copy()
        self._allowed: Flags | None = None if arrays.allowed.all() else arrays.allowed[:, near.servers]
        self._found: list[tuple[Ints, Ints, Ints]] = []

    def run(self) -> Pieces:
        """Insert all jobs, each whole or not at all; return their pieces."""
        for step in range(len(self._job)):
            check_time()
            if self._single[step]:
                self._insert_units(step)
            else:
                self._insert_tasks(step)
        if not self._found:
            none = np.zeros(0, dtype=np.int64)
            return Pieces(none, none, none)
        job, server, units = (np.concatenate(parts) for parts in zip(*self._found, strict=True))
        return Pieces(job, server, units)

    def _rank(self, step: int, fits: Flags) -> Floats:
        """Return what makes servers unattractive; infinite where a job may not be."""
        if self._allowed is not None:
            fits &= self._allowed[self._arrays.kind[self._job[step]], self._rows]
        if self._some_only_used[step]:
            fits &= (self._penalty == 0) | ~self._only_used[step][:, None]
        rank = np.where(fits, self._score + self._penalty, np.inf)
        if self._some_home[step]:
            homes = np.flatnonzero(self._home[step] >= 0)
            rank[homes, self._home[step, homes]] -= 4 * LAST
        return rank

    def _insert_units(self, step: int) -> None:
        """Insert jobs of one unit."""
        amounts = self._unit[step]
        rank = self._rank(step, (self._least[step] <= self._left).all(axis=0))
        columns = rank.argmin(axis=1)
        rows = np.flatnonzero(rank[self._rows, columns] < np.inf)
        columns = columns[rows]
        self._left[:, rows, columns] -= amounts[:, rows, 0]
        self._score[rows, columns] -= self._weight[step, rows]
        self._penalty[rows, columns] = 0.0
        self._note(step, rows, columns, np.ones(len(rows), dtype=np.int64))

    def _insert_tasks(self, step: int) -> None:
        """Insert jobs of any number of units: on one server, or on those that hold most of them."""
        amounts, units = self._unit[step], self._units[step]
        room = np.full(self._left.shape, np.inf)
        np.divide(self._left * LOOSE, amounts, out=room, where=amounts > 0)
        counts = np.clip(np.floor(room.min(axis=0)), 0, units[:, None]).astype(np.int64)
        rank = self._rank(step, counts > 0)
        counts[rank == np.inf] = 0
        # The server that holds most comes first, and of equal ones that with the lowest rank.
        order = np.lexsort((rank, -counts), axis=1)
        sorted_counts = np.take_along_axis(counts, order, axis=1)
        before = np.cumsum(sorted_counts, axis=1) - sorted_counts
        sorted_parts = np.clip(units[:, None] - before, 0, sorted_counts)
        most = self._arrays.most[self._job[step]]
        whole = (sorted_parts.sum(axis=1) == units) & ((sorted_parts > 0).sum(axis=1) <= most)
        sorted_parts[~whole] = 0
        parts = np.zeros_like(counts)
        np.put_along_axis(parts, order, sorted_parts, axis=1)
        rows, columns = np.nonzero(parts)
        inserted = parts[rows, columns]
        self._left[:, rows, columns] -= amounts[:, rows, 0] * inserted
        self._score[rows, columns] -= self._weight[step, rows] * inserted
        self._penalty[rows, columns] = 0.0
        self._note(step, rows, columns, inserted)

    def _note(self, step: int, rows: Ints, columns: Ints, units: Ints) -> None:
        self._found.append((self._job[step, rows], self._near.servers[rows, columns], units))


def _by_resource(queue: Floats) -> Floats:
    """Return amounts of shape (steps, G, R) as (steps, R, G, 1), to be compared with what is left."""
    return np.ascontiguousarray(queue.transpose(0, 2, 1))[..., None]
