"""Importers: what they make of the real files, and what they say about broken ones.

Clusters of which the whole import is recorded (`recorded/given/imports.json`) can be planned.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from recorded.store import stored
from sample_documents import faults, is_kept, said

import clusterplan
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.common.speed import RingAllreduce, SpeedTable
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.instances.documents import parse_instance
from clusterplan.instances.importers import import_gavel, import_pollux, import_sailor, import_tiresias
from clusterplan.instances.importers.traces.tiresias import TENSORS_MB
from clusterplan.instances.staging.instance import StagingInstance

GPUS = {"v100": 36, "p100": 36, "k80": 36}
SAILOR_TYPES = ["A100-40", "V100-16", "GH-96"]
SAILOR_LIMITS = {"A100-40": 8, "V100-16": 16, "GH-96": 4}


# Gavel -----------------------------------------------------------------------------------------------


def real_gavel(shared_data: Path, trace: str, first: int | None = None) -> AllocationInstance:
    folder = shared_data / "gavel"
    return import_gavel(folder / "simulation_throughputs.json", folder / trace, GPUS, first)


@pytest.mark.parametrize(
    ("trace", "jobs", "asked"),
    [
        ("max_min_fairness.trace", 96, 169),
        ("msr-seed0-51b7ef.trace", 18, None),
        pytest.param("msr-seed0-e13805.trace", 607, None, marks=pytest.mark.slow),
    ],
)
def test_gavel_counts(shared_data: Path, trace: str, jobs: int, asked: int | None) -> None:
    """Traces of both layouts give one job a line, and the note says how many GPUs they ask."""
    instance = real_gavel(shared_data, trace)
    assert len(instance.jobs) == jobs
    assert instance.resources == GPUS
    assert asked is None or f"asks {asked} GPUs for the {jobs} jobs" in said(instance)
    assert is_kept(instance)


def test_gavel_first_job(shared_data: Path) -> None:
    """The first job of the trace has its steps and the measured speeds of all three types."""
    job = real_gavel(shared_data, "max_min_fairness.trace").jobs[0]
    assert (job.name, job.remaining_steps, job.weight) == ("job-001 ResNet-18 (batch size 128)", 925982, 1)
    assert [variant.name for variant in job.variants] == ["v100", "p100", "k80"]
    speed = job.variants[0].speed
    assert isinstance(speed, SpeedTable)
    assert {row.workers: round(row.steps_per_s, 3) for row in speed.rows} == {
        1: 17.995,
        2: 23.985,
        4: 69.951,
        8: 162.092,
    }


def test_gavel_leaves_zero_speeds_out(shared_data: Path) -> None:
    """ResNet-50 with batch 128 has only one usable speed on a K80, and the note names the others."""
    instance = real_gavel(shared_data, "msr-seed0-e13805.trace")
    assert "3 measured speeds are 0" in said(instance)
    assert "103 of these jobs ask a number of GPUs that the speed table lacks" in said(instance)
    job = next(job for job in instance.jobs if "ResNet-50 (batch size 128)" in job.name)
    k80 = next(variant.speed for variant in job.variants if variant.name == "k80")
    assert isinstance(k80, SpeedTable)
    assert [row.workers for row in k80.rows] == [1]


THROUGHPUTS = {
    "v100": {
        "('A3C', 1)": {"null": 2.0},
        "('LM (batch size 5)', 2)": {"null": 3.0, "('A3C', 1)": [1.0, 1.0]},
    },
    "k80": {"('A3C', 1)": {"null": 0.0}},
    "v100_unconsolidated": {"('A3C', 1)": {"null": 1.0}},
}


def ten_columns(model: str = "A3C", steps: str = "100", priority: str = "1", slo: str = "-1.0") -> str:
    return "\t".join([model, "python3 main.py", ".", "--steps", "1", steps, "1", priority, slo, "0"])


def small_gavel(
    folder: Path,
    trace: str,
    throughputs: Any = THROUGHPUTS,
    capacity: dict[str, int] | None = None,
    first: int | None = None,
) -> AllocationInstance:
    table, lines = folder / "speeds.json", folder / "small.trace"
    table.write_text(throughputs if isinstance(throughputs, str) else json.dumps(throughputs))
    lines.write_text(trace)
    return import_gavel(table, lines, {"v100": 4} if capacity is None else capacity, first)


@pytest.mark.parametrize(
    ("throughputs", "expected"),
    [
        ({"v100": []}, "v100: is not a mapping of entries"),
        ({"v100": {"('A3C', 1)": {}}}, "has no 'null'"),
        ({"v100": {"('A3C', 1)": {"null": -1}}}, "must be at least 0"),
        ('{"v100": {"(\'A3C\', 1)": {"null": NaN}}}', "finite"),
        ('{"v100": {"(\'A3C\', 1)": {"null": 1' + "0" * 400 + "}}}", "is too large"),
        ('{"v100": {"(\'A3C\', 1)": {"null": 1' + "0" * 5000 + "}}}", "not a finite number"),
    ],
)
def test_gavel_bad_throughputs(tmp_path: Path, throughputs: Any, expected: str) -> None:
    """Each fault of a speed table names the file, the place and what is wrong."""
    (fault,) = faults(lambda: small_gavel(tmp_path, ten_columns(), throughputs))
    assert fault.startswith(str(tmp_path / "speeds.json"))
    assert expected in fault


@pytest.mark.parametrize(
    ("capacity", "first", "expected"),
    [
        ({"h100": 8}, None, "options: capacity.h100: unknown GPU type 'h100'; the GPU types are: v100, k80"),
        ({"v100_unconsolidated": 8}, None, "the GPU types are: v100, k80"),
        ({}, None, "options: capacity: is empty; GPU types: v100, k80"),
        ({"v100": 0}, None, "options: capacity.v100: is 0, but must be at least 1"),
        ({"v100": 4}, 0, "options: first: is 0, but must be at least 1"),
    ],
)
def test_gavel_bad_options(
    tmp_path: Path, capacity: dict[str, int], first: int | None, expected: str
) -> None:
    """A capacity of an unknown type, or of nothing, is refused with the types that there are."""
    (fault,) = faults(lambda: small_gavel(tmp_path, ten_columns(), capacity=capacity, first=first))
    assert expected in fault


# Tiresias --------------------------------------------------------------------------------------------


def test_tiresias_counts(shared_data: Path) -> None:
    """The 60 jobs of the source ask 170 GPUs, and the cluster of 32 servers has 128."""
    folder = shared_data / "tiresias"
    instance = import_tiresias(folder / "60_job.csv", folder / "n32g4.csv")
    assert len(instance.jobs) == 60
    assert sum(job.worth for job in instance.jobs) == 170
    assert len(instance.expanded_servers) == 32
    assert sum(server.capacity["gpu"] for server in instance.expanded_servers) == 128
    assert instance.servers[0].capacity == {"gpu": 4, "cpu": 40, "memory_gib": 256}
    assert instance.objectives == ("value", "spread", "servers")
    assert is_kept(instance)


def test_tiresias_spread(shared_data: Path) -> None:
    """The 24 jobs of the four models with one huge tensor are consolidated; googlenet is named as unknown."""
    folder = shared_data / "tiresias"
    instance = import_tiresias(folder / "60_job.csv", folder / "n32g4.csv")
    required = {job.name.split()[1] for job in instance.jobs if instance.spread_of(job) == "required"}
    assert required == {"vgg19", "vgg16", "vgg11", "alexnet"}
    assert sum(instance.spread_of(job) == "required" for job in instance.jobs) == 24
    assert "6 jobs may spread freely, as tensor sizes of their model are unknown: googlenet." in said(
        instance
    )


def test_tiresias_switches(shared_data: Path) -> None:
    """A cluster with several switches has one rack and one row of servers for each."""
    folder = shared_data / "tiresias"
    instance = import_tiresias(folder / "60_job.csv", folder / "n160g8.csv")
    assert [server.rack for server in instance.servers] == [f"switch-{index}" for index in range(5)]
    assert len(instance.expanded_servers) == 160
    assert is_kept(instance)


def test_tiresias_tensors_typed_in(shared_data: Path) -> None:
    """The built-in tensor figures are those of the published lists."""
    lists = json.loads((shared_data / "published" / "tensor_sizes_mb.json").read_text())
    assert {model: (max(sizes), round(sum(sizes), 6)) for model, sizes in lists.items()} == TENSORS_MB


JOBS = "job_id,num_gpu,submit_time,model_name,duration,interval\n0,2,0,vgg19,1,3\n1,4,0,mine,1,3\n"
CLUSTER = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n1,2,4,40,256\n"


def small_tiresias(
    folder: Path, jobs: str = JOBS, cluster: str = CLUSTER, tensors: str | None = None
) -> ConsolidationInstance:
    names = {"jobs.csv": jobs, "cluster.csv": cluster, "tensors.json": tensors}
    for name, text in names.items():
        if text is not None:
            (folder / name).write_text(text)
    sizes = None if tensors is None else folder / "tensors.json"
    return import_tiresias(folder / "jobs.csv", folder / "cluster.csv", sizes)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"jobs": JOBS.replace("1,4,", "0,4,")}, "jobs.csv: rows[1].job_id: '0' is already used by rows[0]"),
        ({"jobs": JOBS.replace("vgg19", "")}, "jobs.csv: line 2: model_name: is missing"),
        ({"jobs": JOBS + "2,3\n"}, "jobs.csv: line 4: has 2 cells; the header has 6"),
        ({"jobs": JOBS.split("\n", maxsplit=1)[0]}, "jobs.csv: has a header but no rows"),
        ({"cluster": CLUSTER.replace("256", "much")}, "line 2: mem_p_node: is 'much', which is not a number"),
        (
            {"cluster": CLUSTER.replace("1,2,", "1000000000,2,")},
            "line 2: num_switch: is '1000000000', but must",
        ),
        ({"tensors": "{"}, "tensors.json: line 1, column 2: is not valid JSON"),
        ({"tensors": "[]"}, "tensors.json: tensors_mb: is [], which is not a mapping"),
    ],
)
def test_tiresias_bad_file(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    """Each fault names the file, the row or place, and what is wrong."""
    (fault,) = faults(lambda: small_tiresias(tmp_path, **files))
    assert expected in fault


# Pollux ----------------------------------------------------------------------------------------------

POLLUX_APPS = ("bert", "cifar10", "deepspeech2", "imagenet")


def real_pollux(shared_data: Path, apps: tuple[str, ...] = POLLUX_APPS, **over: Any) -> AllocationInstance:
    return import_pollux([shared_data / "pollux" / app for app in apps], **{"gpus": 64, **over})


@pytest.mark.parametrize(
    ("app", "points", "error", "gpus"),
    [
        ("bert", 720, 7.9, (4, 12)),
        ("cifar10", 1512, 11.5, (4, 64)),
        ("deepspeech2", 952, 8.7, (4, 32)),
        ("imagenet", 1152, 9.0, (4, 40)),
    ],
)
def test_pollux_fits(shared_data: Path, app: str, points: int, error: float, gpus: tuple[int, int]) -> None:
    """All measurements of both files make one formula, with an error of 8 to 12 %."""
    instance = real_pollux(shared_data, (app,))
    (job,) = instance.jobs
    variant = job.variants[0]
    assert isinstance(variant.speed, RingAllreduce)
    assert variant.workers is not None
    assert (variant.workers.min, variant.workers.max) == gpus
    assert f"fitted to {points} step times, MAPE {error:.1f} %" in said(instance)
    assert job.remaining_steps == 10_000
    assert is_kept(instance)


@pytest.mark.parametrize("app", POLLUX_APPS)
def test_pollux_formula_and_table_agree(shared_data: Path, app: str) -> None:
    """At the job's global batch the formula is near the step times that were measured."""
    ring = real_pollux(shared_data, (app,)).jobs[0].variants[0].speed
    table = real_pollux(shared_data, (app,), speed="table").jobs[0].variants[0].speed
    assert isinstance(ring, RingAllreduce)
    assert isinstance(table, SpeedTable)
    errors = [abs(float(ring.step_time_s(0, row.workers)) * row.steps_per_s - 1) for row in table.rows]
    assert sum(errors) / len(errors) < 0.12
    assert table.rows[-1].steps_per_s > table.rows[0].steps_per_s


