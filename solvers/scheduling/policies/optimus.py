"""Optimus: at every interval jobs get their least configurations, which are enlarged by marginal gains.

Peng et al., Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters, EuroSys'18, section
4.1. The gain of a step from one configuration to a larger one is the drop of the remaining time if the job
kept it, over what the step adds to the dominant share of the cluster. The next larger configurations are
those that take no less of anything, and between which and the present one there is no other.

Jobs that get no configuration wait; the paper's cluster has room for one of each.

The paper adds up the remaining times, each as if its job kept its configuration. Saving a second then counts
the same for all jobs, and most seconds can be saved where jobs are longest. With `aim` speeds the policy adds
up ω v_k / (v τ^power) instead, where v is the speed of the least configuration and τ the remaining time in
it: jobs that will end soon count for more.

In the variant `OptimusExact` the admitted jobs get the configurations that minimise the objective, such as
the weighted sum of remaining times if each job kept its configuration: an instance of allocation, solved to
proven optimality by the exact solver of that kind, which the registry knows. Admission is that of Optimus,
so that the two policies differ in nothing but the allocation.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Literal

import numpy as np

from ....formulations.registry import formulate
from ....instances.common.arrays import Flags, Floats, Ints
from ....instances.common.fields import Fields
from ....instances.registry import KINDS as INSTANCES
from ...common.base import Clock
from ...common.result import SolveOptions
from ...registry import KINDS as SOLVERS
from ..view import Knowledge, View
from .contract import SLACK, Policy, admit, in_order

Admission = Literal["arrival", "shortest"]
Aim = Literal["times", "speeds"]
LEAST_TIME_S = 1e-9
"""Least remaining time that counts."""


class Optimus(Policy):
    """Optimus: admits jobs in their smallest configurations, then enlarges them by marginal gain.

    Parameters
    ----------
    round_s
        Length of an interval in seconds.
    admission
        Order of admission where not all least configurations fit: by arrival, or by remaining time × dominant
        share in that configuration.
    reacts
        Whether it also decides at arrivals and completions.
    aim, power
        Whether the sum of remaining times is minimised, or that of speeds over a power of them maximised.
    """

    knows = Knowledge.PROGRESS
    preempts = True

    def __init__(
        self,
        round_s: float,
        admission: Admission = "arrival",
        reacts: bool = False,
        aim: Aim = "times",
        power: float = 0.25,
    ) -> None:
        self.round_s, self._admission, self.reacts = round_s, admission, reacts
        self._aim, self._power = aim, power

    def begin(self, view: View) -> None:
        """Initialise the policy without cached smallest and larger configurations."""
        super().begin(view)
        self._larger: dict[int, Ints] = {}
        self._least: Ints = np.full(len(view.row), -1)
        self._least_of: Floats = view.capacity.copy()

    def choose(self, view: View) -> Ints:
        """Return the configurations of the jobs that are served, in the order of admission."""
        return in_order(*self.assign(view.jobs, view.free))

    def assign(self, jobs: Ints, free: Floats) -> tuple[Ints, Ints]:
        """Return each job's configuration after the enlargements by marginal gain, −1 for no service.

        The second array is the order of admission.
        """
        rows = self.least(jobs)
        order = self.order(jobs, rows)
        served = np.sort(order[admit(self.view.usage[rows[order]], free, self.view.capacity)])
        chosen = np.full(len(jobs), -1)
        left = free - self.view.usage[rows[served]].sum(axis=0)
        chosen[served] = self.enlarged(jobs[served], rows[served], left)
        return chosen, order

    def least(self, jobs: Ints) -> Ints:
        """Return the configuration of each job with the least dominant share; of several, the fastest."""
        view = self.view
        if not np.array_equal(view.capacity, self._least_of):
            # Shares are relative to the current capacity.
            self._least_of = view.capacity.copy()
            self._least[:] = -1
        for j in jobs[self._least[jobs] < 0].tolist():
            own = view.rows_of(j)
            self._least[j] = own[np.lexsort((-view.speed[own], view.shares(view.usage[own])))[0]]
        return self._least[jobs]

    def order(self, jobs: Ints, rows: Ints) -> Ints:
        """Return the order in which jobs are admitted in their smallest configuration, as indices."""
        if self._admission == "arrival":
            return np.arange(len(jobs))
        view = self.view
        service = view.left[jobs] / view.speed[rows] * view.shares(view.usage[rows])
        return np.argsort(service, kind="stable")

    def enlarged(self, jobs: Ints, rows: Ints, free: Floats) -> Ints:
        """Return the configurations after enlarging them greedily, largest marginal gain per share first."""
        view, chosen = self.view, rows.copy()
        limit = SLACK * view.capacity
        choosers = np.flatnonzero(view.first[jobs + 1] - view.first[jobs] > 1)
        heap = [step for k in choosers.tolist() for step in self._steps(k, int(jobs[k]), int(rows[k]))]
        heapq.heapify(heap)
        while heap:
            _, k, now, then = heapq.heappop(heap)
            if chosen[k] != now:
                continue
            added = view.usage[then] - view.usage[now]
            if (added > free + limit).any():
                continue
            free = free - added
            chosen[k] = then
            for step in self._steps(k, int(jobs[k]), then):
                heapq.heappush(heap, step)
        return chosen

    def _steps(self, k: int, j: int, row: int) -> list[tuple[float, int, int, int]]:
        """Return a job's enlargements of positive marginal gain: −gain, job, configuration, larger one."""
        view = self.view
        larger = self._larger_than(j, row)
        both = np.append(larger, row)
        cost, share = self.costs(j, both), view.shares(view.usage[both])
        saved = view.weight[j] * (cost[-1] - cost[:-1])
        added = share[:-1] - share[-1]
        gains = saved / np.maximum(added, SLACK)
        return [
            (-gain, k, row, then)
            for gain, then in zip(gains.tolist(), larger.tolist(), strict=True)
            if gain > 0
        ]

    def costs(self, j: int, rows: Ints) -> Floats:
        """Return the cost of each configuration of a job: remaining seconds, or loss of scaled speed.

        Costs are at least 0, and without the weight of the job.
        """
        view = self.view
        speed = view.speed[rows]
        if self._aim == "times":
            return np.asarray(view.left[j] / speed)
        least = view.speed[self.least(np.array([j]))[0]]
        left_s = max(float(view.left[j] / least), LEAST_TIME_S)
        best = view.speed[view.rows_of(j)].max()
        return np.asarray((best - speed) / least / left_s**self._power)

    def _larger_than(self, j: int, row: int) -> Ints:
        """Return the successors of a configuration of a job in the partial order of resource usage."""
        if row not in self._larger:
            own, usage = self.view.rows_of(j), self.view.usage
            above = (usage[own] >= usage[row]).all(axis=1) & (usage[own] > usage[row]).any(axis=1)
            candidates = own[above]
            candidates = candidates[np.argsort(usage[candidates].sum(axis=1), kind="stable")]
            below = _no_larger(usage[candidates])
            self._larger[row] = candidates[~(below & ~below.T).any(axis=0)]
        return self._larger[row]


