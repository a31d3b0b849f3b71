"""Column generation: relaxation, bound and integers, and branching trees where they leave a gap."""

from __future__ import annotations

import dataclasses
import random
from fractions import Fraction

import numpy as np
import pytest
from device_instances import placement, server
from random_instances import random_consolidation

import clusterplan
from clusterplan.formulations.consolidation.certificate import MUST_PLACE, PRICED, CertifiedGoal
from clusterplan.formulations.consolidation.check.bounds import goal_bound, value_step
from clusterplan.formulations.consolidation.check.classes import CheckedCluster
from clusterplan.formulations.consolidation.check.placement_enumeration import placed_ranges
from clusterplan.formulations.consolidation.classes import ClassTable
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.solvers.common.base import Clock, Outcome
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.exact import _Run
from clusterplan.solvers.consolidation.list_heuristics import BEST_FIT
from clusterplan.solvers.consolidation.patterns.column_generation import (
    PatternProgram,
    Smoothing,
    convex_combination,
    lagrangian_bound,
)
from clusterplan.solvers.consolidation.patterns.master import DualPrices, RestrictedMaster
from clusterplan.solvers.consolidation.patterns.pricing import ServerPricing
from clusterplan.solvers.consolidation.progress import Progress
from clusterplan.solvers.milp import Milp


def without_tables(classes: ClassTable) -> ClassTable:
    """Return classes as if sums of amounts hardly repeated."""
    return dataclasses.replace(classes, usages=dict.fromkeys(classes.usages))


def generated(servers: int, jobs: int) -> ClassTable:
    """Return the classes of a generated instance, more than which fits."""
    return ConsolidationFormulation(generate_consolidation(servers, jobs, load=1.4, seed=3)).classes


def program_of(classes: ClassTable) -> PatternProgram:
    """Return the pattern formulation, without a time limit."""
    return PatternProgram(RestrictedMaster(classes), SolveOptions(threads=1), Clock())


@pytest.mark.parametrize("block", range(3))
def test_search_and_table_have_the_same_relaxation(block: int) -> None:
    """For every first objective, with groups, residents and pieces."""
    looked = 0
    for seed in range(15 * block, 15 * block + 15):
        instance = random_consolidation(seed)
        goal = instance.objectives[0]
        classes = ConsolidationFormulation(instance).classes
        if goal not in PRICED:
            continue
        bounds = []
        for table in (classes, without_tables(classes)):
            program = program_of(table)
            missing = program.relax(MUST_PLACE)
            program.levels[MUST_PLACE] = Fraction(0)
            relaxed = program.relax(goal)
            bounds.append((program.bound(MUST_PLACE, missing), program.bound(goal, relaxed)))
        if bounds[0][0] <= 0:
            assert bounds[0] == pytest.approx(bounds[1], abs=1e-4), seed
            looked += 1
    assert looked > 3


def test_the_first_bound_is_that_of_the_programme_by_shape() -> None:
    """Even where there is no time for a single round."""
    classes = without_tables(
        ConsolidationFormulation(generate_consolidation(20, 60, load=1.4, seed=3)).classes
    )
    program = program_of(classes)
    start = program.by_shape("value")
    program.clock = Clock(0.0)
    assert program.relax("value").bound >= start.bound
    assert start.prices is not None


def test_a_known_bound_is_kept() -> None:
    """It is where the search goes on, and what is left of it without time."""
    classes = without_tables(
        ConsolidationFormulation(generate_consolidation(10, 30, load=1.4, seed=3)).classes
    )
    program = program_of(classes)
    known = program.relax("value")
    program.clock = Clock(0.0)
    assert program.relax("value", known).bound == known.bound


def prices(figure: float, **earlier: float) -> DualPrices:
    """Return prices that are all the same."""
    return DualPrices((np.full(2, figure),), np.full(1, figure), np.full(3, figure), earlier)


def test_a_mixture_by_hand() -> None:
    """A quarter of the first; an earlier goal that only one of them has counts as 0 in the other."""
    found = convex_combination(prices(4.0, value=8.0), prices(0.0, spread=4.0), 0.25)
    assert found.pieces[0].tolist() == [1, 1]
    assert found.servers.tolist() == [1]
    assert found.jobs.tolist() == [1, 1, 1]
    assert found.earlier == {"spread": 3, "value": 2}


def test_misses_take_prices_away_from_the_center() -> None:
    """Until they are the relaxation's own, which are at last searched to the end."""
    smoothing, own = Smoothing(prices(1.0), share=0.7), prices(0.0)
    figures = []
    for improved in (True, False, False, False, False):
        at, search = smoothing.next(own, improved)
        figures.append((at.pieces[0][0], search))
    assert [figure for figure, _ in figures] == pytest.approx([0.7, 0.4, 0.1, 0, 0])
    assert [search for _, search in figures] == [False, False, False, False, True]
    assert smoothing.next(own, True)[0].pieces[0][0] == pytest.approx(0.7)


def test_own_prices_are_the_same_object() -> None:
    """So that whoever asks can tell that they are no mixture."""
    smoothing, own = Smoothing(prices(1.0), share=0.0), prices(0.0)
    assert smoothing.next(own, True)[0] is own


@pytest.mark.parametrize("block", range(5))
def test_both_bounds_agree(block: int) -> None:
    """For any prices, any goal, and any earlier objectives, up to rounding."""
    finite = 0
    for seed in range(20 * block, 20 * block + 20):
        rng = random.Random(seed)
        instance = random_consolidation(seed)
        checked = CheckedCluster.of(instance)
        table = checked.cluster.classes
        pricing = [ServerPricing(table, pool) for pool in table.usages]
        names = [name for name in instance.objectives if name in PRICED]
        for place, name in enumerate([*names, MUST_PLACE]):
            earlier = names[:place] if name != MUST_PLACE else []
            goal = CertifiedGoal.model_validate(
                {
                    "objective": name,
                    "prices": [
                        [rng.choice([0, rng.random() * 3]) for _ in rows] for rows in checked.classes.pieces
                    ],
                    "multipliers": {other: rng.random() for other in earlier},
                }
            )
            levels = {other: Fraction(rng.randint(-3, 3)) for other in earlier}
            ours = lagrangian_bound(table, pricing, goal, levels, placed_ranges(table))
            theirs = goal_bound(checked.classes, goal, levels)
            if theirs is None:
                assert ours == float("-inf"), (seed, name)
                continue
            step = value_step(checked.classes, name) or Fraction(1, 10**9)
            assert float(theirs - step) - 1e-9 <= ours <= float(theirs) + 1e-9, (seed, name)
            finite += 1
    assert finite > 20


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
