"""The pricing problem of servers: a multi-dimensional bounded knapsack for each class of servers.

A dynamic programme over every sum of demands that a server of the pool can hold (Gilmore & Gomory 1966). The
place of "this sum without these tasks" is looked up beforehand, so that all classes of a pool are priced at
once. Residents that stay are tried one after the other, and what they leave is looked up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ....formulations.common.clock import check_time
from ....formulations.consolidation.classes import ClassTable
from ....instances.common.arrays import Floats, Ints
from ....instances.common.errors import TooLargeError
from ..progress import SETTINGS

ServerPattern = tuple[tuple[int, int], ...]
"""For each shape on a server, the row of its tasks in the shape's slots; residents that stay come first."""


class ServerPricing:
    """Solves the pricing problem of every class of servers in a pool."""

    def __init__(self, classes: ClassTable, pool: str | None) -> None:
        self.classes = classes
        usages = classes.usages[pool]
        if usages is None:
            raise TooLargeError("there are too many different loads for exact classes")
        self.usages = usages
        self.numbers = [n for n, server in enumerate(classes.servers) if server.pool == pool]
        self.task_shapes = [k for k in classes.shapes_of(pool) if len(classes.slots[k])]
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
        self.before = [
            [self._without(w) for w in classes.weights(k, classes.slots[k])] for k in self.task_shapes
        ]
        free = np.array([classes.servers[n].free for n in self.numbers], dtype=np.int64)
        free = free.reshape(-1, self.usages.shape[1])
        self.holds = np.array([(self.usages <= limit).all(axis=1) for limit in free])

    def _without(self, weight: Ints) -> NDArray[np.int32]:
        """Return the index of each sum less a weight; -1 where that is no sum."""
        check_time()
        enough = (self.usages >= weight).all(axis=1)
        wanted = self.keys - weight @ self.radix
        place = np.minimum(np.searchsorted(self.keys, wanted, sorter=self.order), len(self.keys) - 1)
        found = self.order[place]
        # Without the first test a borrow between resources might hit another sum's number.
        found[~(enough & (self.keys[found] == wanted))] = -1
        return found.astype(np.int32)

    def best(
        self, paid: Sequence[Floats], most: int = 1, search: bool = True
    ) -> list[tuple[int, float, ServerPattern]]:
        """Return the best patterns of each class of servers: number of the class, value, pattern.

        Parameters
        ----------
        paid
            For each shape of the instance what each of its slots is paid.
        most
            Patterns for each class; they differ in who stays.
        search
            Of no account, for the table leaves nothing to be searched.
        """
        del search
        if not self.numbers:
            return []
        values, choices = self._values(paid)
        found = []
        for number, holds in zip(self.numbers, self.holds, strict=True):
            ends: list[tuple[float, ServerPattern, int]] = []
            for free, (gain, stay) in stays_of(self.classes, number, paid).items():
                fits = np.asarray((self.usages <= np.array(free)).all(axis=1)) if stay else holds
                place = self._best_place(values[-1], fits)
                ends.append((gain + float(values[-1][place]), stay, place))
            ends.sort(reverse=True)
            found += [
                (number, total, (*stay, *self._trace(end, choices))) for total, stay, end in ends[:most]
            ]
        return found

    def alone(self, k: int) -> list[tuple[int, ServerPattern]]:
        """Return for each class of servers as many tasks of one shape as it holds."""
        paid = [np.zeros(len(slots)) for slots in self.classes.slots]
        paid[k] = self.classes.slots[k].sum(axis=1).astype(float)
        return [(number, pattern) for number, _, pattern in self.best(paid)]

    @staticmethod
    def _best_place(values: Floats, holds: NDArray[np.bool_]) -> int:
        return int(np.argmax(np.where(holds, values, -np.inf)))

    def _values(
        self, paid: Sequence[Floats], useless: bool = False
    ) -> tuple[list[Floats], list[NDArray[np.int32]]]:
        """Return the best value of each sum of the first 0, 1, … shapes, and the last slot chosen."""
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
        """Return every pattern that nothing can be added to and that is paid at least so much.

        Parameters
        ----------
        least
            For each class of servers of the instance.
        most
            Patterns to look at; None is returned beyond, for too many shapes, and where tasks are resident.
        """
        residents = any(self.classes.servers[number].residents for number in self.numbers)
        if residents or len(self.task_shapes) > SETTINGS.most_shapes_enumerated:
            return None
        values, _ = self._values(paid, useless=True)
        found: list[tuple[int, ServerPattern]] = []
        looked = 0
        for number, holds in zip(self.numbers, self.holds, strict=True):
            check_time()
            free = np.array(self.classes.servers[number].free)
            for end in np.flatnonzero(holds & (values[-1] >= least[number])).tolist():
                for pattern in self._paths(end, len(self.task_shapes), float(least[number]), paid, values):
                    looked += 1
                    if looked > most:
                        return None
                    # A full pattern stands for all that hold less: supply may exceed demand.
                    if not self._extendable(pattern, free - self.usages[end]):
                        found.append((number, pattern))
        return found

    def _paths(
        self, place: int, stage: int, least: float, paid: Sequence[Floats], values: Sequence[Floats]
    ) -> Iterator[ServerPattern]:
        """Yield the patterns of the first shapes that take one sum and are paid at least so much."""
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
        """Return whether a task could be added to a pattern."""
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

    def _trace(self, end: int, choices: Sequence[NDArray[np.int32]]) -> ServerPattern:
        pattern = []
        for index in range(len(self.task_shapes) - 1, -1, -1):
            slot = int(choices[index][end])
            if slot >= 0:
                pattern.append((self.task_shapes[index], slot))
                end = int(self.before[index][slot][end])
        return tuple(reversed(pattern))


def stays_of(
    classes: ClassTable, number: int, paid: Sequence[Floats]
) -> dict[tuple[int, ...], tuple[float, ServerPattern]]:
    """Return, by residual capacity, the value and the pattern of residents of a class that stay.

    Raises
    ------
    TooLargeError
        If there are too many ways to keep them.
    """
    server = classes.servers[number]
    found: dict[tuple[int, ...], tuple[float, ServerPattern]] = {server.free: (0.0, ())}
    for k in server.residents:
        check_time()
        useful = np.flatnonzero(paid[k] > 0).tolist()
        if not useful:
            continue
        weights = classes.weights(k, classes.slots[k]).tolist()
        for free, (gain, pattern) in list(found.items()):
            for slot in useful:
                rest = tuple(f - w for f, w in zip(free, weights[slot], strict=True))
                total = gain + float(paid[k][slot])
                if min(rest) >= 0 and total > found.get(rest, (-1.0, ()))[0]:
                    found[rest] = total, (*pattern, (k, slot))
        if len(found) > SETTINGS.most_stay_selections:
            raise TooLargeError("a server has too many residents for exact classes")
    return found
