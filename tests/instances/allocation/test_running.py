"""What runs now, taken from a plan: by the library and by documents, of jobs in columns and as objects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Done, run_here

import clusterplan
from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.instances.allocation.generate import generate_allocation

GENERATED = generate_allocation(12, 2, 0.6, seed=3)
RESULT = clusterplan.solve(GENERATED)
ON_SERVERS = generate_allocation(6, servers=6, seed=4)
WITH_PLACEMENT = clusterplan.solve(ON_SERVERS, "lagrangian")


def changed(instance: Any) -> Any:
    """Return an instance with its jobs as objects, the first two shorter, the last one gone and one new."""
    first, second, *others = instance.jobs
    half = [job.model_copy(update={"remaining_steps": job.remaining_steps / 2}) for job in (first, second)]
    return instance.replace(jobs=(*half, *others[:-1], others[-1].model_copy(update={"name": "new"})))


def as_table(instance: Any) -> Any:
    return instance.model_copy(update={"jobs": instance.table()})


def test_jobs_in_columns_and_as_objects_run_alike() -> None:
    """Of a variant that is gone nothing runs, and who says what runs keeps that; a larger restart_s wins."""
    first, *others = changed(GENERATED).jobs
    own = {"variant": first.variants[0].name, "ps": 1, "workers": 1}
    jobs = [first.model_dump(exclude_none=True) | {"current": own, "restart_s": 900.0}, *others]
    instance = GENERATED.replace(jobs=tuple(jobs))
    plan = [RESULT.plan[0], RESULT.plan[1].model_copy(update={"variant": "gone"}), *RESULT.plan[2:]]
    running = instance.with_running(plan, 300)
    assert running.sha256() == as_table(instance).with_running(plan, 300).sha256() != instance.sha256()
    table = running.table()
    assert (table.current_variant >= 0).tolist() == [True, False, *[True] * 9, False]
    assert table.restart_s.tolist() == [900.0, 0.0, *[300.0] * 9, 0.0]
    assert (table.current_ps[0], table.current_workers[0]) == (1, 1)


@pytest.mark.parametrize(("instance", "result"), [(GENERATED, RESULT), (ON_SERVERS, WITH_PLACEMENT)])
def test_a_change_costs_what_stability_says(instance: Any, result: Any) -> None:
    """The plan of the jobs that run costs its time alone; as much more as is told where one changes."""
    running = instance.with_running(result.plan, 300)
    formulation = AllocationFormulation(running)
    assert formulation.evaluate(result.plan)[0] == pytest.approx(result.objective)
    other = clusterplan.solve(
        instance, "marginal-gain" if instance.servers is None else "exact", gap=0.5
    ).plan
    free, priced = (AllocationFormulation(each).evaluate(other)[0] for each in (instance, running))
    key = ("variant", "ps", "workers", "placement")
    pairs = zip(other, result.plan, strict=True)
    moved = [[getattr(a, k) for k in key] != [getattr(b, k) for k in key] for a, b in pairs]
    assert priced - free == pytest.approx(300 * (np.array(moved) @ running.table().weight))
    again = clusterplan.solve(running, warm_start=result)
    assert again.objective <= result.objective * (1 + 1e-9)
    assert clusterplan.verify(running, again).ok


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the result of an instance, and with the instance that changed since."""
    clusterplan.save(changed(GENERATED), tmp_path / "now.yaml")
    clusterplan.save(changed(GENERATED), tmp_path / "table.yaml", table="csv")
    (tmp_path / "old.json").write_text(RESULT.to_json())
    return tmp_path


@pytest.mark.parametrize("name", ["now.yaml", "table.yaml"])
def test_a_document_the_options_and_the_library_say_the_same(folder: Path, name: str) -> None:
    """The result repeats the options, so that the other commands take them from it."""
    warm = "--warm-start", "old.json", "--stability", 300
    done = run_here("solve", name, *warm, "--output", "new.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    stored = json.loads((folder / "new.json").read_text())
    named = {"plan": "old.json", "seconds": 300.0, "sha256": RESULT.plan_sha256}
    assert stored["instance_options"] == {"stability": named}
    by_library = changed(GENERATED).with_running(RESULT.plan, 300)
    assert stored["objective"] == pytest.approx(clusterplan.solve(by_library, warm_start=RESULT).objective)
    document = (folder / name).read_text() + "stability: {plan: old.json, seconds: 300}\n"
    (folder / "stable.yaml").write_text(document)
    for read in (by_library, clusterplan.load(folder / "stable.yaml")):
        assert read.sha256() == stored["instance_sha256"]
    for command in (("verify",), ("diff",), ("export-plan",), ("report", "--output", "page.html")):
        done = run_here(command[0], name, "new.json", *command[1:], cwd=folder)
        assert done.returncode == 0, done.stderr
    assert "verified" in run_here("verify", "stable.yaml", "new.json", cwd=folder).stdout
    (folder / "old.json").write_text((folder / "new.json").read_text())
    assert "the file was written anew" in run_here("verify", name, "new.json", cwd=folder).stderr
    (folder / "old.json").unlink()
    assert "no such file" in run_here("verify", name, "new.json", cwd=folder).stderr.lower()


def refused(folder: Path, *options: object) -> Done:
    """Solve with options, and return what was said, without a traceback."""
    done = run_here("solve", "now.yaml", *options, cwd=folder)
    assert "Traceback" not in done.stderr
    return done


HOSTILE = {
    "not JSON": "{",
    "no result": "[1, 2]",
    "no plan": RESULT.model_copy(update={"plan": None}).to_json(),
    "a plan of nothing": json.dumps(json.loads(RESULT.to_json()) | {"plan": [{"job": 3}]}),
    "another kind": clusterplan.solve("example:heterps-ctr").to_json(),
    "two results": RESULT.to_json() + "\n" + RESULT.to_json(),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("stability", [(), ("--stability", 60)], ids=["warm start", "stability"])
def test_an_earlier_result_that_is_none_is_refused_with_its_name(
    folder: Path, text: str, stability: tuple[Any, ...]
) -> None:
    (folder / "bad.json").write_text(text)
    done = refused(folder, "--warm-start", "bad.json", *stability)
    assert done.returncode in (2, 3)
    assert "bad.json" in done.stderr or "not a plan" in done.stderr


def test_the_plan_that_runs_is_not_overwritten(folder: Path) -> None:
    """Where the result needs it; without stability it does not."""
    warm = "--warm-start", "old.json", "--output", "old.json"
    assert "is what the result refers to" in refused(folder, *warm, "--stability", 60).stderr
    assert (folder / "old.json").read_text() == RESULT.to_json()
    assert refused(folder, *warm).returncode == 0


def test_stability_needs_the_plan_that_runs_beside_its_instance(folder: Path) -> None:
    assert "give --warm-start RESULT.json too" in refused(folder, "--stability", 60).stderr
    inner = folder / "inner"
    inner.mkdir()
    clusterplan.save(GENERATED, inner / "now.yaml")
    outside = "--warm-start", "old.json", "--stability", 60
    done = run_here("solve", "inner/now.yaml", *outside, cwd=folder)
    assert "allow it with --allow-outside" in done.stderr
    assert run_here("solve", "inner/now.yaml", *outside, "--allow-outside", cwd=folder).returncode == 0
