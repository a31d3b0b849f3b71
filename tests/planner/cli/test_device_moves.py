"""The option --device-moves: what counts as a migration, whatever the instance says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke
from device_instances import gpus, job, sharing
from sample_documents import put

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.documents import load, parse_instance
from clusterplan.planner.batch.comparison import compare
from clusterplan.planner.batch.solve_many import BatchOptions
from clusterplan.planner.cli.solve import solve
from clusterplan.planner.cli.solving import RunOptions, batch_options
from clusterplan.planner.cli.stored_results import export_plan, report, verify
from clusterplan.solvers.common.result import SolveOptions

RUNNING = [
    sharing(name, 400, current={"n": 1}, current_devices={"n": [{"gpu": [device]}]})
    for device, name in enumerate("ab")
]
DOCUMENT: dict[str, Any] = {
    "schema_version": 1,
    "kind": "consolidation",
    "name": "moves",
    "objectives": ["value", "migrations"],
    "servers": [gpus("n", 2)],
    "jobs": [*RUNNING, job("c", 1, {"cpu": 0}, devices={"gpu": 1})],
}


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    """Return the file of an instance where one of two shares has to go to the other device."""
    return put(tmp_path / "moves.yaml", DOCUMENT)


def test_moves_count_with_the_option_alone(instance: Path, tmp_path: Path) -> None:
    """The result says so, and every verb that reads it takes it from there."""
    moved = {}
    for words in ((), ("--device-moves",)):
        answer = invoke(solve, instance, "--format", "json", "--quiet", *words)
        assert answer.exit_code == 0
        moved[words] = json.loads(answer.stdout)["objectives"][1]["value"]
    assert list(moved.values()) == [0, 1]
    result = tmp_path / "result.json"
    result.write_text(answer.stdout)
    assert invoke(verify, instance, result, "--device-moves", "--accept-claimed").exit_code == 0
    assert invoke(verify, instance, result, "--accept-claimed").exit_code == 0
    plan = invoke(export_plan, instance, result, "--format", "slurm-options")
    assert plan.exit_code == 0
    assert "to other devices of n" in plan.stderr
    page = tmp_path / "page.html"
    assert invoke(report, instance, result, "--output", page).exit_code in (0, 8)
    assert page.exists()


def test_the_document_may_say_it() -> None:
    """False is as if nothing were said, so that results of before are still of the instance."""
    plain = parse_instance(DOCUMENT).sha256()
    no, yes = (parse_instance({**DOCUMENT, "device_moves": flag}).sha256() for flag in (False, True))
    assert plain == no
    assert plain != yes


def test_processes_of_a_batch_are_told(instance: Path) -> None:
    """As the workers of a comparison."""
    run = RunOptions(files=[str(instance)], device_moves=True)
    batch = batch_options(run)
    assert batch.changes == {"device_moves": True}
    assert BatchOptions().changes == {}
    found = compare([str(instance)], ["best-fit"], SolveOptions(time_limit_s=20), batch)
    assert found.rows[0].status in ("optimal", "feasible")
    answer = invoke(solve, instance, "--jobs", 1, "--device-moves", "--quiet", "--format", "json")
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout.splitlines()[0])["objectives"][1]["value"] == 1


def test_other_kinds_have_no_such_field(tmp_path: Path) -> None:
    """A fault names the field."""
    path = tmp_path / "a.yaml"
    path.write_text("schema_version: 1\nkind: allocation\nname: a\n")
    with pytest.raises(InstanceError, match="device_moves"):
        load(path, changes={"device_moves": True})
