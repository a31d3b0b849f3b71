"""Interface of a formulation: evaluation, violations and bounds of plans, and its compact MILP model.

A kind evaluates a plan from the plan alone, whichever method computed it, and lists the constraints that
the plan violates. Combinatorial bounds come from counting, certified bounds from a certificate that a
method wrote; no search and no library is shared with the check. The methods and the check build on these
functions and on the tables that a kind derives from its instance.

The compact MILP formulation is a PuLP problem with its objectives in lexicographic order, and a function
that reads a plan from the values of its variables.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pydantic import SerializerFunctionWrapHandler, TypeAdapter, ValidationError, model_serializer

from ...instances.common.base import Instance, ProblemKind
from ...instances.common.fields import Fields, Model
from .clock import until_time_limit
from .objective import (
    TIE_TOLERANCE,
    Bounds,
    Diagnosis,
    Objective,
    Values,
    Violation,
    common_divisor,
    exact_fraction,
    loosened,
)

if TYPE_CHECKING:
    import pulp


InstanceT = TypeVar("InstanceT", bound=Instance)
EntryT = TypeVar("EntryT", bound=Model)
CertificateT = TypeVar("CertificateT", bound=Model)


class Formulation(ABC, Generic[InstanceT, EntryT]):
    """Interface of a problem instance's mathematics: objectives, constraints and certified bounds.

    A plan is a tuple of entries, one for each job or stage; `entry` is their type.

    Parameters
    ----------
    instance
        The validated instance; data derived from it are computed once and cached here.
    """

    kind: ClassVar[ProblemKind]
    entry: ClassVar[type[Model]]

    def __init__(self, instance: InstanceT) -> None:
        self.instance = instance

    @cached_property
    @abstractmethod
    def objectives(self) -> tuple[Objective, ...]:
        """The objectives in lexicographic order; most problem kinds have one."""

    @abstractmethod
    def violations(self, plan: Sequence[EntryT]) -> list[Violation]:
        """Return every constraint that the plan breaks; an empty list means that it is feasible."""

    @abstractmethod
    def evaluate(self, plan: Sequence[EntryT]) -> tuple[float, ...]:
        """Return the value of each objective, computed from the plan alone; the plan must be feasible."""

    def precedes(self, a: Sequence[float], b: Sequence[float]) -> bool:
        """Return whether objective values `a` are lexicographically better than `b`, beyond rounding.

        Both were computed from plans by `evaluate`, so that only the last digits may be rounding.
        """
        for objective, x, y in zip(self.objectives, a, b, strict=True):
            if not math.isclose(x, y, rel_tol=TIE_TOLERANCE):
                return x < y if objective.sense == "min" else x > y
        return False

    @abstractmethod
    def elementary_bounds(self) -> Bounds:
        """Return a combinatorial bound on each objective, derived without a solver; None where none is known.

        The check re-derives it, so it holds for any plan even without a certificate.
        """

    def certified_bounds(self, certificate: Any, values: Values = None) -> Bounds:
        """Return the certified bound on each objective, derived without trusting any solver.

        Parameters
        ----------
        certificate
            Plain data from a solver, None if there is none; its claims are checked.
        values
            Objectives of the feasible plan that belongs to it, if there is one: a bound on a later objective
            holds for plans whose earlier objectives are no worse than these.

        Returns
        -------
        bounds
            At least the elementary ones; infinite if the certificate proves that there is no plan.
        """
        del certificate, values
        return self.elementary_bounds()

    def shared_tables(self) -> str | None:
        """Return a note on tables that the check takes from the solvers, and how far it compared them.

        None where the check derived all data independently.
        """
        return None

    def read(self, certificate: Any) -> Any:
        """Return a certificate in the types of its kind, or its first format error as text."""
        del certificate
        return f"there are no certificates for {self.kind} yet"

    def certificate_fault(self, certificate: Any) -> str | None:
        """Return the first format error of a certificate; None if it can be read."""
        given = self.read(certificate)
        return given if isinstance(given, str) else None

    def prices(self, certificate: Any, plan: Sequence[EntryT]) -> dict[str, float] | None:
        """Return the dual price of each resource in a certificate, by name; None if it has no prices."""
        del certificate, plan
        return None

    def advice(self, prices: Mapping[str, float], value: float) -> str | None:
        """Return a sentence that recommends a purchase by dual prices; None if it recommends nothing.

        Parameters
        ----------
        value
            First objective of the plan that belongs to the prices.
        """
        del prices, value
        return None

    @abstractmethod
    def elementary_infeasibility(self) -> Diagnosis | None:
        """Return a diagnosis if a counting argument proves that there is no feasible plan; otherwise None."""

    def choices(self, plan: Sequence[EntryT]) -> Sequence[EntryT]:
        """Return the plan with its decisions only, without values derived from them such as times.

        It can then be evaluated on an instance with other data.
        """
        return tuple(plan)

    def adapted(self, plan: Sequence[EntryT]) -> Sequence[EntryT] | None:
        """Return a plan of an earlier instance, made to fit this one as far as the kind knows how.

        None where what is new has no room beside it.
        """
        return tuple(plan)

    def finish(self, plan: Sequence[EntryT]) -> Sequence[EntryT]:
        """Return the plan for output: in the order of the instance, with derived values and reasons."""
        return tuple(plan)

    @classmethod
    def parse_plan(cls, data: Any) -> tuple[EntryT, ...]:
        """Return the plan parsed from plain data; raises pydantic's ValidationError if it is malformed."""
        plan: tuple[EntryT, ...] = _plan_adapter(cls.entry).validate_python(data)
        return plan


