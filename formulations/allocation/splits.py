"""Splits of jobs over servers: remote tasks, the time that a split saves, and the least time of any split.

A configuration with p parameter servers and w workers is split into pieces: x_i parameter servers and y_i
workers on server i, each piece on another server. Only what leaves a server travels, so that the slowest
task of a step waits for

    T = max {max_{x_i > 0} (w − y_i), max_{y_i > 0} (p − x_i)}

remote tasks, in place of w (Optimus, EuroSys'18, section 4.2). A share σ of the time per w/p is spent on the
network, so that w/p becomes ((1 − σ)·w + σ·T) / p. Measured speeds name the number of pieces instead.

A relaxation of the servers keeps their total capacities alone. It is a multiple-choice knapsack whose
configurations have the least time of any split into pieces that each fit on some server. The theorem of the
paper, that fewest servers and equal pieces are best, is a rule for plans and no bound: of 2 parameter servers
and 6 workers on two servers, (2, 4) and (0, 2) have T = 2, the equal pieces T = 3.

Where pieces pack badly, such as two pieces of 3 GPUs on servers of 4, prices of pieces give a better bound. A
piece with a units of a resource costs ρ(⌊a⌋); the pieces of all jobs together cost at most what can be earned
on the servers, Σ_i max {Σ_q ρ(a_q) : Σ_q a_q ≤ C_i}. That is one more capacity, `PIECES`. The price of a
configuration's pieces depends on its T: each T that makes them cheaper gives a configuration of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...instances.allocation.instance import AllocationInstance
from ...instances.allocation.job import Tasks
from ...instances.allocation.job_table import TABLE, JobTable
from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.common.errors import TooLargeError
from ..common.clock import check_time
from ..common.compiled import compiled
from ..common.objective import all_loosened
from .configurations import demand_of, max_tasks

PIECES = "pieces"
"""Name of the capacity that prices of pieces add."""
STAYS = -1
"""In place of a number of remote tasks or servers: the job stays where it runs."""
MAX_SPLITS = 1_000_000
"""Largest number of triples (p, w, T) of one variant."""
MAX_STEPS = 10**10
"""Largest number of steps for the splits of one variant, some seconds."""
SIGMA = 1.0
"""Share of the time per worker and parameter server that is spent on the network, if none is given."""

PiecePrices = Mapping[str, Sequence[float]]
"""Resource → price of a piece with 1, 2, … units of it; a larger piece has the last price."""


class Servers:
    """Free amounts of every server, the shapes of servers with their numbers, and what runs on them.

    Attributes
    ----------
    names, free
        Of S servers; shape (S, R), in the order of the resources of the job table.
    shapes, counts
        Distinct rows of `free`, shape (C, R), and how many servers have each.
    current
        Job → the pieces with which it runs now, where that is known, in the order of the servers.
    share
        σ, the share of the time per worker and parameter server that is spent on the network.
    """

    def __init__(self, instance: AllocationInstance, resources: Sequence[str]) -> None:
        rows = instance.expanded_servers
        amounts: dict[int, list[float]] = {}
        for row in rows.values():
            if id(row) not in amounts:
                amounts[id(row)] = [row.available.get(name, 0.0) for name in resources]
        self.names = tuple(rows)
        self.free = np.array([amounts[id(row)] for row in rows.values()]).reshape(len(rows), len(resources))
        self.shapes, self.counts = np.unique(self.free, axis=0, return_counts=True)
        self.resources = tuple(resources)
        self.share = SIGMA if instance.network_share is None else instance.network_share
        self.current: dict[int, Ints] = {}
        for j, job in enumerate(instance.jobs if instance.has_placements else ()):
            if job.current is not None and job.current.placement is not None:
                pieces = [piece for piece in self.pieces(job.current.placement) if any(piece[1:])]
                self.current[j] = np.array(pieces, np.int64).reshape(-1, 3)

    def pieces(self, placement: Mapping[str, Tasks] | None) -> list[list[int]]:
        """Return server (−1: unknown), parameter servers and workers of each piece, by server."""
        return sorted([self.index.get(name, -1), at.ps, at.workers] for name, at in (placement or {}).items())

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each server by name."""
        return {name: i for i, name in enumerate(self.names)}

    def fits(self, demand: Floats) -> Flags:
        """Return which demands, shape (…, R), fit on some empty server."""
        fits: Flags = np.all(demand[..., None, :] <= all_loosened(self.shapes), axis=-1).any(axis=-1)
        return fits

    def earnings(self, prices: PiecePrices) -> float:
        """Return the most that pieces at these prices can cost together on all servers."""
        total = 0.0
        for name, listed in prices.items():
            price = np.array(listed, dtype=float)
            units = all_loosened(self.shapes[:, self.resources.index(name)]).astype(np.int64)
            total += float(self.counts @ _most_earned(price, int(units.max(initial=0)))[units])
        return total


