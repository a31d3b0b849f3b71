"""A job that arrives at some time, and runs for some time on a fixed part of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from ..common.fields import (
    NONE_NAMED,
    Amounts,
    ByCount,
    Model,
    Name,
    NonNegative,
    Positive,
    PositiveTaskCount,
    Share,
)

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


class SchedulingJob(Model):
    """A rigid job: all its tasks run at the same time, or none does (a gang).

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
        p_j, how long it has to run in all.
    estimate_s
        How long its user said that it would; by default `duration_s`.
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

    name: Name
    arrival_s: Time = 0.0
    weight: NonNegative = 1.0
    tenant: Name | None = None
    tasks: PositiveTaskCount = 1
    demand: Annotated[Amounts, Field(min_length=1)]
    duration_s: Duration
    estimate_s: Duration | None = None
    deadline_s: Time | None = None
    restart_s: Time | None = None
    model: Name | None = None
    step_s: Duration | None = None
    speed_by_servers: Annotated[ByCount, AfterValidator(_slower)] = NONE_NAMED
    skew: Share | None = None
