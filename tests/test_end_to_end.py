"""Published inputs go from their own files through import, solve and verify on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import run_here

import clusterplan
from clusterplan.instances.importers import import_sailor


def sources(data: Path) -> dict[str, list[str]]:
    """Return the arguments of each import."""
    return {
        "gavel": [
            *("--throughputs", str(data / "gavel/simulation_throughputs.json")),
            *("--trace", str(data / "gavel/max_min_fairness.trace")),
            *("--capacity", "v100=64,p100=64,k80=64"),
        ],
        "tiresias": [
            *("--jobs", str(data / "tiresias/60_job.csv")),
            *("--cluster", str(data / "tiresias/n32g4.csv")),
        ],
        "pollux": [
            *("--app", str(data / "pollux/bert"), "--app", str(data / "pollux/cifar10"), "--gpus", "16"),
        ],
        "sailor": [
            *("--model-dir", str(data / "sailor/profiles/OPT-350"), "--types", "A100-40,V100-16,GH-96"),
            *("--microbatch", "4", "--limit", "A100-40=8,V100-16=16,GH-96=4", "--throughput", "60"),
        ],
    }


def with_other_count(source: str, plan: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the plan with one count of tasks, servers or units altered."""
    first = next(entry for entry in plan if entry.get("placed", True))
    if source in ("gavel", "pollux"):
        changed = {**first, "workers": first["workers"] + 1}
    elif source == "tiresias":
        changed = {**first, "servers": {name: count + 1 for name, count in first["servers"].items()}}
    else:
        changed = {**first, "units": first["units"] + 1}
    return [changed if entry is first else entry for entry in plan]


@pytest.mark.parametrize("source", ["gavel", "tiresias", "pollux", "sailor"])
def test_import_solve_verify(source: str, shared_data: Path, tmp_path: Path) -> None:
    """One JSON object with a finite bound and gap, which verifies; with a count altered it does not."""
    made = run_here("import", source, *sources(shared_data)[source], "--output", "a.yaml", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    solved = run_here("solve", "a.yaml", "--format", "json", cwd=tmp_path)
    assert solved.returncode in (0, 5), solved.stderr
    (line,) = solved.stdout.splitlines()
    result = json.loads(line)
    assert result["status"] in ("optimal", "feasible")
    assert isinstance(result["bound"], float)
    assert isinstance(result["gap"], float)
    (tmp_path / "result.json").write_text(line)
    assert run_here("verify", "a.yaml", "result.json", cwd=tmp_path).returncode == 0
    result["plan"] = with_other_count(source, result["plan"])
    (tmp_path / "result.json").write_text(json.dumps(result))
    checked = run_here("verify", "a.yaml", "result.json", cwd=tmp_path)
    assert checked.returncode == 7
    assert "wrong: broken constraint" in checked.stdout or "is stored as" in checked.stdout


def test_the_bundled_opt_350_is_the_imported_one(shared_data: Path) -> None:
    """The figures typed into the example mean what the importer reads from the source."""
    types, limit = ["A100-40", "V100-16", "GH-96"], {"A100-40": 8, "V100-16": 16, "GH-96": 4}
    imported = import_sailor(shared_data / "sailor/profiles/OPT-350", types, 4, limit, 60)
    bundled = clusterplan.load("example:opt-350-three-gpus")
    assert isinstance(bundled, clusterplan.StagingInstance)
    for typed, read in zip(bundled.layers, imported.layers, strict=True):
        assert typed.compute_s == pytest.approx(read.compute_s, abs=1e-6)
        assert typed.communication_s == pytest.approx(read.communication_s, abs=1e-6)
        assert typed.memory_gib == pytest.approx(read.memory_gib, abs=1e-4)
        assert typed.output_bytes == read.output_bytes
        assert typed.compute_parallel == read.compute_parallel
    assert [t.price_usd_per_hour for t in bundled.types] == [t.price_usd_per_hour for t in imported.types]
