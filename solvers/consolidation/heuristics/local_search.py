"""Large-neighbourhood search: ruin and recreate (Schrimpf et al. 2000), on many sets of servers at once.

In each sweep, random servers are divided into small disjoint sets. Most jobs that run on servers of one set
alone are removed; unplaced jobs are distributed over the sets. Each set is filled again greedily with random
weights of the resources, and keeps the result if it is no worse.

The insertion is best fit for vector bin packing (Panigrahy et al. 2011) in a given order: a job goes on the
server with the least weighted residual capacity. Step k inserts the k-th job of every set, as arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ....formulations.common.clock import Clock, check_time
from ....formulations.common.objective import TIE_TOLERANCE
from ....formulations.consolidation.formulation import ConsolidationFormulation
from ....formulations.consolidation.plan import JobPlacement
from ....instances.common.arrays import Flags, Floats, Ints
from ....instances.common.errors import OutOfTimeError
from ...common.result import SolveOptions
from .placement_arrays import ObjectiveLosses, Pieces, PlacementArrays, row_sums
from .placer import CAPACITY_TOLERANCE

Scalar = TypeVar("Scalar", bound=np.generic)
LAST_PENALTY = 1e6
"""A penalty that is larger than any weighted residual capacity."""


@dataclass(frozen=True)
class Neighbourhood:
    """G disjoint sets of H servers each, and the jobs to be inserted there.

    Attributes
    ----------
    servers
        Index of each server, shape (G, H).
    left
        Residual capacity of each server, shape (R, G, H).
    weights
        Weight of each resource, in units of `scale`, shape (G, R).
    penalty
        Penalty of each server while it is empty, shape (G, H).
    job, row
        The jobs in the order of their insertion, set after set, and their set, shape (I,).
    home
        Column of the server with most of a job's current tasks; -1 for none, shape (I,).
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
    """Greedy insertion of jobs into many disjoint sets of servers at a time.

    Parameters
    ----------
    scale
        Unit of each resource, shape (R,).
    """

    def __init__(self, arrays: PlacementArrays, scale: Floats, near: Neighbourhood) -> None:
        self._arrays, self._near = arrays, near
        count, (rows, _) = len(near.job), near.servers.shape
        self._rows = np.arange(rows)
        place = np.arange(count) - np.searchsorted(near.row, self._rows)[near.row]
        steps = int(place.max(initial=-1)) + 1

        def queue(figures: NDArray[Scalar], rest: float) -> NDArray[Scalar]:
            """Arrange an attribute of the jobs by insertion step and set of servers, padded by `rest`."""
            filled = np.full((steps, rows, *figures.shape[1:]), rest, dtype=figures.dtype)
            filled[place, near.row] = figures
            return filled

        unit = arrays.unit[near.job]
        self._job = queue(near.job, -1)
        self._unit = _by_resource(queue(unit, np.inf))
        # No unit of what is not there fits; what a job does not ask for always does.
        self._least = _by_resource(queue(np.where(unit > 0, unit / CAPACITY_TOLERANCE, -np.inf), np.inf))
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
        """Insert all jobs, each completely or not at all; return how many of its units are on each server."""
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
        """Return the rank of each server for the job of its set, shape (G, H); infinite if it does not fit.

        The minimum rank is best.
        """
        if self._allowed is not None:
            fits &= self._allowed[self._arrays.kind[self._job[step]], self._rows]
        if self._some_only_used[step]:
            fits &= (self._penalty == 0) | ~self._only_used[step][:, None]
        rank = np.where(fits, self._score + self._penalty, np.inf)
        if self._some_home[step]:
            homes = np.flatnonzero(self._home[step] >= 0)
            rank[homes, self._home[step, homes]] -= 4 * LAST_PENALTY
        return rank

    def _insert_units(self, step: int) -> None:
        """Insert the step-th job of every set of servers, if each of these jobs has one unit only."""
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
        """Insert the step-th job of every set, of any number of units, on the servers that hold most."""
        amounts, units = self._unit[step], self._units[step]
        room = np.full(self._left.shape, np.inf)
        np.divide(self._left * CAPACITY_TOLERANCE, amounts, out=room, where=amounts > 0)
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
    """Transpose demands of shape (steps, G, R) to (steps, R, G, 1), to compare with residual capacities."""
    return np.ascontiguousarray(queue.transpose(0, 2, 1))[..., None]