def _most_earned(prices: Floats, units: int) -> Floats:
    """Return the largest total price of pieces that fit in 0, 1, … units of a resource."""
    most = np.zeros(units + 1)
    listed = np.maximum.accumulate(np.concatenate([prices, np.full(max(0, units - len(prices)), prices[-1])]))
    for unit in range(1, units + 1):
        most[unit] = (listed[:unit] + most[unit - 1 :: -1][:unit]).max()
    return most


def piece_price(prices: PiecePrices, resources: Sequence[str], demand: Floats) -> Floats:
    """Return the price of pieces with these demands, shape (…, R); 0 for a piece below one unit."""
    total = np.zeros(demand.shape[:-1])
    for name, listed in prices.items():
        # Rounded down, so that pieces on one server have together at most the units that fit there.
        units = np.floor(demand[..., resources.index(name)]).astype(np.int64)
        total += np.concatenate([[0.0], listed])[np.minimum(units, len(listed))]
    return total


def remote_tasks(ps: Ints, workers: Ints) -> int:
    """Return T, the largest number of tasks with which a task of any piece talks over the network.

    Parameters
    ----------
    ps, workers
        Of each piece.
    """
    remote = [workers.sum() - workers[ps > 0], ps.sum() - ps[workers > 0]]
    return int(np.concatenate(remote).max(initial=0))


def sending_workers(workers: Ints, remote: Ints, share: float) -> Floats:
    """Return (1 − σ)·w + σ·T, which stands for w in w/p."""
    return (1 - share) * workers + share * remote


@compiled
def _least_prices(
    fits: Flags, price: Floats, least_ps: int, least_workers: int, ps: int, workers: int
) -> Floats:
    """Return the least price of any pieces of x parameter servers and y workers together, (ps+1, workers+1).

    Pieces with a parameter server have at least `least_workers` workers, those with a worker at least
    `least_ps` parameter servers. Infinite where no pieces are allowed that fit.
    """
    least = np.full((ps + 1, workers + 1), np.inf)
    least[0, 0] = 0.0
    for p in range(ps + 1):
        for w in range(workers + 1):
            best = least[p, w]
            for x in range(min(p, fits.shape[0] - 1) + 1):
                for y in range(min(w, fits.shape[1] - 1) + 1):
                    if not fits[x, y] or x + y == 0:
                        continue
                    if (x == 0 or y >= least_workers) and (y == 0 or x >= least_ps):
                        best = min(best, least[p - x, w - y] + price[x, y])
            least[p, w] = best
    return least


@compiled
def _lower_prices(by_remote: Floats, least: Floats, least_ps: int, least_workers: int) -> None:
    """Enter the least prices of pieces into those by (p, w, T) to which these two limits belong."""
    a, b = least_ps, least_workers
    # a = max(0, p − T) and b = max(0, w − T): these are the splits of all (p, w) with such a T.
    for p in range(a, by_remote.shape[0]):
        for w in range(b, by_remote.shape[1]):
            if a > 0 and b > 0 and p - a != w - b:
                continue
            remote = p - a if a > 0 else w - b if b > 0 else max(p, w)
            if remote >= p - a and remote >= w - b:
                by_remote[p, w, remote] = least[p, w]


def _prices_by_remote(fits: Flags, price: Floats, ps: int, workers: int) -> Floats:
    """Return the least price of any split of (p, w) with at most T remote tasks, shape (p, w, T + 1)."""
    by_remote = np.full((ps + 1, workers + 1, max(ps, workers) + 1), np.inf)
    # One call for each pair of limits: a long one would be interpreted to its end before it is compiled.
    for a in range(fits.shape[0]):
        check_time()
        for b in range(fits.shape[1]):
            _lower_prices(by_remote, _least_prices(fits, price, a, b, ps, workers), a, b)
    return by_remote


@compiled
def _prices_by_servers(fits: Flags, price: Floats, ps: int, workers: int, servers: int) -> Floats:
    """Return the least price of pieces of (p, w) on exactly k servers, shape (servers + 1, p, w)."""
    least = np.full((servers + 1, ps + 1, workers + 1), np.inf)
    least[0, 0, 0] = 0.0
    for k in range(1, servers + 1):
        for p in range(ps + 1):
            for w in range(workers + 1):
                for x in range(min(p, fits.shape[0] - 1) + 1):
                    for y in range(min(w, fits.shape[1] - 1) + 1):
                        if fits[x, y] and x + y > 0:
                            other = least[k - 1, p - x, w - y] + price[x, y]
                            least[k, p, w] = min(least[k, p, w], other)
    return least


@dataclass(frozen=True)
class Splits:
    """The splits of one variant that no other split of the same tasks makes needless.

    Attributes
    ----------
    ps, workers, spread, price
        Shape (n,): p, w, and T or, of measured speeds, the number of servers; the least price of its pieces.
    measured_s
        Measured step time; None where the speed is a formula.
    """

    ps: Ints
    workers: Ints
    spread: Ints
    price: Floats
    measured_s: Floats | None = None


