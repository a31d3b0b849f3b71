"""Lower bounds on the mean completion time and the makespan: elementary ones, and those of prices of time.

Lagrangian relaxation of the capacities: for prices λ_r(t) ≥ 0,

    L(λ) = Σ_j φ_j(λ) − Σ_r ∫ C_r(t) λ_r(t) dt,
    φ_j(λ) = min over schedules of job j alone of ω_j (C_j − r_j) + ∫ λ(t)·a_j(t) dt

is at most Σ ω_j (C_j − r_j) of every schedule. Restarts, leases, servers and the slowdown of spread jobs are
left out of φ_j: they only make schedules worse, as does keeping resources for longer than a job needs.

The tolerances of the check of plans are granted here twice: once for the check, and once for the roundings
of both sides, which are far smaller.
"""

from __future__ import annotations

import math

import numpy as np

from ....instances.common.arrays import Floats
from ....instances.scheduling.instance import SchedulingInstance
from ...common.clock import check_time
from ...common.objective import TOLERANCE
from ..certificate import PriceGrid
from ..evaluation import TIME_ROUNDING, runs_without_break, work_tolerance
from .one_job import UNIT, nonpreemptive_cost_bounds, preemptive_cost_bounds

TOLERANCE_MULTIPLE = 2
"""Multiple of the tolerance of the check of plans that is granted."""
JOBS_PER_BLOCK = 2_000
UNDERFLOW_MARGIN = 1e-250
"""Absolute margin for the underflow of products of tiny figures."""


def earliest_ends_s(instance: SchedulingInstance) -> Floats:
    """Return a lower bound on each job's completion time as accepted by the check, in s, shape (J,).

    That check accepts C_j + TOLERANCE (p_j + C_j − min r) + ROUNDING C_j ≥ r_j + p_j, where p_j is the work
    over the best speed.
    """
    jobs = instance.table()
    first = jobs.arrival_s.min()
    shortest = instance.menus().work / instance.menus().best_speed
    needed = jobs.arrival_s + shortest * (1 - TOLERANCE) + TOLERANCE * first
    return np.asarray(np.maximum(needed / (1 + TOLERANCE + TIME_ROUNDING), jobs.arrival_s))


def least_mean_completion_s(instance: SchedulingInstance) -> float:
    """Return the bound Σ ω_j p_j / Σ ω_j [s] on mean completion time, less the check's tolerance."""
    weight, arrival = relative_weights(instance), instance.table().arrival_s
    return float(weight @ (earliest_ends_s(instance) - arrival) / weight.sum())


def least_makespan_s(instance: SchedulingInstance) -> float:
    """Return a lower bound on the makespan [s] from single jobs, and from the work of late arrivals.

    Jobs that arrive at s or later do their work after s. So the makespan is at least s − min r plus their
    work over the largest capacity of a resource. The same holds if a job that takes more than half of that
    capacity counts as all of it, one that takes just half as half, and others as 0: a dual feasible function
    (Fekete and Schepers 2001).
    """
    jobs, menus = instance.table(), instance.menus()
    first = jobs.arrival_s.min()
    longest = float(earliest_ends_s(instance).max() - first)
    most = instance.capacity_over_time[1].max(axis=0)
    used = most > 0
    share = menus.usage[:, used] / most[used]
    over_half = np.where(share > (1 + 4 * TOLERANCE) / 2, 1.0, np.where(share >= 0.5, 0.5, 0.0))
    # Least use by a job of a resource, or of its halves, for a unit of its work, shape (J, 2R).
    least = np.minimum.reduceat(np.hstack([share, over_half]) / menus.speed[:, None], menus.first[:-1])
    order = np.argsort(-jobs.arrival_s, kind="stable")
    # Of each job TOLERANCE (W_j + v_j T) + ROUNDING v_j (min r + T) of work may be missing, where T is the
    # makespan and v_j its best speed; and TOLERANCE of the capacity and of T may be used beside.
    missed = np.cumsum((menus.best_speed[:, None] * least)[order], axis=0)
    work = np.cumsum((menus.work[:, None] * least)[order], axis=0)
    later = (jobs.arrival_s[order] - first)[:, None]
    needed = (1 - TOLERANCE) * (later + work) - TIME_ROUNDING * first * missed
    room = 1 + 2 * TOLERANCE + (TOLERANCE + TIME_ROUNDING) * missed
    # Without work, the time after an arrival may be 0.
    ends = np.where(work > 0, needed / room, 0.0)
    return max(0.0, longest, float(ends.max(initial=0.0)))


