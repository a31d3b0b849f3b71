"""Pricing problems of column generation by dynamic programming: patterns of jobs, and patterns of servers.

Jobs: patterns of negative reduced cost, and initial patterns. The dynamic programme is over the tasks of a
job that are in no piece yet. Pieces that stay, one for each current server of the job, come first.

Servers: a multi-dimensional bounded knapsack for each class of servers. The dynamic programme is over every
sum of demands that a server of the pool can hold (Gilmore & Gomory 1966). The predecessor of each sum by each
slot is tabulated, so that all classes of a pool are priced at once. Residents that stay are enumerated, each
selection with its residual capacity.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ....formulations.common.clock import check_time
from ....formulations.consolidation.classes import (
    MOVE_LIMIT,
    SERVER_COUNT_OBJECTIVES,
    ClassTable,
    CurrentPlacement,
    JobClass,
)
from ....instances.common.arrays import Floats, Ints, ShortInts
from ....instances.common.errors import TooLargeError
from ..progress import SETTINGS

JobPattern = tuple[int, ...]
"""Rows of a job's pieces in its shape's pieces, largest first; none for loose jobs."""
Stay = tuple[tuple[int, int], ...]
"""Pieces that stay: number of the job's current placement, and row in the pieces of its shape."""
Selections = dict[tuple[int, tuple[int, ...]], tuple[float, Stay]]
"""Numbers of servers and of tasks that stay → the least cost, and these pieces."""


@dataclass(frozen=True)
class PricedPattern:
    """A job pattern, its tasks that stay, and its total cost, that of the number of servers included."""

    pattern: JobPattern
    stay: Stay
    cost: float


