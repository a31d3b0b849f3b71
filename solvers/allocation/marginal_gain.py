"""Marginal gain, the heuristic of Optimus (EuroSys'18, section 4.2), on a heap.

What one more task brings is known for every configuration before the first one is given: the gains are
columns beside the configs, and the heap only picks.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...formulations.allocation.configurations import BUDGET, UNPLACED, Configurations, task_demands
from ...formulations.allocation.formulation import AllocationFormulation
from ...formulations.common.clock import check_time
from ...instances.allocation.job_table import TABLE, JobTable
from ...instances.common.arrays import Floats, Ints
from ...instances.common.errors import OutOfTimeError
from ..common.base import Clock, MethodOption, Outcome, Solver
from ..common.options import SolveOptions

EARLY = 0.95
"""Gains of jobs that have only just begun are trusted this much: their speed is a first fit."""
GRACE_S = 1.0
"""What a first plan may take even where the time is up."""
CLOCK_EVERY = 4096
"""Steps between two looks at the clock."""


class MarginalGain(Solver[AllocationFormulation]):
    """Give one task at a time to the job that gains most per unit of the task's dominant resource.

    Every job starts at its smallest configuration of its fastest fitting variant; optional jobs that do
    not fit are left out. A parameter server wins ties; a table steps to its next listed configuration.

    Parameters
    ----------
    joint
        Also offer a parameter server and a worker together: their gains are coupled, and each alone
        may bring nothing.
    """

    kinds = ("allocation",)
    method_options: ClassVar[Mapping[str, MethodOption]] = {
        "stop_at_first_misfit": MethodOption(
            False, "stop as soon as the best task does not fit, as the released code"
        )
    }

    def __init__(self, joint: bool = False) -> None:
        self.joint = joint
        self.name = "marginal-gain-joint" if joint else "marginal-gain"
        beyond = ", or one of each" if joint else ""
        self.what = f"the paper's heuristic: one task at a time where it helps most{beyond} (Optimus)"

    def solve(self, formulation: AllocationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Start every job, then give tasks until nothing fits or gains."""
        configs, table = formulation.configurations, formulation.table
        build_s = clock.elapsed_s
        chosen, used, stuck = _start(configs, table)
        if stuck is not None:
            what = f"marginal gain: job {table.names[stuck]!r} does not fit beside the jobs before it"
            return Outcome(message=what, build_s=build_s)
        ended = _give(
            configs,
            _steps(formulation, self.joint),
            chosen,
            used,
            self.setting(options, "stop_at_first_misfit"),
            clock,
        )
        return Outcome(formulation.plan_of(chosen), limit="none" if ended else "time", build_s=build_s)


def choose_by_gain(formulation: AllocationFormulation, clock: Clock) -> Ints | None:
    """Return the rows of the menu that marginal gain picks in what is left, or in a second; None if none."""
    left = clock.remaining_s
    patience = Clock(None if left is None else max(left, GRACE_S))
    try:
        with patience.enforced():
            plan = MarginalGain().solve(formulation, SolveOptions(), patience).plan
    except OutOfTimeError:
        return None
    return None if plan is None else formulation.indices_of(plan)


def _shares(configs: Configurations, demand: Floats) -> Floats:
    """Return the share of each real resource that a demand takes; the hourly budget is none."""
    capacity = np.where(configs.capacity > 0, configs.capacity, np.inf)
    return np.where([name != BUDGET for name in configs.resources], demand / capacity, -1.0)


def _smallest(configs: Configurations) -> tuple[Ints, Ints]:
    """Return the smallest configuration of each variant of each job, and which job it is of.

    Smallest is the fewest tasks, then the least dominant share; unplaced is no configuration here.
    """
    owner = configs.owner
    first = np.ones(len(owner), dtype=bool)
    first[1:] = (np.diff(owner) != 0) | (np.diff(configs.variant) != 0)
    begin = np.flatnonzero(first)
    tasks = configs.ps + configs.workers
    fewest = np.repeat(np.minimum.reduceat(tasks, begin), np.diff([*begin, len(tasks)]))
    rows = np.flatnonzero((tasks == fewest) & (configs.variant != UNPLACED))
    dominant = _shares(configs, configs.demand[rows]).max(axis=1)
    rows = rows[np.lexsort((dominant, configs.variant[rows], owner[rows]))]
    once = np.ones(len(rows), dtype=bool)
    once[1:] = (np.diff(owner[rows]) != 0) | (np.diff(configs.variant[rows]) != 0)
    return rows[once], owner[rows[once]]


def _start(configs: Configurations, table: JobTable) -> tuple[list[int], list[float], int | None]:
    """Return each job's first configuration and what all take, or the first job that gets none."""
    rows, owner = _smallest(configs)
    order = np.lexsort((configs.time_s[rows], owner))
    rows, owner = rows[order], owner[order]
    begin = np.searchsorted(owner, np.arange(configs.jobs + 1)).tolist()
    candidates, demands = rows.tolist(), configs.demand[rows].tolist()
    unplaced = np.where(table.optional, configs.start[1:] - 1, -1).tolist()
    limit, used = configs.limit.tolist(), [0.0] * len(configs.resources)
    chosen: list[int] = []
    for j in range(configs.jobs):
        pick = unplaced[j]
        for i in range(begin[j], begin[j + 1]):
            after = [u + d for u, d in zip(used, demands[i], strict=True)]
            if all(a <= c for a, c in zip(after, limit, strict=True)):
                pick, used = candidates[i], after
                break
        if pick < 0:
            return chosen, used, j
        chosen.append(pick)
    return chosen, used, None


