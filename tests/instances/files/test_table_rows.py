"""Cells of a row as fields."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.files.limits import DEEPEST_COLUMN, MOST_COLUMNS
from clusterplan.instances.files.table_rows import check_header, nested_row


def test_names_are_paths() -> None:
    """Whole numbers from 0 without a gap are a list; others stay keys."""
    cells = [(1, ["a", "b"], 1), (2, ["c", "0"], 2), (3, ["c", "1"], 3), (4, ["d", "1"], 4)]
    assert nested_row(cells, "t") == {"a": {"b": 1}, "c": [2, 3], "d": {"1": 4}}
    assert nested_row(cells[1:3], "t", lists=False) == {"c": {"0": 2, "1": 3}}


def test_two_columns_for_one_place() -> None:
    """The second one is named."""
    with pytest.raises(InstanceError, match="line 1: column 2 clashes"):
        nested_row([(1, ["a"], 1), (2, ["a", "b"], 2)], "t")


@pytest.mark.parametrize(
    "header", [["a", "a"], [""], ["a" + ".a" * (DEEPEST_COLUMN + 1)], list(map(str, range(MOST_COLUMNS + 1)))]
)
def test_headers_that_are_refused(header: list[str]) -> None:
    """Repeated, empty, too deep, too many."""
    with pytest.raises(InstanceError):
        check_header(header, "t")
    check_header(["a", "a.b"], "t")
