"""Heuristics of allocation: marginal gains (Fox 1966; Optimus), and rounding of dual prices to a plan.

Marginal allocation (Fox 1966): the heuristic of Optimus (EuroSys'18, section 4.2), with a priority queue. The
gain of one more task is computed for every configuration before the first task is given: gains are columns
beside the configuration table, and the queue only picks.

From dual prices to a plan: raise the prices until the choice keeps the limits, then improve locally. At the
best prices the least-cost items of all jobs together overfill some limits by little, because at most R jobs
are fractional in a basic solution of the relaxation (Sinha & Zoltners 1979). A small rise of all prices mends
that; exchanges of single jobs, then of pairs of jobs, use the capacity that it leaves.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, ClassVar

import numpy as np

from ...formulations.allocation.configurations import BUDGET, UNPLACED, Configurations, Shorts, task_demands
from ...formulations.allocation.formulation import AllocationFormulation
from ...formulations.common.clock import check_time
from ...instances.allocation.job_table import TABLE, JobTable
from ...instances.common.arrays import Floats, Ints
from ...instances.common.errors import OutOfTimeError
from ..common.base import Clock, MethodOption, Outcome, Solver
from ..common.result import SolveOptions
from .lagrangian import MultipleChoice

BEGINNING_TRUST = 0.95
"""Factor on the gains of jobs that have only just begun, whose speed is a first fit."""
LAST_RESORT_S = 1.0
"""Seconds that a first plan for another method may take even where the time is up."""
STEPS_BETWEEN_CLOCK_CHECKS = 4096
"""The clock is read once in so many steps."""


class MarginalGain(Solver[AllocationFormulation]):
    """Marginal-gain heuristic: one task at a time, to the largest saving per unit of its dominant resource.

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
        """Start every job in a smallest configuration; add tasks until none fits or has positive gain."""
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
    """Return the marginal-gain heuristic's choice of a configuration per job, within the remaining time.

    It takes a second where less is left.

    Returns
    -------
    chosen
        Index of the configuration of each job; None if there was no plan in time.
    """
    left = clock.remaining_s
    patience = Clock(None if left is None else max(left, LAST_RESORT_S))
    try:
        with patience.enforced():
            plan = MarginalGain().solve(formulation, SolveOptions(), patience).plan
    except OutOfTimeError:
        return None
    return None if plan is None else formulation.indices_of(plan)


def _shares(configs: Configurations, demand: Floats) -> Floats:
    """Return the share of each resource's capacity that demands take; −1 for the hourly budget."""
    capacity = np.where(configs.capacity > 0, configs.capacity, np.inf)
    return np.where([name != BUDGET for name in configs.resources], demand / capacity, -1.0)


def _smallest(configs: Configurations) -> tuple[Ints, Ints]:
    """Return the smallest configuration (fewest tasks) of each variant of each job, and the job of each.

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
    """Return the indices at which blocks of equal job and variant begin in the configuration table."""
    return np.flatnonzero((np.diff(owner, prepend=-1) != 0) | (np.diff(variant, prepend=0) != 0))


def _start(configs: Configurations, table: JobTable) -> tuple[list[int], list[float], int | None]:
    """Return the initial configuration of each job, their total demand, and the first job that misfits."""
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


@dataclass(frozen=True)
class _Steps:
    """Enlargements of every configuration by additions of tasks: what results, and the marginal gain.

    A gain of 0 means that there is none.

    Attributes
    ----------
    to, gain
        Shape (additions, K): index of a configuration, and weighted seconds saved per unit of the dominant
        resource.
    """

    to: Ints
    gain: Floats


def _steps(formulation: AllocationFormulation, joint: bool) -> _Steps:
    """Return every configuration's enlargements by a parameter server, a worker and, if `joint`, both."""
    configs, table = formulation.configurations, formulation.table
    trust = np.where(table.beginning, BEGINNING_TRUST, 1.0)
    if not formulation.is_makespan:
        trust = trust * table.weight
    ps_demand, worker_demand = task_demands(formulation.instance, table)
    additions = [(1, 0, _dominant(configs, ps_demand)), (0, 1, _dominant(configs, worker_demand))]
    if joint:
        additions.append((1, 1, _dominant(configs, ps_demand + worker_demand)))
    shape = len(additions), len(configs.time_s)
    to, gain = np.full(shape, -1), np.zeros(shape)
    for first, part in configs.parts():
        check_time()
        owner, begin = first + part.owner, int(configs.start[first])
        variant = table.first_variant[owner] + part.variant
        is_table = (table.model[variant] == TABLE) & (part.variant != UNPLACED)
        here = slice(begin, begin + len(variant))
        own = _Steps(to[:, here], gain[:, here])
        for row, (more_ps, more_workers, amount) in enumerate(additions):
            own.to[row] = neighbour(part, variant, more_ps, more_workers)
            own.to[row, is_table] = -1
            own.gain[row] = _gains(part, own.to[row], amount[variant], trust[owner])
        _list_steps(part, own, variant, is_table, trust[owner])
        own.to[:] += begin
    return _Steps(to, gain)


