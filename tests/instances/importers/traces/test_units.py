"""The unit of a column of times, from an option or its name."""

from __future__ import annotations

import pytest

from clusterplan.instances.importers.traces.units import ColumnUnit, unit_of_name


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("runtime_min", "min"),
        ("runtime_h", "h"),
        ("duration_ms", "ms"),
        ("wait_s", "s"),
        ("DurationMs", "ms"),
        ("run time [hours]", "h"),
        ("elapsed (µs)", "us"),
        ("RUNTIME_MIN", "min"),
        ("days", "d"),
        ("duration", None),
        ("minimum", None),
        ("length_m", None),
        ("min_runtime", None),
        ("time_s_total", None),
        ("7", None),
    ],
)
def test_the_last_word_of_a_name_is_its_unit(name: str, unit: str | None) -> None:
    assert unit_of_name(name) == unit


def test_a_number_is_turned_into_seconds() -> None:
    """An option wins over the name; without either it is seconds."""
    assert ColumnUnit.of("run_min", None, "--duration-unit").in_seconds(1.5) == 90
    assert ColumnUnit.of("run_min", "h", "--duration-unit").in_seconds(1.5) == 5400
    assert ColumnUnit.of("run", None, "--duration-unit").in_seconds(1.5) == 1.5
    values = [ColumnUnit.of("run", unit, "").in_seconds(7) for unit in ("us", "ms", "d")]
    assert values == [7e-6, 0.007, 604_800]
