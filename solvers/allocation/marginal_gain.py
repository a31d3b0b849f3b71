"""Marginal allocation (Fox 1966): the heuristic of Optimus (EuroSys'18, section 4.2), with a priority queue.

The gain of one more task is computed for every configuration before the first task is given: gains are
columns beside the configuration table, and the queue only picks.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...formulations.allocation.configurations import BUDGET, UNPLACED, Configurations, Shorts, task_demands
from ...formulations.allocation.formulation import AllocationFormulation
from ...formulations.common.clock import check_time
from ...instances.allocation.job_table import TABLE, JobTable
from ...instances.common.arrays import Floats, Ints
from ...instances.common.errors import OutOfTimeError
from ..common.base import Clock, MethodOption, Outcome, Solver
from ..common.options import SolveOptions


@dataclass(frozen=True)
class MarginalGainSettings:
    """Constants of the heuristic.

    Attributes
    ----------
    beginning_trust
        Factor on the gains of jobs that have only just begun, whose speed is a first fit.
    last_resort_s
        What a first plan of another method may take even where the time is up.
    steps_between_clock_checks
        The clock is read once in so many steps.
    """

    beginning_trust: float = 0.95
    last_resort_s: float = 1.0
    steps_between_clock_checks: int = 4096


SETTINGS = MarginalGainSettings()


class MarginalGain(Solver[AllocationFormulation]):
    """Give one task at a time to the job that gains most per unit of the task's dominant resource.

    Every job starts at its smallest configuration of its fastest fitting variant; optional jobs that do
    not fit are left out. A parameter server wins ties; a measured configuration steps to the next listed one.

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
        ended = _give_tasks(
            configs,
            _steps(formulation, self.joint),
            chosen,
            used,
            self.setting(options, "stop_at_first_misfit"),
            clock,
        )
        return Outcome(formulation.plan_of(chosen), limit="none" if ended else "time", build_s=build_s)


def choose_by_gain(formulation: AllocationFormulation, clock: Clock) -> Ints | None:
    """Return the configurations that marginal gain picks in the time that is left, or in a second.

    Returns
    -------
    chosen
        Index of the configuration of each job; None if there was no plan in time.
    """
    left = clock.remaining_s
    patience = Clock(None if left is None else max(left, SETTINGS.last_resort_s))
    try:
        with patience.enforced():
            plan = MarginalGain().solve(formulation, SolveOptions(), patience).plan
    except OutOfTimeError:
        return None
    return None if plan is None else formulation.indices_of(plan)


def _shares(configs: Configurations, demand: Floats) -> Floats:
    """Return the share of each resource that a demand takes; -1 for the hourly budget, which is none."""
    capacity = np.where(configs.capacity > 0, configs.capacity, np.inf)
    return np.where([name != BUDGET for name in configs.resources], demand / capacity, -1.0)


def _smallest(configs: Configurations) -> tuple[Ints, Ints]:
    """Return the smallest configuration of each variant of each job, and its job.

    Smallest is the fewest tasks, then the least dominant share; unplaced is no configuration here.
    """
    owner = configs.owner
    begin = _block_starts(owner, configs.variant)
    tasks = configs.ps + configs.workers
    fewest = np.repeat(np.minimum.reduceat(tasks, begin), np.diff([*begin, len(tasks)]))
    small = np.flatnonzero((tasks == fewest) & (configs.variant != UNPLACED))
    dominant = _shares(configs, configs.demand[small]).max(axis=1)
    small = small[np.lexsort((dominant, configs.variant[small], owner[small]))]
    small = small[_block_starts(owner[small], configs.variant[small])]
    return small, owner[small]


def _block_starts(owner: Ints, variant: Shorts) -> Ints:
    """Return where blocks of equal job and variant begin."""
    return np.flatnonzero((np.diff(owner, prepend=-1) != 0) | (np.diff(variant, prepend=0) != 0))


