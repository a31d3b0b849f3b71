"""The search is never worse than the policies, never better than exhaustive search, and always feasible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.common.errors import OutOfTimeError
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.common.options import SolveOptions
from clusterplan.solvers.scheduling.brute_force import SchedulingBruteForce
from clusterplan.solvers.scheduling.methods import POLICIES
from clusterplan.solvers.scheduling.search.climb import Climb
from clusterplan.solvers.scheduling.search.price import Price

RULES: list[dict[str, Any]] = [
    {},
    {"preemption": "none"},
    {"preemption": "costs", "restart_s": 30, "lease_s": 120},
    {"preemption": "costs", "restart_s": 300},
    {"lease_s": 600},
    {"objective": "makespan"},
    {"events": [{"at_s": 20_000, "change": {"gpu": -10}}, {"at_s": 60_000, "change": {"gpu": 10}}]},
]


def value_of(there: SchedulingInstance, solver: Any, **settings: Any) -> float:
    """Return the objective of a plan, which must be feasible."""
    formulation = SchedulingFormulation(there)
    plan = solver.solve(formulation, SolveOptions(seed=1, method_options=settings), Clock()).plan
    assert plan is not None
    assert formulation.violations(plan) == []
    return formulation.evaluate(plan)[0]


def weighted(there: SchedulingInstance, seed: int) -> SchedulingInstance:
    """Return the same jobs with weights."""
    weights = np.random.default_rng(seed).integers(0, 4, len(there.jobs))
    rows = [
        {**job.model_dump(exclude_none=True), "weight": float(weight) + (j == 0)}
        for j, (job, weight) in enumerate(zip(there.jobs, weights, strict=True))
    ]
    return there.replace(jobs=rows)


@pytest.mark.parametrize("rules", RULES)
def test_it_is_never_worse_than_a_policy(rules: dict[str, Any]) -> None:
    """Under all rules of preemption, with and without weights."""
    there = generate_scheduling(60, 32, load=1.5, seed=4).replace(**rules)
    for instance in (there, weighted(there, 3)):
        found = value_of(instance, Price(), trials=100)
        for policy in POLICIES:
            if policy.name in ("srsf", "srtf", "sjf", "fifo-backfill"):
                assert found <= value_of(instance, policy) * (1 + 1e-12)


def test_it_is_better_than_every_static_rule_where_there_is_something_to_find() -> None:
    """By more than rounding."""
    there = generate_scheduling(200, 32, load=1.5, seed=2)
    srsf = next(policy for policy in POLICIES if policy.name == "srsf")
    assert value_of(there, Price(), trials=400) < 0.997 * value_of(there, srsf)


@pytest.mark.parametrize("seed", range(8))
def test_on_tiny_traces_it_is_no_better_than_an_exhaustive_search(seed: int) -> None:
    """Without preemption that is exact; what the search finds is the optimum on most of them."""
    there = generate_scheduling(5, 4, load=3.0, seed=seed).replace(preemption="none")
    assert value_of(there, Price(), trials=200) >= value_of(there, SchedulingBruteForce()) * (1 - 1e-12)


def test_with_preemption_it_finds_what_all_fixed_orders_find() -> None:
    """Up to a percent, on each of some tiny traces."""
    for seed in range(4):
        there = generate_scheduling(5, 4, load=3.0, seed=seed)
        assert value_of(there, Price(), trials=300) <= value_of(there, SchedulingBruteForce()) * 1.01


def test_several_resources() -> None:
    """Of unlike amounts, most of which have fractions."""
    rng = np.random.default_rng(2)
    rows = [
        {
            "name": f"j{k}",
            "arrival_s": float(rng.uniform(0, 50)),
            "demand": {"gpu": int(rng.integers(0, 4)), "cpu": round(float(rng.uniform(0.1, 8)), 3)},
            "duration_s": float(rng.exponential(20) + 0.1),
        }
        for k in range(50)
    ]
    document = {"name": "t", "resources": {"gpu": 6, "cpu": 16.5}, "jobs": rows}
    there = SchedulingInstance.model_validate(document)
    srsf = next(policy for policy in POLICIES if policy.name == "srsf")
    assert value_of(there, Price(), trials=200) <= value_of(there, srsf)


def test_the_same_seed_gives_the_same_plan() -> None:
    """Without a time limit."""
    there = generate_scheduling(60, 16, load=1.5, seed=5)
    assert value_of(there, Price(), trials=200) == value_of(there, Price(), trials=200)


def test_a_time_limit_is_kept_and_said() -> None:
    """And one in which nothing can be simulated is an error."""
    formulation = SchedulingFormulation(generate_scheduling(100, 16, load=1.5, seed=5))
    value_of(formulation.instance, Price(), trials=1)  # loops are compiled now
    clock = Clock(1.0)
    outcome = Price().solve(formulation, SolveOptions(), clock)
    assert outcome.limit == "time"
    assert outcome.plan is not None
    assert formulation.violations(outcome.plan) == []
    with pytest.raises(OutOfTimeError):
        Price().solve(formulation, SolveOptions(), Clock(1e-9))


def test_a_cluster_that_shrinks_under_a_job_without_preemption_is_said() -> None:
    """As by the policies."""
    rows = [{"name": "a", "demand": {"gpu": 2}, "duration_s": 9}]
    events = [{"at_s": 5, "change": {"gpu": -1}}, {"at_s": 9, "change": {"gpu": 1}}]
    document = {"name": "t", "resources": {"gpu": 2}, "preemption": "none", "events": events, "jobs": rows}
    there = SchedulingInstance.model_validate(document)
    outcome = Price().solve(SchedulingFormulation(there), SolveOptions(), Clock())
    assert outcome.plan is None
    assert "running jobs lose their place at 5 s" in str(outcome.message)


def test_ctrl_c_leaves_the_best_schedule_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search is stopped at its first change; the best static rule is the answer."""

    def stop(self: Climb, temperature: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Climb, "try_one", stop)
    there = generate_scheduling(jobs=20, gpus=8, seed=3)
    outcome = Price().solve(SchedulingFormulation(there), SolveOptions(), Clock())
    assert outcome.limit == "interrupt"
    assert outcome.plan is not None
    assert SchedulingFormulation(there).violations(outcome.plan) == []
