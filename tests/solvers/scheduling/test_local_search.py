"""Static rules by prices, and local search from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from malleable_instances import RULES, on_several_resources, plan_by, rigid_trace

from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.common.errors import OutOfTimeError
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.common.base import Outcome
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.scheduling.exact import SchedulingBruteForce
from clusterplan.solvers.scheduling.policies.service_disciplines import (
    ShortestService,
)
from clusterplan.solvers.scheduling.policy_solvers import plan_of, rule_of
from clusterplan.solvers.scheduling.search import local_search
from clusterplan.solvers.scheduling.search.event_loop import PriorityScheduler, Rule, Simulator
from clusterplan.solvers.scheduling.search.local_search import (
    Price,
    SimulatedAnnealing,
    schedule_on_servers,
    undelayed_jobs,
    with_reserved,
)


def test_the_best_multipliers_have_the_best_cost() -> None:
    """Also after worse ones have been accepted, and though trials begin in the middle of the trace."""
    there = generate_scheduling(150, 16, load=1.5, seed=1)
    server, rule = PriorityScheduler(there), rule_of(there, ShortestService())
    climb = SimulatedAnnealing(server, rule, lambda ends_s: float(ends_s.sum()), seed=1)
    start = climb.cost
    accepted = [climb.try_change(temperature=start / 1000) for _ in range(200)]
    assert 0 < sum(accepted) < 200
    assert climb.best_cost < start
    assert server.run(rule._replace(multiplier=climb.best)).end_s.sum() == climb.best_cost
    assert server.run(climb.rule).end_s.sum() == climb.cost


def test_other_jobs_end_when_they_would_beside_reserved_ones() -> None:
    """If reserved ones have the least keys, and with an event of the cluster."""
    events = [{"at_s": 20_000, "change": {"gpu": -4}}, {"at_s": 60_000, "change": {"gpu": 4}}]
    for seed in range(5):
        there = generate_scheduling(300, 64, load=0.9, seed=seed).replace(events=events)
        server, rule = PriorityScheduler(there), rule_of(there, ShortestService())
        trace = server.trace
        ends_s = server.run(rule).end_s
        reserved = undelayed_jobs(trace, ends_s, trace.duration_s * server.width)
        assert reserved.any()
        assert (ends_s[reserved] == (trace.arrival_s + trace.duration_s)[reserved]).all()
        first = rule._replace(multiplier=np.where(reserved, 0.0, rule.multiplier))
        smaller = Simulator(with_reserved(trace, reserved))
        found = smaller.run(rule._replace(multiplier=rule.multiplier[~reserved])).end_s
        np.testing.assert_allclose(found, server.run(first).end_s[~reserved], rtol=1e-12)
        for keeps in ({"interruptible": False}, {"lease_s": 5.0}):  # nor is anybody reserved there
            assert not undelayed_jobs(trace._replace(**keeps), ends_s, server.width).any()
        on_time = trace.arrival_s + trace.duration_s
        assert not undelayed_jobs(trace, on_time, server.width).any()


def value_of(there: SchedulingInstance, solver: Any, **settings: Any) -> float:
    """Return the objective of a plan, which must be feasible."""
    formulation = SchedulingFormulation(there)
    return formulation.evaluate(plan_by(formulation, solver, seed=1, method_options=settings))[0]


@pytest.mark.parametrize(
    "rules", [*RULES, {"preemption": "costs", "restart_s": 300}, {"objective": "makespan"}]
)
def test_it_is_never_worse_than_a_policy(rules: dict[str, Any]) -> None:
    """Under all rules of preemption, with and without weights, and with several resources.

    By the rules that it begins with, even where the search finds nothing.
    """
    there = generate_scheduling(60, 32, load=1.5, seed=4).replace(**rules)
    weights = np.random.default_rng(3).integers(0, 4, 60).astype(float)
    weights[0] += 1
    jobs = [job.model_dump(exclude_none=True) for job in there.jobs]
    weighted = [{**job, "weight": weight} for job, weight in zip(jobs, weights, strict=True)]
    for instance in (there, there.replace(jobs=weighted), on_several_resources()):
        found = max(value_of(instance, Price(), trials=trials) for trials in (1, 100))
        for policy in ("srsf", "srtf", "sjf", "fifo-backfill"):
            assert found <= value_of(instance, policy) * (1 + 1e-12)


def test_it_is_better_than_every_static_rule_where_there_is_something_to_find() -> None:
    """By more than rounding, and by as much with the same seed."""
    there = generate_scheduling(200, 32, load=1.5, seed=2)
    found = value_of(there, Price(), trials=400)
    assert found < 0.997 * value_of(there, "srsf")
    assert found == value_of(there, Price(), trials=400)


@pytest.mark.parametrize("seed", range(8))
def test_on_tiny_traces_it_is_about_as_good_as_an_exhaustive_search(seed: int) -> None:
    """Without preemption that is exact; with it, the best of all fixed orders is found up to a percent."""
    there = generate_scheduling(5, 4, load=3.0, seed=seed)
    assert value_of(there, Price(), trials=300) <= value_of(there, SchedulingBruteForce()) * 1.01
    exact = there.replace(preemption="none")
    assert value_of(exact, Price(), trials=200) >= value_of(exact, SchedulingBruteForce()) * (1 - 1e-12)


def outcome_of(there: SchedulingInstance, limit_s: float | None = None, **settings: Any) -> Outcome:
    """Return what the search finds; a plan must be feasible, with places where there are servers."""
    formulation = SchedulingFormulation(there)
    asked = SolveOptions(seed=1, method_options=settings)
    outcome = Price().solve(formulation, asked, Clock(limit_s))
    if outcome.plan is not None:
        assert formulation.violations(outcome.plan) == []
        assert all(segment.servers for segment in outcome.plan) or not there.servers
    return outcome


def test_a_time_limit_is_kept_and_said() -> None:
    """And one in which nothing can be simulated is an error."""
    there = generate_scheduling(100, 16, load=1.5, seed=5)
    outcome_of(there, trials=1)  # loops are compiled now
    outcome = outcome_of(there, 1.0)
    assert outcome.limit == "time"
    assert outcome.plan is not None
    with pytest.raises(OutOfTimeError):
        outcome_of(there, 1e-9)


def test_a_cluster_that_shrinks_under_a_job_without_preemption_is_said() -> None:
    """As by the policies."""
    events = [{"at_s": 5, "change": {"gpu": -1}}, {"at_s": 9, "change": {"gpu": 1}}]
    outcome = outcome_of(rigid_trace((0, 2, 9), preemption="none", events=events))
    assert outcome.plan is None
    assert "running jobs lose their place at 5 s" in str(outcome.message)


def test_ctrl_c_leaves_the_best_schedule_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search is stopped at its first change; the best static rule is the answer."""

    def stop(self: SimulatedAnnealing, temperature: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SimulatedAnnealing, "try_change", stop)
    outcome = outcome_of(generate_scheduling(jobs=20, gpus=8, seed=3))
    assert outcome.limit == "interrupt"
    assert outcome.plan is not None


