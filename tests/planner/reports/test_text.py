"""Texts, tables and styles of pages."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from typing import Any

import pytest

from clusterplan.planner.reports import plot_style as style
from clusterplan.planner.reports.page import Cell, number, seconds, share, text
from clusterplan.planner.reports.text import (
    STATUS,
    counted,
    csv_line,
    duration,
    escaped,
    figure,
    listed,
    percent,
    safe_cell,
    short,
    status_words,
    table_lines,
    unit_of_time,
)

WRITTEN: dict[Callable[[Any], str], dict[float | None, str]] = {
    # Seven digits, or whole.
    figure: {None: "–", 0.0: "0", 1234.0: "1,234", 0.5: "0.500000", 1234.5678: "1,234.568", 1e-9: "1e-09"},
    # No zeros at the end.
    short: {None: "–", 0.0: "0", 2.5: "2.5", 0.12345678: "0.123457", 1e6: "1,000,000"},
    # Small gaps are not rounded to none.
    percent: {None: "–", 0.0: "0 %", 0.0123: "1.23 %", 1e-6: "1e-04 %"},
    # In the unit that suits.
    duration: {
        **{None: "–", 0.0: "0 s", 0.0123: "12.3 ms", 119.0: "119 s"},
        **{120.0: "2 min", 7200.0: "2 h", 4 * 86400.0: "4 days"},
    },
    # As people write powers.
    style._tick: {0.5: "0.5", 2000.0: "2,000", 1e6: "10<sup>6</sup>", 3e-7: "3·10<sup>-7</sup>"},
}
"""What writes a number → number → text."""


@pytest.mark.parametrize("writes", WRITTEN, ids=lambda writes: writes.__name__)
def test_numbers_are_written_as_people_read_them(writes: Callable[[Any], str]) -> None:
    assert {value: writes(value) for value in WRITTEN[writes]} == WRITTEN[writes]


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


def test_the_unit_of_time_is_a_power_that_people_know() -> None:
    assert [unit_of_time(value)[1] for value in (1.0, 300.0, 9000.0, 1e6)] == ["s", "min", "h", "days"]


def test_counts_and_lists_are_words() -> None:
    assert (counted(1, "plan"), counted(1200, "plan"), counted(2, "entry", "entries")) == (
        "1 plan",
        "1,200 plans",
        "2 entries",
    )
    assert listed(["a", "b"]) == "a, b"
    assert listed(["a", "b", "c"], most=1) == "a and 2 more"
    assert status_words("unknown", "memory") == f"{STATUS['unknown']} (memory limit)"


def test_cells_carry_what_they_are_sorted_by() -> None:
    assert number(2.5) == Cell("2.5", 2.5)
    assert share(0.0123) == Cell("1.23 %", 0.0123)
    assert seconds(None) == Cell("–", None)
    assert text(None, "bad") == Cell("–", mark="bad")


def test_names_are_shown_literally_and_cut() -> None:
    assert style.plot_text("<b>&") == "&lt;b&gt;&amp;"
    assert len(style.plot_text("x" * 1000)) == style.LONGEST
    assert style.plot_text("x" * 1000).endswith("…")


def test_colours_and_symbols_repeat_together_only_after_all_pairs() -> None:
    pairs = [(style.colour(i), style.symbol(i)) for i in range(style.COLOURS * len(style.SYMBOLS))]
    assert len(set(pairs)) == len(pairs)
    assert style.colour(9, 0.5) == "@s1/0.5"
    assert style.dash(style.COLOURS) != style.dash(0)


@pytest.mark.parametrize("values", [(1.0, 2.0), (0.003, 4e5), (5.0, 5.0), (1e-12, 1e15), (0.0,), ()])
def test_a_logarithmic_axis_holds_its_values_and_has_a_few_ticks(values: tuple[float, ...]) -> None:
    axis = style.log_axis("x", values)
    low, high = (10 ** (at / 2) for at in axis["range"])
    assert all(low <= math.sqrt(value) <= high for value in values if value > 0)
    assert all(low <= math.sqrt(tick) <= high for tick in axis["tickvals"])
    assert 0 < len(axis["tickvals"]) <= 12
    assert len(axis["ticktext"]) == len(axis["tickvals"])


def test_an_axis_is_logarithmic_where_values_span_much() -> None:
    assert style.spread_axis("x", [1.0, 2.0 * style.WIDE])["type"] == "log"
    plain = style.spread_axis("x", [1.0, 2.0])
    assert "type" not in plain
    assert plain["range"] == pytest.approx([0.94, 2.06])
    assert style.spread_axis("x", [0.0, 0.0])["range"] == [0.0, 1.0]
    assert style.place_on(style.spread_axis("x", [1.0, 100.0]), 100.0) == 2.0
    assert style.place_on(plain, 1.5) == 1.5


def test_lines_and_marks_stand_where_they_are_put() -> None:
    upright = style.line_at("x", 3.0)
    assert (upright["x0"], upright["x1"], upright["yref"]) == (3.0, 3.0, "y domain")
    assert style.note("<i>", x=1)["text"] == "&lt;i&gt;"
    assert style.marker("circle", "@s0", 9)["line"]["color"] == "@panel"
    assert style.size(3, 10) > style.size(0, 10) > style.size(0, style.MANY)
