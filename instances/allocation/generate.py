"""Generator of allocation instances: published speed coefficients, heavy-tailed remaining work."""

from __future__ import annotations

import numpy as np

from ..common.arrays import Floats, Ints
from ..common.errors import refuse_options
from ..common.speed import ps_sync_step_s
from .instance import AllocationInstance
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


def generate_allocation(
    jobs: int,
    resources: int = 3,
    tightness: float | None = None,
    optional_share: float = 0.0,
    seed: int = 0,
    spare: int | None = None,
) -> AllocationInstance:
    """Return a random allocation instance, its jobs in a `JobTable`.

    Parameters
    ----------
    jobs, resources
        How many jobs, and how many of cpu, gpu, memory and network there are (1 to 4).
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

    Raises
    ------
    OptionError
        If a parameter is out of range.
    """
    both = tightness is not None and spare is not None
    tightness = 0.5 if tightness is None else tightness
    refuse_options(
        (
            not 1 <= jobs <= MAX_JOBS or not 1 <= resources <= len(RESOURCES),
            f"jobs must be 1 to {MAX_JOBS:,} and resources 1 to {len(RESOURCES)}",
        ),
        (both, "tightness and spare both set the capacities; give one of them"),
        (
            not 0 <= tightness <= 1 or not 0 <= optional_share <= 1,
            "tightness and optional share must lie between 0 and 1",
        ),
        (spare is not None and spare < 0, "spare must be at least 0"),
    )
    rng = np.random.default_rng(seed)
    table = _jobs(rng, jobs, resources, optional_share)
    if spare is None:
        most = _use(table, np.zeros(resources))
        least = (table.ps_demand + table.worker_demand).sum(axis=0)
        capacity = np.ceil(least + (1 - tightness) * (most - least))
    else:
        capacity = _use(table, _random_prices(rng, table)) + rng.integers(0, spare + 1, resources)
    return AllocationInstance(
        name=f"synthetic-allocation-{jobs}-{resources}-{seed}",
        source="synthetic; speed coefficients fitted to speeds published with DL2, jittered",
        assumptions=("demands, ranges and remaining steps are random", "batch 256 for every model"),
        resources=dict(zip(table.resources, capacity.tolist(), strict=True)),
        jobs=table,
    )


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


def _jobs(rng: np.random.Generator, jobs: int, resources: int, optional_share: float) -> JobTable:
    """Return random jobs with one `ps_sync` variant; the remaining work has a Pareto tail of index 1.5."""
    names = list(SPEEDS)
    model = rng.integers(len(names), size=jobs)
    theta = np.round(np.array(list(SPEEDS.values()))[model] * rng.lognormal(0, 0.2, (jobs, 5)), 6)
    steps = np.round(1000 * (1 + rng.pareto(1.5, jobs)), 1)
    optional = rng.random(jobs) < optional_share

    def zeros(count: int) -> Ints:
        return np.zeros(count, dtype=np.int64)

    return JobTable(
        resources=RESOURCES[:resources],
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
        worker_demand=_demands(rng, jobs, WORKER[:resources]),
        ps_demand=_demands(rng, jobs, PS[:resources]),
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
