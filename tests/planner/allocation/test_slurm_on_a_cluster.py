"""Plans for elastic jobs carried out in a real Slurm: what shrinks, what grows, and the way back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from allocation_instances import on_servers, planned, tasks
from slurm_cluster import SlurmCluster, slurm_cluster

from clusterplan.planner.allocation.kind import ALLOCATION

pytestmark = pytest.mark.slow
SLURM = ALLOCATION.formats["slurm"]
SERVERS = [{"name": f"n{number}", "capacity": {"gpu": 4, "cpu": 8}} for number in (1, 2, 3)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Return a cluster of three nodes with 4 A100 each."""
    with slurm_cluster(tmp_path_factory.mktemp("slurm")) as started:
        yield started


@pytest.fixture(autouse=True)
def _empty(cluster: SlurmCluster) -> Iterator[None]:
    """Leave an idle cluster to the next test."""
    yield
    cluster.empty()


def gpus(cluster: SlurmCluster, job: int) -> tuple[str, int]:
    """Return the nodes of a job, none if it waits, and the GPUs that it has there, or asks for."""
    state, _, nodes = cluster.state(job).partition(" ")
    said = cluster.run("scontrol", "--details", "show", "job", str(job))
    if state != "RUNNING":
        return "", int(re.findall(r"TresPerNode=.*:([0-9]+)", said)[0])
    found = re.findall(r"Nodes=(\S+) .*GRES=gpu:a100:([0-9]+)", said)
    return nodes, sum(len(cluster.expanded(names)) * int(each) for names, each in found)


def write(folder: Path, instance: Any, plan: Any) -> None:
    """Write the script of a plan."""
    (folder / "plan.sh").write_text("".join(f"{line}\n" for line in SLURM.lines(instance, plan)))


def test_jobs_shrink_in_place_grow_elsewhere_and_start_smaller(cluster: SlurmCluster, tmp_path: Path) -> None:
    """What shrinks is not requeued; the way back gives every job its nodes and numbers again."""
    wide = cluster.submit("wide", "--ntasks=6", "--nodes=3", "--gres=gpu:a100:2")
    small = cluster.submit("small", "--ntasks=2", "--nodes=1", "--gres=gpu:a100:2", "--nodelist=n1")
    late = cluster.submit("late", "--ntasks=4", "--nodes=1", "--gres=gpu:a100:4")
    cluster.wait_until({wide: "RUNNING n[1-3]", small: "RUNNING n1"})
    cluster.wait_for_reason(late, "Resources")
    jobs = {
        f"{wide} wide": {"current": tasks(n1=2, n2=2, n3=2)},
        f"{small} small": {"current": tasks(n1=2)},
        f"{late} late": {},
    }
    instance = on_servers(SERVERS, jobs)
    write(tmp_path, instance, planned(instance, wide=tasks(n1=2, n2=2), small=tasks(n3=4), late=tasks(n1=2)))
    began = cluster.jobs()[wide]["start_time"]
    assert cluster.script(tmp_path, "check")[0] == 0
    code, said = cluster.script(tmp_path, "run")
    assert code == 0, said
    after = [gpus(cluster, job) for job in (wide, small, late)]
    assert after == [("n[1-2]", 4), ("n3", 4), ("n1", 2)]
    assert cluster.jobs()[wide]["start_time"] == began
    code, said = cluster.script(tmp_path, "back")
    assert code == 0, said
    assert [gpus(cluster, job) for job in (wide, small, late)] == [("n[1-3]", 6), ("n1", 2), ("", 4)]
    assert cluster.run("squeue", "--noheader", f"--jobs={late}", "--format=%C").strip() == "4"


def test_a_job_that_leaves_the_node_of_its_script_is_requeued(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Slurm refuses to shrink it."""
    job = cluster.submit("job", "--ntasks=4", "--nodes=2", "--gpus-per-task=a100:1")
    cluster.wait_until({job: "RUNNING n[1-2]"})
    instance = on_servers(SERVERS, {f"{job} job": {"current": tasks(n1=2, n2=2)}})
    write(tmp_path, instance, planned(instance, job=tasks(n2=2)))
    code, said = cluster.script(tmp_path, "run")
    assert code == 0, said
    assert "so it is requeued" in said
    assert gpus(cluster, job) == ("n2", 2)


def test_what_slurm_cannot_be_asked_for_stops_the_script(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Another number of GPUs on each node, and other tasks on a node than --ntasks-per-node says."""
    options = ("--nodes=1", "--gres=gpu:a100:2", "--ntasks-per-node=2")
    job = cluster.submit("job", *options)
    cluster.wait_until({job: "RUNNING n1"})
    instance = on_servers(SERVERS, {f"{job} job": {"current": tasks(n1=2)}})
    write(tmp_path, instance, planned(instance, job=tasks(n2=2, n3=1)))
    code, said = cluster.script(tmp_path, "run")
    assert code == 1
    assert "submit it with --gpus-per-task" in said
    assert "has --ntasks-per-node=2, and the plan has 3 tasks on 2 nodes" in said
    assert "+ scontrol" not in said