@dataclass(frozen=True)
class _Steps:
    """One kind of step from every configuration: to which row it leads, and its gain (0: none).

    Attributes
    ----------
    to, gain
        Shape (K,): row of the configs, and weighted seconds saved per unit of the dominant resource.
    """

    to: Ints
    gain: Floats


def _steps(formulation: AllocationFormulation, joint: bool) -> list[_Steps]:
    """Return the steps by one parameter server, by one worker and, if asked, by both."""
    configs, table = formulation.configurations, formulation.table
    trust = np.where(table.beginning, EARLY, 1.0)
    if formulation.instance.objective != "makespan":
        trust = trust * table.weight
    ps_demand, worker_demand = task_demands(formulation.instance, table)
    kinds = [(1, 0, _dominant(configs, ps_demand)), (0, 1, _dominant(configs, worker_demand))]
    if joint:
        kinds.append((1, 1, _dominant(configs, ps_demand + worker_demand)))
    found: list[list[_Steps]] = [[] for _ in kinds]
    for first, part in configs.parts():
        check_time()
        owner, begin = first + part.owner, int(configs.start[first])
        variant = table.first_variant[owner] + part.variant
        is_table = (table.model[variant] == TABLE) & (part.variant != UNPLACED)
        steps = []
        for more_ps, more_workers, amount in kinds:
            to = _neighbour(part, variant, more_ps, more_workers)
            to[is_table] = -1
            steps.append(_gains(part, to, amount[variant], trust[owner]))
        _list_steps(part, steps[0], variant, is_table, trust[owner])
        for kind, own in zip(found, steps, strict=True):
            kind.append(_Steps(np.where(own.to < 0, own.to, begin + own.to), own.gain))
    return [
        _Steps(np.concatenate([own.to for own in kind]), np.concatenate([own.gain for own in kind]))
        for kind in found
    ]


def _dominant(configs: Configurations, per_task: Floats) -> Floats:
    """Return what one more task of each variant takes of its dominant resource, shape (V,)."""
    amount: Floats = per_task[np.arange(len(per_task)), _shares(configs, per_task).argmax(axis=1)]
    return amount


def _neighbour(configs: Configurations, variant: Ints, more_ps: int, more_workers: int) -> Ints:
    """Return the row of (p + more_ps, w + more_workers) of the same variant; -1 where it is not listed."""
    placed = np.flatnonzero(configs.variant != UNPLACED)
    widest, most = int(configs.workers.max()) + 2, int(configs.ps.max()) + 2
    key = (variant[placed] * widest + configs.workers[placed]) * most + configs.ps[placed]
    wanted = key + more_workers * most + more_ps
    place = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    to = np.full(len(variant), -1)
    to[placed] = np.where(key[place] == wanted, placed[place], -1)
    return to


def _gains(configs: Configurations, to: Ints, amount: Floats, trust: Floats) -> _Steps:
    drop = np.where(to >= 0, trust * (configs.time_s - configs.time_s[to]), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(amount > 0, drop / amount, np.inf)
    return _Steps(to, np.where(drop > 0, gain, 0.0))


def _list_steps(configs: Configurations, steps: _Steps, variant: Ints, is_table: Any, trust: Floats) -> None:
    """Let a measured configuration step to the next one that is listed."""
    here = np.flatnonzero(is_table[:-1] & (variant[1:] == variant[:-1]) & (configs.variant[1:] != UNPLACED))
    more = configs.demand[here + 1] - configs.demand[here]
    dominant = _shares(configs, more).argmax(axis=1)
    amount = np.zeros(len(variant))
    amount[here] = more[np.arange(len(here)), dominant]
    steps.to[here] = here + 1
    listed = _gains(configs, steps.to, amount, trust)
    steps.gain[here] = listed.gain[here]


def _give(
    configs: Configurations,
    steps: list[_Steps],
    chosen: list[int],
    used: list[float],
    stop_early: bool,
    clock: Clock,
) -> bool:
    """Give tasks in the order of their gains, in place; return whether it ended before the time was up."""
    limit, demand = configs.limit.tolist(), configs.demand
    gains, targets = [kind.gain for kind in steps], [kind.to for kind in steps]
    heap: list[tuple[float, int, int, int]] = []
    rows = np.array(chosen)
    for order, gain in enumerate(gains):
        jobs = np.flatnonzero(gain[rows] > 0)
        heap += zip(
            (-gain[rows[jobs]]).tolist(), jobs.tolist(), [order] * len(jobs), rows[jobs].tolist(), strict=True
        )
    heapq.heapify(heap)
    waiting: list[tuple[float, int, int, int]] = []
    count = 0
    while heap:
        if count % CLOCK_EVERY == 0 and clock.expired:
            return False
        count += 1
        offer = heapq.heappop(heap)
        _, job, order, row = offer
        if chosen[job] != row:
            continue  # the offer was made before the job's last step
        to = int(targets[order][row])
        before, after = demand[row].tolist(), demand[to].tolist()
        total = [u - b + a for u, b, a in zip(used, before, after, strict=True)]
        if all(t <= c for t, c in zip(total, limit, strict=True)):
            used[:] = total
            chosen[job] = to
            for kind, gain in enumerate(gains):
                more = float(gain[to])
                if more > 0:
                    heapq.heappush(heap, (-more, job, kind, to))
            if any(a < b for a, b in zip(after, before, strict=True)):
                # A measured configuration may take less of a resource than the one before it.
                for held in waiting:
                    heapq.heappush(heap, held)
                waiting.clear()
        elif stop_early:
            return True
        else:
            waiting.append(offer)
    return True
