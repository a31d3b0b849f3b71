"""Jobs of scheduling: arrival, work and demand, as objects and in columns, and slowdown by spreading.

All methods use the columns, which hold up to a hundred thousand jobs. A job that is spread over several
servers may run slower.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from ..common.arrays import Floats, Ints
from ..common.column_table import ColumnTable
from ..common.fields import (
    NONE_NAMED,
    Amounts,
    ByCount,
    Checked,
    Complaint,
    FrozenDict,
    Name,
    NonNegative,
    Positive,
    PositiveTaskCount,
    Share,
    entries,
    repeated,
    require,
)
from ..common.speed import Variant, speed_on, variant_demands
from ..files.columnar import Words, columns_of, matrix

if TYPE_CHECKING:
    import pandas as pd


MAX_LISTED = 4096
"""Largest number of servers for which a speed may be listed."""
LONGEST_S = 1e11
"""Upper limit of times and durations, 3,000 years, so that milliseconds since 1970 are refused."""


class _Limit:
    """Refuses a number of seconds that is so large that the unit must be wrong."""

    le = LONGEST_S

    def __call__(self, value: float) -> float:
        """Return the number, if it is fine."""
        if value > self.le:
            raise ValueError(f"is {value:g} s, but must be at most {self.le:g}; are these milliseconds?")
        return value


def _slower(speeds: Mapping[int, float]) -> Mapping[int, float]:
    """Refuse relative speeds outside (0, 1], and numbers of servers above the maximum."""
    for servers, speed in speeds.items():
        if not 0 < speed <= 1:
            raise ValueError(f"is {speed:g} on {servers} servers, but must be above 0 and at most 1")
        if servers > MAX_LISTED:
            raise ValueError(f"lists {servers:,} servers, but may list at most {MAX_LISTED:,}")
    return speeds


_LIMIT = (AfterValidator(_Limit()), Field(json_schema_extra={"maximum": LONGEST_S}))
Time = Annotated[NonNegative, *_LIMIT]
"""Seconds since some instant, the same for the whole instance."""
Duration = Annotated[Positive, *_LIMIT]
Label = Annotated[Name, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
"""The name of a configuration; where it is a number of tasks, it may be written as one."""


class SchedulingJob(Checked):
    """A job: rigid, if it has a duration, or malleable, if it has work.

    All tasks of a rigid job run at the same time, or none does (a gang). A malleable job has a menu of
    configurations, each with a speed: so many tasks (`demand`, `speeds`), or `variants` with workers and
    parameter servers, as a job of an allocation has them. It runs in one of them at a time.

    Attributes
    ----------
    arrival_s
        r_j, before which it cannot run.
    weight
        ω_j, what a second of its completion time counts.
    tenant
        Whose job it is.
    tasks, demand
        How many tasks it has, and what one of them takes.
    duration_s
        p_j, how long a rigid job has to run in all.
    work
        What a malleable job has to do, such as training steps.
    speeds
        Work per second of so many tasks; a number that is not listed is not allowed.
    variants
        In place of `demand` and `speeds`; speeds are work per second.
    requested
        The configuration that the user of a malleable job asked for, with which policies run it that choose
        none: the number of tasks, or VARIANT:PS+WORKERS (VARIANT:WORKERS without parameter servers). By
        default the fastest that fits.
    estimate_s
        How long its user said that it would run; by default the truth.
    deadline_s
        When it is due.
    restart_s
        Seconds of no progress after every start but the first, where that is not the instance's.
    model
        What it trains.
    step_s
        How long one of its steps takes; only rounding depends on it.
    speed_by_servers
        Number of servers → share of its full speed that it has when it is spread over so many; a number that
        is not listed counts as the next smaller one. It is as fast everywhere by default.
    skew
        Share of the largest tensor of its model; Tiresias consolidates jobs where it is large.
    """

    model_config = ConfigDict(json_schema_extra=require(or_field=("duration_s", "work")))

    name: Name
    arrival_s: Time = 0.0
    weight: NonNegative = 1.0
    tenant: Name | None = None
    tasks: PositiveTaskCount = 1
    demand: Amounts = NONE_NAMED
    duration_s: Duration | None = None
    work: Positive | None = None
    speeds: ByCount | None = None
    variants: Annotated[tuple[Variant, ...], *entries(1000, least=1)] | None = None
    requested: Label | None = None
    estimate_s: Duration | None = None
    deadline_s: Time | None = None
    restart_s: Time | None = None
    model: Name | None = None
    step_s: Duration | None = None
    speed_by_servers: Annotated[ByCount, AfterValidator(_slower)] = NONE_NAMED
    skew: Share | None = None

    def demands(self) -> Iterator[tuple[str, Amounts]]:
        """Yield the demands of one task of each type, with their paths in the document."""
        yield "demand", self.demand
        yield from variant_demands(self.variants or ())

    def _complaints(self) -> Iterator[Complaint]:
        if self.work is None:
            yield from self._rigid_complaints()
            return
        if self.duration_s is not None:
            yield "duration_s", "is given beside work; a job is rigid or malleable, so leave one of them out"
        if (self.speeds is None) == (self.variants is None):
            yield "work", "needs one of speeds (of so many tasks) and variants"
            return
        if self.tasks != 1:
            what = f"is {self.tasks}, but a malleable job has no fixed number of tasks; name it in requested"
            yield "tasks", what
        if self.variants is not None:
            yield from repeated((variant.name for variant in self.variants), "variants")
            if self.demand:
                yield "demand", "is given beside variants, which have their own; leave it out"
        elif not self.demand:
            yield "demand", "is missing; it must be given"
        yield from (
            (f"speeds.{count}", "is 0, but must be greater than 0")
            for count, speed in (self.speeds or {}).items()
            if not speed
        )

    def _rigid_complaints(self) -> Iterator[Complaint]:
        for name in ("speeds", "variants", "requested"):
            if getattr(self, name) is not None:
                yield name, "is given, but no work; a malleable job has work in place of a duration"
        if self.duration_s is None:
            yield "duration_s", "is missing; it must be given"
        if not self.demand:
            yield "demand", "is missing; it must be given"


@dataclass(frozen=True, eq=False)
class Spreading:
    """The slowdown by spreading over servers, and the tensor skew, of the J jobs of a trace.

    Attributes
    ----------
    skew
        Share of the largest tensor of each model, NaN if unknown; shape (J,).
    profile
        Row of `speeds` for each job, −1 if spreading does not slow it; shape (J,).
    speeds
        Relative speed on 1, 2, … servers, and on more than that, shape (P, K).
    listed
        The listed speeds of each profile, as in documents; then none, for the jobs without a profile.
    """

    skew: Floats
    profile: Ints
    speeds: Floats
    listed: tuple[Mapping[int, float], ...]

    @classmethod
    def of(cls, jobs: Sequence[SchedulingJob]) -> Spreading | None:
        """Return the spreading data of jobs; None if no job has any."""
        if all(job.skew is None and not job.speed_by_servers for job in jobs):
            return None
        rows: dict[tuple[tuple[int, float], ...], int] = {}
        profile = [
            rows.setdefault(tuple(sorted(job.speed_by_servers.items())), len(rows))
            if job.speed_by_servers
            else -1
            for job in jobs
        ]
        skew = np.array([job.skew for job in jobs], dtype=float)
        listed = tuple(dict(row) for row in rows)
        most = max((max(row) for row in listed), default=1)
        speeds = np.array([[speed_on(row, k) for k in range(1, most + 1)] for row in listed])
        return cls(skew, np.array(profile, dtype=np.int64), speeds.reshape(-1, most), (*listed, {}))

    def speed(self, jobs: Ints, servers: Ints) -> Floats:
        """Return the relative speed of jobs on these numbers of servers, same shape; 1 on 0 servers."""
        if not len(self.speeds):
            return np.ones(len(jobs))
        profile = self.profile[jobs]
        column = np.clip(servers, 1, self.speeds.shape[1]) - 1
        return np.where((profile >= 0) & (servers > 0), self.speeds[profile, column], 1.0)

    def of_job(self, j: int) -> dict[str, Any]:
        """Return the document fields on spreading of job number j."""
        skew = float(self.skew[j])
        return {
            "speed_by_servers": self.listed[self.profile[j]],
            "skew": None if np.isnan(skew) else skew,
        }

    def sha256(self) -> str:
        """Return the hash of the spreading data of all jobs."""
        rows = [sorted(self.listed[p].items()) for p in self.profile.tolist()]
        skews = [None if np.isnan(s) else s for s in self.skew.tolist()]
        return hashlib.sha256(json.dumps([skews, rows]).encode()).hexdigest()


NUMBERS = ("arrival_s", "duration_s", "weight", "estimate_s", "deadline_s", "restart_s", "step_s")
"""Fields of the columns of numbers."""
OF_MALLEABLE = {"demand", "work", "speeds", "variants", "requested"}
"""Fields of a malleable job that the columns do not hold."""
NO_COLUMNS = (OF_MALLEABLE - {"demand"}) | {"skew", "speed_by_servers"}
"""Fields that are kept beside the columns."""


@dataclass(frozen=True, eq=False)
class JobTable(ColumnTable[SchedulingJob]):
    """Jobs in columns; also a sequence of `SchedulingJob` objects that are made on access.

    Attributes
    ----------
    resources
        Names of the R columns of `demand`.
    names, arrival_s, weight, tasks, duration_s
        One each for the J jobs.
    demand
        Demand of one task, shape (J, R).
    estimate_s, deadline_s, restart_s, step_s
        Shape (J,); NaN if a job has none.
    tenant, model
        Shape (J,); index into `tenants` and `models`, −1 if a job has none.
    malleable
        The malleable jobs by index. The other columns hold their requested configuration, once
        `configurations.as_requested` has filled it in; until then the duration is NaN.
    spreading
        Slowdown of jobs by spreading over servers; None if no job has data on it.
    """

    AMOUNTS = ("demand",)

    arrival_s: Floats
    weight: Floats
    tasks: Ints
    demand: Floats
    duration_s: Floats
    estimate_s: Floats
    deadline_s: Floats
    restart_s: Floats
    step_s: Floats
    tenant: Ints
    tenants: tuple[str, ...]
    model: Ints
    models: tuple[str, ...]
    malleable: Mapping[int, SchedulingJob] = field(default_factory=dict)
    spreading: Spreading | None = None

    @classmethod
    def of(cls, jobs: Sequence[SchedulingJob], resources: tuple[str, ...]) -> JobTable:
        """Return a column-oriented table of the jobs, with demands in the order of `resources`."""
        if isinstance(jobs, JobTable):
            return jobs.with_resources(resources)
        malleable = {j: job for j, job in enumerate(jobs) if job.work is not None}
        columns = columns_of(jobs, (SchedulingJob,), NO_COLUMNS)
        return cls.of_columns(columns, resources, malleable, Spreading.of(jobs))

    @classmethod
    def of_columns(
        cls,
        columns: Mapping[str, Any],
        resources: tuple[str, ...],
        malleable: Mapping[int, SchedulingJob] = FrozenDict(),
        spreading: Spreading | None = None,
    ) -> JobTable:
        """Return the table of jobs in columns as `columnar` has them, read from a table or from objects."""
        tenant, tenants = in_first_order(*columns["tenant"])
        model, models = in_first_order(*columns["model"])
        return cls(
            resources=resources,
            names=columns["name"].texts(),
            **{name: columns[name] for name in NUMBERS},
            tasks=columns["tasks"].astype(np.int64),
            demand=matrix(columns["demand"], resources, len(columns["tasks"])),
            tenant=tenant,
            tenants=tenants,
            model=model,
            models=models,
            malleable=malleable,
            spreading=spreading,
        )

    @cached_property
    def total_demand(self) -> Floats:
        """Demand of all tasks of each job, shape (J, R)."""
        return self.demand * self.tasks[:, None]

    @cached_property
    def relative_weight(self) -> Floats:
        """Weights ω_j relative to the largest, whose sum cannot be infinite, shape (J,)."""
        return np.asarray(self.weight / self.weight.max())

    def hashed(self) -> Iterator[Any]:
        """Yield what the hash of the table is made of: columns, spreading and malleable jobs."""
        for each in fields(self)[:-2]:
            yield getattr(self, each.name)
        if self.spreading is not None:
            yield self.spreading.sha256()
        for j, job in sorted(self.malleable.items()):
            own = job.model_dump(mode="json", exclude_none=True, include=OF_MALLEABLE)
            yield json.dumps([j, own], sort_keys=True)

    def to_frame(self) -> pd.DataFrame:
        """Return a table of pandas with one row for each job; demands are those of all its tasks."""
        import pandas as pd

        columns = {
            "job": list(self.names),
            "arrival_s": self.arrival_s,
            "duration_s": self.duration_s,
            "estimate_s": self.estimate_s,
            "weight": self.weight,
            "tasks": self.tasks,
            **{name: self.total_demand[:, r] for r, name in enumerate(self.resources)},
            "tenant": Words(self.tenant, self.tenants).texts(),
            "model": Words(self.model, self.models).texts(),
        }
        return pd.DataFrame(columns)

    def _job(self, j: int) -> SchedulingJob:
        if j in self.malleable:
            return self.malleable[j]
        numbers = {name: float(getattr(self, name)[j]) for name in NUMBERS}
        texts = {"tenant": (self.tenants, self.tenant[j]), "model": (self.models, self.model[j])}
        return SchedulingJob(
            name=self.names[j],
            tasks=int(self.tasks[j]),
            demand=self._named(self.demand[j]),
            **{name: None if np.isnan(value) else value for name, value in numbers.items()},
            **{name: words[code] if code >= 0 else None for name, (words, code) in texts.items()},
            **({} if self.spreading is None else self.spreading.of_job(j)),
        )


def in_first_order(codes: Ints, words: Sequence[str]) -> tuple[Ints, tuple[str, ...]]:
    """Return codes and words renumbered in order of first appearance, unused words dropped."""
    used, first = np.unique(codes[codes >= 0], return_index=True)
    order = used[np.argsort(first)]
    place = np.full(len(words) + 1, -1)
    place[order] = np.arange(len(order))
    return place[codes], tuple(np.array(words, dtype=object)[order].tolist())