class JobPricing:
    """Pricing problem of job classes: finds the job patterns of minimum cost at given dual prices.

    Parameters
    ----------
    prices
        Dual price of each piece of each shape.
    weights
        Weight of each goal, by name.
    steps
        Unit in which each goal is counted; 1 for those that are missing.
    """

    def __init__(
        self,
        classes: ClassTable,
        prices: Sequence[Floats],
        weights: Mapping[str, float],
        steps: Mapping[str, Fraction] | None = None,
    ) -> None:
        self.classes, self.prices, self.weights, self.steps = classes, prices, weights, steps or {}

    def worth(self, job: JobClass) -> float:
        """Return what placing a job adds to the objectives at their weights, whatever its pattern."""
        value = self.weights.get("value", 0.0) * float(job.value / self.steps.get("value", 1))
        return value + self.weights.get("stops", 0.0) * job.runs

    def _bonus(self, job: JobClass) -> float:
        """Return the cost that is saved if no task of a running job moves, at the objectives' weights."""
        restart = self.weights.get("value", 0.0) * float(job.restart) / float(self.steps.get("value", 1))
        return restart + (self.weights.get(MOVE_LIMIT, 0.0) if job.can_stay else 0.0)

    def cheapest(self, job: JobClass, below: float) -> list[PricedPattern]:
        """Return the patterns of minimum cost of a job, less than `below`; none if it fits nowhere."""
        return self._loose(job, below) if job.loose else self._split(job, below)

    def _loose(self, job: JobClass, below: float) -> list[PricedPattern]:
        """Return patterns cheaper than `below` of a job whose number of servers does not matter (loose).

        They keep the tasks that are cheapest where they run, and all running tasks if that saves a restart.

        Tasks that do not stay are single pieces.
        """
        if not self.classes.can_run(job):
            return []
        cost = sum(float(self.prices[part.shape][0]) * part.tasks[0] for part in job.parts)
        stay = []
        bonus = self._bonus(job)
        whole, staying = cost - bonus, list[tuple[int, int]]()
        for number, current in enumerate(job.current):
            single = float(self.prices[job.parts[current.part].shape][0])
            counts = self.classes.pieces[current.shape]
            if len(counts):
                more = self.prices[current.shape] - counts[:, 0] * single - self._saved(current, counts)
                i = int(np.argmin(more))
                if more[i] < 0:
                    stay.append((number, i))
                    cost += float(more[i])
                for i in np.flatnonzero((counts == np.array(current.kept)).all(axis=1)).tolist():
                    staying.append((number, i))
                    whole += float(more[i])
        candidates = [PricedPattern((), tuple(stay), cost)]
        if bonus and len(staying) == len(job.current):
            candidates.append(PricedPattern((), tuple(staying), whole))
        return [pattern for pattern in candidates if pattern.cost < below]

    def _saved(self, current: CurrentPlacement, counts: Ints) -> Floats:
        """Return the cost of the moves that numbers of tasks on their present server save."""
        return self.weights.get("migrations", 0.0) * current.staying(counts)

    def _by_servers(self, job: JobClass) -> Floats:
        """Return the cost of using 1, 2, … servers, without that of the pieces."""
        cost = np.zeros(job.most)
        for name in SERVER_COUNT_OBJECTIVES:
            if self.weights.get(name):
                counts = [job.count(name, n) / self.steps.get(name, 1) for n in range(1, job.most + 1)]
                cost += self.weights[name] * np.array(counts, dtype=float)
        return cost

    def _split(self, job: JobClass, below: float) -> list[PricedPattern]:
        """Return the patterns of minimum cost, less than `below`, of a job that is not loose."""
        pieces, by_servers = self.classes.pieces[job.parts[0].shape], self._by_servers(job)
        layers, chosen = self._layers(job)
        candidates: list[tuple[float, Stay, int, tuple[int, ...]]] = []
        staying = list(self._staying(job).items())
        if bonus := self._bonus(job):
            whole = self._staying(job, whole=True).items()
            staying += [(key, (cost - bonus, stay)) for key, (cost, stay) in whole]
        for (placed, tasks_staying), (cost, stay) in staying:
            # Others fill what the pieces that stay leave of the job.
            rest = tuple(map(operator.sub, job.parts[0].tasks, tasks_staying))
            for others in range(job.most - placed + 1):
                if placed + others > 0:
                    total = cost + float(layers[others][rest]) + float(by_servers[placed + others - 1])
                    if total < below:
                        candidates.append((total, stay, others, rest))
        candidates.sort()
        return [
            PricedPattern(_backtracked_pattern(chosen[:others], rest, pieces), stay, total)
            for total, stay, others, rest in candidates[: SETTINGS.columns_per_class_and_round]
        ]

    def _layers(self, job: JobClass) -> tuple[list[Floats], list[ShortInts]]:
        """Return the minimum price of each task count on 0, 1, 2, … servers, and the last server's tasks.

        The tasks are indices of combinations.
        """
        part = job.parts[0]
        shape = tuple(count + 1 for count in part.tasks)
        none = np.full(shape, np.inf)
        none[(0,) * len(shape)] = 0.0
        layers, last = [none], []
        # All numbers of tasks at once: a shifted copy of the table is the table without this piece.
        fits = [
            (i, tuple(map(slice, counts, shape)), tuple(map(slice, map(operator.sub, shape, counts))))
            for i, counts in enumerate(self.classes.pieces[part.shape].tolist())
            if all(map(int.__le__, counts, part.tasks))
        ]
        for _ in range(job.most):
            check_time()
            more, chosen = np.full(shape, np.inf), np.full(shape, -1, dtype=np.int32)
            for i, to, origin in fits:
                candidate = layers[-1][origin] + self.prices[part.shape][i]
                better = candidate < more[to]
                more[to] = np.where(better, candidate, more[to])
                chosen[to] = np.where(better, i, chosen[to])
            layers.append(more)
            last.append(chosen)
        return layers, last

    def _staying(self, job: JobClass, whole: bool = False) -> Selections:
        """Return the cheapest selection of staying tasks and its cost, by numbers of servers and of tasks.

        Parameters
        ----------
        whole
            Only selections in which no task moves.
        """
        tasks = job.parts[0].tasks
        cheapest: Selections = {(0, (0,) * len(tasks)): (0.0, ())}
        for number, current in enumerate(job.current):
            counts = self.classes.pieces[current.shape]
            cost = self.prices[current.shape] - self._saved(current, counts)
            shape, rows = self.classes.base[current.shape]
            # A piece that costs no less than the same piece anywhere need not stay.
            elsewhere = self.prices[shape][rows]
            wanted = (counts >= np.array(current.kept)).all(axis=1) if whole else cost < elsewhere
            options = [(i, counts[i].tolist(), float(cost[i])) for i in np.flatnonzero(wanted).tolist()]
            before = list(cheapest.items())
            if whole:
                cheapest = {}
            for (placed, tasks_staying), (price, stay) in before:
                check_time()
                for i, row, more in options:
                    together = tuple(map(operator.add, tasks_staying, row))
                    if all(map(int.__le__, together, tasks)):
                        key = placed + 1, together
                        if price + more < cheapest.get(key, (math.inf, ()))[0]:
                            cheapest[key] = price + more, (*stay, (number, i))
            if len(cheapest) > SETTINGS.most_stay_selections:
                raise TooLargeError("a job is on too many servers now for exact classes")
        return cheapest


