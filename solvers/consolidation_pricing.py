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

MOST_LOOKED_AT = 5_000

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
        value = np.where((self.loads == 0).all(axis=1), 0.0, -np.inf)
        choices = []
        for k, places in zip(self.kinds, self.before, strict=True):
            best, choice = value.copy(), np.full(len(value), -1, dtype=np.int32)
            for slot, place in enumerate(places):
                gain = paid[k][slot]
                if gain <= 0:
                    continue
                candidate = np.where(place >= 0, value[place] + gain, -np.inf)
                better = candidate > best + 1e-12
                best[better], choice[better] = candidate[better], slot
            value = best
            choices.append(choice)
        found = []
        for number, holds in zip(self.numbers, self.holds, strict=True):
            end = int(np.argmax(np.where(holds, value, -np.inf)))
            found.append((number, float(value[end]), self._trace(end, choices)))
        return found

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


def listed_cuts(job: JobClass, pieces: Ints, whole: bool) -> list[Cut]:
    """Return up to `MOST_CUTS` cuts of a job, with few pieces first.

    Parameters
    ----------
    whole
        Leave out cuts two of whose pieces could be one.
    """
    tasks, rows = job.parts[0].tasks, pieces.tolist()
    known = {tuple(row) for row in rows}
    found: list[Cut] = []
    every = (cut for servers in range(1, job.most + 1) for cut in _cuts(tasks, rows, len(rows) - 1, servers))
    for cut in itertools.islice(every, MOST_LOOKED_AT):
        pairs = itertools.combinations(cut, 2) if whole else ()
        if not any(tuple(map(sum, zip(rows[a], rows[b], strict=True))) in known for a, b in pairs):
            found.append(cut)
            if len(found) >= MOST_CUTS:
                break
    return found


def _cuts(tasks: tuple[int, ...], rows: list[list[int]], top: int, servers: int) -> Iterator[Cut]:
    """Yield the ways to write tasks as a sum of so many pieces in falling order."""
    if servers == 1:
        for i in range(top, -1, -1):
            if tuple(rows[i]) == tasks:
                yield (i,)
        return
    for i in range(top, -1, -1):
        if len(tasks) == 1 and rows[i][0] * servers < tasks[0]:
            break  # even if all were as large as this one
        rest = tuple(t - c for t, c in zip(tasks, rows[i], strict=True))
        if all(r >= 0 for r in rest):
            for tail in _cuts(rest, rows, i, servers - 1):
                yield (i, *tail)
