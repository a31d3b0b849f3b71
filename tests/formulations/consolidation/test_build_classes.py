"""The methods' classes: exact with a table of sums and without one."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import numpy as np
import pytest
from device_instances import job, placement, server
from random_instances import random_consolidation

from clusterplan.formulations.consolidation import build_classes
from clusterplan.formulations.consolidation.build_classes import classes_of
from clusterplan.formulations.consolidation.check.classes import CheckedCluster
from clusterplan.formulations.consolidation.cluster_data import ClusterData
from clusterplan.instances.consolidation.instance import ConsolidationInstance


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
