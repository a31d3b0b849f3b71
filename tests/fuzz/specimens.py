"""Small valid files of every sort that the package reads, and how each sort is read."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from clusterplan.instances import catalogues, examples
from clusterplan.instances.allocation.fits import fit_loss, fit_speed
from clusterplan.instances.common.base import Instance
from clusterplan.instances.documents import load, load_catalogue, parse_instance, save
from clusterplan.instances.importers import (
    import_dnn_partitioning,
    import_gavel,
    import_gavel_consolidation,
    import_kubernetes,
    import_openb,
    import_philly,
    import_pipedream,
    import_pollux,
    import_sailor,
    import_slurm,
    import_tiresias,
)
from clusterplan.planner.api import solve
from clusterplan.planner.batch.solve_many import Journal, read_journal
from clusterplan.planner.pareto import pareto
from clusterplan.planner.stored_results import read_results, verify_stored
from clusterplan.solvers.common.result import SolveOptions

from .kinds import KINDS


@dataclass(frozen=True)
class Specimen:
    """Files that belong together.

    Attributes
    ----------
    sort
        What they are, such as ``kubernetes``.
    files
        Path inside a folder → content.
    """

    sort: str
    files: dict[str, bytes]


def _results(folder: Path) -> None:
    """Check the stored results of the folder's instance."""
    instance = load(folder / "instance.json")
    for data in read_results(folder / "results.jsonl"):
        verify_stored(instance, data, "results.jsonl")


def _journal(folder: Path) -> None:
    """Read a journal, and continue it."""
    list(read_journal(folder))
    journal = Journal(folder, ASKED, resume=True)
    try:
        for pair in journal.finished:
            journal.read(pair)
    finally:
        journal.close()


ASKED = {"solvers": ["exact"]}
KEPT = 40
"""So many stored results of each kind are made, once in a process, and damaged again and again."""
TYPES = {"accelerator": 2.5, "cpu": 0.5}
READERS: dict[str, Callable[[Path], Instance | None]] = {
    "document": lambda folder: load(next(folder.glob("instance.*"))),
    "catalogue": lambda folder: _nothing(load_catalogue(folder / "catalogue.yaml")),
    "speeds": lambda folder: _nothing(fit_speed(folder / "speeds.csv", allow_rank_deficient=True)),
    "losses": lambda folder: _nothing(fit_loss(folder / "losses.csv", 100.0)),
    "results": _results,
    "journal": _journal,
    "gavel": lambda folder: import_gavel(
        folder / "speeds.json", folder / "small.trace", {"v100": 4, "k80": 2}
    ),
    "gavel consolidation": lambda folder: import_gavel_consolidation(
        folder / "speeds.json", folder / "small.trace", "v100", 2, 2
    ),
    "tiresias": lambda folder: import_tiresias(
        folder / "jobs.csv", folder / "cluster.csv", folder / "tensors.json"
    ),
    "pollux": lambda folder: import_pollux([folder], 12),
    "pollux table": lambda folder: import_pollux([folder], 12, "table"),
    "sailor": lambda folder: import_sailor(folder / "M", "all"),
    "pipedream": lambda folder: import_pipedream(folder / "graph.txt", {"gpu": 2.0}),
    "dnn": lambda folder: import_dnn_partitioning(folder / "graph.json", TYPES),
    "philly": lambda folder: import_philly(folder / "philly.csv", "2017-10-01 12:00", 4, 8),
    "openb": lambda folder: import_openb(folder / "nodes.csv", folder / "pods.csv", 1.3),
    "kubernetes": lambda folder: import_kubernetes(folder / "nodes.json", folder / "pods.json", "all"),
    "slurm": lambda folder: import_slurm(folder / "nodes.json", folder / "queue.json", "all"),
}
"""How the files of each sort are read; the instance that they make, if they make one."""


def _nothing(read: Any) -> None:
    del read


