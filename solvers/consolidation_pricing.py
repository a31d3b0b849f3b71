"""Columns of the class model that would improve it at given prices: loads of servers, cuts of jobs.

Both are dynamic programmes. Loads go over every sum of demands that a server of the pool can hold, with the
place of "this sum without these tasks" looked up beforehand, so that all classes of a pool are priced at
once. Cuts go over the tasks of a job that are not yet in a piece.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..formulations.consolidation_classes import Classes, Ints, JobClass
from ..instances.errors import TooLargeError

Floats = NDArray[np.float64]
MOST_CELLS = 150_000_000
"""Cells of all tables together."""
MOST_CUTS = 400
"""Cuts of a job class that are listed from the start; more come as prices ask for them."""

MOST_STEPS = 50_000
"""Steps of the search for cuts of one job class."""

Load = tuple[tuple[int, int], ...]
"""For each kind on a server, the row of its tasks in the kind's slots."""
Cut = tuple[int, ...]
"""Rows of a job's pieces in its kind's pieces, largest first."""


class LoadPricing:
    """Finds for every class of servers in a pool the load that is paid most."""

    def __init__(self, classes: Classes, pool: str | None) -> None:
        self.classes = classes
        self.loads = classes.loads[pool]
        self.numbers = [n for n, server in enumerate(classes.servers) if server.pool == pool]
        self.kinds = [k for k in classes.kinds_of(pool) if len(classes.slots[k])]
        slots = sum(len(classes.slots[k]) for k in self.kinds)
        if len(self.loads) * (slots + len(self.numbers)) > MOST_CELLS:
            raise TooLargeError("there are too many different loads for exact classes")
        self.radix = self._radix()
        self.keys = self.loads @ self.radix
        self.order = np.argsort(self.keys)
        self.before = [[self._without(w) for w in classes.weights(k, classes.slots[k])] for k in self.kinds]
        free = np.array([classes.servers[n].free for n in self.numbers], dtype=np.int64)
        free = free.reshape(-1, self.loads.shape[1])
        self.holds = np.array([(self.loads <= limit).all(axis=1) for limit in free])

    def _radix(self) -> Ints:
        sizes = [int(most) + 1 for most in self.loads.max(axis=0)]
        if math.prod(sizes) > 2**62:
            raise TooLargeError("amounts are too large for exact classes")
        return np.array([math.prod(sizes[r + 1 :]) for r in range(len(sizes))], dtype=np.int64)

    def _without(self, weight: Ints) -> NDArray[np.int32]:
        """Return the place of each sum less a weight; that of a sum with nothing before it is -1."""
        enough = (self.loads >= weight).all(axis=1)
        wanted = self.keys - weight @ self.radix
        place = np.minimum(np.searchsorted(self.keys, wanted, sorter=self.order), len(self.keys) - 1)
        found = self.order[place]
        found[~(enough & (self.keys[found] == wanted))] = -1
        return found.astype(np.int32)

    def best(self, paid: Sequence[Floats]) -> list[tuple[int, float, Load]]:
        """Return for each class of servers its number, the most that is paid, and for which load.

        Parameters
        ----------
        paid
            For each kind of the instance what each of its slots is paid.
        """
        if not self.numbers:
            return []
        values, choices = self._values(paid)
        found = []
        for number, holds in zip(self.numbers, self.holds, strict=True):
            end = int(np.argmax(np.where(holds, values[-1], -np.inf)))
            found.append((number, float(values[-1][end]), self._trace(end, choices)))
        return found

    def _values(
        self, paid: Sequence[Floats], useless: bool = False
    ) -> tuple[list[Floats], list[NDArray[np.int32]]]:
        """Return the most that is paid for each sum of the first 0, 1, … kinds, and the last slot chosen."""
        values = [np.where((self.loads == 0).all(axis=1), 0.0, -np.inf)]
        choices = []
        for k, places in zip(self.kinds, self.before, strict=True):
            best, choice = values[-1].copy(), np.full(len(self.loads), -1, dtype=np.int32)
            for slot, place in enumerate(places):
                gain = paid[k][slot]
                if gain <= 0 and not useless:
                    continue
                candidate = np.where(place >= 0, values[-1][place] + gain, -np.inf)
                better = candidate > best + 1e-12
                best[better], choice[better] = candidate[better], slot
            values.append(best)
            choices.append(choice)
        return values, choices

    def within(self, paid: Sequence[Floats], least: Floats, most: int) -> list[tuple[int, Load]] | None:
        """Return every load that nothing can be added to and that is paid at least so much.

        Parameters
        ----------
        least
            For each class of servers of the instance.
        most
            Loads to look at; None is returned beyond.
        """
        values, _ = self._values(paid, useless=True)
        found: list[tuple[int, Load]] = []
        looked = 0
        for number, holds in zip(self.numbers, self.holds, strict=True):
            free = np.array(self.classes.servers[number].free)
            for end in np.flatnonzero(holds & (values[-1] >= least[number])).tolist():
                for load in self._paths(end, len(self.kinds), float(least[number]), paid, values):
                    looked += 1
                    if looked > most:
                        return None
                    if not self._extendable(load, free - self.loads[end]):
                        found.append((number, load))
        return found

    def _paths(
        self, place: int, stage: int, least: float, paid: Sequence[Floats], values: Sequence[Floats]
    ) -> Iterator[Load]:
        """Yield the loads of the first kinds that take one sum and are paid at least so much."""
        if stage == 0:
            yield ()
            return
        k = self.kinds[stage - 1]
        if values[stage - 1][place] >= least:
            yield from self._paths(place, stage - 1, least, paid, values)
        for slot, places in enumerate(self.before[stage - 1]):
            origin, rest = int(places[place]), least - float(paid[k][slot])
            if origin >= 0 and values[stage - 1][origin] >= rest:
                for load in self._paths(origin, stage - 1, rest, paid, values):
                    yield (*load, (k, slot))

    def _extendable(self, load: Load, free: Ints) -> bool:
        """Return whether a task could be added to a load."""
        counts = dict(load)
        for k in self.kinds:
            slots, demands = self.classes.slots[k], self.classes.kinds[k].demands
            now = slots[counts[k]] if k in counts else np.zeros(len(demands), dtype=np.int64)
            for g, demand in enumerate(demands):
                more = now.copy()
                more[g] += 1
                if (np.array(demand) <= free).all() and (slots == more).all(axis=1).any():
                    return True
        return False

    def _trace(self, end: int, choices: Sequence[NDArray[np.int32]]) -> Load:
        load = []
        for index in range(len(self.kinds) - 1, -1, -1):
            slot = int(choices[index][end])
            if slot >= 0:
                load.append((self.kinds[index], slot))
                end = int(self.before[index][slot][end])
        return tuple(reversed(load))


