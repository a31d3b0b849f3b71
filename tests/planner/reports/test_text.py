"""Figures, gaps and cells as people and spreadsheets read them.

Markdown shows names as they are, whoever chose them.
"""

from __future__ import annotations

import csv
import io

import pytest
from sample_documents import STAGING

import clusterplan
from clusterplan.planner.reports.result_page import frontier_markdown
from clusterplan.planner.reports.text import csv_line, escaped, figure, percent, safe_cell, table_lines


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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a_b", r"a\_b"),
        ("a|b", r"a\|b"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("- x", r"\- x"),
        ("1. x", r"1\. x"),
        ("a\n  b", "a b"),
        ("`[x](y)`", r"\`\[x\](y)\`"),
        ("12.5", "12.5"),
    ],
)
def test_text_is_shown_literally_in_one_line(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_tables_align_numbers_and_escape_the_rest() -> None:
    lines = list(table_lines([("na|me", False), ("USD", True)], [["x|y", "-1"], ["z", "2"]]))
    assert lines == [r"| na\|me | USD |", "| --- | ---: |", r"| x\|y | -1 |", "| z | 2 |"]


def test_a_frontier_lists_its_points_and_what_is_proven() -> None:
    frontier = clusterplan.pareto(clusterplan.parse_instance({**STAGING, "name": "a_b"}))
    lines = frontier_markdown(frontier).splitlines()
    assert lines[0] == r"# Frontier of a\_b"
    assert lines[2].startswith("| samples/s | USD |")
    assert len([line for line in lines if line.startswith("| ")]) == 2 + len(frontier.points)
    assert any(line.startswith("- certified: ") for line in lines)
    nothing = clusterplan.parse_instance({**STAGING, "throughput_floor_samples_per_s": 1e9})
    assert "| " not in frontier_markdown(clusterplan.pareto(nothing))
