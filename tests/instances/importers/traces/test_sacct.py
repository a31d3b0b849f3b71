"""Slurm's accounting as a trace. The jobs here are synthetic, in the format of `man sacct` (Slurm 22.05).

The entries of what sacct prints; SYNTHETIC.

A job of Slurm's accounting, and its times.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.importers.traces.sacct import (
    JobOfAccounting,
    entries_of_table,
    import_sacct,
    moment_of,
    seconds_of,
    whole_jobs,
)

TABLE = """\
JobID|User|Account|Partition|Submit|Eligible|Start|Elapsed|Timelimit|ReqTRES|AllocTRES|State
11|ann|vision|gpu|2024-05-01T12:00:30|2024-05-01T13:00:30|2024-05-01T14:00:00|1-00:00:10|2-00:00:00|\
billing=8,cpu=8,gres/gpu=2,mem=32G,node=1|billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=32G,node=1|COMPLETED
11.batch||vision||2024-05-01T14:00:00|Unknown|2024-05-01T14:00:00|1-00:00:10|||cpu=8,gres/gpu=2|COMPLETED
12_3|bob|speech|gpu|2024-05-01T12:00:00|2024-05-01T12:00:00|2024-05-01T12:00:01|00:30|UNLIMITED|cpu=4,gres/gpu=1||\
CANCELLED by 1000
12_[4-9]|bob|speech|gpu|2024-05-01T12:00:00|Unknown|Unknown|00:00:00|01:00:00|cpu=4,gres/gpu=1||PENDING
13|ann|vision|cpu|2024-05-01T12:10:00|2024-05-01T12:10:00|2024-05-01T12:10:00|02:00|01:00:00|cpu=4|cpu=4|FAILED
14|ann|vision|gpu|2024-05-01T12:20:00|2024-05-01T12:20:00|2024-05-01T12:20:00|02:00|01:00:00||cpu=9,gres/gpu=99|TIMEOUT
15|ann|vision|gpu|yesterday|Unknown|Unknown|02:00|01:00:00||gres/gpu=1|COMPLETED
"""
"""SYNTHETIC: a job with a step, one of an array, and some that wait, need no GPU, are too large, broken."""


def imported(folder: Path, text: str, **options: Any) -> Any:
    """Return what becomes of a file."""
    (folder / "jobs.txt").write_text(text, encoding="utf-8")
    return import_sacct(folder / "jobs.txt", 8, **options)


def job(**fields: Any) -> dict[str, Any]:
    """Return a synthetic job as `sacct --json` prints it."""
    tres = [{"type": "cpu", "name": "", "count": 4}, {"type": "gres", "name": "gpu", "count": 2}]
    time = {"submission": 1_714_564_800, "eligible": 1_714_564_900, "elapsed": 60, "limit": 10}
    state = {"current": "COMPLETED", "reason": "None"}
    base = {"job_id": 5, "account": "vision", "user": "ann", "partition": "gpu", "state": state, "time": time}
    return {**base, "tres": {"allocated": tres, "requested": []}, "array": {"job_id": 0}, **fields}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[1]", "is not a mapping; give what sacct --json or sacct --parsable2 prints"),
        (
            json.dumps({"jobs": [job(time={})]}),
            "has no job that ran on GPUs: 1 job is left out: not run, or not",
        ),
        (TABLE.split("\n", maxsplit=1)[0] + "\n1|2\n", "line 2: has 2 cells; the header has 12"),
    ],
)
def test_what_is_wrong(tmp_path: Path, text: str, fault: str) -> None:
    """In one line."""
    with pytest.raises(InstanceError) as caught:
        imported(tmp_path, text)
    (line,) = str(caught.value).split("\n")
    assert line.startswith(f"{tmp_path / 'jobs.txt'}: {fault}"), line


HEADER = "JobID|JobName|Account|Submit|Elapsed|TimelimitRaw|AllocTRES|State"
ROW = "{0}|train|vision|2024-05-01T12:00:0{1}|00:10|{2}|cpu=4,gres/gpu=1|COMPLETED"


def test_tables_of_many_shapes(tmp_path: Path) -> None:
    """Ends of lines, signs in names, limits that are none, and a header that stands there once more."""
    rows = [
        HEADER,
        ROW.format(1, 0, "UNLIMITED"),
        ROW.format("1.batch", 0, ""),
        ROW.format("1.extern", 0, ""),
        ROW.format(2, 1, "Partition_Limit").replace("train", "a|b\x85\u2028|c"),
        "",
        HEADER,
        ROW.format(3, 2, "90").replace("vision", "caf\xe9"),
        ROW.format("4_7", 3, "²"),
    ]
    for raw in (
        "\r\n".join(rows).encode(),
        "\n".join(rows).encode("utf-8-sig"),
        "".join(f"{row}|\n" for row in rows if row).encode(),
    ):
        (tmp_path / "jobs.txt").write_bytes(raw)
        found = import_sacct(tmp_path / "jobs.txt", 8)
        assert [j.name for j in found.jobs] == ["job-1", "job-2", "job-3", "job-4_7"]
        assert [j.estimate_s for j in found.jobs] == [None, None, 5400, None]
        assert [said for said in found.assumptions if "left out" in said] == []
    (tmp_path / "jobs.txt").write_bytes("\n".join([HEADER, ROW.format(1, 0, 1)]).encode() + b"\n5|\xe9|v|")
    assert len(import_sacct(tmp_path / "jobs.txt", 8).jobs) == 1


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            "gres/gpu=1",
            "gres/gpu=x",
            "line 3, job 2 (tres has the amount 'x'; write a number such as 4",
        ),
        ("00:10", "90000-00:00:00", "line 3, job 2 (elapsed_s is 7.776e+09 s, but must be at most 1e+09)"),
        (
            "vision",
            "a\x1bb",
            "line 3, job 2 (account is blank or holds a control character; use",
        ),
        ("vision", "a|b|c", "line 3 (has 9 cells; the header has 7)"),
        ("|COMPLETED", "", "line 3 (has 6 cells; the header has 7)"),
        (
            "2024-05-01",
            "Ystday ",
            "line 3, job 2 (submit_s 'Ystday T12:00:01' is no time; sacct writes 2024",
        ),
    ],
)
def test_a_line_that_is_wrong_is_left_out(tmp_path: Path, old: str, new: str, fault: str) -> None:
    """It is counted, and the first few are named with what is wrong."""
    rows = [HEADER, ROW.format(1, 0, 1), ROW.format(2, 1, 1).replace(old, new, 1)]
    text = "\n".join(row.replace("JobName|", "").replace("|train|", "|") for row in rows)
    found = imported(tmp_path, text)
    assert [j.name for j in found.jobs] == ["job-1"]
    (said,) = (said for said in found.assumptions if "invalid" in said)
    assert said.startswith("1 job is invalid and left out: ")
    assert fault in said, said


def test_json_of_several_versions(tmp_path: Path) -> None:
    """Limits that are none, a task of an array, and parts that are not there."""
    at = 1_714_564_800
    limits = (4_294_967_295, "UNLIMITED")
    listed = [
        *(
            job(job_id=k, time={"submission": at, "elapsed": 60, "limit": each})
            for k, each in enumerate(limits)
        ),
        job(job_id=7, array={"job_id": {"set": True, "number": 70}, "task_id": 3}, user=None, account=""),
        job(job_id=8, tres=None, time=None, state=None),
    ]
    found = imported(tmp_path, json.dumps({"meta": {}, "jobs": listed}), arrival="eligible")
    assert [(j.name, j.estimate_s, j.arrival_s) for j in found.jobs] == [
        ("job-0", None, 0),
        ("job-1", None, 0),
        ("job-70_3", 600, 100),
    ]
    assert found.jobs[2].tenant is None
    assert "1 job is left out: not run, or not ended." in found.assumptions


def test_where_slurm_counts_no_gpus(tmp_path: Path) -> None:
    """What to set is said."""
    with pytest.raises(InstanceError, match=r"no GPUs asked for\. Slurm lists GPUs where Accounting"):
        imported(tmp_path, json.dumps({"jobs": [job(tres={})]}))


def test_a_file_that_was_cut_off(tmp_path: Path) -> None:
    """The line and column are named."""
    with pytest.raises(InstanceError, match=r"jobs\.txt: line 4, column \d+: is not valid JSON"):
        imported(tmp_path, json.dumps({"jobs": [job()]}, indent=1)[:18])


def test_a_fault_of_all_together_names_the_line(tmp_path: Path) -> None:
    """Such as a clock that was wrong."""
    rows = [HEADER, ROW.format(1, 0, 1), ROW.format(2, 1, 1).replace("2024", "9999")]
    with pytest.raises(InstanceError, match=r"jobs\.txt: line 3: arrival_s: is 2\.516\d+e\+11 s, but must"):
        imported(tmp_path, "\n".join(rows))


RECORDS_HEADER = "JobID|JobName|Submit|ElapsedRaw|AllocTRES|State"


def test_signs_between_columns_in_two_free_texts() -> None:
    """Nobody knows in which of them they are."""
    (entry,) = entries_of_table(f"{RECORDS_HEADER}|Comment\n8|a|b|1|60||x|c|d\n", "t")
    assert entry[2] == "has 9 cells; the header has 7; leave JobName, Comment out"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1-02:03:04", 93_784),
        ("02:03:04", 7_384),
        ("03:04", 184),
        ("00:00:01.5", 1),
        ("UNLIMITED", None),
        ("", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    """As `man sacct` describes them: [days-]hours:minutes:seconds."""
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    ("text", "at"),
    [("1970-01-02T00:00:01", 86_401), ("1970-01-01T01:00:00+01:00", 0), ("86400", 86_400), ("Unknown", None)],
)
def test_moments(text: str, at: float | None) -> None:
    """Local times, times with a zone, and seconds since 1970."""
    assert moment_of(text) == at


def test_what_is_neither() -> None:
    """It is named."""
    with pytest.raises(ValueError, match="'soon' is no duration"):
        seconds_of("soon")
    with pytest.raises(ValueError, match="'soon' is no time"):
        moment_of("soon")


def test_gpus_count_once() -> None:
    """Where types stand beside their sum, the sum counts."""
    typed = {"gres/gpu:a100": 2.0, "gres/gpu:h100": 1.0}
    assert JobOfAccounting(id="1", tres=typed).gpus == 3
    assert JobOfAccounting(id="1", tres=typed | {"gres/gpu": 4.0}).gpus == 4
    assert JobOfAccounting(id="1", tres=typed).types == {"a100", "h100"}


def test_parts_are_joined_with_those_that_were_submitted_with_them() -> None:
    """What one has as a sum and another by type is added up; others stay as they are."""
    parts = [
        JobOfAccounting(id="9", heterogeneous="9", submit_s=1, tres={"gres/gpu": 1.0, "cpu": 2.0}),
        JobOfAccounting(id="5", submit_s=1, tres={"gres/gpu": 1.0}),
        JobOfAccounting(id="10", heterogeneous="9", submit_s=1, tres={"gres/gpu:a100": 4.0}),
        JobOfAccounting(id="9", heterogeneous="9", submit_s=2),
    ]
    first, other, again = whole_jobs(parts)
    assert (first.id, first.gpus, first.cpus, first.types) == ("9", 5, 2, {"a100"})
    assert other == parts[1]
    assert again == parts[3]
