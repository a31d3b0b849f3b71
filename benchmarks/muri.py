"""Simulation by the rules of Muri's published simulator: SRTF and SRSF with placement, and Tiresias-L.

It reproduces the published averages to the printed digit. At every event each running job loses its overhead,
restarted or not, and the predicted ends ignore it, so that a job keeps its GPUs for longer than it would have
to. A plan is feasible all the same.

Zhao et al., Multi-resource interleaving for deep learning training, SIGCOMM'22; the rules are those of the
simulator that the authors published, and some differ from what its comments say.
"""

from __future__ import annotations

import numpy as np

from clusterplan.formulations.common.compiled import compiled
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.common.arrays import Flags, Floats, Ints
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.common.base import Clock, Outcome, Solver
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.scheduling.engine import Schedule
from clusterplan.solvers.scheduling.policy_solvers import plan_of


@compiled
def arrival_events(arrival_s: Floats) -> Floats:
    """Return the time in seconds of each job's arrival event, which close (sorted) arrivals share."""
    at = arrival_s.copy()
    for j in range(1, len(at)):
        if arrival_s[j] - at[j - 1] <= 1e-9 * max(abs(arrival_s[j]), abs(at[j - 1])):
            at[j] = at[j - 1]
    return at


@compiled
def _place_gpus(gpus: int, free: Ints, size: int, full: Ints) -> bool:
    """Allocate GPUs by first fit, whole idle servers for larger jobs; return whether the job fits."""
    if gpus <= size:
        for s in range(len(free)):
            if free[s] >= gpus:
                free[s] -= gpus
                return True
        return False
    needed, rest = gpus // size, gpus % size
    count = 0
    for s in range(len(free)):
        if free[s] == size and count < needed:
            full[count] = s
            count += 1
    if count < needed:
        return False
    last = -1
    if rest > 0:
        for s in range(len(free)):
            taken = False
            for k in range(count):
                taken = taken or full[k] == s
            if not taken and free[s] >= rest:
                last = s
                break
        if last < 0:
            return False
        free[last] -= rest
    for k in range(count):
        free[full[k]] = 0
    return True


@compiled
def _sort_nearly_sorted(jobs: Ints, count: int, keys: Floats) -> None:
    """Sort `count` jobs in place by ascending keys, by stable insertion sort."""
    for k in range(1, count):
        j, key = jobs[k], keys[jobs[k]]
        at = k
        while at > 0 and keys[jobs[at - 1]] > key:
            jobs[at] = jobs[at - 1]
            at -= 1
        jobs[at] = j


@compiled
def _first_end(
    jobs: Ints,
    count: int,
    running: Flags,
    left: Floats,
    step_s: Floats,
    now_s: float,
    times: Floats,
    member: Ints,
) -> int:
    """Group the running jobs whose ends are close in time; return the earliest group, −1 without any.

    A job joins the first group whose time is close to its own end, else it makes one. `times` has room for
    each group, and `member` is the group of each job.
    """
    groups = 0
    best = -1
    for k in range(count):
        j = jobs[k]
        member[j] = -1
        if not running[j]:
            continue
        end = now_s + left[j] * step_s[j]
        for g in range(groups):
            if abs(times[g] - end) <= 1e-9 * max(abs(times[g]), abs(end)):
                member[j] = g
                break
        if member[j] < 0:
            times[groups] = end
            member[j] = groups
            if best < 0 or end < times[best]:
                best = groups
            groups += 1
    return best


@compiled
def _append_segment(segments: Floats, count: int, j: int, start_s: float, end_s: float) -> Floats:
    """Return the table of segments (rows of job, start, end in seconds) with one segment appended."""
    if count == len(segments):
        larger = np.empty((2 * count, 3))
        larger[:count] = segments
        segments = larger
    segments[count, 0], segments[count, 1], segments[count, 2] = j, start_s, end_s
    return segments


