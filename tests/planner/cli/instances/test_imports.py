"""The commands of importers, made from their options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.importers import IMPORTERS
from clusterplan.planner.cli.instances.imports import importers, pairs

COMMANDS = get_command(importers).commands  # type: ignore[attr-defined]


def test_pairs() -> None:
    """Names are different, and each has a number."""
    assert pairs("a=1, b=2", "--limit", int) == {"a": 1, "b": 2}
    for text, words in (("a", "write NAME=NUMBER"), ("a=x", "write NAME"), ("a=1,a=2", "a stands twice")):
        with pytest.raises(OptionError, match=f"--limit .*{words}"):
            pairs(text, "--limit", int)


def test_every_importer_has_a_command_with_its_options() -> None:
    """And `--output` beside them."""
    assert list(COMMANDS) == list(IMPORTERS)
    for name, command in COMMANDS.items():
        assert len(command.params) == len(IMPORTERS[name].options.model_fields) + 1
        assert command.help == IMPORTERS[name].options.__doc__


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("sailor", {"--model-dir", "--types", "--price", "--limit", "--link-gbit-per-s", "--llm-info"}),
        ("pipedream", {"graph", "--types", "--input-time", "--no-input-time", "--batch"}),
        ("kubernetes", {"nodes", "pods", "--pods", "--namespace", "--gpu-resource", "--running"}),
        ("slurm", {"nodes", "queue", "--jobs", "--partition", "--spread"}),
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
