"""Violated constraints and reported metrics of schedules."""

from __future__ import annotations

import math

import numpy as np
import pytest

from clusterplan.formulations.scheduling.evaluation import (
    MAX_NAMED,
    checkpoint_interval_s,
    checkpointed_progress_s,
    cumulative_sums,
    evicted_runs,
    final_progress,
    placement_violations,
    quantile,
    restarts_s,
    runs_without_break,
    segment_violations,
    usage_over_time,
    work_tolerance,
)
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.formulations.scheduling.plan import Segment, SegmentTable
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance


def test_of_many_faults_the_first_are_named() -> None:
    """And the others are counted."""
    instance = generate_scheduling(100, 8)
    nothing, none = np.zeros(0), np.zeros(0, dtype=int)
    empty = SegmentTable(none, nothing, nothing, 100, nothing.astype(bool), none)
    found = list(segment_violations(instance, empty))
    assert len(found) == MAX_NAMED + 1
    assert str(found[-1]) == "work: 80 more of this sort"


def test_the_slack_is_relative_to_the_time_since_the_first_arrival() -> None:
    """So that a date in seconds since 1970 does not hide a second of work."""
    instance = generate_scheduling(3, 8, load=100.0)
    later = instance.replace(
        jobs=[{**j.model_dump(), "arrival_s": j.arrival_s + 1.5e9} for j in instance.jobs]
    )
    ends = instance.table().arrival_s + 1e5
    assert work_tolerance(instance, ends).max() < 1e-2
    assert work_tolerance(later, ends + 1.5e9).max() < 1e-2


def test_restarts_cost_only_where_preemption_does() -> None:
    """A job's own figure comes before the instance's."""
    instance = generate_scheduling(2, 8).replace(restart_s=5)
    assert restarts_s(instance).tolist() == [0, 0]
    assert restarts_s(instance.replace(preemption="costs")).tolist() == [5, 5]


def test_identical_servers_are_numbered() -> None:
    """A server that is alone keeps its name."""
    servers = [
        {"name": "a", "count": 2, "capacity": {"gpu": 8}},
        {"name": "b", "capacity": {"gpu": 4}},
    ]
    jobs = [{"name": "j", "demand": {"gpu": 1}, "duration_s": 1}]
    instance = SchedulingInstance.model_validate({"name": "t", "servers": servers, "jobs": jobs})
    assert [name for server in instance.servers for name in server.names] == ["a-0", "a-1", "b"]
    assert list(placement_violations(instance, SegmentTable.of((), {"j": 0}))) == []


JOBS = [{"name": "a", "demand": {"gpu": 1}, "duration_s": 5, "speed_by_servers": {1: 0.5}}]


def instance(**fields: object) -> SchedulingInstance:
    """Return a job of 5 s at full speed, which has half of it on any server; s0 fails from 3 to 4 s."""
    servers = [{"name": "s0", "capacity": {"gpu": 1}}, {"name": "s1", "capacity": {"gpu": 1}}]
    events = [{"at_s": 3, "fails": ["s0"]}, {"at_s": 4, "returns": ["s0"]}]
    document = {"name": "t", "servers": servers, "events": events, "jobs": JOBS, **fields}
    return SchedulingInstance.model_validate(document)


def broken(there: SchedulingInstance, *segments: tuple[float, float, str]) -> list[str]:
    """Return what is wrong with segments of the job, each on one server."""
    plan = [Segment(job="a", start_s=b, end_s=e, servers={name: 1}) for b, e, name in segments]
    return [str(fault) for fault in SchedulingFormulation(there).violations(plan)]


@pytest.mark.parametrize(
    ("interval", "slack", "kept"), [(0, 0, 7), (math.inf, 0, 0), (3, 0, 6), (7.1, 0, 0), (7.1, 0.2, 7)]
)
def test_the_work_since_the_last_checkpoint_is_lost(interval: float, slack: float, kept: float) -> None:
    """Of 7 s; nothing with checkpoints all the time, all without any."""
    assert checkpointed_progress_s(7.0, interval, slack) == kept


def test_without_checkpoints_only_what_must_not_stop_loses_work() -> None:
    """The interval that a document names counts for all."""
    assert checkpoint_interval_s(instance()) == 0
    assert checkpoint_interval_s(instance(preemption="none")) == math.inf
    assert checkpoint_interval_s(instance(checkpoint_s=7)) == 7


def test_only_those_on_a_server_that_fails_are_hit() -> None:
    """And only if they go on later; without names they are in the pool."""

    def evicted(server: str, at_s: float, **fields: object) -> list[bool]:
        first = Segment(job="a", start_s=0, end_s=at_s, servers={server: 1} if server else {})
        last = Segment(job="a", start_s=5, end_s=12, servers={"s0": 1} if server else {})
        table = SegmentTable.of([last, first], {"a": 0})
        return evicted_runs(instance(**fields), table).tolist()

    assert evicted("s0", 3) == evicted("", 3) == [True, False]
    for server, at_s in (("s1", 3), ("s0", 4), ("x", 3), ("", 4)):
        assert evicted(server, at_s) == [False, False]
    assert evicted("s0", 3, events=[]) == [False, False]


