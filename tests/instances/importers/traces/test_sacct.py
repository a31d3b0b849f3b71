"""Slurm's accounting as a trace. The jobs here are synthetic, in the format of `man sacct` (Slurm 22.05)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.importers.traces.sacct import import_sacct
from clusterplan.instances.importers.traces.sacct_records import moment_of, seconds_of

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


def test_options(tmp_path: Path) -> None:
    """Arrivals may be when jobs were eligible, CPUs may count, and tenants be users."""
    found = imported(tmp_path, TABLE, arrival="eligible", tenant="user", cpus=8)
    assert [job.name for job in found.jobs] == ["job-12_3", "job-13", "job-11"]
    assert [job.arrival_s for job in found.jobs] == [0, 600, 3630]
    assert found.jobs[1].demand == {"cpu": 4}
    assert found.jobs[2].demand == {"gpu": 2, "cpu": 8}
    assert found.jobs[2].tenant == "ann"
    assert len(imported(tmp_path, TABLE, first=1).jobs) == 1


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
    """As with `sacct --duplicates`."""
    found = imported(tmp_path, json.dumps({"jobs": [job(), job(user="bob")]}))
    assert [j.name for j in found.jobs] == ["job-5", "job-5 (2)"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{}", "has no 'jobs'; give what sacct --json or sacct --parsable2 prints"),
        ("[1]", "is not a mapping; give what sacct --json or sacct --parsable2 prints"),
        (json.dumps({"jobs": [job(time={})]}), "has no job that ran on GPUs: 1 job is left out"),
        (
            "JobID|State\n1|COMPLETED\n",
            "has no column Submit, AllocTRES or ReqTRES, Elapsed; print it with sacct --parsable2",
        ),
        (TABLE.split("\n", maxsplit=1)[0] + "\n1|2\n", "line 2.id: is missing"),
    ],
)
def test_what_is_wrong(tmp_path: Path, text: str, fault: str) -> None:
    """In one line."""
    with pytest.raises(InstanceError) as caught:
        imported(tmp_path, text)
    (line,) = str(caught.value).split("\n")
    assert line.startswith(f"{tmp_path / 'jobs.txt'}: {fault}"), line


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
