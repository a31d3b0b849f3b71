"""A job of Slurm's accounting, and how its times and amounts are written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, model_validator

from ...common.fields import Name, Part
from ..slurm.objects import Number, States, Tres

UNIX = datetime(1970, 1, 1)
LONGEST_S = 1e9
"""What Slurm says lasts longer than thirty years is none of its durations."""
_DURATION = re.compile(r"(?:([0-9]{1,7})-)?(?:([0-9]{1,4}):)?([0-9]{1,4}):([0-9]{2})(?:\.[0-9]+)?")
_GOING_ON = {"PENDING", "RUNNING", "SUSPENDED", "RESIZING", "COMPLETING", "CONFIGURING"}
_NONE = ("", "Unknown", "None", "N/A", "INVALID", "UNLIMITED", "Partition_Limit", "Partition Limit")
_EPOCH = re.compile(r"[0-9]{1,11}")


def seconds_of(text: str) -> float | None:
    """Return the seconds of a duration such as ``1-02:03:04`` or ``03:04``; None where it says none.

    Raises
    ------
    ValueError
        If it is no duration.
    """
    if text in _NONE:
        return None
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:30]!r} is no duration; sacct writes [days-][hours:]minutes:seconds")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def moment_of(text: str) -> float | None:
    """Return the seconds since 1970 of a time as sacct prints it, or as ``SLURM_TIME_FORMAT=%s`` makes it.

    Raises
    ------
    ValueError
        If it is no time.
    """
    if text in _NONE:
        return None
    if _EPOCH.fullmatch(text):
        return float(text)
    try:
        at = datetime.fromisoformat(text)
        return (at - UNIX).total_seconds() if at.tzinfo is None else at.timestamp()
    except ValueError:
        what = f"{text[:30]!r} is no time; sacct writes 2024-05-01T12:00:00"
        raise ValueError(f"{what} unless SLURM_TIME_FORMAT is set") from None


def _read(reader: Any) -> BeforeValidator:
    return BeforeValidator(lambda value: reader(value) if isinstance(value, str) else value)


def _not_beyond(seconds: float | None) -> float | None:
    if seconds is not None and seconds > LONGEST_S:
        raise ValueError(f"is {seconds:g} s, but must be at most {LONGEST_S:g}")
    return seconds


Moment = Annotated[float | None, _read(moment_of)]
Length = Annotated[Number, _read(seconds_of), AfterValidator(_not_beyond)]


class JobOfAccounting(Part):
    """A job that Slurm has accounted for.

    Attributes
    ----------
    place
        Where it stands in the file.
    submit_s, eligible_s
        When it was submitted, and when nothing but resources kept it from running; seconds since 1970.
    elapsed_s, limit_s
        How long it ran, and how long it was allowed to.
    tres
        What it was given, or asked for; GPUs of all types count as `gpu`.
    heterogeneous
        The number of the heterogeneous job of which it is a part.
    """

    place: str = ""
    id: Name
    submit_s: Moment = None
    eligible_s: Moment = None
    elapsed_s: Length = None
    limit_s: Length = None
    state: States = ()
    account: Name | None = None
    user: Name | None = None
    partition: Name | None = None
    tres: Tres = {}
    heterogeneous: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _fits(cls, data: Any) -> Any:
        """Refuse what stands for a line that has no such cells; it is the complaint."""
        if isinstance(data, str):
            raise ValueError(data)
        return data

    @property
    def is_over(self) -> bool:
        """Whether it has ended; what was requeued has, and may have run again since."""
        return _GOING_ON.isdisjoint(self.state)

    @property
    def gpus(self) -> float:
        """How many GPUs it had; where types are listed beside the sum, the sum counts."""
        typed = sum(amount for name, amount in self.tres.items() if name.startswith("gres/gpu:"))
        return self.tres.get("gres/gpu", typed)

    @property
    def types(self) -> set[str]:
        """The types of its GPUs, as far as they are listed."""
        return {name.removeprefix("gres/gpu:") for name in self.tres if name.startswith("gres/gpu:")}

    @property
    def cpus(self) -> float:
        """How many CPUs it had."""
        return self.tres.get("cpu", 0.0)

    @property
    def run(self) -> tuple[object, ...]:
        """What two records of the same run have in common; a job that was requeued has several runs."""
        return (self.id, self.submit_s, self.elapsed_s, self.state)


def whole_jobs(listed: Iterable[JobOfAccounting]) -> list[JobOfAccounting]:
    """Return the jobs with the parts of each heterogeneous job as one, which has what they have together."""
    found: dict[object, JobOfAccounting] = {}
    for number, job in enumerate(listed):
        key = number if job.heterogeneous is None else (job.heterogeneous, job.submit_s)
        found[key] = _joined(found[key], job) if key in found else job
    return list(found.values())


def _joined(job: JobOfAccounting, part: JobOfAccounting) -> JobOfAccounting:
    """Return a job with one more part, which starts with it; it runs until the last part ends."""
    return job.model_copy(
        update={
            "id": job.heterogeneous,
            "elapsed_s": max(job.elapsed_s or 0.0, part.elapsed_s or 0.0),
            "limit_s": max(job.limit_s or 0.0, part.limit_s or 0.0),
            "state": (*job.state, *part.state),
            # What a part has as one sum and another by type would be counted twice by name.
            "tres": {"gres/gpu": job.gpus + part.gpus, "cpu": job.cpus + part.cpus}
            | dict.fromkeys((f"gres/gpu:{kind}" for kind in job.types | part.types), 0.0),
        }
    )
