"""Fairness policies: max-min fairness (Gavel), finish-time fairness (Themis), and shares of tenants.

Max-min fairness of Gavel: shares of time that make the least normalised throughput largest, in rounds.
Narayanan et al., Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads, OSDI'20,
sections 4.1 and 5. X_jk is the share of time in which job j runs in configuration k. Its normalised
throughput is

    f_j(X) = Σ_k X_jk v_k × s_j / (v_j ω_j)

where v_j and s_j are speed and dominant share of the cluster of what is requested: for a rigid job it is the
share of the cluster that the job has on average. The policy maximises min_j f_j, then Σ_j f_j with at least
that, subject to Σ_k X_jk ≤ 1 and Σ_jk X_jk a_kr ≤ C_r. Rigid jobs on one resource need no program: the same
level of water for all, except where a job cannot have so much. Otherwise HiGHS solves the linear programs.

Shares are computed when jobs arrive or end. In each round jobs and configurations are served in descending
order of due over received time, where the shares give the time that is due until the round's end. (Gavel
resets both from time to time, and carries over what is missing.)

Themis: GPUs for a lease go to the jobs with the worst finish-time fairness. Mahajan et al., Themis: Fair and
Efficient GPU Cluster Scheduling, NSDI'20. ρ = shared / isolated finish time: the time since the arrival and
the remaining time in the requested configuration, over the time for the work on a 1/n share of the cluster,
where n jobs are present. What is free when leases end is offered to the worst share 1 − f of the jobs, in
descending order of ρ while gangs fit, ties by arrival. The rest goes to the other jobs, first to those that
ran, so that it is not idle. This is a simplification: there is no auction, and jobs cannot misreport.
"""

from __future__ import annotations

import bisect
from contextlib import suppress
from typing import Any

import numpy as np

from ....instances.common.arrays import Floats, Ints, rows_of_runs
from ....instances.common.errors import ClusterplanError
from ..view import Knowledge, View
from .contract import SLACK, TIME_TOLERANCE, Policy, admit

KEPT_SHARE = 1 - 1e-7
"""Share of the largest minimum that the second linear program keeps."""
LEAST_WEIGHT = 1e-3
"""Least weight that counts, relative to the largest, since throughputs are divided by weights."""


class MaxMin(Policy):
    """Max-min fairness of Gavel: serves in each round the jobs furthest behind their fair shares of time.

    Parameters
    ----------
    round_s
        Length of a round in seconds.
    """

    knows = Knowledge.SPEEDS
    preempts = True

    def __init__(self, round_s: float) -> None:
        self.round_s = round_s

    def begin(self, view: View) -> None:
        """Initialise the policy: all shares of time, due and received times are 0."""
        super().begin(view)
        self._share, self._due_s, self._received_s = np.zeros((3, len(view.usage)))
        self._known: tuple[Ints, Floats] = (np.zeros(0, dtype=np.int64), np.zeros(0))
        self._before_s = 0.0
        self._asked_s = -1.0

    def choose(self, view: View) -> Ints:
        """Return the configurations of jobs in descending order of due over received time, while they fit."""
        jobs, free = view.jobs, view.free
        running = view.row[view.row >= 0]
        passed_s = view.now_s - self._before_s
        self._received_s[running] += passed_s
        self._due_s += self._share * passed_s
        self._before_s = view.now_s
        again, self._asked_s = view.now_s == self._asked_s, view.now_s
        # A second query at one moment means that jobs cannot be placed; their share stays due.
        if not again and not (np.array_equal(jobs, self._known[0]) and np.array_equal(free, self._known[1])):
            self._known = (jobs, free)
            self._divide(jobs, free)
        rows, owner = self._menus(jobs)
        due_s = self._due_s[rows] + self._share[rows] * self.round_s
        # Rows without received time come first, by their share. Rows without a share fill the rest.
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(self._share[rows] > 0, due_s / self._received_s[rows], -1.0)
        order = np.lexsort((-self._share[rows], -ratio))
        rows, owner = rows[order], owner[order]
        served = admit(view.usage[rows], free, view.capacity, owner)
        # Jobs are placed in the order of their first configurations, whichever they get.
        first = np.unique(owner, return_index=True)[1]
        return rows[served][np.argsort(first[owner[served]])]

    def _menus(self, jobs: Ints) -> tuple[Ints, Ints]:
        """Return the configurations of the given jobs, and the place of the job of each."""
        return rows_of_runs(self.view.first[jobs], self.view.first[jobs + 1])

    def _divide(self, jobs: Ints, free: Floats) -> None:
        """Recompute the max-min fair share of time of each configuration of the given jobs."""
        view = self.view
        self._share[:] = 0
        if not len(jobs):
            return
        requested = view.requested[jobs]
        wide = view.shares(view.usage[requested])
        weight = view.weight[jobs]
        most = float(weight.max())
        weight = np.maximum(weight, LEAST_WEIGHT * most) if most > 0 else np.ones(len(jobs))
        rows, owner = self._menus(jobs)
        if len(rows) == len(jobs) and view.usage.shape[1] == 1:
            room = float(free[0] / view.capacity[0]) if view.capacity[0] > 0 else 0.0
            self._share[requested] = water_filling(wide, weight, room) / wide
            return
        gain = view.speed[rows] * (wide / (view.speed[requested] * weight))[owner]
        self._share[rows] = max_min_shares(gain, view.usage[rows], owner, free)


