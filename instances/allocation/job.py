"""A training job of an allocation instance: its variants, with ranges and speeds, and what it runs with."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from ..common.fields import (
    Amounts,
    Complaint,
    Count,
    Flag,
    Model,
    Name,
    NonNegative,
    Positive,
    TaskCount,
    in_slices,
    refuse,
    repeated,
)
from .speed import RingAllreduce, SpeedModel, SpeedTable
from .with_fits import or_measured_loss


class Range(Model):
    """How many tasks of one sort a job may have, both ends included."""

    min: TaskCount = 1
    max: TaskCount

    @model_validator(mode="after")
    def _check(self) -> Range:
        if self.max < self.min:
            refuse([("max", f"is {self.max}, below min {self.min}; max must be at least min")])
        return self


class Variant(Model):
    """One way to run a job, for instance on one GPU model; a plan picks one variant.

    Attributes
    ----------
    worker_demand, ps_demand
        What one worker and one parameter server take of each resource (O and N of the paper).
    workers, ps
        Allowed numbers of tasks; a `table` lists its configurations and needs neither, and
        `ring_allreduce` has no parameter servers.
    """

    name: Name
    worker_demand: Amounts
    ps_demand: Amounts = {}
    workers: Range | None = None
    ps: Range | None = None
    speed: SpeedModel

    @model_validator(mode="after")
    def _check(self) -> Variant:
        model = self.speed.model
        complaints: list[Complaint] = []
        if isinstance(self.speed, SpeedTable):
            for key in ("workers", "ps"):
                if getattr(self, key) is not None:
                    complaints.append((key, "a table lists its configurations; leave this range out"))
        elif self.workers is None:
            complaints.append(("workers", f"is missing; {model} needs a range such as {{min: 1, max: 16}}"))
        elif self.workers.min < 1:
            complaints.append(("workers.min", "is 0; a job that runs has at least 1 worker"))
        if isinstance(self.speed, RingAllreduce) and self.ps is not None:
            complaints.append(("ps", "ring_allreduce has no parameter servers; leave this range out"))
        if model in ("ps_sync", "ps_async"):
            if self.ps is None:
                complaints.append(("ps", f"is missing; {model} needs a range such as {{min: 1, max: 8}}"))
            elif self.ps.min < 1:
                complaints.append(("ps.min", f"is 0; {model} needs at least 1 parameter server"))
        refuse(complaints)
        return self


class Configuration(Model):
    """The configuration with which a job runs now."""

    variant: Name
    ps: Count = 0
    workers: Count


class Job(Model):
    """A training job.

    Attributes
    ----------
    remaining_steps
        Q, the steps still to be made.
    weight
        ω, its weight in the total completion time.
    stage
        `beginning` tells the marginal-gain heuristic to trust the fitted speed a little less.
    deadline_s
        Configurations that take longer are not allowed; staying unplaced is not affected.
    optional, unplaced_s
        An optional job may stay unplaced and then counts with a completion time of `unplaced_s`.
    current, restart_s
        A plan that changes the current configuration pays `restart_s` seconds more.
    """

    model_config = ConfigDict(json_schema_extra=or_measured_loss)

    name: Name
    remaining_steps: Positive
    weight: NonNegative = 1.0
    stage: Literal["beginning", "running"] = "running"
    deadline_s: Positive | None = None
    optional: Flag = False
    unplaced_s: NonNegative | None = None
    current: Configuration | None = None
    restart_s: NonNegative = 0.0
    variants: Annotated[tuple[Variant, ...], Field(min_length=1, max_length=1000), in_slices(1000)]

    @model_validator(mode="after")
    def _check(self) -> Job:
        complaints = list(repeated((variant.name for variant in self.variants), "variants"))
        if self.optional and self.unplaced_s is None:
            complaints.append(("unplaced_s", "is missing; an optional job needs the time it counts with"))
        if not self.optional and self.unplaced_s is not None:
            complaints.append(("unplaced_s", "is set, but the job is not optional; set optional: true"))
        if self.current is not None and self.current.variant not in {v.name for v in self.variants}:
            names = ", ".join(variant.name for variant in self.variants)
            what = f"no variant is called {self.current.variant!r}; the variants are: {names}"
            complaints.append(("current.variant", what))
        refuse(complaints)
        return self
