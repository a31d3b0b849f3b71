"""`exact` on graphs: by units used where devices alone decide, else by the search over stage times."""

from __future__ import annotations

from collections.abc import Sequence

from ....formulations.staging.graphs.formulation import GraphFormulation
from ....formulations.staging.plan import Stage
from ....instances.common.errors import OutOfTimeError, TooLargeError
from ...common.base import Clock, Outcome
from ...common.options import SolveOptions
from ..exact import START_SHARE, StagingExact
from ..what_if import what_if
from .device_search import DeviceSearch, one_order_only
from .device_states import states_of
from .first_plan import FirstPlan, first_plan

MOST_STATES = 30_000_000
"""Ideals times states of a dynamic program, each some 20 bytes."""
LONG_S = 10.0
"""With a longer limit the search has a plan soon enough by itself."""
START_S = 0.15
"""Seconds for a first plan at least, which are part of the grace period of a shorter limit."""
FEW_STEPS = 5000
"""Steps of the dynamic program for a stage: with more, the search over stage times is tried first."""


def solve_graph(
    method: StagingExact, formulation: GraphFormulation, options: SolveOptions, clock: Clock
) -> Outcome:
    """Return the best plan of a graph with its bound; of one order alone where there are too many ideals."""
    what_if_wanted = method.setting(options, "what_if")
    plain = options.model_copy(update={"method_options": {}})
    known = _quick_plan(formulation, clock)
    try:
        outcome = _answer(method, formulation, plain, clock, known)
        outcome.message = "; ".join(filter(None, (merged(formulation), outcome.message)))
    except OutOfTimeError as error:
        known = _first_plan(formulation, START_S) if known is None else known
        if known is None:
            raise
        message = f"there was no time to search ({error}); the plan is a heuristic's"
        outcome = Outcome(known.plan, formulation.elementary_bounds(), limit="time", message=message)
    if known is not None:
        _keep_better(formulation, outcome, known.plan)
    if options.warm_start is not None:
        _keep_better(formulation, outcome, formulation.parse_plan(options.warm_start))
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


def _keep_better(formulation: GraphFormulation, outcome: Outcome, start: Sequence[Stage]) -> None:
    """Keep a known plan where it is better, or there is no other."""
    if outcome.infeasible:
        return  # the two contradict each other, which the conclusion says
    if outcome.plan is None or formulation.precedes(
        formulation.evaluate(start), formulation.evaluate(outcome.plan)
    ):
        outcome.plan = start


def _quick_plan(formulation: GraphFormulation, clock: Clock) -> FirstPlan | None:
    """Return a plan to start from where the time is short to compile the loops, and to run them."""
    # Whether loops are compiled already must not matter: another start may lead to another of the best plans.
    if clock.limit_s is None or clock.limit_s > LONG_S:
        return None
    return _first_plan(formulation, max(START_S, clock.share(START_SHARE).limit_s or 0.0))


def _first_plan(formulation: GraphFormulation, limit_s: float) -> FirstPlan | None:
    """Return a plan however short the time is."""
    with Clock().enforced():
        _ = formulation.blocks
        return first_plan(formulation, Clock(limit_s))


def _answer(
    method: StagingExact,
    formulation: GraphFormulation,
    options: SolveOptions,
    clock: Clock,
    known: FirstPlan | None,
) -> Outcome:
    with clock.enforced():
        few = devices_decide(formulation)
    if few and steps_of(formulation) <= FEW_STEPS:
        return DeviceSearch(formulation, options, clock, known).run()
    plan = None if known is None else known.plan
    if formulation.ideals.complete:
        try:
            return method.solve_stages(formulation, options, clock, plan)
        except TooLargeError:
            if few:
                return DeviceSearch(formulation, options, clock, known).run()
    outcome = method.solve_stages(formulation.of_one_order(), options, clock, plan)
    # What was searched is a part of all plans: its bound and its certificate say nothing of the others.
    outcome.infeasible, outcome.certificate, outcome.prices = False, None, None
    outcome.bounds = formulation.elementary_bounds()
    outcome.message = one_order_only(formulation)
    return outcome


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
