"""`exact` where sums of amounts hardly repeat: bounds, plans, and honest ends."""

from __future__ import annotations

import random
from typing import Any

import pytest
from device_instances import job, placement, server
from random_instances import random_consolidation

import clusterplan
from clusterplan.formulations.consolidation import build_classes
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.planner.verification import verify
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.consolidation.list_heuristics import BEST_FIT
from clusterplan.solvers.consolidation.pattern_search import PatternSearch
from clusterplan.solvers.consolidation.patterns.assignment_relaxation import AssignmentRelaxation
from clusterplan.solvers.consolidation.patterns.master import RestrictedMaster
from clusterplan.solvers.consolidation.progress import Progress
from clusterplan.solvers.registry import find_solver
from clusterplan.solvers.run import solve_with


@pytest.fixture(autouse=True)
def _no_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every instance be one of too many sums."""
    monkeypatch.setattr(build_classes, "MAX_USAGES", 0)


def unlike(seed: int, servers: int, jobs: int, objective: str, **fields: Any) -> ConsolidationInstance:
    """Return jobs of a few requests in milli-units, whose sums do not repeat."""
    rng = random.Random(seed)
    requests = [
        {
            "gpu": rng.choice([230, 460, 1000, 2000]),
            "cpu": rng.randint(1000, 20_000),
            "memory": rng.randint(500, 60_000),
        }
        for _ in range(8)
    ]
    large = {"gpu": 8000, "cpu": 96_000, "memory": 393_216}
    small = {"gpu": 2000, "cpu": 64_000, "memory": 262_144}
    drawn = [rng.choice(requests) for _ in range(jobs)]
    listed = [job(f"j{i}", 1, demand, value=demand["gpu"], **fields) for i, demand in enumerate(drawn)]
    return placement(
        [objective], [server(f"n{i}", **rng.choice([large, small])) for i in range(servers)], listed
    )


def searched(instance: ConsolidationInstance, clock: Clock, gap: float = 1e-4) -> Progress:
    """Return what the search alone finds out, from the plan of best fit."""
    formulation = ConsolidationFormulation(instance)
    progress = Progress(formulation)
    plan = BEST_FIT.solve(formulation, SolveOptions(), Clock()).plan
    if plan is not None:
        progress.update_incumbent(plan)
    master = RestrictedMaster(formulation.classes)
    assert master.searches
    PatternSearch(master, SolveOptions(threads=1, gap=gap), clock, progress).run()
    return progress


@pytest.mark.parametrize(("objective", "fields"), [("value", {}), ("servers", {"must_place": True})])
def test_plans_are_close_to_their_bounds(objective: str, fields: dict[str, bool]) -> None:
    """On 30 servers, within the gap that is asked for; and the plan is no worse than best fit's."""
    jobs = 220 if objective == "value" else 80
    instance = unlike(1, 30, jobs, objective, **fields)
    progress = searched(instance, Clock(60.0), gap=0.08)
    formulation = progress.formulation
    assert not formulation.violations(progress.plan)
    gap = formulation.objectives[0].gap(progress.values[0], progress.bounds[0])
    assert gap <= 0.08, (progress.values, progress.bounds)
    by_list = BEST_FIT.solve(formulation, SolveOptions(), Clock()).plan
    assert not formulation.precedes(formulation.evaluate(by_list), progress.values)


def test_without_time_the_bound_is_that_of_the_programme_by_shape() -> None:
    """No bound on servers is trivial."""
    instance = unlike(2, 20, 60, "servers", must_place=True)
    progress = searched(instance, Clock(0.0))
    master = RestrictedMaster(progress.formulation.classes)
    found = AssignmentRelaxation(master, "servers", {}).solve()
    assert found[0] > 1
    assert progress.bounds[0] >= found[0] - 1e-6
    assert progress.limit == "time"


def test_prices_prove_that_there_is_no_plan() -> None:
    """Each job fits, but not all that must be placed."""
    jobs = [job(f"j{i}", 1, {"gpu": 600 + i}, must_place=True) for i in range(4)]
    progress = searched(placement(["servers"], [server(gpu=1000), server("m", gpu=1000)], jobs), Clock(10.0))
    assert progress.infeasible
    assert [goal["objective"] for goal in progress.goals] == ["must_place"]


@pytest.mark.parametrize("block", range(3))
def test_exact_agrees_with_enumeration(block: int) -> None:
    """Over every kind of objective and job; the certificate holds."""
    looked = 0
    for seed in range(8 * block, 8 * block + 8):
        instance = random_consolidation(seed)
        best = solve_with(instance, find_solver("brute-force", "consolidation"), SolveOptions())
        result = clusterplan.solve(instance, "exact", SolveOptions(threads=1))
        assert (result.plan is None) == (best.plan is None), seed
        if best.plan is None:
            continue
        assert [r.value for r in result.objectives] == pytest.approx([r.value for r in best.objectives]), seed
        assert verify(instance, result).ok
        looked += 1
    assert looked > 3


def test_a_warm_start_or_best_fit_is_never_lost() -> None:
    """However short the time is."""
    instance = unlike(3, 25, 200, "value")
    formulation = ConsolidationFormulation(instance)
    by_list = BEST_FIT.solve(formulation, SolveOptions(), Clock()).plan
    result = clusterplan.solve(instance, "exact", SolveOptions(time_limit_s=0.01))
    assert (result.objective or 0) >= formulation.evaluate(by_list)[0]
