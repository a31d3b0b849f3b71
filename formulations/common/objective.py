"""Objectives, the constraints that a plan breaks, and why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ...instances.common.fields import Many, Model
from .tolerance import agree

Sense = Literal["min", "max"]


@dataclass(frozen=True)
class Objective:
    """One objective: its name, whether it is minimised or maximised, and the unit of its values."""

    name: str
    sense: Sense
    unit: str

    def gap(self, value: float | None, bound: float | None) -> float | None:
        """Return ``|value − bound| / |value|``; 0 if equal, None if unknown, beyond all floats or by 0."""
        if value is None or bound is None:
            return None
        if value == bound:
            return 0.0
        gap = abs(value - bound) / abs(value) if value else math.inf
        return gap if math.isfinite(gap) else None

    def better(self, a: float, b: float) -> bool:
        """Return whether value `a` is strictly better than `b`, beyond rounding."""
        if agree(a, b):
            return False
        return a < b if self.sense == "min" else a > b

    def tighter(self, a: float | None, b: float | None) -> float | None:
        """Return the tighter of two bounds, either of which may be unknown."""
        if a is None or b is None:
            return b if a is None else a
        return max(a, b) if self.sense == "min" else min(a, b)


@dataclass(frozen=True)
class Violation:
    """A constraint that a plan breaks, and by how much."""

    constraint: str
    what: str

    def __str__(self) -> str:
        return f"{self.constraint}: {self.what}"


class Diagnosis(Model):
    """Why an instance has no plan.

    Attributes
    ----------
    reasons
        What is in the way, in sentences that name the job, resource or layer and what is missing.
    remedies
        Changes, each of which is needed or would help, smallest first.
    """

    reasons: Many[str]
    remedies: Many[str] = ()
