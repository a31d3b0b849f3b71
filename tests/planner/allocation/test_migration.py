"""What becomes of elastic jobs in a script: they start, stop, move, shrink, or get other numbers of pods."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from allocation_instances import on_servers, planned, tasks
from kubernetes_cluster import FakeCluster, wrong_in

from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.planner.allocation.kind import ALLOCATION
from clusterplan.planner.allocation.migration import migration_of
from clusterplan.planner.migration.nodes import SLURM_NODE, check_nodes
from clusterplan.planner.migration.steps import steps

SLURM, KUBERNETES = ALLOCATION.formats["slurm"], ALLOCATION.formats["kubernetes"]
SERVERS: list[dict[str, Any]] = [{"name": name, "capacity": {"gpu": 4, "cpu": 4}} for name in "abc"]
PYTORCH, JOB_SET = "pytorchjobs.kubeflow.org", "jobsets.jobset.x-k8s.io"
PARTS = {PYTORCH: {"workers": "Worker", "ps": "Master"}, JOB_SET: {"workers": "workers"}}


def words(instance: AllocationInstance, plan: Any, shrinking: bool = True) -> list[str]:
    """Return the steps in short."""
    made = migration_of(instance, plan)
    found = steps(made.jobs, made.fits, shrinking)
    return [
        f"{step.do}{'!' if step.early else ''} {step.job} {','.join(step.servers)}".strip() for step in found
    ]


def test_what_shrinks_makes_room_before_others_are_placed() -> None:
    """A manager that cannot do so stops and places the job; what keeps its tasks is left alone."""
    jobs = {
        "wide": {"current": tasks(a=2, b=2, c=2)},
        "grows": {"current": tasks(a=2)},
        "stays": {"current": tasks(b=2)},
        "new": {},
        "gone": {"current": tasks(c=1), "optional": True, "unplaced_s": 9},
    }
    instance = on_servers(SERVERS, jobs)
    plan = planned(
        instance, wide=tasks(a=2, b=2), grows=tasks(c=4), stays=tasks(b=2), new=tasks(a=2), gone=None
    )
    order = ["stop grows a", "place grows c", "place new a", "release gone"]
    assert words(instance, plan) == ["hold new", "stop gone c", "shrink wide a,b", *order]
    waits = ["hold new", "stop gone c", "stop wide a,b,c", "place wide a,b"]
    assert words(instance, plan, shrinking=False) == waits + order


@pytest.mark.parametrize("then", [tasks(a=1, b=2), tasks(a=2, c=2), tasks({"a": 1}, a=2), tasks(a=2, b=2)])
def test_only_whole_servers_are_left_in_place(then: dict[str, Any]) -> None:
    """Fewer tasks on a server, another server and other tasks take a stop; the same tasks take nothing."""
    instance = on_servers(SERVERS, {"j": {"current": tasks(a=2, b=2)}})
    (job,) = migration_of(instance, planned(instance, j=then)).jobs
    assert (job.action, job.shrinks) == ("keep" if then == tasks(a=2, b=2) else "move", False)


@pytest.mark.parametrize("seed", range(30))
def test_no_server_holds_too_much_at_any_moment(seed: int) -> None:
    """Also while jobs change their numbers of tasks, on servers that are nearly full."""
    choose = random.Random(seed)
    left: dict[bool, dict[str, int]] = {now: dict.fromkeys("abc", 4) for now in (True, False)}

    def some(now: bool) -> dict[str, Any] | None:
        there = {name: choose.randint(0, min(2, room)) for name, room in left[now].items()}
        there = {name: count for name, count in there.items() if count}
        for name, count in there.items():
            left[now][name] -= count
        return tasks(**there) if there else None

    names = [f"j{number}" for number in range(6)]
    now, then = ({name: some(when) for name in names} for when in (True, False))
    optional = {"optional": True, "unplaced_s": 9}
    jobs = {name: {**optional, **({"current": of} if of else {})} for name, of in now.items()}
    instance = on_servers(SERVERS, jobs)
    made = migration_of(instance, planned(instance, **then))
    places = {job.name: job.now for job in made.jobs}
    for step in steps(made.jobs, made.fits, shrinking=True):
        places[step.job] = {} if step.do == "stop" else step.tasks or places[step.job]
        counts = dict.fromkeys("abc", 0)
        for placed in places.values():
            for name, count in placed.get("workers", {}).items():
                counts[name] += count
        assert max(counts.values()) <= 4, step
    assert places == {job.name: job.planned for job in made.jobs}


def elastic(resource: str, **jobs: dict[str, Any]) -> AllocationInstance:
    """Return jobs that are objects of Kubernetes."""
    workload = {"resource": resource, "namespace": "team", "parts": PARTS.get(resource, {})}
    return on_servers(
        SERVERS, {name: {"workload": {**workload, "name": name}, **of} for name, of in jobs.items()}
    )


def numbers(cluster: FakeCluster) -> list[tuple[str, int]]:
    """Return which objects got how many pods since the last call; their patches agree with the schemas."""
    found = []
    for words in cluster.commands():
        patch = json.loads(words[-1]) if "-p" in words and "--dry-run=server" not in words else {}
        spec = patch.get("spec", {})
        part = spec.get("pytorchReplicaSpecs", {}).get("Worker", {})
        if "replicas" in part or "parallelism" in spec:
            assert wrong_in(words[3], patch) == []
            found.append((words[4], part.get("replicas") or spec["parallelism"]))
            assert spec.get("completions") == spec.get("parallelism")
    return found


@pytest.mark.parametrize(("resource", "end"), [(PYTORCH, ""), (JOB_SET, "-workers-0")])
def test_pods_are_as_many_as_planned_and_as_before_on_the_way_back(
    resource: str, end: str, tmp_path: Path
) -> None:
    """Numbers are tried first, and changed while the object is held."""
    instance = elastic(resource, x={"current": tasks(a=2)}, y={})
    text = "\n".join(KUBERNETES.lines(instance, planned(instance, x=tasks(b=1, c=3), y=tasks(a=1))))
    cluster = FakeCluster.made(tmp_path, {"x": ["a", "a"]}, {"x": ["b", "c", "c", "c"], "y": ["a"]})
    (tmp_path / "refuse").touch()
    done = cluster.bash(text, "run")
    assert f"WRONG: team/x: the server refuses 4 pods in x{end}" in done.stderr
    assert numbers(cluster) == []
    (tmp_path / "refuse").unlink()
    done = cluster.bash(text, "run")
    assert done.returncode == 0, done.stderr
    assert numbers(cluster) == [(f"x{end}", 4), (f"y{end}", 1)]
    (saved,) = tmp_path.glob("plan-*")
    for name, number in (("x", 2), ("y", 3)):  # the stand-in says nothing of numbers
        (file,) = (path for path in saved.glob(f"*.team.{name}{end}.spec.*") if "template" not in path.name)
        file.write_text(str(number))
    (tmp_path / "planned" / "x").write_text("a\na\n")
    done = cluster.bash(text, "back")
    assert done.returncode == 0, done.stderr
    assert sorted(numbers(cluster)) == [(f"x{end}", 2), (f"y{end}", 3)]


def test_what_no_script_can_carry_out_is_refused() -> None:
    """Without servers, without the place of a running job, and without a number or an object."""
    pooled = generate_allocation(2, 1, seed=1)
    with pytest.raises(OptionError, match="give servers in place of resources"):
        migration_of(pooled, [])
    lost = on_servers(SERVERS, {"5 j": {"current": {"variant": "v", "workers": 1}}})
    with pytest.raises(InstanceError, match="nobody knows where"):
        migration_of(lost, planned(lost, j=tasks(a=1)))
    plain = on_servers(SERVERS, {"j": {"current": tasks(a=1)}})
    with pytest.raises(InstanceError, match=r"begins with no number of a job in Slurm$"):
        list(SLURM.lines(plain, planned(plain, j=tasks(a=2))))
    with pytest.raises(InstanceError, match="does not say which object it is"):
        list(KUBERNETES.lines(plain, planned(plain, j=tasks(a=2))))
    scaled = elastic("deployments.apps", j={"current": tasks(a=1)})
    with pytest.raises(InstanceError, match=r"of how deployments.apps are stopped and placed$"):
        list(KUBERNETES.lines(scaled, planned(scaled, j=tasks(a=2))))
    with pytest.raises(InstanceError, match="a Slurm node"):
        check_nodes("j", ["a;b"], SLURM_NODE)
    assert set(ALLOCATION.formats) == {"slurm", "kubernetes"}


def test_another_variant_is_for_people_to_set() -> None:
    """The script says so at its head."""
    instance = on_servers(SERVERS, {"5 j": {"current": tasks(a=2)}})
    lines = list(SLURM.lines(instance, planned(instance, j=tasks({"a": 1}, a=2))))
    assert "# 5 j: is planned as trained, which is for you to set in what it runs" in lines
