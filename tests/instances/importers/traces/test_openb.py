"""openb's pods as a trace.

The openb importer: what it makes of servers and pods, the load, GPU models, and rows that are wrong.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from sample_documents import said

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.documents import load, save
from clusterplan.instances.importers.traces.openb import import_openb, import_openb_trace
from clusterplan.planner.api import solve

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn,8000,1000,4,T4\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,scheduled_time,deletion_time\n"


def files(folder: Path, *pods: str) -> tuple[Path, Path]:
    """Write one server, and pods."""
    (folder / "nodes.csv").write_text(NODES)
    (folder / "pods.csv").write_text(PODS + "".join(f"{pod}\n" for pod in pods))
    return folder / "nodes.csv", folder / "pods.csv"


def test_servers_without_gpus_are_refused(tmp_path: Path) -> None:
    """There is nothing to schedule on; of models nothing is said where no pod names any."""
    nodes, pods = files(tmp_path, "a,500,10,1,250,100,110,150")
    assert "GPU models" not in said(import_openb_trace(nodes, pods))
    nodes.write_text(NODES.replace(",4,", ",0,"))
    with pytest.raises(InstanceError, match=r"nodes\.csv: has no GPUs$"):
        import_openb_trace(nodes, pods)


def test_lists_without_times_are_refused(tmp_path: Path) -> None:
    """With what is missing."""
    with pytest.raises(InstanceError, match="has no pod that ran, ended and fits"):
        import_openb_trace(*files(tmp_path, "c,1,1,1,1000,5,,"))


OPENB_NODES = (
    "sn,cpu_milli,memory_mib,gpu,model",
    "n0,64000,262144,2,P100",
    "n1,96000,393216,8,G2",
    "n2,104000,524288,2,T4",
)
OPENB_PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos",
    "a,8000,30517,0,0,,BE",
    "b,4000,7629,1,460,,LS",
    "c,88000,327680,8,1000,G2,LS",
    "d,4000,15258,1,1000,P100|T4|P100,LS",
    "e,6000,12288,2,1000,,LS",
)


def small(
    folder: Path, pods: tuple[str, ...] = OPENB_PODS, nodes: tuple[str, ...] = OPENB_NODES, **options: Any
) -> Any:
    for name, lines in (("nodes.csv", nodes), ("pods.csv", pods)):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return import_openb(folder / "nodes.csv", folder / "pods.csv", **options)


def test_gpus_as_devices(tmp_path: Path) -> None:
    """A pod holds whole devices or a share of one; it is worth as much as with pooled GPUs."""
    several = (*OPENB_PODS, "f,1,1,2,500,,", "g,1,1,1,0,,")
    instance = small(tmp_path, several, devices=True)
    assert [server.devices and server.devices["gpu"].count for server in instance.servers] == [2, 8, 2]
    assert instance.servers[0].capacity == {"cpu": 64000, "memory_mib": 262144}
    jobs = {job.name: job for job in instance.jobs}
    assert {name: (job.devices, job.share) for name, job in jobs.items()} == {
        "a": (None, None),
        "b": (None, {"gpu": 460}),
        "c": ({"gpu": 8}, None),
        "d": ({"gpu": 1}, None),
        "e": ({"gpu": 2}, None),
        "g": (None, None),
    }
    assert [job.worth for job in instance.jobs] == [0, 460, 8000, 1000, 2000, 0]
    assert "pooled" not in said(instance)
    assert "1 pod is invalid and left out: f (gpu_milli is 500 of each of 2 GPUs; a share is of one)" in said(
        instance
    )
    pooled = small(tmp_path, several)
    assert "GPUs are pooled" in said(pooled)
    assert pooled.jobs[5].task_demand == {"gpu": 1000, "cpu": 1, "memory_mib": 1}
    assert solve(instance).objective is not None


def test_every_pod_placed_on_the_fewest_servers(tmp_path: Path) -> None:
    """With `must_place` a plan places all; here c needs all of n1, and n0 or n2 has no room for e with d."""
    instance = small(tmp_path, must_place=True)
    assert instance.objectives == ("servers",)
    assert all(job.must_place for job in instance.jobs)
    result = solve(instance)
    assert (result.status, result.objective) == ("optimal", 3)


def test_pods_that_fit_nowhere_are_left_out_where_all_must_be_placed(tmp_path: Path) -> None:
    """By their GPUs, CPUs and memory on the servers of the models that they list; else they just wait."""
    never = ("f,96001,1,1,100,G2,", "g,1,1,4,1000,P100|T4,", "h,1,524289,0,0,,", "i,1,1,1,1,A10,")
    instance = small(tmp_path, (*OPENB_PODS, *never), must_place=True)
    assert [job.name for job in instance.jobs] == ["a", "b", "c", "d", "e"]
    assert "4 pods fit on no server and are left out, for the others could not" in said(instance)
    assert "f, g, h, i." in said(instance)
    assert len(small(tmp_path, (*OPENB_PODS, *never)).jobs) == 9


def test_pods_arrive_until_they_ask_for_the_load(tmp_path: Path) -> None:
    """Shuffled pods are taken before the first with which they would ask for more than the load."""
    pods = (OPENB_PODS[0], *(f"p{number},1,1,1,{100 + number}" + ",," for number in range(100)))
    instance = small(tmp_path, pods, load=0.5)
    asked = sum(job.worth for job in instance.jobs)
    assert 6000 - 200 < asked <= 6000
    names = [job.name for job in instance.jobs]
    assert names != sorted(names, key=lambda name: int(name[1:]))
    assert len(set(names)) == len(names) < 100
    assert [job.name for job in small(tmp_path, pods, load=0.5).jobs] == names
    assert [job.name for job in small(tmp_path, pods, load=0.5, seed=1).jobs] != names
    # The load is not only a length: a longer prefix of the same order comes with a higher one.
    assert [job.name for job in small(tmp_path, pods, load=0.8).jobs][: len(names)] == names


def test_a_load_that_no_pods_can_ask_for(tmp_path: Path) -> None:
    """Pods without GPUs ask for no load, and tiny ones would be too many."""
    with pytest.raises(InstanceError, match="load: no pod asks for a GPU; import all pods"):
        small(tmp_path, OPENB_PODS[:2], load=1)
    tiny = ("name,cpu_milli,memory_mib,num_gpu,gpu_milli", "a,1,1,1,1")
    servers = (OPENB_NODES[0], *(f"s{number},1,1,64,G2" for number in range(200)))
    with pytest.raises(InstanceError, match=r"load: takes more than 30,000 pods a second time; lower it"):
        small(tmp_path, tiny, servers, load=10)
    with pytest.raises(InstanceError, match="load: is 11"):
        small(tmp_path, load=11)


def test_wrong_rows_are_left_out_and_named(tmp_path: Path) -> None:
    """The rest is imported; a line says how many are missing and what is wrong with the first."""
    wrong = ("f,-1,1,1,100,,", "b,1,1,1,100,,", "g,1,1,1,2000,,", "h,1,1", ",1,1,1,100,,")
    instance = small(tmp_path, (*OPENB_PODS, *wrong), (*OPENB_NODES, "n3,many,1,1,T4"))
    assert [job.name for job in instance.jobs] == ["a", "b", "c", "d", "e"]
    assert (
        "5 pods are invalid and left out: f (cpu_milli is -1.0, but must be at least 0), "
        "b (is listed twice), g (gpu_milli is '2000', but must be at most 1000), …." in said(instance)
    )
    assert "1 server is invalid and left out: n3 (cpu_milli is " in said(instance)


def test_a_file_without_a_valid_row_is_refused(tmp_path: Path) -> None:
    """It says what is wrong with its rows."""
    with pytest.raises(InstanceError, match="line 2: has 2 cells; the header has 7"):
        small(tmp_path, (OPENB_PODS[0], "a,1"))


def test_packed_files_are_read(tmp_path: Path) -> None:
    """The list of pods may be packed by gzip, as published lists often are."""
    plain = small(tmp_path)
    (tmp_path / "pods.csv.gz").write_bytes(gzip.compress((tmp_path / "pods.csv").read_bytes()))
    packed = import_openb(tmp_path / "nodes.csv", tmp_path / "pods.csv.gz")
    assert packed.jobs == plain.jobs
    assert packed.name == "openb-pods"


@pytest.mark.parametrize(
    ("pods", "jobs", "asked"),
    [
        ("gpuspec10", 8152, 6_086_800),
        pytest.param("cpu050", 7439, 6_086_800, marks=pytest.mark.slow),
        pytest.param("multigpu50", 9061, 11_358_800, marks=pytest.mark.slow),
    ],
)
def test_the_published_lists(shared_data: Path, tmp_path: Path, pods: str, jobs: int, asked: int) -> None:
    """All rows are valid: 1,213 servers with 6,212 GPUs, and as many pods as the file has lines."""
    folder = shared_data / "openb"
    instance = import_openb(folder / "nodes.csv", folder / f"pods_{pods}.csv.gz")
    assert len(instance.servers) == 1213
    assert sum(server.capacity["gpu"] for server in instance.servers) == 6_212_000
    assert len(instance.jobs) == jobs
    assert sum(job.worth for job in instance.jobs) == asked
    assert "left out" not in said(instance).replace("may be left out", "")
    save(instance, tmp_path / "saved.json")
    assert load(tmp_path / "saved.json") == instance
