"""Deadlines as people write them."""

from __future__ import annotations

from datetime import datetime

import pytest

from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.cli.instances.deadline import hours_until

NOW = datetime(2026, 11, 23, 8, 0)
"""A Monday."""


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("monday", 16),
        ("Friday", 16 + 4 * 24),
        ("sunday", 16 + 6 * 24),
        ("today", 16),
        ("Tomorrow", 40),
        ("2026-11-24", 40),
        ("2026-11-23T18:00", 10),
        ("2026W48T18", 10),
        ("2026-11-23 09:30", 1.5),
    ],
)
def test_hours_until(text: str, hours: float) -> None:
    assert hours_until(text, NOW) == pytest.approx(hours)


def test_an_offset_is_heeded() -> None:
    now = datetime.fromisoformat("2026-11-23T08:00+00:00")
    assert hours_until("2026-11-23T18:00+01:00", now) == pytest.approx(9)


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "freitag", "9999-12-31", "0001-01-01T00:00"])
def test_what_is_no_deadline(text: str) -> None:
    with pytest.raises(OptionError, match="write a day such as friday, tomorrow"):
        hours_until(text, NOW)


def test_what_is_over() -> None:
    with pytest.raises(OptionError, match="is over since 24"):
        hours_until("2026-11-22T08:00", NOW)
