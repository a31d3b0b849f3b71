"""A job of Slurm's accounting, and its times."""

from __future__ import annotations

import pytest

from clusterplan.instances.importers.traces.sacct_job import (
    JobOfAccounting,
    moment_of,
    seconds_of,
    whole_jobs,
)


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


@pytest.mark.parametrize(
    ("state", "over"), [("COMPLETED", True), ("REQUEUED", True), ("RUNNING", False), ("COMPLETING", False)]
)
def test_what_has_ended(state: str, over: bool) -> None:
    """What was requeued has, whatever came after."""
    assert JobOfAccounting(id="1", state=state).is_over is over
