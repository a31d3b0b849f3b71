"""Servers over time, and events that name what is not there."""

from __future__ import annotations

from typing import Any

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.documents import parse_instance
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.instances.scheduling.servers import ClusterEvent, Server, ServerStates

JOB = {"name": "j", "demand": {"gpu": 2}, "tasks": 3, "duration_s": 5}


def instance(**fields: Any) -> SchedulingInstance:
    """Return a job on two servers with four GPUs each."""
    servers = [{"name": "a", "count": 2, "capacity": {"gpu": 4}}]
    document = {"schema_version": 1, "kind": "scheduling", "name": "t", "servers": servers, "jobs": [JOB]}
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
    there = instance(events=events)
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
        ({"jobs": [{**JOB, "demand": {"gpu": 5}, "tasks": 1}]}, "all servers together hold 0 of them"),
        ({"jobs": [{**JOB, "demand": {"gpu": 3}, "tasks": 3}]}, "asks for 9 gpu, and the cluster has 8"),
        ({"jobs": [{**JOB, "speed_by_servers": {2: 1.5}}]}, "is 1.5 on 2 servers"),
        ({"jobs": [{**JOB, "speed_by_servers": {5000: 0.5}}]}, "may list at most 4,096"),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, Any], fault: str) -> None:
    """In one line each."""
    with pytest.raises(InstanceError, match=fault):
        instance(**fields)


def test_the_rule_that_is_the_default_is_not_written() -> None:
    """So that documents of before keep their hash."""
    assert instance(evict="error").sha256() == instance().sha256()
    assert instance(evict="restart").sha256() != instance().sha256()
