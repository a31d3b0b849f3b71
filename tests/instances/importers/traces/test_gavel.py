"""Gavel's jobs as a trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.importers.traces.gavel import import_gavel_trace


def files(folder: Path) -> tuple[Path, Path]:
    """Write a speed table, and a trace of a job that it knows and one that it does not."""
    (folder / "s.json").write_text(json.dumps({"v100": {"('A', 2)": {"null": 4.0}}}))
    known, other = "A c d -n 1 100 2 3 -1 60", "B c d -n 1 9 1 1 -1 0"
    (folder / "t.trace").write_text("".join("\t".join(line.split()) + "\n" for line in (known, other)))
    return folder / "s.json", folder / "t.trace"


def test_a_duration_is_steps_over_speed(tmp_path: Path) -> None:
    """Jobs without a measured speed are left out, and it is said."""
    found = import_gavel_trace(*files(tmp_path), "v100", 8)
    (job,) = found.jobs
    assert (job.tasks, job.arrival_s, job.duration_s, job.weight, job.model) == (2, 60, 25, 3, "A")
    assert any("1 jobs are left out" in line for line in found.assumptions)


def test_a_type_that_is_not_there(tmp_path: Path) -> None:
    """Those that are there are named."""
    with pytest.raises(InstanceError, match="gpu_type: unknown GPU type; allowed: v100"):
        import_gavel_trace(*files(tmp_path), "h100", 8)


def test_the_real_trace(shared_data: Path) -> None:
    """607 jobs, of which 103 have no measured speed."""
    folder = shared_data / "gavel"
    files = (folder / "simulation_throughputs.json", folder / "msr-seed0-e13805.trace")
    assert len(import_gavel_trace(*files, "v100", 64).jobs) == 504
