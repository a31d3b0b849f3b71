"""Independent derivation of the configurations of an allocation for the check.

It implements the definition of K_j, t_jk and a_jkr in docs/problems/allocation.md job by job, without the
configuration table of the solvers. For millions of configurations that takes longer than the check itself,
so beyond a maximum number the check uses the solvers' table, after comparing it with the
derived configurations of some jobs, drawn at random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ....instances.allocation.instance import AllocationInstance
from ....instances.allocation.job_table import MODELS, TABLE, JobTable
from ....instances.common.arrays import Flags, Floats, Ints
from ...common.clock import check_time
from ...common.objective import loosened
from ..configurations import BUDGET, Configurations

MAX_DERIVED = 100_000
"""Maximum number of configurations that the check derives, which takes some tenths of a second."""
SAMPLED_JOBS = 500
MAX_SAMPLED = 20_000
"""Maximum number of configurations of all sampled jobs."""
SAMPLE_SEED = 20_180_423
MAX_TASKS = 1e9
"""Number of tasks beyond the range of any variant."""
COMPARISON_TOLERANCE = 1e-12
"""Relative tolerance of the comparison, as the two derivations may add in a different order."""


@dataclass(frozen=True, eq=False)
class CheckedConfigurations:
    """Completion time and demand of each configuration; those of job j are `start[j]` to `start[j + 1]`.

    Attributes
    ----------
    start
        Shape (jobs + 1,).
    time_s, demand
        Shapes (K,) and (K, R).
    weight
        Shape (jobs,): ω.
    resources, capacity
        Names and C_r, the hourly budget last where there is one; shape (R,).
    shared
        Which part was taken from the methods, in a sentence; None if everything was derived here.
    refuted
        Whether the methods' table differs from what is derived here, so that nothing can be certified.
    """

    start: Ints
    time_s: Floats
    demand: Floats
    weight: Floats
    resources: tuple[str, ...]
    capacity: Floats
    shared: str | None = None
    refuted: bool = False

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return len(self.start) - 1

    @cached_property
    def cost(self) -> Floats:
        """Weighted completion time ω·t of each configuration, shape (K,)."""
        if (self.weight == 1).all():
            return self.time_s
        return np.repeat(self.weight, np.diff(self.start)) * self.time_s

    @cached_property
    def limit(self) -> Floats:
        """Capacity of each resource plus its tolerance, shape (R,)."""
        return np.array([loosened(amount) for amount in self.capacity.tolist()])

    def within(self, capacity: Floats) -> CheckedConfigurations:
        """Return the table without configurations that, alone, exceed the given smaller capacities."""
        smaller = replace(self, capacity=capacity)
        keep = (self.demand <= smaller.limit).all(axis=1)
        start = np.concatenate([[0], np.cumsum(keep)])[self.start]
        return replace(smaller, start=start, time_s=self.time_s[keep], demand=self.demand[keep])

    @property
    def some_job_has_none(self) -> bool:
        """Whether some job has no configuration, so that there is no plan."""
        return bool((np.diff(self.start) == 0).any())

    def elementary_bound(self, makespan: bool) -> float | None:
        """Return the objective [s] as if each job had the cluster to itself; None if some job cannot run."""
        if self.some_job_has_none:
            return None
        if makespan:
            return float(np.minimum.reduceat(self.time_s, self.start[:-1]).max())
        return math.fsum(np.minimum.reduceat(self.cost, self.start[:-1]))


class ConfigurationDerivation:
    """Derives the configurations of single jobs from the job table of the instance."""

    def __init__(self, instance: AllocationInstance, table: JobTable) -> None:
        self.table = table
        capacity, prices = dict(instance.resources), np.zeros(len(table.resources))
        if instance.budget_usd_per_hour is not None:
            capacity[BUDGET] = instance.budget_usd_per_hour
            prices = np.array([instance.prices_usd_per_hour.get(name, 0.0) for name in table.resources])
        self.resources, self._prices = tuple(capacity), prices
        self.capacity = np.array(list(capacity.values()))
        self._limit = np.array([loosened(amount) for amount in capacity.values()])

    def of_job(self, job: int) -> tuple[Floats, Floats]:
        """Return times t_jk [s], shape (k,), and demands a_jk, shape (k, R), of a job's configurations."""
        table = self.table
        times, demands = [], []
        for variant in range(int(table.first_variant[job]), int(table.first_variant[job + 1])):
            time_s, demand = self.of_variant(job, variant)
            allowed = (demand <= self._limit).all(axis=1) & (time_s <= loosened(float(table.deadline_s[job])))
            times.append(time_s[allowed])
            demands.append(demand[allowed])
        if table.optional[job]:
            times.append(table.unplaced_s[job : job + 1])
            demands.append(np.zeros((1, len(self.resources))))
        return np.concatenate(times), np.concatenate(demands)

    def of_variant(self, job: int, variant: int) -> tuple[Floats, Floats]:
        """Return times and demands of the configurations of a variant, whatever its deadline."""
        tasks, step_s, demand = self._candidates(variant)
        time_s = self.table.remaining_steps[job] * step_s
        stays = self._is_current(job, variant, tasks)
        return np.where(stays, time_s, time_s + self.table.restart_s[job]), demand

    def _is_current(self, job: int, variant: int, tasks: Ints) -> Flags:
        """Return with which of these tasks the job runs now."""
        table = self.table
        now = table.current_variant[job], table.current_ps[job], table.current_workers[job]
        stays: Flags = np.all(tasks[:, :2] == now[1:], axis=1) & (variant == now[0])
        return stays

    def _candidates(self, variant: int) -> tuple[Ints, Floats, Floats]:
        """Return p, w, step time 1/f(p, w) and demand of all configurations that fit in the empty cluster.

        Beside p and w is the number of servers of a measurement; 0: any.
        """
        table = self.table
        per_ps, per_worker = self._per_task(table.ps_demand[variant], table.worker_demand[variant])
        if table.model[variant] == TABLE:
            own = slice(int(table.first_row[variant]), int(table.first_row[variant + 1]))
            ps, workers, step_s = table.row_ps[own], table.row_workers[own], 1.0 / table.row_steps_per_s[own]
            servers = np.zeros_like(ps) if table.row_servers is None else table.row_servers[own]
        else:
            most_ps = min(int(table.max_ps[variant]), self._fitting(per_ps))
            most_workers = min(int(table.max_workers[variant]), self._fitting(per_worker))
            all_ps = np.arange(table.min_ps[variant], most_ps + 1)
            all_workers = np.arange(table.min_workers[variant], most_workers + 1)
            ps, workers = np.tile(all_ps, len(all_workers)), np.repeat(all_workers, len(all_ps))
            servers, step_s = np.zeros_like(ps), self._step_time_s(variant, ps, workers, workers)
        demand = ps[:, None] * per_ps + workers[:, None] * per_worker
        fits = (demand <= self._limit[: len(per_ps)]).all(axis=1)
        return np.column_stack([ps, workers, servers])[fits], step_s[fits], demand[fits]

    def _fitting(self, per_task: Floats) -> int:
        """Return the number of tasks that fit in the empty cluster, plus one as a margin for rounding."""
        taking, limit = per_task > 0, self._limit[: len(per_task)]
        return 1 + int(min(MAX_TASKS, (limit[taking] / per_task[taking]).min(initial=math.inf)))

    def _per_task(self, *demands: Floats) -> list[Floats]:
        """Return the demands of single tasks; with a budget, their hourly cost is appended."""
        if BUDGET not in self.resources:
            return list(demands)
        return [np.append(demand, (demand * self._prices).sum()) for demand in demands]

    def _step_time_s(self, variant: int, p: Ints, w: Ints, sending: Ints | Floats) -> Floats:
        """Return the step time 1/f(p, w) in seconds by the formula of the variant's speed model.

        Parameters
        ----------
        sending
            What stands for w in w/p: the workers with which a parameter server talks over the network.
        """
        model, batch = MODELS[self.table.model[variant]], float(self.table.batch[variant])
        theta = self.table.theta[variant].tolist()
        seconds: Floats
        if model == "ps_sync":
            seconds = theta[0] * batch / w + theta[1] + theta[2] * sending / p + theta[3] * w + theta[4] * p
        elif model == "ps_async":
            seconds = (theta[0] + theta[1] * sending / p + theta[2] * w + theta[3] * p) / w
        else:
            assert model == "ring_allreduce", f"no formula is written here for the speed model {model}"
            seconds = theta[0] * batch / w + theta[1] + theta[2] * (w - 1) / w + theta[3] * (w - 1)
        return seconds


