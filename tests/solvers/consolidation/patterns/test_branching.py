"""Branching trees close the gap that prices leave on small clusters, and nothing but a whole tree does."""

from __future__ import annotations

import random

import pytest
from device_instances import placement, server

import clusterplan
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.solvers.common.base import Clock, Outcome
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.exact import _Run
from clusterplan.solvers.consolidation.list_heuristics import BEST_FIT
from clusterplan.solvers.consolidation.progress import Progress
from clusterplan.solvers.milp import Milp


def cluster(seed: int) -> ConsolidationFormulation:
    """Return ten servers of two sizes, and thirty jobs, of which about two thirds fit."""
    draw = random.Random(seed)
    servers = [server("big", gpu=8, cpu=64) | {"count": 4}, server("small", gpu=4, cpu=32) | {"count": 6}]
    jobs = []
    for k in range(30):
        tasks, demand = draw.randint(1, 3), {"gpu": draw.randint(1, 4), "cpu": draw.randint(1, 11)}
        jobs.append({"name": f"j{k}", "tasks": tasks, "task_demand": demand, "value": draw.randint(1, 19)})
    return ConsolidationFormulation(placement(["value"], servers, jobs))


@pytest.mark.parametrize("seed", [5, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (3, 9, 12))])
def test_a_tree_closes_the_gap_that_prices_leave(seed: int) -> None:
    formulation = cluster(seed)
    found = clusterplan.solve(formulation.instance, "exact")
    (objective,), certificate = found.objectives, found.certificate
    assert found.status == "optimal"
    assert objective.certified_bound == objective.value
    assert clusterplan.solve(formulation.instance, "milp:highs").objectives[0].value == objective.value
    (goal,) = certificate["goals"]
    tree = goal["tree"]
    assert len(tree) > 1
    for place in range(len(tree)):
        less = {"goals": [{**goal, "tree": [*tree[:place], *tree[place + 1 :]]}]}
        assert formulation.certified_bounds(less, [objective.value])[0] > objective.value
    beyond = [{**node, "job": 30} if node.get("leaf") is None else node for node in tree]
    other = {"goals": [{**goal, "tree": beyond}]}
    assert formulation.certified_bounds(other, [objective.value])[0] > objective.value


def test_a_textbook_model_that_does_not_end_leaves_the_bounds_of_later_objectives_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its bounds are of all objectives, and the search goes on with the first one that is open."""
    formulation = cluster(2)
    plan = BEST_FIT.solve(formulation, SolveOptions(), Clock()).plan
    monkeypatch.setattr(Milp, "solve", lambda *_: Outcome(plan, (10_000.0, 0.0), limit="time"))
    run = _Run(formulation, SolveOptions(), Clock(), Progress(formulation))
    assert not run._settle_by_textbook()
    assert run.progress.plan is plan
    assert run.progress.bounds == []