def on_servers(count: int, seed: int = 5, gpus: int = 8, jobs: int = 80, **more: Any) -> SchedulingInstance:
    """Return jobs of 1, 2, 4, … GPUs on servers that each can hold the largest."""
    rng = np.random.default_rng(seed)
    rows = [
        {
            "name": f"j{k}",
            "arrival_s": float(rng.integers(0, 600)),
            "duration_s": float(rng.integers(10, 400)),
            "tasks": int(2 ** rng.integers(0, gpus.bit_length())),
            "demand": {"gpu": 1},
        }
        for k in range(jobs)
    ]
    servers = [{"name": f"n{k}", "capacity": {"gpu": gpus}} for k in range(count)]
    return SchedulingInstance.model_validate({"name": "eights", "servers": servers, "jobs": rows, **more})


@pytest.mark.parametrize("preempts", [True, False])
def test_it_is_the_schedule_of_one_pool_where_everything_fits(preempts: bool) -> None:
    """Powers of two that fit into all servers together fit into the servers, if those that run may move.

    The fewer segments, the less keys of running jobs count.
    """
    instance = on_servers(4)
    server, formulation = PriorityScheduler(instance), SchedulingFormulation(instance)
    multiplier = server.width * np.random.default_rng(0).uniform(0.5, 2, 80)
    rule = Rule(multiplier, 0.8, 1.0, preempts=preempts, blocks=False)
    schedule = schedule_on_servers(instance, rule)
    assert schedule.servers
    assert formulation.violations(plan_of(instance, schedule)) == []
    if preempts:
        both = (schedule, server.schedule(rule))
        ends = [formulation.segments(plan_of(instance, one)).completion_s for one in both]
        assert ends[0] == pytest.approx(ends[1])
        assert len(schedule_on_servers(instance, rule._replace(keep=0.2)).job) < len(schedule.job)


def test_without_a_rule_it_is_backfilling() -> None:
    """As EASY does it on servers."""
    instance = on_servers(4)
    plan = plan_by(SchedulingFormulation(instance), "fifo-backfill")
    assert list(plan_of(instance, schedule_on_servers(instance, None))) == plan


@pytest.mark.parametrize("more", [{}, {"preemption": "none"}, {"preemption": "costs", "restart_s": 20}])
def test_what_price_finds_has_places_and_is_feasible(more: dict[str, Any]) -> None:
    """And where jobs may be stopped freely it is better than SRSF."""
    there = on_servers(3, **more)
    plan = outcome_of(there, trials=200).plan
    assert plan is not None
    if not more:
        assert SchedulingFormulation(there).evaluate(plan)[0] < value_of(there, "srsf")


@pytest.mark.parametrize(
    ("at_s", "seed", "has_plan"), [(700, 66, True), (700, 23, False), (300, 12, False), (300, 119, False)]
)
def test_the_search_passes_over_schedules_that_lose_a_place(at_s: float, seed: int, has_plan: bool) -> None:
    """A server fails, and no job that runs there may be interrupted.

    Some traces have no schedule then, not even on one pool, and some no places for those that are found.
    """
    events = [{"at_s": at_s, "fails": ["n1"]}]
    outcome = outcome_of(on_servers(2, seed, 4, 12, preemption="none", events=events), trials=300)
    assert (outcome.plan is not None) == has_plan
    assert has_plan or "must not be interrupted" in str(outcome.message)


def test_without_time_for_places_price_has_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule of one pool might not be possible on the servers."""

    def too_long(*_: object) -> None:
        raise OutOfTimeError("too long")

    monkeypatch.setattr(local_search, "schedule_on_servers", too_long)
    with pytest.raises(OutOfTimeError, match="places on the servers"):
        outcome_of(on_servers(3))