@compiled
def shortest_first(
    arrival_s: Floats,
    steps: Floats,
    step_s: Floats,
    gpus: Ints,
    overhead_s: Floats,
    by_service: bool,
    servers: int,
    size: int,
) -> Floats:
    """Return the segments of SRTF or SRSF by Muri's rules: job, start and end in seconds, shape (S, 3).

    Jobs are sorted by arrival.

    Parameters
    ----------
    steps, step_s
        Training steps of each job, and seconds of a step; the remaining work is counted, and rounded, in
        steps.
    """
    n = len(arrival_s)
    at = arrival_events(arrival_s)
    left, keys = steps.copy(), np.empty(n)
    jobs, count = np.empty(n, dtype=np.int64), 0
    running, since_s = np.zeros(n, dtype=np.bool_), np.zeros(n)
    times, member = np.empty(servers * size + 1), np.full(n, -1)
    free, full = np.empty(servers, dtype=np.int64), np.empty(servers, dtype=np.int64)
    segments, noted = np.empty((4 * n + 16, 3)), 0
    now_s, following, group = 0.0, 0, -1
    while following < n or count > 0:
        before_s = now_s
        arrives_s = at[following] if following < n else np.inf
        ends_s = times[group] if group >= 0 else np.inf
        now_s = min(arrives_s, ends_s)
        if now_s == np.inf:
            break
        if ends_s == now_s:
            kept = 0
            for k in range(count):
                j = jobs[k]
                if running[j] and member[j] == group:
                    segments = _append_segment(segments, noted, j, since_s[j], now_s)
                    noted += 1
                    running[j] = False
                else:
                    jobs[kept] = j
                    kept += 1
            count = kept
        for k in range(count):
            j = jobs[k]
            if running[j]:
                left[j] -= max(now_s - before_s - overhead_s[j], 0.0) / step_s[j]
                keys[j] = left[j] * step_s[j] * (gpus[j] if by_service else 1)
        if arrives_s == now_s:
            while following < n and at[following] == now_s:
                j = following
                keys[j] = left[j] * step_s[j] * (gpus[j] if by_service else 1)
                jobs[count] = following
                count += 1
                following += 1
        _sort_nearly_sorted(jobs, count, keys)
        free[:] = size
        for k in range(count):
            j = jobs[k]
            runs = _place_gpus(gpus[j], free, size, full)
            if runs and not running[j]:
                since_s[j] = now_s
            elif running[j] and not runs:
                segments = _append_segment(segments, noted, j, since_s[j], now_s)
                noted += 1
            running[j] = runs
        group = _first_end(jobs, count, running, left, step_s, now_s, times, member)
    return segments[:noted]


@compiled
def _remove_job(jobs: Ints, count: int, j: int) -> int:
    """Remove a job from an array of `count` jobs in place; return the new count."""
    kept = 0
    for k in range(count):
        if jobs[k] != j:
            jobs[kept] = jobs[k]
            kept += 1
    return kept


@compiled
def _demote_jobs(
    active: Ints,
    gpus: Ints,
    executed_s: Floats,
    limits: Floats,
    level: Ints,
    queues: Ints,
    lengths: Ints,
) -> None:
    """Move running jobs that have reached their queue's limit (GPU-seconds) to the end of the next one."""
    for j in active:
        q = level[j]
        if q < len(limits) and executed_s[j] * gpus[j] >= limits[q]:
            lengths[q] = _remove_job(queues[q], lengths[q], j)
            queues[q + 1, lengths[q + 1]] = j
            lengths[q + 1] += 1
            level[j] = q + 1


@compiled
def _serve_queue(
    queue: Ints, gpus: Ints, free: int, least: int, pending: Ints, chosen: Ints, count: int
) -> tuple[int, int]:
    """Append the jobs of a queue that fit to the chosen ones, and move them before its waiting jobs.

    Parameters
    ----------
    least
        Fewest GPUs of any job.
    pending
        Work array as long as the queue.

    Returns
    -------
    tuple of int
        The free GPUs, and the number of chosen jobs.
    """
    first = waiting = 0
    for j in queue:
        if free < least:  # the others keep their places
            break
        if free >= gpus[j]:
            free -= gpus[j]
            chosen[count] = j
            count += 1
            queue[first] = j
            first += 1
        else:
            pending[waiting] = j
            waiting += 1
    queue[first : first + waiting] = pending[:waiting]
    return free, count


