"""A job that arrives at some time, and has some work to do on a part of the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from ..common.fields import (
    NONE_NAMED,
    Amounts,
    ByCount,
    Checked,
    Complaint,
    Name,
    NonNegative,
    Positive,
    PositiveTaskCount,
    Share,
    in_slices,
    repeated,
    require,
)
from ..common.variants import Variant

MOST_LISTED = 4096
"""Servers up to which a speed may be listed."""
LONGEST_S = 1e11
"""No time is later, and nothing takes longer: 3,000 years, so milliseconds since 1970 are refused."""


def _not_beyond(value: float) -> float:
    """Refuse a number of seconds that must be a mistake in the unit."""
    if value > LONGEST_S:
        raise ValueError(f"is {value:g} s, but must be at most {LONGEST_S:g}; are these milliseconds?")
    return value


def _slower(speeds: Mapping[int, float]) -> Mapping[int, float]:
    """Refuse speeds that are no share of the full speed, and numbers of servers that no job has."""
    for servers, speed in speeds.items():
        if not 0 < speed <= 1:
            raise ValueError(f"is {speed:g} on {servers} servers, but must be above 0 and at most 1")
        if servers > MOST_LISTED:
            raise ValueError(f"lists {servers:,} servers, but may list at most {MOST_LISTED:,}")
    return speeds


_LIMIT = (AfterValidator(_not_beyond), Field(json_schema_extra={"maximum": LONGEST_S}))
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
    variants: Annotated[tuple[Variant, ...], Field(min_length=1, max_length=1000), in_slices(1000)] | None = (
        None
    )
    requested: Label | None = None
    estimate_s: Duration | None = None
    deadline_s: Time | None = None
    restart_s: Time | None = None
    model: Name | None = None
    step_s: Duration | None = None
    speed_by_servers: Annotated[ByCount, AfterValidator(_slower)] = NONE_NAMED
    skew: Share | None = None

    def demands(self) -> Iterator[tuple[str, Amounts]]:
        """Yield what tasks of each sort take, with the place in the document."""
        yield "demand", self.demand
        for v, variant in enumerate(self.variants or ()):
            yield f"variants[{v}].worker_demand", variant.worker_demand
            yield f"variants[{v}].ps_demand", variant.ps_demand

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
