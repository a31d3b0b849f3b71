"""`geometric`: the continuous relaxation as a geometric program, its dual prices, and a rounded plan.

The continuous relaxation is a geometric program (Boyd, Kim, Vandenberghe & Hassibi 2007). The value of an
interior-point method proves nothing, but the multipliers of its capacity constraints are dual prices, whose
Lagrangian bound (`lagrangian.py`) is valid for any prices: that is the bound of this method.

Sets
    jobs j with one variant each, resources r (the hourly budget is one more), monomials i of the time of j
Data
    t_j = Σ_i c_ji p^a_ji w^b_ji, c > 0, a posynomial (`monomials` has those of the speeds); ω_j weight;
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

The plan is the relaxation rounded down; late jobs and exceeded capacities are repaired, and free capacity is
used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

from ...formulations.allocation.certificate import certificate_of
from ...formulations.allocation.configurations import task_demands
from ...formulations.allocation.formulation import AllocationFormulation, monomials
from ...formulations.allocation.plan import Plan
from ...formulations.common.clock import until_time_limit
from ...formulations.common.objective import all_loosened
from ...instances.allocation.instance import AllocationInstance
from ...instances.allocation.job import Job
from ...instances.common.arrays import Floats, Ints
from ...instances.common.errors import OptionError
from ...instances.common.speed import SpeedTable
from ..backends.base import missing_package_text, no_warnings
from ..common.base import Clock, Outcome, Solver
from ..common.result import SolveOptions
from ..common.search_control import run_with_time_limit
from .heuristics import neighbour
from .lagrangian import MultipleChoice, knapsack_bound, makespan_bound

ACCURACY = 1e-7
"""Relative; dual prices need no more, because their bound holds whatever they are."""
MULTIPLIER_NOISE = 1e-6
"""A multiplier below this share of the total belongs to a constraint that does not bind; for a makespan only
ratios matter."""
TIME_SHARE = 0.7
"""Share of the time that is left for the interior-point method; rounding takes the rest."""


@dataclass(frozen=True)
class RelaxationSolution:
    """Solution of the continuous relaxation by the interior-point method, with its dual prices.

    Attributes
    ----------
    tasks
        Shape (2, J): parameter servers and workers; the smallest numbers if nothing was found.
    prices
        Shape (R,): multipliers of the capacity constraints, seconds per unit; 0 if nothing was found.
    status
        As cvxpy names it, or `failed`.
    """

    tasks: Floats
    prices: Floats
    status: str


class GeometricProgram:
    """The geometric program of the continuous relaxation of an allocation, as arrays.

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
        self.demand = np.array(task_demands(instance, table))
        self.demand[0, table.max_ps == 0] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = (capacity * (1 + 1e-6) / self.demand).min(axis=2, where=self.demand > 0, initial=1e9)
        self.low = np.array([table.min_ps, table.min_workers])
        most = np.array([table.max_ps, table.max_workers])
        self.high = np.maximum(self.low, np.minimum(most, alone.astype(np.int64)))
        self.always_s, self.owner, self.coefficient, self.power = _terms(self.jobs)

    def solve(self, scale_s: float, options: SolveOptions, clock: Clock) -> RelaxationSolution:
        """Solve the continuous relaxation; `scale_s` is an objective value of about the optimum's size."""
        tasks, prices = self.low.ravel().astype(float), np.zeros(len(self.capacity))
        free = np.flatnonzero(self.low.ravel() < self.high.ravel())
        if not len(free) or clock.expired:
            return RelaxationSolution(tasks.reshape(2, -1), prices, "not started" if len(free) else "optimal")
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
        status = _solve_with_clarabel(cp, cp.Problem(cp.Minimize(objective), constraints), options, clock)
        solution = log_tasks.value
        if solution is not None and np.isfinite(solution).all():
            tasks[free] = np.exp(np.clip(solution, low, high))
        multipliers = used.dual_value if len(binding) else np.zeros(0)
        if solution is not None and multipliers is not None and np.isfinite(multipliers).all():
            real = multipliers > (
                0.0 if self.makespan else MULTIPLIER_NOISE * max(1.0, float(objective.value))
            )
            prices[binding] = np.where(real, multipliers, 0.0) * unit_s / self.capacity[binding]
        return RelaxationSolution(tasks.reshape(2, -1), prices, status)

    def _capacities(self, free: Ints) -> tuple[Ints, Floats]:
        """Return the resources that limit free task counts, their shares per task, and shares left."""
        demand = self.demand.reshape(-1, len(self.capacity))
        fixed = self.low.ravel() @ demand - self.low.ravel()[free] @ demand[free]
        binding = np.flatnonzero((demand[free] > 0).any(axis=0) & (self.capacity > 0))
        limit = self.capacity[binding]
        return binding, np.column_stack([(demand[free][:, binding] / limit).T, 1 - fixed[binding] / limit])

    def _times(self, cp: Any, log_tasks: Any, free: Ints, unit_s: float) -> Any:
        """Return the completion times of jobs in units of `unit_s`, a cvxpy expression of shape (J,)."""
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
        """Return the cvxpy objective, and the constraints from deadlines (and the makespan)."""
        timely = np.flatnonzero(np.isfinite(self.latest_s))
        constraints = [cp.multiply(unit_s / self.latest_s[timely], times[timely]) <= 1] if len(timely) else []
        if not self.makespan:
            return self.weight @ times, constraints
        last = cp.Variable()
        return last, [*constraints, times <= last]


