"""Figures, gaps and cells as people and spreadsheets read them."""

from __future__ import annotations

import csv
import io

import pytest

from clusterplan.planner.output.text import csv_line, figure, percent, safe_cell


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0"),
        (1234.0, "1,234"),
        (0.5, "0.500000"),
        (1234.5678, "1,234.568"),
        (1e-9, "1e-09"),
    ],
)
def test_numbers_have_seven_digits_or_are_whole(value: float | None, text: str) -> None:
    assert figure(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.0, "0 %"), (0.0123, "1.23 %"), (1e-6, "1e-04 %")]
)
def test_small_gaps_are_not_rounded_to_none(value: float | None, text: str) -> None:
    assert percent(value) == text


@pytest.mark.parametrize("cell", ["a,b", 'say "x"', "two\nlines", "two\r\nlines", "", "ä"])
def test_a_line_of_csv_is_read_as_it_was_written(cell: str) -> None:
    line = csv_line([cell, 1, None])
    assert list(csv.reader(io.StringIO(line, newline=""))) == [[cell, "1", ""]]
    assert not line.endswith("\n")


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@x"])
def test_no_spreadsheet_takes_a_cell_for_a_formula(cell: str) -> None:
    assert safe_cell(cell) == f"'{cell}"
    assert safe_cell(-1.5) == -1.5
