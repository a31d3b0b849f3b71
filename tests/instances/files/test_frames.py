"""Tables of pandas as rows of documents."""

from __future__ import annotations

import pandas as pd
import pytest
from sample_documents import ALLOCATION, CONSOLIDATION

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.documents import parse_instance
from clusterplan.instances.files.frames import frame_rows, is_frame


def test_columns_are_paths_and_empty_cells_are_not_given() -> None:
    """As in a CSV file; numbers stay numbers, whole ones too."""
    frame = pd.DataFrame({"name": ["a", "b"], "x.y": [1, 2], "z": [None, 0.5], "l.0": ["p", None]})
    assert is_frame(frame)
    assert frame_rows(frame, "t") == [
        {"name": "a", "x": {"y": 1}, "l": ["p"]},
        {"name": "b", "x": {"y": 2}, "z": 0.5},
    ]


def test_missing_values_of_every_sort_are_not_given() -> None:
    frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "t": pd.to_datetime(["2020-01-01", None])})
    assert [sorted(row) for row in frame_rows(frame, "t")] == [["a", "t"], []]


def test_other_values_are_left_as_they_are() -> None:
    rows = [{"name": "a"}]
    assert frame_rows(rows, "t") is rows
    assert not is_frame(rows)


def test_cells_may_be_mappings() -> None:
    assert frame_rows(pd.DataFrame({"d": [{"gpu": 1}]}), "t") == [{"d": {"gpu": 1}}]


def test_clashing_columns_are_named() -> None:
    frame = pd.DataFrame([[1, 2]], columns=["a", "a.b"])
    with pytest.raises(InstanceError, match=r"t: the table: column 2 clashes"):
        frame_rows(frame, "t")
    with pytest.raises(InstanceError, match="two of the same name"):
        frame_rows(pd.DataFrame([[1, 2]], columns=["a", "a"]), "t")


def test_a_table_may_stand_for_any_list() -> None:
    """In a document and in `replace`, which validate it."""
    servers = pd.DataFrame({"name": ["n-0", "n-1"], "capacity.gpu": [4, 4], "capacity.cpu": [8, 8]})
    same = parse_instance({**CONSOLIDATION, "servers": servers})
    assert [server.capacity for server in same.servers] == [{"gpu": 4.0, "cpu": 8.0}] * 2  # type: ignore[attr-defined]
    instance = parse_instance(ALLOCATION)
    with pytest.raises(InstanceError, match=r"jobs\[0\].weight: is -1"):
        instance.replace(jobs=pd.DataFrame({"name": ["x"], "weight": [-1]}))
