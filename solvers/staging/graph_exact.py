"""`exact` on graphs: by units used where devices alone decide, else by the search over stage times.

Methods for graphs under the names that they have for chains.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...formulations.common.compiled import is_ready
from ...formulations.staging.formulation import StagingFormulation
from ...formulations.staging.graph_formulation import GraphFormulation
from ...formulations.staging.graph_stages import stages_from
from ...formulations.staging.plan import Stage
from ...instances.common.errors import OutOfTimeError, TooLargeError
from ..common.base import Clock, Delegating, Outcome
from ..common.options import SolveOptions
from ..common.result import Limit
from .exact import StagingExact, keep_better, what_if, with_first_plan
from .graph_devices import DeviceSearch, one_order_only, states_of
from .graph_first_plan import first_plan

MOST_STATES = 30_000_000
"""Ideals times states of a dynamic program, each some 20 bytes."""
FEW_STEPS = 5000
"""Steps of the dynamic program for a stage: with more, the search over stage times is tried first."""


def solve_graph(
    method: StagingExact, formulation: GraphFormulation, options: SolveOptions, clock: Clock
) -> Outcome:
    """Return the best plan of a graph with its bound; of one order alone where there are too many ideals."""
    what_if_wanted = method.setting(options, "what_if")
    plain = options.model_copy(update={"method_options": {}})

    def search() -> Outcome:
        outcome = _answer(method, formulation, plain, clock)
        outcome.message = "; ".join(filter(None, (merged(formulation), outcome.message)))
        return outcome

    outcome = with_first_plan(
        formulation,
        clock,
        search=search,
        heuristic=partial(_heuristic_plan, formulation),
        ready=is_ready(stages_from),
    )
    if options.warm_start is not None:
        keep_better(formulation, outcome, formulation.parse_plan(options.warm_start))
    if what_if_wanted and outcome.plan is not None:
        more = what_if(formulation, outcome.plan, lambda other: method.best_of_changed(other, options, clock))
        outcome.message = f"{outcome.message}; {more}"
    return outcome


def merged(formulation: GraphFormulation) -> str:
    """Say how many layers, classes, blocks and ideals a graph has."""
    layers, classes = len(formulation.instance.layers), len(formulation.classes.members)
    blocks = len(formulation.blocks)
    said = f"{layers:,} layers" if classes == layers else f"{layers:,} layers in {classes:,} classes"
    if blocks < classes:
        said += f", {classes - blocks:,} without time joined to a neighbour, which makes no plan worse"
    return f"{said}; {len(formulation.ideals):,} ideals" if formulation.ideals.complete else said


def _heuristic_plan(formulation: GraphFormulation, clock: Clock) -> Sequence[Stage] | None:
    """Return a plan however short the time is."""
    with Clock().enforced():
        _ = formulation.blocks
        known = first_plan(formulation, clock)
    return None if known is None else known.plan


def _answer(
    method: StagingExact, formulation: GraphFormulation, options: SolveOptions, clock: Clock
) -> Outcome:
    with clock.enforced():
        few = devices_decide(formulation)
    if few and steps_of(formulation) <= FEW_STEPS:
        return DeviceSearch(formulation, options, clock).run()
    if formulation.ideals.complete:
        try:
            return method.solve_stages(formulation, options, clock)
        except OutOfTimeError:
            raise
        except TooLargeError:
            if few:
                return DeviceSearch(formulation, options, clock).run()
    try:
        outcome = method.solve_stages(formulation.of_one_order(), options, clock)
    except OutOfTimeError:
        raise
    except TooLargeError as error:
        return _of_heuristic(formulation, clock, error)
    # What was searched is a part of all plans: its bound and its certificate say nothing of the others.
    outcome.infeasible, outcome.certificate, outcome.prices = False, None, None
    outcome.bounds = formulation.elementary_bounds()
    outcome.message = one_order_only(formulation)
    return outcome


def _of_heuristic(formulation: GraphFormulation, clock: Clock, error: TooLargeError) -> Outcome:
    """Return a heuristic's plan where even the stages of one order are too many to be searched."""
    plan = _heuristic_plan(formulation, clock)
    if plan is None:
        raise error
    limit: Limit = "time" if clock.expired else "none"
    message = (
        "even one order of the layers makes too many stages to be searched: the plan is a heuristic's, and "
        "the bound holds for all plans"
    )
    return Outcome(plan, formulation.elementary_bounds(), limit=limit, message=message)


def steps_of(formulation: GraphFormulation) -> int:
    """Return how many steps the dynamic program takes for one stage: units that it may have, times states."""
    instance = formulation.instance
    limits = [one.limit for one in instance.types if one.limit is not None]
    most = instance.most_units_per_stage
    return max(limits if most is None else [min(limit, most) for limit in limits]) * states_of(limits)


def devices_decide(formulation: GraphFormulation) -> bool:
    """Return whether the fastest plan is sought and only limited units, memory and a floor restrict it."""
    instance = formulation.instance
    limits = [one.limit for one in instance.types if one.limit is not None]
    return (
        instance.objective != "cost"
        and instance.cost_limit_usd is None
        and instance.hourly_budget_usd is None
        and len(limits) == len(instance.types)
        and len(formulation.ideals) * states_of(limits) <= MOST_STATES
    )


class ExactOnGraphs(StagingExact):
    """`exact` for chains and graphs."""

    def solve(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Solve a chain, or a graph."""
        if isinstance(formulation, GraphFormulation):
            return solve_graph(self, formulation, options, clock)
        return super().solve(formulation, options, clock)


class OnChains(Delegating[StagingFormulation]):
    """A method that plans chains and refuses graphs."""

    def solve(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Solve a chain; of a graph only say what plans it."""
        if isinstance(formulation, GraphFormulation):
            message = f"{self.name} plans chains of layers, and these make a graph; take exact"
            return Outcome(failed=True, message=message)
        return self.method.solve(formulation, options, clock)