def _backtracked_pattern(chosen: Sequence[ShortInts], tasks: tuple[int, ...], pieces: Ints) -> JobPattern:
    pattern = []
    for layer in reversed(chosen):
        i = int(layer[tasks])
        pattern.append(i)
        tasks = tuple(map(operator.sub, tasks, pieces[i].tolist()))
    return tuple(sorted(pattern, reverse=True))


def initial_patterns(
    job: JobClass, classes: ClassTable, mergeable: bool
) -> tuple[list[tuple[JobPattern, Stay]], bool]:
    """Return initial patterns of a job, and whether they include all that any solution may need.

    Parameters
    ----------
    mergeable
        Leave out patterns in which two pieces could be merged.
    """
    check_time()
    few, most = len(job.current) <= 1, SETTINGS.first_patterns_per_class
    if job.loose:
        stays = [
            ((number, i),)
            for number, h in enumerate(job.current)
            for i in range(len(classes.pieces[h.shape]))
        ]
        return [((), stay) for stay in [(), *stays]], few
    lister = _PatternLister(classes.pieces[job.parts[0].shape], mergeable)
    every = (
        (pattern, stay)
        for stay, tasks in _stay_selections(job, classes)
        for servers in range(job.most - len(stay) + 1)
        for pattern in lister.partitions(tasks, servers)
    )
    patterns = [*itertools.islice(every, most + 1)]
    complete = few and lister.steps <= SETTINGS.most_listing_steps and len(patterns) <= most
    return patterns[:most], complete


def _stay_selections(job: JobClass, classes: ClassTable) -> Iterator[tuple[Stay, tuple[int, ...]]]:
    """Yield selections of staying tasks and the remaining tasks: all stay, none, those of one server."""
    tasks = job.parts[0].tasks
    rows = [classes.pieces[current.shape].tolist() for current in job.current]
    everything = []
    for number, current in enumerate(job.current):
        if list(current.kept) in rows[number]:
            everything.append((number, rows[number].index(list(current.kept))))
    if len(everything) > 1:
        tasks_staying = [sum(rows[n][i][g] for n, i in everything) for g in range(len(tasks))]
        if len(everything) <= job.most:
            yield tuple(everything), tuple(map(operator.sub, tasks, tasks_staying))
    yield (), tasks
    for number in range(len(job.current)):
        for i, row in enumerate(rows[number]):
            if all(map(int.__le__, row, tasks)):
                yield ((number, i),), tuple(map(operator.sub, tasks, row))


