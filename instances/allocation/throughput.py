"""Measured throughput as jobs: a table with a row for each job and number of GPUs, as benchmarks print it.

A step is one sample, so that `remaining_samples` are the remaining steps, and samples per second the speed.
Only the numbers of GPUs that were measured are offered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from ..common.errors import Fault, Faults, InstanceError
from ..common.faults import validated
from ..common.fields import Flag, Model, Name, NonNegative, Positive, PositiveTaskCount
from ..common.printable import some

OF_A_JOB = ("remaining_samples", "weight", "deadline_s", "optional", "unplaced_s", "restart_s")
HOUR_S = 3600.0


UNKNOWN_WORK = "remaining_samples is not given: an hour of work on the fewest GPUs measured"
FALLING_SPEED = "samples_per_s falls with every GPU that is added; is it a time in place of a speed?"
DOUBTFUL = (UNKNOWN_WORK, FALLING_SPEED)
"""How those of the assumptions begin that a plan rests on, and that may be far from the truth."""


class ThroughputRow(Model):
    """One measurement.

    Attributes
    ----------
    gpu_model
        The resource that each GPU is one of; by default `gpu`.
    remaining_samples
        What is still to be trained; by default an hour of work on the fewest GPUs that were measured.
    """

    job: Name
    gpus: PositiveTaskCount
    samples_per_s: Positive
    gpu_model: Name = "gpu"
    remaining_samples: Positive | None = None
    weight: NonNegative | None = None
    deadline_s: Positive | None = None
    optional: Flag | None = None
    unplaced_s: NonNegative | None = None
    restart_s: NonNegative | None = None


def is_throughput(rows: Any) -> bool:
    """Return whether a list of jobs is a table of throughput."""
    first = rows[0] if isinstance(rows, Sequence) and not isinstance(rows, str) and rows else None
    return isinstance(first, Mapping) and "name" not in first and ("job" in first or "samples_per_s" in first)


def with_throughput(data: dict[str, Any], source: str) -> dict[str, Any]:
    """Return a document whose table of throughput, if it has one, is a list of jobs.

    Raises
    ------
    InstanceError
        If a row is wrong, one configuration stands twice, or rows of one job contradict each other.
    """
    if not is_throughput(data.get("jobs")):
        return data
    by_job: dict[str, list[tuple[int, ThroughputRow]]] = defaultdict(list)
    faults = Faults()
    for index, row in enumerate(data["jobs"]):
        try:
            read = validated(ThroughputRow, row, source)
        except InstanceError as error:
            faults.add_all(error, f"jobs[{index}]")
            if faults.stop():
                break
        else:
            by_job[read.job].append((index, read))
    for rows in by_job.values():
        for index, key, what in _contradictions(rows):
            faults.add(Fault(source, f"jobs[{index}].{key}", what))
    faults.refuse()
    jobs = [_job(name, [row for _, row in rows]) for name, rows in by_job.items()]
    notes = _notes({name: [row for _, row in rows] for name, rows in by_job.items()})
    return {**data, "jobs": jobs, "assumptions": [*(data.get("assumptions") or ()), *notes]}


def _contradictions(rows: list[tuple[int, ThroughputRow]]) -> list[tuple[int, str, str]]:
    """Return index, column and what is wrong of rows of one job that do not go together."""
    found = []
    seen: set[tuple[str, int]] = set()
    first = rows[0][1]
    for index, row in rows:
        if (row.gpu_model, row.gpus) in seen:
            what = f"is {row.gpus} a second time for job {row.job!r}; each number of GPUs stands once"
            found.append((index, "gpus", what))
        seen.add((row.gpu_model, row.gpus))
        for key in OF_A_JOB:
            one, other = getattr(first, key), getattr(row, key)
            if one != other:
                what = f"is {other}, but {one} in the first row of job {row.job!r}; it is the same in all"
                found.append((index, key, what))
    return found


def _job(name: str, rows: list[ThroughputRow]) -> dict[str, Any]:
    """Return a job with a variant for each GPU model."""
    fewest = min(rows, key=lambda row: row.gpus)
    own = {key: value for key in OF_A_JOB[1:] if (value := getattr(fewest, key)) is not None}
    models = dict.fromkeys(row.gpu_model for row in rows)
    return {
        "name": name,
        "remaining_steps": fewest.remaining_samples or HOUR_S * fewest.samples_per_s,
        **own,
        "variants": [
            {
                "name": model,
                "worker_demand": {model: 1},
                "speed": {
                    "model": "table",
                    "rows": [
                        {"workers": row.gpus, "steps_per_s": row.samples_per_s}
                        for row in rows
                        if row.gpu_model == model
                    ],
                },
            }
            for model in models
        ],
    }


def _notes(by_job: Mapping[str, list[ThroughputRow]]) -> list[str]:
    """Return what is assumed, and what looks like a wrong unit."""
    notes = ["A step is one sample; only the numbers of GPUs that were measured are offered."]
    assumed = [name for name, rows in by_job.items() if rows[0].remaining_samples is None]
    if assumed:
        notes.append(f"{UNKNOWN_WORK} ({some(assumed)}).")
    falling = [name for name, rows in by_job.items() if _falls(rows)]
    if falling:
        notes.append(f"{FALLING_SPEED} ({some(falling)})")
    return notes


def _falls(rows: list[ThroughputRow]) -> bool:
    """Return whether more GPUs are slower throughout, on every GPU model that has several measurements."""
    pairs = [
        (one, other)
        for one in rows
        for other in rows
        if one.gpu_model == other.gpu_model and one.gpus < other.gpus
    ]
    return bool(pairs) and all(one.samples_per_s > other.samples_per_s for one, other in pairs)
