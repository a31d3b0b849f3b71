"""Node affinity for each group of pods.

Scripts of kubectl commands: run against a stand-in that refuses what Kubernetes refuses.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from device_instances import job, placement, server
from kubernetes_cluster import LEAST, SCHEMAS, FakeCluster, merged, wrong_in
from step_replay import overfull

from clusterplan.formulations.consolidation.explain import action_of
from clusterplan.formulations.consolidation.plan import JobPlacement
from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.planner.consolidation.kubernetes import (
    kubernetes_lines,
    kubernetes_plan,
    scheduler_notes,
    script_lines,
)
from clusterplan.planner.consolidation.migration_steps import not_planned_notes
from clusterplan.planner.migration.kubernetes import PATHS, REPLICAS

INSTANCE = placement(["value"], [server(gpu=4)], [job("a", 2)])


def test_a_document_for_each_group() -> None:
    """It names the job, and each node in a term of its own."""
    entry = JobPlacement(job='Train "B"', groups={"ps": {"n": 1}, "worker": {"n": 1, "m.x": 2}})
    documents = list(yaml.safe_load_all("\n".join(kubernetes_lines(INSTANCE, [entry]))))
    assert [made["metadata"]["name"] for made in documents] == ["train-b-ps", "train-b-worker"]
    assert documents[0]["metadata"]["annotations"] == {
        "clusterplan/job": 'Train "B"',
        "clusterplan/group": "ps",
    }
    affinity = documents[1]["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchFields"][0]["values"] for term in terms] == [["n"], ["m.x"]]


JOB, JOB_SET, POD, DEPLOYMENT = "jobs.batch", "jobsets.jobset.x-k8s.io", "pods", "deployments.apps"
PYTORCH, MPI = "pytorchjobs.kubeflow.org", "mpijobs.kubeflow.org"
PARTS = {PYTORCH: {"tasks": "Worker"}, MPI: {"tasks": "Worker"}, JOB_SET: {"tasks": "workers"}}


def owned(name: str, resource: str, tasks: int = 2, object_name: str = "", **fields: Any) -> dict[str, Any]:
    """Return a job whose tasks take two GPUs each, and that says which object it is."""
    workload = {"resource": resource, "namespace": "team", "name": object_name or name}
    return job(name, tasks, {"gpu": 2}, workload={**workload, "parts": PARTS.get(resource, {})}, **fields)


def cluster_of(*jobs: dict[str, Any], names: str = "abc") -> ConsolidationInstance:
    """Return servers of four GPUs with these jobs."""
    return placement(["value", "migrations"], [server(name, gpu=4) for name in names], list(jobs))


def plan(
    instance: ConsolidationInstance, placed: Mapping[str, Mapping[str, int]]
) -> tuple[JobPlacement, ...]:
    """Return the entries of a plan with these placements; the other jobs are not placed."""
    entries = []
    for listed in instance.jobs:
        servers = dict(placed.get(listed.name, {}))
        entry = JobPlacement(job=listed.name, placed=bool(servers), servers=servers)
        entries.append(entry.model_copy(update={"action": action_of(listed, entry)}))
    return tuple(entries)


def script(instance: ConsolidationInstance, entries: Iterable[JobPlacement]) -> str:
    """Return the script."""
    return "\n".join(script_lines(instance, tuple(entries))) + "\n"


def pods(servers: Mapping[str, int]) -> list[str]:
    """Return the server of each pod."""
    return [name for name, count in servers.items() for _ in range(count)]


def fake(folder: Path, instance: ConsolidationInstance, entries: Iterable[JobPlacement]) -> FakeCluster:
    """Return a cluster in which an object is called as its job."""
    now = {job.name: pods(group.current) for job in instance.jobs for group in job.task_groups}
    planned = {entry.job: pods(entry.servers) for entry in entries if entry.placed}
    return FakeCluster.made(folder, {name: there for name, there in now.items() if there}, planned)


def carried_out(cluster: FakeCluster, text: str, *words: str) -> list[str]:
    """Run a script, which has to end well; return the titles of its steps."""
    done = cluster.bash(text, *(words or ("run",)))
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("==")]


def changes_of(folder: Path, resource: str) -> list[tuple[str, dict[str, Any]]]:
    """Return resource and patch of each change that moves an object of a kind."""
    instance = cluster_of(owned("x", resource, current={"a": 2}))
    entries = plan(instance, {"x": {"b": 1, "c": 1}})
    cluster = fake(folder, instance, entries)
    carried_out(cluster, script(instance, entries))
    assert cluster.runs() == {"x": ["b", "c"]}
    commands = cluster.commands()
    if resource == POD:
        local = next(words for words in commands if "--local" in words and "status" in words[-3])
        return [(POD, json.loads(local[local.index("-p") + 1]))]
    return patches(commands)


def patches(commands: Iterable[list[str]]) -> list[tuple[str, dict[str, Any]]]:
    """Return resource and patch of each change, in their order."""
    found = []
    for words in commands:
        if "patch" in words and "-p" in words and "--dry-run=server" not in words and "--local" not in words:
            found.append((words[words.index("patch") + 1], json.loads(words[words.index("-p") + 1])))
    return found


def events(commands: Iterable[list[str]]) -> list[tuple[str, str]]:
    """Return what happens to which object, of what changes what servers hold."""
    found = []
    for words in commands:
        text = " ".join(words)
        if "--dry-run=server" in text or "--local" in text:
            continue
        for what, mark in (("end", '"suspend":true'), ("end", "--replicas=0"), ("start", '"suspend":false')):
            if mark in text:
                found.append((what, words[4]))
        if words[2:4] == ["delete", "pods"]:
            found.append(("end", words[4]))
    return found


SWAP = cluster_of(
    owned("x", PYTORCH, current={"a": 2}),
    owned("y", JOB, current={"b": 2}),
    owned("big", JOB_SET, 2),
    owned("later", MPI, 2),
    owned("last", JOB, 2),
    names="abc",
)
SWAPPED = plan(SWAP, {"x": {"b": 2}, "y": {"a": 2}, "big": {"c": 2}})


def test_a_plan_is_carried_out(tmp_path: Path) -> None:
    """Two jobs change places, one starts, and two that wait are held meanwhile; the way back leads back."""
    cluster, text = fake(tmp_path, SWAP, SWAPPED), script(SWAP, SWAPPED)
    said = carried_out(cluster, text)
    assert cluster.runs() == {"x": ["b", "b"], "y": ["a", "a"], "big": ["c", "c"]}
    assert said[0] == "== 1. hold big: it waits, and must not take a place that is not its own"
    assert said[-1] == "== 10. release last: it waits for room, as before"
    assert any("its new place is not free yet, and others wait for its old one" in line for line in said)
    for name, there in (("x", "a"), ("y", "b")):
        (tmp_path / "planned" / name).write_text(f"{there}\n{there}\n", encoding="utf-8")
    (tmp_path / "planned" / "big").unlink()
    carried_out(cluster, text, "back")
    assert cluster.runs() == {"x": ["a", "a"], "y": ["b", "b"]}
    assert not list((tmp_path / "suspended").iterdir())


def test_a_server_is_emptied_and_takes_no_more_pods(tmp_path: Path) -> None:
    """It is cordoned before anything moves; on the way back it takes pods again before they return."""
    instance = cluster_of(owned("x", JOB, current={"a": 2}), names="ab").replace(drain=["a"])
    entries = plan(instance, {"x": {"b": 2}})
    cluster, text = fake(tmp_path, instance, entries), script(instance, entries)
    assert carried_out(cluster, text)[0] == "== 1. drain a: it takes no more tasks"
    assert cluster.runs() == {"x": ["b", "b"]}
    (tmp_path / "planned" / "x").write_text("a\na\n", encoding="utf-8")
    carried_out(cluster, text, "back")
    assert cluster.runs() == {"x": ["a", "a"]}
    changes = [words for words in cluster.commands() if words[0] in ("cordon", "uncordon")]
    assert changes == [["cordon", "a"], ["uncordon", "a"]]


def test_what_is_no_number_of_a_step_changes_nothing(tmp_path: Path) -> None:
    """Else the checks would be passed over."""
    cluster = fake(tmp_path, SWAP, SWAPPED)
    done = cluster.bash(script(SWAP, SWAPPED), "run", "three")
    assert done.returncode == 1
    assert "'three' is no number of a step" in done.stderr
    assert not cluster.commands()


def test_no_server_holds_more_than_it_has_at_any_moment(tmp_path: Path) -> None:
    """The commands are replayed on the model; two jobs that change places stop before either starts."""
    cluster = fake(tmp_path, SWAP, SWAPPED)
    carried_out(cluster, script(SWAP, SWAPPED))
    places: dict[str, dict[str, dict[str, int]]] = {
        job.name: {"tasks": dict(job.current)} for job in SWAP.jobs if job.current
    }
    planned = {entry.job: {"tasks": dict(entry.servers)} for entry in SWAPPED if entry.placed}
    seen = events(cluster.commands())
    assert [event for event in seen if event[0] == "start"][-2:] == [("start", "later"), ("start", "last")]
    for what, name in seen:
        if what == "end":
            places.pop(name, None)
        elif name in planned:
            places[name] = planned[name]
        assert not overfull(SWAP, places), (what, name)
    assert places == planned


@pytest.mark.parametrize("resource", sorted({*PATHS, PYTORCH, MPI, JOB_SET}))
def test_patches_agree_with_the_published_schemas(tmp_path: Path, resource: str) -> None:
    """Each change, applied to the smallest object of its kind, has only fields and types that are known."""
    found = changes_of(tmp_path, resource)
    assert [wrong_in(*patch) for patch in found] == [[] for _ in found]
    (terms,) = [text for _, patch in found if "nodeSelectorTerms" in (text := json.dumps(patch))]
    assert '"values": ["b"]' in terms
    assert '"values": ["c"]' in terms


CORE = {
    JOB: ("batch/v1", "Job"),
    DEPLOYMENT: ("apps/v1", "Deployment"),
    "statefulsets.apps": ("apps/v1", "StatefulSet"),
    POD: ("v1", "Pod"),
}


@pytest.mark.parametrize("resource", CORE)
def test_kubernetes_own_schemas_accept_the_patches(tmp_path: Path, resource: str) -> None:
    """The schemas that Kubernetes publishes for each version, in their strict form."""
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    found = changes_of(tmp_path, resource)
    version, kind = CORE[resource]
    head = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": LEAST[resource]}
    assert found
    for _, patch in found:
        validate.validate(merged(head, patch), "1.30", strict=True)
    with pytest.raises(validate.ValidationError):
        validate.validate(merged(head, {"spec": {"suspended": True}}), "1.30", strict=True)


def test_the_schemas_refuse_what_is_not_in_them() -> None:
    """A field that no object has, a type that is wrong, and one that must be there."""
    assert wrong_in(JOB, {"spec": {"suspend": True}}) == []
    assert wrong_in(JOB, {"spec": {"suspended": True}}) == [
        "$.spec: Additional properties are not allowed ('suspended' was unexpected)"
    ]
    assert wrong_in(JOB, {"spec": {"suspend": "yes"}}) == ["$.spec.suspend: 'yes' is not of type 'boolean'"]
    assert wrong_in(JOB, {"spec": {"template": None}}) == ["$.spec: 'template' is a required property"]
    assert set(SCHEMAS["resources"]) >= {*PATHS, JOB_SET, PYTORCH, MPI}


def test_groups_are_limited_apart(tmp_path: Path) -> None:
    """The launcher of an MPIJob goes to another server than its workers; its old Job is removed."""
    groups = [{"name": n, "tasks": t, "demand": {"gpu": g}} for n, t, g in (("launcher", 1, 0), ("w", 2, 2))]
    parts = {"launcher": "Launcher", "w": "Worker"}
    workload = {"resource": MPI, "namespace": "team", "name": "m", "parts": parts}
    instance = cluster_of({"name": "m", "groups": groups, "workload": workload})
    entry = JobPlacement(job="m", groups={"launcher": {"a": 1}, "w": {"b": 2}}, action="start")
    cluster = FakeCluster.made(tmp_path, {}, {"m": ["a", "b", "b"]})
    carried_out(cluster, script(instance, [entry]))
    commands = cluster.commands()
    replicas = [patch["spec"][REPLICAS[MPI]] for _, patch in patches(commands) if REPLICAS[MPI] in str(patch)]
    assert [list(part) for part in replicas] == [["Launcher"], ["Worker"]]
    assert "metadata.name" in json.dumps(replicas[0])
    assert ["-n", "team", "delete", "jobs.batch", "m-launcher", "--ignore-not-found"] in commands


def test_only_run_and_back_change_anything(tmp_path: Path) -> None:
    """`check` and `print` only read; without a word the script says how it is used."""
    cluster, text = fake(tmp_path, SWAP, SWAPPED), script(SWAP, SWAPPED)
    for mode in ("check", "print"):
        done = cluster.bash(text, mode)
        assert done.returncode == 0, done.stderr
        assert all({"get", "can-i"} & {*words} or "--dry-run=server" in words for words in cluster.commands())
    assert "kubectl -n team patch jobs.batch y" in done.stderr
    usage = cluster.bash(text)
    assert usage.returncode == 2
    assert "bash plan.sh back    the way back" in usage.stdout
    assert cluster.runs() == {"x": ["a", "a"], "y": ["b", "b"]}


def test_nothing_is_changed_where_the_cluster_is_another(tmp_path: Path) -> None:
    """A job that has moved meanwhile, and a server that refuses the changes, are named."""
    cluster, text = fake(tmp_path, SWAP, SWAPPED), script(SWAP, SWAPPED)
    (tmp_path / "runs" / "x").write_text("c\nc\n", encoding="utf-8")
    done = cluster.bash(text, "run")
    assert done.returncode == 1
    assert "WRONG: team/x: its pods are on 'c 2', the plan supposes 'a 2'" in done.stderr
    assert not events(cluster.commands())
    (tmp_path / "refuse").touch()
    done = cluster.bash(text, "check")
    assert "WRONG: team/x: the server refuses to place it on b" in done.stderr
    assert "WRONG: team/y: cannot be suspended" in done.stderr


def test_pods_that_go_elsewhere_stop_the_script_which_goes_on_where_it_is_told(tmp_path: Path) -> None:
    """The message has the next step; a later step begins with what is left."""
    instance = cluster_of(owned("x", JOB), owned("y", JOB))
    entries = plan(instance, {"x": {"a": 2}, "y": {"b": 2}})
    cluster, text = fake(tmp_path, instance, entries), script(instance, entries)
    (tmp_path / "planned" / "x").write_text("a\nc\n", encoding="utf-8")
    done = cluster.bash(text, "run")
    assert done.returncode == 1
    assert "step 3: team/x is on 'a 1,c 1', planned is 'a 2'." in done.stderr
    assert "go on with: run 4, or: back" in done.stderr
    carried_out(cluster, text, "run", "4")
    assert cluster.runs() == {"x": ["a", "c"], "y": ["b", "b"]}


def test_replicas_are_placed_as_a_whole_or_left_to_the_scheduler(tmp_path: Path) -> None:
    """A Deployment whose pods all wait starts at once; where one runs on, the others are left."""
    two = [owned(f"web-{k}", DEPLOYMENT, 1, "web") for k in "12"]
    instance = cluster_of(*two)
    entries = plan(instance, {"web-1": {"a": 1}, "web-2": {"b": 1}})
    cluster = FakeCluster.made(tmp_path, {}, {"web": ["a", "b"]})
    carried_out(cluster, script(instance, entries))
    assert cluster.runs() == {"web": ["a", "b"]}
    assert [words[-1] for words in cluster.commands() if "scale" in words][1:] == [
        "--replicas=0",
        "--replicas=2",
    ]
    runs_on = cluster_of({**two[0], "current": {"a": 1}}, two[1])
    text = script(runs_on, plan(runs_on, {"web-1": {"a": 1}, "web-2": {"b": 1}}))
    assert (
        "# LEFT TO THE SCHEDULER: web-2: other pods of deployments.apps web run and stay, "
        "so it starts where there is room." in text
    )
    assert "scale deployments.apps" not in text.partition("steps()")[2]
    both = plan(runs_on, {"web-1": {"a": 1}, "web-2": {"b": 1}})
    assert list(scheduler_notes(runs_on, both)) == ["1 start is left to the scheduler: web-2"]
    assert not list(scheduler_notes(instance, entries))


def test_what_runs_in_part_is_not_restarted(tmp_path: Path) -> None:
    """Its other pods start by themselves; what never fits is not held, for no place is free for it."""
    huge = owned("huge", JOB, 9) | {"task_demand": {"gpu": 99}}
    instance = cluster_of(owned("x", JOB, current={"a": 1}), owned("y", JOB), huge)
    entries = plan(instance, {"x": {"a": 1, "c": 1}, "y": {"b": 2}})
    never = entries[2].model_copy(update={"reason": "never fits: too large"})
    text = script(instance, [*entries[:2], never])
    assert (
        "# LEFT TO THE SCHEDULER: x: it runs in part, and its other pods start where there is room." in text
    )
    cluster = fake(tmp_path, instance, entries)
    carried_out(cluster, text)
    assert {name for _, name in events(cluster.commands())} == {"y"}
    assert cluster.runs() == {"x": ["a"], "y": ["b", "b"]}


def test_what_never_fits_as_a_whole_is_held_where_one_of_its_pods_may_start(tmp_path: Path) -> None:
    """The scheduler starts pods one by one, and would give them a place that the plan has for others."""
    instance = cluster_of(owned("y", JOB), owned("huge", JOB, 99))
    entries = plan(instance, {"y": {"b": 2}})
    never = entries[1].model_copy(update={"reason": "never fits: too large"})
    cluster = fake(tmp_path, instance, entries)
    carried_out(cluster, script(instance, [entries[0], never]))
    assert {name for _, name in events(cluster.commands())} == {"y", "huge"}


def test_freed_servers_are_closed_as_drained_ones_are(tmp_path: Path) -> None:
    """Else the jobs that wait would start there; what is not planned and runs there is named."""
    instance = cluster_of(owned("x", JOB, 1, current={"a": 1}), owned("y", JOB, 1, current={"b": 1}))
    rows = instance.model_dump(mode="json", exclude_none=True)["servers"]
    rows[0] |= {"free": {"gpu": 3}, "others": ["kube/web"]}
    freed = instance.replace(servers=rows, free={"count": 1}, objectives=["free", "migrations"])
    entries = plan(freed, {"x": {"b": 1}, "y": {"b": 1}})
    note = "still on a, not planned: kube/web; it is empty when these have ended, or were moved"
    assert list(not_planned_notes(freed, entries)) == [note]
    text = script(freed, entries)
    assert f"# {note}" in text
    cluster = fake(tmp_path, freed, entries)
    assert carried_out(cluster, text, "print")[0] == "== 1. drain a: it takes no more tasks"
    assert list(not_planned_notes(freed, plan(freed, {"x": {"a": 1}, "y": {"b": 1}}))) == []


def test_what_no_script_can_move_is_refused() -> None:
    """An object of a kind that is not known, and a replica that would take the others with it."""
    other = cluster_of(owned("x", "rayclusters.ray.io", current={"a": 2}))
    with pytest.raises(InstanceError, match="is to move, but nothing is known of how rayclusters"):
        script(other, plan(other, {"x": {"b": 2}}))
    waits = cluster_of(owned("x", "rayclusters.ray.io"), owned("y", JOB), job("z"))
    text = script(waits, plan(waits, {"x": {"b": 2}, "y": {"a": 2}}))
    assert "# LEFT TO THE SCHEDULER: x: nothing is known" in text
    assert "# LEFT TO THE SCHEDULER: z: it does not say which object it is" in text
    # Who waits is no start; without a script, and without objects, nothing is left to anybody.
    started = plan(waits, {"x": {"b": 2}, "y": {"a": 2}, "z": {"c": 1}})
    assert list(scheduler_notes(waits, started)) == ["2 starts are left to the scheduler: x, z"]
    assert not list(scheduler_notes(other, plan(other, {"x": {"b": 2}})))
    assert not list(scheduler_notes(cluster_of(job("z")), started[2:]))


def test_text_of_documents_stays_text(tmp_path: Path) -> None:
    """Names of jobs stand in quotes and comments; names that could be more are refused."""
    evil = "x'; touch pwned; echo '$(touch pwned)"
    instance = cluster_of({**owned("o", JOB), "name": evil}, {**job(f"{evil} `touch pwned`")})
    entries = plan(instance, {evil: {"a": 2}})
    cluster = FakeCluster.made(tmp_path, {}, {"o": ["a", "a"]})
    said = carried_out(cluster, script(instance, entries))
    assert not (tmp_path / "pwned").exists()
    assert any(f"hold {evil}" in line for line in said)
    with pytest.raises(InstanceError):
        cluster_of(owned("x", JOB, object_name="$(touch pwned)"))
    named = placement(["value"], [server("a;b", gpu=4)], [owned("x", JOB)])
    with pytest.raises(InstanceError, match="a;b"):
        script(named, plan(named, {"x": {"a;b": 2}}))


def test_without_objects_there_are_patches_of_templates() -> None:
    """An instance that does not come from a cluster gets node affinity, as documents."""
    plain = cluster_of(job("x"), job("y"))
    text = "\n".join(kubernetes_plan(plain, plan(plain, {"x": {"a": 1}})))
    assert text.startswith("---")
    assert "bash" not in text
    assert "bash" in "\n".join(kubernetes_plan(SWAP, SWAPPED))