GAVEL = """
v100: {"('A3C', 1)": {"null": 2.0}, "('LM', 2)": {"null": 4.0, "('A3C', 1)": [1.0, 1.0]}}
v100_unconsolidated: {"('A3C', 1)": {"null": 2.0}, "('LM', 2)": {"null": 1.0}}
k80: {"('A3C', 1)": {"null": 1.0}}
"""
TRACE = "A3C\tc\t.\t--steps\t1\t100\t1\t1\t-1.0\t0\nLM\tc\t.\t--steps\t1\t900\t2\t2.5\t1.2\t3\n"
POLLUX = "placement,local_bsz,step_time,sync_time\n" + "".join(
    f"{placement},{local},{0.1 + 0.01 * local + 0.02 * len(placement):.3f},0.1\n"
    for placement in ("1", "2", "11", "4", "44")
    for local in (8, 16, 32)
)
SIZES = """
M:
  "1":
    "0": &sizes {params_bytes: 8, act_input_bytes: 1, act_output_bytes: 2, act_mem_bytes: 3}
    "1": *sizes
"""
TIMES = '{"4": {"1": {"0": [1.0, 2.0, 0.5], "1": [1.0, 2.0, 0.5]}}}'
PIPEDREAM = (
    "node1 -- Input -- forward_compute_time=1.0, backward_compute_time=0.0, activation_size=602112.0, "
    "parameter_size=0.0\n"
    "node2 -- Linear(in=3, out=4) -- forward_compute_time=1.0, backward_compute_time=2.0, "
    "activation_size=[100.0; 50.0], parameter_size=40.0\n"
    "node3 -- Add -- forward_compute_time=0.5, backward_compute_time=0.0, activation_size=8.0, "
    "parameter_size=0.0 -- stage_id=1\n"
    "\tnode1 -- node2\n\tnode2 -- node3\n"
)
DNN = """
maxSizePerFPGA: 17179869184
maxFPGAs: 4
maxCPUs: 2
nodes:
- {id: 1, supportedOnFpga: 1, cpuLatency: 10, fpgaLatency: 1, size: 1073741824, isBackwardNode: 0}
- {id: 2, supportedOnFpga: 1, cpuLatency: 10, fpgaLatency: 2, size: 1073741824, isBackwardNode: 0}
- {id: 3, supportedOnFpga: 1, cpuLatency: 10, fpgaLatency: 3, size: 1073741824, isBackwardNode: 0}
edges:
- {sourceId: 1, destId: 2, cost: 1.0, size: 1000000.0}
- {sourceId: 2, destId: 3, cost: 1.0, size: 1000000.0}
"""
PHILLY = (
    "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-01 11:00:00,7200,1,7200,a\n"
    "2017-10-01 11:59:59,2.0,16,32,b\n2017-10-01 11:00:00,3600,8,28800,a\n"
)


KUBERNETES_NODES = """
kind: List
items:
- kind: Node
  metadata: {name: n1, labels: &zone {topology.kubernetes.io/zone: z1}}
  spec: {}
  status: &status
    allocatable: {cpu: 7910m, memory: 32Gi, pods: '110', nvidia.com/gpu: '4'}
    conditions: [{type: Ready, status: 'True'}]
- kind: Node
  metadata: {name: n2, labels: *zone}
  spec: {taints: [{key: gpu, effect: NoSchedule}]}
  status: *status
"""
KUBERNETES_PODS = """
kind: List
items:
- kind: Pod
  metadata:
    {name: p1, namespace: team, labels: {a: b},
     ownerReferences: &owner [{kind: Job, name: train, controller: true}]}
  spec:
    containers: &containers
    - {name: main, resources: {requests: {cpu: 500m, memory: 1Gi, nvidia.com/gpu: '1'}}}
    nodeSelector: &zone {topology.kubernetes.io/zone: z1}
    tolerations: &tolerations [{key: gpu, operator: Exists}]
    nodeName: n1
  status: {phase: Running}
- kind: Pod
  metadata: {name: p2, namespace: team, labels: {a: b}, ownerReferences: *owner}
  spec: {containers: *containers, nodeSelector: *zone, tolerations: *tolerations}
  status: {phase: Pending}
"""
SLURM_NODES = """
meta: {}
nodes:
- &node {name: n1, hostname: n1, state: [IDLE], partitions: [gpu], cpus: 34, effective_cpus: 32,
   real_memory: 131072, specialized_memory: 0, alloc_cpus: 0, alloc_memory: 0,
   gres: 'gpu:a100:4(S:0-1)', gres_used: 'gpu:a100:0(IDX:N/A)'}
- {<<: *node, name: n2, hostname: n2}
"""
SLURM_QUEUE = """
meta: {}
jobs:
- &job {job_id: 1, name: train1, partition: gpu, nodes: '',
   node_count: &one {set: true, infinite: false, number: 1}, tasks: *one,
   cpus: {set: true, infinite: false, number: 8}, tres_req_str: 'cpu=8,mem=64G,node=1,gres/gpu=2',
   tres_alloc_str: '', tres_per_node: '', array_job_id: &none {set: true, infinite: false, number: 0},
   array_task_string: '', het_job_id: *none, gres_detail: [], job_state: [PENDING], state_reason: Resources}
- {<<: *job, job_id: 2, name: train2, nodes: 'n[1-2]', tres_alloc_str: 'cpu=8,mem=64G,node=1,gres/gpu=2',
   job_state: [RUNNING]}
"""


