"""One plain line for each thing that pydantic finds wrong."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from clusterplan.instances.common.errors import MOST_FAULTS, InstanceError, refuse_faults
from clusterplan.instances.common.faults import validated, validated_rows
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


def test_what_is_right_is_returned() -> None:
    """The data become the model."""
    assert validated(Shelf, {"boxes": [{"name": "a"}]}, "doc") == Shelf(boxes=(Box(name="a"),))


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
        list(validated_rows(Box, ((row, {}) for row in range(MOST_FAULTS + 50)), "t", "rows[{}]"))
    assert [caught.value.faults[0].path, caught.value.faults[-1].path] == ["rows[0].name", "rows[99].name"]
    assert caught.value.stopped


def test_complaints_become_one_error() -> None:
    """One fault each, and nothing without any."""
    refuse_faults("t", [])
    with pytest.raises(InstanceError, match=r"^t: a: is wrong\nt: b: too$"):
        refuse_faults("t", [("a", "is wrong"), ("b", "too")])