def water_filling(most: Floats, weight: Floats, room: float) -> Floats:
    """Return the shares min(most_j, level × weight_j) with sum `room`, or `most` if its sum is no larger.

    Water-filling: jobs are full in the order of most_j / weight_j.
    """
    if most.sum() <= room:
        return most.copy()
    order = np.argsort(most / weight, kind="stable")
    filled = np.concatenate([[0.0], np.cumsum(most[order])[:-1]])
    wet = np.cumsum(weight[order][::-1])[::-1]
    level = (room - filled) / wet
    # The first whose own limit lies above the level that is left for it and all that follow.
    first = int(np.argmax(most[order] / weight[order] > level))
    return np.asarray(np.minimum(most, level[first] * weight))


def max_min_shares(gain: Floats, usage: Floats, owner: Ints, free: Floats) -> Floats:
    """Return the share of time X_jk of each configuration by max-min fairness (two LPs), shape (K,).

    Parameters
    ----------
    gain
        Normalised throughput of the job for a unit of time in each configuration, shape (K,).
    usage
        Resource usage of each configuration, shape (K, R).
    owner
        The job of each configuration, from 0, shape (K,).
    free
        C, shape (R,).
    """
    # Loaded where it is needed: most commands do without.
    from scipy.sparse import bmat, csr_matrix

    count, jobs = len(gain), int(owner[-1]) + 1
    # Figures near the largest floats are all the same here.
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        gain = np.nan_to_num(gain / gain.max(), nan=1.0, posinf=1.0)
        share = usage / np.where(free > 0, free, 1.0)
    too_much = (usage > free * (1 + SLACK)).any(axis=1)
    share[too_much] = 0.0
    # Variables: X, then the least throughput. What never fits has no time.
    least, most = np.zeros(count + 1), np.append(np.where(too_much, 0.0, 1.0), np.inf)
    place = owner, np.arange(count)
    throughput, time = csr_matrix((-gain, place)), csr_matrix((np.ones(count), place))
    matrix = bmat([[throughput, np.ones((jobs, 1))], [time, None], [share.T, None]], format="csr")
    right = np.concatenate([np.zeros(jobs), np.ones(jobs), np.where(free > 0, 1.0, 0.0)])
    solution = _solve_lp(np.append(np.zeros(count), -1.0), matrix, right, least, most)
    # Rounding must leave the second program feasible. Where gains lie so far apart that it does not, the
    # shares of the first one are fair.
    least[-1] = KEPT_SHARE * solution[-1]
    with suppress(ClusterplanError):
        solution = _solve_lp(np.append(-gain, 0.0), matrix, right, least, most)
    return np.clip(solution[:count], 0, 1)


def _solve_lp(aim: Floats, matrix: Any, right: Floats, least: Floats, most: Floats) -> Floats:
    """Return the minimiser of the linear program min aim·x subject to matrix·x ≤ right within bounds of x."""
    from scipy.optimize import linprog

    bounds = np.column_stack([least, most])
    answer: Any = linprog(aim, A_ub=matrix, b_ub=right, bounds=bounds, method="highs")
    if not answer.success:
        raise ClusterplanError(f"the program of the fair shares was not solved: {answer.message}")
    return np.asarray(answer.x)


