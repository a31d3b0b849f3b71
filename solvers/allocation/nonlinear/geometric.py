"""`geometric`: the continuous relaxation as a geometric program, its dual prices, and a rounded plan.

`geometric_program.py` states the relaxation (Boyd, Kim, Vandenberghe & Hassibi 2007). The value of an
interior-point method proves nothing, but the multipliers of its capacity constraints are dual prices, whose
Lagrangian bound (`lagrangian_bound.py`) holds whoever found them: that is the bound of this method.
"""

from __future__ import annotations

from importlib import metadata

import numpy as np

from ....formulations.allocation.certificate import certificate
from ....formulations.allocation.formulation import AllocationFormulation
from ....formulations.allocation.milp import monomials
from ....formulations.common.clock import in_time
from ....instances.allocation.job import Job
from ....instances.common.errors import OptionError
from ....instances.common.speed import SpeedTable
from ...backends.base import installed
from ...common.base import Clock, Outcome, Solver
from ...common.options import SolveOptions
from ..knapsack import MultipleChoice
from ..lagrangian_bound import knapsack_bound, makespan_bound
from .geometric_program import GeometricProgram
from .geometric_rounding import Rounding


class AllocationGeometric(Solver[AllocationFormulation]):
    """Relax, price the capacities by the multipliers, bound by the prices, round the relaxation."""

    name = "geometric"
    kinds = ("allocation",)
    what = "geometric program in cvxpy, rounded; one variant per job, no tables, optional jobs or restarts"

    def unavailable(self) -> str | None:
        """Return why cvxpy or its solver cannot be used."""
        return installed("cvxpy", "cvxpy") or installed("clarabel", "clarabel")

    def solve(self, formulation: AllocationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Solve the relaxation; take its multipliers for the bound and its solution for a plan."""
        instance, configs = formulation.instance, formulation.configurations
        # A large table makes each job anew whenever it is asked for one.
        jobs = tuple(in_time(instance.jobs))
        for job in jobs:
            _refuse(job)
        program = GeometricProgram(instance, jobs, configs.capacity)
        build_s = clock.elapsed_s
        relaxed = program.solve(formulation.elementary_bounds()[0] or 1.0, options, clock)
        nothing = np.zeros(len(configs.resources))
        prices = nothing if relaxed.prices is None else relaxed.prices
        if program.makespan:
            bound = max(makespan_bound(configs, prices), makespan_bound(configs, nothing))
        else:
            problem = MultipleChoice.of(configs, configs.cost)
            bound = max(knapsack_bound(problem, prices), knapsack_bound(problem, nothing))
        outcome = Outcome(build_s=build_s, infeasible=bound == np.inf)
        outcome.backend = f"cvxpy {metadata.version('cvxpy')} with Clarabel {metadata.version('clarabel')}"
        outcome.certificate = certificate(configs.resources, prices, None if outcome.infeasible else bound)
        if outcome.infeasible:
            return outcome
        outcome.bounds = (bound,)
        if relaxed.prices is not None and not program.makespan:
            outcome.prices = dict(zip(configs.resources, prices.tolist(), strict=True))
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


def _refuse(job: Job) -> None:
    """Refuse a job that the geometric program does not cover.

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
    """Return whether the current configuration of a job with one variant is allowed."""
    now, ps, workers = job.current, job.variants[0].ps, job.variants[0].workers
    if now is None or workers is None:
        return False
    low, high = (ps.min, ps.max) if ps else (0, 0)
    return low <= now.ps <= high and workers.min <= now.workers <= workers.max
