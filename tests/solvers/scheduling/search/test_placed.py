"""Rules with places: on servers that are never in the way they give the schedule of one pool."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.common.errors import OutOfTimeError
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.common.options import SolveOptions
from clusterplan.solvers.scheduling.event_state import Rule
from clusterplan.solvers.scheduling.methods import POLICIES, plan_of
from clusterplan.solvers.scheduling.search import price
from clusterplan.solvers.scheduling.search.placed import placed
from clusterplan.solvers.scheduling.search.price import Price
from clusterplan.solvers.scheduling.serve import Server


def on_servers(servers: int, **more: object) -> SchedulingInstance:
    """Return jobs of 1, 2, 4 and 8 GPUs on servers of 8."""
    rng = np.random.default_rng(5)
    jobs = [
        {
            "name": f"j{k}",
            "arrival_s": float(rng.integers(0, 600)),
            "duration_s": float(rng.integers(10, 400)),
            "tasks": int(2 ** rng.integers(0, 4)),
            "demand": {"gpu": 1},
        }
        for k in range(80)
    ]
    document = {
        "schema_version": 1,
        "name": "eights",
        "servers": [{"name": f"n{k}", "capacity": {"gpu": 8}} for k in range(servers)],
        "jobs": jobs,
    }
    return SchedulingInstance.model_validate(document | more)


@pytest.mark.parametrize("preempts", [True, False])
def test_it_is_the_schedule_of_one_pool_where_everything_fits(preempts: bool) -> None:
    """Powers of two that fit into all servers together fit into the servers, if those that run may move."""
    instance = on_servers(4)
    server = Server(instance)
    rng = np.random.default_rng(0)
    rule = Rule(server.width * rng.uniform(0.5, 2, 80), 0.8, 1.0, preempts=preempts, blocks=False)
    schedule = placed(instance, rule)
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
    server = Server(instance)
    segments = [
        len(placed(instance, Rule(server.width, 1.0, keep, preempts=True, blocks=False)).job)
        for keep in (1.0, 0.2)
    ]
    assert segments[1] < segments[0]


def test_without_a_rule_it_is_backfilling() -> None:
    """As EASY does it on servers."""
    instance = on_servers(4)
    policy = next(policy for policy in POLICIES if policy.name == "fifo-backfill")
    plan = policy.solve(SchedulingFormulation(instance), SolveOptions(), Clock()).plan
    assert plan_of(instance, placed(instance, None)) == plan


@pytest.mark.parametrize("more", [{}, {"preemption": "none"}, {"preemption": "costs", "restart_s": 20}])
def test_what_price_finds_has_places_and_is_feasible(more: dict[str, object]) -> None:
    """And where jobs may be stopped freely it is better than SRSF."""
    formulation = SchedulingFormulation(on_servers(3, **more))
    asked = SolveOptions(seed=1, method_options={"trials": 200})
    plan = Price().solve(formulation, asked, Clock()).plan
    assert plan is not None
    assert all(segment.servers for segment in plan)
    assert formulation.violations(plan) == []
    srsf = next(policy for policy in POLICIES if policy.name == "srsf")
    other = srsf.solve(formulation, SolveOptions(), Clock()).plan
    assert other is not None
    if not more:
        assert formulation.evaluate(plan)[0] < formulation.evaluate(other)[0]


@pytest.mark.parametrize("seed", [0, 4, 7, 32, 96])
def test_the_search_passes_over_schedules_that_lose_a_place(seed: int) -> None:
    """A server fails, and no job that runs there may be interrupted: some traces have no schedule then."""
    rng = np.random.default_rng(seed)
    jobs = [
        {
            "name": f"j{k}",
            "arrival_s": float(rng.integers(0, 100)),
            "duration_s": float(rng.integers(5, 60)),
            "tasks": int(2 ** rng.integers(0, 3)),
            "demand": {"gpu": 1},
        }
        for k in range(12)
    ]
    document = {
        "schema_version": 1,
        "name": "failing",
        "servers": [{"name": f"n{k}", "capacity": {"gpu": 4}} for k in range(2)],
        "jobs": jobs,
        "preemption": "none",
        "events": [{"at_s": float(rng.integers(60, 200)), "fails": ["n1"]}],
    }
    formulation = SchedulingFormulation(SchedulingInstance.model_validate(document))
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

    monkeypatch.setattr(price, "placed", too_long)
    with pytest.raises(OutOfTimeError, match="places on the servers"):
        Price().solve(SchedulingFormulation(on_servers(3)), SolveOptions(), Clock())
