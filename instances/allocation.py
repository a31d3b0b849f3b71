"""Allocation instances: jobs that train at a speed that depends on their parameter servers and workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from .base import Instance
from .fields import (
    Amounts,
    Complaint,
    Count,
    Flag,
    Model,
    Name,
    NonNegative,
    Positive,
    TableFile,
    TaskCount,
    refuse,
    repeated,
    unknown_names,
)
from .speed import RingAllreduce, SpeedModel, SpeedTable

if TYPE_CHECKING:
    import pandas as pd


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
    """What a job runs with now."""

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

    name: Name
    remaining_steps: Positive
    weight: NonNegative = 1.0
    stage: Literal["beginning", "running"] = "running"
    deadline_s: Positive | None = None
    optional: Flag = False
    unplaced_s: NonNegative | None = None
    current: Configuration | None = None
    restart_s: NonNegative = 0.0
    variants: Annotated[tuple[Variant, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _check(self) -> Job:
        complaints = repeated((variant.name for variant in self.variants), "variants")
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


class AllocationInstance(Instance):
    """How many parameter servers and workers does each job get? (Optimus, EuroSys'18)

    Attributes
    ----------
    objective
        `total_completion_time`, Σ ω_j t_j, or `makespan`, max_j t_j; both in seconds.
    resources
        C_r, how much of each resource the cluster has.
    prices_usd_per_hour, budget_usd_per_hour
        Price of one unit of a resource, and what all allocated units together may cost per hour.
    """

    kind: Literal["allocation"] = "allocation"
    objective: Literal["total_completion_time", "makespan"] = "total_completion_time"
    resources: Annotated[Amounts, Field(min_length=1)]
    prices_usd_per_hour: Amounts = {}
    budget_usd_per_hour: NonNegative | None = None
    jobs: Annotated[tuple[Job, ...], Field(min_length=1), TableFile()]

    @model_validator(mode="after")
    def _check(self) -> AllocationInstance:
        refuse(self._complaints())
        return self

    def _complaints(self) -> Iterator[Complaint]:
        yield from repeated((job.name for job in self.jobs), "jobs")
        known = self.resources
        yield from unknown_names(
            self.prices_usd_per_hour, known, "prices_usd_per_hour", "resource", "resources"
        )
        if self.budget_usd_per_hour is not None and not any(self.prices_usd_per_hour.values()):
            yield "budget_usd_per_hour", "is set, but no resource has a price; give prices_usd_per_hour"
        for j, job in enumerate(self.jobs):
            for v, variant in enumerate(job.variants):
                for key in ("worker_demand", "ps_demand"):
                    path = f"jobs[{j}].variants[{v}].{key}"
                    yield from unknown_names(getattr(variant, key), known, path, "resource", "resources")

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each variant of each job."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "job": job.name,
                    "remaining_steps": job.remaining_steps,
                    "weight": job.weight,
                    "optional": job.optional,
                    "variant": variant.name,
                    "speed_model": variant.speed.model,
                    **{f"worker_{r}": variant.worker_demand.get(r, 0.0) for r in self.resources},
                    **{f"ps_{r}": variant.ps_demand.get(r, 0.0) for r in self.resources},
                }
                for job in self.jobs
                for variant in job.variants
            ]
        )
