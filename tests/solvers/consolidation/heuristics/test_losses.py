"""Objectives of parts of a placement add up to those of the plan."""

from __future__ import annotations

import numpy as np
from placements import job, placement, server
from random_instances import random_consolidation

from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.options import SolveOptions
from clusterplan.solvers.consolidation.heuristics.arrays import PlacementArrays
from clusterplan.solvers.consolidation.heuristics.losses import Losses
from clusterplan.solvers.registry import find_solver


def test_what_is_left_out_changes_losses_as_it_changes_the_plan() -> None:
    """Taking jobs off changes every objective but traffic by as much as `evaluate` says."""
    compared = set()
    for seed in range(150):
        formulation = ConsolidationFormulation(random_consolidation(seed))
        plan = (
            find_solver("first-fit-decreasing", "consolidation")
            .solve(formulation, SolveOptions(), Clock())
            .plan
        )
        if plan is None:
            continue
        arrays = PlacementArrays(formulation, plan)
        losses = Losses(arrays)
        jobs, servers = np.zeros(len(arrays.units), int), np.zeros(len(arrays.names), int)
        fewer = arrays.start.where(arrays.start.job % 2 == 0)
        changed = losses.of(fewer, jobs, servers, 1) - losses.of(arrays.start, jobs, servers, 1)
        values = zip(formulation.evaluate(arrays.plan(fewer)), formulation.evaluate(plan), strict=True)
        for objective, (now, before), loss in zip(formulation.objectives, values, changed[:, 0], strict=True):
            if objective.name != "traffic":
                assert np.isclose(loss, (now - before) * (1 if objective.sense == "min" else -1)), seed
                compared |= {objective.name} if loss else set()
    assert compared >= {"value", "servers", "racks", "migrations"}


def test_a_job_on_two_servers_loses_spread_and_speed() -> None:
    """One server more than it needs, and half of its value of two, against the plan on one server."""
    jobs = [job("a", 2, spread="preferred", speed_by_servers={1: 1.0, 2: 0.5})]
    formulation = ConsolidationFormulation(
        placement(["spread", "slowdown"], [server(name, gpu=2) for name in "mn"], jobs)
    )
    found = []
    for servers in ({"m": 1, "n": 1}, {"n": 2}):
        arrays = PlacementArrays(formulation, [JobPlacement(job="a", servers=servers)])
        found.append(Losses(arrays).of(arrays.start, np.zeros(1, int), np.zeros(2, int), 1))
    assert (found[0] - found[1]).tolist() == [[1.0], [1.0]]


def test_traffic_counts_only_beyond_the_largest() -> None:
    """In the plan itself nothing exceeds it; all tasks on the busiest server do."""
    found = 0
    for seed in range(150):
        formulation = ConsolidationFormulation(random_consolidation(seed))
        plan = (
            find_solver("first-fit-decreasing", "consolidation")
            .solve(formulation, SolveOptions(), Clock())
            .plan
        )
        if plan is None or "traffic" not in formulation.instance.objectives:
            continue
        arrays = PlacementArrays(formulation, plan)
        jobs, servers = np.zeros(len(arrays.units), int), np.zeros(len(arrays.names), int)
        at = formulation.instance.objectives.index("traffic")
        losses, pieces = Losses(arrays), arrays.start
        assert losses.of(pieces, jobs, servers, 1)[at, 0] == 0
        pieces.server[:] = arrays.load.argmax()
        on_one = arrays.load.max() + (arrays.rate[pieces.job] * pieces.units).sum()
        beyond = max(0.0, on_one - formulation.evaluate(plan)[at])
        assert np.isclose(losses.of(pieces, jobs, servers, 1)[at, 0], beyond)
        found += beyond > 0
    assert found