AnyFormulation = Formulation[Any, Any]
"""A formulation of any kind."""


class PlanEntry(Model):
    """Base of entries of plans that lack a field in documents where it is None, so that hashes stay."""

    omitted: ClassVar[str]

    @model_serializer(mode="wrap")
    def _without_none(self, handler: SerializerFunctionWrapHandler) -> Fields:
        data: Fields = handler(self)
        if data.get(self.omitted) is None:
            data.pop(self.omitted, None)
        return data


@cache
def _plan_adapter(entry: type[Model]) -> TypeAdapter[Any]:
    """Return the pydantic validator of plans with entries of a type, cached because it is slow to build."""
    # A type made while the program runs is beyond the type checker.
    return TypeAdapter(tuple[entry, ...])  # type: ignore[valid-type]


def parsed_certificate(form: type[CertificateT], data: Any) -> CertificateT | str:
    """Return the certificate of a form that untrusted plain data state, or their first format error."""
    try:
        return form.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"


ModelEntryT = TypeVar("ModelEntryT")

MAX_EXACT_INTEGER = 10**12
"""Largest integer that a scaled row may hold: PuLP writes 13 digits to a file, and sums stay exact."""


@dataclass
class ModelObjective:
    """An objective of the plan as an expression in the variables of a model.

    Attributes
    ----------
    objective
        The plan's objective.
    expression
        To be minimised or maximised as `sense` says: of PuLP, linear, or of CP-SAT, of integers.
    sense
        Of the expression; it may differ from the plan's (throughput is the inverse of stage time).
    to_plan
        Turns a value or bound of the expression into one of the plan's objective.
    integral
        Whether the expression takes only whole values, so that it can be fixed exactly.
    """

    objective: Objective
    expression: Any
    sense: str
    to_plan: Callable[[float], float] = float
    integral: bool = False


