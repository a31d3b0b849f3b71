"""The commands of importers, made from their options."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.importers import IMPORTERS
from clusterplan.planner.cli.instances.imports import AFTERWARDS, importers

COMMANDS = get_command(importers).commands  # type: ignore[attr-defined]


def test_every_importer_has_a_command_with_its_options() -> None:
    """And `--output`, and what solves it, beside them."""
    assert list(COMMANDS) == list(IMPORTERS)
    for name, command in COMMANDS.items():
        assert len(command.params) == len(IMPORTERS[name].options.model_fields) + len(AFTERWARDS)
        assert not AFTERWARDS.keys() & IMPORTERS[name].options.model_fields.keys()
        assert command.help == IMPORTERS[name].options.__doc__


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("sailor", {"--model-dir", "--types", "--price", "--limit", "--link-gbit-per-s", "--llm-info"}),
        ("sailor", {"--tensor-parallel", "--objective", "--stage-rule"}),
        ("pipedream", {"graph", "--types", "--input-time", "--no-input-time", "--batch"}),
        ("pipedream", {"--objective", "--stage-rule"}),
        ("dnn-partitioning", {"--objective", "--stage-rule"}),
        ("kubernetes", {"nodes", "pods", "--pods", "--namespace", "--gpu-resource", "--running"}),
        ("slurm", {"nodes", "queue", "--jobs", "--partition", "--spread", "--value"}),
        ("pollux", {"--app", "--gpus", "--samples", "--steps"}),
    ],
)
def test_names_of_options(command: str, options: set[str]) -> None:
    """Those that are called otherwise than their fields, flags, and arguments."""
    params = COMMANDS[command].params
    assert options <= {name for param in params for name in (*param.opts, *param.secondary_opts)}


def test_what_is_typed_reaches_the_importer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs, lists, flags, and 0 where there is no link; what is not typed has its default."""
    seen = []
    importer = IMPORTERS["pipedream"]
    monkeypatch.setattr(importer, "make", lambda options: seen.append(options) or typer.Exit())
    words = "pipedream g.txt --types a=2,b=1 --memory a=16 --no-input-time --link-gbit-per-s 0"
    CliRunner().invoke(importers, words.split())
    (options,) = seen
    assert (options.graph_file, options.types, options.memory) == (Path("g.txt"), {"a": 2, "b": 1}, {"a": 16})
    assert (options.input_time, options.link_gbit_per_s, options.parallel_share) == (False, None, 0.99)


def test_a_command_prints_the_instance(tmp_path: Path) -> None:
    """From the files of a small graph."""
    node = {"supportedOnFpga": 1, "cpuLatency": 2.0, "fpgaLatency": 1.0, "isBackwardNode": 0, "size": 1.0}
    nodes = [{"id": k, **node} for k in (0, 1)]
    edges = [{"sourceId": 0, "destId": 1, "cost": 1.0}]
    graph = {"maxSizePerFPGA": 10.0, "maxFPGAs": 2, "maxCPUs": 1, "nodes": nodes, "edges": edges}
    (tmp_path / "g.json").write_text(json.dumps(graph))
    words = [
        "dnn-partitioning",
        str(tmp_path / "g.json"),
        "--types",
        "accelerator=2",
        "--limit",
        "accelerator=1",
    ]
    done = CliRunner().invoke(importers, words)
    assert done.exit_code == 0
    assert "name: dnn-partitioning-g" in done.stdout
    assert "limit: 1" in done.stdout


def sailor_files(folder: Path) -> Path:
    """Write times and sizes of two layers on one GPU and on two, and return the model's folder."""
    layers = {"0": [1, 2, 0.5], "1": [1, 2, 0.5]}
    sizes = {"params_bytes": 8, "act_input_bytes": 1, "act_output_bytes": 2, "act_mem_bytes": 3}
    model = folder / "profiles" / "M"
    for gpu in ("A100-40", "GH-96"):
        (model / gpu).mkdir(parents=True)
        (model / gpu / "profile.json").write_text(json.dumps({"4": {"1": layers, "2": layers}}))
    info = {"M": {degree: {"0": sizes, "1": sizes} for degree in "12"}}
    (folder / "llm_info.json").write_text(json.dumps(info))
    return model


