"""Names of servers; what is placed on them is tested with the formulation."""

from __future__ import annotations

from clusterplan.formulations.scheduling.servers import broken_placements, server_names
from clusterplan.instances.scheduling.instance import SchedulingInstance


def test_identical_servers_are_numbered() -> None:
    """A server that is alone keeps its name."""
    servers = [
        {"name": "a", "count": 2, "capacity": {"gpu": 8}},
        {"name": "b", "capacity": {"gpu": 4}},
    ]
    jobs = [{"name": "j", "demand": {"gpu": 1}, "duration_s": 1}]
    instance = SchedulingInstance.model_validate({"name": "t", "servers": servers, "jobs": jobs})
    assert server_names(instance) == {"a-0": {"gpu": 8}, "a-1": {"gpu": 8}, "b": {"gpu": 4}}
    assert list(broken_placements(instance, ())) == []
