"""A training job of an allocation instance: its variants, with ranges and speeds, and what it runs with."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from ..common.fields import (
    Checked,
    Complaint,
    Count,
    Flag,
    Model,
    Name,
    NonNegative,
    Positive,
    in_slices,
    repeated,
)
from ..common.rules import complaints
from ..common.variants import Variant as AnyVariant
from .rules import job_rules
from .speed import SpeedModel
from .with_fits import or_measured_loss


class Variant(AnyVariant):
    """One way to run a job, for instance on one GPU model; a plan picks one variant."""

    speed: SpeedModel


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