@dataclass(frozen=True)
class SearchSettings:
    """Parameters of the large-neighbourhood search.

    Attributes
    ----------
    least_servers, most_servers
        Fewest and most servers of a set.
    most_sets
        Largest number of sets in one sweep.
    alike_share
        Share of sweeps whose sets have servers of one GPU model, as far as possible.
    waste_share
        Share of sweeps that prefer servers with residual capacity.
    together_share
        Share of sweeps that put the servers of a job with several into one set.
    most_empty
        One in so many sampled servers may be empty, if used servers are an objective.
    steepness
        Exponent of the random weights: the larger, the more one resource dominates.
    noise
        Standard deviation of the logarithm of random factors on job sizes.
    by_density
        Share of the sets in which jobs with the highest value for their size come first.
    most_idle
        Sweeps without improvement after which the search ends.
    """

    least_servers: int = 3
    most_servers: int = 12
    most_sets: int = 128
    alike_share: float = 0.3
    waste_share: float = 0.5
    together_share: float = 0.5
    most_empty: int = 6
    steepness: float = 1.5
    noise: float = 0.3
    by_density: float = 0.5
    most_idle: int = 1000


SETTINGS = SearchSettings()


def improve(
    formulation: ConsolidationFormulation,
    plan: Sequence[JobPlacement],
    options: SolveOptions,
    clock: Clock,
    stop: Callable[[tuple[float, ...]], bool],
    settings: SearchSettings = SETTINGS,
) -> list[JobPlacement]:
    """Improve a feasible plan by large-neighbourhood search, lexicographically in its objectives.

    It ends at the time limit, when the plan is good enough, or after many sweeps without improvement.

    Parameters
    ----------
    options
        Solve options, of which the seed is used.
    stop
        Returns whether a plan with these values is good enough.
    """
    try:
        with clock.enforced():
            search = _Search(PlacementArrays(formulation, plan), settings, options.seed or 0)
    except OutOfTimeError:
        return list(plan)
    first, losses = formulation.evaluate(plan), search.total()
    idle, values = 0, first
    while idle < settings.most_idle and not stop(values):
        try:
            with clock.enforced():
                check_time()
                better = search.sweep()
        except OutOfTimeError:
            break
        idle = 0 if better else idle + 1
        if better:
            # Where an objective is to be maximised, its loss is negative.
            won = zip(formulation.objectives, first, losses - search.total(), strict=True)
            values = tuple(float(v - less if o.sense == "min" else v + less) for o, v, less in won)
    return search.plan()


