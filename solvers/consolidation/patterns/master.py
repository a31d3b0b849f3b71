"""The restricted master problem: numbers of servers with each pattern and of jobs with each pattern.

Rows
    supply  of each piece of each shape: server patterns cover the demand of job patterns
    servers of each class carry one pattern each at most; jobs of each class have one pattern, or none
    earlier objectives keep their values
Columns
    server  a class of servers, and the tasks of each shape on one of them
    job     a class of jobs, and the pieces of one of them; `missing` for a job that must be placed
    split   supply of a large piece becomes supply of two smaller ones
    host    supply of one shape becomes supply of another that asks no more
    apart   a piece of a preferred job becomes two, at the price of one more server
    ask     demand of a preferred job becomes ordinary demand

This is the pattern formulation of cutting stock (Gilmore & Gomory 1961) with patterns on both sides. Split,
host and apart are exchange columns, the primal side of dual-optimal inequalities (Valério de Carvalho
2005): they stand for the many patterns that differ only in that, so that few columns are needed. A shape of
tasks can use the slots of another shape with at least its demand of every resource.

For the assignment relaxation, similar servers are aggregated, since in a cluster in use nearly every server
has another free capacity. A k-d tree (Bentley 1975) splits the servers of each pool, always the group in
which servers differ most, until there are enough groups. Which tasks fit at all matters more than how many.
"""

from __future__ import annotations

import heapq
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from ....formulations.common.clock import check_time
from ....formulations.consolidation.certificate import MUST_PLACE, PRICED
from ....formulations.consolidation.classes import (
    JOB_OBJECTIVES,
    MOVE_LIMIT,
    SERVER_COUNT_OBJECTIVES,
    ClassTable,
    JobClass,
    TaskShape,
)
from ....instances.common.arrays import Floats, Ints, offsets
from ....instances.common.errors import OutOfTimeError, TooLargeError
from ....instances.consolidation.job import allows, models_of
from ..progress import SETTINGS, objective_step, scaling_step
from .knapsack_pricing import SearchPricing
from .pricing import JobPattern, JobPricing, ServerPattern, ServerPricing, Stay, initial_patterns

COUNT_WEIGHT = 0.01
"""Weight of further tasks of a shape, relative to the first one."""


def server_groups(classes: ClassTable, held: Floats, sizes: Floats, most: int) -> list[list[int]]:
    """Partition the server classes, by index, into groups of similar classes of the same pool.

    Parameters
    ----------
    held
        Number of tasks of each kind that a server of each class holds alone; shape (classes, kinds).
    sizes
        Size of a task of each kind; shape (kinds,).
    most
        Largest number of groups, at least one for each pool.
    """
    numbers = range(len(classes.servers))
    features = (np.minimum(held, 1.0) + COUNT_WEIGHT * held) * sizes
    count = np.array([len(server.members) for server in classes.servers])
    pools = [[n for n in numbers if classes.servers[n].pool == pool] for pool in classes.pools]
    groups = [_queue_entry(members, features, count) for members in pools]
    heapq.heapify(groups)
    while len(groups) < most and groups[0][0] < 0:
        _, members = heapq.heappop(groups)
        for part in _split_group(members, features):
            heapq.heappush(groups, _queue_entry(part, features, count))
    return sorted(members for _, members in groups)


def _queue_entry(members: list[int], features: Floats, count: Ints) -> tuple[float, list[int]]:
    """Return a heap entry of a group of server classes: minus its total feature range, and the group."""
    return -float(np.ptp(features[members], axis=0).sum() * count[members].sum()), members


def _split_group(members: list[int], features: Floats) -> tuple[list[int], list[int]]:
    """Split a group of server classes at the midpoint of the feature with the widest range."""
    own = features[members]
    widest = own[:, int(np.ptp(own, axis=0).argmax())]
    above, numbers = widest > (widest.min() + widest.max()) / 2, np.array(members)
    return numbers[~above].tolist(), numbers[above].tolist()


