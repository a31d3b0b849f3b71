"""Marginal gain, the heuristic of Optimus (EuroSys'18, section 4.2), on a heap."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ..formulations.allocation import AllocationFormulation
from ..formulations.allocation_menu import BUDGET, UNPLACED, task_demands
from ..formulations.base import TOLERANCE, Formulation
from ..instances.speed import SpeedTable
from .base import Clock, MethodOption, Outcome, Solver
from .options import SolveOptions

EARLY = 0.95
"""Gains of jobs that have only just begun are trusted this much: their speed is a first fit."""


class MarginalGain(Solver):
    """Give one task at a time to the job that gains most per unit of the task's dominant resource.

    Every job starts at its smallest configuration of its fastest fitting variant; optional jobs that do
    not fit are left out. A parameter server wins ties; a table steps to its next listed configuration.
    """

    name = "marginal-gain"
    kinds = ("allocation",)
    what = "the paper's heuristic: one task at a time where it helps most (Optimus)"
    method_options: ClassVar[Mapping[str, MethodOption]] = {
        "stop_at_first_misfit": MethodOption(
            False, "stop as soon as the best task does not fit, as the released code"
        )
    }

    def solve(self, formulation: Formulation[Any, Any], options: SolveOptions, clock: Clock) -> Outcome:
        """Start every job, then give tasks until nothing fits or gains."""
        assert isinstance(formulation, AllocationFormulation)
        state = _State(formulation)
        stuck = state.start()
        if stuck is not None:
            return Outcome(message=f"marginal gain: job {stuck!r} does not fit beside the jobs before it")
        stop_early = self.setting(options, "stop_at_first_misfit")
        heap: list[tuple[float, int, int, int]] = []
        for job in range(len(state.chosen)):
            state.push(heap, job)
        while heap:
            if clock.expired:
                return Outcome(formulation.plan_of(state.chosen), limit="time")
            _, job, _, row = heapq.heappop(heap)
            if row in state.offers[job]:
                if state.fits(job, row):
                    state.take(job, row)
                    state.push(heap, job)
                elif stop_early:
                    break
        return Outcome(formulation.plan_of(state.chosen))


class _State:
    """What every job has, what is used, and what one more task would bring."""

    def __init__(self, formulation: AllocationFormulation) -> None:
        self.f, self.menu = formulation, formulation.menu
        menu = self.menu
        self.limit = menu.capacity + TOLERANCE * np.maximum(menu.capacity, 1e-9)
        self.used = np.zeros(len(menu.rows))
        self.chosen: list[int] = []
        self.offers: list[set[int]] = [set() for _ in formulation.instance.jobs]
        self.real = np.array([name != BUDGET for name in menu.rows])
        keys = zip(
            menu.owner.tolist(), menu.variant.tolist(), menu.ps.tolist(), menu.workers.tolist(), strict=True
        )
        self.row = {key: k for k, key in enumerate(keys)}

    def _share(self, demand: Any) -> Any:
        """Return the dominant share of a demand: the largest demand/capacity over real resources."""
        capacity = np.where(self.menu.capacity > 0, self.menu.capacity, np.inf)
        return np.where(self.real, demand / capacity, 0.0).max(axis=-1)

    def start(self) -> str | None:
        """Give every job its first configuration; return the name of a job that gets none."""
        menu = self.menu
        for j, job in enumerate(self.f.instance.jobs):
            rows = np.array(menu.of(j))
            tasks = rows[menu.variant[rows] != UNPLACED]
            smallest = [
                min(of_variant, key=lambda k: (menu.ps[k] + menu.workers[k], self._share(menu.demand[k])))
                for v in sorted(set(menu.variant[tasks].tolist()))
                if len(of_variant := tasks[menu.variant[tasks] == v])
            ]
            fitting = [k for k in smallest if (self.used + menu.demand[k] <= self.limit).all()]
            if fitting:
                pick = min(fitting, key=lambda k: menu.time_s[k])
            elif job.optional:
                pick = self.row[j, UNPLACED, 0, 0]
            else:
                return job.name
            self.chosen.append(int(pick))
            self.used = self.used + menu.demand[pick]
        return None

    def push(self, heap: list[tuple[float, int, int, int]], j: int) -> None:
        """Offer the job's next parameter server and worker, or its table's next configuration."""
        self.offers[j].clear()
        k = self.chosen[j]
        menu, job, v = self.menu, self.f.instance.jobs[j], int(self.menu.variant[k])
        if v == UNPLACED:
            return
        variant, p, w = job.variants[v], int(menu.ps[k]), int(menu.workers[k])
        if isinstance(variant.speed, SpeedTable):
            after = k + 1
            steps = [(after, menu.demand[after] - menu.demand[k])] if self._same(after, j, v) else []
        else:
            ps_row, worker_row = task_demands(self.f.instance, variant)
            wanted = [((j, v, p + 1, w), ps_row), ((j, v, p, w + 1), worker_row)]
            steps = [(self.row[key], row) for key, row in wanted if key in self.row]
        weight = 1.0 if self.f.instance.objective == "makespan" else job.weight
        trust = EARLY if job.stage == "beginning" else 1.0
        for order, (row, demand) in enumerate(steps):
            drop = trust * weight * float(menu.time_s[k] - menu.time_s[row])
            if drop > 0:
                dominant = int(
                    np.argmax(np.where(self.real, demand / np.maximum(menu.capacity, 1e-300), -1.0))
                )
                amount = float(demand[dominant])
                gain = drop / amount if amount > 0 else np.inf
                self.offers[j].add(row)
                heapq.heappush(heap, (-gain, j, order, row))

    def _same(self, row: int, j: int, v: int) -> bool:
        return bool(row < self.menu.start[j + 1] and self.menu.variant[row] == v)

    def fits(self, j: int, row: int) -> bool:
        """Return whether the job could move to this row of the menu."""
        after = self.used - self.menu.demand[self.chosen[j]] + self.menu.demand[row]
        return bool((after <= self.limit).all())

    def take(self, j: int, row: int) -> None:
        """Move the job to this row of the menu."""
        self.used = self.used - self.menu.demand[self.chosen[j]] + self.menu.demand[row]
        self.chosen[j] = row
