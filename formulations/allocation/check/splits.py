"""Independent derivation of the configurations of jobs on servers, straight from the definition of a split.

A split of p parameter servers and w workers into pieces (x, y), each on a server of its own, has at most T
remote tasks if every piece with x > 0 has w − y ≤ T, and every piece with y > 0 has p − x ≤ T. For each
(p, w) every T is tried: a dynamic program over the tasks that are in pieces already finds the least price of
pieces that fit on servers and that this T allows. Without prices all pieces cost 0, and the first T that has
a split is the last.

No table of the methods is used, and none of their loops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ....instances.allocation.instance import AllocationInstance
from ....instances.allocation.job import Tasks
from ....instances.allocation.job_table import TABLE, JobTable
from ....instances.common.arrays import Floats, Ints
from ...common.clock import check_time
from ...common.compiled import compiled
from ...common.objective import all_loosened, loosened
from ..splits import PIECES
from .configurations import ConfigurationDerivation

Pieces = tuple[Ints, Ints, Floats]
"""Parameter servers, workers and price of each piece that fits on some server."""


@compiled
def cheapest_pieces(x: Ints, y: Ints, price: Floats, ps: int, workers: int) -> Floats:
    """Return the least price of pieces (x, y) with so many tasks together, shape (ps + 1, workers + 1).

    Infinite where there are no such pieces.
    """
    least = np.full((ps + 1, workers + 1), np.inf)
    least[0, 0] = 0.0
    for p in range(ps + 1):
        for w in range(workers + 1):
            for i in range(len(x)):
                if x[i] <= p and y[i] <= w:
                    least[p, w] = min(least[p, w], least[p - x[i], w - y[i]] + price[i])
    return least


@compiled
def splits_of(x: Ints, y: Ints, price: Floats, ps: int, workers: int, least: float) -> Floats:
    """Return T and price of the pieces of the splits of so many tasks, shape (n, 2).

    Each is cheaper than all splits of smaller T. None is cheaper than `least`, where the search ends.
    """
    found, count, cheapest, before = np.empty((max(ps, workers) + 1, 2)), 0, np.inf, 0
    for remote in range(max(ps, workers) + 1):
        allowed = ((x == 0) | (workers - y <= remote)) & ((y == 0) | (ps - x <= remote))
        if allowed.sum() > before:
            before = allowed.sum()
            cost = cheapest_pieces(x[allowed], y[allowed], price[allowed], ps, workers)[ps, workers]
            if cost < cheapest:
                found[count, 0], found[count, 1] = remote, cost
                cheapest = cost
                count += 1
                if cost <= least:
                    break
    return found[:count]


class PlacedDerivation(ConfigurationDerivation):
    """Derives the configurations of single jobs whose tasks are placed on servers.

    Parameters
    ----------
    prices
        Of pieces, by resource; without them each (p, w) has the least time of any split.
    """

    def __init__(
        self,
        instance: AllocationInstance,
        table: JobTable,
        prices: Mapping[str, Sequence[float]] = MappingProxyType({}),
    ) -> None:
        super().__init__(instance, table)
        self._instance, self._prices_of_pieces = instance, prices
        self._placements = {
            (j, int(table.current_variant[j])): job.current.placement
            for j, job in enumerate(instance.jobs if instance.has_placements else ())
            if job.current is not None and job.current.placement is not None
        }
        self._share = 1.0 if instance.network_share is None else instance.network_share
        self._known: dict[Any, Any] = {}
        shapes: Counter[tuple[float, ...]] = Counter()
        for server in instance.servers or ():
            shapes[self._amounts(server.available)] += server.count or 1
        free = np.array(list(shapes), dtype=float).reshape(len(shapes), len(table.resources))
        self._free, self._counts = all_loosened(free), np.array(list(shapes.values()), dtype=np.int64)
        if prices:
            # No plan needs the tolerance that this capacity has: it covers the rounding of all prices.
            self.resources = (*self.resources, PIECES)
            self.capacity = np.append(self.capacity, self._earnings(prices))
            self._limit = np.append(self._limit, loosened(float(self.capacity[-1])))

    def _amounts(self, available: Mapping[str, float]) -> tuple[float, ...]:
        return tuple(available.get(name, 0.0) for name in self.table.resources)

    def _earnings(self, prices: Mapping[str, Sequence[float]]) -> float:
        """Return at least the most that pieces can cost together on all servers."""
        total = 0.0
        for name, listed in prices.items():
            check_time()
            price, size = np.array(listed), np.arange(1, len(listed) + 1)
            units = self._free[:, self.table.resources.index(name)].astype(np.int64)
            most = -cheapest_pieces(size, np.zeros_like(size), -price, int(units.max(initial=0)), 0)
            total += float(self._counts @ most[units, 0])
        return total

    def of_variant(self, job: int, variant: int) -> tuple[Floats, Floats]:
        """Return times and demands of the configurations of a variant, whatever its deadline."""
        table = self.table
        tasks, step_s, demand = self._candidates(variant)
        splits = self._splits(variant, tasks)
        stays = self._is_current(job, variant, tasks[splits[:, 0].astype(np.int64)])
        placement = self._placements.get((job, variant))
        if placement is not None:
            staying = self._staying(variant, tasks, placement)
            stays = np.repeat([False, True], [len(splits), len(staying)])
            splits = np.concatenate([splits, staying])
        row, remote, price = splits[:, 0].astype(np.int64), splits[:, 1], splits[:, 2]
        ps, workers, _ = tasks[row].T
        step_s, demand = step_s[row], demand[row]
        if table.model[variant] != TABLE:
            sending = (1 - self._share) * workers + self._share * remote
            step_s = self._step_time_s(variant, ps, workers, sending)
        time_s = table.remaining_steps[job] * step_s + np.where(stays, 0.0, table.restart_s[job])
        return time_s, np.column_stack([demand, price]) if self._prices_of_pieces else demand

    def _splits(self, variant: int, tasks: Ints) -> Floats:
        """Return the splits of these tasks: their row, T (0 if measured) and price of the pieces, (n, 3)."""
        per_task = self.table.ps_demand[variant], self.table.worker_demand[variant]
        measured = self.table.model[variant] == TABLE
        key = (measured, *(part.tobytes() for part in (tasks, *per_task)))
        if key not in self._known:
            check_time()
            pieces = self._pieces(tasks.max(axis=0, initial=0), *per_task)
            if measured:
                self._known[key] = _measured(pieces, tasks, int(self._counts.sum()))
            else:
                self._known[key] = _by_formula(pieces, tasks)
        splits: Floats = self._known[key]
        return splits

    def _pieces(self, most: Ints, per_ps: Floats, per_worker: Floats) -> Pieces:
        """Return the pieces of up to so many tasks that fit on some server."""
        x, y = (grid.ravel()[1:] for grid in np.indices((int(most[0]) + 1, int(most[1]) + 1)))
        demand = x[:, None] * per_ps + y[:, None] * per_worker
        fits = np.any(np.all(demand[:, None] <= self._free, axis=2), axis=1)
        return x[fits], y[fits], self._price(demand[fits])

    def _price(self, demand: Floats) -> Floats:
        """Return the price of pieces with these demands, shape (n, R)."""
        total = np.zeros(len(demand))
        for name, listed in self._prices_of_pieces.items():
            units = np.minimum(demand[:, self.table.resources.index(name)], len(listed)).astype(np.int64)
            total += np.array([0.0, *listed])[units]
        return total

    def _staying(self, variant: int, tasks: Ints, placement: Mapping[str, Tasks]) -> Floats:
        """Return the split with which a job runs now, if these tasks have it and it fits where it is."""
        table, servers = self.table, self._instance.expanded_servers
        held = {name: (one.ps, one.workers) for name, one in placement.items() if one.ps or one.workers}
        x, y = np.array(list(held.values()), dtype=np.int64).reshape(-1, 2).T
        demand = x[:, None] * table.ps_demand[variant] + y[:, None] * table.worker_demand[variant]
        free = np.array([self._amounts(servers[name].available) for name in held]).reshape(demand.shape)
        same = np.all(tasks[:, :2] == (x.sum(), y.sum()), axis=1) & np.isin(tasks[:, 2], (0, len(held)))
        # Of two measurements the last holds, which names the number of servers.
        row = np.flatnonzero(same & np.all(demand <= all_loosened(free)))[-1:]
        remote = max([0, *(y.sum() - y[x > 0]), *(x.sum() - x[y > 0])])
        price = float(self._price(demand).sum())
        return np.column_stack([row, np.full((len(row), 2), (remote, price))])


def _by_formula(pieces: Pieces, tasks: Ints) -> Floats:
    splits = [np.zeros((0, 3))]
    most = tasks.max(axis=0, initial=0).tolist()
    least = cheapest_pieces(*pieces, most[0], most[1])
    for row, (ps, workers, _) in enumerate(tasks.tolist()):
        check_time()
        splits.append(np.insert(splits_of(*pieces, ps, workers, least[ps, workers]), 0, row, axis=1))
    return np.concatenate(splits)


def _measured(pieces: Pieces, tasks: Ints, count: int) -> Floats:
    """Return the splits of measured tasks: each on as many of the servers as its measurement names."""
    x, y, price = pieces
    ps, workers, servers = tasks.T
    possible = servers <= np.minimum(ps + workers, count)
    most = tasks[possible].max(axis=0, initial=0).tolist()
    ps, workers, servers = np.where(possible, tasks.T, 0)
    cheapest = cheapest_pieces(x, y, price, most[0], most[1])[ps, workers]
    if most[2]:
        # Pieces are counted in digits of x below the parameter servers, which no number of pieces exceeds.
        base = most[0] + most[1] + 1
        counted = cheapest_pieces(x * base + 1, y, price, most[0] * base + most[2], most[1])
        cheapest = np.where(servers > 0, counted[ps * base + servers, workers], cheapest)
    row = np.flatnonzero(possible & np.isfinite(cheapest))
    return np.column_stack([row, np.zeros(len(row)), cheapest[row]])
