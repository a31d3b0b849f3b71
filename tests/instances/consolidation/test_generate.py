"""Generated servers whose GPUs are single devices, and amounts with many digits."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import clusterplan
from clusterplan.formulations.consolidation.formulation import DeviceFormulation
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.documents import parse_instance


def _made(**options: Any) -> ConsolidationInstance:
    return generate_consolidation(**{"servers": 80, "jobs": 200, "resources": 3, "load": 1.2, **options})


def test_jobs_of_one_gpu_become_replicas() -> None:
    """Of which one GPU holds as many as there are; other jobs ask for whole devices."""
    plain, made = _made(seed=3), _made(seed=3, devices=True, shared=0.3, partitioned=0.2)
    forms = Counter[str]()
    for before, job in zip(plain.jobs, made.jobs, strict=True):
        (group,) = job.task_groups
        ask = group.asks["gpu"]
        form = "share" if ask.share else "profile" if ask.profile else "devices"
        if form == "devices":
            assert job.tasks == before.tasks
            assert job.worth == before.worth
        else:
            forms[form] += 1
            assert before.worth == 1
            assert 0.5 < job.worth <= 1
        assert "gpu" not in group.demand
        for name, amount in group.demand.items():
            total = sum(one.tasks * one.demand[name] for one in before.task_groups)
            assert total <= group.tasks * amount <= total + 0.01 * group.tasks
    single = sum(job.worth == 1 for job in plain.jobs)
    assert 0.2 < forms["share"] / single < 0.4
    assert 0.1 < forms["profile"] / single < 0.3


def test_what_is_not_free_is_taken() -> None:
    """Whole, or as a share; the free devices are as many as the free GPUs before."""
    plain, made = _made(seed=1), _made(seed=1, devices=True)
    for before, server in zip(plain.servers, made.servers, strict=True):
        states = server.device_states["gpu"]
        assert len(states) == before.capacity["gpu"]
        assert sum(state.mode == "free" for state in states) == before.available["gpu"]
    modes = Counter(state.mode for server in made.servers for state in server.device_states["gpu"])
    assert 0.2 < modes["shared"] / (modes["shared"] + modes["whole"]) < 0.4
    assert {name for server in made.servers for name in server.capacity} == {"cpu", "memory_gib"}


@pytest.mark.parametrize("devices", [False, True])
def test_unlike_amounts_and_values_have_many_digits(devices: bool) -> None:
    """In whole milli-CPUs and MiB; what fitted on an empty server still does."""
    made = _made(seed=2, devices=devices, unlike=True, shapes=3)
    demands = [job.task_demand or {} for job in made.jobs]
    for amounts in [*demands, *(server.available for server in made.servers)]:
        assert round(amounts["cpu"], 3) == amounts["cpu"]
        assert float(1024 * amounts["memory_gib"]).is_integer()
    assert len({tuple(demand.items()) for demand in demands}) > 50
    assert len({job.worth for job in made.jobs}) > 50
    plain = _made(seed=2, shapes=3)
    for demand, before in zip(demands, plain.jobs, strict=True):
        if not devices:
            assert all(demand[r] <= amount for r, amount in (before.task_demand or {}).items())
        assert any(all(demand[r] <= s.capacity[r] for r in demand) for s in made.servers)


def test_a_generated_instance_is_read_again_and_solved() -> None:
    """With all that can be asked for, and the queue does not depend on the servers."""
    options = {"jobs": 12, "devices": True, "partitioned": 0.3, "unlike": True, "seed": 5}
    made = _made(servers=4, **options)
    assert parse_instance(made.document()).sha256() == made.sha256()
    assert made.sha256() == _made(servers=4, **options).sha256()
    other = _made(servers=9, **options)
    asked = [[(j.name, j.task_demand, j.share, j.profile, j.value) for j in i.jobs] for i in (made, other)]
    assert asked[0] == asked[1]
    result = clusterplan.solve(made, solver="best-fit")
    assert result.plan is not None
    formulation = DeviceFormulation(made)
    assert formulation.violations(formulation.parse_plan([e.model_dump() for e in result.plan])) == []


@pytest.mark.parametrize(
    "options",
    [
        {"devices": True, "resources": 1},
        {"partitioned": 0.5},
        {"devices": True, "shared": 0.7, "partitioned": 0.5},
        {"devices": True, "partitioned": 0.5, "shapes": 2},
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, Any]) -> None:
    """The first two shapes, v100 and t4, cannot be partitioned."""
    with pytest.raises(clusterplan.OptionError, match="must"):
        _made(**options)
