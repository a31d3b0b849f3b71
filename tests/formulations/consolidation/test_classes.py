"""Classes of servers and jobs, and the fewest servers of a job."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from device_instances import device_instance, job, placement, server
from random_instances import random_consolidation

import clusterplan
from clusterplan.formulations.consolidation import build_classes, fewest_servers
from clusterplan.formulations.consolidation.build_classes import classes_of
from clusterplan.formulations.consolidation.check.classes import CheckedCluster
from clusterplan.formulations.consolidation.cluster_data import ClusterData
from clusterplan.formulations.consolidation.fewest_servers import (
    fewest_on_devices,
    group_servers,
    pooled_relaxation,
    tasks_on,
    tasks_on_devices,
)
from clusterplan.formulations.consolidation.formulation import DeviceFormulation
from clusterplan.formulations.consolidation.plan import without_devices
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.instances.consolidation.devices import DeviceDemand
from clusterplan.instances.consolidation.instance import ConsolidationInstance, Server
from clusterplan.instances.consolidation.job import Group


def test_the_table_lists_every_sum_that_a_server_holds() -> None:
    """As enumeration does, on two resources, with few and many tasks of a demand."""
    for seed in range(20):
        draw = random.Random(seed)
        tasks = [draw.randint(1, 6) for _ in range(3)]
        demands = [(draw.randint(0, 4), draw.randint(0, 4)) for _ in tasks]
        servers = [{"gpu": draw.randint(2, 12), "cpu": draw.randint(2, 12)} for _ in range(2)]
        jobs = [
            job(f"j{k}", n, {"gpu": float(g), "cpu": float(c)})
            for k, (n, (g, c)) in enumerate(zip(tasks, demands, strict=True))
        ]
        made = placement(["value"], [server(f"n{k}", **free) for k, free in enumerate(servers)], jobs)
        table = classes_of(ClusterData(made))
        parts = [part for listed in table.jobs for _ in listed.members for part in listed.parts]
        demands = [table.task_shapes[part.shape].demands[0] for part in parts]
        sums = {
            tuple(sum(n * demand[r] for n, demand in zip(counts, demands, strict=True)) for r in range(2))
            for counts in itertools.product(*(range(part.tasks[0] + 1) for part in parts))
        }
        names, units = made.resource_names, table.units
        held = {
            amounts
            for amounts in sums
            if any(
                all(n * unit <= free[name] for n, unit, name in zip(amounts, units, names, strict=True))
                for free in servers
            )
        }
        usages = table.usages[None]
        assert usages is not None
        assert sorted(held) == list(map(tuple, usages.tolist())), seed


def test_sums_are_those_of_a_plain_enumeration() -> None:
    """Also where one server has nothing of what another has much of."""
    for seed in range(300):
        draw = random.Random(seed)
        tasks = {(draw.randint(0, 4), draw.randint(0, 4)): draw.randint(1, 6) for _ in range(3)}
        free = [[draw.randint(0, 12), draw.choice([0, 3, 12])] for _ in range(2)]
        sums = {
            tuple(sum(n * demand[r] for n, demand in zip(counts, tasks, strict=True)) for r in range(2))
            for counts in itertools.product(*(range(count + 1) for count in tasks.values()))
        }
        held = {s for s in sums if any(s[0] <= gpus and s[1] <= cpus for gpus, cpus in free)}
        usages = build_classes._demand_sums(tasks, tasks, np.array(free))
        assert usages is not None
        assert sorted(held) == list(map(tuple, usages.tolist())), seed


@pytest.mark.parametrize("block", range(4))
def test_without_a_table_classes_are_the_same_but_for_servers(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers stay apart by all that is free, and the check's own classes agree with that."""
    for seed in range(40 * block, 40 * block + 40):
        instance = random_consolidation(seed)
        assert isinstance(instance, ConsolidationInstance)
        listed = classes_of(ClusterData(instance))
        with monkeypatch.context() as patch:
            patch.setattr(build_classes, "MAX_USAGES", 0)
            checked = CheckedCluster.of(instance)
            table, derived = checked.cluster.classes, checked.classes  # or a disagreement is raised
        assert all(usages is None or len(usages) == 1 for usages in table.usages.values())
        assert table.exact
        assert derived.exact
        assert table.jobs == listed.jobs
        assert table.task_shapes == listed.task_shapes
        members = [sorted(n for s in classes.servers for n in s.members) for classes in (table, listed)]
        assert members[0] == members[1], seed
        assert len(table.servers) >= len(listed.servers)


def test_unlike_amounts_stay_exact() -> None:
    """Where the least common unit is a tiny part of the amounts, and sums are many."""
    jobs = [
        job(f"j{k}", demand={"gpu": gpu}) for k, gpu in enumerate([499985, 7328066.57764, 7e6, 1234567.8])
    ]
    checked = CheckedCluster.of(placement(["value"], [server(gpu=8e6)], jobs))
    assert checked.classes.exact
    assert checked.classes.units == (Fraction(1, 25_000),)
    usages = checked.cluster.classes.usages[None]
    assert usages is not None
    assert len(usages) == 8  # nothing, each, and three pairs


def test_amounts_that_leave_64_bits_are_rounded_down() -> None:
    """Then classes say so, and a server seems to hold at least what it holds."""
    jobs = [job("a", demand={"gpu": 1.23456789012345e-9}), job("b", demand={"gpu": 7e6})]
    checked = CheckedCluster.of(placement(["value"], [server(gpu=7e6 + 1)], jobs))
    assert not checked.classes.exact
    assert [shape.demands[0] for shape in checked.classes.task_shapes] == [(0,), (2**40,)]