def checked_configurations(
    derivation: ConfigurationDerivation, shared: Configurations
) -> CheckedConfigurations:
    """Return the configurations for the check: derived anew, or shared with the solvers.

    Parameters
    ----------
    shared
        The table of the solvers, used where it is too large for the derivation.
    """
    table = derivation.table
    limits = (table.weight, derivation.resources, derivation.capacity)
    if len(shared.time_s) > MAX_DERIVED:
        columns = (shared.start, shared.time_s, shared.demand)
        return CheckedConfigurations(*columns, *limits, *_comparison_note(derivation, shared))
    times, demands = [], []
    for job in range(len(table)):
        check_time()
        time_s, demand = derivation.of_job(job)
        times.append(time_s)
        demands.append(demand)
    start = np.concatenate([[0], np.cumsum([len(time_s) for time_s in times])])
    return CheckedConfigurations(start, np.concatenate(times), np.concatenate(demands), *limits)


def _comparison_note(derivation: ConfigurationDerivation, shared: Configurations) -> tuple[str, bool]:
    """Compare the solvers' configurations of randomly drawn jobs with the derived ones.

    Returns
    -------
    note, refuted
        A sentence on what was compared, and whether it differs.
    """
    table, sizes = derivation.table, np.diff(shared.start)
    compared = jobs = 0
    for job in np.random.default_rng(SAMPLE_SEED).permutation(len(table))[:SAMPLED_JOBS].tolist():
        if compared + sizes[job] > MAX_SAMPLED:
            continue
        check_time()
        own = slice(int(shared.start[job]), int(shared.start[job + 1]))
        time_s, demand = derivation.of_job(job)
        if not (_is_equal(shared.time_s[own], time_s) and _is_equal(shared.demand[own], demand)):
            note = (
                f"configurations: those that the methods use for job {table.names[job]!r} are not those that "
                "the check derives, so the certificate proves nothing"
            )
            return note, True
        compared, jobs = compared + len(time_s), jobs + 1
    note = (
        f"configurations: shared with the methods; {compared:,} of {len(shared.time_s):,}, all those of "
        f"{jobs:,} jobs, derived again and equal"
    )
    return note, False


def _is_equal(shared: Floats, derived: Floats) -> bool:
    return shared.shape == derived.shape and bool(
        np.allclose(shared, derived, rtol=COMPARISON_TOLERANCE, atol=0.0)
    )
