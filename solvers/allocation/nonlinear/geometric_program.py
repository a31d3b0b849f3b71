"""The continuous relaxation of allocation as a geometric program (Boyd, Kim, Vandenberghe & Hassibi 2007).

Sets
    jobs j with one variant each, resources r (the hourly budget is one more), monomials i of the time of j
Data
    t_j = Σ_i c_ji p^a_ji w^b_ji, c > 0, a posynomial (`monomials.py` says for which speeds); ω_j weight;
    N_jr, O_jr what one parameter server and one worker take; C_r capacity; D_j deadline
Variables
    p_j, w_j > 0, real: parameter servers and workers
Objective
    `total_completion_time`: minimise Σ_j ω_j t_j;  `makespan`: minimise max_j t_j
Constraints
    Σ_j (N_jr p_j + O_jr w_j) ≤ C_r;  t_j ≤ D_j;  p and w lie in their ranges

In the logarithms of p and w every sum is one of exponentials of affine functions: the problem is convex. It
is handed to cvxpy in these logarithms, with sums of vectors. `gp=True` takes the same logarithms, but makes
one scalar expression of each term: 100 jobs then compile twenty times as long, and 1,000 jobs for 25 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....formulations.allocation.milp import monomials
from ....formulations.common.clock import in_time
from ....formulations.common.tolerance import all_loosened
from ....instances.allocation.instance import AllocationInstance
from ....instances.allocation.job import Job
from ....instances.allocation.job_table import JobTable
from ....instances.common.arrays import Floats, Ints
from ....instances.common.speed import SpeedTable
from ...backends.threads import no_warnings
from ...common.base import Clock
from ...common.interrupting import interrupted
from ...common.options import SolveOptions


@dataclass(frozen=True)
class GeometricSettings:
    """Constants of the interior-point method.

    Attributes
    ----------
    accuracy
        Relative; dual prices need no more, because their bound holds whatever they are.
    multiplier_noise
        A multiplier below this share of the total belongs to a constraint that does not bind; for a makespan
        only ratios matter.
    time_share
        Share of the time that is left for the interior-point method; rounding takes the rest.
    """

    accuracy: float = 1e-7
    multiplier_noise: float = 1e-6
    time_share: float = 0.7


SETTINGS = GeometricSettings()


@dataclass(frozen=True)
class Relaxed:
    """The answer of the interior-point method.

    Attributes
    ----------
    tasks
        Shape (2, J): parameter servers and workers; the smallest numbers if nothing was found.
    prices
        Shape (R,): multipliers of the capacity constraints, seconds per unit; None if nothing was found.
    status
        As cvxpy names it, or `failed`.
    """

    tasks: Floats
    prices: Floats | None
    status: str


class GeometricProgram:
    """The relaxation of an instance in columns.

    Attributes
    ----------
    low, high
        Shape (2, J): ranges of the numbers of parameter servers and workers, as far as they fit alone.
    demand
        Shape (2, J, R): what one parameter server and one worker of each job take of each resource.
    capacity
        Shape (R,).
    always_s, latest_s
        Shape (J,): seconds that no configuration avoids, and the deadline, infinite where there is none.
    owner, coefficient, power
        Of the other monomials: job, c, and exponents with shape (2, I).
    """

    def __init__(self, instance: AllocationInstance, jobs: tuple[Job, ...], capacity: Floats) -> None:
        self.jobs = jobs
        self.makespan = instance.objective == "makespan"
        self.capacity = capacity
        table = instance.table()
        self.weight, self.latest_s = table.weight, all_loosened(table.deadline_s)
        self.demand = _demand(instance, table)
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = (capacity * (1 + 1e-6) / self.demand).min(axis=2, where=self.demand > 0, initial=1e9)
        self.low = np.array([table.min_ps, table.min_workers])
        most = np.array([table.max_ps, table.max_workers])
        self.high = np.maximum(self.low, np.minimum(most, alone.astype(np.int64)))
        self.always_s, self.owner, self.coefficient, self.power = _terms(self.jobs)

    def solve(self, scale_s: float, options: SolveOptions, clock: Clock) -> Relaxed:
        """Solve the relaxation; `scale_s` is an objective of about the size of the optimum."""
        tasks = self.low.ravel().astype(float)
        free = np.flatnonzero(self.low.ravel() < self.high.ravel())
        if not len(free) or clock.expired:
            return Relaxed(tasks.reshape(2, -1), None, "not started" if len(free) else "optimal")
        import cvxpy

        cp: Any = cvxpy
        unit_s = scale_s if self.makespan else scale_s / len(self.jobs)
        log_tasks = cp.Variable(len(free))
        low, high = np.log(self.low.ravel()[free]), np.log(self.high.ravel()[free])
        binding, shares = self._capacities(free)
        used = shares[:, :-1] @ cp.exp(log_tasks) <= shares[:, -1]
        times = self._times(cp, log_tasks, free, unit_s)
        objective, more = self._objective(cp, times, unit_s)
        constraints = [log_tasks >= low, log_tasks <= high, *more, *([used] if len(binding) else [])]
        status = _run(cp, cp.Problem(cp.Minimize(objective), constraints), options, clock)
        found = log_tasks.value
        if found is not None and np.isfinite(found).all():
            tasks[free] = np.exp(np.clip(found, low, high))
        multipliers = used.dual_value if len(binding) else np.zeros(0)
        prices = None
        if found is not None and multipliers is not None and np.isfinite(multipliers).all():
            prices = np.zeros(len(self.capacity))
            real = multipliers > (
                0.0 if self.makespan else SETTINGS.multiplier_noise * max(1.0, float(objective.value))
            )
            prices[binding] = np.where(real, multipliers, 0.0) * unit_s / self.capacity[binding]
        return Relaxed(tasks.reshape(2, -1), prices, status)

    def _capacities(self, free: Ints) -> tuple[Ints, Floats]:
        """Return the resources that bind free tasks, the shares that one task takes, and the shares left."""
        demand = self.demand.reshape(-1, len(self.capacity))
        fixed = self.low.ravel() @ demand - self.low.ravel()[free] @ demand[free]
        binding = np.flatnonzero((demand[free] > 0).any(axis=0) & (self.capacity > 0))
        limit = self.capacity[binding]
        return binding, np.column_stack([(demand[free][:, binding] / limit).T, 1 - fixed[binding] / limit])

    def _times(self, cp: Any, log_tasks: Any, free: Ints, unit_s: float) -> Any:
        """Return the completion times in units, an expression of shape (J,)."""
        from scipy import sparse

        jobs, count = len(self.jobs), len(self.owner)
        place = np.concatenate([self.owner, jobs + self.owner])
        exponents = sparse.csr_array(
            (self.power.ravel(), (np.tile(np.arange(count), 2), place)), (count, 2 * jobs)
        )
        fixed = np.log(np.maximum(self.low.ravel(), 1))
        fixed[free] = 0.0
        logs = np.log(self.coefficient / unit_s) + exponents @ fixed
        exponents = exponents[:, free]
        varies = np.diff(exponents.indptr) > 0
        always = self.always_s / unit_s
        np.add.at(always, self.owner[~varies], np.exp(logs[~varies]))
        owner = self.owner[varies]
        of_job = sparse.csr_array((np.ones(len(owner)), (owner, np.arange(len(owner)))), (jobs, len(owner)))
        return always + of_job @ cp.exp(exponents[varies] @ log_tasks + logs[varies])

    def _objective(self, cp: Any, times: Any, unit_s: float) -> tuple[Any, list[Any]]:
        """Return what is minimised, and the constraints on completion times."""
        timely = np.flatnonzero(np.isfinite(self.latest_s))
        constraints = [cp.multiply(unit_s / self.latest_s[timely], times[timely]) <= 1] if len(timely) else []
        if not self.makespan:
            return self.weight @ times, constraints
        last = cp.Variable()
        return last, [*constraints, times <= last]


def _run(cp: Any, problem: Any, options: SolveOptions, clock: Clock) -> str:
    """Solve with Clarabel; return the status, `failed` where it gave up."""
    settings: dict[str, Any] = dict.fromkeys(("tol_gap_rel", "tol_gap_abs", "tol_feas"), SETTINGS.accuracy)
    settings |= {"accept_unknown": True, "max_threads": options.threads or 0}
    with no_warnings():  # an inaccurate solution is as good a source of prices as any
        # What cvxpy makes of it is kept for `solve`.
        interrupted(clock, lambda: problem.get_problem_data(cp.CLARABEL))
        if clock.remaining_s is not None:
            settings["time_limit"] = SETTINGS.time_share * clock.remaining_s
        try:
            problem.solve(solver=cp.CLARABEL, **settings)
        except cp.error.SolverError:
            return "failed"
    return str(problem.status)


def _demand(instance: AllocationInstance, table: JobTable) -> Floats:
    """Return what one parameter server and one worker of each job take of each resource, shape (2, J, R)."""
    demand = np.array([table.ps_demand * (table.max_ps > 0)[:, None], table.worker_demand])
    if instance.budget_usd_per_hour is None:
        return demand
    prices = [instance.prices_usd_per_hour.get(name, 0.0) for name in instance.resources]
    return np.concatenate([demand, (demand @ prices)[..., None]], axis=2)


def _terms(jobs: Sequence[Job]) -> tuple[Floats, Ints, Floats, Floats]:
    """Return the seconds that each job always takes; and job, c and exponents of its other monomials."""
    always = np.array([job.restart_s for job in jobs])
    columns = []
    for j, job in enumerate(in_time(jobs)):
        speed = job.variants[0].speed
        assert not isinstance(speed, SpeedTable)
        for term in monomials(speed):
            seconds = job.remaining_steps * term.coefficient
            if term.ps or term.workers:
                columns.append((j, seconds, term.ps, term.workers))
            else:
                always[j] += seconds
    owner, coefficient, ps, workers = np.array(columns).reshape(-1, 4).T
    return always, owner.astype(np.int64), coefficient, np.array([ps, workers])