def test_pollux_options(shared_data: Path) -> None:
    """Batches and samples are by application; samples become steps of the global batch."""
    batch, samples = {"imagenet": 1600}, {"imagenet": 1_600_000}
    instance = real_pollux(shared_data, ("imagenet", "bert"), gpus=16, batch=batch, samples=samples)
    imagenet, bert = instance.jobs
    assert (imagenet.remaining_steps, bert.remaining_steps) == (1000, 10_000)
    assert imagenet.variants[0].workers is not None
    assert (imagenet.variants[0].workers.min, imagenet.variants[0].workers.max) == (8, 16)
    assert instance.resources == {"gpu": 16}
    assert "1,600,000 samples of work left, global batch 1600" in said(instance)


PLACEMENTS = "placement,local_bsz,step_time,sync_time\n" + "".join(
    f"{placement},{local},{0.1 + 0.01 * local + 0.02 * len(placement)},0.1\n"
    for placement in ("1", "2", "11", "4", "44")
    for local in (8, 16, 32)
)
SCALABILITY = "num_nodes,num_replicas,local_bsz,step_time,sync_time\n6,12,8,0.5,0.1\n6,12,16,0.6,0.1\n"


def small_pollux(
    folder: Path, placements: str = PLACEMENTS, scalability: str = SCALABILITY, **over: Any
) -> AllocationInstance:
    app = folder / "app"
    app.mkdir(exist_ok=True)
    (app / "placements.csv").write_text(placements)
    (app / "scalability.csv").write_text(scalability)
    return import_pollux([app], **{"gpus": 12, **over})


