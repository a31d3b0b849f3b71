"""Generator of allocation instances: published speed coefficients, heavy-tailed remaining work.

On servers, workers take one to three GPUs, and servers have CPUs and memory in proportion to their GPUs. All
jobs together have room with one parameter server and one worker each: the generator places them so. Jobs that
run now have such a placement, some with more workers.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np

from ..common.arrays import Floats, Ints
from ..common.errors import OptionError, refuse_options
from ..common.speed import ps_sync_step_s
from .instance import AllocationInstance
from .job import Configuration, Tasks
from .job_table import MODELS, JobTable

# Non-negative least squares on speeds published with DL2 for eight models (ps_sync, batch 256 assumed).
SPEEDS: dict[str, list[float]] = {
    "resnet-50": [0.0039, 0.4178, 0.4213, 0.0074, 0.0],
    "vgg-16": [0.0170, 0.5812, 0.8072, 0.1356, 0.0],
    "resnext-110": [0.0005, 0.1561, 0.1104, 0.0199, 0.0012],
    "inception-bn": [0.0031, 0.1541, 0.1664, 0.0194, 0.0028],
    "seq2seq": [0.0010, 0.0541, 0.0242, 0.0131, 0.0],
    "cnn-text-classification": [0.0075, 0.3445, 0.0237, 0.0169, 0.0],
    "dssm": [0.0016, 0.1177, 0.0, 0.0073, 0.0002],
    "wlm": [0.0006, 0.2394, 0.1586, 0.0308, 0.0],
}
MAX_JOBS = 1_000_000
RESOURCES = ("cpu", "gpu", "memory_gib", "network_gbit_per_s")
WORKER = [(1, 4), (1, 1), (4, 12), (1, 3)]
PS = [(1, 4), (0, 0), (4, 12), (1, 5)]
"""Range of the demand of one worker and of one parameter server for each resource, in integers."""

MAX_SERVERS = 10_000
ON_SERVERS = ("gpu", "cpu", "memory_gib", "network_gbit_per_s")
"""The order in which resources are taken on servers."""
PER_GPU = (1.0, 8.0, 61.0, 2.5)
"""What a server has of each for every GPU: as the p3 instances of Amazon EC2, of 8 GPUs."""
SHAPES = {4: 0.4, 8: 0.2, 2: 0.4}
"""GPUs of a server → its share where all shapes are taken; fewer shapes are the first of these."""
GPUS = {1: 1 / 2, 2: 1 / 3, 3: 1 / 6}
"""GPUs of a worker on servers → how frequent they are."""
Pieces = defaultdict[int, Ints]
"""Server → its parameter servers and workers of a job."""


def generate_allocation(
    jobs: int,
    resources: int = 3,
    tightness: float | None = None,
    optional_share: float = 0.0,
    seed: int = 0,
    spare: int | None = None,
    servers: int | None = None,
    shapes: int = 1,
    running_share: float = 0.0,
) -> AllocationInstance:
    """Return a random allocation instance, its jobs in a `JobTable`.

    Parameters
    ----------
    jobs, resources
        How many jobs, and how many of cpu, gpu, memory and network there are (1 to 4); on servers gpu comes
        first.
    tightness
        0: all jobs can have the fastest configuration; 1: only the smallest configurations fit; 0.5 unless
        `spare` is given.
    optional_share
        Share of the jobs that may stay unplaced.
    seed
        The same seed gives the same instance.
    spare
        Instead of the tightness: capacities are the demand of the cheapest configurations at random prices,
        plus up to so many units of each resource, so that every resource binds.
    servers, shapes
        Instead of either: how many servers there are, of 4 GPUs, or of 4 and 8, or of 4, 8 and 2.
    running_share
        Share of the jobs that run now on some of the servers.

    Raises
    ------
    OptionError
        If a parameter is out of range, or there are too few servers.
    """
    refuse_options(
        (
            not 1 <= jobs <= MAX_JOBS or not 1 <= resources <= len(RESOURCES),
            f"jobs must be 1 to {MAX_JOBS:,} and resources 1 to {len(RESOURCES)}",
        ),
        (
            sum(given is not None for given in (tightness, spare, servers)) > 1,
            "tightness, spare and servers all set the capacities; you must give one of them at most",
        ),
        (
            not all(0 <= share <= 1 for share in (tightness or 0, optional_share, running_share)),
            "tightness, optional share and running share must lie between 0 and 1",
        ),
        (spare is not None and spare < 0, "spare must be at least 0"),
        (
            servers is None and (shapes != 1 or running_share > 0),
            "servers must be given where shapes or a running share is",
        ),
        (
            not 1 <= (servers or 1) <= MAX_SERVERS or not 1 <= shapes <= len(SHAPES),
            f"servers must be 1 to {MAX_SERVERS:,} and shapes 1 to {len(SHAPES)}",
        ),
    )
    rng = np.random.default_rng(seed)
    names = RESOURCES[:resources] if servers is None else ON_SERVERS[:resources]
    table = _jobs(rng, jobs, names, optional_share)
    if servers is None:
        cluster = {"resources": _capacity(rng, table, tightness, spare), "jobs": table}
    else:
        cluster = _on_servers(rng, table, servers, shapes, running_share)
    return AllocationInstance(
        name=f"synthetic-allocation-{jobs}-{resources}{f'-{servers}-servers' * bool(servers)}-{seed}",
        source="synthetic; speed coefficients fitted to speeds published with DL2, jittered",
        assumptions=("demands, ranges and remaining steps are random", "batch 256 for every model"),
        **cluster,
    )


def _capacity(
    rng: np.random.Generator, table: JobTable, tightness: float | None, spare: int | None
) -> dict[str, float]:
    """Return how much of each resource there is; see `generate_allocation`."""
    if spare is None:
        most = _use(table, np.zeros(len(table.resources)))
        least = (table.ps_demand + table.worker_demand).sum(axis=0)
        capacity = np.ceil(least + (1 - (0.5 if tightness is None else tightness)) * (most - least))
    else:
        capacity = _use(table, _random_prices(rng, table))
        capacity += rng.integers(0, spare + 1, len(table.resources))
    return dict(zip(table.resources, capacity.tolist(), strict=True))


def _demands(rng: np.random.Generator, jobs: int, ranges: list[tuple[int, int]]) -> Floats:
    """Return random integer demands of one task of each job, shape (J, R), each resource within its range."""
    return np.column_stack([rng.integers(low, high + 1, jobs) for low, high in ranges]).astype(float)


def _use(table: JobTable, prices: Floats) -> Floats:
    """Return the total demand, shape (R,), if each job takes its configuration of minimum priced time."""
    ps_price, worker_price = table.ps_demand @ prices, table.worker_demand @ prices
    best = np.full(len(table), np.inf)
    best_ps, best_workers = table.min_ps.copy(), table.min_workers.copy()
    theta = list(table.theta.T)
    # Few pairs (p, w) and many jobs: the loop is over pairs, and all jobs are compared at once.
    for p in range(1, int(table.max_ps.max()) + 1):
        for w in range(1, int(table.max_workers.max()) + 1):
            time = table.remaining_steps * ps_sync_step_s(theta, table.batch, p, w)
            value = time + p * ps_price + w * worker_price
            better = (value < best) & (p <= table.max_ps) & (w <= table.max_workers)
            best[better], best_ps[better], best_workers[better] = value[better], p, w
    demand: Floats = best_ps @ table.ps_demand + best_workers @ table.worker_demand
    return demand


def _random_prices(rng: np.random.Generator, table: JobTable) -> Floats:
    """Return random prices at which a task's demand for each resource costs about 10 % of a job's time."""
    alone = table.remaining_steps * ps_sync_step_s(list(table.theta.T), table.batch, 1, 1)
    demand = (table.ps_demand + table.worker_demand).mean(axis=0)
    prices: Floats = 0.1 * alone.mean() / demand * rng.uniform(0.5, 2, len(demand))
    return prices


def _jobs(rng: np.random.Generator, jobs: int, resources: tuple[str, ...], optional_share: float) -> JobTable:
    """Return random jobs with one `ps_sync` variant; the remaining work has a Pareto tail of index 1.5."""
    names = list(SPEEDS)
    model = rng.integers(len(names), size=jobs)
    theta = np.round(np.array(list(SPEEDS.values()))[model] * rng.lognormal(0, 0.2, (jobs, 5)), 6)
    steps = np.round(1000 * (1 + rng.pareto(1.5, jobs)), 1)
    optional = rng.random(jobs) < optional_share
    worker, ps = ([ranges[RESOURCES.index(name)] for name in resources] for ranges in (WORKER, PS))

    def zeros(count: int) -> Ints:
        return np.zeros(count, dtype=np.int64)

    return JobTable(
        resources=resources,
        names=[f"job-{index} {names[m]}" for index, m in enumerate(model.tolist())],
        remaining_steps=steps,
        weight=np.ones(jobs),
        beginning=np.zeros(jobs, dtype=bool),
        deadline_s=np.full(jobs, np.inf),
        unplaced_s=np.where(optional, np.round(5 * steps, 1), np.nan),
        restart_s=np.zeros(jobs),
        current_variant=zeros(jobs) - 1,
        current_ps=zeros(jobs),
        current_workers=zeros(jobs),
        first_variant=np.arange(jobs + 1),
        variant_names=["default"] * jobs,
        worker_demand=_demands(rng, jobs, worker),
        ps_demand=_demands(rng, jobs, ps),
        min_workers=zeros(jobs) + 1,
        max_workers=rng.integers(4, 17, jobs),
        min_ps=zeros(jobs) + 1,
        max_ps=rng.integers(2, 9, jobs),
        model=zeros(jobs) + MODELS.index("ps_sync"),
        theta=theta,
        batch=np.full(jobs, 256.0),
        first_row=zeros(jobs + 1),
        row_ps=zeros(0),
        row_workers=zeros(0),
        row_steps_per_s=np.zeros(0),
    )


def _on_servers(
    rng: np.random.Generator, table: JobTable, servers: int, shapes: int, running_share: float
) -> dict[str, Any]:
    """Return the servers, and the jobs with other demands for GPUs; some of them run there."""
    demand = table.worker_demand.copy()
    demand[:, 0] = rng.choice(list(GPUS), len(table), p=list(GPUS.values()))
    table = replace(table, worker_demand=demand)
    shares = np.array(list(SHAPES.values())[:shapes])
    counts = np.floor(servers * shares / shares.sum()).astype(np.int64)
    counts[0] += servers - counts.sum()
    amounts = np.outer(list(SHAPES)[:shapes], PER_GPU[: len(table.resources)])
    rows = [
        {"name": f"gpu{gpus}", "count": count, "capacity": dict(zip(table.resources, has, strict=True))}
        for gpus, count, has in zip(SHAPES, counts.tolist(), amounts.tolist(), strict=False)
        if count
    ]
    free = np.repeat(amounts, counts, axis=0)
    placed = _least_placement(table, free)
    running = np.flatnonzero(rng.random(len(table)) < running_share).tolist()
    if not running:
        return {"servers": rows, "jobs": table}
    names = [f"{row['name']}-{k}" for row in rows for k in range(row["count"])]
    jobs = list(table)
    for j in running:
        for _ in range(int(rng.integers(4))):
            _add(table, j, (0, 1), placed[j], free)
        pieces = sorted((i, tasks.tolist()) for i, tasks in placed[j].items())
        placement = {names[i]: Tasks(ps=ps, workers=workers) for i, (ps, workers) in pieces}
        workers = sum(workers for _, (_, workers) in pieces)
        current = Configuration(variant="default", ps=1, workers=workers, placement=placement)
        jobs[j] = jobs[j].model_copy(update={"current": current, "restart_s": float(rng.integers(30, 300))})
    return {"servers": rows, "jobs": jobs}


def _least_placement(table: JobTable, free: Floats) -> list[Pieces]:
    """Return where the one parameter server and the one worker of each job are; take their room from `free`.

    Raises
    ------
    OptionError
        If they do not fit together.
    """
    placed: list[Pieces] = [defaultdict(lambda: np.zeros(2, dtype=np.int64)) for _ in table.names]
    for job in np.argsort(-table.worker_demand[:, 0], kind="stable").tolist():
        if not _add(table, job, (1, 1), placed[job], free) and not all(
            _add(table, job, one, placed[job], free) for one in ((0, 1), (1, 0))
        ):
            raise OptionError(
                f"servers must have room for a worker and a parameter server of each of {len(table):,} jobs; "
                "take more of them, at least 2 for 3 jobs"
            )
    return placed


def _add(table: JobTable, job: int, tasks: tuple[int, int], pieces: Pieces, free: Floats) -> bool:
    """Add tasks of a job to the fullest server that has room for them; return whether there is one."""
    demand = tasks @ np.stack([table.ps_demand[job], table.worker_demand[job]])
    room = np.flatnonzero((free >= demand).all(axis=1))
    if len(room):
        server = int(room[np.lexsort(free[room].T[::-1])[0]])
        free[server] -= demand
        pieces[server] += tasks
    return len(room) > 0