EXAMPLES = Path(examples.__path__[0])
IMPORTED = {
    "speeds": {"speeds.csv": (EXAMPLES / "synthetic-speed.csv").read_text()},
    "losses": {"losses.csv": (EXAMPLES / "synthetic-loss.csv").read_text()},
    "gavel": {"speeds.json": GAVEL, "small.trace": TRACE},
    "gavel consolidation": {"speeds.json": GAVEL, "small.trace": TRACE},
    "tiresias": {
        "jobs.csv": "job_id,num_gpu,submit_time,model_name,duration,interval\n"
        "0,2,0,vgg19,1,3\n1,4,0,mine,1,3\n",
        "cluster.csv": "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n"
        "1,2,4,40,256\n",
        "tensors.json": "{vgg19: [1, 1, 2], mine: [3, 1]}",
    },
    "pollux": {
        "placements.csv": POLLUX,
        "scalability.csv": "num_nodes,num_replicas,local_bsz,step_time,sync_time\n"
        "6,12,8,0.5,0.1\n6,12,16,0.6,0.1\n",
    },
    "sailor": {"M/A100-40/profile.json": TIMES, "llm_info.json": SIZES},
    "pipedream": {"graph.txt": PIPEDREAM},
    "dnn": {"graph.json": DNN},
    "philly": {"philly.csv": PHILLY},
    "openb": {
        "nodes.csv": "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,96000,393216,8,G2\n",
        "pods.csv": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
        "a,4000,7629,1,460,\nb,8,9,1,1000,G2|P100\n",
    },
    "kubernetes": {"nodes.json": KUBERNETES_NODES, "pods.json": KUBERNETES_PODS},
    "slurm": {"nodes.json": SLURM_NODES, "queue.json": SLURM_QUEUE},
}
"""Sort → its files; what a file holds as JSON is given as YAML."""


def imported(sort: str) -> dict[str, bytes]:
    """Return the files of a sort that is imported."""
    return {
        name: (json.dumps(yaml.safe_load(text)) if name.endswith(".json") else text).encode()
        for name, text in IMPORTED[sort].items()
    }


@cache
def bundled() -> tuple[Specimen, ...]:
    """Return the examples and catalogues of the package."""
    tables = {path.name: path.read_bytes() for path in EXAMPLES.glob("*.csv")}
    found = []
    for path in sorted(EXAMPLES.glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        used = {name: content for name, content in tables.items() if name in text}
        found.append(Specimen("document", {"instance.yaml": text.encode(), **used}))
    prices = sorted(Path(catalogues.__path__[0]).glob("*.yaml"))
    found += [Specimen("catalogue", {"catalogue.yaml": path.read_bytes()}) for path in prices]
    return tuple(found)


def _written(rng: random.Random, instance: Instance) -> dict[str, bytes]:
    """Return an instance as files: a document, perhaps with tables."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table: Any = rng.choice([None, None, "csv", "parquet"]) if instance.kind != "staging" else None
        try:
            save(instance, folder / f"instance{rng.choice(['.yaml', '.json'])}", table)
        except Exception:  # noqa: BLE001  what no table can hold is written without
            save(instance, folder / "instance.json")
        return {path.name: path.read_bytes() for path in folder.iterdir()}


@cache
def _solved(kind: str, number: int) -> Specimen:
    """Return stored results of a random instance: a file of them, a journal, or a frontier."""
    rng = random.Random(f"{kind}:{number}")
    instance = parse_instance(KINDS[kind].document(rng))
    options = SolveOptions(threads=1, time_limit_s=2.0)
    lines = [solve(instance, name, options).to_json() for name in ("exact", "brute-force")]
    if kind != "consolidation" and rng.random() < 0.3:
        try:
            lines = [pareto(instance, options).to_json()]
        except Exception:  # noqa: BLE001  not every instance has a frontier
            lines = lines[:1]
    if rng.random() < 0.3:
        head = {"source": "a.yaml", "solver": "exact", "seconds": 1.0}
        rows = [{"journal": 1, "asked": ASKED}, *({**head, "result": json.loads(line)} for line in lines)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        return Specimen("journal", {"journal.jsonl": text.encode()})
    document = json.dumps(instance.document()).encode()
    return Specimen("results", {"instance.json": document, "results.jsonl": "\n".join(lines).encode()})


def specimen(rng: random.Random) -> Specimen:
    """Return valid files of a random sort."""
    chance = rng.random()
    if chance < 0.25:
        return rng.choice(bundled())
    if chance < 0.6:
        sort = rng.choice(list(IMPORTED))
        return Specimen("pollux table" if sort == "pollux" and rng.random() < 0.5 else sort, imported(sort))
    kind = rng.choice(list(KINDS))
    if chance < 0.75:
        return _solved(kind, rng.randrange(KEPT))
    return Specimen("document", _written(rng, parse_instance(KINDS[kind].document(rng))))
