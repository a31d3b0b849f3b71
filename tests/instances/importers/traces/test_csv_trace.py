"""The importer of plain CSV traces: columns, units of times, dates, and what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.importers.traces.csv_trace import ColumnUnit, import_trace, unit_of_name


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


def imported(folder: Path, *rows: str, header: str = "submit,num_gpu,run_s,who", **options: Any) -> Any:
    """Return what becomes of a CSV file."""
    file = folder / "jobs.csv"
    file.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    named = {"arrival": "submit", "gpus_column": "num_gpu", "duration": "run_s", "gpus": 8}
    return import_trace(file, **{**named, **options})


def test_an_option_says_the_unit_of_a_column(tmp_path: Path) -> None:
    """Against its name too; without a unit a column counts in seconds, and that is said."""
    units = {"arrival_unit": "h", "duration_unit": "min"}
    found = imported(tmp_path, "0,1,5,a", "2,1,10,b", **units)
    assert found.table().arrival_s.tolist() == [0, 7200]
    assert found.table().duration_s.tolist() == [300, 600]
    assert found.assumptions[:2] == (
        "Column 'submit' is in hours, by --arrival-unit.",
        "Column 'run_s' is in minutes, by --duration-unit.",
    )
    plain = imported(tmp_path, "0,1,5,a").assumptions[0]
    assert plain == "Column 'submit' is in seconds; its name has no unit, and --arrival-unit takes another."


def test_milliseconds_since_1970_are_a_date_once_their_unit_is_said(tmp_path: Path) -> None:
    rows = ("1510000000900,1,5,a", "1510000000000,1,5,b")
    found = imported(tmp_path, *rows, arrival_unit="ms")
    assert found.table().arrival_s.tolist() == pytest.approx([0.9, 0])
    assert "Time 0 is the first arrival, 2017-11-06 20:26:40+00:00." in found.assumptions
    with pytest.raises(InstanceError, match=r"line 2: submit: .*are these milliseconds"):
        imported(tmp_path, *rows)


def test_a_unit_needs_a_column_of_numbers(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="'submit' holds dates; leave it out"):
        imported(tmp_path, "2020-01-01 12:00:00,1,5,a", arrival_unit="h")
    with pytest.raises(OptionError, match="name the column with --estimate"):
        imported(tmp_path, "0,1,5,a", estimate_unit="h")