def test_pollux_table_looks_up_the_share_of_the_batch(tmp_path: Path) -> None:
    """With M = 48, two GPUs take 24 samples each: halfway between 16 and 32, averaged over placements."""
    instance = small_pollux(tmp_path, speed="table", batch={"app": 48})
    speed = instance.jobs[0].variants[0].speed
    assert isinstance(speed, SpeedTable)
    assert [row.workers for row in speed.rows] == [2, 4]
    assert 1 / speed.rows[0].steps_per_s == pytest.approx(0.1 + 0.24 + 0.02 * 1.5)
    assert "interpolated" in said(instance)


def test_pollux_offers_only_what_was_measured(tmp_path: Path) -> None:
    """Numbers of GPUs whose share of the batch was not measured, or that the cluster lacks, are left out."""
    wide = small_pollux(tmp_path, batch={"app": 128}).jobs[0].variants[0].workers
    assert wide is not None
    assert (wide.min, wide.max) == (4, 12)
    narrow = small_pollux(tmp_path, batch={"app": 128}, gpus=11).jobs[0].variants[0].workers
    assert narrow is not None
    assert (narrow.min, narrow.max) == (4, 8)
    with_all = small_pollux(tmp_path, gpus=2).jobs[0].variants[0].workers
    assert with_all is not None
    assert (with_all.min, with_all.max) == (1, 2)
    (line,) = faults(lambda: small_pollux(tmp_path, batch={"app": 1000}))
    assert line.startswith("options: batch.app: is 1000, which no measured number of GPUs up to 12")
    assert "global batches of 8 to 256" in line