def _solve_with_clarabel(cp: Any, problem: Any, options: SolveOptions, clock: Clock) -> str:
    """Solve a cvxpy problem with Clarabel; return the status, `failed` where the solver gave up."""
    settings: dict[str, Any] = dict.fromkeys(("tol_gap_rel", "tol_gap_abs", "tol_feas"), ACCURACY)
    settings |= {"accept_unknown": True, "max_threads": options.threads or 0}
    with no_warnings():  # an inaccurate solution is as good a source of prices as any
        # What cvxpy makes of it is kept for `solve`.
        run_with_time_limit(clock, lambda: problem.get_problem_data(cp.CLARABEL))
        if clock.remaining_s is not None:
            settings["time_limit"] = TIME_SHARE * clock.remaining_s
        try:
            problem.solve(solver=cp.CLARABEL, **settings)
        except cp.error.SolverError:
            return "failed"
    return str(problem.status)


def _terms(jobs: Sequence[Job]) -> tuple[Floats, Ints, Floats, Floats]:
    """Return constant seconds per job, and job, coefficient and exponents of all monomials of the times."""
    always = np.array([job.restart_s for job in jobs])
    columns = []
    for j, job in enumerate(until_time_limit(jobs)):
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


TASK_CHANGES = np.array([(1, 0), (0, 1), (1, 1), (-1, 1), (1, -1), (-1, 0), (0, -1), (-1, -1)])
"""Changes of (parameter servers, workers) that are tried."""


INTEGER_TOLERANCE = 1e-6
"""A number of tasks this close below an integer is that integer."""
UNPRICED_WEIGHT = 1e-3
"""Weight of the share of a resource without a price beside those with one, so that it is not wasted."""
LEAST_TOLL = 1e-12
"""A step that takes nothing counts with this toll."""
LEAST_SAVING = 1e-12
"""Relative; a step must save more than rounding."""