def _no_larger(usage: Floats) -> Flags:
    """Return flags (k, k) of the pairs of usages, (k, R), of which the first takes no more of anything."""
    return np.asarray((usage[:, None] <= usage).all(axis=2))


PROVEN_GAP = 1e-6
"""Relative gap up to which an allocation counts as proven optimal."""
VARIANT = "row"


class OptimusExact(Optimus):
    """Admits the same jobs as Optimus; their configurations solve an allocation problem to optimality.

    The parameters are those of `Optimus`.
    """

    def begin(self, view: View) -> None:
        """Initialise the policy before the first allocation."""
        super().begin(view)
        self._intervals = self._proven = 0

    def enlarged(self, jobs: Ints, rows: Ints, free: Floats) -> Ints:
        """Return each admitted job's configuration in an optimal allocation of the free resources."""
        view = self.view
        if not len(jobs):
            return rows
        # The least configurations may take more than is free, by the tolerance.
        available = np.maximum(free, 0.0) + view.usage[rows].sum(axis=0)
        own = [self._useful(j, available) for j in jobs.tolist()]
        if all(len(menu) == 1 for menu in own):
            return np.array([menu[0] for menu in own])
        menus = [
            (float(view.weight[j]), self.costs(j, menu), view.usage[menu])
            for j, menu in zip(jobs.tolist(), own, strict=True)
        ]
        chosen, proven = proven_allocation(menus, available)
        self._intervals += 1
        self._proven += proven
        return np.array([menu[k] for menu, k in zip(own, chosen, strict=True)])

    def summary(self) -> str:
        """Return a message on how many of the allocations were proven optimal."""
        if not self._intervals:
            return "no job had a choice of configurations, so that there was nothing to allocate"
        return f"{self._proven:,} of {self._intervals:,} allocations are proven optimal"

    def _useful(self, j: int, available: Floats) -> Ints:
        """Return the configurations of a job that fit and are not dominated in usage and speed."""
        view = self.view
        own = view.rows_of(j)
        own = own[(view.usage[own] <= available * (1 + PROVEN_GAP)).all(axis=1)]
        own = own[np.lexsort((view.shares(view.usage[own]), -view.speed[own]))]
        return own[~np.triu(_no_larger(view.usage[own]), 1).any(axis=0)]


def proven_allocation(
    menus: Sequence[tuple[float, Floats, Floats]], available: Floats
) -> tuple[list[int], bool]:
    """Return the best configuration of each job by the exact solver of allocation, and whether proven.

    Parameters
    ----------
    menus
        Weight, costs (k_j,) and usages (k_j, R) of each job.
    """
    names = [f"r{r}" for r in range(len(available))]
    document = {
        "name": "interval",
        "resources": dict(zip(names, available.tolist(), strict=True)),
        "jobs": [
            {
                "name": f"{k}",
                "weight": weight,
                "remaining_steps": 1,
                "variants": _variants(np.maximum(times, LEAST_TIME_S), usage, names),
            }
            for k, (weight, times, usage) in enumerate(menus)
        ],
    }
    formulation = formulate(INSTANCES["allocation"].model.model_validate(document))
    outcome = SOLVERS["allocation"].exact.solve(formulation, SolveOptions(), Clock())
    plan = outcome.plan or ()
    by_name = {entry.job: int(entry.variant.removeprefix(VARIANT)) for entry in plan}
    value = formulation.evaluate(plan)[0]
    bound = outcome.bounds[0] if outcome.bounds else None
    proven = bound is not None and value - bound <= PROVEN_GAP * value
    return [by_name[f"{k}"] for k in range(len(menus))], proven


def _variants(times: Floats, usage: Floats, names: Sequence[str]) -> list[Fields]:
    """Return each configuration as a variant of an allocation job with one worker that uses all of it."""
    return [
        {
            "name": f"{VARIANT}{k}",
            "worker_demand": dict(zip(names, amounts, strict=True)),
            "speed": {"model": "table", "rows": [{"workers": 1, "steps_per_s": 1 / time}]},
        }
        for k, (time, amounts) in enumerate(zip(times.tolist(), usage.tolist(), strict=True))
    ]
