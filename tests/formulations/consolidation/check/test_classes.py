"""Equivalence classes and the fewest servers of a job, as the check derives them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from random_instances import random_consolidation

import clusterplan
from clusterplan.formulations.consolidation import build_classes
from clusterplan.formulations.consolidation.build_classes import classes_of
from clusterplan.formulations.consolidation.check.classes import CheckedCluster, derive_fewest_servers
from clusterplan.formulations.consolidation.classes import ClassTable, ServerClass
from clusterplan.formulations.consolidation.cluster_data import ClusterData
from clusterplan.formulations.consolidation.fewest_servers import Shapes, fewest_servers
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.consolidation.instance import ConsolidationInstance, Server
from clusterplan.instances.consolidation.job import Group


@pytest.mark.parametrize("block", range(10))
def test_both_derivations_agree_on_tiny_instances(block: int) -> None:
    """With every feature on and off: groups, spread, speeds, current places, GPU models."""
    for seed in range(30 * block, 30 * block + 30):
        instance = random_consolidation(seed)
        assert isinstance(instance, ConsolidationInstance)
        checked = CheckedCluster.of(instance)
        derived, table = checked.classes, checked.cluster.classes  # or a disagreement is raised
        assert derived.jobs == table.jobs, seed
        assert {(s.pool, s.free, s.residents, s.members) for s in derived.servers} == {
            (s.pool, s.free, s.residents, s.members) for s in table.servers
        }, seed


@pytest.mark.parametrize("resources", [1, 3])
def test_both_derivations_agree_on_hundreds_of_servers(resources: int) -> None:
    """Where the check leaves servers apart that the methods put together."""
    checked = CheckedCluster.of(generate_consolidation(400, 300, resources=resources, shapes=2, seed=1))
    assert checked.classes.jobs == checked.cluster.classes.jobs
    assert len(checked.classes.servers) >= len(checked.cluster.classes.servers)


INSTANCE = generate_consolidation(6, 8, load=1.3, preferred_share=0.5, resources=3, seed=5)


def _job(table: ClassTable, **changes: object) -> ClassTable:
    job = next(job for job in table.jobs if not job.loose)
    return replace(table, jobs=tuple(replace(j, **changes) if j is job else j for j in table.jobs))  # type: ignore[arg-type]


def _servers(table: ClassTable, *servers: ServerClass) -> ClassTable:
    return replace(table, servers=servers)


WRONG: dict[str, Callable[[ClassTable], ClassTable]] = {
    "value": lambda table: _job(table, value=Fraction(1, 3)),
    "most servers": lambda table: _job(table, most=1000),
    "members": lambda table: _job(table, members=(0, 1, 2)),
    "piece": lambda table: replace(table, pieces=(table.pieces[0][:-1], *table.pieces[1:])),
    "slot": lambda table: replace(table, slots=tuple(np.flip(slots) for slots in table.slots)),
    "shape": lambda table: replace(table, task_shapes=table.task_shapes[::-1]),
    "server left out": lambda table: _servers(table, *table.servers[1:]),
    "server that holds more": lambda table: _servers(
        table,
        replace(table.servers[0], free=tuple(amount + 1 for amount in table.servers[0].free)),
        *table.servers[1:],
    ),
    "server in two classes": lambda table: _servers(
        table, *table.servers, replace(table.servers[0], pool="another model")
    ),
    "units": lambda table: replace(table, units=(Fraction(0), *table.units[1:])),
    "stops without jobs": lambda table: replace(table, offsets={**table.offsets, "stops": Fraction(1)}),
    "moves": lambda table: replace(table, moves=7),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_class_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then prices prove nothing beyond counting, without a traceback, and the check says why."""
    result = clusterplan.solve(INSTANCE)
    values = [record.value for record in result.objectives]
    right = ConsolidationFormulation(INSTANCE)
    known = [value for value in values if value is not None]
    assert right.certified_bounds(result.certificate, known)[0] == known[0] != right.elementary_bounds()[0]
    assert right.shared_tables() is None

    def wrong(data: ClusterData) -> ClassTable:
        return WRONG[what](classes_of(data))

    monkeypatch.setattr(build_classes, "classes_of", wrong)
    formulation = ConsolidationFormulation(INSTANCE)
    bounds = formulation.certified_bounds(result.certificate, known)
    assert bounds == formulation.certified_bounds(None, known)
    assert "prices prove nothing" in (formulation.shared_tables() or "")
    assert formulation.certificate_fault(result.certificate) is not None


def test_a_wrong_fewest_servers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check derives m_j once more."""
    certificate = clusterplan.solve(INSTANCE).certificate
    fewest = ClusterData.fewest
    monkeypatch.setattr(ClusterData, "fewest", lambda self, job: (fewest(self, job) or 0) + 1)
    formulation = ConsolidationFormulation(INSTANCE)
    assert formulation.certified_bounds(certificate) == formulation.elementary_bounds()
    assert "the fewest servers of job" in (formulation.shared_tables() or "")


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_both_agree(groups: int) -> None:
    """With one group of tasks and with several, in fractions and in integers."""
    rng = random.Random(groups)
    for _ in range(150):
        step = rng.choice([1, 0.1, 0.3])
        servers = [
            Server(name=f"n{n}", capacity={"gpu": rng.randint(0, 6) * step, "cpu": rng.randint(0, 6)})
            for n in range(rng.randint(1, 5))
        ]
        job = [
            Group(
                name=f"g{g}",
                tasks=rng.randint(1, 4),
                demand={"gpu": rng.randint(0, 3) * step, "cpu": rng.randint(0, 3)},
            )
            for g in range(groups)
        ]
        listed = Counter(tuple(sorted(server.capacity.items())) for server in servers)
        assert derive_fewest_servers(job, listed) == fewest_servers(job, Shapes(listed))


def test_servers_that_hold_most_come_first() -> None:
    """Seven tasks are four on the large server and three on one more."""
    servers = {(("gpu", 4.0),): 1, (("gpu", 3.0),): 2, (("gpu", 0.0),): 5}
    assert derive_fewest_servers([Group(tasks=7, demand={"gpu": 1})], servers) == 2
    assert derive_fewest_servers([Group(tasks=11, demand={"gpu": 1})], servers) is None


def test_too_much_work_is_refused() -> None:
    """The facade then says that m_j was not derived again."""
    job = [Group(name=f"g{g}", tasks=100, demand={"gpu": 1}) for g in range(3)]
    with pytest.raises(OverflowError):
        derive_fewest_servers(job, {(("gpu", 8.0),): 1000})


def test_servers_that_a_job_has_no_tasks_for_are_no_work() -> None:
    """Of a thousand million equal ones, four hold all tasks there are."""
    job = [Group(name=f"g{g}", tasks=2, demand={"gpu": 1}) for g in range(2)]
    assert derive_fewest_servers(job, {(("gpu", 1.0),): 10**9}) == 4
