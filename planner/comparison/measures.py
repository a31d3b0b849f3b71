"""What a kind of problem says of each plan in a comparison, beside its objective."""

from __future__ import annotations

from typing import Literal

from ...instances.common.fields import Model


class Measure(Model):
    """One figure of a plan.

    Attributes
    ----------
    name
        In a few words; the same figure has the same name in every plan of its kind.
    value
        None where the plan has no such figure.
    unit
        Seconds, a share of 1, or a plain number.
    """

    name: str
    value: float | None
    unit: Literal["s", "share", "number"] = "number"


class Distribution(Model):
    """How seconds are distributed over the parts of a plan.

    Attributes
    ----------
    name, of
        What is distributed, such as the completion time, and over what, such as jobs.
    seconds, shares
        The share of the parts that take at most so many seconds; both rise.
    """

    name: str
    of: str
    seconds: tuple[float, ...]
    shares: tuple[float, ...]


class Measures(Model):
    """The figures of a plan, and a distribution if its kind has one."""

    figures: tuple[Measure, ...] = ()
    distribution: Distribution | None = None
