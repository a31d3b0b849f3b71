"""A training job of an allocation instance: its variants, with ranges and speeds, and what it runs with."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from ..common.fields import (
    NONE_NAMED,
    Amounts,
    Checked,
    Complaint,
    Count,
    Flag,
    Model,
    Name,
    NonNegative,
    Positive,
    TaskCount,
    in_slices,
    repeated,
)
from .rules import complaints, job_rules, range_rules, variant_rules
from .speed import SpeedModel
from .with_fits import or_measured_loss


class Range(Checked):
    """How many tasks of one sort a job may have, both ends included."""

    min: TaskCount = 1
    max: TaskCount

    def _complaints(self) -> list[Complaint]:
        return complaints(range_rules(self.min, self.max), least=self.min, most=self.max)


class Variant(Checked):
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
    ps_demand: Amounts = NONE_NAMED
    workers: Range | None = None
    ps: Range | None = None
    speed: SpeedModel

    def _complaints(self) -> list[Complaint]:
        model = self.speed.model
        sort = (model == "table", model == "ring_allreduce", model in ("ps_sync", "ps_async"))
        workers, ps = (1 if limits is None else limits.min for limits in (self.workers, self.ps))
        rules = variant_rules(sort, self.workers is not None, workers, self.ps is not None, ps)
        return complaints(rules, model=model)


class Configuration(Model):
    """The configuration with which a job runs now."""

    variant: Name
    ps: Count = 0
    workers: Count


class Job(Checked):
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

    def _complaints(self) -> list[Complaint]:
        names = [variant.name for variant in self.variants]
        now = None if self.current is None else self.current.variant
        rules = job_rules(self.optional, self.unplaced_s is not None, now is not None, now in names)
        broken = complaints(rules, variant=now, variants=", ".join(names))
        return [*repeated(names, "variants"), *broken]
