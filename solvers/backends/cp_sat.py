"""CP-SAT as a backend: settings, scaling to integers, and lexicographic optimisation."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any, ClassVar

from ...formulations.common.clock import check_time
from ...formulations.common.formulation import MilpModel, ModelObjective, exact_integer_row
from ...formulations.registry import milp_model
from ...instances.common.errors import OptionError
from ...instances.common.fields import Fields
from ..common.base import Clock, FormulationT_contra, Outcome, Solver
from ..common.result import Limit, SolveOptions
from ..common.search_control import run_with_time_limit
from .base import Answer, BackendError, LexicographicSearch, call_with_deadline, missing_package_text

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

LARGEST_SUM = 2**50
"""Bound on scaled sums: CP-SAT computes in 64 bits, and doubles hold integers up to 2⁵³."""


def integer_row(coefficients: Sequence[float], limit: float) -> tuple[list[int], int]:
    """Return the row Σ aᵢxᵢ ≤ b, x ≥ 0, scaled to integers (a, b): exact if possible, else slightly looser.

    Loosening by less than 2⁻⁴⁰ of the largest figure keeps bounds valid.
    """
    figures, largest = [*coefficients, limit], LARGEST_SUM // max(1, len(coefficients))
    if all(figure % 1 == 0 for figure in figures) and max(map(abs, figures)) < largest:
        return list(map(int, coefficients)), int(limit)
    exact = exact_integer_row(coefficients, limit)
    if exact is not None and max(map(abs, [*exact[0], exact[1]])) < largest:
        return exact
    scale = 2.0**44 / max(map(abs, [*figures, 1e-300]))
    return [math.floor(a * scale) for a in coefficients], math.ceil(limit * scale)


@dataclass(frozen=True)
class IntegerTerms:
    """Objective coefficients scaled to integers; `numbers[i]` / `scale` is cᵢ or slightly better."""

    numbers: list[int]
    scale: float


def integer_terms(
    coefficients: Sequence[float], sense: str, most: float, scaled_most: float = LARGEST_SUM
) -> IntegerTerms:
    """Scale objective coefficients to integers, for values that never exceed `most` in absolute value.

    Where decimals cannot be kept exactly below `scaled_most`, they are rounded so that a bound stays a bound.
    """
    exact = exact_integer_row(coefficients, 0.0)
    if exact is not None:
        largest = max(map(abs, coefficients), default=0.0)
        factor = max(map(abs, exact[0]), default=0) / largest if largest else 1.0
        if most * factor < scaled_most:
            return IntegerTerms(exact[0], factor)
    scale = scaled_most / max(most, 1e-300)
    rounded = math.floor if sense == "min" else math.ceil
    return IntegerTerms([rounded(c * scale) for c in coefficients], scale)


@dataclass
class CpModel:
    """A CP-SAT model of an instance, with objectives that are its own integer expressions.

    `decode` turns variable values into a plan, `hint` the reverse.
    """

    model: cp_model.CpModel
    objectives: list[ModelObjective]
    decode: Callable[[Callable[[Any], int]], Sequence[Any]]
    hint: Callable[[Sequence[Any]], list[tuple[Any, int]]]


class _IntegerModel:
    """Builder of the CP-SAT model of a compact MILP model: variables, rows and objectives in integers.

    A continuous variable v stands for the largest of some sums, as a makespan does: all its rows are
    Σ aᵢxᵢ − v ≤ b. It is counted in steps that keep their figures exact, else as fine as sums below
    `LARGEST_SUM` allow. Variables are never negative, so that coefficients rounded down only loosen a row.

    Attributes
    ----------
    steps, numbers
        Continuous variable → steps in one unit of it, and figures of its rows → so many steps.
    """

    def __init__(self, compact: MilpModel[Any]) -> None:
        from ortools.sat.python import cp_model

        self.compact, self.model = compact, cp_model.CpModel()
        self._sum = cp_model.LinearExpr.weighted_sum
        self.variables: dict[Any, cp_model.IntVar] = {}
        self.steps: dict[Any, float] = {}
        self.numbers: dict[Any, dict[float, int]] = {}

    def build(self) -> CpModel:
        """Return the model with its objectives and the functions that decode plans and encode hints."""
        rows, objectives = self.compact.problem.constraints(), self.compact.objectives
        expressions = [target.expression for target in objectives]
        for variable in itertools.chain(self.compact.problem.variables(), *expressions):
            if variable not in self.variables:
                self._make(variable, rows)
        for row in rows:
            check_time()
            self._add(row)
        return CpModel(self.model, [self._objective(each) for each in objectives], self._decode, self._hint)

    def _make(self, variable: Any, rows: Sequence[Any]) -> None:
        """Make the integer variable of a variable of the compact model, in steps if it is continuous."""
        low, most = variable.lowBound, variable.upBound
        if variable.cat != "Integer":
            # Not `in`: two variables of PuLP compare as a constraint, which counts as true.
            bounding = [row for row in rows if any(v is variable for v in row)]
            figures = [low, *(-row.getUb() for row in bounding)]
            figures += [a for row in bounding for v, a in row.items() if v is not variable]
            largest = max([low, *(_largest(row, variable) for row in bounding)])
            # The fewest steps that are exact: CP-SAT may raise a bound step by step.
            terms = integer_terms(figures, "min", largest)
            self.steps[variable] = terms.scale
            self.numbers[variable] = dict(zip(figures, terms.numbers, strict=True))
            low, most = self.numbers[variable][low], math.ceil(largest * terms.scale) + 1
        self.variables[variable] = self.model.new_int_var(int(low), int(most), "")

    def _of(self, variables: Iterable[Any]) -> list[Any]:
        return [self.variables[variable] for variable in variables]

    def _add(self, row: Any) -> None:
        """Add a row of the compact model: between whole numbers as it is, else a shade looser."""
        low, most, coefficients = row.getLb(), row.getUb(), list(row.values())
        largest = [v for v in row if v in self.steps] if self.steps else []
        if largest:
            assert (low, [row[v] for v in largest]) == (None, [-1]), "it has to be the largest of sums"
            numbers = self.numbers[largest[0]]
            weights = [-1 if v is largest[0] else numbers[a] for v, a in row.items()]
            limit = -numbers[-most]
        elif most is None:
            weights, limit = integer_row([-a for a in coefficients], -low)
        else:
            weights, limit = integer_row(coefficients, most)
        assert low != most or limit == most, "an equation has to be of whole numbers"
        total = self._sum(self._of(row), weights)
        self.model.add(total == limit if low == most else total <= limit)

    def _objective(self, target: ModelObjective) -> ModelObjective:
        """Return an objective of the compact model, in integers that are a bound on it."""
        variables, expression = self._of(target.expression), target.expression
        if any(v in self.steps for v in expression):
            ((bounded, factor),) = expression.items()
            total, scale = variables[0], self.steps[bounded] / factor
        else:
            terms = integer_terms(
                [*expression.values(), expression.constant], target.sense, _largest(expression)
            )
            *weights, constant = terms.numbers
            total, scale = self._sum(variables, weights) + constant, terms.scale
        return ModelObjective(target.objective, total, target.sense, lambda b: target.to_plan(b / scale))

    def _decode(self, value: Callable[[Any], int]) -> Sequence[Any]:
        return self.compact.decode(lambda v: value(self.variables[v]))

    def _hint(self, plan: Sequence[Any]) -> list[tuple[Any, int]]:
        start = {v: x for v, x in self.compact.encode(plan).items() if v not in self.steps}
        return list(zip(self._of(start), map(round, start.values()), strict=True))


def _largest(expression: Any, without: Any = None) -> float:
    """Return a limit of the absolute value of a PuLP expression, without one of its variables."""
    sizes = (abs(a) * max(1, v.upBound) for v, a in expression.items() if v is not without)
    return math.fsum(sizes) + float(abs(expression.constant))


class CpSat(Solver[FormulationT_contra]):
    """Solver that gives the compact model of a kind of problem to CP-SAT, in integers."""

    name = "cp-sat"
    proves = True
    features = frozenset({"memory_limit", "warm_start", "backend_options"})
    settings: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, kind: str, what: str) -> None:
        self.kinds, self.what = (kind,), what

    def unavailable(self) -> str | None:
        """Return why CP-SAT cannot be used; None if it can."""
        return missing_package_text("ortools", "ortools")

    def model(self, formulation: FormulationT_contra) -> CpModel:
        """Return the CP-SAT model of a formulation.

        Raises
        ------
        TooLargeError
            If there would be too many coefficients.
        """
        return _IntegerModel(milp_model(formulation)).build()

    def solve(
        self,
        formulation: FormulationT_contra,
        options: SolveOptions,
        clock: Clock,
        settled: Sequence[float] = (),
    ) -> Outcome:
        """Optimise with CP-SAT; backend options of the user override the settings of the problem kind.

        Parameters
        ----------
        settled
            Values of the first objectives, which are fixed; no bounds are returned for them.
        """
        settings = {**self.settings, **options.backend_options}
        options = options.model_copy(update={"backend_options": settings})
        import_module("ortools.sat.python.cp_model")  # which must not be interrupted
        model = run_with_time_limit(clock, lambda: self.model(formulation))
        backend = f"OR-Tools CP-SAT {metadata.version('ortools')}"
        return LexicographicCpSat(model, options, clock).run(formulation, backend, settled)


def _configured(options: SolveOptions, clock: Clock) -> cp_model.CpSolver:
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    parameters = solver.parameters
    # Two parts of CP-SAT 9.15 cut off optima: inclusions in its presolve (google/or-tools#5293), and
    # symmetries together with what its presolve fixes because of costs.
    settings: Fields = {
        "relative_gap_limit": options.gap / 4,
        "presolve_inclusion_work_limit": 0,
        "symmetry_level": 0,
        "interleave_search": (options.threads or os.cpu_count() or 1) > 1,  # else it is not deterministic
    }
    memory_gib = options.memory_limit_gib
    given = {
        "max_time_in_seconds": clock.remaining_s,
        "num_workers": options.threads,
        "random_seed": None if options.seed is None else options.seed % 2**31,
        "max_memory_in_mb": None if memory_gib is None else int(1024 * memory_gib),
    }
    settings |= {key: value for key, value in given.items() if value is not None}
    for key, value in {**settings, **options.backend_options}.items():
        try:
            setattr(parameters, key, value)
        except (AttributeError, TypeError, ValueError) as error:
            raise OptionError(f"CP-SAT does not accept the option {key!r} = {value!r}: {error}") from None
    return solver


class LexicographicCpSat(LexicographicSearch):
    """Optimises the CP-SAT model of an instance."""

    def optimise(self, target: ModelObjective, plan: Sequence[Any] | None) -> Answer:
        """Optimise an objective, with a plan as hint."""
        from ortools.sat.python import cp_model

        model = self.model.model
        if plan is not None:
            model.clear_hints()  # those of the objective before; CP-SAT adds hints up
            for variable, start in self.model.hint(plan):
                model.add_hint(variable, start)
        if target.sense == "min":
            model.minimize(target.expression)
        else:
            model.maximize(target.expression)
        solver = _configured(self.options, self.clock)
        status = call_with_deadline(self.clock, partial(solver.solve, model), solver.stop_search)
        if status is None:
            return Answer(limit="time")
        if status == cp_model.MODEL_INVALID:
            raise BackendError(f"CP-SAT rejected the model: {model.validate()[:300]}")
        if status == cp_model.INFEASIBLE:
            return Answer(infeasible=True)
        limit = _limit_reached(status == cp_model.OPTIMAL, self.options, self.clock)
        if status == cp_model.UNKNOWN:
            return Answer(limit=limit)  # CP-SAT may report a bound of 0 that it never derived
        bound = target.to_plan(solver.best_objective_bound)
        return Answer(solver.value, bound if math.isfinite(bound) else None, limit)

    def fix(self, target: ModelObjective, value: float, values: Callable[[Any], Any] | None) -> None:
        """Constrain an objective to a value attained, up to the rounding of its scaled coefficients."""
        model = self.model.model
        reached = value / target.to_plan(1.0) if values is None else values(target.expression)
        # The value read from the solver is a float of an integer expression.
        slack = 1e-6 + 1e-12 * abs(reached)
        if target.sense == "min":
            model.add(target.expression <= math.floor(reached + slack))
        else:
            model.add(target.expression >= math.ceil(reached - slack))


EARLY_SHARE = 0.5
"""With more than this share of the time left, no time limit stopped CP-SAT, which may end a little early."""


def _limit_reached(closed: bool, options: SolveOptions, clock: Clock) -> Limit:
    """Return the limit that stopped CP-SAT, inferred from the remaining time and the options."""
    if closed:
        return "none"
    early = clock.remaining_s is None or clock.remaining_s > EARLY_SHARE * (clock.limit_s or 0.0)
    if early and options.memory_limit_gib is not None:
        return "memory"
    if early and options.backend_options:
        return "node"
    return "interrupt" if early else "time"