def price_bound(instance: SchedulingInstance, grid: PriceGrid) -> float:
    """Return the lower bound on Σ ω_j (C_j − r_j) / Σ ω_j [s] that dual prices prove, rounded down.

    Prices are in seconds of completion time per unit and second, with weights relative to the largest one.

    Raises
    ------
    OutOfTimeError
        If the enforced clock expires.
    """
    weight = relative_weights(instance)
    least = math.fsum(job_cost_bounds(instance, grid))
    total = math.fsum(weight)
    margin = 2 * UNIT * (len(weight) + 16)  # of the mean as it is computed of a plan, too
    bound = (least * (1 - margin) - priced_capacity(instance, grid) * (1 + margin) - UNDERFLOW_MARGIN) / total
    return bound * (1 - margin) if bound > 0 else bound


def relative_weights(instance: SchedulingInstance) -> Floats:
    """Return the weights ω_j of the jobs relative to the largest weight, shape (J,)."""
    weight = instance.table().weight
    return np.asarray(weight / weight.max())


def least_work(instance: SchedulingInstance, last_edge_s: float) -> Floats:
    """Return a lower bound on the work of each job in any plan that the check accepts, shape (J,).

    After the last edge all prices are 0, so a job alone gains nothing by running there for longer than its
    work takes. For a job that ends at C the check accepts that its `work_tolerance` is missing.
    """
    arrival, menus = instance.table().arrival_s, instance.menus()
    work, best = menus.work, menus.best_speed
    latest = np.maximum(arrival, last_edge_s) + work / best
    missing = work_tolerance(instance, latest)
    return np.maximum(work - TOLERANCE_MULTIPLE * missing, 0.0)


def job_cost_bounds(instance: SchedulingInstance, grid: PriceGrid) -> Floats:
    """Return a lower bound on each job's Lagrangian cost φ_j = min ω (C − r) + ∫ λ·a dt, shape (J,)."""
    jobs, menus = instance.table(), instance.menus()
    grid = grid.refined(np.minimum(jobs.arrival_s.min(), grid.edges_s[:1]))
    work = least_work(instance, float(grid.edges_s[-1]))
    order = np.lexsort((menus.speed, menus.owner))
    usage, speed = np.ascontiguousarray(menus.usage[order]), menus.speed[order]
    of_jobs = nonpreemptive_cost_bounds if runs_without_break(instance) else preemptive_cost_bounds
    costs = []
    for start in range(0, len(jobs), JOBS_PER_BLOCK):
        check_time()
        part = slice(start, start + JOBS_PER_BLOCK)
        first = menus.first[start : start + JOBS_PER_BLOCK + 1]
        rows = slice(int(first[0]), int(first[-1]))
        costs.append(
            of_jobs(
                np.append(grid.edges_s, np.inf),
                grid.price,
                jobs.arrival_s[part],
                work[part],
                jobs.relative_weight[part],
                first - first[0],
                usage[rows],
                speed[rows],
            )
        )
    return np.concatenate(costs)


def priced_capacity(instance: SchedulingInstance, grid: PriceGrid) -> float:
    """Return the value of the capacities at dual prices, Σ_r ∫ C_r(t) λ_r(t) dt, rounded up.

    The tolerance on the capacities is included.
    """
    times, amounts = instance.capacity_over_time
    fine = grid.refined(times)
    cell = np.searchsorted(times, fine.edges_s, side="right") - 1
    capacity = np.maximum(amounts[cell], 0.0) + TOLERANCE_MULTIPLE * TOLERANCE * amounts.max(axis=0)
    parts = capacity[:-1] * fine.price[:-1] * np.diff(fine.edges_s)[:, None]
    return math.fsum(parts.ravel().tolist()) * (1 + 16 * UNIT)
