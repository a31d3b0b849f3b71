"""`minlp`: allocation as an algebraic mixed-integer nonlinear program on SCIP.

SCIP solves it by spatial branch and bound (Vigerske & Gleixner 2018).

Sets
    jobs j, variants v of j, resources r (the hourly budget is one more)
Data
    Q_j remaining steps; ω_j weight; p̲, p̄, w̲, w̄ ranges of v; N_vr, O_vr what one parameter server and one
    worker take; C_r capacity; D_j deadline; (v°, p°, w°) the current configuration
Variables
    b_v ∈ {0, 1}: variant v is chosen; u_j ∈ {0, 1}: j stays unplaced (optional jobs only)
    p_v, w_v ∈ ℤ: tasks of v, 0 unless it is chosen; c_j ∈ {0, 1}: j keeps its current configuration
    s_v ≥ 1/f_v(P_v, W_v) with P = p + p̲(1 − b), W = w + w̲(1 − b): seconds of a step, those of the smallest
    configuration, s̲_v, where v is not chosen; so Q(s_v − s̲_v(1 − b_v)) is 0 there, without any big M
    t_j = Σ_v Q_j (s_v − s̲_v(1 − b_v)) + restart_j (Σ_v b_v − c_j) + unplaced_j u_j
Objective
    `total_completion_time`: minimise Σ_j ω_j t_j;  `makespan`: minimise T with T ≥ t_j for every j
Constraints
    Σ_v b_v + u_j = 1;  p̲ b ≤ p ≤ p̄ b;  w̲ b ≤ w ≤ w̄ b;  Σ_v (N_vr p_v + O_vr w_v) ≤ C_r;  t_j ≤ D_j if placed
    c_j = 1 only if b_v° = 1, p_v° = p°, w_v° = w°

1/f is the sum of the `monomials` of a speed, which SCIP branches on and relaxes. Measured speeds have no
formula, so `table` is not covered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...formulations.allocation.configurations import resource_limits, task_demands
from ...formulations.allocation.formulation import AllocationFormulation, Monomial, monomials
from ...formulations.allocation.plan import JobAllocation, Plan
from ...formulations.common.clock import check_time, until_time_limit
from ...formulations.common.formulation import exact_integer_row
from ...formulations.common.objective import all_loosened, loosened
from ...instances.allocation.instance import AllocationInstance
from ...instances.allocation.job import Job, Variant
from ...instances.common.arrays import Floats
from ...instances.common.errors import OptionError
from ...instances.common.speed import SpeedTable
from ..backends.mip_solvers import Scip, configure_scip, scip_errors, scip_run_end
from ..common.base import Clock, Outcome, Solver
from ..common.result import SolveOptions

READING_SHARE = 0.2
"""Time for reading the solution and freeing the model, relative to the time for building it."""


class AllocationMinlp(Solver[AllocationFormulation]):
    """Mixed-integer nonlinear model with integer task counts, solved by SCIP's spatial branch and bound."""

    name = "minlp"
    kinds = ("allocation",)
    proves = True
    features = Scip.features
    what = "algebraic mixed-integer nonlinear model on SCIP; takes no speed tables"

    def unavailable(self) -> str | None:
        """Return why PySCIPOpt cannot be used, None if it can."""
        return Scip().unavailable()

    @scip_errors()
    def solve(self, formulation: AllocationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Build the mixed-integer nonlinear model and solve it with SCIP."""
        algebra = AlgebraicModel(formulation)
        model = algebra.model
        outcome = Outcome(backend=f"SCIP in PySCIPOpt {Scip().version()}", build_s=clock.elapsed_s)
        limits = {"limits/gap": options.gap / 2}
        if clock.remaining_s is not None:
            # What was built is read and freed again, and SCIP looks at the time between long steps only.
            limits["limits/time"] = max(0.0, clock.remaining_s - READING_SHARE * outcome.build_s)
        configure_scip(model, options, limits)
        if options.warm_start is not None:
            outcome.plan = formulation.parse_plan(options.warm_start)
            start = model.createSol()
            for variable, value in algebra.encode(outcome.plan, formulation.evaluate(outcome.plan)[0]):
                model.setSolVal(start, variable, value)
            model.addSol(start)
        if clock.expired:
            outcome.limit = "time"
            return outcome
        model.optimize()
        ended, bound = scip_run_end(model)
        outcome.limit, outcome.infeasible = ended.limit, ended.infeasible
        if ended.infeasible:
            # SCIP 10 denies plans of instances whose figures are far apart.
            outcome.doubtful = True
            outcome.message = "SCIP finds that there is no plan, of which only what is certified counts"
        if bound is not None:
            outcome.bounds = (bound * algebra.scale,)
        if ended.found:
            outcome.plan = algebra.decode(model.getBestSol())
        return outcome


LARGEST_INTEGER = 10**8
"""A constraint with integer coefficients up to this is immune to the relative tolerance."""
STEP_TIME_SPAN = 1e6
"""Step times are scaled to lie between 1 and this, which the absolute tolerance can tell apart."""
START_MARGIN = 1e-12
"""Relative; a start value this much above a nonlinear expression is surely not below it."""


@dataclass(frozen=True)
class _TaskCount:
    """A number of tasks, `factor` × `of`: from `least` to `most` where the variant is chosen.

    `of` is a variable of the model or 1.
    """

    of: Any
    factor: int
    least: int
    most: int

    def shown(self, chosen: Any) -> Any:
        """Return P or W: the number of tasks, or its minimum where the variant is not chosen."""
        return self.least if self.least == self.most else self.factor * self.of + self.least * (1 - chosen)


@dataclass(frozen=True)
class _Choice:
    """A variant of a job that fits in the empty cluster, with its variables and the times of its task counts.

    Attributes
    ----------
    chosen
        A binary variable, or the number 1.
    grid_s
        Seconds of work of its configurations, shape (numbers of ps, numbers of workers).
    """

    variant: Variant
    chosen: Any
    ps: _TaskCount
    workers: _TaskCount
    grid_s: Floats

    def place(self, ps: int, workers: int) -> tuple[int, int]:
        """Return the indices of a configuration in the grid of task counts."""
        return ps - self.ps.least, workers - self.workers.least


class AlgebraicModel:
    """The mixed-integer nonlinear model of an allocation on SCIP.

    Attributes
    ----------
    scale
        Seconds that one unit of the model's objective stands for.
    choices
        The variants of each job; all speeds are formulas.
    """

    def __init__(self, formulation: AllocationFormulation) -> None:
        from pyscipopt import Model, quicksum

        self.instance, self.model, self._sum = formulation.instance, Model(), quicksum
        self.jobs = _jobs(self.instance)  # listing them takes a second
        self.model.hideOutput()
        self.scale = formulation.elementary_bounds()[0] or 1.0
        self.choices: list[list[_Choice]] = []
        self._starts: list[tuple[Any, int, Callable[[JobAllocation], float]]] = []
        self._tasks: list[tuple[_TaskCount, Floats]] = []
        self._latest: Any = None
        self._demands = iter(zip(*task_demands(self.instance, formulation.table), strict=True))
        self._limit = resource_limits(self.instance)[1]
        times = [self._job(job) for job in self.jobs]
        for r, limit in enumerate(self._limit.tolist()):
            self._capacity(limit, [float(amounts[r]) for _, amounts in self._tasks])
        if self.instance.objective == "makespan":
            self._latest = self.model.addVar(lb=0)
            for time in times:
                self.model.addCons(self._latest >= time / self.scale)
            self.model.setObjective(self._latest)
        else:
            weights = [job.weight / self.scale for job in self.jobs]
            self.model.setObjective(quicksum(w * time for w, time in zip(weights, times, strict=True)))

    def _job(self, job: Job) -> Any:
        """Add one job's variables and constraints; return its completion time in seconds (expression)."""
        check_time()
        sure = len(job.variants) == 1 and not job.optional
        candidates = [self._choice(job, variant, sure) for variant in job.variants]
        choices = [choice for choice in candidates if choice is not None]
        placed = self._sum(choice.chosen for choice in choices)
        time = self._sum(self._work(job, choice) for choice in choices) + self._restart(job, choices, placed)
        latest = _deadline_midpoint(job, choices)
        if latest is not None:
            self.model.addCons(time / latest <= 1)
        unplaced = self._binary(lambda entry: not entry.placed) if job.optional else 0
        self.model.addCons(placed + unplaced == 1)
        self.choices.append(choices)
        return time + (job.unplaced_s or 0.0) * unplaced

    def _choice(self, job: Job, variant: Variant, sure: bool) -> _Choice | None:
        """Add the variables of a job's variant; return None where its smallest configuration never fits."""
        ranges, demands = [], next(self._demands)
        for allowed, demand in zip((variant.ps, variant.workers), demands, strict=True):
            low, high = (allowed.min, allowed.max) if allowed else (0, 0)
            # As many as fit alone, or one more, which the capacity excludes.
            with np.errstate(over="ignore"):
                fit = all_loosened(all_loosened(self._limit[demand > 0])) / demand[demand > 0]
            ranges.append((low, int(fit.min(initial=high))))
        if any(high < low for low, high in ranges):
            return None
        chosen = 1 if sure else self._binary(lambda entry: entry.variant == variant.name)
        ps = self._count(chosen, *ranges[0], lambda entry: entry.ps * (entry.variant == variant.name))
        workers = self._count(
            chosen, *ranges[1], lambda entry: entry.workers * (entry.variant == variant.name)
        )
        self._tasks += zip((ps, workers), demands, strict=True)
        p, w = np.meshgrid(*(np.arange(low, high + 1) for low, high in ranges), indexing="ij")
        assert not isinstance(variant.speed, SpeedTable)
        step_s = np.broadcast_to(variant.speed.step_time_s(p, w), p.shape)
        return _Choice(variant, chosen, ps, workers, job.remaining_steps * step_s)

    def _variable(self, start: Callable[[JobAllocation], float], **attributes: Any) -> Any:
        """Add a variable of the current job, with the function that gives its value in a start plan."""
        variable = self.model.addVar(**attributes)
        self._starts.append((variable, len(self.choices), start))
        return variable

    def _binary(self, start: Callable[[JobAllocation], float]) -> Any:
        return self._variable(start, vtype="B")

    def _count(
        self, chosen: Any, least: int, most: int, start: Callable[[JobAllocation], float]
    ) -> _TaskCount:
        if least == most:
            return _TaskCount(chosen, least, least, most)
        number = self._variable(start, vtype="I", lb=least if isinstance(chosen, int) else 0, ub=most)
        if not isinstance(chosen, int):
            self.model.addCons(number >= least * chosen)
            self.model.addCons(number <= most * chosen)
        return _TaskCount(number, 1, least, most)

    def _work(self, job: Job, choice: _Choice) -> Any:
        """Return the seconds of work of a variant, Q(s − s̲(1 − b)), as an expression.

        s is in units that suit SCIP's tolerance.
        """
        least, most = float(choice.grid_s.min()), float(choice.grid_s.max())
        if least == most:
            return least * choice.chosen
        unit = max(float(choice.grid_s[choice.grid_s > 0].min()), most / STEP_TIME_SPAN)
        ps, workers = choice.ps.shown(choice.chosen), choice.workers.shown(choice.chosen)
        assert not isinstance(choice.variant.speed, SpeedTable)
        terms = [_term(job.remaining_steps / unit, m, ps, workers) for m in monomials(choice.variant.speed)]

        def start(entry: JobAllocation) -> float:
            here = choice.place(entry.ps, entry.workers) if entry.variant == choice.variant.name else (0, 0)
            return float(choice.grid_s[here]) / unit * (1 + START_MARGIN)

        steps = self._variable(start, lb=0, ub=2 * most / unit)
        self.model.addCons(steps >= self._sum(terms))
        work = steps - float(choice.grid_s[0, 0]) / unit * (1 - choice.chosen)
        self.model.addCons(work >= least / unit * choice.chosen)
        return unit * work

    def _restart(self, job: Job, choices: Sequence[_Choice], placed: Any) -> Any:
        """Return the restart time of a job in seconds (expression), 0 if it keeps its configuration."""
        current, now = job.current, next((c for c in choices if _is_current(job, c)), None)
        if now is None or current is None or not job.restart_s:
            return job.restart_s * placed
        wanted_plan = current.variant, current.ps, current.workers
        stays = self._binary(lambda entry: (entry.variant, entry.ps, entry.workers) == wanted_plan)
        self.model.addCons(stays <= now.chosen)
        for count, wanted in ((now.ps, current.ps), (now.workers, current.workers)):
            if count.least < count.most:
                self.model.addCons(count.of >= wanted * stays)
                self.model.addCons(count.of <= count.most - (count.most - wanted) * stays)
        return job.restart_s * (placed - stays)

    def _capacity(self, limit: float, amounts: list[float]) -> None:
        """Add one capacity constraint, with integer coefficients where possible: they need no tolerance.

        Parameters
        ----------
        amounts
            What one of the tasks of each number of tasks takes.
        """
        allowed = loosened(limit) if limit else 1.0
        weights, bound = [amount / allowed for amount in amounts], 1.0 if limit else 0.0
        whole = exact_integer_row(amounts, loosened(limit))
        if whole is not None and whole[1] <= LARGEST_INTEGER:
            weights, bound = [float(weight) for weight in whole[0]], whole[1]
        pairs = zip(self._tasks, weights, strict=True)
        terms = [weight * count.factor * count.of for (count, _), weight in pairs if weight]
        if terms:
            self.model.addCons(self._sum(terms) <= bound)

    def encode(self, plan: Plan, makespan_s: float) -> list[tuple[Any, float]]:
        """Return the value of every variable of the model in a feasible plan, as a start solution."""
        entries = {entry.job: entry for entry in plan}
        values = [(variable, float(start(entries[self.jobs[j].name]))) for variable, j, start in self._starts]
        if self._latest is not None:
            values.append((self._latest, makespan_s / self.scale * (1 + 2 * START_MARGIN)))
        return values

    def decode(self, solution: Any) -> tuple[JobAllocation, ...]:
        """Return the plan (configuration of each job) of a solution of the model."""

        def value(of: Any) -> int:
            return of if isinstance(of, int) else round(solution[of])

        plan = []
        for job, choices in zip(self.jobs, self.choices, strict=True):
            entry = JobAllocation(job=job.name, placed=False)
            for c in choices:
                if value(c.chosen):
                    ps, workers = (count.factor * value(count.of) for count in (c.ps, c.workers))
                    entry = JobAllocation(job=job.name, variant=c.variant.name, ps=ps, workers=workers)
            plan.append(entry)
        return tuple(plan)


def _jobs(instance: AllocationInstance) -> tuple[Job, ...]:
    """Return the jobs of an instance, whose speeds must all be formulas.

    Raises
    ------
    OptionError
        If a speed is a table.
    """
    jobs = tuple(until_time_limit(instance.jobs))
    for job in jobs:
        for variant in job.variants:
            if isinstance(variant.speed, SpeedTable):
                raise OptionError(
                    f"solver 'minlp' needs a formula for every speed, but variant {variant.name!r} of job "
                    f"{job.name!r} has a table; 'exact', 'milp' and 'cp-sat' take tables"
                )
    return jobs


def _term(factor: float, monomial: Monomial, ps: Any, workers: Any) -> Any:
    """Return a factor times a monomial of task counts, without powers whose exponent is 0 (expression)."""
    term: Any = factor * monomial.coefficient
    for base, exponent in ((ps, monomial.ps), (workers, monomial.workers)):
        if exponent:
            term = term * (float(base) if isinstance(base, int) else base) ** exponent
    return term


def _is_current(job: Job, choice: _Choice) -> bool:
    """Return whether the job's current configuration belongs to this variant and its ranges."""
    now = job.current
    return (
        now is not None
        and now.variant == choice.variant.name
        and choice.ps.least <= now.ps <= choice.ps.most
        and choice.workers.least <= now.workers <= choice.workers.most
    )


def _deadline_midpoint(job: Job, choices: Sequence[_Choice]) -> float | None:
    """Return the midpoint of the last completion time before a job's deadline and the first after it.

    It is None if there is no late one.

    SCIP's tolerance then neither lets a late configuration in nor keeps a punctual one out.
    """
    if job.deadline_s is None:
        return None
    grids = [choice.grid_s + job.restart_s for choice in choices]
    for choice, grid in zip(choices, grids, strict=True):
        if job.current is not None and _is_current(job, choice):
            here = choice.place(job.current.ps, job.current.workers)
            grid[here] = choice.grid_s[here]
    times = np.concatenate([np.zeros(1), *(grid.ravel() for grid in grids)])
    late = times > loosened(job.deadline_s)
    return float(times[~late].max() + times[late].min()) / 2 if late.any() else None
