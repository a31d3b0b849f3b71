"""Wrong inputs of every command and file type: a message says what was given and what is allowed."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from command_line import run_here
from sample_documents import ALLOCATION, CONSOLIDATION, STAGING

SCHEDULING = {
    "schema_version": 1,
    "kind": "scheduling",
    "name": "two",
    "resources": {"gpu": 2},
    "jobs": [
        {"name": "J1", "tasks": 2, "demand": {"gpu": 1}, "duration_s": 2},
        {"name": "J2", "tasks": 1, "demand": {"gpu": 1}, "duration_s": 8},
    ],
}
NODE = {
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "4"}},
}


def _scheduling(**first: object) -> str:
    """Return a document whose first job has other fields."""
    jobs = SCHEDULING["jobs"]
    assert isinstance(jobs, list)
    return json.dumps({**SCHEDULING, "jobs": [{**jobs[0], **first}, jobs[1]]})


def _pods(gpus: str) -> str:
    container = {"resources": {"requests": {"nvidia.com/gpu": gpus}}}
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    return json.dumps({"kind": "List", "items": [pod]})


GOOD = {
    "allocation.yaml": ALLOCATION,
    "staging.yaml": STAGING,
    "consolidation.yaml": CONSOLIDATION,
    "scheduling.yaml": SCHEDULING,
}
TEXTS = {
    "empty.yaml": "",
    "list.yaml": "- 1\n- 2\n",
    "broken.yaml": "kind: [allocation\n",
    "twice.yaml": "kind: allocation\nkind: staging\n",
    "broken.json": '{"kind": "allocation",}',
    "twice.json": '{"kind": 1, "kind": 2}',
    "no-kind.yaml": "schema_version: 1\nname: x\n",
    "wrong-kind.yaml": "schema_version: 1\nkind: placement\nname: x\n",
    "no-version.yaml": "kind: allocation\nname: x\n",
    "version.yaml": json.dumps({**ALLOCATION, "schema_version": 2}),
    "unknown-key.yaml": json.dumps({**ALLOCATION, "resource": {}}),
    "negative.yaml": json.dumps({**ALLOCATION, "resources": {"gpu": -4, "cpu": 10}}),
    "text-number.yaml": json.dumps({**ALLOCATION, "resources": {"gpu": "four", "cpu": 10}}),
    "objective.yaml": json.dumps({**ALLOCATION, "objective": "speed"}),
    "no-jobs.yaml": json.dumps({**ALLOCATION, "jobs": []}),
    "two-names.yaml": json.dumps({**ALLOCATION, "jobs": [ALLOCATION["jobs"][1]] * 2}),
    "unknown-type.yaml": json.dumps(
        {**STAGING, "layers": [{"name": "l", "compute_s": {"C": 1}, "compute_parallel": 0.9}]}
    ),
    "unknown-unit.yaml": json.dumps(
        {**STAGING, "layers": [{"name": "l", "c_ms": 3, "compute_parallel": 0.9}]}
    ),
    "share.yaml": json.dumps(
        {**STAGING, "layers": [{"name": "l", "compute_s": {"A": 1}, "compute_parallel": 90}]}
    ),
    "unknown-server.yaml": json.dumps(
        {**CONSOLIDATION, "jobs": [{**CONSOLIDATION["jobs"][0], "current": {"nowhere": 1}}]}
    ),
    "catalogue.yaml": json.dumps({**STAGING, "catalogue": "catalogue:azure"}),
    "outside.yaml": json.dumps({**ALLOCATION, "jobs": "../jobs.csv"}),
    "address.yaml": json.dumps({**ALLOCATION, "jobs": "https://example.org/jobs.csv"}),
    "missing-table.yaml": json.dumps({**ALLOCATION, "jobs": "nowhere.csv"}),
    "of-ragged.yaml": json.dumps({**ALLOCATION, "jobs": "ragged.csv"}),
    "of-column.yaml": json.dumps({**ALLOCATION, "jobs": "column.csv"}),
    "of-cell.yaml": json.dumps({**ALLOCATION, "jobs": "cell.csv"}),
    "of-throughput.yaml": json.dumps({**ALLOCATION, "jobs": "throughput.csv"}),
    "of-layers.yaml": json.dumps({**STAGING, "layers": "layers.csv"}),
    "of-text.yaml": json.dumps({**ALLOCATION, "jobs": "notes.txt"}),
    "of-parquet.yaml": json.dumps({**ALLOCATION, "jobs": "false.parquet"}),
    "of-fit.yaml": json.dumps(
        {
            **ALLOCATION,
            "jobs": [
                {
                    **ALLOCATION["jobs"][1],
                    "variants": [
                        {
                            "name": "v",
                            "worker_demand": {"gpu": 1},
                            "workers": {"max": 2},
                            "speed": {"measurements": "nowhere.csv"},
                        }
                    ],
                }
            ],
        }
    ),
    "ragged.csv": "name,remaining_steps\nj,1,2\n",
    "column.csv": "name,steps\nj,1\nk,2\n",
    "cell.csv": "name,remaining_steps,weight\nj,many,1\n",
    "throughput.csv": "job,gpus,samples_per_s\nbert,1,10\nbert,two,20\n",
    "layers.csv": "layer,a_ms,b_ms\nl0,10,20\n",
    "header.csv": "workers,steps_per_s\n",
    "one-point.csv": "workers,steps_per_s\n1,2\n",
    "no-speed.csv": "workers,speed\n1,2\n",
    "bad-speed.csv": "workers,steps_per_s\n1,fast\n2,3\n",
    "speeds.csv": "workers,steps_per_s,batch\n1,2,32\n2,1.5,64\n4,1.2,128\n8,1.1,256\n",
    "bad-loss.csv": "step,loss\n1,-2\n",
    "notes.txt": "nothing\n",
    "false.parquet": "no table\n",
    "options.yaml": "time_limit: 3\n",
    "options-list.yaml": "- 3\n",
    "result.json": '{"kind": "allocation"}\n',
    "nodes.json": "[1, 2]\n",
    "pods.json": '{"items": 3}\n',
    "pages.csv": "a,b\n1,2\n",
    "s-negative.yaml": _scheduling(duration_s=-5),
    "s-key.yaml": _scheduling(durations=3),
    "s-name.yaml": _scheduling(name="J2"),
    "s-nan.yaml": _scheduling(duration_s=float("nan")),
    "s-demand.yaml": _scheduling(demand={"tpu": 1}),
    "s-objective.yaml": json.dumps({**SCHEDULING, "objective": "speed"}),
    "pinned.yaml": json.dumps({**CONSOLIDATION, "pinned": "x"}),
    "deep.yaml": "[" * 3000,
    "cores.json": json.dumps({"items": [{**NODE, "status": {"allocatable": {"cpu": "8 cores"}}}]}),
    "k-nodes.json": json.dumps({"kind": "List", "items": [NODE]}),
    "k-many.json": _pods("many"),
    "k-pods.json": _pods("1"),
    "s-nodes.json": json.dumps({"nodes": [{"name": "n", "state": "IDLE", "cpus": 4, "real_memory": "lots"}]}),
    "sacct.txt": "JobID|Start\n1|x\n",
    "trace.csv": "job,at,gpus,run\na,0,1,-4\n",
    "model.json": '{"model_type": "unknown-thing"}',
    "model.csv": "name,flops\na,1\n",
}

Case = tuple[str, tuple[str, ...]] | tuple[str, tuple[str, ...], str]
CASES: list[Case] = [
    # What stands where a command is meant.
    ("slove allocation.yaml", ("slove", "solve")),
    ("solve", ("Missing argument", "Usage")),
    ("solve allocation.yaml --tim-limit 3", ("--tim-limit", "--time-limit")),
    # Files as such.
    ("validate nowhere.yaml", ("nowhere.yaml", "no such file")),
    ("validate .", (".", "folder", "file")),
    ("validate notes.txt", (".txt", ".yaml, .yml, .json")),
    ("validate cell.csv", ("cell.csv", "table", "YAML or JSON")),
    ("validate /dev/null", ("/dev/null", "device", "file")),
    ("validate example:nothing", ("example:nothing", "heterps-ctr")),
    ("validate empty.yaml", ("empty.yaml", "empty")),
    ("validate -", ("-", "standard input is empty"), ""),
    ("validate -", ("-:", "mapping", "schema_version"), "[1, 2]"),
    ("validate -", ("line 1", "JSON"), '{"kind": '),
    ("validate - -", ("read already", "once"), json.dumps(ALLOCATION)),
    # Documents.
    ("validate list.yaml", ("list.yaml", "mapping", "kind")),
    ("validate broken.yaml", ("broken.yaml", "line 2", "YAML")),
    ("validate twice.yaml", ("line 2", "kind", "once")),
    ("validate broken.json", ("broken.json", "line 1", "JSON")),
    ("validate twice.json", ("kind", "once")),
    ("validate no-kind.yaml", ("kind", "missing", "allocation, staging, consolidation")),
    ("validate wrong-kind.yaml", ("placement", "allocation, staging, consolidation")),
    ("validate no-version.yaml", ("schema_version: 1",)),
    ("validate version.yaml", ("schema_version", "is 2", "allowed: 1")),
    ("validate unknown-key.yaml", ("resource:", "did you mean 'resources'", "jobs")),
    ("validate negative.yaml", ("resources.gpu", "-4", "at least 0")),
    ("validate text-number.yaml", ("resources.gpu", "'four'", "plain number")),
    ("validate objective.yaml", ("'speed'", "total_completion_time", "makespan")),
    ("validate no-jobs.yaml", ("jobs", "0 entries", "at least 1")),
    ("validate two-names.yaml", ("jobs[1].name", "'k'", "unique")),
    ("validate unknown-type.yaml", ("compute_s.C", "'C'", "A, B")),
    ("validate unknown-unit.yaml", ("c_ms", "'c'", "A, B")),
    ("validate share.yaml", ("compute_parallel", "90", "at most 1")),
    ("validate unknown-server.yaml", ("current.nowhere", "'nowhere'", "servers are")),
    ("validate catalogue.yaml", ("catalogue:azure", "aws-us-east-1")),
    # Tables.
    ("validate outside.yaml", ("../jobs.csv", "outside", "--allow-outside")),
    ("validate address.yaml", ("https://example.org/jobs.csv", "address", "path")),
    ("validate missing-table.yaml", ("nowhere.csv", "no such file")),
    ("validate of-ragged.yaml", ("ragged.csv", "line 2", "3 cells", "header has 2")),
    ("validate of-column.yaml", ("column.csv: line 1", "steps", "remaining_steps")),
    ("validate of-cell.yaml", ("cell.csv: line 2: remaining_steps", "'many'", "plain number")),
    ("validate of-throughput.yaml", ("throughput.csv: line 3: gpus", "'two'", "whole number")),
    ("validate of-layers.yaml", ("layers.csv", "its entries, or rows, need a name each")),
    ("validate of-text.yaml", (".txt", ".csv, .parquet")),
    ("validate of-parquet.yaml", ("false.parquet", "Parquet")),
    ("validate of-fit.yaml", ("nowhere.csv", "no such file")),
    # Solving.
    ("solve nowhere.yaml", ("nowhere.yaml", "no such file")),
    ("solve allocation.yaml --solver best", ("'best'", "exact")),
    ("solve allocation.yaml --solver genetic", ("'genetic'", "allocation", "exact")),
    ("solve allocation.yaml --time-limit -1", ("time_limit", "-1", "0")),
    ("solve allocation.yaml --time-limit soon", ("'soon'", "--time-limit", "valid")),
    ("solve allocation.yaml --gap 2", ("gap", "2", "1")),
    ("solve allocation.yaml --threads 0", ("threads", "0", "at least 1")),
    ("solve allocation.yaml --seed -3", ("seed", "-3", "at least 0")),
    ("solve allocation.yaml --memory-limit -1", ("memory_limit", "-1", "greater than 0")),
    ("solve allocation.yaml --set depth", ("depth", "KEY=VALUE")),
    ("solve allocation.yaml --set depth=3", ("depth", "exact")),
    ("solve staging.yaml --provisioning best", ("best", "load-balance", "exact")),
    ("solve allocation.yaml --config nowhere.yaml", ("nowhere.yaml", "no such file")),
    ("solve allocation.yaml --config options.yaml", ("time_limit", "time_limit_s")),
    ("solve allocation.yaml --config options-list.yaml", ("options-list.yaml", "mapping", "solver: auto")),
    ("solve allocation.yaml --format xml", ("xml", "table", "json", "csv")),
    ("solve allocation.yaml --output .", (".", "folder", "file")),
    ("solve allocation.yaml --output nowhere/r.json", ("nowhere/r.json", "cannot be written")),
    ("solve allocation.yaml --jobs 0", ("jobs", "0", "1")),
    ("solve allocation.yaml --resume", ("--output DIR",)),
    ("solve allocation.yaml --engine dask", ("--engine dask", "--scheduler")),
    ("solve - --jobs 2 --output night", ("-:", "standard input", "file"), json.dumps(ALLOCATION)),
    ("compare allocation.yaml --solvers best", ("'best'", "exact")),
    ("compare nowhere.yaml", ("nowhere.yaml", "no such file")),
    ("pareto consolidation.yaml", ("nothing to free", "server")),
    ("pareto allocation.yaml --price gpu", ("'gpu'", "NAME=USD")),
    ("pareto allocation.yaml --price tpu=3", ("tpu", "cpu, gpu")),
    ("pareto staging.yaml --error 2", ("error", "2", "1")),
    ("pareto allocation.yaml --baselines greedy", ("--baselines", "--output DIR")),
    # Stored answers.
    ("verify allocation.yaml nowhere.json", ("nowhere.json", "no such file")),
    ("verify allocation.yaml notes.txt", ("notes.txt", "JSON")),
    ("verify allocation.yaml result.json", ("result.json", "solve --format json")),
    ("verify allocation.yaml -", ("-:", "solve --format json"), "{}"),
    ("verify allocation.yaml result.json --format csv", ("csv", "table", "JSON")),
    ("report allocation.yaml result.json --output r.html", ("result.json", "solve --format json")),
    ("report allocation.yaml result.json", ("--output",)),
    ("diff allocation.yaml result.json", ("result.json", "solve --format json")),
    ("diff allocation.yaml a b c", ("3", "one result or two")),
    ("export-plan allocation.yaml nowhere.json", ("nowhere.json", "no such file")),
    ("export-plan allocation.yaml answer.json --format slurm", ("slurm", "consolidation", "json")),
    ("export-plan allocation.yaml answer.json --format html", ("'html'", "json", "slurm", "kubernetes")),
    ("export-plan staging.yaml answer.json", ("answer.json", "verification failed")),
    # Models, schemas.
    ("export-model allocation.yaml --objective 2", ("--objective 2", "has 1")),
    ("export-model allocation.yaml --format xml", ("xml", "mps", "lp")),
    ("schema jobs", ("'jobs'", "allocation", "catalogue", "result")),
    ("solvers --format xml", ("xml", "table", "json", "csv")),
    # Fits.
    ("fit speed nowhere.csv", ("nowhere.csv", "no such file")),
    ("fit speed header.csv", ("header.csv", "no rows")),
    ("fit speed one-point.csv --batch 8", ("line 2", "only row", "at least 2")),
    ("fit speed no-speed.csv", ("line 1", "steps_per_s", "workers, steps_per_s")),
    ("fit speed bad-speed.csv", ("line 2", "steps_per_s", "'fast'", "plain number")),
    ("fit speed speeds.csv --model linear", ("linear", "ps_sync", "ring_allreduce")),
    ("fit speed speeds.csv --batch -1", ("batch -1", "1e-6", "1e12")),
    ("fit speed speeds.csv --batch 64", ("same batch per worker", "batch_per_gpu 32")),
    ("fit speed speeds.csv --batch-per-gpu 16", ("line 2: batch", "is 32", "16 for each GPU make 16")),
    ("fit speed speeds.csv --batch-per-gpu 16 --batch 3", ("batch and batch_per_gpu", "one of them")),
    ("fit speed -", ("-:", "steps_per_s"), "workers\n1\n"),
    ("fit loss bad-loss.csv --steps-per-epoch 3", ("line 2: loss", "-2", "at least 0")),
    ("fit loss speeds.csv --steps-per-epoch 3", ("speeds.csv", "step, loss")),
    ("fit loss bad-loss.csv", ("--steps-per-epoch",)),
    # Making instances.
    ("generate jobs", ("jobs", "allocation")),
    ("generate allocation --jobs 0", ("0", "1")),
    ("generate allocation --jobs 3 --output a.txt", (".txt", ".yaml, .yml, .json")),
    ("generate consolidation --servers 2 --jobs 2 --must-place-share 2", ("'2'", "--must-place-share", "1")),
    ("generate allocation --jobs 3 --table csv", ("--table", "--output FILE")),
    ("import yarn", ("yarn", "slurm")),
    ("import slurm nodes.json pods.json", ("nodes.json", "scontrol show nodes --json")),
    ("import slurm nowhere.json pods.json", ("nowhere.json", "no such file")),
    ("import kubernetes nodes.json pods.json", ("nodes.json", "kubectl get nodes,pods")),
    ("import kubernetes nodes.json pods.json --running go", ("go", "move", "stay")),
    ("import tiresias --jobs pages.csv --cluster pages.csv", ("pages.csv", "job_id", "needed")),
    ("import philly pages.csv --at noon --servers 3", ("noon", "2017-11-01 12:00")),
    ("import pollux --app nowhere --gpus 8", ("nowhere", "placements.csv")),
    ("import pipedream notes.txt --types v100", ("v100", "NAME=NUMBER")),
    ("import pipedream notes.txt --types v100=2", ("notes.txt", "line 1")),
    ("import dnn-partitioning nodes.json --types cpu=1", ("nodes.json", "nodes", "edges")),
    ("import openb pages.csv pages.csv", ("pages.csv", "no column", "needed")),
    ("import sailor nowhere --gpus a=1", ("--gpus",)),
    ("import gavel nowhere.json --jobs 3", ("--",)),
    # Clusters.
    ("import kubernetes cores.json k-pods.json", ("cores.json", "'8 cores'", "3920m or 16Gi")),
    ("import kubernetes k-nodes.json k-many.json", ("nvidia.com/gpu", "'many'", "3920m or 16Gi")),
    ("import kubernetes k-nodes.json k-nodes.json", ("k-nodes.json", "no pods are listed")),
    ("import kubernetes k-nodes.json k-pods.json --value money", ("'money'", "gpus", "priority")),
    ("import kubernetes k-nodes.json k-pods.json --gpu-label gpus", ("k-nodes.json", "'gpus'", "none")),
    ("import kubernetes k-nodes.json k-pods.json --volumes k-pods.json", ("Pod", "kubectl get pv,pvc")),
    ("import kubernetes k-nodes.json k-pods.json --volumes nowhere.json", ("nowhere.json", "no such file")),
    ("import slurm s-nodes.json pods.json", ("real_memory", "'lots'", "0 to 1e15")),
    ("import slurm k-nodes.json pods.json", ("k-nodes.json", "scontrol show nodes --json")),
    ("validate pinned.yaml", ("pinned", "'x'", "list")),
    ("validate deep.yaml", ("deep.yaml", "too deeply")),
    # What if, and jobs that run.
    ("solve consolidation.yaml --what-if drain", ("'drain'", "drain=SERVER", "add=NxSERVER")),
    ("solve consolidation.yaml --what-if drain=no", ("'no'", "n-0, n-1")),
    ("what-if consolidation.yaml drain=no", ("scenario 'drain=no'", "no server or rack", "n-0, n-1")),
    ("what-if consolidation.yaml add=n --apply 3", ("--apply '3' writes a plan", "--output PLAN.json")),
    ("what-if consolidation.yaml", ("Missing argument", "KEY=VALUE")),
    ("solve consolidation.yaml --what-if add=0xn", ("'0xn'", "above 0", "2xn")),
    ("solve consolidation.yaml --what-if add=2xh100", ("'h100'", "there are")),
    ("solve consolidation.yaml --what-if drain=n-0 --output x.pdf", ("x.pdf", ".html", ".json")),
    ("solve allocation.yaml --what-if gpu=lots", ("'lots'", "+8", "none")),
    ("solve staging.yaml --what-if limit=Z:4", ("'Z'", "A, B")),
    ("solve scheduling.yaml --what-if gpu=lots", ("'lots'", "+8", "none")),
    ("solve consolidation.yaml --pin nosuch*", ("--pin 'nosuch*'", "matches no job", "there are: ")),
    ("solve consolidation.yaml --drain nosuch*", ("--drain 'nosuch*'", "no server and no rack", "n-0")),
    ("solve consolidation.yaml --stop nosuch*", ("--stop 'nosuch*'", "matches no job", "there are: ")),
    ("solve consolidation.yaml --stop never --stop x", ("--stop never stands alone",)),
    ("solve consolidation.yaml --format xml", ("--format", "'xml' is not one of 'table'")),
    ("solve consolidation.yaml --output /proc/x/a.json", ("/proc/x/a.json: cannot be written",)),
    ("solve consolidation.yaml --max-moves -1", ("--max-moves", "-1", "0")),
    ("solve consolidation.yaml --restart-cost much", ("--restart-cost", "much", "valid")),
    ("solve scheduling.yaml --running stay", ("scheduling", "'running'", "consolidation")),
    ("solve consolidation.yaml --robust", ("no intervals", "uncertainty")),
    ("solve consolidation.yaml --robust --what-if drain=n-0", ("--robust", "without --what-if")),
    # Scheduling.
    ("validate s-negative.yaml", ("jobs[0].duration_s", "-5", "greater than 0")),
    ("validate s-key.yaml", ("durations", "did you mean 'duration_s'")),
    ("validate s-name.yaml", ("jobs[1].name", "'J2'", "unique")),
    ("validate s-nan.yaml", ("duration_s", "'NaN'", "plain number")),
    ("validate s-demand.yaml", ("tpu", "gpu")),
    ("validate s-objective.yaml", ("'speed'", "mean_completion_time", "makespan")),
    ("solve scheduling.yaml --solver shortest", ("'shortest'", "srtf", "exact")),
    ("solve scheduling.yaml --solver srtf --set placement=random", ("'random'", "best-fit", "consolidate")),
    ("solve scheduling.yaml --solver las --set quantum=5", ("'quantum'", "queues, placement")),
    ("pareto scheduling.yaml --resource tpu --from 1 --to 4", ("'tpu'", "gpu")),
    ("pareto scheduling.yaml --resource gpu --from 8 --to 4", ("--from 8", "--to 4", "smaller first")),
    ("export-model scheduling.yaml", ("scheduling", "textbook", "allocation")),
    ("import sacct sacct.txt --gpus 4", ("sacct.txt", "Submit", "sacct --parsable2")),
    ("import sacct k-pods.json --gpus 4", ("k-pods.json", "sacct --json")),
    ("import trace trace.csv --gpus 0", ("--gpus", "'0'", "1")),
    ("generate scheduling --jobs -3", ("--jobs", "-3", "1")),
    # Prediction.
    ("predict gpt9 --hardware h100", ("gpt9", "did you mean 'gpt2'", "known are")),
    ("predict gpt2 --hardware h900", ("'h900'", "did you mean 'h200'", "known are")),
    ("predict gpt2", ("--hardware",)),
    ("predict gpt2 --hardware h100 --batch 0", ("--batch", "'0'", "1")),
    ("predict model.json --hardware h100", ("model_type", "'unknown-thing'", "known are")),
    ("predict model.csv --hardware h100", ("model.csv: line 1", "layer, kind, shape")),
    ("predict gpt2 --hardware h100 --kind scheduling", ("'scheduling'", "staging", "allocation")),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with good documents, an answer to one of them, and many wrong files."""
    made = tmp_path_factory.mktemp("wrong")
    for name, document in GOOD.items():
        (made / name).write_text(yaml.safe_dump(document))
    for name, text in TEXTS.items():
        (made / name).write_text(text)
    (made / "answer.json").write_text(
        run_here("solve", "allocation.yaml", "--format", "json", cwd=made).stdout
    )
    return made


def _cases() -> Iterator[object]:
    for number, case in enumerate(CASES):
        yield pytest.param(*case[:2], case[2] if len(case) > 2 else "", id=f"{number}: {case[0]}")


def test_there_are_a_hundred_and_more_of_every_command() -> None:
    """Each verb that can be given something wrong is among them; no case stands twice."""
    verbs = {case[0].split()[0] for case in CASES}
    assert len({(case[0], case[1]) for case in CASES}) == len(CASES) >= 100
    assert verbs >= {"solve", "compare", "pareto", "verify", "report", "diff", "export-plan", "validate"}
    assert verbs >= {"schema", "solvers", "export-model", "import", "generate", "fit", "predict"}


@pytest.mark.parametrize(("command", "words", "typed"), [*_cases()])
def test_a_wrong_input_is_answered(
    command: str, words: tuple[str, ...], typed: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an exit code and a message that helps, not by a traceback."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
    done = run_here(*command.split(), cwd=folder)
    message = " ".join(done.stderr.replace("│", " ").split())
    assert done.returncode in (1, 2, 3, 7), done
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr
    assert [word for word in words if word not in message] == [], done.stderr
