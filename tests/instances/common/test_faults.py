"""One plain line for each thing that pydantic finds wrong.

Names that may be others, misspelt, and those that are names of their own.
"""

from __future__ import annotations

from typing import Any, Literal

import pytest

import clusterplan
from clusterplan.instances.common.errors import MAX_FAULTS, InstanceError, refuse_faults
from clusterplan.instances.common.faults import (
    MAX_PAIRS,
    misspelt_names,
    similar_names,
    validated,
    validated_rows,
)
from clusterplan.instances.common.fields import Count, Many, Model, Name, Positive


class Box(Model):
    """A box of balls."""

    name: Name
    colour: Literal["red", "blue"] = "red"
    balls: Many[Count] = ()
    weight_kg: Positive | None = None


class Shelf(Model):
    """Boxes."""

    boxes: Many[Box]


@pytest.mark.parametrize(
    ("box", "line"),
    [
        ({}, "doc: boxes[0].name: is missing; it must be given"),
        ({"name": "a", "colour": "green"}, "doc: boxes[0].colour: is 'green'; allowed: 'red' or 'blue'"),
        ({"name": "a", "balls": [1, -2]}, "doc: boxes[0].balls[1]: is -2, but must be at least 0"),
        ({"name": "a", "wieght_kg": 1}, "doc: boxes[0].wieght_kg: unknown key; did you mean 'weight_kg'?"),
        ("a", "doc: boxes[0]: is 'a', which is not a mapping of fields"),
        ({"name": ""}, "doc: boxes[0].name: is empty text; it needs at least one character"),
    ],
)
def test_one_line_a_fault(box: Any, line: str) -> None:
    """Where it is, what it is, and what is allowed."""
    with pytest.raises(InstanceError) as refused:
        validated(Shelf, {"boxes": [box]}, "doc")
    (found,) = str(refused.value).split("\n")
    assert found.startswith(line)


def test_of_many_faults_a_hundred_are_named() -> None:
    """The text says that there may be more."""
    with pytest.raises(InstanceError) as refused:
        validated(Shelf, {"boxes": [{}] * 500}, "doc")
    assert len(refused.value.faults) == 100
    assert refused.value.stopped


def test_rows_of_a_table() -> None:
    """Good rows are yielded with their numbers; faults come at the end and name the lines."""
    table = [(2, {"name": "a", "size": "1"}), (4, {"name": ""}), (5, {"name": "c"})]
    assert [(line, box.name) for line, box in validated_rows(Box, table[::2], "t")] == [(2, "a"), (5, "c")]
    rows = validated_rows(Box, table, "t")
    assert [next(rows)[0], next(rows)[0]] == [2, 5]
    with pytest.raises(InstanceError) as caught:
        next(rows)
    assert str(caught.value) == "t: line 4: name: is empty text; it needs at least one character"


def test_rows_that_are_called_otherwise() -> None:
    """The place of a row is a path, too; reading ends after a hundred faults."""
    with pytest.raises(InstanceError) as caught:
        list(validated_rows(Box, ((row, {}) for row in range(MAX_FAULTS + 50)), "t", "rows[{}]"))
    assert [caught.value.faults[0].path, caught.value.faults[-1].path] == ["rows[0].name", "rows[99].name"]
    assert caught.value.stopped


def test_complaints_become_one_error() -> None:
    """One fault each, and nothing without any."""
    refuse_faults("t", [])
    with pytest.raises(InstanceError, match=r"^t: a: is wrong\nt: b: too$"):
        refuse_faults("t", [("a", "is wrong"), ("b", "too")])


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
    assert similar_names(one, other)
    assert similar_names(other, one)


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
    assert not similar_names(one, other)
    assert not similar_names(other, one)


def test_only_what_nobody_asks_for_is_misspelt() -> None:
    assert list(misspelt_names(["gpus", "gpu", "cpu"], ["gpu"])) == [("gpus", "gpu")]
    assert not list(misspelt_names(["gpus", "gpu"], ["gpus", "gpu"]))
    assert not list(misspelt_names([f"r{k}s" for k in range(MAX_PAIRS)], ["rs", "r"]))


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