def test_pollux_default_batch_was_measured(tmp_path: Path) -> None:
    """Where nobody takes four times the largest share, it is what most numbers of GPUs train.

    So NCF was measured: one GPU takes 32,768 samples, and others hardly more together.
    """
    shares = {1: 32768, 2: 16384, 4: 8193, 12: 2731}
    rows = [f"{gpus},{local},0.1,0" for gpus in (1, 2, 4) for local in (32, shares[gpus])]
    placements = "\n".join(["placement,local_bsz,step_time,sync_time", *rows, ""])
    scalability = f"num_nodes,num_replicas,local_bsz,step_time\n6,12,32,0.1\n6,12,{shares[12]},0.1\n"
    instance = small_pollux(tmp_path, placements, scalability, speed="table")
    assert "global batch 32768, 1 to 12 GPUs" in said(instance)
    assert "global batch 128, " in said(small_pollux(tmp_path))


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"scalability": SCALABILITY + "6,0,8,1,0\n"}, "scalability.csv: line 4: num_replicas: is 0"),
        ({"scalability": ""}, "scalability.csv: is empty"),
    ],
)
def test_pollux_bad_files(tmp_path: Path, files: dict[str, str], words: str) -> None:
    """A malformed file is named with its line and column."""
    (line,) = faults(lambda: small_pollux(tmp_path, **files))  # type: ignore[arg-type]
    assert words in line


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({"gpus": 0}, "options: gpus: is 0"),
        ({"samples": {"app": -5}}, "options: samples.app: is -5"),
        ({"steps": 0}, "options: steps: is 0"),
        ({"speed": "fast"}, "options: speed: is 'fast'; allowed: 'ring'"),
    ],
)
def test_pollux_bad_options(tmp_path: Path, over: dict[str, Any], words: str) -> None:
    """A wrong option is one fault with what is allowed."""
    assert faults(lambda: small_pollux(tmp_path, **over))[0].startswith(words)


