"""The class model: how many servers carry which load, and how many jobs are cut in which way.

Rows
    supply  of each piece of each kind: what loads hold covers what cuts ask for
    servers of each class carry one load each at most; jobs of each class are cut once, or left out
    earlier objectives keep their values
Columns
    load    a class of servers and the tasks of each kind on one of them
    cut     a class of jobs and the pieces of one of them; `missing` for a job that must be placed
    split   room for a large piece becomes room for two smaller ones
    host    room for a kind becomes room for another that asks no more
    apart   a preferred job's piece becomes two, at the price of one more server

Split, host and apart stand for the many loads and cuts that differ only in that, so few columns are needed,
and the whole-number model over them is rich.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...formulations.common.clock import check_time
from ...formulations.consolidation.certificate import MUST_PLACE, PRICED
from ...formulations.consolidation.classes import BY_SERVERS, ClassTable, JobClass
from ...instances.common.arrays import Floats
from ...instances.common.errors import TooLargeError
from .objective_steps import figure_step, objective_step
from .price_jobs import MOST_AT_ONCE, Cut, CutPricing, Stay, first_cuts
from .price_servers import Load, LoadPricing

GOALS = (MUST_PLACE, *PRICED)
MOST_SPLITS = 60_000
MOST_LISTED = 20_000
"""Loads to look at for a complete model."""
ROUNDING = 1e-5
"""How far the linear relaxation may be off, in steps of the goal."""
EPSILON = 1e-7
"""A column must improve on the prices by more than this, in steps of the objective."""

ColumnKind = Literal["load", "cut", "missing", "split", "host", "apart", "ask"]


@dataclass(frozen=True)
class Column:
    """A column: what it stands for, its rows and coefficients, and what it counts in each goal.

    Attributes
    ----------
    what
        `load`: class, load · `cut`: class, pieces, pieces at home · `missing`: class · `split`, `apart`:
        kind, piece, two pieces · `host`: kind, piece, other kind, piece · `ask`: kind, piece.
    """

    kind: ColumnKind
    what: tuple[Any, ...]
    rows: tuple[int, ...]
    coefficients: tuple[float, ...]
    counts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Prices:
    """Duals of the linear relaxation: of pieces by kind, of classes of servers and jobs, of earlier goals."""

    pieces: tuple[Floats, ...]
    servers: Floats
    jobs: Floats
    earlier: dict[str, float]


class Master:
    """Rows and columns of the class model; whoever optimises it adds the columns that prices ask for."""

    def __init__(self, classes: ClassTable) -> None:
        self.classes = classes
        steps = {goal: objective_step(classes, goal) for goal in GOALS}
        self.steps = {goal: step or figure_step(classes, goal) for goal, step in steps.items()}
        self.whole = {goal: step is not None for goal, step in steps.items()}
        sizes = [len(pieces) for pieces in classes.pieces]
        self.supply = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
        count = int(self.supply[-1])
        self.asked: dict[int, int] = {}
        for job in classes.jobs:
            if self.preferred(job) and job.parts[0].kind not in self.asked:
                self.asked[job.parts[0].kind] = count
                count += sizes[job.parts[0].kind]
        self.server_row = count
        self.job_row = count + len(classes.servers)
        self.rows = self.job_row + len(classes.jobs)
        self.columns: list[Column] = []
        self.all_cuts = True
        self._known: set[tuple[Any, ...]] = set()
        self.pricing = [LoadPricing(classes, pool) for pool in classes.loads]
        self._exchanges()
        self._first_columns()

    @staticmethod
    def preferred(job: JobClass) -> bool:
        """Return whether each server more costs the same, so that pieces of the job may be parted freely."""
        return not job.loose and job.fewest is not None and not job.lost

    def limits(self) -> tuple[Floats, Floats]:
        """Return the least and most of each row."""
        low, high = np.zeros(self.rows), np.full(self.rows, np.inf)
        low[self.server_row : self.job_row] = -np.inf
        high[self.server_row : self.job_row] = [len(s.members) for s in self.classes.servers]
        counts = np.array([len(job.members) for job in self.classes.jobs], dtype=float)
        high[self.job_row :] = counts
        must = np.array([job.must_place for job in self.classes.jobs], dtype=bool)
        low[self.job_row :] = np.where(must, counts, -np.inf)
        return low, high

    def add(
        self,
        kind: ColumnKind,
        what: tuple[Any, ...],
        entries: Sequence[tuple[int, float]],
        counts: dict[str, float],
    ) -> bool:
        """Add a column unless it is there; return whether it is new."""
        key = (kind, *what)
        if key in self._known:
            return False
        self._known.add(key)
        total: dict[int, float] = {}
        for row, coefficient in entries:
            total[row] = total.get(row, 0.0) + coefficient
        filled = {row: c for row, c in total.items() if c}
        self.columns.append(Column(kind, what, tuple(filled), tuple(filled.values()), counts))
        return True

    def _exchanges(self) -> None:
        splits = 0
        for k, pieces in enumerate(self.classes.pieces):
            if self.classes.kinds[k].home is not None:
                continue  # a resident has one piece, which is not to be parted
            place = {tuple(row): i for i, row in enumerate(pieces.tolist())}
            for i, a, b in _parted(place):
                splits += 1
                if splits > MOST_SPLITS:
                    raise TooLargeError("there are too many different pieces for exact classes")
                self._exchange("split", k, self.supply[k], (i, a, b), 0.0)
                if k in self.asked:
                    self._exchange("apart", k, self.asked[k], (i, a, b), 1.0)
            if k in self.asked:
                for i in place.values():
                    entries = [(int(self.supply[k]) + i, -1.0), (self.asked[k] + i, 1.0)]
                    self.add("ask", (k, i), entries, {})
        shared = [k for k, kind in enumerate(self.classes.kinds) if kind.home is None]
        for k, other in itertools.permutations(shared, 2):
            self._host(k, other)

    def _exchange(
        self, kind: ColumnKind, k: int, first: int, parts: tuple[int, int, int], spread: float
    ) -> None:
        i, a, b = parts
        sign = 1.0 if kind == "split" else -1.0
        entries = [(int(first) + i, -sign), (int(first) + a, sign), (int(first) + b, sign)]
        self.add(kind, (k, i, a, b), entries, {"spread": spread} if spread else {})

    def _host(self, k: int, other: int) -> None:
        """Let room for one kind hold another that asks no more of any resource."""
        check_time()
        here, there = self.classes.kinds[k], self.classes.kinds[other]
        if len(here.demands) != len(there.demands) or there.gpu_model not in (None, here.gpu_model):
            return
        if not (np.array(there.demands) <= np.array(here.demands)).all():
            return
        if there.demands == here.demands and there.gpu_model == here.gpu_model:
            return
        places = {tuple(row): i for i, row in enumerate(self.classes.pieces[other].tolist())}
        for i, row in enumerate(self.classes.pieces[k].tolist()):
            j = places.get(tuple(row))
            if j is not None:
                entries = [(int(self.supply[k]) + i, -1.0), (int(self.supply[other]) + j, 1.0)]
                self.add("host", (k, i, other, j), entries, {})

    def _first_columns(self) -> None:
        for c, job in enumerate(self.classes.jobs):
            if job.must_place:
                self.add("missing", (c,), [(self.job_row + c, 1.0)], {MUST_PLACE: 1.0})
            cuts, every = first_cuts(job, self.classes, whole=self.preferred(job))
            self.all_cuts = self.all_cuts and every
            for cut, stay in cuts:
                self.add_cut(c, cut, stay)
        for pricing in self.pricing:
            for k in pricing.kinds:
                alone = [np.zeros(len(slots)) for slots in self.classes.slots]
                alone[k] = self.classes.slots[k].sum(axis=1).astype(float)
                check_time()
                for number, _, load in pricing.best(alone):
                    self.add_load(number, load)
        at_home = [np.zeros(len(slots)) for slots in self.classes.slots]
        for home in (home for job in self.classes.jobs for home in job.homes):
            at_home[home.kind] = np.array(
                [float(home.stay(row)) for row in self.classes.slots[home.kind].tolist()]
            )
        for pricing in self.pricing if any(job.homes for job in self.classes.jobs) else ():
            for number, _, load in pricing.best(at_home):
                self.add_load(number, load)

    def add_load(self, number: int, load: Load) -> bool:
        """Add a load of a class of servers."""
        if not load:
            return False
        entries = [(self.server_row + number, 1.0)]
        for k, slot in load:
            single = len(self.classes.pieces[k]) < len(self.classes.slots[k])
            count = float(self.classes.slots[k][slot, 0]) if single else 1.0
            entries.append((int(self.supply[k]) + (0 if single else slot), count))
        return self.add("load", (number, load), entries, {"servers": 1.0})

    def add_cut(self, number: int, cut: Cut, stay: Stay = ()) -> bool:
        """Add a cut of a class of jobs; tasks of loose jobs that are not at home are pieces of their own."""
        job = self.classes.jobs[number]
        entries = [(self.job_row + number, 1.0)]
        left = [part.tasks[0] for part in job.parts]
        stays = 0
        for h, i in stay:
            home = job.homes[h]
            counts = self.classes.pieces[home.kind][i].tolist()
            entries.append((int(self.supply[home.kind]) + i, -1.0))
            left[home.part] -= counts[0]
            stays += home.stay(counts)
        if job.loose:
            if any(not len(self.classes.pieces[part.kind]) for part in job.parts):
                return False
            entries += [(int(self.supply[p.kind]), -float(n)) for p, n in zip(job.parts, left, strict=True)]
        else:
            kind = job.parts[0].kind
            first = self.asked[kind] if self.preferred(job) else int(self.supply[kind])
            entries += [(first + i, -1.0) for i in cut]
        counted = {"migrations": -float(stays)}
        for goal in ("value", "spread", "slowdown"):
            counted[goal] = float(job.count(goal, len(cut) + len(stay)) / self.steps[goal])
        return self.add("cut", (number, cut, stay), entries, {goal: c for goal, c in counted.items() if c})

    def counted(self, goal: str, values: NDArray[np.int64]) -> float:
        """Return what a solution counts in a goal, in steps."""
        return math.fsum(
            c.counts.get(goal, 0.0) * n for c, n in zip(self.columns, values.tolist(), strict=False)
        )

    def exactly(self, goal: str, values: NDArray[np.int64]) -> Fraction:
        """Return what a solution counts in a goal, in the goal's unit and without rounding."""
        if self.whole[goal]:
            return round(self.counted(goal, values)) * self.steps[goal]
        # Only cuts of jobs count in goals whose values are no multiples of a step.
        cuts = (
            (self.classes.jobs[c.what[0]], len(c.what[1]) + len(c.what[2]), n)
            for c, n in zip(self.columns, values.tolist(), strict=False)
            if n and c.kind == "cut"
        )
        return sum((n * job.count(goal, servers) for job, servers, n in cuts), Fraction(0))

    def in_plan(self, goal: str, value: float) -> float:
        """Return a value in steps, to be minimised, as one of the plan's objective."""
        known = float(value * self.steps[goal]) + self.classes.offset(goal)
        return -known if goal == "value" else known

    def rounded(self, goal: str, value: float) -> float:
        """Return the least that a goal may be if no solution is below a value, both in steps."""
        if self.whole[goal] and math.isfinite(value):
            return math.ceil(value - ROUNDING)
        return value - ROUNDING * max(1.0, abs(value)) * 1e-3

    def improve(self, goal: str, prices: Prices) -> tuple[int, float]:
        """Add loads and cuts that these prices ask for.

        Returns
        -------
        added, beyond
            How many are new, and by how much whole classes of these could be better than the relaxation:
            its value less this is a bound.
        """
        paid, weight = self._paid(prices), {goal: 1.0, **prices.earlier}
        added, beyond = 0, 0.0
        for pricing in self.pricing:
            more: dict[int, float] = {}
            for number, most, load in pricing.best(paid, MOST_AT_ONCE):
                gain = most - weight.get("servers", 0.0) - float(prices.servers[number])
                more[number] = max(more.get(number, 0.0), gain)
                if gain > EPSILON:
                    added += self.add_load(number, load)
            beyond += sum(gain * len(self.classes.servers[n].members) for n, gain in more.items())
        cuts = CutPricing(self.classes, prices.pieces, weight.get("migrations", 0.0))
        for c, job in enumerate(self.classes.jobs):
            check_time()
            if not job.loose or job.homes:
                new, gain = self._improve_cut(c, job, weight, prices, cuts)
                added, beyond = added + new, beyond + gain * len(job.members)
        return added, beyond

    def complete(self, goal: str, prices: Prices, slack: float) -> bool:
        """Add every column that a solution may use whose value is at most `slack` above the relaxation.

        Returns
        -------
        complete
            False if there are too many.
        """
        if not self.all_cuts:
            return False
        paid, weight = self._paid(prices), {goal: 1.0, **prices.earlier}
        least = weight.get("servers", 0.0) + prices.servers - slack - EPSILON
        for pricing in self.pricing:
            found = pricing.within(paid, least, MOST_LISTED)
            if found is None:
                return False
            for number, load in found:
                self.add_load(number, load)
        return True

    def _paid(self, prices: Prices) -> list[Floats]:
        """Return what each slot of each kind is paid."""
        paid = []
        for k, slots in enumerate(self.classes.slots):
            single = len(self.classes.pieces[k]) < len(slots)
            paid.append(slots[:, 0] * prices.pieces[k][0] if single else prices.pieces[k])
        for home, (base, rows) in self.classes.base.items():
            # What is paid no more than a piece of anybody's is not worth staying for.
            paid[home] = np.where(paid[home] > paid[base][rows] + EPSILON / 2, paid[home], 0.0)
        return paid

    def _improve_cut(
        self, c: int, job: JobClass, weight: dict[str, float], prices: Prices, cuts: CutPricing
    ) -> tuple[int, float]:
        by_servers = np.zeros(job.most)
        for name in BY_SERVERS:
            if weight.get(name):
                counts = [job.count(name, n) / self.steps[name] for n in range(1, job.most + 1)]
                by_servers += weight[name] * np.array(counts, dtype=float)
        if job.loose and any(not len(self.classes.pieces[part.kind]) for part in job.parts):
            return 0, 0.0
        worth = weight.get("value", 0.0) * float(job.value / self.steps["value"])
        below = float(prices.jobs[c]) + worth
        found = cuts.of_loose(job, below) if job.loose else cuts.best(job, by_servers, below)
        added = sum(self.add_cut(c, p.cut, p.stay) for p in found if p.cost < below - EPSILON)
        return added, max((below - priced.cost for priced in found), default=0.0)


def _parted(place: dict[tuple[int, ...], int]) -> list[tuple[int, int, int]]:
    """Return all ways to part a piece in two."""
    found = []
    for counts, i in place.items():
        check_time()
        for first, a in place.items():
            rest = tuple(c - f for c, f in zip(counts, first, strict=True))
            b = place.get(rest)
            if b is not None and a >= b:
                found.append((i, a, b))
    return found