class _Search:
    """State of the large-neighbourhood search: the current placement and its objective values."""

    def __init__(self, arrays: PlacementArrays, settings: SearchSettings, seed: int) -> None:
        self.arrays, self.settings = arrays, settings
        self.losses = ObjectiveLosses(arrays)
        self.pieces = arrays.start
        self._rng = np.random.default_rng(seed)
        names = arrays.formulation.instance.objectives
        self._scale = np.where(arrays.free.any(axis=0), np.abs(arrays.free).mean(axis=0), 1.0)
        demand = (arrays.unit * arrays.units[:, None]).sum(axis=0) / np.maximum(self._scale, TIE_TOLERANCE)
        self._asked = demand / max(demand.sum(), TIE_TOLERANCE)
        self._size = arrays.unit * arrays.units[:, None] / self._scale
        self._counts_servers = "servers" in names
        self._migrations = arrays.formulation.instance.moves_count
        first = [name for name in names if name in ("value", "servers")]
        # A job that adds nothing must not make a server used.
        gains = (arrays.worth > 0) if first[:1] == ["value"] else np.zeros(len(arrays.worth), dtype=bool)
        self._only_used = ~gains & ~arrays.must if self._counts_servers else np.zeros_like(arrays.must)
        self._priority = np.where(arrays.must, 2, 1 * gains)
        models: dict[str | None, int] = {}
        servers = arrays.formulation.servers.values()
        self._model = np.array([models.setdefault(s.gpu_model, len(models)) for s in servers])

    def plan(self) -> list[JobPlacement]:
        """Return the current plan: the placement of each job."""
        return self.arrays.plan(self.pieces)

    def total(self) -> Floats:
        """Return the objective values of the current plan, all to be minimised, up to constants."""
        jobs, servers = np.zeros(len(self.arrays.units), int), np.zeros(len(self.arrays.names), int)
        return self.losses.of(self.pieces, jobs, servers, 1)[:, 0]

    def sweep(self) -> bool:
        """Ruin and recreate many disjoint sets of servers; return whether the objectives of any improved."""
        arrays, pieces = self.arrays, self.pieces
        left = arrays.left(pieces)
        servers = self._sets(left)
        rows = len(servers)
        row_of_server = np.full(len(arrays.names), rows)
        row_of_server[servers] = np.arange(rows)[:, None]
        emptied = self._emptied(servers, left)
        row_of_job = self._removed_jobs(row_of_server, rows, emptied)
        removed = row_of_job[pieces.job] < rows
        stays = pieces.where(~removed)
        near = self._neighbourhood(servers, row_of_job, stays, emptied)
        inserted = Insertion(arrays, self._scale, near).run()
        return self._accept(stays, pieces.where(removed), inserted, row_of_job, row_of_server, rows)

    def _sets(self, left: Floats) -> Ints:
        """Return G random disjoint sets of H servers each as server indices, shape (G, H)."""
        rng, settings, count = self._rng, self.settings, len(left)
        key = rng.random(count)
        used = self.arrays.taken.copy()
        used[self.pieces.server] = True
        if rng.random() < settings.waste_share:
            key -= rng.random(count) * (used & (left > TIE_TOLERANCE * self._scale).any(axis=1))
        if rng.random() < settings.together_share:
            self._bring_together(key)
        if self._counts_servers and used.any() and not self._useful_jobs_are_unplaced:
            # Of those that hold nothing a few will do.
            too_many = (~used).sum() * rng.random(count) * settings.most_empty > used.sum()
            key[~used & too_many] = np.inf
        drawn = np.argsort(key)[: int((key < np.inf).sum())]
        size = min(len(drawn), int(rng.integers(settings.least_servers, settings.most_servers + 1)))
        sets = min(len(drawn) // size, settings.most_sets)
        drawn = drawn[: sets * size]
        if rng.random() < settings.alike_share:
            drawn = drawn[np.argsort(self._model[drawn], kind="stable")]
        return drawn.reshape(sets, size)

    def _bring_together(self, key: Floats) -> None:
        """Give all servers of some multi-server jobs the same sort key, so that they come into one set."""
        job, server = self.pieces.job, self.pieces.server
        several = np.flatnonzero(np.append(job[1:] == job[:-1], False))
        for at in self._rng.permutation(several)[: len(key) // 4]:
            key[server[at + 1]] = key[server[at]]

    def _removed_jobs(self, row_of_server: Ints, rows: int, emptied: Ints) -> Ints:
        """Return the set of servers into which each job is reinserted, (J,); `rows` if not removed."""
        rng, pieces, count = self._rng, self.pieces, len(self.arrays.units)
        row_of_job = np.full(count, rows)
        if len(pieces.job):
            first = np.flatnonzero(np.append(True, pieces.job[1:] != pieces.job[:-1]))
            row_of_piece = row_of_server[pieces.server]
            lowest, highest = (f.reduceat(row_of_piece, first) for f in (np.minimum, np.maximum))
            placed = pieces.job[first]
            row_of_job[placed] = np.where(lowest == highest, lowest, rows)
        kept = rng.random(rows + 1)
        stays = rng.random(count) < kept[row_of_job]
        stays[pieces.job[np.isin(pieces.server, emptied)]] = False
        row_of_job[stays] = rows
        return self._with_unplaced(row_of_job, rows)

    def _emptied(self, servers: Ints, left: Floats) -> Ints:
        """Return the server of each set that is to be emptied, one with little load, (G, 1); -1 for none."""
        if not self._counts_servers:
            return np.full((len(servers), 1), -1)
        load = self._load(left)[servers]
        load[(load == 0) | self.arrays.taken[servers]] = np.inf
        column = (load * self._rng.random(servers.shape)).argmin(axis=1)
        return np.take_along_axis(servers, column[:, None], axis=1)

    def _load(self, left: Floats) -> Floats:
        """Return the mean utilisation of each server, weighted by total demand per resource, shape (N,)."""
        return np.asarray(((self.arrays.free - left) / self._scale) @ self._asked)

    @property
    def _unplaced(self) -> Flags:
        """Mask of the unplaced jobs that could be placed, shape (J,)."""
        waits = self.arrays.movable & (self.arrays.most > 0)
        waits[self.pieces.job] = False
        return waits

    @property
    def _useful_jobs_are_unplaced(self) -> bool:
        """Whether any unplaced job is required or has positive value under the leading objective."""
        return bool((self._priority[self._unplaced] > 0).any())

    def _with_unplaced(self, row_of_job: Ints, rows: int) -> Ints:
        """Assign some of the unplaced jobs to random sets of servers, in `row_of_job`, shape (J,)."""
        waiting = self._rng.permutation(np.flatnonzero(self._unplaced))
        waiting = waiting[: max(10 * rows, int((row_of_job < rows).sum()))]
        row_of_job[waiting] = self._rng.integers(0, rows, len(waiting))
        return row_of_job

    def _neighbourhood(self, servers: Ints, row_of_job: Ints, stays: Pieces, emptied: Ints) -> Neighbourhood:
        """Return the destroyed solution: residual capacities without removed jobs, and jobs to reinsert."""
        arrays, (rows, size) = self.arrays, servers.shape
        weights = self._rng.exponential(size=(rows, len(self._scale))) ** self.settings.steepness
        weights /= weights.sum(axis=1, keepdims=True)
        job, row = self._queue(row_of_job, weights)
        left = arrays.left(stays)[servers].transpose(2, 0, 1)
        home = np.full(len(job), -1)
        if self._migrations:
            # A last entry for jobs that are nowhere now, whose home is -1.
            column, row_of_server = (np.full(len(arrays.names) + 1, -1) for _ in range(2))
            column[servers], row_of_server[servers] = np.arange(size), np.arange(rows)[:, None]
            at = self.losses.home[job]
            home = np.where(row_of_server[at] == row, column[at], -1)
        penalty = self._penalties(servers, left, weights, stays, emptied)
        return Neighbourhood(servers, left, weights, penalty, job, row, home, self._only_used[job])

    def _queue(self, row_of_job: Ints, weights: Floats) -> tuple[Ints, Ints]:
        """Return the jobs to reinsert and their sets of servers, in order of insertion.

        The order within a set is by size or by value per size, randomised; required jobs come first.
        """
        rng, settings, rows = self._rng, self.settings, len(weights)
        job: Ints = np.flatnonzero(row_of_job < rows)
        row = row_of_job[job]
        keys: Floats = (self._size[job] * weights[row]).sum(axis=1)
        by_density: Flags = rng.random(size=(rows,)) < settings.by_density
        density = self.arrays.worth[job] / np.maximum(keys, TIE_TOLERANCE)
        keys = np.where(by_density[row], density, keys)
        keys = keys * np.exp(settings.noise * rng.normal(size=(len(job),)))
        order = np.lexsort((np.negative(keys), np.negative(self._priority[job]), row))
        return job[order], row[order]

    def _penalties(
        self, servers: Ints, left: Floats, weights: Floats, stays: Pieces, emptied: Ints
    ) -> Floats:
        """Return the penalty of opening each empty server, shape (G, H): largest or smallest open first."""
        if not self._counts_servers:
            return np.zeros(servers.shape)
        used = self.arrays.taken.copy()
        used[stays.server] = True
        score = np.einsum("rgh,gr->gh", left / self._scale[:, None, None], weights)
        largest_first = self._rng.random((len(servers), 1)) < 0.5
        opening = np.where(used[servers], 0.0, LAST_PENALTY - 2 * score * largest_first)
        return np.where(servers == emptied, 2 * LAST_PENALTY, opening)

    def _accept(
        self, stays: Pieces, old: Pieces, new: Pieces, row_of_job: Ints, row_of_server: Ints, rows: int
    ) -> bool:
        """Accept the reinserted jobs of each set that is no worse; return whether any set improved."""
        arrays, after = self.arrays, stays.and_more(new)
        before_losses = self.losses.of(self.pieces, row_of_job, row_of_server, rows)
        better, worse = lexicographic_comparison(
            self.losses.of(after, row_of_job, row_of_server, rows), before_losses
        )
        missing = np.ones(len(self.arrays.units), dtype=bool)
        missing[after.job] = False
        if self._counts_servers and not self._useful_jobs_are_unplaced:
            # What changes nothing else should bring loads together, so that a server gets empty at last.
            loads = [self._load(arrays.left(pieces)) ** 2 for pieces in (self.pieces, after)]
            before, now = (row_sums(row_of_server, of, rows + 1)[:rows] for of in loads)
            worse |= ~better & (now < before)
        worse[row_of_job[missing & self.arrays.must & (row_of_job < rows)]] = True
        takes = np.append(~worse, False)
        kept = old.where(~takes[row_of_job[old.job]])
        self.pieces = stays.and_more(kept).and_more(new.where(takes[row_of_job[new.job]]))
        return bool((better & ~worse).any())


def lexicographic_comparison(new: Floats, old: Floats) -> tuple[Flags, Flags]:
    """Return the columns of `new` that are lexicographically less than those of `old`, and the greater ones.

    Rows are objectives, to be minimised; both results are masks over the columns.
    """
    better = np.zeros(new.shape[1], dtype=bool)
    worse = np.zeros(new.shape[1], dtype=bool)
    for ours, theirs in zip(new, old, strict=True):
        open_still = ~(better | worse)
        slack = TIE_TOLERANCE * np.maximum(np.abs(theirs), TIE_TOLERANCE)
        better |= open_still & (ours < theirs - slack)
        worse |= open_still & (ours > theirs + slack)
    return better, worse
