"""Run a solver: check the options, solve, certify, and conclude the result.

`find_plan` looks for a feasible plan with quick heuristics, to refute a claim of infeasibility.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from pydantic import ValidationError

from ..formulations.common.formulation import AnyFormulation
from ..formulations.common.objective import Diagnosis
from ..formulations.registry import formulate
from ..instances.common.base import Instance
from ..instances.common.errors import OptionError, OutOfTimeError, TooLargeError
from ..instances.common.fields import Fields
from .backends.base import BackendError
from .common.base import Clock, Outcome, Solver
from .common.conclude import conclude, diagnose_with, hard_deadline
from .common.kind import Search
from .common.result import Result, SolveOptions
from .common.search_control import is_nested_solve, solve_interruptibly
from .registry import KINDS

log = logging.getLogger("clusterplan")


def solve_with(instance: Instance, solver: Solver[Any], options: SolveOptions) -> Result:
    """Solve an instance and return a verified result.

    Raises
    ------
    OptionError
        If the solver cannot honour an option, or a warm start is no plan of this kind.
    TooLargeError
        If the method's explicit model would be too large.
    """
    clock = Clock(options.time_limit_s)
    solver.check_options(options)
    formulation = formulate(instance)
    checked = options if options.warm_start is None else _with_checked_warm_start(formulation, options)
    outcome, diagnosis = _outcome_and_diagnosis(formulation, solver, checked, clock)
    result = conclude(formulation, solver.name, options, outcome, clock.elapsed_s, diagnosis)
    # The check, which may take as long as a solve, counts too.
    return result.model_copy(update={"runtime_s": clock.elapsed_s})


def _outcome_and_diagnosis(
    formulation: AnyFormulation, solver: Solver[Any], options: SolveOptions, clock: Clock
) -> tuple[Outcome, Diagnosis | None]:
    """Return the solver's outcome, and the diagnosis if the instance is proven infeasible."""
    diagnosis: Diagnosis | None = None
    deadline = hard_deadline(options)
    with deadline.enforced():
        try:
            diagnosis = formulation.elementary_infeasibility()
            if diagnosis is not None:
                outcome = Outcome(infeasible=True, message="no plan exists; counting alone proves it")
            else:
                log.info("%s: solving with %s", formulation.instance.name, solver.name)
                search = partial(solver.solve, formulation, options, clock)
                outcome = search() if is_nested_solve() else solve_interruptibly(formulation, search)
        except OutOfTimeError as error:
            start = None if options.warm_start is None else formulation.parse_plan(options.warm_start)
            start_note = "" if start is None else "; the plan is the one to start from"
            message = f"{solver.name} could not begin to search: {error}{start_note}"
            outcome = Outcome(start, limit="time", message=message)
        except BackendError as error:
            outcome = Outcome(failed=True, message=f"{solver.name}: {error}")
        # An infinite bound says nothing, and would be as close to any value as one likes.
        outcome.bounds = tuple(b if b is not None and math.isfinite(b) else None for b in outcome.bounds)
        if solver.proves and diagnosis is None and not outcome.failed:
            _certify(formulation, outcome, deadline)
        if outcome.doubtful:  # from here on only the certificate speaks
            outcome.bounds, outcome.infeasible = (), False
        if outcome.infeasible:
            diagnosis = diagnose(formulation, diagnosis, deadline.remaining_s)
    return outcome, diagnosis


def _certify(formulation: AnyFormulation, outcome: Outcome, clock: Clock) -> None:
    """Add a certificate of the bound or of infeasibility to the outcome, if it has none.

    The check decides whether it proves the bound; a wrong bound only stays uncertified.
    """
    bound = outcome.bounds[0] if outcome.bounds else None
    if outcome.certificate is not None or (bound is None and not outcome.infeasible):
        return
    # Without a certificate nothing is certified beyond what counting gives, and the result says so.
    with suppress(TooLargeError):
        KINDS[formulation.kind].certify(formulation, outcome, clock)


def diagnose(
    formulation: AnyFormulation, known: Diagnosis | None = None, patience_s: float | None = None
) -> Diagnosis:
    """Return the diagnosis of an infeasible instance; see `diagnose_with`."""
    return diagnose_with(KINDS[formulation.kind].diagnose, formulation, known, patience_s)


def _with_checked_warm_start(formulation: AnyFormulation, options: SolveOptions) -> SolveOptions:
    """Return the options with a warm start that is feasible, reduced to its decisions, or with none.

    It may be the plan of an instance that has changed since, so all derived figures are computed again.
    Where it cannot be made to fit, the solve begins without it.
    """
    try:
        earlier = formulation.choices(formulation.parse_plan(options.warm_start))
    except ValidationError as error:
        raise OptionError(
            f"the warm start is not a plan of {formulation.kind}: {error.errors()[0]['msg']}"
        ) from None
    plan = None
    with suppress(TooLargeError):  # devices of servers, which a search assigns
        plan = KINDS[formulation.kind].adapted(formulation, earlier)
    broken = () if plan is None else formulation.violations(plan)
    if plan is not None and not broken:
        return options.starting_from(plan)
    why = f"the first constraint that it breaks: {broken[0]}" if broken else "what is new finds no room"
    more = f", and {len(broken) - 1:,} more" if len(broken) > 1 else ""
    log.warning("%s: the warm start is left out; %s%s", formulation.instance.name, why, more)
    return options.starting_from(None)


class FoundPlan(NamedTuple):
    """A feasible plan, and the name of the method that found it."""

    method: str
    plan: Sequence[Any]


def find_plan(formulation: AnyFormulation, patience_s: float) -> FoundPlan | None:
    """Return a feasible plan found by a quick method, all constraints checked; None if none is found."""
    kind, clock = KINDS[formulation.kind], Clock(patience_s)
    # Of this package alone, for plug-ins have no place in a check.
    solvers = {solver.name: solver for solver in (kind.exact, *kind.solvers)}
    methods: list[tuple[str, Search]] = [
        (name, partial(_plan_of, solvers[name], dict(settings))) for name, settings in kind.quick
    ]
    for method, search in [*methods, *kind.more_quick.items()]:
        if clock.expired:
            return None
        try:
            plan = search(formulation, clock)
            if plan is not None and not formulation.violations(plan):
                return FoundPlan(method, plan)
        except (TooLargeError, OptionError):  # which refuses instances of this sort
            continue
    return None


def _plan_of(
    solver: Solver[Any], settings: Fields, formulation: AnyFormulation, clock: Clock
) -> Sequence[Any] | None:
    return solver.solve(formulation, SolveOptions(method_options=settings), clock).plan
