"""Cuts of jobs that would improve the class model at given prices, and lists of cuts to begin with.

A dynamic programme over the tasks of a job that are in no piece yet; pieces at home, one for each server that
the job is on now, come first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...formulations.common.clock import check_time
from ...formulations.consolidation.classes import ClassTable, JobClass
from ...instances.common.arrays import Floats, Ints
from ...instances.common.errors import TooLargeError

MOST_CUTS = 400
"""Cuts of a job class that are listed from the start; more come as prices ask for them."""
MOST_AT_ONCE = 4
"""Cuts of a job class that are added for the same prices."""
MOST_STEPS = 50_000
"""Steps of the search for cuts of one job class."""
MOST_SELECTIONS = 5_000
"""Ways to keep a job at home that are looked at."""

Cut = tuple[int, ...]
"""Rows of a job's pieces in its kind's pieces, largest first; none for loose jobs."""
Stay = tuple[tuple[int, int], ...]
"""Pieces at home: number of the job's home, and row in the home kind's pieces."""


@dataclass(frozen=True)
class PricedCut:
    """A cut, the pieces at home that go with it, and what both and the number of servers cost."""

    cut: Cut
    stay: Stay
    cost: float


class CutPricing:
    """Finds the cut of a job class that costs least.

    Parameters
    ----------
    prices
        For each kind of each of its pieces.
    worth
        What it is worth that a task is not moved.
    """

    def __init__(self, classes: ClassTable, prices: Sequence[Floats], worth: float) -> None:
        self.classes, self.prices, self.worth = classes, prices, worth

    def of_loose(self, job: JobClass, below: float) -> list[PricedCut]:
        """Return which tasks of a loose job stay at home; the others are pieces of their own."""
        cost = sum(float(self.prices[part.kind][0]) * part.tasks[0] for part in job.parts)
        stay = []
        for number, home in enumerate(job.homes):
            single = float(self.prices[job.parts[home.part].kind][0])
            counts = self.classes.pieces[home.kind]
            if len(counts):
                more = (
                    self.prices[home.kind]
                    - counts[:, 0] * single
                    - self.worth * self._kept(home.kept, counts)
                )
                i = int(np.argmin(more))
                if more[i] < 0:
                    stay.append((number, i))
                    cost += float(more[i])
        return [PricedCut((), tuple(stay), cost)] if cost < below else []

    @staticmethod
    def _kept(kept: tuple[int, ...], counts: Ints) -> Ints:
        stays: Ints = np.minimum(counts, np.array(kept)).sum(axis=1)
        return stays

    def best(self, job: JobClass, by_servers: Floats, below: float) -> list[PricedCut]:
        """Return the cuts of another job that cost least and below a limit; they differ in who stays.

        Parameters
        ----------
        by_servers
            What using 1, 2, … servers costs beside the pieces.
        """
        pieces = self.classes.pieces[job.parts[0].kind]
        layers, chosen = self._layers(job, len(by_servers))
        found: list[tuple[float, Stay, int, tuple[int, ...]]] = []
        for (homes, held), (cost, stay) in self._at_home(job).items():
            rest = tuple(t - h for t, h in zip(job.parts[0].tasks, held, strict=True))
            for others in range(len(by_servers) - homes + 1):
                if homes + others > 0:
                    whole = cost + float(layers[others][rest]) + float(by_servers[homes + others - 1])
                    if whole < below:
                        found.append((whole, stay, others, rest))
        found.sort()
        return [
            PricedCut(_traced(chosen[:others], rest, pieces), stay, whole)
            for whole, stay, others, rest in found[:MOST_AT_ONCE]
        ]

    def _layers(self, job: JobClass, most: int) -> tuple[list[Floats], list[NDArray[np.int32]]]:
        """Return the least price of tasks in 0, 1, 2, … pieces, and the last piece of 1, 2, …."""
        part = job.parts[0]
        shape = tuple(count + 1 for count in part.tasks)
        none = np.full(shape, np.inf)
        none[(0,) * len(shape)] = 0.0
        layers, last = [none], []
        rows = self.classes.pieces[part.kind].tolist()
        fits = [(i, row) for i, row in enumerate(rows) if all(map(int.__le__, row, part.tasks))]
        for _ in range(most):
            check_time()
            more, chosen = np.full(shape, np.inf), np.full(shape, -1, dtype=np.int32)
            for i, counts in fits:
                to = tuple(slice(c, None) for c in counts)
                origin = tuple(slice(0, n - c) for c, n in zip(counts, shape, strict=True))
                candidate = layers[-1][origin] + self.prices[part.kind][i]
                better = candidate < more[to]
                more[to] = np.where(better, candidate, more[to])
                chosen[to] = np.where(better, i, chosen[to])
            layers.append(more)
            last.append(chosen)
        return layers, last

    def _at_home(self, job: JobClass) -> dict[tuple[int, tuple[int, ...]], tuple[float, Stay]]:
        """Return the least price of so many pieces at home that hold so many tasks, and the pieces."""
        tasks = job.parts[0].tasks
        found: dict[tuple[int, tuple[int, ...]], tuple[float, Stay]] = {(0, (0,) * len(tasks)): (0.0, ())}
        for number, home in enumerate(job.homes):
            counts = self.classes.pieces[home.kind]
            cost = self.prices[home.kind] - self.worth * self._kept(home.kept, counts)
            kind, rows = self.classes.base[home.kind]
            elsewhere = self.prices[kind][rows]
            options = [
                (i, counts[i].tolist(), float(cost[i])) for i in np.flatnonzero(cost < elsewhere).tolist()
            ]
            for (homes, held), (price, stay) in list(found.items()):
                check_time()
                for i, row, more in options:
                    together = tuple(h + c for h, c in zip(held, row, strict=True))
                    if all(map(int.__le__, together, tasks)):
                        key = homes + 1, together
                        if price + more < found.get(key, (math.inf, ()))[0]:
                            found[key] = price + more, (*stay, (number, i))
            if len(found) > MOST_SELECTIONS:
                raise TooLargeError("a job is on too many servers now for exact classes")
        return found


def _traced(chosen: Sequence[NDArray[np.int32]], tasks: tuple[int, ...], pieces: Ints) -> Cut:
    cut = []
    for layer in reversed(chosen):
        i = int(layer[tasks])
        cut.append(i)
        tasks = tuple(t - c for t, c in zip(tasks, pieces[i].tolist(), strict=True))
    return tuple(sorted(cut, reverse=True))


def first_cuts(job: JobClass, classes: ClassTable, whole: bool) -> tuple[list[tuple[Cut, Stay]], bool]:
    """Return cuts of a job to begin with, and whether no other is ever needed.

    Parameters
    ----------
    whole
        Leave out cuts two of whose pieces could be one.
    """
    check_time()
    if job.loose:
        every = len(job.homes) <= 1
        stays = [
            ((number, i),) for number, h in enumerate(job.homes) for i in range(len(classes.pieces[h.kind]))
        ]
        return [((), stay) for stay in [(), *stays]], every
    lister = _Cuts(classes.pieces[job.parts[0].kind], whole)
    found: list[tuple[Cut, Stay]] = []
    for stay, tasks in _stays(job, classes):
        most = job.most - len(stay)
        every_cut = (cut for servers in range(most + 1) for cut in lister.of(tasks, servers))
        found += [(cut, stay) for cut in itertools.islice(every_cut, MOST_CUTS + 1 - len(found))]
    complete = lister.steps <= MOST_STEPS and len(found) <= MOST_CUTS and len(job.homes) <= 1
    return found[:MOST_CUTS], complete


def _stays(job: JobClass, classes: ClassTable) -> Iterator[tuple[Stay, tuple[int, ...]]]:
    """Yield pieces at home, and the tasks that are left: all of them, then none, then one at a time."""
    tasks = job.parts[0].tasks
    rows = [classes.pieces[home.kind].tolist() for home in job.homes]
    everything = []
    for number, home in enumerate(job.homes):
        if list(home.kept) in rows[number]:
            everything.append((number, rows[number].index(list(home.kept))))
    if len(everything) > 1:
        held = [sum(rows[n][i][g] for n, i in everything) for g in range(len(tasks))]
        if len(everything) <= job.most:
            yield tuple(everything), tuple(t - h for t, h in zip(tasks, held, strict=True))
    yield (), tasks
    for number in range(len(job.homes)):
        for i, row in enumerate(rows[number]):
            if all(map(int.__le__, row, tasks)):
                yield ((number, i),), tuple(t - c for t, c in zip(tasks, row, strict=True))


class _Cuts:
    """Lists the ways to write tasks as a sum of pieces in falling order."""

    def __init__(self, pieces: Ints, whole: bool) -> None:
        self.rows = [tuple(row) for row in pieces.tolist()]
        self.whole = set(self.rows) if whole else set()
        self.largest = max(map(sum, self.rows), default=0)
        self.steps = 0

    def of(self, tasks: tuple[int, ...], servers: int) -> Iterator[Cut]:
        """Yield the cuts into so many pieces; none once there were too many steps.

        A job of thousands of tasks has cuts deeper than calls may be nested, so what is open is in a list.
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
            rest = tuple(t - c for t, c in zip(left[-1], self.rows[i], strict=True))
            if len(open_) == servers:
                if not any(rest):
                    yield (*chosen, i)
                continue
            chosen.append(i)
            left.append(rest)
            open_.append(self._next(rest, servers - len(chosen), i, chosen))

    def _next(self, tasks: tuple[int, ...], servers: int, top: int, chosen: Sequence[int]) -> Iterator[int]:
        """Yield the rows from `top` down that may be the next of so many pieces, beside the chosen ones."""
        if sum(tasks) > servers * self.largest:
            return
        for i in range(top, -1, -1):
            self.steps += 1
            if self.steps > MOST_STEPS:
                return
            if len(tasks) == 1 and self.rows[i][0] * servers < tasks[0]:
                return  # even if all were as large as this one
            fits = all(map(int.__le__, self.rows[i], tasks))
            if fits and not any(self._meet(i, j) for j in set(chosen)):
                yield i

    def _meet(self, i: int, j: int) -> bool:
        """Return whether two pieces could be one."""
        return (
            bool(self.whole) and tuple(map(sum, zip(self.rows[i], self.rows[j], strict=True))) in self.whole
        )
