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
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.scheduling.exact import SchedulingBruteForce
from clusterplan.solvers.scheduling.policies.service_disciplines import (
    Shortest,
    ShortestRemaining,
    ShortestService,
)
from clusterplan.solvers.scheduling.policy_solvers import plan_of
from clusterplan.solvers.scheduling.search import local_search
from clusterplan.solvers.scheduling.search.event_loop import Rule
from clusterplan.solvers.scheduling.search.local_search import (
    Price,
    SimulatedAnnealing,
    schedule_on_servers,
    static_rules,
    undelayed_jobs,
    with_reserved,
)
from clusterplan.solvers.scheduling.search.simulator import (
    PriorityScheduler,
    Simulator,
)


def test_the_best_multipliers_have_the_best_cost() -> None:
    """Also after worse ones have been accepted, and though trials begin in the middle of the trace."""
    server = PriorityScheduler(generate_scheduling(150, 16, load=1.5, seed=1))
    rule = ShortestService.rule(server)
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
        server = PriorityScheduler(generate_scheduling(300, 64, load=0.9, seed=seed).replace(events=events))
        rule, trace = ShortestService.rule(server), server.trace
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
    """Under all rules of preemption, with and without weights, and with several resources."""
    there = generate_scheduling(60, 32, load=1.5, seed=4).replace(**rules)
    weights = np.random.default_rng(3).integers(0, 4, 60).astype(float)
    weights[0] += 1
    jobs = [job.model_dump(exclude_none=True) for job in there.jobs]
    weighted = [{**job, "weight": weight} for job, weight in zip(jobs, weights, strict=True)]
    for instance in (there, there.replace(jobs=weighted), on_several_resources()):
        found = value_of(instance, Price(), trials=100)
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
    events = [{"at_s": 5, "change": {"gpu": -1}}, {"at_s": 9, "change": {"gpu": 1}}]
    there = rigid_trace((0, 2, 9), preemption="none", events=events)
    outcome = Price().solve(SchedulingFormulation(there), SolveOptions(), Clock())
    assert outcome.plan is None
    assert "running jobs lose their place at 5 s" in str(outcome.message)


