"""From a real Slurm's files to a plan, to a script, and to jobs that run where the plan says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_cluster import Planned, SlurmCluster, slurm_cluster

from clusterplan.instances.importers.clusters.slurm import import_slurm

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Return a cluster of three nodes with 4 A100 each, and one with 4 L4."""
    with slurm_cluster(tmp_path_factory.mktemp("slurm")) as started:
        yield started


@pytest.fixture(autouse=True)
def _empty(cluster: SlurmCluster) -> Iterator[None]:
    """Leave an idle cluster to the next test."""
    yield
    cluster.empty()


def one_gpu_on_each(cluster: SlurmCluster) -> list[int]:
    """Start a job of one GPU on each node with A100s, of which the others are then free."""
    blockers, small = [], []
    for node in ("n1", "n2", "n3"):
        blockers.append(cluster.submit("blocker", "--gres=gpu:a100:3"))
        cluster.wait_until({blockers[-1]: f"RUNNING {node}"})
        small.append(cluster.submit("it's; touch pwned; $(touch pwned)", "--gres=gpu:a100:1"))
        cluster.wait_until({small[-1]: f"RUNNING {node}"})
    cluster.cancel(*blockers)
    return small


def test_moves_make_room_for_a_job_on_two_nodes(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Two small jobs are requeued, a waiting job starts on two nodes; the way back undoes it."""
    small = one_gpu_on_each(cluster)
    wide = cluster.submit("wide", "--nodes=2", "--gres=gpu:4")
    cluster.wait_for_reason(wide, "Resources")
    plan = Planned(cluster, tmp_path)
    assert [plan.actions()[str(job)] for job in small].count("move") == 2
    assert plan.actions()[str(wide)] == "start"
    assert plan.script("check")[0] == 0
    assert "scontrol requeuehold" in plan.script("print")[1]
    assert len(plan.differences()) == 3
    plan.run()
    assert plan.differences() == []
    assert not list(tmp_path.glob("pwned*"))
    code, said = plan.script("check")
    assert code == 1
    assert "the plan supposes" in said
    code, said = plan.script("back")
    assert code == 0, said
    cluster.wait_until({job: f"RUNNING {node}" for job, node in zip(small, ("n1", "n2", "n3"), strict=True)})
    assert cluster.state(wide).strip() == "PENDING"
    assert cluster.jobs()[wide]["required_nodes"] == ""


def test_a_node_is_emptied_and_takes_no_more_jobs(cluster: SlurmCluster, tmp_path: Path) -> None:
    """The job that waits does not take its place; the way back leads back."""
    small = one_gpu_on_each(cluster)
    wide = cluster.submit("wide", "--nodes=3", "--gres=gpu:a100:4", "--partition=main")
    cluster.wait_for_reason(wide, "Resources")
    plan = Planned(cluster, tmp_path, drain=["n1"])
    assert [plan.actions()[str(job)] for job in (*small, wide)] == ["move", "keep", "keep", "wait"]
    assert "State=DRAIN" in plan.script("print")[1]
    said = plan.run()
    assert "drain n1: it takes no more tasks" in said
    assert plan.differences() == []
    assert (
        cluster.run("sinfo", "--noheader", "--nodes=n1", "--Node", "--format=%T %E").split("\n")[0]
        == "drained clusterplan"
    )
    code, said = plan.script("back")
    assert code == 0, said
    cluster.wait_until({job: f"RUNNING {node}" for job, node in zip(small, ("n1", "n2", "n3"), strict=True)})
    assert cluster.run("sinfo", "--noheader", "--nodes=n1", "--Node", "--format=%T").split("\n")[0] == "mixed"


def test_a_node_that_is_drained_already_is_emptied(cluster: SlurmCluster, tmp_path: Path) -> None:
    """On the way back its job waits, for Slurm starts nothing there; then the operator resumes the node."""
    small = one_gpu_on_each(cluster)
    cluster.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=disk")
    plan = Planned(cluster, tmp_path)
    assert [plan.actions()[str(job)] for job in small] == ["move", "keep", "keep"]
    plan.run()
    assert plan.differences() == []
    code, said = plan.script("back")
    assert code == 0, said
    assert f"job {small[0]} cannot return to n1, which is drained" in said


def test_after_a_plan_another_may_move_the_same_jobs(cluster: SlurmCluster, tmp_path: Path) -> None:
    """The nodes on which the script has placed a job are not the user's wish."""
    small = one_gpu_on_each(cluster)
    wide = cluster.submit("wide", "--nodes=2", "--gres=gpu:4")
    cluster.wait_for_reason(wide, "Resources")
    Planned(cluster, tmp_path).run()
    again = import_slurm(*cluster.export(tmp_path))
    demands = {job.name.split()[0]: job.task_demand or {} for job in again.jobs}
    assert not [name for job in small for name in demands[str(job)] if name.startswith("node n")]


def test_who_cannot_be_requeued_stays_and_is_named(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Then too few nodes are free for the wide job, and a job on one node starts."""
    blocker = cluster.submit("blocker", "--gres=gpu:a100:3")
    cluster.wait_until({blocker: "RUNNING n1"})
    fixed = cluster.submit("fixed", "--no-requeue", "--gres=gpu:a100:1")
    cluster.wait_until({fixed: "RUNNING n1"})
    cluster.cancel(blocker)
    plan_folder = tmp_path
    others = [cluster.submit(f"four{k}", "--gres=gpu:a100:4") for k in range(3)]
    cluster.wait_until({others[0]: "RUNNING n2", others[1]: "RUNNING n3"})
    plan = Planned(cluster, plan_folder)
    assert plan.actions()[str(fixed)] == "keep"
    assert plan.actions()[str(others[2])] == "wait"
    assert any(f"{fixed} fixed (Requeue=0)" in said for said in plan.instance.assumptions)
    assert f"{fixed} fixed" in (plan_folder / "plan.sh").read_text()


def test_arrays_dependencies_and_two_partitions(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Tasks of an array are planned one by one; who waits for others is left out and named."""
    small = one_gpu_on_each(cluster)
    array = cluster.submit("array", "--array=0-2", "--gres=gpu:a100:4")
    later = cluster.submit("later", f"--dependency=afterok:{small[0]}", "--gres=gpu:a100:1")
    begins = cluster.submit("begins", "--begin=now+1hour", "--gres=gpu:a100:1")
    l4 = cluster.submit("l4", "--partition=wide", "--gres=gpu:l4:2")
    cluster.wait_until({l4: "RUNNING n4"})
    cluster.wait_for_reason(array, "Resources")
    plan = Planned(cluster, tmp_path)
    actions = plan.actions()
    assert sorted(actions[f"{array}_{task}"] or "" for task in range(3)) == ["start", "start", "wait"]
    assert str(later) not in actions
    assert str(begins) not in actions
    said = next(line for line in plan.instance.assumptions if "wait for other things" in line)
    assert f"Dependency 1 ({later} later)" in said
    assert f"BeginTime 1 ({begins} begins)" in said
    assert actions[str(l4)] == "keep"
    plan.run()
    assert plan.differences() == []


def test_drained_and_reserved_nodes(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Nothing is placed on them; a node that is drained after the plan stops the script before a change."""
    small = one_gpu_on_each(cluster)
    cluster.run("scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=test")
    four = cluster.submit("four", "--partition=wide", "--gres=gpu:4")
    cluster.wait_for_reason(four, "Resources", "ReqNodeNotAvail", "Priority")
    plan = Planned(cluster, tmp_path)
    assert plan.entries[str(four)].used_servers < {"n1", "n2", "n3"}
    assert {server.name for server in plan.instance.servers} == {"n1", "n2", "n3"}
    (node,) = plan.entries[str(four)].used_servers
    cluster.run("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
    code, said = plan.script("run")
    assert code == 1
    assert f"node {node} is 'drain" in said
    assert "+ scontrol" not in said
    cluster.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
    cluster.wait_for("node to answer", lambda: "*" not in cluster.run("sinfo", "--format=%T"))
    plan.run()
    assert plan.differences() == []
    assert len(small) == 3


def test_exclusive_jobs_get_whole_nodes_and_heterogeneous_ones_are_left_alone(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    """The script runs to its end, and everything is where the plan has it."""
    small = one_gpu_on_each(cluster)
    alone = cluster.submit("alone", "--exclusive", "--nodes=1", "--gres=gpu:a100:1")
    cluster.wait_for_reason(alone, "Resources")
    parts = cluster.submit("parts", "--gres=gpu:a100:4", ":", "--gres=gpu:a100:4")
    plan = Planned(cluster, tmp_path)
    actions = plan.actions()
    assert actions[str(alone)] == "start"
    assert sorted(actions[str(job)] or "" for job in small) == ["keep", "keep", "move"]
    assert not [job for job in actions if job.startswith(str(parts))]
    said = next(line for line in plan.instance.assumptions if "might refuse" in line)
    assert f"{parts} parts (part of a heterogeneous job)" in said
    plan.run()
    assert plan.differences() == []
    (node,) = plan.entries[str(alone)].used_servers
    assert [job for job in cluster.jobs() if cluster.state(job) == f"RUNNING {node}"] == [alone]
    code, said = plan.script("back")
    assert code == 0, said
    cluster.wait_until({job: f"RUNNING {node}" for job, node in zip(small, ("n1", "n2", "n3"), strict=True)})
    assert cluster.state(alone).strip() == "PENDING"
    assert cluster.jobs()[alone]["priority"] < 4294901760


def test_a_reservation_takes_its_nodes(cluster: SlurmCluster, tmp_path: Path) -> None:
    """A job of others is not placed on them."""
    made = cluster.run(
        "scontrol",
        "create",
        "reservation",
        "ReservationName=held",
        "StartTime=now",
        "Duration=60",
        "Users=nobody",
        "Nodes=n1",
        "Flags=IGNORE_JOBS",
    )
    assert "held" in made
    try:
        jobs = [cluster.submit(f"four{k}", "--gres=gpu:a100:4") for k in range(3)]
        cluster.wait_until({jobs[0]: "RUNNING n2", jobs[1]: "RUNNING n3"})
        cluster.wait_for("a reserved node", lambda: "RESERVED" in cluster.run("sinfo", "--json"))
        plan = Planned(cluster, tmp_path)
        assert "n1" not in {server.name for server in plan.instance.servers}
        assert plan.actions()[str(jobs[2])] == "wait"
    finally:
        cluster.run("scontrol", "delete", "ReservationName=held")


def test_a_job_that_has_ended_stops_the_script(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Nothing is changed, and the job is named."""
    small = one_gpu_on_each(cluster)
    wide = cluster.submit("wide", "--nodes=2", "--gres=gpu:4")
    cluster.wait_for_reason(wide, "Resources")
    plan = Planned(cluster, tmp_path)
    moved = next(job for job in small if plan.actions()[str(job)] == "move")
    cluster.cancel(moved)
    code, said = plan.script("run")
    assert code == 1
    assert f"job {moved} is" in said
    assert "+ scontrol" not in said
    assert not list(tmp_path.glob("*.saved"))