class _PatternLister:
    """Lists the partitions of a job's tasks over servers, in non-increasing order of combinations."""

    def __init__(self, pieces: Ints, mergeable: bool) -> None:
        self.rows = [tuple(row) for row in pieces.tolist()]
        self.mergeable = set(self.rows) if mergeable else set()
        self.largest = max(map(sum, self.rows), default=0)
        self.steps = 0

    def partitions(self, tasks: tuple[int, ...], servers: int) -> Iterator[JobPattern]:
        """Yield the partitions of tasks over `servers` servers, until the limit on steps is reached.

        The recursion is an explicit stack, since jobs of thousands of tasks exceed Python's recursion limit.
        """
        if servers == 0:
            if not any(tasks):
                yield ()
            return
        chosen: list[int] = []
        left = [tasks]
        open_ = [self._next(tasks, servers, len(self.rows) - 1, chosen)]
        while open_:
            i = next(open_[-1], None)
            if i is None:
                open_.pop()
                left.pop()
                del chosen[-1:]
                continue
            rest = tuple(map(operator.sub, left[-1], self.rows[i]))
            if len(open_) == servers:
                if not any(rest):
                    yield (*chosen, i)
                continue
            chosen.append(i)
            left.append(rest)
            open_.append(self._next(rest, servers - len(chosen), i, chosen))

    def _next(self, tasks: tuple[int, ...], servers: int, top: int, chosen: Sequence[int]) -> Iterator[int]:
        """Yield task combinations, as indices from `top` down, for the next server beside the chosen ones."""
        # Not even the largest pieces are enough.
        if sum(tasks) > servers * self.largest:
            return
        for i in range(top, -1, -1):
            self.steps += 1
            if self.steps > SETTINGS.most_listing_steps:
                return
            if len(tasks) == 1 and self.rows[i][0] * servers < tasks[0]:
                return  # even if all were as large as this one
            fits = all(map(int.__le__, self.rows[i], tasks))
            merged = (tuple(map(operator.add, self.rows[i], self.rows[j])) for j in set(chosen))
            if fits and self.mergeable.isdisjoint(merged):
                yield i


ServerPattern = tuple[tuple[int, int], ...]
"""Shape and row in the shape's slots of the tasks on one server; residents that stay come first."""
StayingResidents = dict[tuple[int, ...], tuple[float, ServerPattern]]
"""Residual capacity → the most that residents are paid which leave it, and these."""


class PoolPricing:
    """The server classes of one pool, by number, their free capacities, and the shapes that they hold."""

    def __init__(self, classes: ClassTable, pool: str | None) -> None:
        self.classes = classes
        self.numbers = [n for n, server in enumerate(classes.servers) if server.pool == pool]
        self.task_shapes = [k for k in classes.shapes_of(pool) if len(classes.slots[k])]
        free = [classes.servers[n].free for n in self.numbers]
        self.free = np.array(free, dtype=np.int64).reshape(len(free), len(classes.units))