WORKLOAD = "name,time,application,num_replicas,batch_size\na,0,app,2,32\nb,5,other,1,8\nc,9,app,4,64\n"


def pollux_on_servers(folder: Path, placements: str, **over: Any) -> AllocationInstance:
    (folder / "workload-1.csv").write_text(WORKLOAD)
    given = {"servers": 4, "workload": folder / "workload-1.csv", "gpus": None, **over}
    return small_pollux(folder, placements, **given)


def test_pollux_takes_the_slowest_of_the_placements_on_as_many_servers(tmp_path: Path) -> None:
    """Steps at the share of the batch of each job; a server has four GPUs, and no more servers are used."""
    placements = PLACEMENTS + "13,8,0.5,0\n13,32,0.5,0\n22,8,0.4,0\n22,32,0.9,0\n5,8,0.1,0\n111,16,0.1,0\n"
    instance = pollux_on_servers(tmp_path, placements, jobs=5, servers=2, samples={"app": 6400})
    names = ["a", "c", "a again 1", "c again 1", "a again 2"]
    assert [job.name for job in instance.jobs] == names
    assert [job.remaining_steps for job in instance.jobs[:2]] == [200, 100]
    assert dict(instance.expanded_servers)["server-1"].capacity == {"gpu": 4}
    speed = instance.jobs[0].variants[0].speed
    assert isinstance(speed, SpeedTable)
    found = {(row.workers, row.servers): 1 / row.steps_per_s for row in speed.rows}
    shares = {(1, 1): 0.44, (2, 1): 0.28, (2, 2): 0.3, (4, 1): 0.2, (4, 2): 0.5}
    assert found == pytest.approx(shares)
    larger = {(r.workers, r.servers): 1 / r.steps_per_s for r in instance.jobs[1].variants[0].speed.rows}
    assert larger[4, 2] == pytest.approx(0.4 + 0.5 / 3)
    assert larger[8, 2] == pytest.approx(0.22)
    assert "1 of 3 jobs are left out" in said(instance)
    assert "The 2 usable jobs of the workload are taken again and again until there are 5" in said(instance)


@pytest.mark.parametrize("app", ["cifar10", "deepspeech2"])
def test_a_plan_is_as_fast_as_pollux_promises_wherever_workers_are(shared_data: Path, app: str) -> None:
    """No placement that was measured at a share of the batch is slower than what counts for it."""
    folder = shared_data / "pollux"
    workload = folder / "workloads" / "workload-1.csv"
    instance = import_pollux([folder / app], servers=20, workload=workload)
    batches = {
        row["name"]: int(row["batch_size"]) for row in csv.DictReader(workload.read_text().splitlines())
    }
    rows = list(csv.DictReader((folder / app / "placements.csv").read_text().splitlines()))
    assert {sum(map(int, row["placement"])) for row in rows} == set(range(1, 17))
    checked = 0
    for job in instance.jobs:
        table: Any = job.variants[0].speed
        promised = {(row.workers, row.servers): 1 / row.steps_per_s for row in table.rows}
        for row in rows:
            gpus = sum(map(int, row["placement"]))
            if gpus * int(row["local_bsz"]) == batches[job.name]:
                assert float(row["step_time"]) <= promised[gpus, len(row["placement"])] * (1 + 1e-9)
                checked += 1
    assert checked > 100


@pytest.mark.parametrize(
    "over",
    [{"gpus": 4}, {"servers": None}, {"workload": None}, {"servers": None, "gpus": 4, "workload": None}],
)
def test_pollux_on_servers_needs_both_options(tmp_path: Path, over: dict[str, Any]) -> None:
    with pytest.raises(clusterplan.OptionError, match="--servers and --workload for its jobs on servers"):
        pollux_on_servers(tmp_path, PLACEMENTS, jobs=1, **over)


