"""What the mathematics of each kind provides: objectives, evaluation, constraints, elementary bounds.

Every method and the independent check stand on these few functions, and nothing else is shared between
them: a plan's value is computed from the plan alone, whoever made it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from pydantic import TypeAdapter

from ...instances.common.base import Instance, Kind
from ...instances.common.fields import Many, Model

if TYPE_CHECKING:
    from .milp_model import TextbookModel

Sense = Literal["min", "max"]

TOLERANCE = 1e-9
"""Relative slack in every comparison of a float with a limit: 0.1 + 0.2 may fill a capacity of 0.3."""

TIE = 1e-12
"""Values of two plans that differ by no more than this, relatively, are the same."""


def within(amount: float, limit: float) -> bool:
    """Return whether an amount keeps a limit, up to the rounding of floating-point sums."""
    return amount <= loosened(limit)


def loosened(limit: float) -> float:
    """Return the largest amount that still keeps a limit; every method must allow what the check allows."""
    return limit + TOLERANCE * max(abs(limit), 1e-9)


def agree(a: float, b: float) -> bool:
    """Return whether two figures are the same up to the rounding of floating-point sums."""
    return math.isclose(a, b, rel_tol=1e-9)


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


InstanceT = TypeVar("InstanceT", bound=Instance)
EntryT = TypeVar("EntryT", bound=Model)


class Formulation(ABC, Generic[InstanceT, EntryT]):
    """The mathematics of one instance.

    A plan is a tuple of entries, one for each job or stage. Subclasses say which entries there are.

    Parameters
    ----------
    instance
        The validated instance; what is derived from it is computed once and kept here.
    """

    kind: ClassVar[Kind]
    entry: ClassVar[type[Model]]

    def __init__(self, instance: InstanceT) -> None:
        self.instance = instance

    @cached_property
    @abstractmethod
    def objectives(self) -> tuple[Objective, ...]:
        """The objectives in lexicographic order; most kinds have one."""

    @abstractmethod
    def violations(self, plan: Sequence[EntryT]) -> list[Violation]:
        """Return every constraint that the plan breaks; an empty list means that it is feasible."""

    @abstractmethod
    def evaluate(self, plan: Sequence[EntryT]) -> tuple[float, ...]:
        """Return the value of each objective, computed from the plan alone; the plan must be feasible."""

    def precedes(self, a: Sequence[float], b: Sequence[float]) -> bool:
        """Return whether values `a` come before `b` in the lexicographic order of the objectives.

        Both were computed from plans by `evaluate`, so that only the last digits may be rounding.
        """
        for objective, x, y in zip(self.objectives, a, b, strict=True):
            if not math.isclose(x, y, rel_tol=TIE):
                return x < y if objective.sense == "min" else x > y
        return False

    @abstractmethod
    def elementary_bounds(self) -> tuple[float | None, ...]:
        """Return for each objective a bound that needs no solver, None where there is none.

        The checker re-derives it, so it is the least that is certified about any plan.
        """

    def certified_bounds(
        self, certificate: Any, values: Sequence[float] | None = None
    ) -> tuple[float | None, ...]:
        """Return for each objective the bound that is derived here, without trusting any solver.

        Parameters
        ----------
        certificate
            Plain data from a solver, None if there is none; what it claims is checked, never believed.
        values
            Objectives of the feasible plan that it came with, if there is one: a bound on a later objective
            is one on plans whose earlier objectives are no worse than these.

        Returns
        -------
        bounds
            At least the elementary ones; infinite if the certificate proves that there is no plan.
        """
        del certificate, values
        return self.elementary_bounds()

    def certificate_fault(self, certificate: Any) -> str | None:
        """Return what is wrong with the form of a certificate; None if it can be read."""
        del certificate
        return f"there are no certificates for {self.kind} yet"

    def prices(self, certificate: Any, plan: Sequence[EntryT]) -> dict[str, float] | None:
        """Return what a certificate says one more unit of each resource is worth; None if it does not say."""
        del certificate, plan
        return None

    def advice(self, prices: Mapping[str, float], value: float) -> str | None:
        """Return what prices say should be bought next, in a sentence; None where they say nothing.

        Parameters
        ----------
        value
            The first objective of the plan that they came with.
        """
        del prices, value
        return None

    @abstractmethod
    def elementary_infeasibility(self) -> Diagnosis | None:
        """Return a diagnosis if counting alone proves that no plan exists."""

    @abstractmethod
    def textbook(self) -> TextbookModel[EntryT]:
        """Return the textbook mixed-integer model in PuLP."""

    def finish(self, plan: Sequence[EntryT]) -> tuple[EntryT, ...]:
        """Return the plan as it is shown: in the order of the instance, with reasons filled in."""
        return tuple(plan)

    @classmethod
    def parse_plan(cls, data: Any) -> tuple[EntryT, ...]:
        """Return a plan from plain data; raises pydantic's ValidationError where it is malformed."""
        plan: tuple[EntryT, ...] = _plan_adapter(cls.entry).validate_python(data)
        return plan


@cache
def _plan_adapter(entry: type[Model]) -> TypeAdapter[Any]:
    """Return what reads plans of these entries; making it takes longer than reading a small plan."""
    # A type made while the program runs is beyond the type checker.
    return TypeAdapter(tuple[entry, ...])  # type: ignore[valid-type]