class SplitTable:
    """Derives the splits of variants; variants with equal demands and ranges share the derivation."""

    def __init__(self, table: JobTable, servers: Servers, prices: PiecePrices) -> None:
        self.table, self.servers, self.prices = table, servers, prices
        self._total = all_loosened(servers.counts @ servers.shapes)
        # No more than what all servers hold together, however wide a range is.
        self._max_ps = max_tasks(table.ps_demand, self._total, table.max_ps)
        self._max_workers = max_tasks(table.worker_demand, self._total, table.max_workers)
        self._known: dict[Any, Any] = {}

    def of(self, variant: int) -> Splits:
        """Return the splits of a variant."""
        table = self.table
        if table.model[variant] == TABLE:
            return self._measured(variant)
        columns = (self._max_ps, self._max_workers, table.min_ps, table.min_workers)
        splits: Splits = self._shared(tuple(int(c[variant]) for c in columns), variant, self._by_formula)
        return splits

    def _shared(self, key: tuple[int, ...], variant: int, derive: Any) -> Any:
        demands = self.table.ps_demand[variant], self.table.worker_demand[variant]
        known = (*key, *(demand.tobytes() for demand in demands))
        if known not in self._known:
            check_time()
            self._known[known] = derive(key, *demands)
        return self._known[known]

    def pieces(self, ps: int, workers: int, per_ps: Floats, per_worker: Floats) -> tuple[Flags, Floats]:
        """Return which pieces fit on a server, and their prices, both of shape (x + 1, y + 1)."""
        x, y = np.arange(ps + 1), np.arange(workers + 1)
        most_ps = int(self.servers.fits(x[:, None] * per_ps).sum())
        most_workers = int(self.servers.fits(y[:, None] * per_worker).sum())
        demand = x[:most_ps, None, None] * per_ps + y[None, :most_workers, None] * per_worker
        fits = self.servers.fits(demand)
        return fits, piece_price(self.prices, self.table.resources, demand)

    def _by_formula(self, key: tuple[int, ...], per_ps: Floats, per_worker: Floats) -> Splits:
        ps, workers, least_ps, least_workers = key
        states = (ps + 1) * (workers + 1)
        many = states * (max(ps, workers) + 1) > MAX_SPLITS
        if not many:
            fits, price = self.pieces(ps, workers, per_ps, per_worker)
            many = states * int(fits.sum()) ** 2 > MAX_STEPS
        if many:
            raise TooLargeError(
                f"{ps} parameter servers and {workers} workers have too many splits; narrow the ranges"
            )
        if not ps:  # all-reduce: the formula does not depend on where the workers are
            by_remote = _least_prices(fits, price, 0, 0, 0, workers)[:, :, None]
        else:
            by_remote = _prices_by_remote(fits, price, ps, workers)
        by_remote = by_remote[least_ps:, least_workers:]
        before = np.minimum.accumulate(by_remote, axis=2)
        before = np.concatenate([np.full((*before.shape[:2], 1), np.inf), before[:, :, :-1]], axis=2)
        w, p, remote = np.nonzero(np.swapaxes(by_remote < before, 0, 1))
        return Splits(p + least_ps, w + least_workers, remote, by_remote[p, w, remote])

    def _measured(self, variant: int) -> Splits:
        table = self.table
        own = slice(int(table.first_row[variant]), int(table.first_row[variant + 1]))
        p, w, step = table.row_ps[own], table.row_workers[own], 1.0 / table.row_steps_per_s[own]
        k = np.zeros_like(p) if table.row_servers is None else table.row_servers[own]
        demand = demand_of((table.ps_demand, table.worker_demand), variant, p, w)
        fits = np.all(demand <= self._total, axis=1) & (k <= np.minimum(p + w, len(self.servers.names)))
        p, w, k, step = p[fits], w[fits], k[fits], step[fits]
        key = int(p.max(initial=0)), int(w.max(initial=0)), int(k.max(initial=0))
        by_servers, anyhow = self._shared(key, variant, self._by_servers)
        price = np.where(k > 0, by_servers[k, p, w], anyhow[p, w])
        keep = np.isfinite(price)
        return Splits(p[keep], w[keep], k[keep], price[keep], step[keep])

    def _by_servers(self, key: tuple[int, ...], *demands: Floats) -> tuple[Floats, Floats]:
        ps, workers, servers = key
        if (ps * (ps + workers + 1) + servers + 1) * (workers + 1) > MAX_SPLITS:
            raise TooLargeError(f"{ps} parameter servers and {workers} workers have too many splits")
        fits, price = self.pieces(ps, workers, *demands)
        counted = _prices_by_servers(fits, price, ps, workers, servers)
        return counted, _least_prices(fits, price, 0, 0, ps, workers)