@compiled
def least_attained(
    arrival_s: Floats,
    steps: Floats,
    step_s: Floats,
    gpus: Ints,
    overhead_s: Floats,
    limits: Floats,
    pool: int,
) -> Floats:
    """Return the segments of Tiresias-L by Muri's rules: job, start and end in seconds, shape (S, 3).

    Jobs are sorted by arrival.

    Parameters
    ----------
    limits
        Limits of the attained GPU-seconds in each queue; the last one has none.
    """
    n, levels = len(arrival_s), len(limits) + 1
    at = arrival_events(arrival_s)
    left, executed_s = steps.copy(), np.zeros(n)
    queues, lengths = np.empty((levels, n), dtype=np.int64), np.zeros(levels, dtype=np.int64)
    level, since_s = np.zeros(n, dtype=np.int64), np.zeros(n)
    running, runs = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    # Jobs that run, in the order of their arrival; few of those that are present.
    active: Ints = np.empty(0, dtype=np.int64)
    pending, chosen = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    least = min(gpus)
    segments, noted = np.empty((4 * n + 16, 3)), 0
    now_s, following, ended, ends_s, jumps_s = 0.0, 0, 0, np.inf, np.inf
    while following < n or ended < n:
        before_s = now_s
        event_s = min(at[following] if following < n else np.inf, ends_s)
        # A jump counts only if it comes before arrivals and ends.
        now_s = min(event_s, jumps_s)
        kept = 0
        for j in active:
            if event_s == now_s and before_s + left[j] * step_s[j] == now_s:
                segments = _append_segment(segments, noted, j, since_s[j], now_s)
                noted += 1
                running[j] = False
                lengths[level[j]] = _remove_job(queues[level[j]], lengths[level[j]], j)
                ended += 1
            else:
                active[kept] = j
                kept += 1
        active = active[:kept]
        while event_s == now_s and following < n and at[following] == now_s:
            queues[0, lengths[0]] = following
            lengths[0] += 1
            following += 1
        for j in active:
            left[j] -= max(now_s - before_s - overhead_s[j], 0.0) / step_s[j]
            # In this order of rounding the limit is reached exactly at the time of the jump.
            executed_s[j] = executed_s[j] + now_s - before_s
        _demote_jobs(active, gpus, executed_s, limits, level, queues, lengths)
        free, count = pool, 0
        for q in range(levels):
            free, count = _serve_queue(queues[q, : lengths[q]], gpus, free, least, pending, chosen, count)
        for j in chosen[:count]:
            runs[j] = True
        for j in active:
            if not runs[j]:
                segments = _append_segment(segments, noted, j, since_s[j], now_s)
                noted += 1
                running[j] = False
        active = np.sort(chosen[:count])
        ends_s = jumps_s = np.inf
        for j in active:
            if not running[j]:
                since_s[j] = now_s
            running[j], runs[j] = True, False
            ends_s = min(ends_s, now_s + left[j] * step_s[j])
            if level[j] < levels - 1:
                jump_s = np.ceil(limits[level[j]] / gpus[j]) - executed_s[j] + now_s
                jumps_s = min(jumps_s, jump_s)
    return segments[:noted]


