"""The Lagrangian bound of given prices, in integers: what jobs and servers cost together at least.

Job patterns are priced by dynamic programming over the tasks that are left.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from ....instances.common.errors import TooLargeError
from ...common.clock import check_time
from ..classes import BY_SERVERS, MOVES, Classes, JobClass
from .server_prices import Effort, ServerPrices

MOST_SELECTIONS = 5_000
"""Ways to keep parts of a job in place that are looked at."""
MOST_NODES, NODES_EACH = 30_000, 30
"""Choices that the searches of all servers look at together, which takes some seconds, and more for each."""
UNREACHABLE = np.iinfo(np.int64).max // 4


class PriceBound:
    """Evaluates the bound of one goal.

    Parameters
    ----------
    prices
        For each shape of each of its pieces.
    weights
        e: what the goal and its earlier objectives count, by name; a job that must be placed may be left
        out only where `missing` jobs are what counts.

    Raises
    ------
    TooLargeError
        If there is too much to be looked at.
    """

    def __init__(
        self, classes: Classes, prices: Sequence[Sequence[float]], weights: dict[str, Fraction], missing: bool
    ) -> None:
        self.classes, self.weights, self.missing = classes, weights, missing
        largest = max((price for shape in prices for price in shape), default=0.0)
        held = sum(int(counts.sum(axis=1).max(initial=1)) for counts in classes.slots)
        asked = max((sum(part.tasks) for job in classes.jobs for part in job.parts), default=1)
        # No sum over what a server holds, or a job asks for, may leave 64 bits: of prices, and of what a task
        # at home is worth.
        bonus = max((math.ceil(self._bonus(job)) for job in classes.jobs), default=0)
        largest = max(1.0, largest, math.ceil(self._stays(1)), bonus)
        bits = 58 - math.frexp(largest * max(held, asked) * 4)[1]
        if bits < 0:
            raise TooLargeError("prices are too large to be added up")
        self.scale = 2 ** min(40, bits)
        self.prices = [
            np.array([math.floor(p * self.scale) for p in shape], dtype=np.int64) for shape in prices
        ]

    def value(self) -> Fraction | None:
        """Return the Lagrangian bound; None if a job that must be placed cannot be."""
        total = Fraction(0)
        for job in self.classes.jobs:
            cost = self.job(job)
            # Only where missing jobs are what counts may such a job stay out.
            if job.must_place and not self.missing:
                if cost is None:
                    return None
                total += cost * len(job.members)
            else:
                outside = Fraction(int(job.must_place))
                total += min(outside, cost if cost is not None else outside) * len(job.members)
        server_cost = self.weights.get("servers", Fraction(0))
        for server, paid in zip(self.classes.servers, self.paid(), strict=True):
            # A server may stay empty, which costs nothing.
            total += min(Fraction(0), server_cost * server.opening - Fraction(paid, self.scale)) * len(
                server.members
            )
        return total

    def job(self, job: JobClass) -> Fraction | None:
        """Return what one job of a class costs at least if it is placed; None if it cannot be."""
        worth = self.weights.get("value", Fraction(0)) * job.value
        best = self._singles(job) if job.loose else self._best_pattern(job)
        return None if best is None else best - worth

    def _stays(self, tasks: int) -> Fraction:
        """Return the value of so many tasks that are not moved."""
        return self.weights.get("migrations", Fraction(0)) * tasks

    def _bonus(self, job: JobClass) -> Fraction:
        """Return what it is worth that no task of a running job moves."""
        restart = self.weights.get("value", Fraction(0)) * job.restart
        return restart + (self.weights.get(MOVES, Fraction(0)) if job.can_stay else 0)

    def _singles(self, job: JobClass) -> Fraction | None:
        """Price a loose job: single tasks, but for those that stay where that is cheaper."""
        if any(not len(self.prices[part.shape]) for part in job.parts):
            return None
        total = Fraction(0)
        for part in job.parts:
            total += Fraction(int(self.prices[part.shape][0]) * part.tasks[0], self.scale)
        kept: Fraction | None = total - self._bonus(job)
        for current in job.current:
            # A piece that stays replaces as many single tasks.
            single = int(self.prices[job.parts[current.part].shape][0])
            pieces = zip(
                self.classes.pieces[current.shape].tolist(),
                self.prices[current.shape].tolist(),
                strict=True,
            )
            more = {
                tuple(counts): Fraction(price - single * counts[0], self.scale)
                - self._stays(current.stay(counts))
                for counts, price in pieces
            }
            total += min(Fraction(0), *more.values())
            # Of a loose job no more tasks stay than were there.
            whole = more.get(current.kept)
            kept = None if kept is None or whole is None else kept + whole
        return total if kept is None or not job.can_stay else min(total, kept)

    def _best_pattern(self, job: JobClass) -> Fraction | None:
        """Price the patterns of 1, 2, … pieces: `left[t]` is the least price of tasks t in so many pieces."""
        part = job.parts[0]
        shape = tuple(count + 1 for count in part.tasks)
        left = np.full(shape, UNREACHABLE, dtype=np.int64)
        placed_now = self._staying(job)
        if job.can_stay and self._bonus(job):
            for key, price in self._staying(job, whole=True).items():
                # Rounded so that the cost is too low rather than too high.
                worth = math.ceil(self._bonus(job) * self.scale)
                placed_now[key] = min(placed_now.get(key, UNREACHABLE), price - worth)
        pieces = []
        rows, prices = self.classes.pieces[part.shape], self.prices[part.shape]
        for counts, price in zip(rows.tolist(), prices.tolist(), strict=True):
            if all(c < n for c, n in zip(counts, shape, strict=True)):
                to = tuple(slice(c, None) for c in counts)
                origin = tuple(slice(0, n - c) for c, n in zip(counts, shape, strict=True))
                pieces.append((to, origin, price))
        best: Fraction | None = None
        for servers in range(job.most + 1):
            check_time()
            # One piece more: what it leaves was priced with one piece less.
            more = np.full(shape, UNREACHABLE, dtype=np.int64)
            for to, origin, price in pieces:
                np.minimum(more[to], left[origin] + price, out=more[to])
            left = np.minimum(more, UNREACHABLE)
            # Pieces that stay are the first ones of a pattern; others are added to them in later rounds.
            for (placed, tasks), price in placed_now.items():
                if placed == servers:
                    left[tasks] = min(left[tasks], price)
            whole = int(left[part.tasks])
            if servers and whole < UNREACHABLE // 2:
                cost = Fraction(whole, self.scale) + self._for_servers(job, servers)
                best = cost if best is None else min(best, cost)
        return best

    def _staying(self, job: JobClass, whole: bool = False) -> dict[tuple[int, tuple[int, ...]], int]:
        """Return the least price in 1/scale, by number of pieces that stay and tasks in them.

        Parameters
        ----------
        whole
            Only where no task moves.
        """
        tasks = job.parts[0].tasks
        found: dict[tuple[int, tuple[int, ...]], int] = {(0, (0,) * len(tasks)): 0}
        for current in job.current:
            pieces = self.classes.pieces[current.shape].tolist()
            before = list(found.items())
            if whole:
                found = {}
            for (placed, held), price in before:
                check_time()
                for counts, more in zip(pieces, self.prices[current.shape].tolist(), strict=True):
                    if whole and any(map(operator.lt, counts, current.kept)):
                        continue
                    together = tuple(h + c for h, c in zip(held, counts, strict=True))
                    if all(h <= t for h, t in zip(together, tasks, strict=True)):
                        # Rounded so that the cost is too low rather than too high.
                        cost = price + more - math.ceil(self._stays(current.stay(counts)) * self.scale)
                        key = placed + 1, together
                        found[key] = min(found.get(key, UNREACHABLE), cost)
            if len(found) > MOST_SELECTIONS:
                raise TooLargeError("a job is on too many servers now")
        return found

    def _for_servers(self, job: JobClass, servers: int) -> Fraction:
        """Return what using so many servers counts for a job."""
        return sum(
            (self.weights[name] * job.count(name, servers) for name in BY_SERVERS if name in self.weights),
            Fraction(0),
        )

    def paid(self) -> list[int]:
        """Return for each class of servers what one of them is paid at most, in 1/scale.

        What is paid less than a server counts by itself is of no use, and may be told to be as much.
        """
        servers = self.classes.servers
        least = math.floor(self.weights.get("servers", Fraction(0)) * self.scale)
        effort = Effort(MOST_NODES + NODES_EACH * len(servers))
        pricing = {pool: self.pricing(pool, effort) for pool in self.classes.pools}
        return [
            pricing[server.pool].most(server.free, server.residents, least * server.opening)
            for server in servers
        ]

    def pricing(self, pool: str | None, effort: Effort) -> ServerPrices:
        """Return the pricing problem of the servers of a pool."""
        return ServerPrices(self.classes, pool, self.prices, effort)
