"""Implicit enumeration of placements by the check: Lagrangian bounds, and the search for one below a cutoff.

The Lagrangian bound of given prices is computed in integers: what jobs and servers cost together at
least. Job patterns are priced by dynamic programming over the tasks that are left.

The enumeration asks whether there is a placement that beats a cutoff. Jobs are placed one after the
other, in every way that differs; servers in the same state are interchangeable. A branch ends where
prices prove that it cannot beat the cutoff: jobs that are not placed yet pay for their pieces, and
servers are paid for what they can still hold. Nothing here comes from a solver but the prices, of which
any are valid. Sums are integers, rounded to the side that keeps branches.

Servers with tasks of running jobs are in the same state only if these are of the same shapes, as long as
a job of such a shape is to be decided. Before the ways to move a job are tried, its price without the
value of staying has to leave a chance; the others are few.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from ....instances.common.errors import TooLargeError
from ....instances.consolidation.job import allows
from ...common.clock import check_time
from ..classes import BY_SERVERS, MOVES, Classes, CurrentPlacement, JobClass
from .server_prices import Effort, ServerPrices

MOST_SELECTIONS = 5_000
"""Ways to keep parts of a job in place that are looked at."""
MOST_PRICING_NODES, NODES_EACH = 30_000, 30
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
        effort = Effort(MOST_PRICING_NODES + NODES_EACH * len(servers))
        pricing = {pool: self.pricing(pool, effort) for pool in self.classes.pools}
        return [
            pricing[server.pool].most(server.free, server.residents, least * server.opening)
            for server in servers
        ]

    def pricing(self, pool: str | None, effort: Effort) -> ServerPrices:
        """Return the pricing problem of the servers of a pool."""
        return ServerPrices(self.classes, pool, self.prices, effort)


MOST_STEPS = 25_000
"""Placements of a job that are tried in each order, which takes half a second."""
MOST_JOBS = 40
MOST_SERVERS = 200
MOST_NODES = 20_000
"""Choices that are looked at to bound what servers are paid, where there is no table."""
FINE = 2**60
"""Weighted sums are counted in so many parts of a unit."""

State = tuple[str | None, tuple[int, ...], bool, tuple[int, ...]]
"""Pool, what is free, whether the server is in use, and the shapes of what is there now and undecided."""
Picks = tuple[tuple[State, tuple[int, ...]], ...]
"""The pieces of one job: a server in some state, and the tasks of each group on it."""


class _Enough(Exception):
    """The search has taken too many steps."""


def none_better(
    classes: Classes,
    bound: PriceBound,
    weights: Mapping[str, Fraction],
    limits: Mapping[str, Fraction],
    cutoff: Fraction,
) -> bool | None:
    """Return whether no placement keeps all limits, of which the last is the cutoff.

    Parameters
    ----------
    weights
        What each objective counts in the price bound.
    limits
        The most that each objective may be, to be minimised; one that is missing is not limited.
    cutoff
        The most that the weighted sum of all objectives may be.

    Returns
    -------
    answer
        True if it is proven, False if there is such a placement within rounding, None if the search gave up.
    """
    jobs = [number for number, job in enumerate(classes.jobs) for _ in job.members]
    servers = sum(len(server.members) for server in classes.servers)
    if not classes.exact or len(jobs) > MOST_JOBS or servers > MOST_SERVERS:
        return None
    # Large jobs have few places, and so have large tasks: which of the two ends branches earlier differs.
    runs = any(job.current for job in classes.jobs)
    for by_task in (False, True) if runs else (False,):
        try:
            return not _Search(classes, bound, weights, limits, cutoff, by_task).run()
        except _Enough:
            continue
        except TooLargeError:
            break
    return None


class _Search:
    """Places jobs, the largest first, or those with the largest tasks."""

    def __init__(
        self,
        classes: Classes,
        bound: PriceBound,
        weights: Mapping[str, Fraction],
        limits: Mapping[str, Fraction],
        cutoff: Fraction,
        by_task: bool,
    ) -> None:
        self.classes, self.bound, self.weights = classes, bound, weights
        self.names = sorted({*weights, *limits})
        self.limits = [limits.get(name) for name in self.names]
        self.cutoff = math.ceil(cutoff * FINE)
        size = [sum(sum(part.tasks) for part in job.parts) for job in classes.jobs]
        first = [self._largest(job) if by_task else Fraction(0) for job in classes.jobs]
        self.order = sorted(
            (n for n, job in enumerate(classes.jobs) for _ in job.members),
            key=lambda n: (-first[n], -size[n], n),
        )
        self.steps = 0
        self.seen: set[object] = set()
        effort = Effort(MOST_NODES)
        self.pricing = {pool: bound.pricing(pool, effort) for pool in classes.pools}
        self._worth: dict[State, int] = {}
        self.hopeless = False
        # What the jobs from each place on add at least, so that the bound of a branch is one sum.
        self.rest = [0] * (len(self.order) + 1)
        # Shapes of tasks that run now and belong to jobs from each place on.
        self.undecided: list[frozenset[int]] = [frozenset()] * (len(self.order) + 1)
        self.least: dict[int, tuple[int | None, int | None]] = {}
        for place in range(len(self.order) - 1, -1, -1):
            number = self.order[place]
            job = classes.jobs[number]
            self.rest[place] = self.rest[place + 1] + self._least(job)
            self.undecided[place] = self.undecided[place + 1] | {now.shape for now in job.current}
            if number not in self.least:
                moved = replace(job, can_stay=False, restart=Fraction(0))
                self.least[number] = self._cost(job), self._cost(moved)

    def _largest(self, job: JobClass) -> Fraction:
        """Return the part of a server that the largest of a job's tasks takes."""
        most = [max(amounts) for amounts in zip(*(s.free for s in self.classes.servers), strict=True)]
        return max(
            (Fraction(d, m) for demand in self._demands(job) for d, m in zip(demand, most, strict=True) if m),
            default=Fraction(0),
        )

    def _cost(self, job: JobClass) -> int | None:
        """Return what a job adds to the weighted sum at least if it is placed; None if it cannot be."""
        cost = self.bound.job(job)
        return None if cost is None else math.floor(cost * FINE)

    def _least(self, job: JobClass) -> int:
        """Return what a job that is not placed yet adds to the weighted sum at least."""
        least = self._cost(job)
        if least is None:
            self.hopeless = self.hopeless or job.must_place
            return 0
        return least if job.must_place else min(0, least)

    def _server(self, state: State) -> int:
        """Return what a server adds at least through what it still can hold."""
        if state not in self._worth:
            pool, free, used, residents = state
            opening = Fraction(0) if used else self.weights.get("servers", Fraction(0))
            paid = Fraction(self.pricing[pool].most(free, residents), self.bound.scale)
            self._worth[state] = min(0, math.floor((opening - paid) * FINE))
        return self._worth[state]

    def run(self) -> bool:
        """Return whether there is a placement."""
        states: Counter[State] = Counter()
        for server in self.classes.servers:
            residents = tuple(sorted(server.residents))
            states[server.pool, server.free, server.in_use, residents] += len(server.members)
        return not self.hopeless and self._from(0, states, tuple(Fraction(0) for _ in self.names))

    def _from(self, place: int, states: Counter[State], counts: tuple[Fraction, ...]) -> bool:
        """Return whether the jobs from one on can be placed so that all limits are kept."""
        terms = (self.weights[n] * c for n, c in zip(self.names, counts, strict=True) if n in self.weights)
        # Rounded down, so that no branch is cut that may hold a better placement.
        weighted = math.floor(sum(terms, Fraction(0)) * FINE)
        open_ = sum(self._server(state) * count for state, count in states.items())
        if weighted + self.rest[place] + open_ > self.cutoff:
            return False
        if place == len(self.order):
            return all(most is None or c <= most for c, most in zip(counts, self.limits, strict=True))
        # The same jobs decided, the same servers left and the same counts: the rest is the same, too.
        key = place, frozenset(states.items()), counts
        if key in self.seen:
            return False
        self.seen.add(key)
        job = self.classes.jobs[self.order[place]]
        # What a placement of this job, or one that moves it, has to leave for it.
        chance = self.cutoff - (weighted + self.rest[place + 1] + open_)
        placed, moved = self.least[self.order[place]]
        if placed is not None and placed <= chance:
            may_move = moved is not None and moved <= chance
            for picks in self._ways(job, states, may_move):
                self._step()
                stay = sum(_stay(job, state, tasks) for state, tasks in picks)
                if stay < _running(job) and not may_move:
                    continue
                after, opened = self._after(job, states, picks, self.undecided[place + 1])
                more = tuple(
                    count + self._count(job, name, len(picks), opened, stay)
                    for name, count in zip(self.names, counts, strict=True)
                )
                if self._from(place + 1, after, more):
                    return True
        if job.must_place:
            return False
        return self._from(place + 1, _without(states, self.undecided[place + 1]), counts)

    def _step(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise _Enough

    @staticmethod
    def _count(job: JobClass, name: str, servers: int, opened: int, stay: int) -> Fraction:
        """Return what a placed job counts in an objective, to be minimised.

        Parameters
        ----------
        servers, opened
            How many it uses, and how many of these were not in use.
        stay
            How many of its tasks do not move.
        """
        stays = job.can_stay and stay == _running(job)
        if name == "servers":
            return Fraction(opened)
        if name == "migrations":
            return Fraction(-stay)
        if name == MOVES:
            return Fraction(-stays)
        return job.count(name, servers) - (job.restart if name == "value" and stays else 0)

    def _after(
        self, job: JobClass, states: Counter[State], picks: Picks, undecided: frozenset[int]
    ) -> tuple[Counter[State], int]:
        """Return the states of servers with a job's pieces on them, and how many were empty before."""
        after, opened = states.copy(), 0
        for state, counts in picks:
            pool, free, used, residents = state
            after[state] -= 1
            if not after[state]:
                del after[state]
            opened += not used
            taken = self._takes(job, counts)
            left = list(residents)
            for now in _at_home(job, state):
                left.remove(now.shape)
            after[pool, tuple(f - t for f, t in zip(free, taken, strict=True)), True, tuple(left)] += 1
        return _without(after, undecided), opened

    def _takes(self, job: JobClass, counts: tuple[int, ...]) -> list[int]:
        demands = self._demands(job)
        return [sum(n * d[r] for n, d in zip(counts, demands, strict=True)) for r in range(len(demands[0]))]

    def _demands(self, job: JobClass) -> list[tuple[int, ...]]:
        return [demand for part in job.parts for demand in self.classes.task_shapes[part.shape].demands]

    def _ways(self, job: JobClass, states: Counter[State], may_move: bool) -> Iterator[Picks]:
        """Yield the ways to place a job that differ, the servers of each in the order of their states.

        Parameters
        ----------
        may_move
            If not, only such in which no task of it moves are wanted, and others may be left out.
        """
        model = self.classes.task_shapes[job.parts[0].shape].gpu_model
        listed = sorted(
            (state for state in states if allows(model, state[0])),
            key=lambda state: (state[0] or "", *state[1:]),
        )
        tasks = tuple(count for part in job.parts for count in part.tasks)
        if not may_move and _running(job) == sum(tasks):
            # Whatever is placed is placed where it runs.
            listed = [state for state in listed if _at_home(job, state)]
        yield from self._spread(job, tasks, listed, states, 0, None, ())

    def _spread(
        self,
        job: JobClass,
        left: tuple[int, ...],
        listed: list[State],
        states: Counter[State],
        first: int,
        largest: tuple[int, ...] | None,
        picks: Picks,
    ) -> Iterator[Picks]:
        """Go on from some pieces; on servers in the same state pieces come in falling order."""
        if not any(left):
            yield picks
            return
        if len(picks) == job.most:
            return
        for index in range(first, len(listed)):
            state = listed[index]
            # Equal servers are interchangeable: one order of their pieces is enough.
            same = largest if index == first else None
            used = sum(1 for other, _ in picks if other == state)
            if used == states[state]:
                continue
            for counts in _pieces(left):
                self._step()
                if same is not None and counts > same:
                    continue
                if all(t <= f for t, f in zip(self._takes(job, counts), state[1], strict=True)):
                    rest = tuple(a - b for a, b in zip(left, counts, strict=True))
                    picked = (*picks, (state, counts))
                    yield from self._spread(job, rest, listed, states, index, counts, picked)


def _pieces(left: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield every piece of the tasks that are left, large ones first, without the empty one."""
    if len(left) == 1:
        yield from ((count,) for count in range(left[0], 0, -1))
        return
    for count in range(left[0], -1, -1):
        for others in _pieces(left[1:]):
            yield (count, *others)
        if count:
            yield (count, *(0 for _ in left[1:]))


def _running(job: JobClass) -> int:
    """Return how many tasks of a job run now."""
    return sum(sum(now.kept) for now in job.current)


def _at_home(job: JobClass, state: State) -> list[CurrentPlacement]:
    """Return what runs of a job on a server in some state now, each of the shapes there at most once."""
    there = Counter(state[3])
    found = []
    for now in job.current:
        if there[now.shape]:
            there[now.shape] = 0
            found.append(now)
    return found


def _stay(job: JobClass, state: State, counts: tuple[int, ...]) -> int:
    """Return how many tasks of a job do not move if these are on a server in some state."""
    starts = [sum(len(part.tasks) for part in job.parts[:number]) for number in range(len(job.parts))]
    return sum(now.stay(counts[starts[now.part] :]) for now in _at_home(job, state))


def _without(states: Counter[State], undecided: frozenset[int]) -> Counter[State]:
    """Return the states of servers without what is there now of jobs that have been decided."""
    if all(shape in undecided for state in states for shape in state[3]):
        return states
    found: Counter[State] = Counter()
    for (pool, free, used, residents), count in states.items():
        found[pool, free, used, tuple(shape for shape in residents if shape in undecided)] += count
    return found
