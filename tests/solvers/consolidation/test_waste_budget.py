"""Budgets of waste, and traffic of servers."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from device_instances import job, placement, server

import clusterplan
from clusterplan.formulations.consolidation.certificate import MUST_PLACE
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.common.arrays import Ints
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.pattern_search import TrafficSearch
from clusterplan.solvers.consolidation.patterns.column_generation import PatternProgram
from clusterplan.solvers.consolidation.patterns.master import RestrictedMaster
from clusterplan.solvers.consolidation.waste_budget import (
    exact_cover_for_bound,
    requires_all_jobs,
    waste_patterns,
)

OPTIONS = SolveOptions(threads=1, seed=1)


def planted(servers: int, tasks: int, dimensions: int, seed: int, spare: int = 0) -> ConsolidationInstance:
    """Return shuffled jobs that fill every server but for a spare amount of each resource."""
    random = np.random.default_rng(seed)
    rows: list[list[int]] = []
    for _ in range(servers):
        cuts = np.sort(random.integers(1, 40, size=(tasks - 1, dimensions)), axis=0)
        ends = np.vstack([np.zeros(dimensions, dtype=int), cuts, np.full(dimensions, 40)])
        rows += np.diff(ends, axis=0).tolist()
    random.shuffle(rows)
    names = [f"r{i}" for i in range(dimensions)]
    return ConsolidationInstance(
        name="planted",
        servers=[{"name": "s", "count": servers, "capacity": dict.fromkeys(names, 40 + spare)}],
        jobs=[
            {
                "name": f"j{i}",
                "tasks": 1,
                "task_demand": dict(zip(names, row, strict=True)),
                "must_place": True,
            }
            for i, row in enumerate(rows)
        ],
    )


def cover(master: RestrictedMaster, goal: str, bound: float) -> Ints | None:
    return exact_cover_for_bound(PatternProgram(master, OPTIONS, Clock(20.0)), goal, bound)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("spare", [0, 1])
def test_patterns_are_those_that_leave_no_more_than_the_budget(seed: int, spare: int) -> None:
    formulation = ConsolidationFormulation(planted(4, 3, 2, seed, spare))
    classes = formulation.classes
    demands = [np.array(shape.demands[0]) for shape in classes.task_shapes]
    there = Counter(part.shape for job in classes.jobs for part in job.parts for _ in job.members)
    expected = Counter[object]()
    listed = waste_patterns(classes, None)
    for size in range(1, 7):
        for tasks in itertools.combinations_with_replacement(range(len(demands)), size):
            left = np.array(classes.servers[0].free) - sum(demands[k] for k in tasks)
            supplied = all(there[k] >= n for k, n in Counter(tasks).items())
            if supplied and (left >= 0).all() and (left <= 4 * spare).all():
                expected[0, tuple((k, n - 1) for k, n in Counter(tasks).items())] += 1
        # Three tasks are the mean of a server.
        if size >= 3:
            assert Counter(next(listed)) == expected
    assert next(listed, None) is None


@pytest.mark.parametrize(("servers", "tasks"), [(6, 3), (5, 4), (4, 6)])
def test_a_planted_packing_is_found(servers: int, tasks: int) -> None:
    formulation = ConsolidationFormulation(planted(servers, tasks, 3, 1))
    master = RestrictedMaster(formulation.classes)
    solution = cover(master, "must_place", 0.0)
    assert solution is not None
    assert master.counted("servers", solution) == servers
    assert master.counted("must_place", solution) == 0


def test_no_cover_on_fewer_servers_than_hold_the_jobs() -> None:
    formulation = ConsolidationFormulation(planted(4, 3, 2, 1))
    assert cover(RestrictedMaster(formulation.classes), "servers", 3.0) is None


def test_a_large_budget_is_no_help() -> None:
    formulation = ConsolidationFormulation(planted(12, 6, 2, 1, spare=30))
    assert not list(waste_patterns(formulation.classes, None))


def test_only_a_bound_with_every_job_asks_for_a_cover() -> None:
    instance = planted(2, 2, 1, 3)
    jobs = [job.model_copy(update={"must_place": False, "value": 2.0}) for job in instance.jobs]
    optional = ConsolidationFormulation(instance.model_copy(update={"jobs": tuple(jobs)}))
    master = RestrictedMaster(optional.classes)
    step = float(master.steps["value"])
    assert requires_all_jobs(master, "value", -8.0 / step, {})
    assert not requires_all_jobs(master, "value", -7.0 / step, {})
    assert not requires_all_jobs(master, "servers", 2.0, {})
    assert requires_all_jobs(RestrictedMaster(ConsolidationFormulation(instance).classes), "servers", 2.0, {})


def test_jobs_that_are_worth_nothing_do_not_keep_a_packing_from_being_found() -> None:
    """The bound does not ask for them, and a plan with them is as good."""
    instance = planted(4, 3, 2, 1)
    jobs = [
        job.model_copy(update={"must_place": False, "value": float(number > 0)})
        for number, job in enumerate(instance.jobs)
    ]
    formulation = ConsolidationFormulation(instance.model_copy(update={"jobs": tuple(jobs)}))
    master = RestrictedMaster(formulation.classes)
    solution = cover(master, "value", -11.0 / float(master.steps["value"]))
    assert solution is not None
    assert master.counted("servers", solution) == 4


def searched(bound: float) -> TrafficSearch:
    """Return the search for four tasks of 1 Gbit/s and one of 3 on two servers, all placed."""
    jobs = [job(f"j{k}", traffic_gbit_per_s=1.0) for k in range(4)] + [job("big", traffic_gbit_per_s=3.0)]
    instance = placement(["value", "traffic"], [{**server(gpu=4), "count": 2}], jobs)
    levels = {MUST_PLACE: Fraction(0), "value": Fraction(-5)}
    search = TrafficSearch(
        ConsolidationFormulation(instance), levels, SolveOptions(threads=1), Clock(), bound
    )
    search.run(7.0)
    return search


def test_the_least_limit_is_found_and_the_next_refuted() -> None:
    """Seven Gbit/s on two servers are four and three; three at most do not do."""
    search = searched(0.0)
    assert search.bound == 4
    assert search.best.most == 4
    assert search.best.solution is not None
    assert search.refuted["below"] == 3


def test_a_bound_that_is_reached_needs_no_refutation() -> None:
    """Only the plan under it is looked for."""
    search = searched(7.0)
    assert (search.bound, search.refuted) == (7.0, None)
    assert search.best is not None


def test_a_limit_under_which_nothing_fits_is_refuted_by_what_was_reached() -> None:
    """The only job sends more than that; later objectives are not bounded as if it were not there."""
    runs = job("runs", traffic_gbit_per_s=0.2, current={"n": 1})
    objectives = ["value", "spread", "traffic", "migrations"]
    instance = placement(objectives, [server("n", gpu=4)], [runs])
    levels = {MUST_PLACE: Fraction(0), "value": Fraction(-1), "spread": Fraction(0)}
    search = TrafficSearch(ConsolidationFormulation(instance), levels, SolveOptions(threads=1), Clock(), 0.0)
    search.run(0.2)
    assert (search.bound, search.best and search.best.most) == (0.2, 0.2)
    assert search.refuted is not None
    result = clusterplan.solve(instance, "exact", SolveOptions(threads=1))
    assert [r.value for r in result.objectives] == [1, 0, 0.2, 0]
    assert [r.certified_bound for r in result.objectives] == [1, 0, 0.2, 0]