@dataclass(frozen=True)
class PricedCut:
    """A cut and what its pieces and its number of servers cost."""

    cut: Cut
    cost: float


def best_cut(job: JobClass, pieces: Ints, prices: Floats, by_servers: Floats) -> PricedCut | None:
    """Return the cut of a job that costs least, None if there is none.

    Parameters
    ----------
    pieces, prices
        Tasks by group of each piece of the job's kind, shape (P, G), and its price, shape (P,).
    by_servers
        What using 1, 2, … servers costs beside the pieces.
    """
    tasks = job.parts[0].tasks
    shape = tuple(count + 1 for count in tasks)
    left = np.full(shape, np.inf)
    left[(0,) * len(shape)] = 0.0
    fits = [(i, counts) for i, counts in enumerate(pieces.tolist()) if all(map(int.__le__, counts, tasks))]
    layers: list[NDArray[np.int32]] = []
    best: tuple[float, int] | None = None
    for cost in by_servers.tolist():
        more, chosen = np.full(shape, np.inf), np.full(shape, -1, dtype=np.int32)
        for i, counts in fits:
            to = tuple(slice(c, None) for c in counts)
            origin = tuple(slice(0, n - c) for c, n in zip(counts, shape, strict=True))
            candidate = left[origin] + prices[i]
            better = candidate < more[to]
            more[to] = np.where(better, candidate, more[to])
            chosen[to] = np.where(better, i, chosen[to])
        left = more
        layers.append(chosen)
        whole = float(left[tasks]) + cost
        if math.isfinite(whole) and (best is None or whole < best[0] - 1e-12):
            best = whole, len(layers)
    if best is None:
        return None
    cut, at = [], tasks
    for layer in reversed(layers[: best[1]]):
        i = int(layer[at])
        cut.append(i)
        at = tuple(a - c for a, c in zip(at, pieces[i].tolist(), strict=True))
    return PricedCut(tuple(sorted(cut, reverse=True)), best[0])


def listed_cuts(job: JobClass, pieces: Ints, whole: bool) -> tuple[list[Cut], bool]:
    """Return up to `MOST_CUTS` cuts of a job, with few pieces first, and whether these are all.

    Parameters
    ----------
    whole
        Leave out cuts two of whose pieces could be one.
    """
    lister = _Cuts(pieces, whole)
    every = (cut for servers in range(1, job.most + 1) for cut in lister.of(job.parts[0].tasks, servers))
    found = list(itertools.islice(every, MOST_CUTS + 1))
    if lister.steps > MOST_STEPS or len(found) > MOST_CUTS:
        return found[:MOST_CUTS], False
    return found, True


class _Cuts:
    """Lists the ways to write tasks as a sum of pieces in falling order."""

    def __init__(self, pieces: Ints, whole: bool) -> None:
        self.rows = [tuple(row) for row in pieces.tolist()]
        self.whole = set(self.rows) if whole else set()
        self.largest = max(map(sum, self.rows), default=0)
        self.steps = 0

    def of(self, tasks: tuple[int, ...], servers: int, chosen: Cut = ()) -> Iterator[Cut]:
        """Yield the cuts into so many more pieces; none once there were too many steps."""
        if servers == 0:
            if not any(tasks):
                yield chosen
            return
        if sum(tasks) > servers * self.largest:
            return
        top = chosen[-1] if chosen else len(self.rows) - 1
        for i in range(top, -1, -1):
            self.steps += 1
            if self.steps > MOST_STEPS:
                return
            if len(tasks) == 1 and self.rows[i][0] * servers < tasks[0]:
                return  # even if all were as large as this one
            rest = tuple(t - c for t, c in zip(tasks, self.rows[i], strict=True))
            if min(rest) >= 0 and not any(self._meet(i, j) for j in chosen):
                yield from self.of(rest, servers - 1, (*chosen, i))

    def _meet(self, i: int, j: int) -> bool:
        """Return whether two pieces could be one."""
        return (
            bool(self.whole) and tuple(map(sum, zip(self.rows[i], self.rows[j], strict=True))) in self.whole
        )
