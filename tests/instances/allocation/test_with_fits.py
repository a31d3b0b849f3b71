"""Measurements in a document are replaced by their fits, and the assumptions say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusterplan.instances.allocation.with_fits import or_measured_loss, with_fits
from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.files.references import Folder


def document(speed: dict[str, Any], **job: Any) -> dict[str, Any]:
    """Return a document with one job."""
    variant = {"name": "v", "worker_demand": {"gpu": 1}, "workers": {"max": 8}, "speed": speed}
    return {"jobs": [{"name": "j", "remaining_steps": 5, "variants": [variant], **job}]}


def write_speeds(folder: Path) -> None:
    """Write speeds of a job whose step takes (8/w + 1) / 10 seconds."""
    rows = [f"{w},{1 / (0.1 * (8 / w + 1))}" for w in (1, 2, 3, 4, 6, 8)]
    (folder / "s.csv").write_text("workers,steps_per_s\n" + "\n".join(rows) + "\n")


def test_a_speed_is_fitted(tmp_path: Path) -> None:
    """The coefficients give the measured times again, and an assumption names the file."""
    write_speeds(tmp_path)
    asked = {"model": "ring_allreduce", "batch": 8, "measurements": "s.csv", "allow_rank_deficient": True}
    given = document(asked)
    found = with_fits(given, "doc", Folder(tmp_path))
    speed = found["jobs"][0]["variants"][0]["speed"]
    t0, t1, t2, t3 = speed["theta"]
    for workers in (1, 4, 8):
        step_s = t0 * 8 / workers + t1 + t2 * (workers - 1) / workers + t3 * (workers - 1)
        assert step_s == pytest.approx(0.1 * (8 / workers + 1), rel=1e-3)
    assert "s.csv" in found["assumptions"][0]
    assert given == document(asked)


def test_what_contradicts_is_refused(tmp_path: Path) -> None:
    """Figures beside measurements, and files outside the folder."""
    write_speeds(tmp_path)
    for given, words in (
        (document({"measurements": "s.csv", "theta": [1]}), "both theta and measurements"),
        (document({"theta": [1]}, loss={"measurements": "l.csv"}), "stands beside remaining_steps"),
        (document({"measurements": "../s.csv"}), "lies outside the folder"),
    ):
        with pytest.raises(InstanceError, match=words):
            with_fits(given, "doc", Folder(tmp_path))


def test_a_document_without_measurements_stays() -> None:
    """No assumption is added."""
    plain = document({"model": "table"})
    assert with_fits(plain, "doc", Folder(Path())) == plain
    assert with_fits({"jobs": "x"}, "doc", Folder(Path())) == {"jobs": "x"}


def test_the_schema_offers_a_loss() -> None:
    """In place of the remaining steps."""
    schema: dict[str, Any] = {"required": ["name", "remaining_steps"], "properties": {}}
    or_measured_loss(schema)
    assert schema["required"] == ["name"]
    assert schema["anyOf"] == [{"required": ["remaining_steps"]}, {"required": ["loss"]}]