def hosting_pairs(shapes: Sequence[TaskShape]) -> Iterator[tuple[int, int]]:
    """Yield all pairs (i, j) of task shapes such that capacity for a task of i holds a task of j."""
    shared = np.array([k for k, shape in enumerate(shapes) if shape.current is None], dtype=np.int64)
    groups = np.array([len(shapes[k].demands) for k in shared.tolist()])
    alike = {g: shared[groups == g] for g in set(groups.tolist())}
    demands = {g: np.array([np.ravel(shapes[k].demands) for k in ks.tolist()]) for g, ks in alike.items()}
    models = list(dict.fromkeys(shape.gpu_model for shape in shapes))
    number = np.array([models.index(shape.gpu_model) for shape in shapes])
    # Whether every GPU model allowed by one request is allowed by another.
    served = np.array(
        [
            [all(allows(other, one) for one in models_of(model) or (None,)) for other in models]
            for model in models
        ]
    )
    for k in shared.tolist():
        g = len(shapes[k].demands)
        # Pairs are many, so all shapes are compared with one at once.
        hosted = (demands[g] <= np.ravel(shapes[k].demands)).all(axis=1)
        hosted &= served[number[k], number[alike[g]]] & (alike[g] != k)
        yield from ((k, other) for other in alike[g][hosted].tolist())


GOALS = (MUST_PLACE, *PRICED)
ColumnType = Literal["server", "job", "missing", "split", "host", "apart", "ask"]


@dataclass(frozen=True)
class Column:
    """A column of the master problem: type, coefficients by row, and contribution to each objective.

    Attributes
    ----------
    what
        `server`: class, pattern · `job`: class, pieces, pieces that stay · `missing`: class · `split`,
        `apart`: shape, piece, two pieces · `host`: shape, piece, other shape, piece · `ask`: shape, piece.
    """

    type: ColumnType
    what: tuple[Any, ...]
    entries: list[tuple[int, float]]
    counts: dict[str, float]


@dataclass(frozen=True)
class DualPrices:
    """Dual prices of the master's rows: tasks on a server, server and job classes, earlier objectives."""

    pieces: tuple[Floats, ...]
    servers: Floats
    jobs: Floats
    earlier: dict[str, float]