def _start(configs: Configurations, table: JobTable) -> tuple[list[int], list[float], int | None]:
    """Return the first configuration of each job, what all take, and the first job that has none."""
    small, owner = _smallest(configs)
    order = np.lexsort((configs.time_s[small], owner))
    small, owner = small[order], owner[order]
    begin = np.searchsorted(owner, np.arange(configs.jobs + 1)).tolist()
    candidates, demands = small.tolist(), configs.demand[small].tolist()
    unplaced = np.where(table.optional, configs.start[1:] - 1, -1).tolist()
    limit, used = configs.limit.tolist(), [0.0] * len(configs.resources)
    chosen: list[int] = []
    # In the order of the jobs, as the paper does; later jobs may not fit beside earlier ones.
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


class _Entry(NamedTuple):
    """A step in the queue: `addition` says which tasks are added, `start` to which configuration."""

    negative_gain: float
    job: int
    addition: int
    start: int


@dataclass(frozen=True)
class _Steps:
    """The step that adds the same tasks to every configuration: where it leads, and its gain (0: none).

    Attributes
    ----------
    to, gain
        Shape (K,): index of a configuration, and weighted seconds saved per unit of the dominant resource.
    """

    to: Ints
    gain: Floats


def _steps(formulation: AllocationFormulation, joint: bool) -> list[_Steps]:
    """Return the steps by one parameter server, by one worker and, if `joint`, by both."""
    configs, table = formulation.configurations, formulation.table
    trust = np.where(table.beginning, SETTINGS.beginning_trust, 1.0)
    if formulation.instance.objective != "makespan":
        trust = trust * table.weight
    ps_demand, worker_demand = task_demands(formulation.instance, table)
    additions = [(1, 0, _dominant(configs, ps_demand)), (0, 1, _dominant(configs, worker_demand))]
    if joint:
        additions.append((1, 1, _dominant(configs, ps_demand + worker_demand)))
    found: list[list[_Steps]] = [[] for _ in additions]
    for first, part in configs.parts():
        check_time()
        owner, begin = first + part.owner, int(configs.start[first])
        variant = table.first_variant[owner] + part.variant
        is_table = (table.model[variant] == TABLE) & (part.variant != UNPLACED)
        steps = []
        for more_ps, more_workers, amount in additions:
            to = _neighbour(part, variant, more_ps, more_workers)
            to[is_table] = -1
            steps.append(_gains(part, to, amount[variant], trust[owner]))
        _list_steps(part, steps[0], variant, is_table, trust[owner])
        for parts, own in zip(found, steps, strict=True):
            parts.append(_Steps(np.where(own.to < 0, own.to, begin + own.to), own.gain))
    return [
        _Steps(np.concatenate([own.to for own in parts]), np.concatenate([own.gain for own in parts]))
        for parts in found
    ]


def _dominant(configs: Configurations, per_task: Floats) -> Floats:
    """Return what one more task of each variant takes of its dominant resource, shape (V,)."""
    amount: Floats = per_task[np.arange(len(per_task)), _shares(configs, per_task).argmax(axis=1)]
    return amount


def _neighbour(configs: Configurations, variant: Ints, more_ps: int, more_workers: int) -> Ints:
    """Return the index of (p + more_ps, w + more_workers) of the same variant; -1 where there is none."""
    placed = np.flatnonzero(configs.variant != UNPLACED)
    # One integer for (variant, w, p), rising with the index, so that neighbours are found by bisection.
    widest, most = int(configs.workers.max()) + 2, int(configs.ps.max()) + 2
    key = (variant[placed] * widest + configs.workers[placed]) * most + configs.ps[placed]
    wanted = key + more_workers * most + more_ps
    place = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    to = np.full(len(variant), -1)
    to[placed] = np.where(key[place] == wanted, placed[place], -1)
    return to