@dataclass
class MilpModel(Generic[ModelEntryT]):
    """A mixed-integer linear programming model (PuLP) of an instance.

    Attributes
    ----------
    problem
        The PuLP problem with all constraints; the solver sets the objective.
    objectives
        In lexicographic order.
    decode
        Turns a function from variable to value into a plan.
    encode
        Turns a plan into start values of variables, for warm starts.
    """

    problem: pulp.LpProblem
    objectives: tuple[ModelObjective, ...]
    decode: Callable[[Callable[[Any], float]], Sequence[ModelEntryT]]
    encode: Callable[[Sequence[ModelEntryT]], Mapping[Any, float]]
    _nothing: Any = None

    def minimise(self, target: ModelObjective, scale: float) -> None:
        """Set the model to minimise `scale` times one of its objectives, without the constant term."""
        import pulp

        self.problem.sense = pulp.LpMinimize
        self._optimise([(x, scale * c) for x, c in target.expression.items()])

    def _optimise(self, terms: list[tuple[Any, float]], constant: float = 0.0) -> None:
        """Set the model's objective to the non-zero terms or, without any, to a variable fixed at 0.

        CBC cannot read the files that PuLP writes for an empty objective, or for variables without any
        coefficient.
        """
        import pulp

        terms = [(variable, coefficient) for variable, coefficient in terms if coefficient]
        if not terms:
            if self._nothing is None:
                self._nothing = self.problem.add_variable("nothing", lowBound=0)
                self.problem += self._nothing <= 0
            terms = [(self._nothing, 1.0)]
        self.problem.objective = pulp.LpAffineExpression(terms, constant)

    def write(self, path: Path, index: int = 0) -> None:
        """Write the model with one of its objectives to an MPS or LP file, by the suffix of the path.

        Not every reader of MPS knows maximisation, so in MPS the negative objective is minimised.
        """
        import pulp

        chosen = self.objectives[index]
        if path.suffix == ".mps":
            self.minimise(chosen, 1.0 if chosen.sense == "min" else -1.0)
            self.problem.writeMPS(str(path))
        else:
            self.problem.sense = pulp.LpMinimize if chosen.sense == "min" else pulp.LpMaximize
            self._optimise(list(chosen.expression.items()), chosen.expression.constant)
            self.problem.writeLP(str(path))


def exact_integer_row(coefficients: Sequence[float], limit: float) -> tuple[list[int], int] | None:
    """Scale the row Σ aᵢxᵢ ≤ b over integer x to integer coefficients with the same solutions.

    The decimals that the user wrote count as exact: 0.1 is 1/10. Integer coefficients make a row immune to
    a solver's feasibility tolerance.

    Returns
    -------
    coefficients, limit
        Or None where the scaled numbers would be too large to stay exact.
    """
    if not math.isfinite(limit):
        return None
    exact = {value: exact_fraction(value) for value in set(coefficients)}
    # A common divisor of the coefficients may be taken out, because the limit is rounded down anyway.
    step = common_divisor(exact.values()) or Fraction(1)
    bound = math.floor(exact_fraction(limit) / step)
    whole = {value: int(fraction / step) for value, fraction in exact.items()}
    if max(map(abs, [*whole.values(), bound, 0])) > MAX_EXACT_INTEGER:
        return None
    return [whole[value] for value in coefficients], bound


def upper_bound_row(
    variables: Sequence[Any], coefficients: Sequence[float], limit: float
) -> pulp.LpConstraint:
    """Return the PuLP row Σ aᵢxᵢ ≤ b over integer variables, with integer coefficients if possible."""
    import pulp

    weights: Sequence[float]
    weights, bound = exact_integer_row(coefficients, loosened(limit)) or (coefficients, loosened(limit))
    # A row over all variables takes PuLP seconds.
    terms = until_time_limit((x, a) for x, a in zip(variables, weights, strict=True) if a)
    return pulp.LpAffineExpression(terms) <= bound


def new_problem(name: str) -> pulp.LpProblem:
    """Return an empty PuLP problem with a name that every file format accepts."""
    import pulp

    return pulp.LpProblem(re.sub(r"[^A-Za-z0-9]", "_", name)[:60] or "plan")