class Rounding:
    """Rounding of the continuous relaxation to a plan, with repair and local improvement.

    Attributes
    ----------
    chosen
        Shape (J,): configuration of each job.
    used
        What they take of each resource, shape (R,).
    to, extra, gain
        Shape (K, changes): where each of `TASK_CHANGES` leads, −1 where to no configuration; by how much the
        cost rises; and what is saved per weighted share of the resources, 0 if nothing. Changes that take
        nothing gain most.
    need
        Shape (J, changes, R): what each change takes.
    """

    def __init__(
        self, formulation: AllocationFormulation, program: GeometricProgram, relaxed: RelaxationSolution
    ) -> None:
        self.formulation, self.makespan = formulation, program.makespan
        configs = self.configs = formulation.configurations
        self.limit, owner = configs.limit, configs.owner
        self.share = 1 / np.where(self.limit > 0, self.limit, np.inf)
        worth = self.limit * relaxed.prices
        toll = worth / (worth.sum() or 1.0) + UNPRICED_WEIGHT
        ps, workers = np.clip(np.floor(relaxed.tasks + INTEGER_TOLERANCE), program.low, program.high)
        rounded = (configs.ps == ps[owner]) & (configs.workers == workers[owner])
        # A job that would be late gets the configuration of least weighted resource share.
        order = np.lexsort((np.where(rounded, -1.0, (configs.demand * self.share) @ toll), owner))
        self.chosen = order[configs.start[:-1]]
        self.need = np.einsum("sk,kjr->jsr", TASK_CHANGES, program.demand)
        self.cost = configs.time_s if self.makespan else configs.cost
        self.to = np.column_stack([neighbour(configs, owner, *change) for change in TASK_CHANGES.tolist()])
        before = self.cost[:, None]
        self.extra = np.where(self.to >= 0, self.cost[self.to] - before, np.inf)
        step_toll = np.maximum((self.need * self.share) @ toll, LEAST_TOLL)
        saves = self.extra < -LEAST_SAVING * np.abs(before)
        self.gain = np.where(saves, -self.extra / step_toll[owner], 0.0)

    def plan(self, clock: Clock) -> Plan:
        """Return the rounded plan; it may be infeasible where the repair failed or the time was up."""
        self.used = self.configs.demand[self.chosen].sum(axis=0)
        if not clock.expired:
            self._shrink(clock)
            (self._level if self.makespan else self._fill)(clock)
        return self.formulation.plan_of(self.chosen)

    def _take(self, j: int, step: int) -> None:
        """Change the task counts of a job by one of `TASK_CHANGES`."""
        self.used = self.used + self.need[j, step]
        self.chosen[j] = self.to[self.chosen[j], step]

    def _shrink(self, clock: Clock) -> None:
        """Remove the tasks that cost least per freed overused share until no resource is overused."""
        fewer = (TASK_CHANGES <= 0).all(axis=1)
        while (over := self.used > self.limit).any() and not clock.expired:
            relief = -(self.need[:, :, over] * self.share[over]).sum(axis=2)
            extra = self.extra[self.chosen]
            price = np.where(fewer & (relief > 0), extra / np.where(relief > 0, relief, 1.0), np.inf)
            j, step = divmod(int(np.argmin(price)), len(TASK_CHANGES))
            if np.isinf(price[j, step]):
                return
            self._take(j, step)

    def _fill(self, clock: Clock) -> None:
        """Apply the feasible change of task counts with the largest gain until none has a positive one."""
        gain, changed = self.gain[self.chosen], False
        while not clock.expired:
            j, step = divmod(int(np.argmax(gain)), len(TASK_CHANGES))
            if gain[j, step] <= 0:
                if not changed:
                    return
                # A step may have freed capacity for misfits.
                gain, changed = self.gain[self.chosen], False
            elif (self.used + self.need[j, step] <= self.limit).all():
                self._take(j, step)
                gain[j], changed = self.gain[self.chosen[j]], True
            else:
                gain[j, step] = 0.0

    def _level(self, clock: Clock) -> None:
        """Apply the best feasible change of the job that ends last, until none makes that job faster."""
        while not clock.expired:
            j = int(np.argmax(self.cost[self.chosen]))
            fits = (self.used + self.need[j] <= self.limit).all(axis=1)
            gain = np.where(fits, self.gain[self.chosen[j]], 0.0)
            step = int(np.argmax(gain))
            if gain[step] <= 0:
                return
            self._take(j, step)


