"""Generator of traces: jobs of powers of two GPUs, heavy-tailed durations, random arrivals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..common.errors import refuse_options
from ..files.columnar import NONE, Words
from .instance import SchedulingInstance
from .jobs import NUMBERS, JobTable, SchedulingJob

MAX_JOBS = 1_000_000
GPUS = (1, 2, 4, 8, 16, 32)
SHARES = (0.7, 0.1, 0.09, 0.08, 0.02, 0.01)
"""Numbers of GPUs of jobs, and their frequencies: sizes of production traces, synthetic frequencies."""
MEDIAN_S, SPREAD = 1_800.0, 1.8
"""Parameters of the log-normal durations, which are whole seconds."""
LONGEST_RUN_S = 7 * 86_400
TENANTS = 5


def generate_scheduling(
    jobs: int, gpus: int, load: float = 0.9, seed: int = 0, malleable: bool = False
) -> SchedulingInstance:
    """Return a random trace for one pool of GPUs.

    Parameters
    ----------
    jobs, gpus
        Number of jobs and of GPUs.
    load
        Demanded GPU-seconds over those available until the last arrival.
    seed
        The same seed gives the same instance.
    malleable
        Whether jobs may run on 1, 2, 4, … GPUs up to twice the GPUs of the rigid job of the same draw. These
        are the requested ones, on which its duration holds.

    Raises
    ------
    OptionError
        If a parameter is out of range.
    """
    refuse_options(
        (not 1 <= jobs <= MAX_JOBS, f"jobs is {jobs}, but must be from 1 to {MAX_JOBS:,}"),
        (not 1 <= gpus <= 1_000_000, f"gpus is {gpus}, but must be from 1 to 1,000,000"),
        (not 0 < load <= 100, f"load is {load:g}, but must be above 0 and at most 100"),
    )
    rng = np.random.default_rng(seed)
    width = np.minimum(rng.choice(GPUS, jobs, p=SHARES), gpus)
    duration = np.clip(np.rint(MEDIAN_S * np.exp(SPREAD * rng.standard_normal(jobs))), 1, LONGEST_RUN_S)
    span = float((width * duration).sum()) / (load * gpus)
    arrival = np.sort(np.rint(rng.uniform(0, span, jobs)))
    tenant = rng.integers(TENANTS, size=jobs)
    digits = len(str(jobs - 1))
    none = np.full(jobs, np.nan)
    columns = {
        **dict.fromkeys(NUMBERS, none),
        "name": Words(np.arange(jobs), [f"job-{j:0{digits}d}" for j in range(jobs)]),
        "arrival_s": arrival - arrival[0],
        "duration_s": duration,
        "weight": np.ones(jobs),
        "tasks": width,
        "demand": {"gpu": np.ones(jobs)},
        "tenant": Words(tenant, [f"team-{t}" for t in range(TENANTS)]),
        "model": Words(np.full(jobs, NONE), ()),
    }
    table = JobTable.of_columns(columns, ("gpu",))
    name = f"scheduling-{jobs}x{gpus}-{seed}"
    more: tuple[str, ...] = ()
    if malleable:
        table = _malleable(table, gpus, rng)
        name = f"malleable-{name}"
        more = ("On w GPUs a job is w / (1 + σ (w − 1)) times as fast as on one; σ is from 0.02 to 0.2.",)
    return SchedulingInstance(
        name=name,
        source=f"SYNTHETIC (generate scheduling, seed {seed})",
        assumptions=(
            f"Arrivals are uniform over {span:.0f} s, so that jobs ask for {load:g} times what there is.",
            "Durations are log-normal with a median of half an hour and heavy tails, at most a week.",
            "Most jobs ask for one GPU, the largest for 32; five tenants are equally busy.",
            *more,
        ),
        resources={"gpu": float(gpus)},
        jobs=table,
    )


def speeds_of(width: int, gpus: int, sigma: float) -> dict[int, float]:
    """Return the speeds of a job on 1, 2, 4, … GPUs up to twice its width, and on its width.

    The speed of w GPUs is that of Amdahl's law with communication in place of the serial part.
    """
    counts = {width, *(2**k for k in range(7) if 2**k <= min(2 * width, gpus))}
    return {w: w / (1 + sigma * (w - 1)) for w in sorted(counts)}


def _malleable(table: JobTable, gpus: int, rng: np.random.Generator) -> JobTable:
    """Return the jobs as malleable ones with several numbers of GPUs; work is in seconds on one GPU."""
    jobs = {}
    sigma = np.round(rng.uniform(0.02, 0.2, len(table)), 3)
    drawn = zip(table.tasks.tolist(), table.duration_s.tolist(), strict=True)
    for j, (width, duration_s) in enumerate(drawn):
        speeds = {w: round(speed, 6) for w, speed in speeds_of(width, gpus, float(sigma[j])).items()}
        jobs[j] = SchedulingJob(
            name=table.names[j],
            arrival_s=float(table.arrival_s[j]),
            tenant=table.tenants[table.tenant[j]],
            demand={"gpu": 1.0},
            work=duration_s * speeds[width],
            speeds=speeds,
            requested=str(width),
        )
    ones = np.ones(len(table), dtype=np.int64)
    return replace(table, tasks=ones, duration_s=np.full(len(table), np.nan), malleable=jobs)
