"""`exact` on graphs: by units used where devices alone decide, else by the search over stage times."""

from __future__ import annotations

import math

from ....formulations.staging.graphs.formulation import GraphFormulation
from ....instances.common.errors import TooLargeError
from ...common.base import Clock, Outcome
from ...common.options import SolveOptions
from ..exact import StagingExact
from .device_search import DeviceSearch, one_order_only

MOST_STATES = 30_000_000
"""Ideals times states of a dynamic program, each some 20 bytes."""


def solve_graph(
    method: StagingExact, formulation: GraphFormulation, options: SolveOptions, clock: Clock
) -> Outcome:
    """Return the best plan of a graph with its bound; of one order alone where there are too many ideals."""
    if devices_decide(formulation):
        return DeviceSearch(formulation, options, clock).run()
    if formulation.ideals.complete:
        try:
            return method.solve_stages(formulation, options, clock)
        except TooLargeError:
            pass  # there are too many stages, which the message below says
    outcome = method.solve_stages(formulation.of_one_order(), options, clock)
    # What was searched is a part of all plans: its bound and its certificate say nothing of the others.
    outcome.infeasible, outcome.certificate, outcome.prices = False, None, None
    outcome.bounds = formulation.elementary_bounds()
    outcome.message = one_order_only(formulation)
    return outcome


def devices_decide(formulation: GraphFormulation) -> bool:
    """Return whether the fastest plan is sought and only limited units, memory and a floor restrict it."""
    instance = formulation.instance
    limits = [one.limit for one in instance.types if one.limit is not None]
    states = math.prod(limit + 1 for limit in limits)
    return (
        instance.objective != "cost"
        and instance.cost_limit_usd is None
        and instance.hourly_budget_usd is None
        and len(limits) == len(instance.types)
        and len(formulation.ideals) * states <= MOST_STATES
    )