class ServerPricing(PoolPricing):
    """Pricing problem of all server classes of a pool, by a table of all sums of demands on one server."""

    def __init__(self, classes: ClassTable, pool: str | None) -> None:
        super().__init__(classes, pool)
        usages = classes.usages[pool]
        if usages is None:
            raise TooLargeError("there are too many different loads for exact classes")
        self.usages = usages
        slots = sum(len(classes.slots[k]) for k in self.task_shapes)
        cells = len(self.usages) * slots
        # A search has long found the best pattern before so large a table is filled.
        if (
            cells > SETTINGS.most_priced_cells
            or cells + len(self.usages) * len(self.numbers) > SETTINGS.most_table_cells
        ):
            raise TooLargeError("there are too many different loads for exact classes")
        sizes = [int(most) + 1 for most in self.usages.max(axis=0)]
        # Weights that turn each sum into a number of its own.
        self.radix = np.array([math.prod(sizes[r + 1 :]) for r in range(len(sizes))], dtype=np.int64)
        self.keys = self.usages @ self.radix
        self.order = np.argsort(self.keys)
        self.before = [[self._without(w) for w in classes.slot_weights[k]] for k in self.task_shapes]
        self.holds = np.array([(self.usages <= limit).all(axis=1) for limit in self.free])

    def _without(self, weight: Ints) -> ShortInts:
        """Return the index of each demand sum less `weight`, -1 if not in the table, shape (sums,)."""
        check_time()
        enough = (self.usages >= weight).all(axis=1)
        wanted = self.keys - weight @ self.radix
        place = np.minimum(np.searchsorted(self.keys, wanted, sorter=self.order), len(self.keys) - 1)
        predecessor = self.order[place]
        # Without the first test a borrow between resources might hit another sum's number.
        predecessor[~(enough & (self.keys[predecessor] == wanted))] = -1
        return predecessor.astype(np.int32)

    def best(
        self, paid: Sequence[Floats], most: int = 1, search: bool = True
    ) -> list[tuple[int, float, ServerPattern]]:
        """Return the patterns of maximum total dual price as (number of the server class, price, pattern).

        Parameters
        ----------
        paid
            Dual price of each slot of each shape.
        most
            Patterns for each class; they differ in the residents that stay.
        search
            Ignored, since the table is always optimal.
        """
        del search
        if not self.numbers:
            return []
        values, choices = self._values(paid)
        patterns = []
        for number, holds in zip(self.numbers, self.holds, strict=True):
            ends: list[tuple[float, ServerPattern, int]] = []
            for free, (gain, stay) in resident_selections(self.classes, number, paid).items():
                fits = np.asarray((self.usages <= np.array(free)).all(axis=1)) if stay else holds
                place = int(np.argmax(np.where(fits, values[-1], -np.inf)))
                ends.append((gain + float(values[-1][place]), stay, place))
            ends.sort(reverse=True)
            patterns += [
                (number, total, (*stay, *self._trace(end, choices))) for total, stay, end in ends[:most]
            ]
        return patterns

    def alone(self, k: int) -> list[tuple[int, ServerPattern]]:
        """Return for each server class, by number, the pattern of as many tasks of one shape as fit."""
        paid = [np.zeros(len(slots)) for slots in self.classes.slots]
        paid[k] = self.classes.slots[k].sum(axis=1).astype(float)
        return [(number, pattern) for number, _, pattern in self.best(paid)]

    def _values(self, paid: Sequence[Floats], useless: bool = False) -> tuple[list[Floats], list[ShortInts]]:
        """Return the maximum price of each demand sum by the first 0, 1, … task shapes, and choices for it.

        A choice is the last shape's combination of tasks (slot), -1 for none.
        """
        values = [np.where((self.usages == 0).all(axis=1), 0.0, -np.inf)]
        choices = []
        for k, places in zip(self.task_shapes, self.before, strict=True):
            best, choice = values[-1].copy(), np.full(len(self.usages), -1, dtype=np.int32)
            for slot, place in enumerate(places):
                check_time()
                gain = paid[k][slot]
                if gain <= 0 and not useless:
                    continue
                candidate = np.where(place >= 0, values[-1][place] + gain, -np.inf)
                # Ties go to the earlier slot, so that patterns do not depend on rounding.
                better = candidate > best + 1e-12
                best[better], choice[better] = candidate[better], slot
            values.append(best)
            choices.append(choice)
        return values, choices

    def within(
        self, paid: Sequence[Floats], least: Floats, most: int
    ) -> list[tuple[int, ServerPattern]] | None:
        """Return every maximal pattern, with server class, of price at least `least`; None if too many.

        Parameters
        ----------
        least
            Limit for each server class of the instance.
        most
            Largest number of patterns; None is returned beyond it, for too many shapes, or with residents.
        """
        residents = any(self.classes.servers[number].residents for number in self.numbers)
        if residents or len(self.task_shapes) > SETTINGS.most_shapes_enumerated:
            return None
        values, _ = self._values(paid, useless=True)
        patterns: list[tuple[int, ServerPattern]] = []
        looked = 0
        for number, free, holds in zip(self.numbers, self.free, self.holds, strict=True):
            check_time()
            for end in np.flatnonzero(holds & (values[-1] >= least[number])).tolist():
                for pattern in self._paths(end, len(self.task_shapes), float(least[number]), paid, values):
                    looked += 1
                    if looked > most:
                        return None
                    # A full pattern stands for all that hold less: supply may exceed demand.
                    if not self._extendable(pattern, free - self.usages[end]):
                        patterns.append((number, pattern))
        return patterns

    def _paths(
        self, place: int, stage: int, least: float, paid: Sequence[Floats], values: Sequence[Floats]
    ) -> Iterator[ServerPattern]:
        """Yield the patterns of the first `stage` task shapes with a given demand sum and enough price."""
        if stage == 0:
            yield ()
            return
        k = self.task_shapes[stage - 1]
        if values[stage - 1][place] >= least:
            yield from self._paths(place, stage - 1, least, paid, values)
        for slot, places in enumerate(self.before[stage - 1]):
            origin, rest = int(places[place]), least - float(paid[k][slot])
            if origin >= 0 and values[stage - 1][origin] >= rest:
                for pattern in self._paths(origin, stage - 1, rest, paid, values):
                    yield (*pattern, (k, slot))

    def _extendable(self, pattern: ServerPattern, free: Ints) -> bool:
        """Return whether a task of any shape could be added to a pattern within residual capacity `free`."""
        counts = dict(pattern)
        for k in self.task_shapes:
            slots, demands = self.classes.slots[k], self.classes.task_shapes[k].demands
            now = slots[counts[k]] if k in counts else np.zeros(len(demands), dtype=np.int64)
            for g, demand in enumerate(demands):
                more = now.copy()
                more[g] += 1
                if (np.array(demand) <= free).all() and (slots == more).all(axis=1).any():
                    return True
        return False

    def _trace(self, end: int, choices: Sequence[ShortInts]) -> ServerPattern:
        pattern = []
        for index in range(len(self.task_shapes) - 1, -1, -1):
            slot = int(choices[index][end])
            if slot >= 0:
                pattern.append((self.task_shapes[index], slot))
                end = int(self.before[index][slot][end])
        return tuple(reversed(pattern))


