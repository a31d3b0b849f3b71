"""`solve --robust` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from verbs import invoke

from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.cli.common import RunOptions
from clusterplan.planner.cli.plans.ends import plan_at_ends
from clusterplan.planner.cli.solve import solve
from clusterplan.solvers.common.options import SolveOptions

DOCUMENT = {
    **{
        "schema_version": 1,
        "kind": "staging",
        "name": "one",
        "training": {"samples": 3600},
        "probe_batch": 1,
    },
    "types": [{"name": "a", "price_usd_per_hour": 1.0}, {"name": "b", "price_usd_per_hour": 1.0}],
    "layers": [{"name": "only", "compute_s": {"a": 1.0, "b": 0.9}, "compute_parallel": 0.0}],
    "uncertainty": [{"figure": "/layers/*/compute_s/b", "low": 0.5, "high": 2.0}],
}


@pytest.fixture
def instance(tmp_path: Path) -> str:
    path = tmp_path / "one.yaml"
    path.write_text(yaml.safe_dump(DOCUMENT))
    return str(path)


def test_a_table_of_regrets(instance: str) -> None:
    done = invoke(solve, instance, "--robust")
    assert done.exit_code == 0, done.output
    assert "The plan of the middle end is the safest" in done.stdout
    assert "plan of" in done.stdout


def test_data_for_programs(instance: str, tmp_path: Path) -> None:
    printed = json.loads(invoke(solve, instance, "--robust", "--format", "json").stdout)
    assert printed["safest"] == "middle"
    assert len(invoke(solve, instance, "--robust", "--format", "csv").stdout.splitlines()) == 10
    output = tmp_path / "robust.json"
    assert invoke(solve, instance, "--robust", "--output", str(output)).exit_code == 0
    assert json.loads(output.read_text())["regrets"] == printed["regrets"]


def test_a_page(instance: str, tmp_path: Path) -> None:
    output = tmp_path / "robust.html"
    assert invoke(solve, instance, "--robust", "--output", output).exit_code == 0
    assert "The plan of the middle end is the safest" in output.read_text()


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (["--jobs", "2"], "--robust takes one file"),
        (["--what-if", "floor=1"], "--robust takes one file"),
        (["--output", "x.csv"], "a page (.html) or everything (.json)"),
    ],
)
def test_what_does_not_go_together(instance: str, more: list[str], what: str) -> None:
    assert what in invoke(solve, instance, "--robust", *more, fails=OptionError)


def test_an_instance_without_intervals() -> None:
    assert "has no intervals" in invoke(solve, "example:heterps-ctr", "--robust", fails=OptionError)


def test_the_worst_exit_code_is_returned(instance: str, tmp_path: Path) -> None:
    run = RunOptions(files=[instance], output=tmp_path / "all.json", quiet=True)
    assert plan_at_ends(run, False, "auto", SolveOptions()) == 0
    path = tmp_path / "dear.yaml"
    path.write_text(yaml.safe_dump({**DOCUMENT, "cost_limit_usd": 0.6}))
    dear = RunOptions(files=[str(path)], output=tmp_path / "dear.json", quiet=True)
    assert plan_at_ends(dear, False, "auto", SolveOptions()) == 4