def test_pollux_needs_folders(tmp_path: Path) -> None:
    """Without folders there is nothing to import; a folder without files, or given twice, is a fault."""
    assert "options: folders: is empty" in faults(lambda: import_pollux([], 4))[0]
    assert "no such file" in faults(lambda: import_pollux([tmp_path], 4))[0]
    small_pollux(tmp_path)
    assert "already used" in faults(lambda: import_pollux([tmp_path / "app"] * 2, 4))[0]


# Sailor ----------------------------------------------------------------------------------------------


def real_sailor(shared_data: Path, **options: Any) -> StagingInstance:
    chosen = {"types": SAILOR_TYPES, "microbatch": 4, "limit": SAILOR_LIMITS, "throughput": 60, **options}
    return import_sailor(shared_data / "sailor" / "profiles" / "OPT-350", **chosen)


def test_sailor_counts(shared_data: Path) -> None:
    """OPT-350 has 26 layers, and the instance keeps limits, floor and sizes."""
    instance = real_sailor(shared_data)
    assert len(instance.layers) == 26
    assert {kind.name: kind.limit for kind in instance.types} == SAILOR_LIMITS
    assert (instance.probe_batch, instance.throughput_floor_samples_per_s) == (4, 60)
    first = instance.layers[0]
    assert (first.input_bytes, first.output_bytes, first.weight_bytes) == (16908288, 33554432, 214433792)
    assert first.memory_gib == pytest.approx((4 * 214433792 + 4 * 8388608) / 2**30)
    assert first.communication_s["GH-96"] == pytest.approx(2 * 214433792 * 8 / 100e9 / 4)
    assert instance.types[0].memory_gib == pytest.approx(37.25, abs=0.01)
    assert is_kept(instance)


@pytest.mark.parametrize(("name", "usd"), [("A100-40", 197), ("GH-96", 268), ("V100-16", 518)])
def test_sailor_cost_of_one_unit(shared_data: Path, name: str, usd: float) -> None:
    """One unit costs per million samples what the source's figures give with forward and backward alone."""
    instance = real_sailor(shared_data)
    price = next(kind.price_usd_per_hour for kind in instance.types if kind.name == name)
    seconds = sum(layer.compute_s[name] for layer in instance.layers)
    assert seconds / 4 * 1e6 / 3600 * price == pytest.approx(usd, abs=0.5)


@pytest.mark.parametrize(("model", "layers"), [("OPT-30", 50), ("GPT-Neo-2.7", 34)])
def test_sailor_other_models(shared_data: Path, model: str, layers: int) -> None:
    """The other profiled models import on the A100 too."""
    instance = import_sailor(shared_data / "sailor" / "profiles" / model, ["A100-40"], 2)
    assert len(instance.layers) == layers
    assert is_kept(instance)


def test_sailor_degree_that_was_not_measured(shared_data: Path) -> None:
    """OPT-30 was not measured on one V100, and the fault says so."""
    folder = shared_data / "sailor" / "profiles" / "OPT-30"
    (fault,) = faults(lambda: import_sailor(folder, ["V100-16"], 1))
    assert "types: has no time of one GPU (tensor-parallel degree 1) of V100-16" in fault


SIZES = {"params_bytes": 8, "act_input_bytes": 1, "act_output_bytes": 2, "act_mem_bytes": 3}
INFO = {"M": {"1": {"0": SIZES, "1": SIZES}}}
PROFILE = {"4": {"1": {"0": [1.0, 2.0, 0.5], "1": [1.0, 2.0, 0.5]}}}


