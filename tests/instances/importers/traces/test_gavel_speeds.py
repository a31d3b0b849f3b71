"""Gavel's traces as allocation instances."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.importers.traces.gavel_speeds import import_gavel

SPEEDS = {"v100": {"('A', 1)": {"null": 2.0}, "('A', 2)": {"null": 3.0}, "('B', 1)": {"null": 0.0}}}


def write(folder: Path) -> tuple[Path, Path]:
    """Write a speed table, and a trace with a job of a known and one of an unknown model."""
    (folder / "s.json").write_text(json.dumps(SPEEDS))
    lines = ["\t".join([model, "c", "-n", "0", "100", "0", "2"]) for model in ("A", "C")]
    (folder / "t.trace").write_text("\n".join(lines) + "\n")
    return folder / "s.json", folder / "t.trace"


def test_every_measured_number_of_gpus_is_offered(tmp_path: Path) -> None:
    """A model without speeds is left out, and the assumptions say so."""
    instance = import_gavel(*write(tmp_path), {"v100": 8})
    (job,) = instance.jobs
    assert (job.name, job.remaining_steps) == ("job-001 A", 100)
    speed = job.variants[0].speed
    assert speed.model == "table"
    assert [(row.workers, row.steps_per_s) for row in speed.rows] == [(1, 2.0), (2, 3.0)]
    assert "1 jobs are left out, because the speed table lacks their model: C." in instance.assumptions


def test_unknown_gpus_are_refused(tmp_path: Path) -> None:
    """Those that the table has are named."""
    with pytest.raises(InstanceError, match=r"options: capacity.k80: unknown GPU type; allowed: v100"):
        import_gavel(*write(tmp_path), {"k80": 1})


def test_a_wrong_speed_is_named(tmp_path: Path) -> None:
    """By its type and entry."""
    _, trace = write(tmp_path)
    (tmp_path / "s.json").write_text(json.dumps({"v100": {"('A', 2)": {"null": -1}}}))
    with pytest.raises(InstanceError, match=r"s\.json: v100\.\('A', 2\): null: is -1, but must be at"):
        import_gavel(tmp_path / "s.json", trace, {"v100": 1})
