"""What a scenario changes in an instance of scheduling."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.planner.changes import changed_instance
from clusterplan.planner.scheduling.changes import what_if
from clusterplan.planner.sensitivity import what_if as compared


def on_servers() -> SchedulingInstance:
    pool = generate_scheduling(5, 32, seed=1)
    servers = [{"name": name, "count": 8, "capacity": {"gpu": 8}} for name in ("a100", "v100")]
    return pool.replace(resources={}, servers=servers)


def test_a_pool_grows_and_shrinks() -> None:
    pool = generate_scheduling(5, 64, seed=1)
    known = what_if(pool)
    assert list(known) == ["gpu", "remove"]
    assert changed_instance(pool, "gpu=+10", known).document()["resources"] == {"gpu": 74.0}
    assert changed_instance(pool, "gpu=-50%", known).document()["resources"] == {"gpu": 32.0}
    gone = pool.jobs[0].name
    assert gone not in {
        job["name"] for job in changed_instance(pool, f"remove={gone}", known).document()["jobs"]
    }
    with pytest.raises(OptionError, match="gpu=none: a cluster has so many"):
        changed_instance(pool, "gpu=none", known)
    with pytest.raises(OptionError, match=r"gpu\+10' is no change; there are: gpu=\+10, remove=JOB"):
        changed_instance(pool, "gpu+10", known)
    with pytest.raises(OptionError, match="makes no valid instance"):
        changed_instance(pool, "gpu=0", known)


def test_servers_are_added_and_drained() -> None:
    made = on_servers()
    known = what_if(made)
    assert changed_instance(made, "add=2xa100", known).pool == {"gpu": 144.0}
    assert changed_instance(made, "drain=v*", known).pool == {"gpu": 64.0}
    fewer = changed_instance(made, "drain=v100-3", known)
    assert isinstance(fewer, SchedulingInstance)
    assert fewer.pool == {"gpu": 120.0}
    assert [server.name for server in fewer.servers][:4] == ["a100", "v100-0", "v100-1", "v100-2"]
    assert changed_instance(fewer, "drain=v100-[0-6]", known).pool == {"gpu": 72.0}
    with pytest.raises(OptionError, match="leaves no server; jobs need one at least"):
        changed_instance(made, "drain=*", known)
    with pytest.raises(OptionError, match="there is no server 'h100'; there are: a100, v100"):
        changed_instance(made, "add=h100", known)


def test_more_gpus_are_never_worse_for_shortest_service_first_on_single_gpus() -> None:
    """The comparison says what ten more bring."""
    jobs = [
        {"name": f"j{k}", "arrival_s": 10.0 * k, "tasks": 1, "demand": {"gpu": 1}, "duration_s": 100.0 + k}
        for k in range(20)
    ]
    made = generate_scheduling(5, 64, seed=1).replace(resources={"gpu": 2}, jobs=jobs)
    found = compared(made, ["gpu=+10"], "srsf")
    row = next(row for row in found.rows() if row.scenario.name == "gpu=+10")
    assert row.difference is not None
    assert row.difference < 0
    assert found.headline().startswith("gpu=+10: mean_completion_time ")
