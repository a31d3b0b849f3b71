"""Menus of configurations, of rigid and of malleable jobs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.common.faults import validated
from clusterplan.instances.scheduling.configurations import (
    MAX_OF_A_JOB,
    as_requested,
    configuration_faults,
    configurations_of,
)
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.instances.scheduling.jobs import JobTable

RING = {"model": "ring_allreduce", "theta": [1, 0, 0, 0], "batch": 8}
"""On w workers a step takes 8/w seconds."""
SERVED = {"model": "ps_async", "theta": [0, 1, 0, 0]}
"""A step takes 1/p seconds, whatever the workers."""
MEASURED = {"model": "table", "rows": [{"workers": 2, "steps_per_s": 3}, {"workers": 1, "steps_per_s": 2}]}


def instance(*jobs: dict[str, Any], **others: Any) -> SchedulingInstance:
    """Return malleable jobs on four GPUs and two CPUs."""
    rows = [{"name": f"j{k}", "work": 10, **job} for k, job in enumerate(jobs)]
    document = {"name": "t", "resources": {"gpu": 4, "cpu": 2}, "jobs": rows, **others}
    return validated(SchedulingInstance, document, "t")


def variants(*speeds: dict[str, Any]) -> dict[str, Any]:
    """Return a job with a variant for each speed, on GPUs; parameter servers take a CPU."""
    found = []
    for k, speed in enumerate(speeds):
        variant: dict[str, Any] = {"name": f"v{k}", "worker_demand": {"gpu": 1}, "speed": speed}
        if speed["model"] != "table":
            variant["workers"] = {"max": 100_000}
        if speed["model"] == "ps_async":
            variant |= {"ps_demand": {"cpu": 1}, "ps": {"max": 3}}
        found.append(variant)
    return {"variants": found}


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
    job = {"demand": {"gpu": 1}, "speeds": {4: 3.0, 1: 1.0, 8: 5.0}}
    assert instance({**job, "requested": 1}).menus().requested.tolist() == [0]
    there = instance(job)
    menus, table = there.menus(), there.table()
    assert list(menus.labels) == ["1", "4"]
    assert menus.usage.tolist() == [[1, 0], [4, 0]]
    assert menus.speed.tolist() == [1, 3]
    assert menus.requested.tolist() == [1]
    assert (table.tasks.tolist(), table.demand.tolist()) == ([4], [[1, 0]])
    assert table.duration_s.tolist() == [10 / 3]
    assert menus.best_speed.tolist() == [3]


def test_variants_are_those_of_an_allocation() -> None:
    """Formulas and tables, workers and parameter servers, each with its name."""
    there = instance(variants(MEASURED, RING, SERVED) | {"requested": "v0:1"})
    menus = there.menus()
    assert list(menus.labels[:6]) == ["v0:1", "v0:2", "v1:1", "v1:2", "v1:3", "v1:4"]
    assert list(menus.labels[6:]) == [f"v2:{p}+{w}" for w in (1, 2, 3, 4) for p in (1, 2)]
    assert menus.speed[:6].tolist() == [2, 3, 1 / 8, 2 / 8, 3 / 8, 4 / 8]
    assert menus.speed[6:].tolist() == [1, 2] * 4
    assert menus.usage[7].tolist() == [1, 2]
    assert there.table().duration_s.tolist() == [5]


def test_rows_are_found_by_name() -> None:
    """A rigid job has none but the empty one."""
    rigid = {"work": None, "duration_s": 3, "demand": {"gpu": 1}}
    menus = instance({"demand": {"gpu": 1}, "speeds": {1: 1, 2: 1.5}}, rigid).menus()
    found = menus.rows(np.array([0, 0, 0, 1, 1]), ["2", "1", "3", "", "1"])
    assert found.tolist() == [1, 0, -1, 2, -1]
    assert menus.owner.tolist() == [0, 0, 1]
    assert menus.work.tolist() == [10, 3]


def test_what_fits_at_one_time_is_allowed() -> None:
    """The cluster grows at 5 s by what the configuration needs."""
    job = {"demand": {"gpu": 1}, "speeds": {1: 1.0, 6: 2.0}}
    assert list(instance(job).menus().labels) == ["1"]
    grows = instance(job, events=[{"at_s": 5, "change": {"gpu": 2}}])
    assert list(grows.menus().labels) == ["1", "6"]


@pytest.mark.parametrize(
    ("job", "fault"),
    [
        ({"demand": {"gpu": 1}}, "jobs[0].work: needs one of speeds (of so many tasks) and variants"),
        ({"speeds": {1: 1}}, "jobs[0].demand: is missing; it must be given"),
        ({"demand": {"gpu": 1}, "speeds": {1: 0}}, "jobs[0].speeds.1: is 0, but must be greater than 0"),
        (
            {"demand": {"gpu": 1}, "speeds": {1: 1}, "duration_s": 3},
            "jobs[0].duration_s: is given beside work; a job is rigid or malleable, so leave one of them out",
        ),
        (
            {"demand": {"gpu": 1}, "speeds": {1: 1}, "tasks": 2},
            "jobs[0].tasks: is 2, but a malleable job has no fixed number of tasks; name it in requested",
        ),
        (
            {"demand": {"gpu": 1}, "speeds": {1: 1, 2: 2}, "requested": "3"},
            "jobs[0].requested: is '3'; the configurations that fit are: 1, 2",
        ),
        (
            {"demand": {"gpu": 5}, "speeds": {1: 1}},
            "jobs[0]: 'j0' has no configuration that ever fits in the cluster",
        ),
        (
            {"demand": {"gpu": 0}, "speeds": {1: 1}},
            "jobs[0]: asks for nothing as 1; at least one amount must be above 0",
        ),
        ({"demand": {"tpu": 1}, "speeds": {1: 1}}, "jobs[0].demand.tpu: unknown resource 'tpu'; "),
        (
            {"work": None, "duration_s": 3, "demand": {"gpu": 1}, "requested": "1"},
            "jobs[0].requested: is given",
        ),
        ({**variants(RING), "demand": {"gpu": 1}}, "jobs[0].demand: is given beside variants, which have "),
    ],
)
def test_a_wrong_menu_is_refused_in_one_line(job: dict[str, Any], fault: str) -> None:
    """With the job and what is allowed."""
    with pytest.raises(InstanceError) as caught:
        instance(job)
    assert str(caught.value).startswith(f"t: {fault}")
    assert "\n" not in str(caught.value)


def test_ranges_that_are_too_wide_are_refused() -> None:
    """A job with a million configurations is a mistake."""
    wide = variants(SERVED)
    wide["variants"][0] |= {"ps": {"max": 100}, "worker_demand": {}, "ps_demand": {}}
    with pytest.raises(InstanceError, match=f"at most {MAX_OF_A_JOB:,} are allowed; narrow the ranges"):
        instance(wide)


def test_faults_of_a_table_name_its_jobs() -> None:
    """As those of a document."""
    there = generate_scheduling(3, 4, seed=2, malleable=True)
    assert isinstance(there.jobs, JobTable)
    choices = configurations_of(there.jobs, np.array([[0.5]]))
    assert [path for path, _ in configuration_faults(there.jobs, choices)] == [
        "jobs[0]",
        "jobs[1]",
        "jobs[2]",
    ]


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


def test_a_configuration_of_a_variant_runs_on_one_server() -> None:
    """Those that only all servers together hold are left out; a server that gets larger later counts."""
    servers = [
        {"name": "small", "count": 8, "capacity": {"gpu": 2}},
        {"name": "large", "capacity": {"gpu": 3}},
    ]
    on_servers = {"resources": {}, "servers": servers}
    job = variants(RING)
    assert instance(job, **on_servers).menus().labels == ["v0:1", "v0:2", "v0:3"]
    assert instance(job, **on_servers).table().demand.tolist() == [[3]]
    later = [{"at_s": 5, "server": "large", "change": {"gpu": 1}}]
    assert instance(job, **on_servers, events=later).menus().labels[-1] == "v0:4"
    wide = {"demand": {"gpu": 1}, "speeds": {19: 3.0}}
    assert instance(wide, **on_servers).menus().labels == ["19"]
    fitting = r"the configurations that fit on one server, as those of variants must, are: v0:1, v0:2, v0:3"
    with pytest.raises(InstanceError, match=rf"jobs\[0\]\.requested: is 'v0:4'; {fitting}$"):
        instance({**job, "requested": "v0:4"}, **on_servers)
    job["variants"][0] = {**job["variants"][0], "workers": {"min": 4, "max": 5}}
    with pytest.raises(InstanceError, match="'j0' has no configuration that ever fits on one server"):
        instance(job, **on_servers)
