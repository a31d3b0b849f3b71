"""Menus of configurations, of rigid and of malleable jobs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml
from malleable_instances import described

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.scheduling.configurations import (
    as_requested,
    configuration_faults,
    configurations_of,
)
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.instances.scheduling.jobs import JobTable

POOL = "resources: {gpu: 4, cpu: 2}"
SERVERS = "servers: [{name: small, count: 8, capacity: {gpu: 2}}, {name: large, capacity: {gpu: 3}}]"
COUNTED = "demand: {gpu: 1}, speeds: {4: 3.0, 1: 1.0, 8: 5.0}"
# On w workers a step takes 8/w seconds.
RING = """
variants:
- name: v0
  worker_demand: {gpu: 1}
  workers: {max: 100_000}
  speed: {model: ring_allreduce, theta: [1, 0, 0, 0], batch: 8}
"""
# A step takes 1/p seconds, whatever the workers; parameter servers take a CPU.
SERVED = """
variants:
- name: v0
  worker_demand: {gpu: 1}
  workers: {max: 100_000}
  ps_demand: {cpu: 1}
  ps: {max: 3}
  speed: {model: ps_async, theta: [0, 1, 0, 0]}
"""
MEASURED = """
variants:
- name: v0
  worker_demand: {gpu: 1}
  speed: {model: table, rows: [{workers: 2, steps_per_s: 3}, {workers: 1, steps_per_s: 2}]}
