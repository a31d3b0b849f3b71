"""Names that may be others, misspelt, and those that are names of their own."""

from __future__ import annotations

from typing import Any

import pytest

import clusterplan
from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.common.misspelt import MOST_PAIRS, misspelt, seem_the_same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("gpus", "gpu"),
        ("GPU", "gpu"),
        ("memory-gib", "memory_gib"),
        ("MemoryGiB", "memory_gib"),
        ("memery", "memory"),
        ("nvidia.com/gpus", "nvidia.com/gpu"),
        ("cores", "core"),
        ("A100", "a100"),
    ],
)
def test_a_letter_or_the_case_is_a_misspelling(one: str, other: str) -> None:
    assert seem_the_same(one, other)
    assert seem_the_same(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cpu", "gpu"),
        ("ram", "vram"),
        ("gpu_a100", "gpu_h100"),
        ("nvidia.com/gpu", "amd.com/gpu"),
        ("nvidia.com/gpu", "nvidia.com/vgpu"),
        ("nvidia.com/gpu", "nvidia.com/gpu.shared"),
        ("nvidia.com/gpu", "nvidia.com/gpumem"),
        ("nvidia.com/mig-1g.5gb", "nvidia.com/mig-2g.5gb"),
        ("rdma/hca_a", "rdma/hca_b"),
        ("hdd", "ssd"),
        ("gpu", ""),
        ("-", "gpu"),
    ],
)
def test_names_of_their_own(one: str, other: str) -> None:
    assert not seem_the_same(one, other)
    assert not seem_the_same(other, one)


def test_only_what_nobody_asks_for_is_misspelt() -> None:
    assert list(misspelt(["gpus", "gpu", "cpu"], ["gpu"])) == [("gpus", "gpu")]
    assert not list(misspelt(["gpus", "gpu"], ["gpus", "gpu"]))
    assert not list(misspelt([f"r{k}s" for k in range(MOST_PAIRS)], ["rs", "r"]))


def document(**second: Any) -> dict[str, Any]:
    """Return two servers, of which the first has what the job asks for."""
    return {
        "schema_version": 1,
        "kind": "consolidation",
        "name": "two",
        "servers": [{"name": "s", "capacity": {"gpu": 4}}, {"name": "t", **second}],
        "jobs": [{"name": "a", "tasks": 1, "task_demand": {"gpu": 4}}],
    }


@pytest.mark.parametrize(
    ("second", "path"),
    [
        ({"capacity": {"gpus": 4}}, "capacity.gpus"),
        ({"capacity": {"cpu": 4}, "devices": {"gpus": {"count": 4}}}, "devices.gpus"),
    ],
)
def test_a_server_that_nobody_could_use_is_refused(second: dict[str, Any], path: str) -> None:
    fault = (
        rf"servers\[1\]\.{path}: no job asks for 'gpus'; jobs ask for 'gpu', of which this server has none; "
        r"did you mean 'gpu'\? If not, leave 'gpus' out"
    )
    with pytest.raises(InstanceError, match=fault):
        clusterplan.parse_instance(document(**second))


@pytest.mark.parametrize(
    "capacity", [{"gpu": 4, "gpus": 4}, {"gpu": 2, "cpu": 8, "memory_gib": 64}, {"cpu": 4}, {"gpu_mem": 4}]
)
def test_servers_have_what_no_job_asks_for(capacity: dict[str, float]) -> None:
    clusterplan.parse_instance(document(capacity=capacity))


@pytest.mark.parametrize(
    "asks",
    [
        {"demand": {"gpu": 4}, "duration_s": 1},
        {"demand": {"gpu": 2}, "work": 1, "speeds": {"2": 1}},
    ],
)
def test_a_server_of_a_schedule_is_refused_too(asks: dict[str, Any]) -> None:
    """Where jobs run in time, whether they are rigid or not."""
    fault = (
        r"servers\[1\]\.capacity\.gpus: no job asks for 'gpus'; jobs ask for 'gpu', .* did you mean 'gpu'\?"
    )
    schedule = document(capacity={"gpus": 4}) | {"kind": "scheduling", "jobs": [{"name": "a", **asks}]}
    with pytest.raises(InstanceError, match=fault):
        clusterplan.parse_instance(schedule)
    other = document(capacity={"cpu": 4}) | {"kind": "scheduling", "jobs": [{"name": "a", **asks}]}
    assert clusterplan.parse_instance(other)
