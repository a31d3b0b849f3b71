"""The Lagrangian dual function of a trace on a grid of times: its value, and a supergradient.

    L(λ) = Σ_j min over schedules of j alone of ω_j (C_j − r_j) + ∫ λ·a_j dt − Σ_r ∫ C_r λ_r dt

The supergradient is what the cheapest schedules use of each resource in each cell, less what there is.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ....formulations.common.compiled import is_ready
from ....formulations.scheduling.constraints import runs_at_once
from ....instances.common.arrays import Floats
from ....instances.scheduling.instance import SchedulingInstance
from . import malleable, rigid

MOST_THREADS = 2
"""More bring little: an evaluation takes hundredths of a second."""
JOBS_OF_A_THREAD = 500
"""For fewer a thread is not worth starting."""


@dataclass(frozen=True)
class Evaluation:
    """The dual function at some prices.

    Attributes
    ----------
    value
        L(λ) over Σ ω_j, a bound on the mean completion time [s] in plain floating point.
    excess
        Use less capacity, unit-seconds, shape (G − 1, R): a supergradient of L.
    ends_s
        C_j of the cheapest schedules, shape (J,).
    """

    value: float
    excess: Floats
    ends_s: Floats


class TimeDual:
    """The dual function of one trace on one grid.

    Parameters
    ----------
    edges_s
        Rising, the first no later than the first arrival; after the last one everything is free.
    """

    def __init__(self, instance: SchedulingInstance, edges_s: Floats, threads: int | None = None) -> None:
        self.instance, self.edges_s = instance, edges_s
        self.length_s = np.diff(edges_s)
        table, menus = instance.table(), instance.menus()
        self.weight = np.asarray(table.weight / table.weight.max())
        self.total_weight = float(self.weight.sum())
        self.arrival_s = table.arrival_s
        self._menus, self._at_once = menus, runs_at_once(instance)
        self._order = np.lexsort((menus.speed, menus.owner))
        self._threads = min(threads or MOST_THREADS, MOST_THREADS, os.cpu_count() or 1)

    @cached_property
    def capacity(self) -> Floats:
        """Unit-seconds of each resource in each cell, shape (G − 1, R)."""
        times, amounts = self.instance.capacity_over_time
        since = np.append(np.diff(times), 0.0)[:, None] * amounts
        before = np.concatenate([np.zeros((1, amounts.shape[1])), np.cumsum(since, axis=0)])
        at = np.maximum(np.searchsorted(times, self.edges_s, side="right") - 1, 0)
        until = before[at] + (self.edges_s - times[at])[:, None] * amounts[at]
        return np.asarray(np.maximum(np.diff(until, axis=0), 0.0))

    def evaluate(self, price: Floats) -> Evaluation:
        """Return the dual function at prices of shape (G − 1, R).

        Raises
        ------
        OutOfTimeError
            If its loops are not compiled in the time of the enforced clock.
        """
        full = np.vstack([price, np.zeros((1, price.shape[1]))])
        menus = self._menus
        if menus.malleable and not self._at_once:
            rows = (menus.first, menus.usage[self._order], menus.speed[self._order])
            found, used = self._run(malleable.interrupted, full, menus.work, *rows)
        elif menus.malleable:
            found, used = self._best_windows(full)
        else:
            loop = rigid.at_once if self._at_once else rigid.interrupted
            found, used = self._run(loop, full, menus.work, menus.usage)
        value = (float(found[0].sum()) - float((price * self.capacity).sum())) / self.total_weight
        return Evaluation(value, used[:-1] - self.capacity, self.arrival_s + found[1])

    def _run(
        self, loop: Callable[..., Any], price: Floats, work: Floats, *jobs: Any
    ) -> tuple[Floats, Floats]:
        """Return costs and lengths of the jobs, shape (2, J), and what they use, shape (G, R)."""
        return self._in_threads(loop, price, (self.arrival_s, work, self.weight, *jobs))

    def _in_threads(
        self, loop: Callable[..., Any], price: Floats, columns: tuple[Any, ...]
    ) -> tuple[Floats, Floats]:
        threads = max(1, min(self._threads, len(columns[0]) // JOBS_OF_A_THREAD))
        found = np.zeros((2, len(columns[0])))
        used = [np.zeros_like(price) for _ in range(threads)]
        given = [(self.edges_s, price, *columns, k, threads, used[k], found) for k in range(threads)]
        # What has to be compiled first is so in this thread, which knows the clock; sums are the same.
        if threads == 1 or not is_ready(loop):
            for arguments in given:
                loop(*arguments)
        else:
            with ThreadPoolExecutor(threads) as pool:
                for done in [pool.submit(loop, *arguments) for arguments in given]:
                    done.result()
        return found, np.asarray(sum(used))

    def _best_windows(self, price: Floats) -> tuple[Floats, Floats]:
        """Return the same of malleable jobs that keep one configuration: the best of their windows."""
        menus = self._menus
        rows = menus.owner
        length = menus.work[rows] / menus.speed
        columns = (self.arrival_s[rows], length, self.weight[rows], menus.usage)
        found, _ = self._in_threads(rigid.at_once, price, columns)
        order = np.lexsort((found[0], rows))
        best = order[menus.first[:-1]]
        chosen = tuple(column[best] for column in columns)
        return self._in_threads(rigid.at_once, price, chosen)