def imported(words: str, output: Path) -> dict[str, Any]:
    """Return the document that a command writes."""
    done = CliRunner().invoke(importers, [*words.split(), "--output", str(output)])
    assert done.exit_code == 0, done.output
    document = json.loads(output.read_text())
    assert isinstance(document, dict)
    return document


def test_sailor_with_tensor_parallelism(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Types by name or by degree, limits in GPUs, rule and objective; a shared limit is a warning."""
    model, output = sailor_files(tmp_path), tmp_path / "a.json"
    by_name = imported(f"sailor --model-dir {model} --types A100-40-tp2 --limit A100-40-tp2=3", output)
    (one,) = by_name["types"]
    assert (one["name"], one["limit"], one["price_usd_per_hour"]) == ("A100-40-tp2", 3, 2 * 3.673385)
    assert by_name["stage_rule"] == "free_cuts"
    words = "--tensor-parallel 1,2 --limit A100-40=4,GH-96=2 --objective throughput --stage-rule maximal_runs"
    every = imported(f"sailor --model-dir {model} --types all {words}", output)
    assert [(kind["name"], kind["limit"]) for kind in every["types"]] == [
        ("A100-40", 4),
        ("A100-40-tp2", 2),
        ("GH-96", 2),
        ("GH-96-tp2", 1),
    ]
    assert every["objective"] == "throughput"
    assert "stage_rule" not in every  # the default of the document
    assert every["layers"][0]["memory_gib"].keys() == {kind["name"] for kind in every["types"]}
    assert any("binds each of its types" in message for message in caplog.messages)


def test_a_merged_graph_is_a_warning_on_stderr(tmp_path: Path) -> None:
    """Even where the instance goes to stdout."""
    figures = "forward_compute_time=1, backward_compute_time=0, activation_size=8, parameter_size=0"
    lines = [f"node{n} -- Op -- {figures}" for n in range(1, 6)]
    lines += [f"\tnode{a} -- node{b}" for a, b in ("12", "13", "14", "25", "35", "45")]
    (tmp_path / "graph.txt").write_text("\n".join(lines))
    words = ["import", "pipedream", str(tmp_path / "graph.txt"), "--types", "gpu=1", "--shape", "chain"]
    command = [sys.executable, "-m", "clusterplan", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("WARNING Merging to a chain puts 4 of 5 nodes, with 80% of all time, into")
    assert done.stdout.startswith("schema_version")


TRACE = "arrive,gpus,run\n0,2,100\n10,1,20\n"
TRACE_OPTIONS = ["--arrival", "arrive", "--gpus-column", "gpus", "--duration", "run", "--gpus", "2"]


def test_one_command_goes_from_a_table_to_the_page_of_a_plan(tmp_path: Path) -> None:
    """It says each step on stderr, and writes the instance too where that is asked for."""
    table, page, instance = (tmp_path / name for name in ("jobs.csv", "plan.html", "trace.yaml"))
    table.write_text(TRACE)
    files = ["--report", str(page), "--output", str(instance)]
    ran = CliRunner().invoke(importers, ["trace", str(table), *TRACE_OPTIONS, "--solve", "srsf", *files])
    assert ran.exit_code == 0, ran.output
    assert "With srsf a job is done" in page.read_text(encoding="utf-8")
    for line in (
        "reading …",
        "reading: done in",
        "solving …",
        "writing the page: done in",
        f"written: {page}",
    ):
        assert line in ran.stderr
    assert "srsf" in ran.stdout
    assert instance.exists()
    quiet = CliRunner().invoke(importers, ["trace", str(table), *TRACE_OPTIONS, "--solve", "srsf", "--quiet"])
    assert quiet.stderr == ""


def test_a_page_needs_a_plan(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(TRACE)
    with pytest.raises(OptionError, match="--report is the page of a plan; say with --solve"):
        CliRunner().invoke(
            importers,
            ["trace", str(tmp_path / "jobs.csv"), *TRACE_OPTIONS, "--report", str(tmp_path / "p.html")],
            catch_exceptions=False,
        )
