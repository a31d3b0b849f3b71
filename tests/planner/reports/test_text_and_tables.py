"""How reports say durations, counts and gaps."""

from __future__ import annotations

import pytest

from clusterplan.planner.reports.page import Cell, number, seconds, share, text
from clusterplan.planner.reports.text import (
    STATUS,
    counted,
    duration,
    listed,
    short,
    status_words,
    unit_of_time,
)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "–"),
        (0.0, "0 s"),
        (0.0123, "12.3 ms"),
        (119.0, "119 s"),
        (120.0, "2 min"),
        (7200.0, "2 h"),
        (4 * 86400.0, "4 days"),
    ],
)
def test_durations_have_the_unit_that_suits_them(value: float | None, words: str) -> None:
    assert duration(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "–"), (0.0, "0"), (2.5, "2.5"), (0.12345678, "0.123457"), (1e6, "1,000,000")],
)
def test_numbers_have_no_zeros_at_their_end(value: float | None, words: str) -> None:
    assert short(value) == words


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