def _gains(configs: Configurations, to: Ints, amount: Floats, trust: Floats) -> _Steps:
    """Return steps with their gains: seconds saved, weighted, per unit of the dominant resource."""
    drop = np.where(to >= 0, trust * (configs.time_s - configs.time_s[to]), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(amount > 0, drop / amount, np.inf)
    return _Steps(to, np.where(drop > 0, gain, 0.0))


def _list_steps(configs: Configurations, steps: _Steps, variant: Ints, is_table: Any, trust: Floats) -> None:
    """Replace the steps of measured configurations: each leads to the next one that is listed."""
    # Listed configurations need not differ by one task, so that the gain is per unit of what they add.
    here = np.flatnonzero(is_table[:-1] & (variant[1:] == variant[:-1]) & (configs.variant[1:] != UNPLACED))
    more = configs.demand[here + 1] - configs.demand[here]
    dominant = _shares(configs, more).argmax(axis=1)
    amount = np.zeros(len(variant))
    amount[here] = more[np.arange(len(here)), dominant]
    steps.to[here] = here + 1
    listed = _gains(configs, steps.to, amount, trust)
    steps.gain[here] = listed.gain[here]


class GainQueue:
    """Possible steps of all jobs, the largest gain first; ties go to the first job, then the first step.

    Parameters
    ----------
    steps
        Steps by each addition of tasks.
    chosen
        Index of the configuration of each job; the caller changes it before `push`.
    """

    def __init__(self, steps: Sequence[_Steps], chosen: Sequence[int]) -> None:
        self._steps, self._chosen = steps, chosen
        self._heap: list[_Entry] = []
        self._misfits: list[_Entry] = []
        current = np.array(chosen)
        for addition, step in enumerate(steps):
            jobs = np.flatnonzero(step.gain[current] > 0)
            own = current[jobs]
            columns = (-step.gain[own]).tolist(), jobs.tolist(), [addition] * len(jobs), own.tolist()
            self._heap += map(_Entry, *columns)
        heapq.heapify(self._heap)

    def push(self, job: int) -> None:
        """Add the steps from the configuration that a job has now."""
        index = self._chosen[job]
        for addition, step in enumerate(self._steps):
            gain = float(step.gain[index])
            if gain > 0:
                heapq.heappush(self._heap, _Entry(-gain, job, addition, index))

    def pop(self) -> _Entry | None:
        """Return the step of the largest gain; None if there is none."""
        while self._heap:
            entry = heapq.heappop(self._heap)
            # Others start from a former configuration of the job.
            if self._chosen[entry.job] == entry.start:
                return entry
        return None

    def set_aside(self, entry: _Entry) -> None:
        """Keep a step that does not fit until `requeue`."""
        self._misfits.append(entry)

    def requeue(self) -> None:
        """Add the steps that were set aside again."""
        for entry in self._misfits:
            heapq.heappush(self._heap, entry)
        self._misfits.clear()

    def target(self, entry: _Entry) -> int:
        """Return the index of the configuration to which a step leads."""
        return int(self._steps[entry.addition].to[entry.start])


def _give_tasks(
    configs: Configurations,
    steps: list[_Steps],
    chosen: list[int],
    used: list[float],
    stop_early: bool,
    clock: Clock,
) -> bool:
    """Give tasks in the order of their gains, in place; return whether it ended before the time was up."""
    limit, demand = configs.limit.tolist(), configs.demand
    queue, count = GainQueue(steps, chosen), 0
    while (entry := queue.pop()) is not None:
        if count % SETTINGS.steps_between_clock_checks == 0 and clock.expired:
            return False
        count += 1
        to = queue.target(entry)
        before, after = demand[entry.start].tolist(), demand[to].tolist()
        total = [u - b + a for u, b, a in zip(used, before, after, strict=True)]
        if all(t <= c for t, c in zip(total, limit, strict=True)):
            used[:] = total
            chosen[entry.job] = to
            queue.push(entry.job)
            # A measured configuration may take less of a resource, so that a misfit may fit now.
            if any(a < b for a, b in zip(after, before, strict=True)):
                queue.requeue()
        elif stop_early:
            return True
        else:
            queue.set_aside(entry)
    return True
