"""What is shared by the sources of traces: sentences with facts, jobs of GPUs, and faults of their files.

The importer of plain CSV traces: columns, units of times, dates, and what is left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import run_here

from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.importers.importer import ImportOptions
from clusterplan.instances.importers.traces.trace import (
    GANG,
    ColumnUnit,
    TraceSource,
    filled,
    gpu_row,
    import_trace,
    scheduling,
    unit_of_name,
)
from clusterplan.planner.exit_codes import BAD_INSTANCE


class _Options(ImportOptions):
    jobs: Path = Path("jobs.csv.gz")
    cluster: Path = Path("cluster.csv")


SOURCE = TraceSource(
    "{list}-{size}",
    "{jobs.name}, from somewhere",
    (("cut", "{cut} are cut."), ("none", "None."), *GANG),
    cluster="cluster",
    columns={"duration_s": "ran", "name": "id"},
)
FACTS = {"size": 4, "cut": 2, "none": 0}


def test_a_sentence_without_its_fact_is_not_said() -> None:
    """A count of 0, and what is not given; names in facts may have braces."""
    sentences = ("{name} is.", ("count", "{count:,} are."), ("what", "Not {what}."))
    assert filled(sentences, {"name": "{x}", "count": 1000, "what": None}) == ["{x} is.", "1,000 are."]


def test_a_job_is_a_gang_of_one_task_for_each_gpu() -> None:
    """And the record says what the instance is called, and what is assumed."""
    jobs = {"line 2": gpu_row("a", 3.0, 2, 5.0, tenant="x")}
    found = scheduling(SOURCE, _Options(), FACTS, jobs, also=["More."], resources={"gpu": 4})
    assert found.table().total_demand.tolist() == [[2]]
    assert (found.name, found.source) == ("jobs-4", "jobs.csv.gz, from somewhere")
    assert found.assumptions == ("2 are cut.", *GANG, "More.")


def test_faults_of_the_instance_name_the_file_and_the_line() -> None:
    """The column as the file calls it, the cluster's file where that is wrong, other jobs by their lines."""
    jobs = {"line 2": gpu_row("a", 0, 1, 1), "line 5": gpu_row("b", 0, 9, 1e12)}
    with pytest.raises(InstanceError) as caught:
        scheduling(SOURCE, _Options(), FACTS, jobs, servers=[{"count": 0}])
    said = str(caught.value).split("\n")
    assert "jobs.csv.gz: line 5: ran: is 1e+12 s, but must be at most 1e+11; are these milliseconds?" in said
    assert "cluster.csv: servers[0].capacity: is missing; it must be given" in said
    twice = dict.fromkeys(("line 2", "line 5"), gpu_row("a", 0, 1, 1))
    with pytest.raises(InstanceError, match=r"gz: line 5: id: 'a' is already used by line 2; each name"):
        scheduling(SOURCE, _Options(), FACTS, twice, resources={"gpu": 4})


LAST = {
    "philly": (
        "timestamp,duration,num_gpus,cluster",
        "2017-11-01 12:00:00,{0},{1},a",
        "--kind scheduling --gpus 8",
    ),
    "tiresias": (
        "job_id,num_gpu,submit_time,duration,model_name",
        "{2},{1},0,{0},vgg16",
        "--cluster cluster.csv --kind scheduling",
    ),
    "muri": (
        "job_id,num_gpu,submit_time,iterations,model_name,iteration_time",
        "{2},{1},0,{0},vgg16,1000",
        "--cluster cluster.csv",
    ),
}
"""Importer → header, a row with duration, GPUs and number, and options."""


@pytest.mark.parametrize("importer", LAST)
@pytest.mark.parametrize(
    ("duration", "gpus", "fault"),
    [("5", "9", "asks for 9 gpu, and the cluster has 8"), ("1e14", "1", "but must be at most")],
)
def test_importers_name_the_line(tmp_path: Path, importer: str, duration: str, gpus: str, fault: str) -> None:
    """Of faults that only the instance as a whole shows; in one line."""
    header, row, options = LAST[importer]
    rows = [header, row.format(5, 1, 1), "", row.format(duration, gpus, 2)]
    (tmp_path / "jobs.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    cluster = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n1,2,4,64,256\n"
    (tmp_path / "cluster.csv").write_text(cluster, encoding="utf-8")
    first = ["--jobs"] if importer == "tiresias" else []
    done = run_here("import", importer, *first, "jobs.csv", *options.split(), cwd=tmp_path)
    (line,) = done.stderr.strip().split("\n")
    assert done.returncode == BAD_INSTANCE
    assert line.startswith("jobs.csv: line 4: ")
    assert fault in line


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
