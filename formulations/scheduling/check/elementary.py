"""Elementary bounds on the objectives of a schedule, which need no solver."""

from __future__ import annotations

import numpy as np

from ....instances.common.arrays import Floats
from ....instances.scheduling.instance import SchedulingInstance
from ...common.objective import TOLERANCE

TIME_ROUNDING = 4e-15
"""Relative rounding error of times as doubles."""


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
    jobs = instance.table()
    weight = jobs.weight / jobs.weight.max()
    return float(weight @ (earliest_ends_s(instance) - jobs.arrival_s) / weight.sum())


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
