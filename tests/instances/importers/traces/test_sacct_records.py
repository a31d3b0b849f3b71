"""The entries of what sacct prints; SYNTHETIC."""

from __future__ import annotations

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.importers.traces.sacct_records import entries_of_document, entries_of_table

HEADER = "JobID|JobName|Submit|ElapsedRaw|AllocTRES|State"


def test_a_table() -> None:
    """Steps are left out, lines keep their numbers, and a line that does not fit is a complaint."""
    text = f"\n{HEADER}\r\n7+0|a|b|1|60|gres/gpu=1|CANCELLED by 5\r\n7+0.batch|a|1|60||x\r\n\r\n8|a|1\r\n"
    (place, name, fields), broken = entries_of_table(text, "t")
    assert (place, name) == ("line 3", "line 3, job 7+0")
    assert fields["heterogeneous"] == "7"
    assert (fields["submit_s"], fields["elapsed_s"], fields["state"]) == ("1", 60, "CANCELLED")
    assert broken == ("line 6", "line 6", "has 3 cells; the header has 6")


def test_signs_between_columns_in_two_free_texts() -> None:
    """Nobody knows in which of them they are."""
    (entry,) = entries_of_table(f"{HEADER}|Comment\n8|a|b|1|60||x|c|d\n", "t")
    assert entry[2] == "has 9 cells; the header has 7; leave JobName, Comment out"


def test_a_document() -> None:
    """Its entries may be anything."""
    good, bad = entries_of_document({"jobs": [{"job_id": 5, "association": {"user": "ann"}}, 3]}, "t")
    assert good[:2] == ("jobs[0]", "jobs[0], job 5")
    assert good[2]["user"] == "ann"
    assert bad[:2] == ("jobs[1]", "jobs[1]")
    with pytest.raises(InstanceError, match="t: has no 'jobs'"):
        list(entries_of_document({}, "t"))
