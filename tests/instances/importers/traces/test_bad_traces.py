"""Traces with faults, and files of which several kinds of instance can be made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import run_here

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.importers import import_gavel_either
from clusterplan.instances.importers.traces.gavel import import_gavel_consolidation
from clusterplan.planner.exit_codes import BAD_INSTANCE

HEADER = "submit,num_gpu,run_s,id\n"
COLUMNS = "--arrival submit --gpus-column num_gpu --duration run_s"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("-1,1,5,a", "line 2: submit: is -1.0, but must be at least 0"),
        ("0,1,-5,a", "line 2: run_s: is -5.0, but must be at least 0"),
        ("0,9,5,a", "line 2: num_gpu: is 9, and the cluster has 8 GPUs; raise --gpus, or leave it out"),
        ("0,0,5,a", "line 2: num_gpu: is 0, but must be at least 1"),
        ("0,1.5,5,a", "line 2: num_gpu: is '1.5', which is not a whole number; write a whole number"),
        ("0,two,5,a", "line 2: num_gpu: is 'two', which is not a whole number; write a whole number"),
        ("0,1,soon,a", "line 2: run_s: is 'soon', which is not a number; write a plain number"),
        ("0,1,,a", "line 2: run_s: is missing; it must be given"),
        (",1,5,a", "line 2: submit: is missing; it must be given"),
        ("0,1,0,a", "line 2: run_s: is 0, and a job runs for some time; --drop-zero leaves such jobs out"),
        ("0,1,1e12,a", "line 2: run_s: is 1e+12 s, but must be at most 1e+11; are these milliseconds?"),
        ("1e12,1,5,a", "line 2: submit: is 1e+12 s, but must be at most 1e+11; are these milliseconds?"),
        (
            "0,1,nan,a",
            "line 2: run_s: is nan, which is not a finite number; NaN and infinity are not allowed",
        ),
        (
            "inf,1,5,a",
            "line 2: submit: is inf, which is not a finite number; NaN and infinity are not allowed",
        ),
        ("0,1,5,a\n1,1,5,a", "line 3: id: is 'a', as in line 2; names are different, or leave --name out"),
        ("0,1,5", "line 2: has 3 cells; the header has 4"),
        (
            "01/02/2020 10:00,1,5,a",
            "line 2: submit: is '01/02/2020 10:00', which is not a number; write a plain number, "
            "or a date and time such as 2017-11-01 12:00:00",
        ),
        (
            "2020-01-01 12:00:00,1,5,a\n2020-01-01 12:00:00+02:00,1,5,b",
            "line 3: submit: has a time zone and the first row has none, or the reverse; give all or none of "
            "them one",
        ),
        (
            "2020-01-01 12:00:00,1,5,a\n2020-13-01,1,5,b",
            "line 3: submit: is no date and time, as in the rows before; write 2017-11-01 12:00:00",
        ),
    ],
)
def test_a_bad_row_gets_one_clear_line(tmp_path: Path, text: str, fault: str) -> None:
    """It names the line and the column of the file."""
    assert said(tmp_path, HEADER + text + "\n", "--name", "id") == f"jobs.csv: {fault}"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is empty"),
        (HEADER, "has a header but no rows"),
        ("submit,gpus\n1,2\n", "line 1: has no column 'num_gpu'; there are: submit, gpus"),
        (HEADER + "0,1,0,a\n", "has no job that runs at all; all durations are 0"),
    ],
)
def test_a_bad_file_gets_one_clear_line(tmp_path: Path, text: str, fault: str) -> None:
    """As a whole."""
    assert said(tmp_path, text, "--drop-zero") == f"jobs.csv: {fault}"


def said(folder: Path, text: str, *more: str) -> str:
    """Return the only line that the command prints; it writes nothing and ends with the code of bad input."""
    (folder / "jobs.csv").write_text(text, encoding="utf-8")
    words = f"import trace jobs.csv {COLUMNS} --gpus 8 --output t.yaml".split()
    done = run_here(*words, *more, cwd=folder)
    assert done.returncode == BAD_INSTANCE
    assert not (folder / "t.yaml").exists()
    (line,) = done.stderr.strip().split("\n")
    return line


CLUSTER = {"gpu_type": "v100", "servers": 2, "gpus_per_server": 4}


def write(folder: Path) -> tuple[Path, Path]:
    """Write a speed table and a trace of one job."""
    speeds = {"('A', 2)": {"null": 2.0}}
    apart = {"('A', 2)": {"null": 1.0}}
    (folder / "s.json").write_text(json.dumps({"v100": speeds, "v100_unconsolidated": apart}))
    (folder / "t.trace").write_text("\t".join(["A", "c", "-n", "0", "100", "0", "2"]) + "\n")
    return folder / "s.json", folder / "t.trace"


def test_the_kind_decides(tmp_path: Path) -> None:
    """Each kind has the instance of its own importer."""
    files = write(tmp_path)
    assert import_gavel_either(*files, capacity={"v100": 4}).kind == "allocation"
    instance = import_gavel_either(*files, kind="consolidation", **CLUSTER)
    assert instance == import_gavel_consolidation(*files, **CLUSTER)
    assert instance.jobs[0].speed_by_servers == {1: 1.0, 2: 0.5}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "--capacity is missing; --kind allocation needs --capacity"),
        ({"kind": "consolidation"}, "--gpu-type is missing"),
        ({"kind": "consolidation", **CLUSTER, "capacity": {"v100": 1}}, "--capacity goes with --kind alloc"),
        ({"capacity": {"v100": 1}, "servers": 2}, "--servers goes with --kind consolidation only"),
    ],
)
def test_options_go_with_their_kind(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    """Those that are missing, and those of the other kind."""
    with pytest.raises(OptionError, match=words):
        import_gavel_either(*write(tmp_path), **options)