def test_devices_become_amounts() -> None:
    """A share its thousandths, a partition its slots, and one more resource counts partitions."""
    devices = {"count": 3, "geometry": "a100-40", "taken": [{"device": 0}, {"device": 1, "share": 460}]}
    instance = placement(
        None,
        [{"name": "n", "capacity": {"cpu": 8}, "devices": {"gpu": devices}}],
        [
            {"name": "w", "tasks": 1, "task_demand": {"cpu": 1}, "devices": {"gpu": 2}},
            {"name": "s", "tasks": 1, "task_demand": {}, "share": {"gpu": 540}},
            {"name": "p", "tasks": 1, "task_demand": {}, "profile": {"gpu": "2g.10gb"}, "value": 1},
        ],
    )
    relaxed = pooled_relaxation(instance)
    assert not relaxed.has_devices
    assert relaxed.servers[0].capacity == {"cpu": 8.0, "gpu": 3.0, "2g.10gb of gpu": 9.0}
    assert relaxed.servers[0].available == {"cpu": 8.0, "gpu": 1.54, "2g.10gb of gpu": 3.0}
    assert [job.task_groups[0].demand for job in relaxed.jobs] == [
        {"cpu": 1.0, "gpu": 2.0},
        {"gpu": 0.54},
        {"gpu": 0.25, "2g.10gb of gpu": 1.0},
    ]
    assert [job.worth for job in relaxed.jobs] == [2.0, 0.54, 1.0]


@pytest.mark.parametrize("seed", range(25))
def test_plans_on_devices_are_plans_of_the_relaxation(seed: int) -> None:
    """With values that are no worse in the first objective."""
    instance = device_instance(seed)
    formulation = DeviceFormulation(instance)
    plan = clusterplan.solve(instance, solver="best-fit").plan
    if plan is not None:
        entries = formulation.parse_plan([entry.model_dump() for entry in plan])
        bare = without_devices(entries)
        assert formulation.pooled.violations(bare) == []
        assert formulation.pooled.evaluate(bare)[0] == formulation.evaluate(entries)[0]


def _servers(*counts: int, geometry: str | None = "a100-40", **fields: Any) -> list[Server]:
    devices = [{"count": count, "geometry": geometry} for count in counts]
    rows = [
        {"name": f"n{n}", "capacity": {"cpu": 8}, "devices": {"gpu": d}, **fields}
        for n, d in enumerate(devices)
    ]
    return [Server.model_validate(row) for row in rows]


def _group(tasks: int, cpu: float = 1, **asks: Any) -> Group:
    return Group.model_validate({"tasks": tasks, "demand": {"cpu": cpu}, **asks})


def test_shares_do_not_add_up_across_devices() -> None:
    """Of 600 thousandths a server of two devices holds two, though the sum would be three."""
    (server,) = _servers(2)
    for group, most in (
        (_group(9, share={"gpu": 600}), 2),
        (_group(9, share={"gpu": 500}), 4),
        (_group(9, cpu=3, share={"gpu": 500}), 2),
        (_group(9, devices={"gpu": 2}), 1),
        (_group(9, cpu=0, profile={"gpu": "1g.5gb"}), 9),
        (_group(99, cpu=0, profile={"gpu": "1g.5gb"}), 14),
        (_group(9, devices={"npu": 1}), 0),
    ):
        assert tasks_on(server, group) == most, group


def test_what_is_free_holds_less() -> None:
    """Others hold one device, and a part of the other."""
    (server,) = _servers(2)
    taken = {"count": 2, "geometry": "a100-40", "taken": [{"device": 0}, {"device": 1, "share": 500}]}
    server = Server.model_validate({**server.model_dump(exclude_none=True), "devices": {"gpu": taken}})
    assert tasks_on(server, _group(9, share={"gpu": 400})) == 4
    (devices,), states = (server.devices or {}).values(), server.device_states["gpu"]
    assert tasks_on_devices(DeviceDemand(share=400), devices, states) == 1
    assert tasks_on_devices(DeviceDemand(whole=1), devices, states) == 0
    assert tasks_on_devices(DeviceDemand(profile="1g.5gb"), devices, states) == 0


def test_the_largest_servers_come_first() -> None:
    """Five whole devices on servers of four, two and one."""
    servers = _servers(1, 2, 4)
    assert fewest_on_devices([_group(5, devices={"gpu": 1})], group_servers(servers)) == 2
    assert fewest_on_devices([_group(7, devices={"gpu": 1})], group_servers(servers)) == 3
    assert fewest_on_devices([_group(8, devices={"gpu": 1})], group_servers(servers)) is None


def test_groups_share_the_devices_of_a_server() -> None:
    """A whole device and two shares of 600 need three devices, one more than a server has."""
    groups = [_group(1, devices={"gpu": 1}), _group(2, share={"gpu": 600})]
    assert fewest_on_devices(groups, group_servers(_servers(2, 2))) == 2
    assert fewest_on_devices(groups, group_servers(_servers(3, 2))) == 1
    assert fewest_on_devices(groups, group_servers(_servers(2))) is None
    halves = [_group(1, devices={"gpu": 1}), _group(2, share={"gpu": 500})]
    assert fewest_on_devices(halves, group_servers(_servers(2, 2))) == 1


def test_too_many_ways_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than searched for hours."""
    monkeypatch.setattr(fewest_servers, "MAX_PATTERNS", 5)
    with pytest.raises(TooLargeError):
        fewest_on_devices([_group(3, share={"gpu": 500}), _group(3)], group_servers(_servers(2)))
