"""Entries that are left out: counted, the first named with what is wrong, and refused where all are wrong."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.common.fields import Count, Model, Name
from clusterplan.instances.importers.rejected_entries import MOST_WRONG, LeftOut, valid_entries


class Row(Model):
    name: Name
    size: Count


def read(rows: list[dict[str, object]], left_out: LeftOut) -> list[str]:
    entries = ((f"rows[{index}]", str(row.get("name")), row) for index, row in enumerate(rows))
    return [row.name for row in valid_entries(Row, entries, "file", left_out, lambda row: row.name)]


def test_valid_entries_go_on_and_the_others_are_counted() -> None:
    """Only the first three are named, with the first thing that is wrong with each."""
    left_out = LeftOut("pod")
    wrong = [{"name": f"w{number}", "size": -number} for number in range(1, 6)]
    assert read([{"name": "a", "size": 1}, *wrong, {"name": "b", "size": 2}], left_out) == ["a", "b"]
    assert left_out.data == wrong
    assert list(left_out.sentences()) == [
        "5 pods are invalid and left out: w1 (size is -1, but must be at least 0), "
        "w2 (size is -2, but must be at least 0), w3 (size is -3, but must be at least 0), …."
    ]


def test_the_second_of_a_name_is_left_out() -> None:
    """The first is kept."""
    left_out = LeftOut("pod")
    assert read([{"name": "a", "size": 1}, {"name": "a", "size": 2}], left_out) == ["a"]
    assert list(left_out.sentences()) == ["1 pod is invalid and left out: a (is listed twice)."]


def test_names_cannot_command_a_terminal() -> None:
    """What is not printable is written as an escape, for the sentence goes into the instance."""
    left_out = LeftOut("pod")
    assert read([{"name": "a", "size": 1}, {"name": "b\x1b", "size": -1}], left_out) == ["a"]
    (sentence,) = left_out.sentences()
    assert "b\\x1b (name is blank" in sentence


def test_entries_without_a_key_may_be_alike() -> None:
    """Each is one."""
    left_out = LeftOut("job")
    rows: list[tuple[str, str, dict[str, object]]] = [("rows[0]", "a", {"name": "a", "size": 1})] * 2
    assert len(list(valid_entries(Row, rows, "file", left_out))) == 2
    assert left_out.data == []


def test_nothing_is_said_where_nothing_is_left_out() -> None:
    """A list that is right has no sentence."""
    left_out = LeftOut("pod")
    assert read([{"name": "a", "size": 1}], left_out) == ["a"]
    assert list(left_out.sentences()) == []


def test_a_list_without_valid_entries_is_refused() -> None:
    """The error names the entries by their path."""
    with pytest.raises(InstanceError, match=r"^file: rows\[0\].size: is -1") as caught:
        read([{"name": "a", "size": -1}, {"size": 1}], LeftOut("pod"))
    assert "file: rows[1].name: is missing" in str(caught.value)


def test_a_list_that_begins_with_a_thousand_wrong_entries_is_refused() -> None:
    """It is another file than was asked for, and not read to its end."""
    wrong: list[dict[str, object]] = [{"name": "w"}] * MOST_WRONG
    assert read([*wrong[1:], {"name": "a", "size": 1}], LeftOut("pod")) == ["a"]
    with pytest.raises(InstanceError, match=r"900 more faults"):
        read([*wrong, {"name": "a", "size": 1}], LeftOut("pod"))
