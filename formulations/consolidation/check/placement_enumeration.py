"""Implicit enumeration of placements by the check: Lagrangian bounds, and the search for one below a cutoff.

The Lagrangian bound at given prices is the least total cost of jobs and servers, computed in integers. Job
patterns are priced by dynamic programming over the unplaced tasks.

The enumeration decides whether a placement beats a cutoff. Jobs are placed one after the other, in all
different ways; servers in the same state are interchangeable. A branch is pruned where prices prove that it
cannot beat the cutoff: jobs that are not placed yet pay for their pieces, and servers receive the prices of
the pieces that they can still hold. Only the prices come from a solver, and any prices are valid. Sums are
integers, rounded so that no valid branch is pruned.

Servers with tasks of running jobs are in the same state only if these tasks have the same shapes, as long as
a job of such a shape is undecided. Placements that move a job are enumerated only if its price without the
value of staying is below the cutoff.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from ....instances.common.errors import TooLargeError
from ....instances.consolidation.job import allows
from ...common.clock import check_time
from ..classes import MOVE_LIMIT, SERVER_COUNT_OBJECTIVES, Classes, CurrentPlacement, JobClass, Vector
from .server_prices import NodeBudget, ServerPrices

MAX_STAY_SETS = 5_000
"""Limit on the sets of current pieces of a job that may stay."""
MAX_PRICING_NODES, NODES_PER_CLASS = 30_000, 30
"""Limit on the nodes of all server knapsacks together, some seconds, and its increase for each class."""
UNREACHABLE = np.iinfo(np.int64).max // 4


ByObjective = Mapping[str, Fraction]
"""A weight or a limit of each objective, by name."""
PlacedRanges = Sequence[tuple[int, int]]
"""Fewest and most jobs of each class that are placed."""


def placed_ranges(classes: Classes) -> PlacedRanges:
    """Return how many jobs of each class are placed: all that must be, and at most all."""
    return [(len(job.members) if job.must_place else 0, len(job.members)) for job in classes.jobs]


def node_budget(classes: Classes) -> NodeBudget:
    """Return the limit on the nodes of all server knapsacks together."""
    return NodeBudget(MAX_PRICING_NODES + NODES_PER_CLASS * len(classes.servers))


class PriceBound:
    """The Lagrangian bound on one objective at given dual prices.

    Parameters
    ----------
    prices
        For each shape the price of each of its pieces.
    weights
        e: weights of the goal and its earlier objectives, by name.
    missing
        Whether the goal is the number of missing jobs, so that jobs that must be placed may be left out.

    Raises
    ------
    TooLargeError
        If the prices are too large or there are too many cases.
    """

    def __init__(
        self, classes: Classes, prices: Sequence[Sequence[float]], weights: dict[str, Fraction], missing: bool
    ) -> None:
        self.classes, self.missing = classes, missing
        self.weights = defaultdict(Fraction, weights)  # reading adds zeros: do not ask what is in it
        # What a task that does not move is worth.
        self.stay_value = self.weights["migrations"]
        largest = max((price for shape in prices for price in shape), default=0.0)
        most_held = sum(int(counts.sum(axis=1).max(initial=1)) for counts in classes.slots)
        most_tasks = max((sum(part.tasks) for job in classes.jobs for part in job.parts), default=1)
        # No sum over what a server holds, or a job asks for, may leave 64 bits: of prices, and of what a task
        # at home is worth.
        bonus = max((math.ceil(self._keep_in_place_value(job)) for job in classes.jobs), default=0)
        largest = max(1.0, largest, math.ceil(self.stay_value), bonus)
        bits = 58 - math.frexp(largest * max(most_held, most_tasks) * 4)[1]
        if bits < 0:
            raise TooLargeError("prices are too large to be added up")
        self.scale = 2 ** min(40, bits)
        self.prices = [
            np.array([math.floor(p * self.scale) for p in shape], dtype=np.int64) for shape in prices
        ]

    def value(self, placed: PlacedRanges | None = None, effort: NodeBudget | None = None) -> Fraction | None:
        """Return the Lagrangian bound on the weighted objective; None if a required job cannot be placed.

        Parameters
        ----------
        placed
            Fewest and most jobs of each class that are placed; by default those that must be, and all.
        effort
            Limit on the nodes of the server knapsacks, which several bounds may share.
        """
        total = Fraction(0)
        for job, (fewest, most) in zip(self.classes.jobs, placed or placed_ranges(self.classes), strict=True):
            cost = self.job(job)
            # Only where missing jobs are what counts may such a job stay out.
            terms = [Fraction(fewest)] if self.missing else []
            if cost is not None:
                terms += [cost * fewest, cost * most]
            elif fewest and not self.missing:
                return None
            # The cost is linear between these numbers of placed jobs.
            total += min(terms, default=Fraction(0))
        for server, paid in zip(self.classes.servers, self.paid(effort), strict=True):
            cost = self.weights["servers"] * server.opening - Fraction(paid, self.scale)
            # A server may stay empty, which costs nothing.
            total += min(Fraction(0), cost) * len(server.members)
        return total

    def job(self, job: JobClass) -> Fraction | None:
        """Return the minimum cost of placing a job of a class, at dual prices; None if it never fits."""
        worth = self.weights["value"] * job.value + self.weights["stops"] * job.runs
        best = self._loose_job_cost(job) if job.loose else self._pattern_cost(job)
        return None if best is None else best - worth

    def _keep_in_place_value(self, job: JobClass) -> Fraction:
        """Return the weighted gain in all objectives from moving no task of a running job."""
        return self.weights["value"] * job.restart + self.weights[MOVE_LIMIT] * job.can_stay

    def _loose_job_cost(self, job: JobClass) -> Fraction | None:
        """Return the minimum price of a loose job, whose number of servers does not matter.

        It is the sum over single tasks, or over the tasks that stay on their current servers where those are
        cheaper. None if a task fits on no server.
        """
        if any(not len(self.prices[part.shape]) for part in job.parts):
            return None
        total = Fraction(0)
        for part in job.parts:
            total += Fraction(int(self.prices[part.shape][0]) * part.tasks[0], self.scale)
        kept: Fraction | None = total - self._keep_in_place_value(job)
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
                - self.stay_value * current.stay(counts)
                for counts, price in pieces
            }
            total += min(Fraction(0), *more.values())
            # Of a loose job no more tasks stay than were there.
            whole = more.get(current.kept)
            kept = None if kept is None or whole is None else kept + whole
        return total if kept is None or not job.can_stay else min(total, kept)

    def _pattern_cost(self, job: JobClass) -> Fraction | None:
        """Return the minimum cost of a job over its distributions on 1, 2, … servers; None if none fits.

        Dynamic programming: `left[t]` is the minimum price of tasks t.
        """
        part = job.parts[0]
        shape = tuple(count + 1 for count in part.tasks)
        left = np.full(shape, UNREACHABLE, dtype=np.int64)
        placed_now = self._stay_prices(job)
        if job.can_stay and self._keep_in_place_value(job):
            for key, price in self._stay_prices(job, whole=True).items():
                # Rounded so that the cost is too low rather than too high.
                worth = math.ceil(self._keep_in_place_value(job) * self.scale)
                placed_now[key] = min(placed_now.get(key, UNREACHABLE), price - worth)
        pieces = []
        rows, prices = self.classes.pieces[part.shape], self.prices[part.shape]
        for counts, price in zip(rows.tolist(), prices.tolist(), strict=True):
            if all(map(operator.lt, counts, shape)):
                to, origin = map(slice, counts, shape), map(slice, map(operator.sub, shape, counts))
                pieces.append((tuple(to), tuple(origin), price))
        best: Fraction | None = None
        for servers in range(job.most + 1):
            check_time()
            # One piece more: what it leaves was priced with one piece less.
            more = np.full(shape, UNREACHABLE, dtype=np.int64)
            for here, before, price in pieces:
                np.minimum(more[here], left[before] + price, out=more[here])
            left = np.minimum(more, UNREACHABLE)
            # Pieces that stay are the first ones of a pattern; others are added to them in later rounds.
            for (placed, tasks), price in placed_now.items():
                if placed == servers:
                    left[tasks] = min(left[tasks], price)
            whole = int(left[part.tasks])
            if servers and whole < UNREACHABLE // 2:
                cost = Fraction(whole, self.scale)
                for name in SERVER_COUNT_OBJECTIVES:
                    cost += self.weights[name] * job.count(name, servers)
                best = cost if best is None else min(best, cost)
        return best

    def _stay_prices(self, job: JobClass, whole: bool = False) -> dict[tuple[int, Vector], int]:
        """Return the minimum price, in 1/scale, by number of servers where tasks stay and by these tasks.

        Parameters
        ----------
        whole
            Whether only pieces count from which no task moves.
        """
        tasks = job.parts[0].tasks
        cheapest: dict[tuple[int, Vector], int] = {(0, (0,) * len(tasks)): 0}
        for current in job.current:
            pieces = self.classes.pieces[current.shape].tolist()
            before = list(cheapest.items())
            if whole:
                cheapest = {}
            for (placed, kept), price in before:
                check_time()
                for counts, more in zip(pieces, self.prices[current.shape].tolist(), strict=True):
                    if whole and any(map(operator.lt, counts, current.kept)):
                        continue
                    together = tuple(map(operator.add, kept, counts))
                    if all(map(operator.le, together, tasks)):
                        # Rounded so that the cost is too low rather than too high.
                        cost = price + more - math.ceil(self.stay_value * current.stay(counts) * self.scale)
                        key = placed + 1, together
                        cheapest[key] = min(cheapest.get(key, UNREACHABLE), cost)
            if len(cheapest) > MAX_STAY_SETS:
                raise TooLargeError("a job is on too many servers now")
        return cheapest

    def paid(self, effort: NodeBudget | None = None) -> list[int]:
        """Return, for each server class, an upper bound on the total price of tasks on a server, in 1/scale.

        Amounts below the cost of opening a server do not matter and may be rounded up to it.
        """
        least = math.floor(self.weights["servers"] * self.scale)
        # Prices of servers that are bought are of the same bound that proves the gap.
        key = self.scale, least, *(prices.tobytes() for prices in self.prices)
        if effort is None and key in self.classes.paid:
            return self.classes.paid[key]
        limit = effort or node_budget(self.classes)
        pricing = self.pricing(limit)
        paid = [
            pricing[server.pool].most(server.free, server.residents, least * server.opening)
            for server in self.classes.servers
        ]
        if effort is None:
            self.classes.paid[key] = paid
        return paid

    def pricing(self, effort: NodeBudget) -> dict[str | None, ServerPrices]:
        """Return the pricing problem of servers by pool: tasks of maximum total price on one server."""
        return {pool: ServerPrices(self.classes, pool, self.prices, effort) for pool in self.classes.pools}


MAX_STEPS = 25_000
"""Limit on the steps of the search for each order of the jobs; takes half a second."""
MAX_JOBS = 40
MAX_SERVERS = 200
MAX_NODES = 20_000
"""Limit on the nodes of the server knapsacks where sums of demands are not tabulated."""
WEIGHT_SCALE = 2**60
"""Denominator of the integers in which weighted sums are counted."""

ServerState = tuple[str | None, Vector, bool, Vector]
"""Pool, residual capacity, whether the server is in use, and the shapes of undecided resident tasks."""
States = Counter[ServerState]
"""Number of servers in each state."""
PlacedPieces = tuple[tuple[ServerState, Vector], ...]
"""The pieces of one job: the state of the server, and the tasks of each group on it."""


class _StepLimitReached(Exception):
    """Raised when the depth-first search exceeds its limit of steps."""


def no_better_placement(
    classes: Classes,
    bound: PriceBound,
    weights: ByObjective,
    limits: ByObjective,
    cutoff: Fraction,
) -> bool | None:
    """Return whether it is proven that no placement keeps the bounds on all objectives and the cutoff.

    Parameters
    ----------
    weights
        Weight of each objective in the price bound.
    limits
        Upper limit of each objective, to be minimised; a missing objective has none.
    cutoff
        Upper limit of the weighted sum of all objectives.

    Returns
    -------
    answer
        True if it is proven, False if there is such a placement within rounding, None if the search gave up.
    """
    jobs = [number for number, job in enumerate(classes.jobs) for _ in job.members]
    servers = sum(len(server.members) for server in classes.servers)
    if not classes.exact or len(jobs) > MAX_JOBS or servers > MAX_SERVERS:
        return None
    # Large jobs have few places, and so have large tasks: which of the two ends branches earlier differs.
    runs = any(job.current for job in classes.jobs)
    for by_task in (False, True) if runs else (False,):
        try:
            return not _Search(classes, bound, weights, limits, cutoff, by_task).run()
        except _StepLimitReached:
            continue
        except TooLargeError:
            break
    return None


class _Search:
    """Depth-first search over placements, by decreasing size of jobs or of their tasks."""

    def __init__(
        self,
        classes: Classes,
        bound: PriceBound,
        weights: ByObjective,
        limits: ByObjective,
        cutoff: Fraction,
        by_task: bool,
    ) -> None:
        self.classes, self.bound, self.weights = classes, bound, weights
        self.names = sorted({*weights, *limits})
        self.limits = [limits.get(name) for name in self.names]
        self.cutoff = math.ceil(cutoff * WEIGHT_SCALE)
        size = [sum(sum(part.tasks) for part in job.parts) for job in classes.jobs]
        first = [self._largest_task(job) if by_task else Fraction(0) for job in classes.jobs]
        self.order = sorted(
            (n for n, job in enumerate(classes.jobs) for _ in job.members),
            key=lambda n: (-first[n], -size[n], n),
        )
        self.steps = 0
        self.seen: set[object] = set()
        self.pricing = bound.pricing(NodeBudget(MAX_NODES))
        self._worth: dict[ServerState, int] = {}
        self.hopeless = False
        # Least contribution of the jobs from each place on, so that the bound of a branch is one sum.
        self.rest = [0] * (len(self.order) + 1)
        # Shapes of tasks that run now and belong to jobs from each place on.
        self.undecided: list[frozenset[int]] = [frozenset()] * (len(self.order) + 1)
        self.least: dict[int, tuple[int | None, int | None]] = {}
        for place in range(len(self.order) - 1, -1, -1):
            number = self.order[place]
            job = classes.jobs[number]
            self.rest[place] = self.rest[place + 1] + self._job_bound(job)
            self.undecided[place] = self.undecided[place + 1] | {now.shape for now in job.current}
            if number not in self.least:
                moved = replace(job, can_stay=False, restart=Fraction(0))
                self.least[number] = self._placed_job_bound(job), self._placed_job_bound(moved)

    def _largest_task(self, job: JobClass) -> Fraction:
        """Return the maximum fraction of the largest server that a task of a job takes of a resource."""
        most = [max(amounts) for amounts in zip(*(s.free for s in self.classes.servers), strict=True)]
        return max(
            (Fraction(d, m) for demand in self._demands(job) for d, m in zip(demand, most, strict=True) if m),
            default=Fraction(0),
        )

    def _placed_job_bound(self, job: JobClass) -> int | None:
        """Return a lower bound on a placed job's contribution to the weighted sum; None if it never fits."""
        cost = self.bound.job(job)
        return None if cost is None else math.floor(cost * WEIGHT_SCALE)

    def _job_bound(self, job: JobClass) -> int:
        """Return a lower bound on the contribution of an undecided job to the weighted objective."""
        least = self._placed_job_bound(job)
        if least is None:
            self.hopeless = self.hopeless or job.must_place
            return 0
        return least if job.must_place else min(0, least)

    def _server_bound(self, state: ServerState) -> int:
        """Return a lower bound on a server's contribution to the Lagrangian, from tasks that still fit."""
        if state not in self._worth:
            pool, free, used, residents = state
            opening = self.weights.get("servers", Fraction(0)) * (not used)
            paid = Fraction(self.pricing[pool].most(free, residents), self.bound.scale)
            self._worth[state] = min(0, math.floor((opening - paid) * WEIGHT_SCALE))
        return self._worth[state]

    def run(self) -> bool:
        """Return whether there is a placement within the bounds on all objectives and the cutoff."""
        states = States()
        for server in self.classes.servers:
            residents = tuple(sorted(server.residents))
            states[server.pool, server.free, server.in_use, residents] += len(server.members)
        return not self.hopeless and self._feasible_from(0, states, tuple(Fraction(0) for _ in self.names))

    def _feasible_from(self, place: int, states: States, counts: tuple[Fraction, ...]) -> bool:
        """Return whether the jobs from a position in the order on can be placed within all bounds."""
        terms = (self.weights[n] * c for n, c in zip(self.names, counts, strict=True) if n in self.weights)
        # Rounded down, so that no branch is cut that may hold a better placement.
        weighted = math.floor(sum(terms, Fraction(0)) * WEIGHT_SCALE)
        open_ = sum(self._server_bound(state) * count for state, count in states.items())
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
        # Largest contribution of this job at which the branch can still beat the cutoff.
        chance = self.cutoff - (weighted + self.rest[place + 1] + open_)
        placed, moved = self.least[self.order[place]]
        if placed is not None and placed <= chance:
            may_move = moved is not None and moved <= chance
            for picks in self._placements(job, states, may_move):
                self._step()
                stay = sum(_staying_tasks(job, state, tasks) for state, tasks in picks)
                if stay < _running_tasks(job) and not may_move:
                    continue
                after, opened = self._next_states(job, states, picks, self.undecided[place + 1])
                more = tuple(
                    count + self._contribution(job, name, len(picks), opened, stay)
                    for name, count in zip(self.names, counts, strict=True)
                )
                if self._feasible_from(place + 1, after, more):
                    return True
        if job.must_place:
            return False
        return self._feasible_from(place + 1, _without_decided(states, self.undecided[place + 1]), counts)

    def _step(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise _StepLimitReached

    @staticmethod
    def _contribution(job: JobClass, name: str, servers: int, opened: int, stay: int) -> Fraction:
        """Return the contribution of a placed job to an objective, in minimisation form.

        Parameters
        ----------
        servers, opened
            Number of servers that it uses, and of those that were not in use before.
        stay
            Number of its tasks that do not move.
        """
        stays = job.can_stay and stay == _running_tasks(job)
        if name == "servers":
            return Fraction(opened)
        if name == "migrations":
            return Fraction(-stay)
        if name == MOVE_LIMIT:
            return Fraction(-stays)
        return job.count(name, servers) - (job.restart if name == "value" and stays else 0)

    def _next_states(
        self, job: JobClass, states: States, picks: PlacedPieces, undecided: frozenset[int]
    ) -> tuple[States, int]:
        """Return the server states after placing a job's tasks, and the number of servers newly used."""
        after, opened = states.copy(), 0
        for state, counts in picks:
            pool, free, used, residents = state
            after[state] -= 1
            if not after[state]:
                del after[state]
            opened += not used
            used_units = self._demand_of(job, counts)
            left = list(residents)
            for now in _current_placements(job, state):
                left.remove(now.shape)
            after[pool, tuple(map(operator.sub, free, used_units)), True, tuple(left)] += 1
        return _without_decided(after, undecided), opened

    def _demand_of(self, job: JobClass, counts: Vector) -> list[int]:
        demands = self._demands(job)
        return [sum(n * d[r] for n, d in zip(counts, demands, strict=True)) for r in range(len(demands[0]))]

    def _demands(self, job: JobClass) -> list[Vector]:
        return [demand for part in job.parts for demand in self.classes.task_shapes[part.shape].demands]

    def _placements(self, job: JobClass, states: States, may_move: bool) -> Iterator[PlacedPieces]:
        """Yield all non-equivalent placements of a job: pairs of server state and task counts.

        Parameters
        ----------
        may_move
            If False, only placements in which no task of the job moves have to be complete.
        """
        model = self.classes.task_shapes[job.parts[0].shape].gpu_model
        listed = sorted(
            (state for state in states if allows(model, state[0])),
            key=lambda state: (state[0] or "", *state[1:]),
        )
        tasks = tuple(count for part in job.parts for count in part.tasks)
        if not may_move and _running_tasks(job) == sum(tasks):
            # All tasks are placed where they run now.
            listed = [state for state in listed if _current_placements(job, state)]
        return self._completions(job, tasks, listed, states, 0, tasks, ())

    def _completions(
        self,
        job: JobClass,
        left: Vector,
        listed: list[ServerState],
        states: States,
        first: int,
        largest: Vector,
        picks: PlacedPieces,
    ) -> Iterator[PlacedPieces]:
        """Yield all completions of a job's partial placement, without permutations of equal servers."""
        if not any(left):
            yield picks
            return
        if len(picks) == job.most:
            return
        for index in range(first, len(listed)):
            state = listed[index]
            if sum(other == state for other, _ in picks) == states[state]:
                continue
            for counts in filter(any, itertools.product(*(range(count, -1, -1) for count in left))):
                self._step()
                # Equal servers are interchangeable: one order of their pieces is enough.
                if index == first and counts > largest:
                    continue
                if all(map(operator.le, self._demand_of(job, counts), state[1])):
                    rest = tuple(map(operator.sub, left, counts))
                    picked = (*picks, (state, counts))
                    yield from self._completions(job, rest, listed, states, index, counts, picked)


def _running_tasks(job: JobClass) -> int:
    """Return the number of tasks of a job that run now."""
    return sum(sum(now.kept) for now in job.current)


def _current_placements(job: JobClass, state: ServerState) -> list[CurrentPlacement]:
    """Return the current placements of a job on a server of a given state; each has a shape of its own."""
    return [now for now in job.current if now.shape in state[3]]


def _staying_tasks(job: JobClass, state: ServerState, counts: Vector) -> int:
    """Return how many of a job's tasks do not move if a server of a given state gets `counts` tasks."""
    # A job is one part, or each task group is a part of its own, so that a part begins at its first group.
    return sum(now.stay(counts[now.part :]) for now in _current_placements(job, state))


def _without_decided(states: States, undecided: frozenset[int]) -> States:
    """Return the server states without resident tasks of jobs that are already decided."""
    if all(shape in undecided for state in states for shape in state[3]):
        return states
    merged = States()
    for (pool, free, used, residents), count in states.items():
        merged[pool, free, used, tuple(shape for shape in residents if shape in undecided)] += count
    return merged
