"""Scheduling instances: builder, generator, data model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from malleable_instances import described

import clusterplan
from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.instances.scheduling.jobs import JobTable
from clusterplan.instances.scheduling.kind import SCHEDULING, Scheduling

JOB = "jobs: [{{name: x, demand: {{gpu: 1}}, {}}}]"
ON_GPUS = """
resources: {gpu: 4}
jobs: [{name: x, demand: {gpu: 1}, duration_s: 3}]
"""
ON_SERVERS = """
servers: [{name: a, count: 2, capacity: {gpu: 4}}]
jobs: [{name: j, demand: {gpu: 2}, tasks: 3, duration_s: 5}]
"""


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        (JOB.format("duration_s: 3, arrival_s: -1"), "jobs[0].arrival_s: is -1, but must be at least 0"),
        (JOB.format("duration_s: 3, tasks: 5"), "jobs[0]: 'x' asks for 5 gpu, and the cluster has 4"),
        (JOB.format("duration_s: 0"), "jobs[0].duration_s: is 0, but must be greater than 0"),
        (
            JOB.format("duration_s: 3, arrival_s: 1.0e+12"),
            "jobs[0].arrival_s: is 1e+12 s, but must be at most 1e+11; are these milliseconds?",
        ),
        (JOB.format("weight: 1"), "jobs[0].duration_s: is missing; it must be given"),
        (
            JOB.format("duration_s: 3, weight: 0"),
            "jobs: have weights that add up to 0; at least one job must count",
        ),
        (
            "jobs: [{name: x, demand: {cpu: 1}, duration_s: 3}]",
            "jobs[0].demand.cpu: unknown resource 'cpu'; the resources are: gpu",
        ),
        (
            "jobs: [{name: x, demand: {gpu: 0}, duration_s: 3}]",
            "jobs[0].demand: asks for nothing; at least one amount must be above 0",
        ),
        (
            "events: [{at_s: 5, change: {gpu: -5}}]",
            "events: leave -1 gpu at 5 s; there cannot be less than 0",
        ),
        (
            "events: [{at_s: 1, fails: [a]}]",
            "events[0].fails: names servers, and the cluster has none",
        ),
        # The cluster has enough of each resource at some time, and never of both.
        (
            """
            resources: {gpu: 4, cpu: 0}
            events: [{at_s: 1, change: {gpu: -4, cpu: 8}}]
            jobs: [{name: x, demand: {gpu: 2, cpu: 2}, duration_s: 3}]
            """,
            "jobs[0]: 'x' asks for 2 gpu, and the cluster has 4, "
            "but never all that it asks for at the same time",
        ),
    ],
)
def test_what_is_wrong_is_refused_in_one_line(fields: str, fault: str) -> None:
    """The line names the job and the rule."""
    with pytest.raises(InstanceError) as caught:
        described(ON_GPUS, fields)
    assert str(caught.value) == f"t: {fault}"


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ("events: [{at_s: 1, fails: [x]}]", "unknown server 'x'; the servers are: a, a-0, a-1"),
        ("events: [{at_s: 1, server: x, change: {gpu: 1}}]", "server.x: unknown server 'x'"),
        ("events: [{at_s: 1, change: {gpu: -1}}]", "does not say of which server"),
        ("events: [{at_s: 1, returns: [a-0]}]", "there is no change, for it is there already"),
        ("events: [{at_s: 1, fails: [a]}, {at_s: 2, fails: [a-1]}]", "it is down already"),
        ("events: [{at_s: 1, server: a-0, change: {gpu: -5}}]", "leave -1 gpu of 'a-0' at 1 s"),
        ("events: [{at_s: 1}]", "changes nothing"),
        ("jobs: [{name: j, demand: {gpu: 5}, duration_s: 5}]", "all servers together hold 0 of them"),
        (
            "jobs: [{name: j, demand: {gpu: 3}, tasks: 3, duration_s: 5}]",
            "asks for 9 gpu, and the cluster has 8",
        ),
        (
            "jobs: [{name: j, demand: {gpu: 3}, duration_s: 5, speed_by_servers: {2: 1.5}}]",
            "is 1.5 on 2 servers",
        ),
        (
            "jobs: [{name: j, demand: {gpu: 3}, duration_s: 5, speed_by_servers: {5000: 0.5}}]",
            "may list at most 4,096",
        ),
        (
            "jobs: [{name: x, demand: {gpu: 1}, duration_s: 3}, {name: x, demand: {gpu: 1}, duration_s: 3}]",
            r"jobs\[1\].name: 'x' is already used by jobs\[0\]; ",
        ),
        # A cluster is a pool or servers.
        ("resources: {gpu: 4}", "the resources of the cluster, or its servers"),
        ("servers: []", "the resources of the cluster, or its servers"),
    ],
)
def test_what_cannot_be_on_servers_is_refused(fields: str, fault: str) -> None:
    """In one line each."""
    with pytest.raises(InstanceError, match=fault) as caught:
        described(ON_SERVERS, fields)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("document", "fields", "times", "amounts"),
    [
        (
            ON_GPUS,
            "events: [{at_s: 9, change: {gpu: 4}}, {at_s: 5, change: {gpu: -3}}]",
            [0, 5, 9],
            [4, 1, 5],
        ),
        # What servers have is added up; one that is down may change, which counts when it returns.
        (
            ON_SERVERS,
            """
            events:
            - {at_s: 4, server: a-0, change: {gpu: -2}}
            - {at_s: 1, fails: [a]}
            - {at_s: 3, returns: [a-1]}
            - {at_s: 5, returns: [a-0]}
            """,
            [0, 1, 3, 4, 5],
            [8, 0, 4, 4, 6],
        ),
    ],
)
def test_events_change_the_amounts(document: str, fields: str, times: Any, amounts: Any) -> None:
    """In the order of their times."""
    at_s, found = described(document, fields).capacity_over_time
    assert (at_s.tolist(), found[:, 0].tolist()) == (times, amounts)


def test_servers_are_named_and_add_up() -> None:
    """Identical ones are numbered, and one that is alone keeps its name."""
    servers = "servers: [{name: a, count: 2, capacity: {gpu: 8, cpu: 1}}, {name: b, capacity: {gpu: 4}}]"
    there = described(ON_SERVERS, servers, events=[{"at_s": 2, "fails": ["b"]}])
    assert there.pool == {"gpu": 20, "cpu": 2}
    assert there.server_states.names == ["a-0", "a-1", "b"]
    assert [(at_s, n, left.tolist()) for at_s, n, left in there.server_states.changes] == [(2, 2, [0, 0])]


def test_jobs_in_columns_and_as_objects_are_the_same() -> None:
    """They hash alike, and a job of the table is the one that went in."""
    there = described("""
        resources: {gpu: 4}
        jobs:
        - {name: x, demand: {gpu: 1}, duration_s: 3, tenant: b}
        - {name: y, demand: {gpu: 1}, duration_s: 3, tasks: 2, estimate_s: 4, model: m, tenant: a}
    """)
    again = SchedulingInstance(name="t", resources={"gpu": 4}, jobs=there.table())
    assert again.sha256() == there.sha256()
    assert tuple(again.jobs) == there.jobs
    assert there.table().total_demand.tolist() == [[1], [2]]
    assert np.isnan(there.table().estimate_s).tolist() == [True, False]
    assert list(there.to_frame()["tenant"]) == ["b", "a"]


def test_the_rule_that_is_the_default_is_not_written() -> None:
    """So that documents of before keep their hash."""
    hashes = [described(ON_SERVERS, fields).sha256() for fields in ("", "evict: error", "evict: restart")]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_scheduling_is_that_of_its_document() -> None:
    document = """
        {schema_version: 1, kind: scheduling, resources: {gpu: 2}, preemption: costs, restart_s: 3}
    """
    lists = """
        events: [{at_s: 9, change: {gpu: -1}}]
        jobs:
        - {name: a, demand: {gpu: 1}, duration_s: 4, tasks: 2}
        - {name: b, demand: {gpu: 1}, work: 10, speeds: {1: 1.0, 2: 1.5}, arrival_s: 5}
    """
    builder = Scheduling("t", gpu=2, preemption="costs", restart_s=3)
    builder.add_event(9, change={"gpu": -1}).add_job("a", {"gpu": 1}, 4, tasks=2)
    builder.add_jobs([yaml.safe_load(lists)["jobs"][1]])
    assert builder.build().sha256() == described(document, lists).sha256()
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