def resident_selections(
    classes: ClassTable, number: int, paid: Sequence[Floats], multipliers: Floats | None = None
) -> StayingResidents:
    """Return the residents of a server class that best stay, with total price, by residual capacity.

    Parameters
    ----------
    multipliers
        Price of a unit of each resource, shape (R,). If given, of too many selections those are kept that
        are worth most with the residual capacity at these prices.

    Raises
    ------
    TooLargeError
        If there are too many selections, and no prices to choose by.
    """
    server = classes.servers[number]
    selections: StayingResidents = {server.free: (0.0, ())}
    for k in server.residents:
        check_time()
        useful = np.flatnonzero(paid[k] > 0).tolist()
        if not useful:
            continue
        weights = classes.slot_weights[k].tolist()
        for free, (gain, pattern) in list(selections.items()):
            for slot in useful:
                rest = tuple(map(operator.sub, free, weights[slot]))
                total = gain + float(paid[k][slot])
                if min(rest) >= 0 and total > selections.get(rest, (-1.0, ()))[0]:
                    selections[rest] = total, (*pattern, (k, slot))
        if multipliers is not None and len(selections) > SETTINGS.most_priced_selections:
            worth = np.array(list(selections)) @ multipliers + [gain for gain, _ in selections.values()]
            best, listed = np.argsort(-worth)[: SETTINGS.most_priced_selections], list(selections.items())
            selections = dict(listed[index] for index in best.tolist())
        if len(selections) > SETTINGS.most_stay_selections:
            raise TooLargeError("a server has too many residents for exact classes")
    return selections