"""


def instance(job: str, cluster: str = POOL, **others: Any) -> SchedulingInstance:
    """Return a malleable job with these fields, on four GPUs and two CPUs."""
    fields = yaml.safe_load(job if "\n" in job else f"{{{job}}}")
    return described(cluster, jobs=[{"name": "j0", "work": 10, **fields, **others}])


def test_a_rigid_job_has_one_configuration() -> None:
    """Without a name, at speed 1."""
    there = generate_scheduling(20, 8, seed=3)
    menus, table = there.menus(), there.table()
    assert menus.first.tolist() == list(range(21))
    assert np.array_equal(menus.usage, table.total_demand)
    assert set(menus.speed.tolist()) == {1.0}
    assert np.array_equal(menus.work, table.duration_s)
    assert set(menus.labels) == {""}
    assert as_requested(table, menus) is table


def test_speeds_of_numbers_of_tasks() -> None:
    """What never fits in the cluster is left out; the fastest is requested."""
    assert instance(f"{COUNTED}, requested: 1").menus().requested.tolist() == [0]
    there = instance(COUNTED)
    menus, table = there.menus(), there.table()
    assert (list(menus.labels), menus.tasks.tolist()) == (["1", "4"], [1, 4])
    assert (menus.usage.tolist(), menus.speed.tolist()) == ([[1, 0], [4, 0]], [1, 3])
    assert (menus.requested.tolist(), menus.best_speed.tolist()) == ([1], [3])
    assert (table.tasks.tolist(), table.demand.tolist()) == ([4], [[1, 0]])
    assert table.duration_s.tolist() == [10 / 3]


def test_variants_are_those_of_an_allocation() -> None:
    """Formulas and tables, workers and parameter servers, each with its name."""
    listed = [yaml.safe_load(text)["variants"][0] for text in (MEASURED, RING, SERVED)]
    variants = [{**variant, "name": f"v{k}"} for k, variant in enumerate(listed)]
    there = instance("requested: 'v0:1'", variants=variants)
    menus = there.menus()
    assert list(menus.labels[:6]) == ["v0:1", "v0:2", "v1:1", "v1:2", "v1:3", "v1:4"]
    assert list(menus.labels[6:]) == [f"v2:{p}+{w}" for w in (1, 2, 3, 4) for p in (1, 2)]
    assert menus.speed[:6].tolist() == [2, 3, 1 / 8, 2 / 8, 3 / 8, 4 / 8]
    assert menus.speed[6:].tolist() == [1, 2] * 4
    assert menus.usage[7].tolist() == [1, 2]
    assert (there.table().duration_s.tolist(), set(menus.tasks.tolist())) == ([5], {1})


def test_rows_are_found_by_name() -> None:
    """A rigid job has none but the empty one."""
    menus = described(
        POOL,
        """
        jobs:
        - {name: a, work: 10, demand: {gpu: 1}, speeds: {1: 1, 2: 1.5}}
        - {name: b, duration_s: 3, demand: {gpu: 1}}
        """,
    ).menus()
    found = menus.rows(np.array([0, 0, 0, 1, 1]), ["2", "1", "3", "", "1"])
    assert found.tolist() == [1, 0, -1, 2, -1]
    assert (menus.owner.tolist(), menus.work.tolist()) == ([0, 0, 1], [10, 3])


@pytest.mark.parametrize(
    ("job", "cluster", "labels"),
    [
        ("demand: {gpu: 1}, speeds: {1: 1.0, 6: 2.0}", POOL, ["1"]),
        # What fits at one time is allowed: the cluster grows by what the configuration needs.
        (
            "demand: {gpu: 1}, speeds: {1: 1.0, 6: 2.0}",
            f"{POOL}\nevents: [{{at_s: 5, change: {{gpu: 2}}}}]",
            ["1", "6"],
        ),
        # A configuration of a variant runs on one server; one that gets larger later counts.
        (RING, SERVERS, ["v0:1", "v0:2", "v0:3"]),
        (
            RING,
            f"{SERVERS}\nevents: [{{at_s: 5, server: large, change: {{gpu: 1}}}}]",
            ["v0:1", "v0:2", "v0:3", "v0:4"],
        ),
        ("demand: {gpu: 1}, speeds: {19: 3.0}", SERVERS, ["19"]),
    ],
)
def test_what_fits_is_allowed(job: str, cluster: str, labels: list[str]) -> None:
    """The fastest is requested, of which a table holds the demand."""
    there = instance(job, cluster)
    assert list(there.menus().labels) == labels
    assert there.table().total_demand[0, 0] == int(labels[-1].removeprefix("v0:"))


@pytest.mark.parametrize(
    ("job", "cluster", "fault"),
    [
        ("demand: {gpu: 1}", POOL, "jobs[0].work: needs one of speeds (of so many tasks) and variants"),
        ("speeds: {1: 1}", POOL, "jobs[0].demand: is missing; it must be given"),
        ("demand: {gpu: 1}, speeds: {1: 0}", POOL, "jobs[0].speeds.1: is 0, but must be greater than 0"),
        (
            "demand: {gpu: 1}, speeds: {1: 1}, duration_s: 3",
            POOL,
            "jobs[0].duration_s: is given beside work; a job is rigid or malleable, so leave one of them out",
        ),
        (
            "demand: {gpu: 1}, speeds: {1: 1}, tasks: 2",
            POOL,
            "jobs[0].tasks: is 2, but a malleable job has no fixed number of tasks; name it in requested",
        ),
        (
            "demand: {gpu: 1}, speeds: {1: 1, 2: 2}, requested: '3'",
            POOL,
            "jobs[0].requested: is '3'; the configurations that fit are: 1, 2",
        ),
        (
            "demand: {gpu: 5}, speeds: {1: 1}",
            POOL,
            "jobs[0]: 'j0' has no configuration that ever fits in the cluster",
        ),
        (
            "demand: {gpu: 0}, speeds: {1: 1}",
            POOL,
            "jobs[0]: asks for nothing as 1; at least one amount must be above 0",
        ),
        ("demand: {tpu: 1}, speeds: {1: 1}", POOL, "jobs[0].demand.tpu: unknown resource 'tpu'; "),
        (
            "work: null, duration_s: 3, demand: {gpu: 1}, requested: '1'",
            POOL,
            "jobs[0].requested: is given",
        ),
        (f"{RING}demand: {{gpu: 1}}\n", POOL, "jobs[0].demand: is given beside variants, which have "),
        (
            f"{RING}requested: 'v0:4'\n",
            SERVERS,
            "jobs[0].requested: is 'v0:4'; the configurations that fit on one server, "
            "as those of variants must, are: v0:1, v0:2, v0:3",
        ),
        (
            RING.replace("max: 100_000", "min: 4, max: 5"),
            SERVERS,
            "jobs[0]: 'j0' has no configuration that ever fits on one server",
        ),
        # A job with a million configurations is a mistake.
        (
            SERVED.replace("max: 3", "max: 100").replace("gpu: 1", "").replace("cpu: 1", ""),
            POOL,
            "jobs[0].variants: are 10,000,000 configurations, "
            "and at most 10,000 are allowed; narrow the ranges",
        ),
    ],
)
def test_a_wrong_menu_is_refused_in_one_line(job: str, cluster: str, fault: str) -> None:
    """With the job and what is allowed."""
    with pytest.raises(InstanceError) as caught:
        instance(job, cluster)
    assert str(caught.value).startswith(f"t: {fault}")
    assert "\n" not in str(caught.value)


def test_faults_of_a_table_name_its_jobs() -> None:
    """As those of a document."""
    there = generate_scheduling(3, 4, seed=2, malleable=True)
    assert isinstance(there.jobs, JobTable)
    half_a_gpu = np.array([[0.5]])
    choices = configurations_of(there.jobs, half_a_gpu, half_a_gpu)
    paths = [path for path, _ in configuration_faults(there.jobs, choices)]
    assert paths == ["jobs[0]", "jobs[1]", "jobs[2]"]


def test_columns_and_objects_hash_alike() -> None:
    """And every figure of a menu counts."""
    there = generate_scheduling(30, 8, seed=2, malleable=True)
    again = SchedulingInstance.model_validate(there.document())
    assert there.sha256() == again.sha256()
    changed = there.document()
    changed["jobs"][4]["speeds"]["1"] = 0.9
    assert SchedulingInstance.model_validate(changed).sha256() != there.sha256()
    frame = there.to_frame()
    assert frame["requested"].tolist() == [str(width) for width in there.table().tasks.tolist()]
