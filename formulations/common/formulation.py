"""The contract of a formulation: objectives, evaluation, constraints, elementary and certified bounds.

Every method and the check stand on these few functions and on the tables of what is possible that a kind
derives from its instance. A plan's value is computed from the plan alone, whoever made it; no search and no
library is shared with the check.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import TypeAdapter

from ...instances.common.base import Instance, ProblemKind
from ...instances.common.fields import Model
from .objective import Diagnosis, Objective, Violation
from .tolerance import TIE

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

    kind: ClassVar[ProblemKind]
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

    def shared_tables(self) -> str | None:
        """Return which table the check took from the methods, and how far it compared it.

        None where the check derived everything by itself.
        """
        return None

    def certificate_fault(self, certificate: Any) -> str | None:
        """Return the first fault in the form of a certificate; None if it can be read."""
        del certificate
        return f"there are no certificates for {self.kind} yet"

    def prices(self, certificate: Any, plan: Sequence[EntryT]) -> dict[str, float] | None:
        """Return the dual price of each resource by a certificate; None if it has none."""
        del certificate, plan
        return None

    def advice(self, prices: Mapping[str, float], value: float) -> str | None:
        """Return advice on what to buy next by dual prices, one sentence; None where there is none.

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

    def choices(self, plan: Sequence[EntryT]) -> tuple[EntryT, ...]:
        """Return the plan with its decisions alone, without what it states of their consequences.

        It can be valued with other figures, of which the consequences are others.
        """
        return tuple(plan)

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
    """Return the pydantic reader of plans, cached: building it takes longer than reading a small plan."""
    # A type made while the program runs is beyond the type checker.
    return TypeAdapter(tuple[entry, ...])  # type: ignore[valid-type]