class RestrictedMaster:
    """The restricted master problem of the pattern formulation, to which columns are added.

    Attributes
    ----------
    fewest_placed, most_placed
        Limits on the placed jobs of each class: all that must be placed, and at most all.
    servers
        Number of servers of each class.
    """

    def __init__(self, classes: ClassTable) -> None:
        self.classes = classes
        steps = {goal: objective_step(classes, goal) for goal in (*GOALS, MOVE_LIMIT)}
        self.steps = {goal: step or scaling_step(classes, goal) for goal, step in steps.items()}
        self.integral = {goal: step is not None for goal, step in steps.items()}
        self.most_placed = np.array([float(len(job.members)) for job in classes.jobs])
        self.fewest_placed = np.where([job.must_place for job in classes.jobs], self.most_placed, 0.0)
        self.servers = np.array([float(len(server.members)) for server in classes.servers])
        self._opening = np.array([server.opening for server in classes.servers])
        # Rows: supply of each piece; demand of preferred jobs; classes of servers; classes of jobs.
        sizes = [len(pieces) for pieces in classes.pieces]
        self.supply = offsets(sizes)
        count = int(self.supply[-1])
        self.asked: dict[int, int] = {}
        for job in classes.jobs:
            if self.preferred(job) and job.parts[0].shape not in self.asked:
                self.asked[job.parts[0].shape] = count
                count += sizes[job.parts[0].shape]
        self.server_row = count
        self.job_row = count + len(classes.servers)
        self.rows = self.job_row + len(classes.jobs)
        self.columns: list[Column] = []
        self.all_patterns = True
        self._known: set[tuple[Any, ...]] = set()
        # By a table of all sums of demands, or else by knapsack search.
        self.pricing: list[ServerPricing | SearchPricing] = []
        for pool in classes.usages:
            try:
                self.pricing.append(ServerPricing(classes, pool))
            except OutOfTimeError:
                raise
            except TooLargeError:
                self.pricing.append(SearchPricing(classes, pool))
        self._rests = [0] * len(self.pricing)
        self.searches = any(isinstance(pricing, SearchPricing) for pricing in self.pricing)
        # Of each shape, the row of each piece.
        self._places = [{tuple(row): i for i, row in enumerate(pieces.tolist())} for pieces in classes.pieces]
        self._exchanges()
        self._first_columns()

    @staticmethod
    def preferred(job: JobClass) -> bool:
        """Return whether a job costs the same for each further server, so that tasks may be split freely."""
        return not job.loose and job.fewest is not None and not job.lost

    def limits(self, levels: Sequence[float] = ()) -> tuple[Floats, Floats]:
        """Return the row bounds of the master problem, with one more row for each earlier objective."""
        low, high = np.zeros(self.rows), np.full(self.rows, np.inf)
        low[self.server_row : self.job_row] = -np.inf
        high[self.server_row : self.job_row] = self.servers
        high[self.job_row :] = self.most_placed
        # Jobs that must be placed have a pattern, or count as missing.
        low[self.job_row :] = np.where(self.fewest_placed > 0, self.fewest_placed, -np.inf)
        return np.append(low, np.full(len(levels), -np.inf)), np.append(high, levels)

    def add(
        self,
        type_: ColumnType,
        what: tuple[Any, ...],
        entries: list[tuple[int, float]],
        counts: dict[str, float],
    ) -> bool:
        """Add a column unless it exists; return whether it is new."""
        key = (type_, *what)
        if key in self._known:
            return False
        self._known.add(key)
        self.columns.append(Column(type_, what, entries, counts))
        return True

    def _exchanges(self) -> None:
        splits = 0
        for k, place in enumerate(self._places):
            if self.classes.task_shapes[k].current is not None:
                continue  # a resident has one piece, which is not to be parted
            for i, a, b in _piece_splits(place):
                splits += 1
                if splits > SETTINGS.most_split_columns:
                    raise TooLargeError("there are too many different pieces for exact classes")
                first = int(self.supply[k])
                self.add("split", (k, i, a, b), [(first + i, -1.0), (first + a, 1.0), (first + b, 1.0)], {})
                # Each part of a preferred piece is a server more; parts of supply cost nothing.
                if k in self.asked:
                    first = self.asked[k]
                    entries = [(first + i, 1.0), (first + a, -1.0), (first + b, -1.0)]
                    self.add("apart", (k, i, a, b), entries, {"spread": 1.0})
            if k in self.asked:
                for i in place.values():
                    entries = [(int(self.supply[k]) + i, -1.0), (self.asked[k] + i, 1.0)]
                    self.add("ask", (k, i), entries, {})
        # Supply of one task shape serves another that demands no more.
        for k, other in hosting_pairs(self.classes.task_shapes):
            check_time()
            for piece, i in self._places[k].items():
                j = self._places[other].get(piece)
                if j is not None:
                    entries = [(int(self.supply[k]) + i, -1.0), (int(self.supply[other]) + j, 1.0)]
                    self.add("host", (k, i, other, j), entries, {})

    def _first_columns(self) -> None:
        for c, job in enumerate(self.classes.jobs):
            if job.must_place:
                # So that the relaxation is feasible before all such jobs have a place.
                self.add_missing(c)
            patterns, every = initial_patterns(job, self.classes, mergeable=self.preferred(job))
            self.all_patterns = self.all_patterns and every
            for pattern, stay in patterns:
                self.add_job_pattern(c, pattern, stay)
        for pricing in self.pricing:
            for k in pricing.task_shapes:
                check_time()
                # Every shape has supply from the start.
                for number, pattern_on_server in pricing.alone(k):
                    self.add_server_pattern(number, pattern_on_server)
        if self.classes.base:  # tasks run now
            stays = [np.zeros(len(slots)) for slots in self.classes.slots]
            for current in (current for job in self.classes.jobs for current in job.current):
                stays[current.shape] = current.staying(self.classes.slots[current.shape])
            for pricing in self.pricing:
                for number, _, pattern_on_server in pricing.best(stays):
                    self.add_server_pattern(number, pattern_on_server)

    def add_missing(self, number: int) -> None:
        """Add the column of a job of a class that is missing although it has to be placed."""
        self.add("missing", (number,), [(self.job_row + number, 1.0)], {MUST_PLACE: 1.0})

    def add_server_pattern(self, number: int, pattern: ServerPattern) -> bool:
        """Add the column of a server pattern (server class, tasks on one); return whether it is new."""
        if not pattern:
            return False
        entries = [(self.server_row + number, 1.0)]
        for k, slot in pattern:
            # Shapes of loose jobs alone have one row, of single tasks.
            single = self.classes.single(k)
            count = float(self.classes.slots[k][slot, 0]) if single else 1.0
            entries.append((int(self.supply[k]) + (0 if single else slot), count))
        return self.add(
            "server", (number, pattern), entries, {"servers": 1.0} if self._opening[number] else {}
        )

    def add_job_pattern(self, number: int, pattern: JobPattern, stay: Stay = ()) -> bool:
        """Add the column of a job pattern (job class, tasks split over servers); return whether it is new."""
        job = self.classes.jobs[number]
        entries = [(self.job_row + number, 1.0)]
        left = [part.tasks[0] for part in job.parts]
        stays = 0
        for h, i in stay:
            current = job.current[h]
            counts = self.classes.pieces[current.shape][i].tolist()
            entries.append((int(self.supply[current.shape]) + i, -1.0))
            left[current.part] -= counts[0]
            stays += current.stay(counts)
        if job.loose:
            if not self.classes.can_run(job):
                return False
            parts = zip(job.parts, left, strict=True)
            entries += [(int(self.supply[part.shape]), -float(n)) for part, n in parts if n]
        else:
            shape = job.parts[0].shape
            first = self.asked[shape] if self.preferred(job) else int(self.supply[shape])
            entries += [(first + i, -1.0) for i in pattern]
        counted = {"migrations": -float(stays)}
        for goal in (*JOB_OBJECTIVES, *SERVER_COUNT_OBJECTIVES):
            counted[goal] = float(self._count(goal, job, pattern, stay) / self.steps[goal])
        if self._stays_whole(job, stay):
            counted[MOVE_LIMIT] = -1.0
        return self.add(
            "job", (number, pattern, stay), entries, {goal: c for goal, c in counted.items() if c}
        )

    def _count(self, goal: str, job: JobClass, pattern: JobPattern, stay: Stay) -> Fraction:
        """Return a job pattern's contribution to an objective, less the restart cost that it saves.

        The cost is saved if no task of a running job moves.
        """
        saved = job.restart if goal == "value" and self._stays_whole(job, stay) else Fraction(0)
        return job.count(goal, len(pattern) + len(stay)) - saved

    def _stays_whole(self, job: JobClass, stay: Stay) -> bool:
        """Return whether a selection of staying tasks keeps every running task of a job on its server."""
        if not job.can_stay or len(stay) < len(job.current):
            return False
        pieces = self.classes.pieces
        return all((pieces[job.current[h].shape][i] >= job.current[h].kept).all() for h, i in stay)

    def counted(self, goal: str, values: Ints) -> float:
        """Return an objective's value, in multiples of its step, for given integer values of the columns."""
        return math.fsum(
            c.counts.get(goal, 0.0) * n for c, n in zip(self.columns, values.tolist(), strict=False)
        )

    def exactly(self, goal: str, values: Ints) -> Fraction:
        """Return an objective's value for given integer column values, as an exact fraction in its unit."""
        if self.integral[goal]:
            return round(self.counted(goal, values)) * self.steps[goal]
        # Only patterns of jobs count in goals whose values are no multiples of a step.
        patterns = (
            (self.classes.jobs[c.what[0]], c.what[1], c.what[2], n)
            for c, n in zip(self.columns, values.tolist(), strict=False)
            if n and c.type == "job"
        )
        return sum((n * self._count(goal, job, *pieces) for job, *pieces, n in patterns), Fraction(0))

    def in_plan(self, goal: str, value: float) -> float:
        """Convert an objective value in steps, to be minimised, to unit and sense of the plan's objective."""
        known = float(value * self.steps[goal]) + float(self.classes.offset(goal))
        return -known if goal == "value" else known

    def rounded(self, goal: str, value: float) -> float:
        """Round a lower bound, in steps of the objective, up to the next value that it can take.

        Where values have no common step, a tolerance is subtracted instead.
        """
        if self.integral[goal] and math.isfinite(value):
            return math.ceil(value - SETTINGS.relaxation_tolerance)
        return value - SETTINGS.relaxation_tolerance * max(1.0, abs(value)) * 1e-3

    def generate_columns(self, goal: str, prices: DualPrices, search: bool = True) -> tuple[int, float]:
        """Add server and job patterns of negative reduced cost, found by the pricing problems.

        Parameters
        ----------
        search
            Whether pricing problems are solved to optimality. If not, pools without new patterns are skipped
            for some rounds (partial pricing), in which there is no bound.

        Returns
        -------
        added, beyond
            Number of new columns, and the sum of all reduced costs: the relaxation's value less this is a
            bound.
        """
        paid, weight, costs = self._paid_and_costs(goal, prices)
        added, beyond = 0, 0.0
        for place, pricing in enumerate(self.pricing):
            if not search and self._rests[place]:
                self._rests[place] -= 1
                beyond = math.inf
                continue
            more: dict[int, float] = {}
            known = added
            for number, most, pattern in pricing.best(paid, SETTINGS.columns_per_class_and_round, search):
                cost = float(costs[number])
                # The best column of a class could be taken by all of its members.
                more[number] = max(more.get(number, 0.0), most - cost)
                worth = sum(float(paid[k][slot]) for k, slot in pattern)
                if worth - cost > SETTINGS.reduced_cost_tolerance:
                    added += self.add_server_pattern(number, pattern)
            beyond += sum(gain * self.servers[n] for n, gain in more.items())
            self._rests[place] = 0 if added > known else SETTINGS.resting_rounds
        patterns = JobPricing(self.classes, prices.pieces, weight, self.steps)
        for c, job in enumerate(self.classes.jobs):
            check_time()
            if not job.loose or job.current:
                # The reduced cost of a pattern is its cost less this.
                below = float(prices.jobs[c]) + patterns.worth(job)
                priced = patterns.cheapest(job, below)
                added += sum(
                    self.add_job_pattern(c, p.pattern, p.stay)
                    for p in priced
                    if p.cost < below - SETTINGS.reduced_cost_tolerance
                )
                beyond += max((below - p.cost for p in priced), default=0.0) * len(job.members)
        return added, beyond

    def enumerate_columns(self, goal: str, prices: DualPrices, slack: float) -> bool:
        """Add all server patterns of reduced cost at most `slack`; return False if there are too many.

        Returns
        -------
        complete
            False if there are too many.
        """
        if not self.all_patterns:
            return False
        paid, _, costs = self._paid_and_costs(goal, prices)
        # Reduced-cost fixing: a column that costs more than the gap is in no better solution.
        least = costs - slack - SETTINGS.reduced_cost_tolerance
        for pricing in self.pricing:
            if isinstance(pricing, SearchPricing):
                return False  # with many distinct sums of demands, there are too many patterns
            patterns = pricing.within(paid, least, SETTINGS.most_patterns_enumerated)
            if patterns is None:
                return False
            for number, pattern in patterns:
                self.add_server_pattern(number, pattern)
        return True

    def _paid_and_costs(self, goal: str, prices: DualPrices) -> tuple[list[Floats], dict[str, float], Floats]:
        """Return prices of slots, weights of the objectives, and what a server of each class costs."""
        weights = {goal: 1.0, **prices.earlier}
        costs = weights.get("servers", 0.0) * self._opening + prices.servers
        return self._slot_prices(prices), weights, costs

    def _slot_prices(self, prices: DualPrices) -> list[Floats]:
        """Return the dual price of each combination of tasks of a shape on one server, per task shape.

        The combinations are the rows of the shape's table of slots.
        """
        paid = []
        for k, slots in enumerate(self.classes.slots):
            single = self.classes.single(k)
            paid.append(slots[:, 0] * prices.pieces[k][0] if single else prices.pieces[k])
        for current, (base, rows) in self.classes.base.items():
            # A piece that is paid no more than an ordinary one need not stay.
            paid[current] = np.where(
                paid[current] > paid[base][rows] + SETTINGS.reduced_cost_tolerance / 2, paid[current], 0.0
            )
        return paid


def _piece_splits(place: dict[tuple[int, ...], int]) -> list[tuple[int, int, int]]:
    """Return all triples (i, a, b) such that task combination i is the union of combinations a and b."""
    splits = []
    for counts, i in place.items():
        check_time()
        for first, a in place.items():
            rest = tuple(map(operator.sub, counts, first))
            b = place.get(rest)
            if b is not None and a >= b:
                splits.append((i, a, b))
    return splits
