"""Bounds on a schedule that need no solver: no job ends before it has run, and no second is used twice."""

from __future__ import annotations

import numpy as np

from ....instances.common.arrays import Floats
from ....instances.scheduling.instance import SchedulingInstance
from ...common.tolerance import TOLERANCE

ROUNDING = 4e-15
"""What a moment may be wrong by in doubles, relatively."""


def earliest_ends_s(instance: SchedulingInstance) -> Floats:
    """Return the earliest end of each job that the check of plans accepts, shape (J,).

    That check accepts C_j + TOLERANCE (p_j + C_j − min r) + ROUNDING C_j ≥ r_j + p_j, where p_j is the work
    over the best speed.
    """
    jobs = instance.table()
    first = jobs.arrival_s.min()
    shortest = instance.menus().work / instance.menus().best_speed
    needed = jobs.arrival_s + shortest * (1 - TOLERANCE) + TOLERANCE * first
    return np.asarray(np.maximum(needed / (1 + TOLERANCE + ROUNDING), jobs.arrival_s))


def least_mean_completion_s(instance: SchedulingInstance) -> float:
    """Return Σ ω_j p_j / Σ ω_j with the shortest p_j, less what the check of plans tolerates."""
    jobs = instance.table()
    weight = jobs.weight / jobs.weight.max()
    return float(weight @ (earliest_ends_s(instance) - jobs.arrival_s) / weight.sum())


def least_makespan_s(instance: SchedulingInstance) -> float:
    """Return the largest of max r_j + p_j, and of the work over the most there ever is of a resource."""
    jobs = instance.table()
    first = jobs.arrival_s.min()
    longest = float(earliest_ends_s(instance).max() - first)
    most = instance.capacity_over_time[1].max(axis=0)
    menus = instance.menus()
    # The least that a job takes of a resource for a unit of its work, shape (J, R).
    least = np.minimum.reduceat(menus.usage / menus.speed[:, None], menus.first[:-1])
    # Of each job TOLERANCE (W_j + v_j T) + ROUNDING v_j (min r + T) of work may be missing, where T is the
    # makespan and v_j its best speed.
    missed = menus.best_speed @ least
    work = (1 - TOLERANCE) * (menus.work @ least) - ROUNDING * first * missed
    room = (1 + 2 * TOLERANCE) * most + (TOLERANCE + ROUNDING) * missed
    used = most > 0
    return max(0.0, longest, float((work[used] / room[used]).max(initial=0.0)))
