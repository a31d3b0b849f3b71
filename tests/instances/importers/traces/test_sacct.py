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


def test_parsable_output(tmp_path: Path) -> None:
    """Jobs that ran come in the order of their submission; the others are counted, each with its reason."""
    found = imported(tmp_path, TABLE)
    first, second = found.jobs
    assert (first.name, first.arrival_s, first.duration_s) == ("job-12_3", 0, 30)
    assert (first.estimate_s, first.tenant) == (None, "speech")
    assert (second.name, second.arrival_s, second.duration_s) == ("job-11", 30, 86_410)
    assert (second.estimate_s, second.tenant) == (2 * 86_400, "vision")
    assert (first.demand, second.demand) == ({"gpu": 1}, {"gpu": 2})
    said = " ".join(found.assumptions)
    assert "1 job is left out: not run, or not ended." in said
    assert "1 job is left out: no GPUs asked for." in said
    assert "1 job is left out: more asked for than there is." in said
    assert "'yesterday' is no time" in said


def job(**fields: Any) -> dict[str, Any]:
    """Return a synthetic job as `sacct --json` prints it."""
    tres = [{"type": "cpu", "name": "", "count": 4}, {"type": "gres", "name": "gpu", "count": 2}]
    time = {"submission": 1_714_564_800, "eligible": 1_714_564_900, "elapsed": 60, "limit": 10}
    state = {"current": "COMPLETED", "reason": "None"}
    base = {"job_id": 5, "account": "vision", "user": "ann", "partition": "gpu", "state": state, "time": time}
    return {**base, "tres": {"allocated": tres, "requested": []}, "array": {"job_id": 0}, **fields}


def test_json(tmp_path: Path) -> None:
    """Older and newer forms of numbers and states, and tasks of arrays."""
    newer = {
        "submission": 1_714_564_830,
        "elapsed": 5,
        "limit": {"set": True, "infinite": False, "number": 3},
    }
    array = {"job_id": 7, "task_id": {"set": True, "infinite": False, "number": 2}}
    listed = [job(), job(time=newer, state={"current": ["TIMEOUT"]}, array=array)]
    found = imported(tmp_path, json.dumps({"jobs": listed}))
    assert [(j.name, j.arrival_s, j.duration_s, j.estimate_s) for j in found.jobs] == [
        ("job-5", 0, 60, 600),
        ("job-7_2", 30, 5, 180),
    ]
    assert found.jobs[0].demand == {"gpu": 2}


def test_a_job_that_ran_twice_has_two_names(tmp_path: Path) -> None:
    """As with `sacct --duplicates`; one that several files list, put together, is one."""
    again = job(time={"submission": 1_714_564_900, "elapsed": 60})
    found = imported(tmp_path, json.dumps({"jobs": [job(state={"current": ["REQUEUED"]}), again, again]}))
    assert [j.name for j in found.jobs] == ["job-5", "job-5 (2)"]
    assert "1 job is left out: listed twice." in found.assumptions
    assert "1 run is of jobs that ran before; each run counts as a job." in found.assumptions


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


def test_parts_of_a_heterogeneous_job_are_one(tmp_path: Path) -> None:
    """They start together; it has what they have together, until the last ends."""
    rows = [HEADER, ROW.format("9+0", 0, 60), ROW.format("9+1", 0, 60), ROW.format("9+1.batch", 0, 60)]
    rows[2] = rows[2].replace("00:10", "00:30").replace("gpu=1", "gpu=4,gres/gpu:a100=4")
    (one,) = imported(tmp_path, "\n".join(rows), cpus=64).jobs
    assert (one.name, one.demand, one.duration_s, one.estimate_s) == ("job-9", {"gpu": 5, "cpu": 8}, 30, 3600)
    parts = [job(job_id=n, het={"job_id": 9, "job_offset": {"set": True, "number": n - 9}}) for n in (9, 10)]
    found = imported(tmp_path, json.dumps({"jobs": parts}))
    assert [(j.name, j.demand) for j in found.jobs] == [("job-9", {"gpu": 4})]
    assert any(said.endswith("as one job; there are 1 of these.") for said in found.assumptions)


def test_json_of_several_versions(tmp_path: Path) -> None:
    """Numbers that mean none, moments that are not known, types of GPUs, and parts that are not there."""
    typed = [{"type": "gres", "name": name, "count": 1} for name in ("gpu:a100", "gpu:h100", "gpumem")]
    at = 1_714_564_800
    listed = [
        job(job_id=1, time={"submission": 0, "eligible": 0, "elapsed": 60, "limit": 60}),
        job(job_id=2, time={"submission": at, "eligible": 0, "elapsed": 60, "limit": 4_294_967_295}),
        job(job_id=3, time={"submission": at, "elapsed": 60, "limit": {"set": False, "infinite": True}}),
        job(
            job_id=4, time={"submission": at, "elapsed": 60, "limit": "UNLIMITED"}, tres={"allocated": typed}
        ),
        job(job_id=5, state={"current": ["RUNNING"]}),
        job(job_id=6, tres={}),
        job(job_id=7, array={"job_id": {"set": True, "number": 70}, "task_id": 3}, user=None, account=""),
        job(job_id=8, tres=None, time=None, state=None),
        job(job_id={"wrong": 1}),
        "no job",
        None,
    ]
    found = imported(tmp_path, json.dumps({"meta": {}, "jobs": listed}), arrival="eligible")
    assert [j.name for j in found.jobs] == ["job-2", "job-3", "job-4", "job-70_3"]
    assert [j.estimate_s for j in found.jobs] == [None, None, None, 600]
    assert [j.arrival_s for j in found.jobs] == [0, 0, 0, 100]
    assert found.jobs[2].demand == {"gpu": 2}
    assert found.jobs[3].tenant is None
    said = " ".join(found.assumptions)
    assert "3 jobs are left out: not run, or not ended." in said
    assert "1 job is left out: no GPUs asked for." in said
    assert "GPUs of all types count alike: a100, h100." in said
    assert "3 jobs are invalid and left out: jobs[8] (id is empty text" in said


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
