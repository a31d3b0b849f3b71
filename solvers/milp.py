"""`milp:BACKEND`: the compact MILP formulation (textbook model), optimised lexicographically by a backend."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..formulations.common.clock import check_time
from ..formulations.common.formulation import (
    AnyFormulation,
    MilpModel,
    ModelObjective,
    exact_integer_row,
)
from ..formulations.registry import milp_model
from .backends.base import Answer, Backend, LexicographicSearch
from .common.base import Clock, Outcome, Solver
from .common.result import SolveOptions

if TYPE_CHECKING:
    import pulp


LEAST_COST, MAX_COST = 1e3, 1e6
"""An objective is scaled until its largest coefficient lies between these, away from absolute tolerances and
from values that backends take for infinite."""
MAX_UNLIKE = 1e9
"""Largest ratio of coefficients in an objective: backends keep it within some 1e-9 of the largest."""
MAX_UNLIKE_IN_ROW = 1e7
"""Largest ratio of coefficients in a row: HiGHS 1.13 cuts off plans that just fill a row whose coefficients
are 5e7 times apart."""
UNSEEN_COST = 1e-7
"""Backends stop at reduced costs of this size, and may ignore smaller coefficients of the objective."""


class Milp(Solver[Any]):
    """Solver that passes the compact MILP formulation (textbook model) to one backend.

    Parameters
    ----------
    backend
        The mixed-integer solver to use.
    kinds
        The kinds with a textbook model.
    """

    proves = True

    def __init__(self, backend: Backend, kinds: tuple[str, ...] = ()) -> None:
        self.backend, self.kinds = backend, kinds
        self.name = f"milp:{backend.name}"
        self.features = backend.features
        self.what = f"textbook mixed-integer model in PuLP, solved by {backend.title}"

    def unavailable(self) -> str | None:
        """Return why the backend cannot be used; None if it can."""
        return self.backend.unavailable()

    def solve(
        self,
        formulation: AnyFormulation,
        options: SolveOptions,
        clock: Clock,
        settled: Sequence[float] = (),
    ) -> Outcome:
        """Optimise the objectives in lexicographic order, each fixed at its optimum before the next.

        Parameters
        ----------
        settled
            Values of the first objectives, which are fixed; no bounds are returned for them.
        """
        model = milp_model(formulation)
        search = _MilpSearch(model, options, clock, self.backend)
        outcome = search.run(formulation, f"{self.backend.title} {self.backend.version()}", settled)
        if (outcome.bounds or outcome.infeasible) and not search.well_scaled:
            outcome.doubtful = True
            why = f"the figures are too large or unlike for the tolerances of {self.backend.title}"
            outcome.message = f"{why}, so that only what is certified counts"
        return outcome


class _MilpSearch(LexicographicSearch):
    """Optimises the compact MILP formulation on a backend.

    Attributes
    ----------
    well_scaled
        Whether the coefficients of all rows and objectives suit the tolerances of the backend.
    """

    def __init__(self, model: MilpModel[Any], options: SolveOptions, clock: Clock, backend: Backend) -> None:
        super().__init__(model, options, clock)
        self.backend = backend
        self.well_scaled = _is_well_scaled(model, backend.largest_entry)

    def optimise(self, target: ModelObjective, plan: Sequence[Any] | None) -> Answer:
        """Minimise one objective (negated if to be maximised); the bound is in the plan's unit."""
        sign = 1.0 if target.sense == "min" else -1.0
        # Beyond 1e6 a backend cannot always tell whole numbers apart, nor work with them as they are.
        whole = target.integral and max(map(abs, target.expression.values()), default=0.0) <= MAX_COST
        scale = 1.0 if whole else _scale(target.expression.values())
        self.model.minimise(target, sign * scale)
        # Half leaves room for the plan's figures, which may be the inverse of the model's.
        options = self.options.model_copy(update={"gap": self.options.gap / 2})
        start = None if plan is None else self.model.encode(plan)
        answer = self.backend.minimise(self.model.problem, options, self.clock, start)
        if answer.bound is None:
            return answer
        bound = sign * answer.bound / scale + target.expression.constant
        unseen = _ignored_cost(target.expression, scale)
        bound += -unseen if target.sense == "min" else unseen
        if whole:
            bound = math.ceil(bound - 1e-6) if target.sense == "min" else math.floor(bound + 1e-6)
        in_plan = target.to_plan(bound)
        return replace(answer, bound=in_plan if math.isfinite(in_plan) else None)

    def fix(self, target: ModelObjective, value: float, values: object) -> None:
        """Constrain an objective to a value of the plan's objective."""
        del values
        row = _fix_objective(self.model, target, value)
        self.well_scaled &= _suits(row, MAX_UNLIKE_IN_ROW, self.backend.largest_entry)


def _scale(coefficients: Iterable[float]) -> float:
    """Return the power of two that scales the largest coefficient into the range that backends handle."""
    largest = max(map(abs, coefficients), default=0.0)
    least, most = LEAST_COST, MAX_COST
    if not largest or least <= largest <= most:
        return 1.0
    return 2.0 ** math.ceil(math.log2((least if largest < least else most) / largest))


def _is_well_scaled(model: MilpModel[Any], largest: float) -> bool:
    """Return whether the coefficients of all rows and objectives suit the tolerances of backends.

    Parameters
    ----------
    largest
        Largest coefficient of a row.
    """
    rows = ((row, MAX_UNLIKE_IN_ROW, largest) for row in model.problem.constraints())
    objectives = ((target.expression, MAX_UNLIKE, math.inf) for target in model.objectives)
    for expression, ratio, most in (*rows, *objectives):
        check_time()
        if not _suits(expression, ratio, most):
            return False
    return True


def _suits(expression: Mapping[Any, float], ratio: float, largest: float) -> bool:
    """Return whether the largest coefficient is at most `largest`, and `ratio` times the smallest one."""
    sizes = [abs(c) for c in expression.values() if c]
    return not sizes or max(sizes) <= min(largest, ratio * min(sizes))


def _ignored_cost(expression: pulp.LpAffineExpression, scale: float) -> float:
    """Return the maximum total of the objective's terms whose coefficients a backend may treat as zero."""
    return math.fsum(
        abs(c) * (math.inf if None in (x.lowBound, x.upBound) else x.upBound - x.lowBound)
        for x, c in expression.items()
        if 0 < abs(c) * scale < UNSEEN_COST
    )


def _fix_objective(model: MilpModel[Any], target: ModelObjective, value: float) -> pulp.LpAffineExpression:
    """Fix an objective at its optimum (ε-constraint); exactly where it is integral or scales to integers.

    Returns
    -------
    row
        The coefficients of the constraint that was added.
    """
    import pulp

    expression, constant = target.expression, target.expression.constant
    sign = 1.0 if target.sense == "min" else -1.0
    if target.integral:
        whole = round(value)
        model.problem += expression <= whole if target.sense == "min" else expression >= whole
        return expression
    items = [(variable, sign * c) for variable, c in expression.items()]
    limit = sign * (value - constant)
    limit += 1e-9 * abs(limit) + 1e-15  # the plan at hand has to stay feasible under rounding
    scaled = None
    if all(variable.cat == pulp.LpInteger for variable, _ in items):
        scaled = exact_integer_row([c for _, c in items], limit)
    if scaled is not None:
        weights, bound = scaled
        row = pulp.LpAffineExpression([(x, weight) for (x, _), weight in zip(items, weights, strict=True)])
    else:
        scale = _scale([c for _, c in items])
        row, bound = pulp.LpAffineExpression([(x, scale * c) for x, c in items]), scale * limit
    model.problem += row <= bound
    return row