def small_sailor(
    folder: Path, profile: Any = PROFILE, info: Any = INFO, gpu: str = "A100-40", **options: Any
) -> StagingInstance:
    model_dir = folder / "profiles" / "M"
    (model_dir / gpu).mkdir(parents=True)
    for path, data in ((model_dir / gpu / "profile.json", profile), (folder / "llm_info.json", info)):
        path.write_text(data if isinstance(data, str) else json.dumps(data))
    return import_sailor(model_dir, **{"types": [gpu], "microbatch": 4, **options})


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"profile": "{"}, "profile.json: line 1, column 2: is not valid JSON"),
        ({"profile": []}, "profile.json: is not a mapping"),
        (
            {"profile": {"1": {}, "2": {}}},
            "types: has no time of one GPU (tensor-parallel degree 1) of A100-40",
        ),
        ({"profile": {"4": []}}, "profile.json: 4: is not a mapping"),
        ({"profile": {"4": {"1": {"0": [1, 2, 0], "1": [0, 0, 0]}}}}, "4.1.1: forward and backward take 0 s"),
        ({"profile": {"4": {"1": {"0": [1, 2]}}}}, "profile.json: 4.1: layers.0[2]: is missing"),
        ({"profile": {"4": {"1": {"0": [-1, 2, 0]}}}}, "layers.0[0]: is -1, but must be at least 0"),
        ({"info": "nonsense"}, "llm_info.json: line 1, column 1: is not valid JSON"),
        ({"info": {"M": {"2": {}}}}, "llm_info.json: M: has no tensor-parallel degree '1'; there are: 2"),
        ({"info": {"M": {"1": {"1": SIZES}}}}, "llm_info.json: M.1: its layers are not numbered 0, 1, 2"),
        (
            {"info": {"M": {"1": {"0": {}, "1": SIZES}}}},
            "llm_info.json: M.1: layers.0.params_bytes: is missing",
        ),
    ],
)
def test_sailor_bad_file(tmp_path: Path, data: dict[str, Any], expected: str) -> None:
    """Each fault names the file, the place and what is wrong or what there is."""
    assert any(expected in fault for fault in faults(lambda: small_sailor(tmp_path, **data)))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"types": []}, "options: types: has 0 entries; at least 1 needed"),
        ({"types": ["A100-40", "A100-40"]}, "types[1].name: 'A100-40' is already used by types[0]"),
        (
            {"limit": {"GH-96": 4}},
            "options: limit.GH-96: unknown GPU type 'GH-96'; the chosen types are: A100-40",
        ),
        ({"prices": {"GH-96": 4}}, "options: prices.GH-96: unknown GPU type"),
        ({"limit": {"A100-40": 0}}, "options: limit.A100-40: is 0, but must be at least 1"),
        ({"microbatch": 0}, "options: microbatch: is 0, but must be at least 1"),
        ({"throughput": -1}, "options: throughput: is -1, but must be greater than 0"),
        ({"parallel_share": 2}, "options: parallel_share: is 2, but must be at most 1"),
        ({"link_gbit_per_s": 0}, "options: link_gbit_per_s: is 0, but must be greater than 0"),
    ],
)
def test_sailor_bad_option(tmp_path: Path, options: dict[str, Any], expected: str) -> None:
    """Each wrong option is named with what is allowed."""
    (fault,) = faults(lambda: small_sailor(tmp_path, **options))
    assert expected in fault


def test_sailor_missing_files(tmp_path: Path) -> None:
    """A folder without profiles, and profiles without sizes, are faults and not tracebacks."""
    (fault,) = faults(lambda: import_sailor(tmp_path / "none", ["A100-40"], 4))
    assert "has no GPU/profile.json" in fault
    model_dir = tmp_path / "M"
    (model_dir / "A100-40").mkdir(parents=True)
    (model_dir / "A100-40" / "profile.json").write_text(json.dumps(PROFILE))
    (fault,) = faults(lambda: import_sailor(model_dir, ["A100-40"], 4))
    assert "no folder above it holds llm_info.json" in fault
    (fault,) = faults(lambda: import_sailor(model_dir, ["A100-40"], 4, llm_info=tmp_path / "no.json"))
    assert "no.json: there is no such file" in fault


MANAGERS = ("flux", "kubernetes", "slurm")


@pytest.mark.parametrize("manager", MANAGERS)
def test_recorded_imports_have_plans_that_hold(manager: str) -> None:
    """Each document is the same after it is written and read; what cannot be placed may wait."""
    planned = 0
    for name, outcome in stored("imports").items():
        if name.startswith(manager) and outcome["exit code"] == 0 and not outcome["files"]:
            instance = parse_instance(yaml.safe_load("\n".join(outcome["stdout"])))
            assert is_kept(instance), name
            result = clusterplan.solve(instance, solver="best-fit")
            assert result.plan is not None, name
            assert clusterplan.verify(instance, result).ok, name
            planned += any(entry.placed for entry in result.plan)
    assert planned