class AllocationGeometric(Solver[AllocationFormulation]):
    """Geometric-program relaxation, a Lagrangian bound from its multipliers, and a rounded plan."""

    name = "geometric"
    kinds = ("allocation",)
    what = "geometric program in cvxpy, rounded; one variant per job, no tables, optional jobs or restarts"

    def unavailable(self) -> str | None:
        """Return why cvxpy or Clarabel cannot be used, None if both can."""
        return missing_package_text("cvxpy", "cvxpy") or missing_package_text("clarabel", "clarabel")

    def solve(self, formulation: AllocationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Solve the relaxation; return the rounded plan, and the Lagrangian bound of its multipliers."""
        instance, configs = formulation.instance, formulation.configurations
        # A large table creates each job anew on every access.
        jobs = tuple(until_time_limit(instance.jobs))
        for job in jobs:
            _check_supported(job)
        program = GeometricProgram(instance, jobs, configs.capacity)
        build_s = clock.elapsed_s
        relaxed = program.solve(formulation.elementary_bounds()[0] or 1.0, options, clock)
        prices, no_prices = relaxed.prices, np.zeros(len(configs.resources))
        if program.makespan:
            bound = max(makespan_bound(configs, prices), makespan_bound(configs, no_prices))
        else:
            problem = MultipleChoice.of(configs, configs.cost)
            bound = max(knapsack_bound(problem, prices), knapsack_bound(problem, no_prices))
        outcome = Outcome(build_s=build_s, infeasible=bound == np.inf)
        outcome.backend = f"cvxpy {metadata.version('cvxpy')} with Clarabel {metadata.version('clarabel')}"
        outcome.certificate = certificate_of(configs.resources, prices, None if outcome.infeasible else bound)
        if outcome.infeasible:
            return outcome
        outcome.bounds = (bound,)
        plan = Rounding(formulation, program, relaxed).plan(clock)
        notes = (
            [] if relaxed.status == "optimal" else [f"the relaxation ended with status {relaxed.status!r}"]
        )
        if formulation.violations(plan):
            notes.append("no rounding of the relaxation was found that keeps all constraints")
        else:
            outcome.plan = plan
        if clock.expired or (relaxed.status == "user_limit" and clock.limit_s is not None):
            outcome.limit = "time"
        outcome.message = "geometric: " + "; ".join(notes) if notes else None
        return outcome


def _check_supported(job: Job) -> None:
    """Raise an error if the geometric program does not support a job.

    Raises
    ------
    OptionError
        Naming the job and what is not covered.
    """
    speed, what = job.variants[0].speed, None
    if len(job.variants) > 1:
        what = f"has {len(job.variants)} variants, and only one is covered"
    elif isinstance(speed, SpeedTable):
        what = "has a table of speeds, and only formulas are covered"
    elif job.optional:
        what = "is optional, which is not covered"
    elif job.restart_s and _may_stay(job):
        what = "may keep its current configuration or pay restart_s, which is not covered"
    elif any(term.coefficient < 0 for term in monomials(speed)):
        what = "has θ0·M < θ2 or θ1 + θ2 < θ3, so that its time is no posynomial"
    if what:
        raise OptionError(
            f"solver 'geometric': job {job.name!r} {what}; 'exact', 'milp' and 'cp-sat' cover all jobs"
        )


def _may_stay(job: Job) -> bool:
    """Return whether a job with one variant may keep its current configuration."""
    now, ps, workers = job.current, job.variants[0].ps, job.variants[0].workers
    if now is None or workers is None:
        return False
    low, high = (ps.min, ps.max) if ps else (0, 0)
    return low <= now.ps <= high and workers.min <= now.workers <= workers.max