class Themis(Policy):
    """Finish-time fairness of Themis: gives leases in requested configurations to the worst-treated jobs.

    Parameters
    ----------
    round_s
        Length of a lease.
    fairness
        f, from 0 to 1: at 0 free resources are offered to all jobs, at 1 to the worst one alone.
    """

    knows = Knowledge.PROGRESS
    preempts = True
    reacts = True

    def __init__(self, round_s: float, fairness: float = 0.8) -> None:
        self.round_s, self._fairness = round_s, fairness

    def begin(self, view: View) -> None:
        """Initialise the policy: no job has a lease."""
        super().begin(view)
        self._leased_s: Floats = np.zeros(len(view.row))

    def choose(self, view: View) -> Ints:
        """Return the requested configuration of each job that runs.

        Leased jobs come first, then those with the worst finish-time fairness, then the others.
        """
        jobs = view.jobs
        rows = view.requested[jobs]
        runs = view.row[jobs] >= 0
        leased = runs & (self._leased_s[jobs] > view.now_s * (1 + TIME_TOLERANCE))
        worst = self.worst(jobs, self.ratios(jobs))
        rank = np.where(leased, 0.0, np.where(worst >= 0, 1.0, np.where(runs, 2.0, 3.0)))
        order = np.lexsort((worst, rank))
        served = order[admit(view.usage[rows[order]], view.free, view.capacity)]
        renewed = served[~leased[served]]
        self._leased_s[jobs[renewed]] = view.now_s + self.round_s
        return rows[served]

    def again_s(self) -> float:
        """Return the earliest end of a running job's lease in seconds, infinite without one."""
        view = self.view
        leased = self._leased_s[view.running]
        return float(leased[leased > view.now_s * (1 + TIME_TOLERANCE)].min(initial=np.inf))

    def ratios(self, jobs: Ints) -> Floats:
        """Return the finish-time fairness ρ of jobs: shared over isolated finish time, shape (jobs,)."""
        view = self.view
        rows = view.requested[jobs]
        speed = view.speed[rows]
        alone = view.work[jobs] / speed * np.maximum(view.shares(view.usage[rows]) * len(jobs), 1.0)
        shared = view.now_s - view.arrival_s[jobs] + view.left[jobs] / speed
        return shared / alone

    def worst(self, jobs: Ints, ratio: Floats) -> Ints:
        """Return the rank from 0 of each job in the share 1 − f with the largest ρ, −1 for the others."""
        count = max(1, int(np.ceil((1 - self._fairness) * len(jobs) - TIME_TOLERANCE)))
        place = np.full(len(jobs), -1)
        place[np.argsort(-ratio, kind="stable")[:count]] = np.arange(min(count, len(jobs)))
        return place


class TenantQueues(Policy):
    """Starts the first queued job of the tenant with the least dominant share (DRF, or YARN capacity).

    A job that does not fit blocks the queue of its tenant.

    The share of a tenant is the dominant share of the usage of its jobs, over its guaranteed share if these
    count. Spare capacity may be borrowed, and there is no preemption. Jobs without a tenant have one queue.

    Parameters
    ----------
    guaranteed
        Whether the guaranteed shares count. Without them this is dominant resource fairness with queues
        (Ghodsi et al., NSDI'11), with them the capacity scheduler of Hadoop YARN.
    """

    def __init__(self, guaranteed: bool) -> None:
        self._guaranteed = guaranteed

    def begin(self, view: View) -> None:
        """Initialise the policy with an empty queue for each tenant, and one for jobs without a tenant."""
        super().begin(view)
        tenants = len(view.tenant_shares)
        self._share: Floats = np.append(view.tenant_shares if self._guaranteed else np.ones(tenants), 1.0)
        self._queues: list[list[int]] = [[] for _ in self._share]

    def arrived(self, jobs: Ints) -> None:
        """Append arriving jobs to the queues of their tenants."""
        for j in jobs.tolist():
            self._queues[self.view.tenant[j]].append(j)

    def choose(self, view: View) -> Ints:
        """Return the queued jobs that start now, in order."""
        free, slack = view.free.copy(), SLACK * view.capacity
        used = np.zeros((len(self._queues), len(free)))
        held = view.running[view.held]
        np.add.at(used, view.tenant[held], view.demand[held])  # −1, for no tenant, is the last row
        queues = {t: iter(queue) for t, queue in enumerate(self._queues) if queue}
        heads = {t: next(queue) for t, queue in queues.items()}
        chosen: list[int] = []
        while heads:
            has = self._has(used)
            t = min(heads, key=lambda t: (has[t], heads[t]))
            j = heads.pop(t)
            if not (view.demand[j] <= free + slack).all():
                continue
            free -= view.demand[j]
            used[t] += view.demand[j]
            chosen.append(j)
            after = next(queues[t], None)
            if after is not None:
                heads[t] = after
        return np.array(chosen, dtype=np.int64)

    def switched(self, stopped: Ints, started: Ints) -> None:
        """Remove started jobs from the queues of their tenants; insert evicted ones again by arrival."""
        for j in started.tolist():
            queue = self._queues[self.view.tenant[j]]
            del queue[bisect.bisect_left(queue, j)]
        for j in stopped.tolist():
            bisect.insort(self._queues[self.view.tenant[j]], j)

    def _has(self, used: Floats) -> Floats:
        capacity = self.view.capacity
        shares = np.divide(used, capacity, out=np.zeros(used.shape), where=capacity > 0)
        return np.asarray(shares.max(axis=1) / self._share)
