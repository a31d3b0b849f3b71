"""What a document of staging leaves out is assumed, and said."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from command_line import run_here

import clusterplan
from clusterplan.instances.documents import load, parse_instance
from clusterplan.instances.staging.instance import StagingInstance, Training

TRAINING = "Not given: training; it is taken to be 1,000,000 samples, once."
BATCH = "Not given: probe_batch; layer times are taken to be those of one sample."
SHARE = "Not given: compute_parallel of {}; 99% of the time is taken to be divided by further units."


def made(*left_out: str, layers: int = 0, **fields: Any) -> StagingInstance:
    """Return two layers, of which the first few have no share; fields are left out."""
    rows: list[dict[str, Any]] = [{"name": n, "compute_s": {"t": 1.0}, "compute_parallel": 0.5} for n in "ab"]
    for row in rows[:layers]:
        del row["compute_parallel"]
    document = {
        "schema_version": 1,
        "kind": "staging",
        "name": "bare",
        "training": {"samples": 10},
        "probe_batch": 2,
        "types": [{"name": "t", "price_usd_per_hour": 1.0}],
        "layers": rows,
        **fields,
    }
    instance = parse_instance({key: value for key, value in document.items() if key not in left_out})
    assert isinstance(instance, StagingInstance)
    return instance


def test_each_default_is_said() -> None:
    assert made().assumptions == ()
    assert made("training").assumptions == (TRAINING,)
    assert made("training").training == Training(samples=1e6)
    assert (made("probe_batch").assumptions, made("probe_batch").probe_batch) == ((BATCH,), 1.0)
    assert made(layers=1).assumptions == (SHARE.format("1 of 2 layers"),)
    assert made(layers=2).assumptions == (SHARE.format("all layers"),)
    assert [layer.compute_parallel for layer in made(layers=1).layers] == [0.99, 0.5]


def test_they_stand_beside_what_others_assumed_and_once() -> None:
    """Also in a document that was saved with them."""
    instance = made("training", "probe_batch", layers=2, assumptions=["prices are guessed"])
    sentences = ("prices are guessed", TRAINING, BATCH, SHARE.format("all layers"))
    assert instance.assumptions == sentences
    assert parse_instance(instance.document()) == instance
    assert instance.figure_notes() == list(sentences[1:])


def test_validate_and_solve_say_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of a document with its layers in a table too."""
    (tmp_path / "layers.csv").write_text("name,t_ms\na,3\nb,4\n")
    (tmp_path / "bare.yaml").write_text(
        "schema_version: 1\nkind: staging\nname: bare\ntypes: [{name: t, price_usd_per_hour: 1}]\n"
        "layers: layers.csv\n"
    )
    said = run_here("validate", tmp_path / "bare.yaml").stdout
    for sentence in (TRAINING, BATCH, SHARE.format("all layers")):
        assert sentence in said
    with caplog.at_level(logging.WARNING, "clusterplan"):
        assert clusterplan.solve(load(tmp_path / "bare.yaml"), "exact").plan
    assert TRAINING in caplog.text
