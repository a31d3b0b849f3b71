"""Wrong inputs that are not in `recorded/given/refusals.json`: an exit code, and a message that helps."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from command_line import run_here
from sample_documents import ALLOCATION, CONSOLIDATION, INTERNAL, SCHEDULING, STAGING

POD = {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "1"}}}]}
STATUS = {"allocatable": {"cpu": "8", "nvidia.com/gpu": "4"}}
JOB = SCHEDULING["jobs"][0]
DOCUMENTS = {
    "allocation.yaml": ALLOCATION,
    "staging.yaml": STAGING,
    "consolidation.yaml": CONSOLIDATION,
    "wrong-kind.yaml": {**ALLOCATION, "kind": "placement"},
    "unknown-key.yaml": {**ALLOCATION, "resource": {}},
    "negative.yaml": {**ALLOCATION, "resources": {"gpu": -4, "cpu": 10}},
    "text-number.yaml": {**ALLOCATION, "resources": {"gpu": "four", "cpu": 10}},
    "two-names.yaml": {**ALLOCATION, "jobs": [ALLOCATION["jobs"][1]] * 2},
    "of-parquet.yaml": {**ALLOCATION, "jobs": "false.parquet"},
    "nan.yaml": {**SCHEDULING, "jobs": [{**JOB, "duration_s": float("nan")}]},
    "nodes.json": [1, 2],
    "k-nodes.json": {
        "kind": "List",
        "items": [{"kind": "Node", "metadata": {"name": "n"}, "status": STATUS}],
    },
    "k-pods.json": {"kind": "List", "items": [{"kind": "Pod", "metadata": {"name": "p"}, "spec": POD}]},
}
TEXTS = {
    "broken.yaml": "kind: [allocation\n",
    "broken.json": '{"kind": "allocation",}',
    "false.parquet": "no table\n",
    "pages.csv": "a,b\n1,2\n",
    "notes.txt": "nothing\n",
}
USES: dict[str, tuple[str, ...]] = {
    "": ("Usage:", "solve"),
    "slove allocation.yaml": ("slove", "solve"),
    "solve": ("Missing argument",),
    "solve allocation.yaml --tim-limit 3": ("--tim-limit", "--time-limit"),
    "solve allocation.yaml --bogus": ("No such option", "--bogus"),
    "solve allocation.yaml --time-limit soon": ("'soon'", "--time-limit", "valid"),
    "solve allocation.yaml --gap -1": ("gap", "-1", "0"),
    "solve allocation.yaml --memory-limit 0": ("memory_limit", "0", "greater than 0"),
    "solve allocation.yaml --jobs 0": ("jobs", "0", "1"),
    "solve consolidation.yaml --drain nosuch*": ("--drain 'nosuch*'", "no server and no rack", "n-0"),
    "solve consolidation.yaml --stop nosuch*": ("--stop 'nosuch*'", "matches no job", "there are: "),
    "solve consolidation.yaml --stop never --stop x": ("--stop never stands alone",),
    "solve consolidation.yaml --max-moves -1": ("--max-moves", "-1", "0"),
    "solve consolidation.yaml --restart-cost much": ("--restart-cost", "much", "valid"),
    "solve allocation.yaml --config .": (".: is a folder",),
    "solve allocation.yaml --config broken.yaml": ("broken.yaml: line 2",),
    "solve - --jobs 2 --output night": ("-: other processes cannot read standard input",),
    "what-if consolidation.yaml": ("Missing argument", "KEY=VALUE"),
    "what-if consolidation.yaml drain=no": ("scenario 'drain=no'", "no server or rack", "n-0, n-1"),
    "what-if consolidation.yaml add=n --apply 3": ("--apply '3' writes a plan", "--output PLAN.json"),
    "export-model allocation.yaml --objective 0": ("--objective", "0", "1"),
    "generate": ("Usage:", "allocation"),
    "generate allocation": ("Missing option", "--jobs"),
    "generate allocation --jobs 0": ("--jobs", "0", "1"),
    "generate allocation --jobs 2 --seed -1": ("seed", "-1", "0"),
    "generate allocation --jobs 2 --tightness nan": ("tightness",),
    "generate staging --layers 2 --types 2 --seed -1": ("seed", "-1", "0"),
    "generate consolidation --servers 2 --jobs 2 --seed -1": ("seed", "-1", "0"),
    "generate consolidation --servers 2 --jobs 2 --must-place-share 2": ("'2'", "--must-place-share", "1"),
    "generate scheduling --jobs -3": ("--jobs", "-3", "1"),
    "import gavel": ("Missing option", "--throughputs"),
    "import gavel nowhere.json --jobs 3": ("No such option", "--jobs"),
    "import kubernetes nodes.json pods.json --running go": ("go", "move", "stay"),
    "import pipedream notes.txt --types v100": ("v100", "NAME=NUMBER"),
    "import sailor nowhere --gpus a=1": ("--gpus", "--types"),
    "import trace trace.csv --gpus 0": ("--gpus", "'0'", "1"),
    "predict gpt2 --hardware h100 --batch 0": ("--batch", "'0'", "1"),
}
"""Command → words of its message."""
FILES: dict[str, tuple[str, ...]] = {
    "validate /dev/null": ("/dev/null", "device", "file"),
    "validate broken.yaml": ("broken.yaml", "line 2", "YAML"),
    "validate broken.json": ("broken.json", "line 1", "JSON"),
    "validate wrong-kind.yaml": ("placement", "allocation, staging, consolidation"),
    "validate unknown-key.yaml": ("resource:", "did you mean 'resources'", "jobs"),
    "validate negative.yaml": ("resources.gpu", "-4", "at least 0"),
    "validate text-number.yaml": ("resources.gpu", "'four'", "plain number"),
    "validate two-names.yaml": ("jobs[1].name", "'k'", "unique"),
    "validate of-parquet.yaml": ("false.parquet", "Parquet"),
    "validate nan.yaml": ("duration_s", "'NaN'", "plain number"),
    "verify allocation.yaml .": (".: is a folder",),
    "verify nowhere.yaml allocation.yaml": ("allocation.yaml: is not a result",),
    "import slurm nowhere.json pods.json": ("nowhere.json", "no such file"),
    "import kubernetes k-nodes.json k-nodes.json": ("k-nodes.json", "no pods are listed"),
    "import kubernetes k-nodes.json k-pods.json --volumes k-pods.json": ("Pod", "kubectl get pv,pvc"),
    "import tiresias --jobs pages.csv --cluster pages.csv": ("pages.csv", "job_id", "needed"),
    "import dnn-partitioning nodes.json --types cpu=1": ("nodes.json", "nodes", "edges"),
    "import openb pages.csv pages.csv": ("pages.csv", "no column", "needed"),
}
TYPED: dict[str, tuple[str, str]] = {
    "validate -": ("[1, 2]", "-: is not a mapping; an instance starts with 'schema_version: 1'"),
    "solve -": ('{"kind": ', "-: line 1, column 10: is not valid JSON"),
    "export-model -": ("", "-: standard input is empty"),
    "validate - -": (json.dumps(ALLOCATION), "was read already; - may stand once"),
    "verify allocation.yaml -": ("{}", "-: is not a result; give what 'clusterplan solve --format json'"),
    "fit speed -": ("workers\n1\n", "-: line 1: has no column steps_per_s"),
}
"""Command → what is on standard input, and what is said about it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with good documents and many wrong files."""
    made = tmp_path_factory.mktemp("wrong")
    for name, text in (TEXTS | {name: json.dumps(one) for name, one in DOCUMENTS.items()}).items():
        (made / name).write_text(text)
    return made


CASES = [
    *((command, 2, words, "") for command, words in USES.items()),
    *((command, 3, words, "") for command, words in FILES.items()),
    *((command, 3, (said,), typed) for command, (typed, said) in TYPED.items()),
]


@pytest.mark.parametrize(("command", "code", "words", "typed"), CASES, ids=[case[0] for case in CASES])
def test_a_wrong_input_is_answered(
    command: str, code: int, words: tuple[str, ...], typed: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an exit code and a message that helps, not by a traceback, and before anything is solved."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
    done = run_here(*command.split(), cwd=folder)
    message = " ".join(f"{done.stdout} {done.stderr}".replace("│", " ").split())
    assert done.returncode == code, done
    assert [word for word in words if word not in message] == [], message
    assert not any(word in message for word in INTERNAL), message
    if code == 2 and "Usage:" not in words:
        assert done.stdout == ""
