"""The verbs that make instances: import, generate, fit."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
import typer
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from clusterplan.instances.allocation.fits import fit_loss, fit_speed
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.common.base import Instance
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.documents import load, parse_instance
from clusterplan.instances.files.tables import MANY_ROWS
from clusterplan.instances.importers import IMPORTERS
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.instances.staging.generate_ctr import generate_ctr
from clusterplan.planner.cli.instances.generate import generators
from clusterplan.planner.cli.instances.imports import CommonOptions, fits, importers
from clusterplan.planner.cli.instances.output import Steps, emit

COMMANDS = get_command(importers).commands  # type: ignore[attr-defined]


def test_every_importer_has_a_command_with_its_options() -> None:
    """And `--output`, and what solves it, beside them."""
    common = {field.name for field in fields(CommonOptions)}
    assert list(COMMANDS) == list(IMPORTERS)
    for name, command in COMMANDS.items():
        assert len(command.params) == len(IMPORTERS[name].options.model_fields) + len(common)
        assert not common & IMPORTERS[name].options.model_fields.keys()
        assert command.help == IMPORTERS[name].options.__doc__


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


CASES = [
    (
        "allocation --jobs 3 --resources 2 --tightness 0.3 --optional-share 0.5 --seed 4",
        lambda: generate_allocation(3, 2, 0.3, 0.5, 4),
    ),
    ("allocation --jobs 3 --spare 2", lambda: generate_allocation(3, spare=2)),
    (
        "staging --layers 4 --types 2 --limits tight --memory --transfers --seed 5",
        lambda: generate_staging(4, 2, "tight", True, True, 5),
    ),
    ("ctr --layers 4 --seed 2 --floor 5000", lambda: generate_ctr(4, 2, 5000.0)),
    (
        "consolidation --servers 4 --jobs 5 --resources 3 --shapes 2 --rack-size 2 --must-place-share 0.2",
        lambda: generate_consolidation(4, 5, resources=3, shapes=2, rack_size=2, must_place_share=0.2),
    ),
]


@pytest.mark.parametrize(("words", "made"), CASES, ids=[words for words, _ in CASES])
def test_the_options_are_those_of_the_generator(words: str, made: Callable[[], Instance]) -> None:
    """The command prints what the function returns."""
    done = CliRunner().invoke(generators, words.split())
    assert done.exit_code == 0
    assert parse_instance(yaml.safe_load(done.stdout)).sha256() == made().sha256()


@pytest.fixture
def speeds(tmp_path: Path) -> Path:
    """Return a file with speeds of ring all-reduce."""
    rows = [f"{w},{1 / (0.8 / w + 0.1 + 0.2 * (w - 1) / w + 0.01 * (w - 1))}" for w in range(1, 9)]
    path = tmp_path / "s.csv"
    path.write_text("workers,steps_per_s\n" + "\n".join(rows) + "\n")
    return path


def test_a_speed_as_json_and_as_a_table(speeds: Path) -> None:
    """The figures are those of the fit; the table ends with the field that a document takes."""
    words = ["speed", str(speeds), "--model", "ring_allreduce", "--batch", "8", "--allow-rank-deficient"]
    fit = fit_speed(speeds, "ring_allreduce", 8, True)
    done = CliRunner().invoke(fits, [*words, "--format", "json"])
    assert json.loads(done.stdout) == json.loads(fit.model_dump_json())
    lines = CliRunner().invoke(fits, words).stdout.splitlines()
    assert lines[-1].startswith("speed: {model: ring_allreduce, theta: [")
    assert any(line.startswith("θ0 = ") for line in lines)


def test_a_loss_as_json_and_as_a_table(tmp_path: Path) -> None:
    """Remaining steps stand in the last line."""
    path = tmp_path / "l.csv"
    path.write_text("step,loss\n" + "".join(f"{k * 100},{1 / (0.1 * k + 1) + 0.1}\n" for k in range(30)))
    words = ["loss", str(path), "--steps-per-epoch", "100", "--delta", "0.001", "--seed", "3"]
    fit = fit_loss(path, 100, 0.001, seed=3)
    done = CliRunner().invoke(fits, [*words, "--format", "json"])
    assert json.loads(done.stdout) == json.loads(fit.model_dump_json())
    lines = CliRunner().invoke(fits, words).stdout.splitlines()
    assert lines[-1] == f"remaining_steps: {fit.remaining_steps:.10g}"


def test_a_small_instance_goes_to_stdout_or_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was assumed stands on stderr, beside the name of the file."""
    instance = generate_allocation(2, 2, seed=1)
    emit(instance, None)
    assert capsys.readouterr().out.startswith("schema_version: 1\nkind: allocation\n")
    emit(instance.model_copy(update={"assumptions": ("so",)}), tmp_path / "x.yaml")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.endswith("  assumed: so\n")
    assert load(tmp_path / "x.yaml").name == instance.name


def test_a_table_needs_a_file_beside_it() -> None:
    """One that is asked for, and one that so many jobs want."""
    with pytest.raises(OptionError, match="--table needs --output FILE"):
        emit(generate_allocation(2, 2), None, "csv")
    with pytest.raises(OptionError, match="give --output FILE"):
        emit(generate_allocation(MANY_ROWS, 1), None)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO, _Terminal])
def test_each_step_says_when_it_is_done(monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO]) -> None:
    shown = stream()
    monkeypatch.setattr(sys, "stderr", shown)
    with Steps(quiet=False).step("reading"):
        pass
    assert "reading: done in 0." in shown.getvalue()


def test_a_step_that_fails_is_not_done(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="no"), Steps(quiet=False).step("reading"):
        raise ValueError("no")
    assert capsys.readouterr().err == "reading …\n"


def test_quiet_steps_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    steps = Steps(quiet=True)
    with steps.step("reading"):
        pass
    steps.done("reading", 1.0)
    assert steps.quiet
    assert capsys.readouterr().err == ""
