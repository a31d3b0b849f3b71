"""Scheduling instances: builder, generator, data model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import clusterplan
from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.common.faults import validated
from clusterplan.instances.documents import parse_instance
from clusterplan.instances.scheduling.builder import Scheduling
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import ClusterEvent, SchedulingInstance, Server, ServerStates
from clusterplan.instances.scheduling.jobs import JobTable
from clusterplan.instances.scheduling.kind import SCHEDULING

JOB: dict[str, Any] = {"name": "x", "demand": {"gpu": 1}, "duration_s": 3}


def instance(jobs: list[dict[str, Any]], **others: Any) -> SchedulingInstance:
    """Return an instance on four GPUs."""
    return validated(SchedulingInstance, {"name": "t", "resources": {"gpu": 4}, **others, "jobs": jobs}, "t")


@pytest.mark.parametrize(
    ("job", "fault"),
    [
        ({"arrival_s": -1}, "jobs[0].arrival_s: is -1, but must be at least 0"),
        ({"tasks": 5}, "jobs[0]: 'x' asks for 5 gpu, and the cluster has 4"),
        ({"duration_s": 0}, "jobs[0].duration_s: is 0, but must be greater than 0"),
        (
            {"arrival_s": 1e12},
            "jobs[0].arrival_s: is 1e+12 s, but must be at most 1e+11; are these milliseconds?",
        ),
        ({"demand": {"cpu": 1}}, "jobs[0].demand.cpu: unknown resource 'cpu'; the resources are: gpu"),
        ({"demand": {"gpu": 0}}, "jobs[0].demand: asks for nothing; at least one amount must be above 0"),
        ({"weight": 0}, "jobs: have weights that add up to 0; at least one job must count"),
    ],
)
def test_a_wrong_job_is_refused_in_one_line(job: dict[str, Any], fault: str) -> None:
    """The line names the job and the rule."""
    with pytest.raises(InstanceError) as caught:
        instance([{**JOB, **job}])
    assert str(caught.value) == f"t: {fault}"


def test_missing_durations_and_repeated_names_are_refused() -> None:
    """Each is one line."""
    with pytest.raises(InstanceError, match=r"^t: jobs\[0\].duration_s: is missing; it must be given$"):
        instance([{"name": "x", "demand": {"gpu": 1}}])
    with pytest.raises(InstanceError, match=r"^t: jobs\[1\].name: 'x' is already used by jobs\[0\]; [^\n]*$"):
        instance([JOB, JOB])


def test_a_cluster_is_a_pool_or_servers() -> None:
    """Capacities of servers add up; both or neither are refused."""
    servers = [
        {"name": "a", "count": 2, "capacity": {"gpu": 8, "cpu": 1}},
        {"name": "b", "capacity": {"gpu": 4}},
    ]
    assert instance([JOB], resources={}, servers=servers).pool == {"gpu": 20, "cpu": 2}
    for both in ({"servers": servers}, {"resources": {}}):
        with pytest.raises(InstanceError, match="the resources of the cluster, or its servers"):
            instance([JOB], **both)


def test_events_change_the_amounts() -> None:
    """In the order of their times; an amount below 0 is refused, and so is a job that never fits."""
    events = [{"at_s": 9, "change": {"gpu": 4}}, {"at_s": 5, "change": {"gpu": -3}}]
    times, amounts = instance([{**JOB, "tasks": 5}], events=events).capacity_over_time
    assert times.tolist() == [0, 5, 9]
    assert amounts.tolist() == [[4], [1], [5]]
    with pytest.raises(InstanceError, match="events: leave -1 gpu at 5 s"):
        instance([JOB], events=[{"at_s": 5, "change": {"gpu": -5}}])


def test_amounts_that_never_come_together_are_refused() -> None:
    """The cluster has enough of each resource at some time, and never of both."""
    events = [{"at_s": 1, "change": {"gpu": -4, "cpu": 8}}]
    job = {**JOB, "demand": {"gpu": 2, "cpu": 2}}
    with pytest.raises(InstanceError, match="never all that it asks for at the same time"):
        instance([job], resources={"gpu": 4, "cpu": 0}, events=events)


def test_jobs_in_columns_and_as_objects_are_the_same() -> None:
    """They hash alike, and a job of the table is the one that went in."""
    rows = [
        {**JOB, "tenant": "b"},
        {**JOB, "name": "y", "tasks": 2, "estimate_s": 4, "model": "m", "tenant": "a"},
    ]
    there = instance(rows)
    again = SchedulingInstance(name="t", resources={"gpu": 4}, jobs=there.table())
    assert again.sha256() == there.sha256()
    assert tuple(again.jobs) == there.jobs
    assert there.table().total_demand.tolist() == [[1], [2]]
    assert np.isnan(there.table().estimate_s).tolist() == [True, False]
    assert list(there.to_frame()["tenant"]) == ["b", "a"]


SERVERS_JOB = {"name": "j", "demand": {"gpu": 2}, "tasks": 3, "duration_s": 5}


def servers_instance(**fields: Any) -> SchedulingInstance:
    """Return a job on two servers with four GPUs each."""
    servers = [{"name": "a", "count": 2, "capacity": {"gpu": 4}}]
    document = {
        "schema_version": 1,
        "kind": "scheduling",
        "name": "t",
        "servers": servers,
        "jobs": [SERVERS_JOB],
    }
    found = parse_instance({**document, **fields})
    assert isinstance(found, SchedulingInstance)
    return found


def test_servers_fail_return_and_change() -> None:
    """What the cluster has is the sum; a server that is down may change, which counts when it returns."""
    events = [
        {"at_s": 4, "server": "a-0", "change": {"gpu": -2}},
        {"at_s": 1, "fails": ["a"]},
        {"at_s": 3, "returns": ["a-1"]},
        {"at_s": 5, "returns": ["a-0"]},
    ]
    there = servers_instance(events=events)
    times, amounts = there.capacity_over_time
    assert times.tolist() == [0, 1, 3, 4, 5]
    assert amounts[:, 0].tolist() == [8, 0, 4, 4, 6]
    states = ServerStates.of(
        [Server(name="b", capacity={"gpu": 1})], [ClusterEvent(at_s=2, fails=("b",))], ["gpu"]
    )
    assert states.names == ["b"]
    assert [(at_s, n, left.tolist()) for at_s, n, left in states.changes] == [(2, 0, [0])]


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"events": [{"at_s": 1, "fails": ["x"]}]}, "unknown server 'x'; the servers are: a, a-0, a-1"),
        ({"events": [{"at_s": 1, "change": {"gpu": -1}}]}, "does not say of which server"),
        ({"events": [{"at_s": 1, "returns": ["a-0"]}]}, "there is no change, for it is there already"),
        ({"events": [{"at_s": 1, "fails": ["a"]}, {"at_s": 2, "fails": ["a-1"]}]}, "it is down already"),
        ({"events": [{"at_s": 1, "server": "a-0", "change": {"gpu": -5}}]}, "leave -1 gpu of 'a-0' at 1 s"),
        ({"events": [{"at_s": 1}]}, "changes nothing"),
        ({"servers": [], "resources": {"gpu": 8}, "events": [{"at_s": 1, "fails": ["a"]}]}, "has none"),
        (
            {"jobs": [{**SERVERS_JOB, "demand": {"gpu": 5}, "tasks": 1}]},
            "all servers together hold 0 of them",
        ),
        (
            {"jobs": [{**SERVERS_JOB, "demand": {"gpu": 3}, "tasks": 3}]},
            "asks for 9 gpu, and the cluster has 8",
        ),
        ({"jobs": [{**SERVERS_JOB, "speed_by_servers": {2: 1.5}}]}, "is 1.5 on 2 servers"),
        ({"jobs": [{**SERVERS_JOB, "speed_by_servers": {5000: 0.5}}]}, "may list at most 4,096"),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, Any], fault: str) -> None:
    """In one line each."""
    with pytest.raises(InstanceError, match=fault):
        servers_instance(**fields)


def test_the_rule_that_is_the_default_is_not_written() -> None:
    """So that documents of before keep their hash."""
    assert servers_instance(evict="error").sha256() == servers_instance().sha256()
    assert servers_instance(evict="restart").sha256() != servers_instance().sha256()


def test_a_scheduling_is_that_of_its_document() -> None:
    job = {"name": "b", "demand": {"gpu": 1}, "work": 10, "speeds": {1: 1.0, 2: 1.5}, "arrival_s": 5}
    document = {
        "schema_version": 1,
        "kind": "scheduling",
        "name": "s",
        "resources": {"gpu": 2},
        "preemption": "costs",
        "restart_s": 3,
        "events": [{"at_s": 9, "change": {"gpu": -1}}],
        "jobs": [{"name": "a", "demand": {"gpu": 1}, "duration_s": 4, "tasks": 2}, job],
    }
    builder = Scheduling("s", gpu=2, preemption="costs", restart_s=3)
    builder.add_event(9, change={"gpu": -1}).add_job("a", {"gpu": 1}, 4, tasks=2)
    assert builder.add_jobs([job]).build().sha256() == parse_instance(document).sha256()
    on_servers = Scheduling().add_server("n", {"gpu": 8}, count=2)
    frame = pd.DataFrame({"name": ["x", "y"], "demand.gpu": [8, 16], "duration_s": [60.0, 30.0]})
    with pytest.raises(clusterplan.InstanceError, match="all servers together hold"):
        on_servers.add_jobs(frame).build()
    fits = Scheduling().add_server("n", {"gpu": 8}, count=2).add_jobs(frame.iloc[:1])
    assert clusterplan.solve(fits, "fifo").objective == 60


def test_the_tiny_instance_is_contended() -> None:
    """Its jobs ask for more than there is, so that methods have something to decide."""
    tiny = SCHEDULING.tiny()
    assert isinstance(tiny, SCHEDULING.model)
    assert len(tiny.table()) == 4
    assert tiny.table().total_demand.sum() > sum(tiny.pool.values())


def test_the_load_is_what_was_asked_for() -> None:
    """GPU-seconds over those until the last arrival, up to where the first and last fall."""
    table = generate_scheduling(4_000, 64, load=0.7, seed=5).table()
    asked = (table.total_demand[:, 0] * table.duration_s).sum()
    assert asked / (64 * table.arrival_s.max()) == pytest.approx(0.7, rel=0.01)


def test_the_same_seed_gives_the_same_trace() -> None:
    """And another one another."""
    assert generate_scheduling(50, 8, seed=1).sha256() == generate_scheduling(50, 8, seed=1).sha256()
    assert generate_scheduling(50, 8, seed=1).sha256() != generate_scheduling(50, 8, seed=2).sha256()


def test_no_job_is_larger_than_the_pool() -> None:
    """Sizes are cut to the pool, and jobs are held in columns."""
    made = generate_scheduling(500, 3)
    assert isinstance(made.jobs, JobTable)
    assert made.table().tasks.max() == 3


@pytest.mark.parametrize("wrong", [{"jobs": 0}, {"gpus": 0}, {"load": 0.0}])
def test_values_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    """With the option's name."""
    with pytest.raises(OptionError, match=next(iter(wrong))):
        generate_scheduling(**{"jobs": 1, "gpus": 1, **wrong})  # type: ignore[arg-type]


def test_malleable_jobs_are_the_rigid_ones_with_a_menu() -> None:
    """On what is requested each takes as long as the rigid one of the same draw."""
    rigid = generate_scheduling(40, 16, seed=5)
    malleable = generate_scheduling(40, 16, seed=5, malleable=True)
    assert np.allclose(malleable.table().duration_s, rigid.table().duration_s)
    assert np.array_equal(malleable.table().total_demand, rigid.table().total_demand)
    menus = malleable.menus()
    assert len(menus.malleable) == 40
    # More GPUs are faster, but each GPU does less.
    for j in range(40):
        own = slice(int(menus.first[j]), int(menus.first[j + 1]))
        assert (np.diff(menus.speed[own]) > 0).all()
        assert (np.diff(menus.speed[own] / menus.usage[own, 0]) < 0).all()
