"""From real numbers of tasks to a plan: round down, repair what is late or does not fit, use what is left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....formulations.allocation.formulation import AllocationFormulation
from ....formulations.allocation.plan import JobAllocation
from ....instances.common.arrays import Floats, Ints
from ....instances.common.speed import SpeedTable
from ...common.base import Clock
from .geometric_program import GeometricProgram, Relaxed

STEPS = np.array([(1, 0), (0, 1), (1, 1), (-1, 1), (1, -1), (-1, 0), (0, -1), (-1, -1)])
"""Changes of (parameter servers, workers) that are tried."""


@dataclass(frozen=True)
class RoundingSettings:
    """Constants of the rounding.

    Attributes
    ----------
    integer_tolerance
        A number of tasks this close below an integer is that integer.
    unpriced_weight
        Weight of the share of a resource without a price beside those with one, so that it is not wasted.
    least_toll
        A step that takes nothing counts with this toll.
    least_saving
        Relative; a step must save more than rounding.
    """

    integer_tolerance: float = 1e-6
    unpriced_weight: float = 1e-3
    least_toll: float = 1e-12
    least_saving: float = 1e-12


SETTINGS = RoundingSettings()


class Rounding:
    """A plan in the making.

    Attributes
    ----------
    tasks
        Shape (J, 2): parameter servers and workers.
    used
        What they take of each resource, shape (R,).
    toll
        Shape (R,): weight of a share of each resource.
    """

    def __init__(
        self, formulation: AllocationFormulation, program: GeometricProgram, relaxed: Relaxed
    ) -> None:
        self.formulation, self.program = formulation, program
        self.low, self.high = program.low.T, program.high.T
        self.tasks = np.clip(
            np.floor(relaxed.tasks.T + SETTINGS.integer_tolerance).astype(np.int64), self.low, self.high
        )
        self.demand = program.demand.transpose(1, 0, 2)
        self.limit = formulation.configurations.limit
        self.share = 1 / np.where(self.limit > 0, self.limit, np.inf)
        worth = self.limit * (0.0 if relaxed.prices is None else relaxed.prices)
        self.toll = worth / (worth.sum() or 1.0) + SETTINGS.unpriced_weight
        self.need = np.einsum("sk,jkr->jsr", STEPS, self.demand)
        self.step_toll = (self.need * self.share) @ self.toll
        self.weight = np.ones(len(self.tasks)) if program.makespan else program.weight
        self.cost = np.array([self._cost(j, task[None])[0] for j, task in enumerate(self.tasks)])

    def plan(self, clock: Clock) -> tuple[JobAllocation, ...]:
        """Return the plan that is found in time; it may break constraints where the repair failed."""
        for j in np.flatnonzero(np.isinf(self.cost)):
            self._hasten(int(j))
        self.used = np.einsum("jk,jkr->r", self.tasks, self.demand)
        if not clock.expired:
            self.extra = np.array([self._extra(j) for j in range(len(self.tasks))])
            self._shrink(clock)
            (self._level if self.program.makespan else self._fill)(clock)
        return tuple(
            JobAllocation(job=job.name, variant=job.variants[0].name, ps=int(ps), workers=int(workers))
            for job, (ps, workers) in zip(self.program.jobs, self.tasks.tolist(), strict=True)
        )

    def _cost(self, j: int, tasks: Ints) -> Floats:
        """Return ω·t (t for the makespan) of tasks with shape (n, 2); infinite if not allowed."""
        job = self.program.jobs[j]
        speed = job.variants[0].speed
        assert not isinstance(speed, SpeedTable)
        allowed = (tasks >= self.low[j]).all(axis=1) & (tasks <= self.high[j]).all(axis=1)
        ps, workers = np.maximum(tasks, self.low[j]).T
        time = job.remaining_steps * np.broadcast_to(speed.step_time_s(ps, workers), ps.shape) + job.restart_s
        return np.where(allowed & (time <= self.program.latest_s[j]), self.weight[j] * time, np.inf)

    def _hasten(self, j: int) -> None:
        """Give a job that would be late the configuration of least toll that keeps its deadline."""
        configs = self.formulation.configurations
        own = configs.of(j)
        toll = (configs.demand[own.start : own.stop] * self.share) @ self.toll
        k = own[int(np.argmin(toll))]
        self.tasks[j] = configs.ps[k], configs.workers[k]
        self.cost[j] = self._cost(j, self.tasks[j][None])[0]

    def _take(self, j: int, step: int) -> None:
        """Change a job by one step."""
        self.tasks[j] += STEPS[step]
        self.used = self.used + self.need[j, step]
        self.cost[j] += self.extra[j, step]
        self.extra[j] = self._extra(j)

    def _extra(self, j: int) -> Floats:
        """Return what each step adds to the cost of a job."""
        after: Floats = self._cost(j, self.tasks[j] + STEPS)
        return after - float(self.cost[j])

    def _gain(self, j: int | slice) -> Floats:
        """Return the saving of each step per toll, 0 without one; steps that take nothing have the most."""
        extra, toll = self.extra[j], self.step_toll[j]
        saves = extra < -SETTINGS.least_saving * np.abs(self.cost[j, ..., None])
        return np.where(saves, -extra / np.maximum(toll, SETTINGS.least_toll), 0.0)

    def _shrink(self, clock: Clock) -> None:
        """While a resource is overfull, remove the tasks that cost least per share of it that they free."""
        fewer = (STEPS <= 0).all(axis=1)
        while (over := self.used > self.limit).any() and not clock.expired:
            relief = -(self.need[:, :, over] * self.share[over]).sum(axis=2)
            price = np.where(fewer & (relief > 0), self.extra / np.where(relief > 0, relief, 1.0), np.inf)
            j, step = divmod(int(np.argmin(price)), len(STEPS))
            if np.isinf(price[j, step]):
                return
            self._take(j, step)

    def _fill(self, clock: Clock) -> None:
        """Take the step of the largest gain, until none that fits saves anything."""
        everyone = slice(None)
        gain, taken = self._gain(everyone), False
        while not clock.expired:
            j, step = divmod(int(np.argmax(gain)), len(STEPS))
            if gain[j, step] <= 0:
                if not taken:
                    return
                gain, taken = self._gain(everyone), False  # a step may have freed capacity for misfits
            elif (self.used + self.need[j, step] <= self.limit).all():
                self._take(j, step)
                gain[j], taken = self._gain(j), True
            else:
                gain[j, step] = 0.0

    def _level(self, clock: Clock) -> None:
        """Take the best step of the job that ends last, until none that fits makes it faster."""
        while not clock.expired:
            j = int(np.argmax(self.cost))
            fits = (self.used + self.need[j] <= self.limit).all(axis=1)
            gain = np.where(fits, self._gain(j), 0.0)
            step = int(np.argmax(gain))
            if gain[step] <= 0:
                return
            self._take(j, step)
