"""Jobs of scheduling in large tables mean what they mean row by row."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.files import tables as files
from clusterplan.instances.files.columns import Columns
from clusterplan.instances.references import Folder
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.instances.scheduling.jobs import JobTable
from clusterplan.instances.scheduling.tables import read_jobs, resolved, wants_table, write_jobs

CSV = "name,arrival_s,duration_s,demand.gpu,tasks,tenant\n"


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MANY_ROWS", 1)


def columns(path: Path) -> Columns:
    """Return a file in columns."""
    table = files.read_table(path, path.name, in_columns=True)
    assert isinstance(table, Columns)
    return table


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_trace_survives_its_table(tmp_path: Path, ending: str) -> None:
    """Written and read in columns, it has the same hash."""
    there = generate_scheduling(300, 64, seed=3)
    written = write_jobs(there, tmp_path / "t.yaml", ending)
    table = columns(tmp_path / written["jobs"])
    head = {"name": there.name, "source": there.source, "assumptions": there.assumptions}
    again = resolved({**head, "resources": {"gpu": 64}, "jobs": table}, "t", Folder(tmp_path))
    assert isinstance(again, SchedulingInstance)
    assert isinstance(again.jobs, JobTable)
    assert again.sha256() == there.sha256()


def test_rows_in_columns_are_what_they_are_one_by_one(tmp_path: Path) -> None:
    """Empty cells stand for defaults."""
    path = tmp_path / "t.csv"
    path.write_text(f"{CSV}a,,5,1,,x\nb,2.5,7,0.5,3,\n")
    table = read_jobs(columns(path), "t")
    assert isinstance(table, JobTable)
    by_rows = SchedulingInstance(name="t", resources={"gpu": 4}, jobs=columns(path).rows())
    assert tuple(table) == by_rows.jobs
    assert table.tasks.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("a,-1,5,1,1,x", "jobs[1].arrival_s: is -1.0, but must be at least 0"),
        ("a,0,,1,1,x", "jobs[1].duration_s: is missing; it must be given"),
        ("a,0,0,1,1,x", "jobs[1].duration_s: is 0.0, but must be greater than 0"),
        (
            "a,0,1000000000000,1,1,x",
            "jobs[1].duration_s: is 1e+12 s, but must be at most 1e+11; are these milliseconds?",
        ),
        ("a,0,5,1,1.5,x", "jobs[1].tasks: is '1.5', which is not a whole number; write a whole number"),
        (",0,5,1,1,x", "jobs[1].name: is missing; it must be given"),
    ],
)
def test_a_wrong_row_is_refused_in_one_line(tmp_path: Path, row: str, fault: str) -> None:
    """With its number, as in a small table."""
    path = tmp_path / "t.csv"
    path.write_text(f"{CSV}ok,0,5,1,1,x\n{row}\n")
    with pytest.raises(InstanceError) as caught:
        read_jobs(columns(path), "t")
    assert str(caught.value).startswith(f"t: {fault}")
    assert "\n" not in str(caught.value)


def test_an_unknown_column_is_read_row_by_row(tmp_path: Path) -> None:
    """The validation of rows then says what is unknown."""
    path = tmp_path / "t.csv"
    path.write_text("name,duration_s,demand.gpu,colour\na,5,1,red\n")
    assert isinstance(read_jobs(columns(path), "t"), list)


def test_only_many_jobs_want_a_table() -> None:
    """From 5,000 on."""
    assert not wants_table(generate_scheduling(4_999, 8))
    assert wants_table(generate_scheduling(5_000, 8))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_malleable_jobs_survive_their_table(tmp_path: Path, ending: str) -> None:
    """With a column for each number of tasks."""
    there = generate_scheduling(40, 16, seed=3, malleable=True)
    written = write_jobs(there, tmp_path / "t.yaml", ending)
    head = {"name": there.name, "resources": {"gpu": 16}, "source": there.source}
    document = {**head, "assumptions": there.assumptions, "jobs": columns(tmp_path / written["jobs"])}
    again = resolved(document, "t", Folder(tmp_path))
    assert isinstance(again, SchedulingInstance)
    assert again.sha256() == there.sha256()


def test_a_table_cannot_hold_variants(tmp_path: Path) -> None:
    """It says so."""
    speed = {"model": "table", "rows": [{"workers": 1, "steps_per_s": 1}]}
    job = {"name": "a", "work": 1, "variants": [{"name": "v", "worker_demand": {"gpu": 1}, "speed": speed}]}
    there = SchedulingInstance.model_validate({"name": "t", "resources": {"gpu": 1}, "jobs": [job]})
    assert not wants_table(there)
    with pytest.raises(OptionError, match="a table cannot hold the variants of malleable jobs"):
        write_jobs(there, tmp_path / "t.yaml", "csv")