GPU = "gpu"
LIMITS = (3250.0, 7200.0)
"""Attained GPU-seconds at which a job of Tiresias-L is moved to the next queue."""
OVERHEAD_S = {
    1: {"vgg16": 7, "vgg19": 7, "resnet18": 4, "shufflenet_v2_x1_0": 4, "a2c": 38, "dqn": 5},
    2: {"vgg16": 7, "vgg19": 7, "resnet18": 5, "shufflenet_v2_x1_0": 4, "a2c": 39, "dqn": 5},
    4: {"vgg16": 8, "vgg19": 8, "resnet18": 5, "shufflenet_v2_x1_0": 5, "a2c": 39, "dqn": 6},
    8: {"vgg16": 9, "vgg19": 9, "resnet18": 7, "shufflenet_v2_x1_0": 5, "a2c": 46, "dqn": 6},
    16: {"vgg16": 9, "vgg19": 10, "resnet18": 7, "shufflenet_v2_x1_0": 7, "a2c": 46, "dqn": 8},
    32: {"vgg16": 10, "vgg19": 10, "resnet18": 7, "shufflenet_v2_x1_0": 8, "a2c": 46, "dqn": 8},
}
"""GPUs → model → seconds lost at each event, as the simulator has them (Rivendile/Muri, commit 4e69a78)."""
OTHER_OVERHEAD_S = 10.0
"""Of all other models, bert and gpt2 among them."""


def simulate(instance: SchedulingInstance, policy: str) -> Schedule:
    """Return the schedule of policy `srtf`, `srsf` or `las` by the rules of Muri's published simulator.

    Raises
    ------
    OptionError
        If the instance has features that the simulator does not support.
    """
    _check_supported(instance)
    table = instance.table()
    order = np.argsort(table.arrival_s, kind="stable")
    gpus = np.rint(table.total_demand[order, table.resources.index(GPU)]).astype(np.int64)
    step = np.where(np.isnan(table.step_s), 1.0, table.step_s)[order]
    steps = table.duration_s[order] / step
    whole = np.rint(steps)
    steps = np.where(np.abs(steps - whole) <= 1e-9 * steps, whole, steps)
    arrival = table.arrival_s[order]
    overhead = _overheads(instance)[order]
    if policy == "las":
        pool = int(instance.pool[GPU])
        segments = least_attained(arrival, steps, step, gpus, overhead, np.array(LIMITS), pool)
    else:
        servers = sum(server.count for server in instance.servers) or 1
        size = int(instance.pool[GPU]) // servers
        segments = shortest_first(arrival, steps, step, gpus, overhead, policy == "srsf", servers, size)
    job, start, end = segments.T
    longer = end > start  # a job may start and be stopped within one moment
    return Schedule(order[job.astype(np.int64)][longer], start[longer], end[longer])


def _check_supported(instance: SchedulingInstance) -> None:
    sizes = {server.capacity.get(GPU, 0.0) for server in instance.servers}
    table = instance.table()
    demand = table.total_demand
    wrong = {
        "one resource, gpu, in whole numbers": list(instance.pool) != [GPU] or (demand % 1 != 0).any(),
        "servers that are all alike": len(sizes) > 1,
        "preemption: free": instance.preemption != "free",
        "no lease": instance.lease_s > 0,
        "no speed_by_servers": table.spreading is not None and (table.spreading.profile >= 0).any(),
        "no events": len(instance.events) > 0,
    }
    for needed, is_wrong in wrong.items():
        if is_wrong:
            raise OptionError(f"Muri's simulator needs {needed}")


def _overheads(instance: SchedulingInstance) -> Floats:
    """Return the seconds of overhead of each job at every event, by GPUs and model, shape (J,)."""
    table = instance.table()
    gpus = table.total_demand[:, table.resources.index(GPU)]
    of_gpus = [OVERHEAD_S.get(round(g), {}) for g in gpus.tolist()]
    models = [table.models[code] if code >= 0 else "" for code in table.model.tolist()]
    overheads = [known.get(m, OTHER_OVERHEAD_S) for known, m in zip(of_gpus, models, strict=True)]
    return np.array(overheads, dtype=float)


class MuriPolicy(Solver[SchedulingFormulation]):
    """A policy as Muri's published simulator runs it: `srtf`, `srsf` or `las`, its Tiresias-L."""

    kinds = ("scheduling",)
    what = "a policy by the rules of Muri's published simulator"

    def __init__(self, name: str) -> None:
        self.name = name

    def solve(self, formulation: SchedulingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Simulate the policy on the instance's trace; return its schedule as a plan, without a bound."""
        del options, clock
        return Outcome(plan_of(formulation.instance, simulate(formulation.instance, self.name)))
