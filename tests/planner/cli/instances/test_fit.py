"""The commands that fit measurements."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clusterplan.instances.allocation.fits import fit_loss, fit_speed
from clusterplan.planner.cli.instances.fit import fits


@pytest.fixture
def speeds(tmp_path: Path) -> Path:
    """Return a file with speeds of ring all-reduce."""
    rows = [f"{w},{1 / (0.8 / w + 0.1 + 0.2 * (w - 1) / w + 0.01 * (w - 1))}" for w in range(1, 9)]
    path = tmp_path / "s.csv"
    path.write_text("workers,steps_per_s\n" + "\n".join(rows) + "\n")
    return path


def test_a_speed_as_json_and_as_a_table(speeds: Path) -> None:
    """The figures are those of the fit; the table ends with the field that a document takes."""
    words = ["speed", str(speeds), "--model", "ring_allreduce", "--batch", "8", "--allow-rank-deficient"]
    fit = fit_speed(speeds, "ring_allreduce", 8, True)
    done = CliRunner().invoke(fits, [*words, "--format", "json"])
    assert json.loads(done.stdout) == json.loads(fit.model_dump_json())
    lines = CliRunner().invoke(fits, words).stdout.splitlines()
    assert lines[-1].startswith("speed: {model: ring_allreduce, theta: [")
    assert any(line.startswith("θ0 = ") for line in lines)


def test_a_loss_as_json_and_as_a_table(tmp_path: Path) -> None:
    """Remaining steps stand in the last line."""
    path = tmp_path / "l.csv"
    path.write_text("step,loss\n" + "".join(f"{k * 100},{1 / (0.1 * k + 1) + 0.1}\n" for k in range(30)))
    words = ["loss", str(path), "--steps-per-epoch", "100", "--delta", "0.001", "--seed", "3"]
    fit = fit_loss(path, 100, 0.001, seed=3)
    done = CliRunner().invoke(fits, [*words, "--format", "json"])
    assert json.loads(done.stdout) == json.loads(fit.model_dump_json())
    lines = CliRunner().invoke(fits, words).stdout.splitlines()
    assert lines[-1] == f"remaining_steps: {fit.remaining_steps:.10g}"