def test_ctrl_c_leaves_the_best_schedule_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search is stopped at its first change; the best static rule is the answer."""

    def stop(self: SimulatedAnnealing, temperature: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SimulatedAnnealing, "try_change", stop)
    there = generate_scheduling(jobs=20, gpus=8, seed=3)
    outcome = Price().solve(SchedulingFormulation(there), SolveOptions(), Clock())
    assert outcome.limit == "interrupt"
    assert outcome.plan is not None
    assert SchedulingFormulation(there).violations(outcome.plan) == []


def on_servers(
    count: int,
    rng: int | np.random.Generator = 5,
    gpus: int = 8,
    jobs: int = 80,
    arrivals: tuple[int, int] = (0, 600),
    durations: tuple[int, int] = (10, 400),
    **more: Any,
) -> SchedulingInstance:
    """Return jobs of 1, 2, 4, … GPUs on servers that each can hold the largest."""
    rng = np.random.default_rng(rng)
    rows = [
        {
            "name": f"j{k}",
            "arrival_s": float(rng.integers(*arrivals)),
            "duration_s": float(rng.integers(*durations)),
            "tasks": int(2 ** rng.integers(0, gpus.bit_length())),
            "demand": {"gpu": 1},
        }
        for k in range(jobs)
    ]
    servers = [{"name": f"n{k}", "capacity": {"gpu": gpus}} for k in range(count)]
    return SchedulingInstance.model_validate({"name": "eights", "servers": servers, "jobs": rows, **more})


@pytest.mark.parametrize("preempts", [True, False])
def test_it_is_the_schedule_of_one_pool_where_everything_fits(preempts: bool) -> None:
    """Powers of two that fit into all servers together fit into the servers, if those that run may move."""
    instance = on_servers(4)
    server = PriorityScheduler(instance)
    rng = np.random.default_rng(0)
    rule = Rule(server.width * rng.uniform(0.5, 2, 80), 0.8, 1.0, preempts=preempts, blocks=False)
    schedule = schedule_on_servers(instance, rule)
    assert schedule.servers
    formulation = SchedulingFormulation(instance)
    plan = plan_of(instance, schedule)
    assert formulation.violations(plan) == []
    pooled = server.schedule(rule)
    if preempts:
        ends = [formulation.segments(plan_of(instance, one)).completion_s for one in (schedule, pooled)]
        assert ends[0] == pytest.approx(ends[1])


def test_running_jobs_keep_their_places_more_easily_by_a_rule_that_says_so() -> None:
    """The fewer segments, the less keys of running jobs count."""
    instance = on_servers(4)
    server = PriorityScheduler(instance)
    segments = [
        len(schedule_on_servers(instance, Rule(server.width, 1.0, keep, preempts=True, blocks=False)).job)
        for keep in (1.0, 0.2)
    ]
    assert segments[1] < segments[0]


def test_without_a_rule_it_is_backfilling() -> None:
    """As EASY does it on servers."""
    instance = on_servers(4)
    plan = plan_by(SchedulingFormulation(instance), "fifo-backfill")
    assert list(plan_of(instance, schedule_on_servers(instance, None))) == plan


@pytest.mark.parametrize("more", [{}, {"preemption": "none"}, {"preemption": "costs", "restart_s": 20}])
def test_what_price_finds_has_places_and_is_feasible(more: dict[str, object]) -> None:
    """And where jobs may be stopped freely it is better than SRSF."""
    formulation = SchedulingFormulation(on_servers(3, **more))
    asked = SolveOptions(seed=1, method_options={"trials": 200})
    plan = Price().solve(formulation, asked, Clock()).plan
    assert plan is not None
    assert all(segment.servers for segment in plan)
    assert formulation.violations(plan) == []
    other = plan_by(formulation, "srsf")
    if not more:
        assert formulation.evaluate(plan)[0] < formulation.evaluate(other)[0]


@pytest.mark.parametrize("seed", [0, 4, 7, 32, 96])
def test_the_search_passes_over_schedules_that_lose_a_place(seed: int) -> None:
    """A server fails, and no job that runs there may be interrupted: some traces have no schedule then."""
    rng = np.random.default_rng(seed)
    there = on_servers(2, rng, 4, 12, (0, 100), (5, 60), preemption="none")
    events = [{"at_s": float(rng.integers(60, 200)), "fails": ["n1"]}]
    formulation = SchedulingFormulation(there.replace(events=events))
    asked = SolveOptions(seed=1, method_options={"trials": 300})
    outcome = Price().solve(formulation, asked, Clock())
    if outcome.plan is None:
        assert "must not be interrupted" in str(outcome.message)
    else:
        assert all(segment.servers for segment in outcome.plan)
        assert formulation.violations(outcome.plan) == []


def test_without_time_for_places_price_has_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule of one pool might not be possible on the servers."""

    def too_long(*_: object) -> None:
        raise OutOfTimeError("too long")

    monkeypatch.setattr(local_search, "schedule_on_servers", too_long)
    with pytest.raises(OutOfTimeError, match="places on the servers"):
        Price().solve(SchedulingFormulation(on_servers(3)), SolveOptions(), Clock())


def test_the_policies_that_nothing_may_be_worse_than_are_among_them() -> None:
    """With and without costs of interruptions."""
    server = PriorityScheduler(generate_scheduling(50, 16, seed=1))
    for costs in (False, True):
        rules = list(static_rules(server, costs))
        for policy in (ShortestService.rule(server), ShortestRemaining.rule(server), Shortest.rule(server)):
            assert any(
                rule[1:] == policy[1:] and np.allclose(rule.multiplier, policy.multiplier) for rule in rules
            )