def test_progress_is_what_is_left_after_each_loss() -> None:
    """4 of 5 s are kept, then 6 of 7, then two are added."""
    gain, of = np.array([5.0, 3.0, 2.0, 9.0]), np.array([0, 0, 0, 1])
    hit = np.array([True, True, False, False])
    assert final_progress(gain, of, hit, np.full(2, 2.0), np.zeros(2)).tolist() == [8, 9]
    assert final_progress(gain, of, hit, np.zeros(2), np.zeros(2)).tolist() == [10, 9]


def test_the_check_knows_speeds_and_losses() -> None:
    """Half a second of work in a second; 1.5 s at 3 s, of which 1 s is kept with checkpoints each second."""
    there = instance()
    assert broken(there, (0, 3, "s0"), (3, 10, "s1")) == []
    assert broken(there, (0, 3, "s0"), (3, 9.9, "s1")) == ["work: 'a' runs for 4.95 s, and needs 5"]
    there = instance(checkpoint_s=1)
    assert broken(there, (0, 3, "s0"), (3, 11, "s1")) == []
    assert broken(there, (0, 3, "s0"), (3, 10.9, "s1")) == ["work: 'a' runs for 4.95 s, and needs 5"]
    assert broken(there, (0, 3, "s1"), (3, 10, "s0")) != []
    there = instance(preemption="none", evict="restart")
    assert broken(there, (0, 3, "s0"), (3, 13, "s1")) == []
    assert broken(there, (0, 2, "s0"), (2, 13, "s1")) == [
        "preemption: 'a' starts 2 times, and must not be interrupted"
    ]
    named_none = [Segment(job="a", start_s=0, end_s=9)]
    (fault,) = SchedulingFormulation(instance()).violations(named_none)
    assert "jobs are slower on several servers" in str(fault)


def test_a_job_runs_at_once_unless_it_may_stop_or_go_on_from_a_checkpoint() -> None:
    """Without preemption a job that loses its place begins again, if no checkpoint was written."""
    assert not runs_without_break(instance())
    assert runs_without_break(instance(preemption="none"))
    assert runs_without_break(instance(preemption="none", evict="restart"))
    assert not runs_without_break(instance(preemption="none", evict="restart", checkpoint_s=1.0))
    assert runs_without_break(instance(preemption="none", evict="restart", checkpoint_s=1.0, events=[]))


def test_figures_are_those_that_are_counted_by_hand() -> None:
    """Wide runs 0–1 and 4–7, thin 1–4, on two GPUs."""
    instance = SchedulingInstance.model_validate(
        {
            "name": "t",
            "resources": {"gpu": 2},
            "jobs": [
                {"name": "wide", "tasks": 2, "demand": {"gpu": 1}, "duration_s": 4, "tenant": "a"},
                {"name": "thin", "demand": {"gpu": 1}, "duration_s": 3, "arrival_s": 1, "tenant": "b"},
            ],
        }
    )
    segments = [("wide", 0, 1), ("thin", 1, 4), ("wide", 4, 7)]
    plan = [Segment(job=job, start_s=start, end_s=end) for job, start, end in segments]
    found = SchedulingFormulation(instance).metrics(plan)
    assert (found.mean_s, found.median_s, found.p99_s, found.makespan_s) == (5, 7, 7, 7)
    assert found.mean_queueing_s == 1.5
    assert found.mean_slowdown == pytest.approx((7 / 4 + 1) / 2)
    assert found.utilisation["gpu"] == pytest.approx(11 / 14)
    assert found.fragmentation["gpu"] == pytest.approx(3 / 14)
    assert found.preemptions == 1
    assert found.tenant_fairness == pytest.approx((1.75 + 1) ** 2 / (2 * (1.75**2 + 1)))


def test_a_quantile_is_one_of_the_values() -> None:
    """At place ⌊q n⌋, the last at most."""
    values = np.arange(200.0)
    assert quantile(values, 0.99) == 198
    assert quantile(values, 1.0) == 199
    assert quantile(values[:1], 0.99) == 0


def test_usage_is_a_step_function_of_time() -> None:
    """A job waits from its arrival to its start; amounts change with events."""
    instance = SchedulingInstance.model_validate(
        {
            "name": "t",
            "resources": {"gpu": 2},
            "events": [{"at_s": 3, "change": {"gpu": 1}}],
            "jobs": [
                {"name": "a", "demand": {"gpu": 2}, "duration_s": 4},
                {"name": "b", "demand": {"gpu": 1}, "duration_s": 2, "arrival_s": 1},
            ],
        }
    )
    plan = [Segment(job="a", start_s=0, end_s=4), Segment(job="b", start_s=3, end_s=5)]
    usage = usage_over_time(instance, SegmentTable.of(plan, {"a": 0, "b": 1}))
    assert usage.at_s.tolist() == [0, 1, 3, 4, 5]
    assert usage.used[:, 0].tolist() == [2, 2, 3, 1, 0]
    assert usage.capacity[:, 0].tolist() == [2, 2, 3, 3, 3]
    assert usage.running.tolist() == [1, 1, 2, 1, 0]
    assert usage.waiting.tolist() == [0, 1, 0, 0, 0]


def test_small_amounts_are_not_lost_beside_large_ones() -> None:
    """In doubles 10^12 + 10^-6 − 10^12 is 0; where limits are large enough, doubles will do."""
    changes = np.array([1e12, 1e-6, -1e12])
    assert cumulative_sums(changes, 1e-6).tolist() == [1e12, 1e12 + 1e-6, 1e-6]
    assert cumulative_sums(changes, 1e12)[-1] != 1e-6
