"""What a plan of staging consists of: stages, consecutive layers on units of one type."""

from __future__ import annotations

from dataclasses import dataclass

from ...instances.common.fields import Count, Model, Name, PositiveCount


class Stage(Model):
    """Consecutive layers, counted from 0 and both ends included, on `units` units of one type."""

    first_layer: Count
    last_layer: Count
    type: Name
    units: PositiveCount


@dataclass(frozen=True)
class Column:
    """A possible stage, a column of the compact model; `type` is the index of the type."""

    first: int
    last: int
    type: int
    units: int
    time_s: float


@dataclass(frozen=True)
class Corner:
    """A point of the frontier: stage time [s per probe batch] and cost [USD]."""

    time_s: float
    cost_usd: float
