"""The command `predict`.

Deadlines as people write them.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest
from command_line import invoke

import clusterplan
from clusterplan.instances.common.errors import OptionError
from clusterplan.planner.cli.instances.predict import hours_until, predict
from clusterplan.planner.exit_codes import INFEASIBLE

GIVEN = ("gpt2", "--hardware", "l4,h100", "--batch", 1, "--sequence", 128)


def test_a_table_with_intervals() -> None:
    shown = invoke(predict, *GIVEN).stdout
    assert shown.startswith("Rent ")
    assert "90 % interval" in shown
    assert "outside" in shown


def test_data_for_programs() -> None:
    found = json.loads(invoke(predict, *GIVEN, "--format", "json").stdout)
    assert [row["hardware"] for row in found["rows"]] == ["l4", "h100"]
    assert found["best"] in ("l4", "h100")
    assert found["answer"].startswith("Rent ")
    assert any("90 %" in line or "predict" in line for line in found["sentences"])
    assert len(invoke(predict, *GIVEN, "--format", "csv").stdout.splitlines()) == 3


def test_several_gpus_are_one_document_of_json_whether_they_fit_or_not() -> None:
    large = ("llama-2-70b", "--hardware", "l4,v100,t4", "--gpus", 1)
    done = invoke(predict, *large, "--precision", "bf16", "--format", "json")
    assert done.exit_code == INFEASIBLE
    found = json.loads(done.stdout)
    assert found["best"] is None
    assert {row["hardware"]: row["why_not"] for row in found["rows"]} == {
        "l4": "does not fit",
        "v100": "no bf16",
        "t4": "no bf16",
    }


def test_the_table_says_each_precision_and_from_which_batch_a_gpu_is_busy() -> None:
    shown = invoke(predict, "gpt2", "--hardware", "h100,v100", "--batch", 1, "--sequence", 64).stdout
    assert "in bf16 (h100), fp16 (v100)." in shown
    assert "h100: with batches of 1 the GPU waits for the host" in shown
    busy = invoke(predict, "gpt2", "--hardware", "h100,v100", "--batch", 2048, "--sequence", 64).stdout
    assert "waits for the host" not in busy


def test_a_page_with_a_gpu_that_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    given = ("gpt2", "--hardware", "h100,v100", "--batch", 1, "--precision", "bf16", "--output", path)
    assert invoke(predict, *given).exit_code == 0
    assert "v100 is left out: no bf16 (it has fp64, fp32, fp16)." in path.read_text()


def test_one_command_to_a_proven_plan(tmp_path: Path) -> None:
    path = tmp_path / "made.yaml"
    done = invoke(predict, *GIVEN, "--within", 48, "--solve", "--output", path, "--kind", "staging")
    assert "optimal" in done.stdout
    assert "verified" in done.stdout
    assert "above, each sort is alone, in whole machines" in done.stdout
    assert clusterplan.load(path).uncertainty


def test_thousands_of_gpus_are_written_as_figures_are() -> None:
    shown = invoke(
        predict, "gpt2", "--hardware", "p100", "--batch", 1, "--sequence", 64, "--gpus", 2048
    ).stdout
    assert shown.startswith("Rent 2,048 × p100: ")
    assert "\n2,048 × p100 " in shown


def test_what_fits_nowhere_and_has_no_plan_is_told_to_programs(tmp_path: Path) -> None:
    large = ("llama-2-70b", "--hardware", "t4")
    assert invoke(predict, *large, "--gpus", 1).exit_code == INFEASIBLE
    assert invoke(predict, *large, "--gpus", 1, "--output", tmp_path / "page.html").exit_code == INFEASIBLE
    done = invoke(predict, *large, "--solve")
    assert "infeasible" in done.stdout
    assert done.exit_code == INFEASIBLE


def test_fused_attention_is_said_and_is_of_transformers(tmp_path: Path) -> None:
    long = ("llama-2-7b", "--hardware", "h100", "--batch", 1, "--precision", "bf16", "--format", "json")
    plain, fused = (
        json.loads(invoke(predict, *long, *how).stdout)["rows"][0] for how in ((), ("--fused-attention",))
    )
    assert fused["hours"] < plain["hours"]
    assert fused["activations_gb"] < plain["activations_gb"]
    assert "keeps no scores" in invoke(predict, *long[:-2], "--fused-attention").stdout
    with pytest.raises(OptionError, match="t5-small: fused attention is known of transformers with one"):
        invoke(predict, "t5-small", "--hardware", "h100", "--fused-attention")


def test_a_page(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    invoke(predict, *GIVEN, "--deadline", "2099-01-01", "--output", path)
    assert "which GPUs?" in path.read_text()


@pytest.mark.parametrize("kind", ["staging", "allocation"])
def test_an_instance_is_written(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "made.yaml"
    invoke(predict, *GIVEN, "--kind", kind, "--output", path)
    assert clusterplan.load(path).kind == kind


def test_what_to_measure(tmp_path: Path) -> None:
    assert invoke(predict, *GIVEN, "--plan-measurements").stdout.startswith("kind,precision,shape")
    invoke(predict, *GIVEN, "--plan-measurements", "--output", tmp_path / "time.py")
    assert "torch" in (tmp_path / "time.py").read_text()


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (["--output", "x.yaml"], "give a page (.html), or add --kind"),
        (["--measurements", "l4=", "--measurements", "x"], "write NAME=FILE"),
        (["--measurements", "l4=a", "--measurements", "L4=b"], "each name once"),
        (["--price", "l4"], "write NAME=NUMBER"),
        (["--plan-measurements", "--solve"], "leave --kind and --solve out"),
        (["--plan-measurements", "--format", "json"], "shapes are printed as CSV"),
        (["--kind", "staging", "--gpus", 4], "--gpus: an instance leaves to the solver"),
        (["--solve", "--no-recompute"], "--recompute: an instance leaves to the solver"),
        (["--kind", "staging", "--format", "json"], "the ending of --output is the format"),
        (["--solve", "--format", "csv"], "table or json"),
    ],
)
def test_what_does_not_go_together(more: list[str], what: str) -> None:
    assert what in invoke(predict, *GIVEN, *more, fails=OptionError)


NOW = datetime(2026, 11, 23, 8, 0)
"""A Monday."""


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("monday", 16),
        ("Friday", 16 + 4 * 24),
        ("sunday", 16 + 6 * 24),
        ("today", 16),
        ("Tomorrow", 40),
        ("2026-11-24", 40),
        ("2026-11-23T18:00", 10),
        ("2026W48T18", 10),
        ("2026-11-23 09:30", 1.5),
    ],
)
def test_hours_until(text: str, hours: float) -> None:
    assert hours_until(text, NOW) == pytest.approx(hours)


def test_an_offset_is_heeded() -> None:
    now = datetime.fromisoformat("2026-11-23T08:00+00:00")
    assert hours_until("2026-11-23T18:00+01:00", now) == pytest.approx(9)


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "freitag", "9999-12-31", "0001-01-01T00:00"])
def test_what_is_no_deadline(text: str) -> None:
    with pytest.raises(OptionError, match="write a day such as friday, tomorrow"):
        hours_until(text, NOW)


def test_what_is_over() -> None:
    with pytest.raises(OptionError, match="is over since 24"):
        hours_until("2026-11-22T08:00", NOW)
