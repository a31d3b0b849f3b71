"""A compact MILP formulation (textbook model): a PuLP problem, its objectives in order, and the way back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .clock import in_time
from .objective import Objective
from .tolerance import loosened

if TYPE_CHECKING:
    import pulp

EntryT = TypeVar("EntryT")

EXACT = 10**12
"""Largest integer that a scaled row may hold: PuLP writes 13 digits to a file, and sums stay exact."""


@dataclass
class ModelObjective:
    """An objective of the plan as a linear expression of the model.

    Attributes
    ----------
    objective
        The plan's objective.
    expression
        A PuLP expression, to be minimised or maximised as `sense` says.
    sense
        Of the expression; it may differ from the plan's (throughput is the inverse of stage time).
    to_plan
        Turns a value or bound of the expression into one of the plan's objective.
    integral
        Whether the expression takes only whole values, so that it can be fixed exactly.
    """

    objective: Objective
    expression: pulp.LpAffineExpression
    sense: str
    to_plan: Callable[[float], float] = float
    integral: bool = False


@dataclass
class MilpModel(Generic[EntryT]):
    """A mixed-integer model of an instance.

    Attributes
    ----------
    problem
        The PuLP problem with all constraints; the objective is set by whoever solves it.
    objectives
        In lexicographic order.
    decode
        Turns a function from variable to value into a plan.
    encode
        Turns a plan into start values of variables, for warm starts.
    """

    problem: pulp.LpProblem
    objectives: tuple[ModelObjective, ...]
    decode: Callable[[Callable[[Any], float]], tuple[EntryT, ...]]
    encode: Callable[[Sequence[EntryT]], Mapping[Any, float]]
    _nothing: Any = None

    def minimise(self, index: int, scale: float) -> None:
        """Make `scale` times an objective, without its constant, the one to be minimised."""
        import pulp

        self.problem.sense = pulp.LpMinimize
        self._optimise([(x, scale * c) for x, c in self.objectives[index].expression.items()])

    def _optimise(self, terms: list[tuple[Any, float]], constant: float = 0.0) -> None:
        """Set the objective to the terms without zeros, or where none is left to a variable fixed at 0.

        PuLP writes a variable that stands nowhere with a coefficient, or an empty objective, to files that
        CBC cannot read.
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
        """Write the model with one of its objectives to an MPS or LP file, as the ending says.

        MPS has no word for maximising that every reader knows, so there it is the negative to be minimised.
        """
        import pulp

        chosen = self.objectives[index]
        if path.suffix == ".mps":
            self.minimise(index, 1.0 if chosen.sense == "min" else -1.0)
            self.problem.writeMPS(str(path))
        else:
            self.problem.sense = pulp.LpMinimize if chosen.sense == "min" else pulp.LpMaximize
            self._optimise(list(chosen.expression.items()), chosen.expression.constant)
            self.problem.writeLP(str(path))


def whole_row(coefficients: Sequence[float], limit: float) -> tuple[list[int], int] | None:
    """Return Σ aᵢxᵢ ≤ b with integer x, scaled to integer coefficients without changing its solutions.

    The decimals that the user wrote count as exact: 0.1 is 1/10. Integer coefficients make a row immune to
    a solver's feasibility tolerance.

    Returns
    -------
    coefficients, limit
        Or None where the scaled numbers would be too large to stay exact.
    """
    if not math.isfinite(limit):
        return None
    exact: dict[float, Fraction] = {}
    common = 1
    for value in set(coefficients):
        exact[value] = Fraction(repr(float(value)))
        common = math.lcm(common, exact[value].denominator)
        if common > EXACT:
            return None
    # A common divisor of the coefficients may be taken out, because the limit is rounded down anyway.
    divisor = math.gcd(*(int(value * common) for value in exact.values())) or 1
    bound = math.floor(Fraction(repr(float(limit))) * common / divisor)
    whole = {value: int(fraction * common) // divisor for value, fraction in exact.items()}
    if max(map(abs, [*whole.values(), bound, 0])) > EXACT:
        return None
    return [whole[value] for value in coefficients], bound


def at_most(variables: Sequence[Any], coefficients: Sequence[float], limit: float) -> pulp.LpConstraint:
    """Return the constraint Σ aᵢxᵢ ≤ b over integer variables, with integer coefficients where possible."""
    import pulp

    weights: Sequence[float]
    weights, bound = whole_row(coefficients, loosened(limit)) or (coefficients, loosened(limit))
    # A row over all variables takes PuLP seconds.
    terms = in_time((x, a) for x, a in zip(variables, weights, strict=True) if a)
    return pulp.LpAffineExpression(terms) <= bound


def new_problem(name: str) -> pulp.LpProblem:
    """Return an empty PuLP problem with a name that every file format accepts."""
    import pulp

    safe = "".join(character if character.isascii() and character.isalnum() else "_" for character in name)
    return pulp.LpProblem(safe[:60] or "plan")