def _dominant(configs: Configurations, demand: Floats) -> Floats:
    """Return what each demand takes of its dominant resource, such as that of one more task; shape (n,)."""
    amount: Floats = demand[np.arange(len(demand)), _shares(configs, demand).argmax(axis=1)]
    return amount


def neighbour(configs: Configurations, variant: Ints, more_ps: int, more_workers: int) -> Ints:
    """Return the index of the configuration with so many more tasks of the same variant, −1 without one."""
    placed = np.flatnonzero(configs.variant != UNPLACED)
    # One integer for (variant, w, p), rising with the index, so that neighbours are found by bisection.
    widest, most = int(configs.workers.max()) + 2, int(configs.ps.max()) + 2
    key = (variant[placed] * widest + configs.workers[placed]) * most + configs.ps[placed]
    wanted = key + more_workers * most + more_ps
    place = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    to = np.full(len(variant), -1)
    to[placed] = np.where(key[place] == wanted, placed[place], -1)
    return to


def _gains(configs: Configurations, to: Ints, amount: Floats, trust: Floats) -> Floats:
    """Return the marginal gains of enlargements: weighted seconds saved per unit of dominant resource."""
    drop = np.where(to >= 0, trust * (configs.time_s - configs.time_s[to]), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(amount > 0, drop / amount, np.inf)
    return np.where(drop > 0, gain, 0.0)


def _list_steps(configs: Configurations, steps: _Steps, variant: Ints, is_table: Any, trust: Floats) -> None:
    """Replace the enlargements of measured (tabulated) configurations by steps to the next in the table."""
    # Listed configurations need not differ by one task, so that the gain is per unit of what they add.
    here = np.flatnonzero(is_table[:-1] & (variant[1:] == variant[:-1]) & (configs.variant[1:] != UNPLACED))
    more = configs.demand[here + 1] - configs.demand[here]
    amount = np.zeros(len(variant))
    amount[here] = _dominant(configs, more)
    steps.to[0, here] = here + 1
    steps.gain[0, here] = _gains(configs, steps.to[0], amount, trust)[here]


_Entry = tuple[float, int, int, int]
"""An enlargement in the queue: negative marginal gain, job, addition of tasks, present configuration."""


def _queue(gains: Floats, chosen: Sequence[int]) -> list[_Entry]:
    """Return the heap of the enlargements of present configurations that have a positive marginal gain."""
    queue: list[_Entry] = []
    current = np.array(chosen)
    for addition, gain in enumerate(gains):
        jobs = np.flatnonzero(gain[current] > 0)
        own = current[jobs]
        queue += zip((-gain[own]).tolist(), jobs.tolist(), repeat(addition), own.tolist(), strict=False)
    heapq.heapify(queue)
    return queue


def _give_tasks(
    configs: Configurations,
    steps: _Steps,
    chosen: list[int],
    used: list[float],
    stop_early: bool,
    clock: Clock,
) -> bool:
    """Enlarge configurations in place by descending marginal gain; return False if the time was up.

    Of equal gains the first job's counts first, then the first addition's.
    """
    limit, demand = configs.limit.tolist(), configs.demand
    queue, misfits, count = _queue(steps.gain, chosen), list[_Entry](), 0
    while queue:
        entry = heapq.heappop(queue)
        _, job, addition, start = entry
        if chosen[job] != start:  # a former configuration of the job
            continue
        if count % STEPS_BETWEEN_CLOCK_CHECKS == 0 and clock.expired:
            return False
        count += 1
        to = int(steps.to[addition, start])
        before, after = demand[start].tolist(), demand[to].tolist()
        total = [u - b + a for u, b, a in zip(used, before, after, strict=True)]
        if all(t <= c for t, c in zip(total, limit, strict=True)):
            used[:] = total
            chosen[job] = to
            gains = enumerate(steps.gain[:, to].tolist())
            new = [(-gain, job, number, to) for number, gain in gains if gain > 0]
            # A measured configuration may take less of a resource, so that a misfit may fit now.
            if any(a < b for a, b in zip(after, before, strict=True)):
                new += misfits
                misfits.clear()
            for each in new:
                heapq.heappush(queue, each)
        elif stop_early:
            return True
        else:
            misfits.append(entry)
    return True


FIRST_RISE, RISE_GROWTH = 1e-4, 4.0
"""The first relative rise of all prices, and the factor to the next one."""
MAX_RISES, BISECTIONS = 60, 12
"""Rises until the limits are kept, and bisections between the last two."""
HIGHEST_PRICE = 1e100
"""No price is raised beyond this."""
UNPRICED_SHARE = 1e-3
"""Price of a limit that has none, as a share of the mean cost per unit of mean demand."""
MAX_PASSES = 20
"""Passes of each local search."""
ITEMS_PAIRED = 300
"""Items that change places in pairs: those of least reduced cost."""


def round_prices(problem: MultipleChoice, prices: Floats, clock: Clock) -> Ints | None:
    """Return a feasible item (configuration) per job by rounding dual prices, None if none is found.

    Parameters
    ----------
    prices
        λ, shape (R,); the best ones, or near them.
    """
    items = _choose_at_raised_prices(problem, prices, clock)
    return None if items is None else improve(problem, items, prices, clock)


def _choose_at_raised_prices(problem: MultipleChoice, prices: Floats, clock: Clock) -> Ints | None:
    """Return each job's cheapest item at prices λ + s·λ′ for about the minimum s that is feasible."""
    _, items = problem.choose(prices)
    if problem.fits(items):
        return items
    costs = float(np.abs(problem.cost).mean()) or 1.0
    # λ′ is λ with small prices added: a limit may bind only once the others are kept.
    mean = np.mean(problem.demand, axis=0)
    small = UNPRICED_SHARE * costs / np.where(mean > 0, mean, np.inf)
    raised, low, high = np.maximum(prices, small), 0.0, FIRST_RISE
    for _ in range(MAX_RISES):
        _, items = problem.choose(prices + high * raised)
        if problem.fits(items):
            break
        low, high = high, high * RISE_GROWTH
        if clock.expired or float((high * raised).max()) > HIGHEST_PRICE:
            return None
    else:
        return None
    feasible = items
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        _, items = problem.choose(prices + middle * raised)
        if problem.fits(items):
            high, feasible = middle, items
        else:
            low = middle
        if clock.expired:
            break
    return feasible


def improve(problem: MultipleChoice, items: Ints, prices: Floats, clock: Clock) -> Ints:
    """Return feasible items of no larger total cost, by local search over moves of one job, then of two."""
    items = items.copy()
    for _ in range(MAX_PASSES):
        if clock.expired or not _move_single(problem, items):
            break
    for _ in range(MAX_PASSES):
        if clock.expired or not _move_pair(problem, items, prices):
            break
    return items


def _move_single(problem: MultipleChoice, items: Ints) -> bool:
    """Move each job to its cheapest item that fits, largest saving first; return whether any moved."""
    slack = problem.limit - problem.take(items)
    saved = problem.spread(problem.cost[items]) - problem.cost
    better = np.flatnonzero(saved > 0)
    owner = problem.owner_of(better)
    more = problem.demand[better] - problem.demand[items[owner]]
    fits = (more <= slack).all(axis=1)
    better, owner, more = better[fits], owner[fits], more[fits]
    order = np.lexsort((-saved[better], owner))
    best = order[np.unique(owner[order], return_index=True)[1]]
    moved = False
    # The slack shrinks with every move, so that each is compared again.
    for i in best[np.argsort(-saved[better[best]])].tolist():
        if (more[i] <= slack).all():
            slack = slack - more[i]
            items[owner[i]] = better[i]
            moved = True
    return moved


def _move_pair(problem: MultipleChoice, items: Ints, prices: Floats) -> bool:
    """Make the best feasible move of two jobs to items of small reduced cost; return whether one exists."""
    slack = problem.limit - problem.take(items)
    near = _least_reduced_items(problem, items, prices)
    owner = problem.owner_of(near)
    change = problem.cost[near] - problem.cost[items[owner]]
    more = problem.demand[near] - problem.demand[items[owner]]
    total = change[:, None] + change[None, :]
    allowed = (owner[:, None] != owner[None, :]) & (total < 0)
    for r in range(len(slack)):
        allowed &= more[:, None, r] + more[None, :, r] <= slack[r]
    total[~allowed] = np.inf
    if not len(near) or not np.isfinite(total).any():
        return False
    a, b = np.unravel_index(int(total.argmin()), total.shape)
    items[owner[a]], items[owner[b]] = near[a], near[b]
    return True


def _least_reduced_items(problem: MultipleChoice, items: Ints, prices: Floats) -> Ints:
    """Return the indices of the unchosen items with the smallest reduced costs."""
    reduced = problem.reduced_costs(prices)
    reduced[items] = np.inf
    if len(reduced) > ITEMS_PAIRED:
        return np.argpartition(reduced, ITEMS_PAIRED)[:ITEMS_PAIRED]
    return np.flatnonzero(np.isfinite(reduced))
