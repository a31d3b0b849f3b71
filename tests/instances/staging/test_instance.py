"""Staging instances: data model, defaults, generator."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import yaml
from authors import with_replicas
from command_line import run_here
from sample_documents import STAGING
from staging_instances import diamond, half_serial, two_layers

import clusterplan
from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.documents import load, parse_instance, to_text
from clusterplan.instances.files.reading import parse_document
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.instances.staging.instance import (
    Edge,
    Layer,
    StagingInstance,
    Training,
    edge_complaints,
    with_seconds,
)
from clusterplan.instances.staging.kind import STAGING as KIND

SECONDS = {"compute_s": {"slow": 4, "fast": 1}, "compute_parallel": 0.5}


def layers(memory: Any) -> list[dict[str, Any]]:
    """Return one layer with this memory."""
    return [{"name": "a", "memory_gib": memory, **SECONDS}]


def test_memory_is_one_number_or_one_per_type() -> None:
    """What a type holds, and the most of any."""
    one, each = (Layer(name="a", memory_gib=memory, **SECONDS) for memory in (2, {"slow": 3, "fast": 1}))
    assert (one.memory_on("slow"), one.most_memory_gib) == (2, 2)
    assert [each.memory_on(name) for name in ("slow", "fast")] == [3, 1]
    assert each.most_memory_gib == 3


def test_memory_by_type_survives_the_document() -> None:
    """And stands in the table of layers."""
    instance = two_layers(layers=layers({"slow": 3, "fast": 1}))
    assert parse_instance(parse_document(to_text(instance), "x", ".yaml")) == instance
    (row,) = instance.to_frame().to_dict("records")
    assert (row["memory_gib"], row["memory_gib_slow"], row["memory_gib_fast"]) == (3, 3, 1)
    assert "memory_gib_slow" not in two_layers(layers=layers(2)).to_frame()


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        ({"slow": 3}, "layers[0].memory_gib: has no figure for 'fast'; give one number or one per type"),
        ({"slow": 3, "fast": 1, "x": 1}, "layers[0].memory_gib.x: unknown type 'x'"),
        ({"slow": -3, "fast": 1}, "layers[0].memory_gib.slow: is -3, but must be at least 0"),
        (-1, "layers[0].memory_gib: is -1, but must be at least 0"),
    ],
)
def test_faults_of_memory(memory: Any, words: str) -> None:
    """Each type of the layer has a figure."""
    with pytest.raises(InstanceError) as caught:
        two_layers(layers=layers(memory))
    assert words in str(caught.value)


def test_a_graph_has_one_number() -> None:
    """Its methods know no other."""
    document = diamond().model_dump(mode="json", exclude_none=True)
    document["layers"][0]["memory_gib"] = {"gpu": 1}
    with pytest.raises(InstanceError, match="memory_gib: is by type; in a graph it is one number"):
        parse_instance(document)


def test_a_training_whose_cost_no_double_holds_is_refused() -> None:
    document = generate_staging(2, 2, seed=1).document()
    assert parse_instance(document | {"probe_batch": 1e-100})
    with pytest.raises(InstanceError, match=r"takes inf probe batches, .* exceed 1e\+200"):
        parse_instance(document | {"probe_batch": 5e-324})


FORWARD = {"a": False, "b": False, "c": True}


def complaints(*pairs: str) -> list[tuple[str, str]]:
    return list(edge_complaints([Edge(source=pair[0], target=pair[1]) for pair in pairs], FORWARD))


def test_what_is_wrong_with_edges() -> None:
    """Unknown layers, cycles, and edges from the backward pass to the forward one."""
    assert complaints("ab", "bc") == []
    assert complaints("ax") == [("edges[0].target", "unknown layer 'x'; the layers are: a, b, c")]
    assert complaints("ab", "ca") == [("edges[1]", "leads from backward layer 'c' to a forward one")]
    (place, what), *_ = complaints("ab", "ba")
    assert (place, what.split()[:4]) == ("edges", ["have", "a", "cycle", "through"])


def test_a_chain_has_none_of_the_fields_of_graphs() -> None:
    """So its document, and its hash, are what they were before there were graphs."""
    chain = half_serial()
    assert not chain.is_graph
    assert not {"edges", "stage_cost", "most_units_per_stage"} & set(chain.document())
    assert not {"transfer_s", "colour", "backward"} & set(chain.document()["layers"][0])


def test_rules_between_the_fields() -> None:
    """Each fault has one line."""
    with pytest.raises(InstanceError, match="stage_cost: is for graphs, and there are no edges"):
        diamond(edges=None)


TYPES = [{"name": "A100"}, {"name": "cpu_s"}]


def seconds(**row: Any) -> Any:
    """Return compute_s of one layer."""
    return with_seconds({"types": TYPES, "layers": [row]}, "d")["layers"][0]


def test_units_become_seconds() -> None:
    """The case of a type does not matter, and its name may end as a unit does."""
    assert seconds(name="l", a100_ms=35, cpu_s_us=2_000_000) == {
        "name": "l",
        "compute_s": {"A100": 0.035, "cpu_s": 2.0},
    }
    assert seconds(A100_s=3)["compute_s"] == {"A100": 3.0}


def test_fields_of_a_layer_are_no_times() -> None:
    row = {"name": "l", "compute_s": {"A100": 1}, "communication_s": {}, "transfer_s": None, "memory_gib": 3}
    assert seconds(**row) == row


def test_a_column_beside_seconds_of_another_type_is_added() -> None:
    assert seconds(compute_s={"cpu_s": 1}, a100_ms=1)["compute_s"] == {"cpu_s": 1, "A100": 0.001}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"t4_ms": 1}, "layers[0].t4_ms: names no type 't4'; the types are: A100, cpu_s"),
        ({"a100_ms": 1, "A100_us": 1}, "layers[0].A100_us: is a second time on 'A100'"),
        ({"a100_ms": 1, "compute_s": {"A100": 1}}, "is a second time on 'A100'"),
        ({"a100_ms": "fast"}, "layers[0].a100_ms: is 'fast', which is not a number"),
        ({"a100_ms": True}, "is True, which is not a number"),
    ],
)
def test_wrong_times_are_named(row: dict[str, Any], said: str) -> None:
    with pytest.raises(InstanceError) as caught:
        seconds(**row)
    assert said in str(caught.value)


def test_a_csv_of_milliseconds_is_the_same_instance(tmp_path: Path) -> None:
    """As the document in seconds, by its hash; a line is named where a cell is wrong."""
    (tmp_path / "d.yaml").write_text(yaml.safe_dump({**STAGING, "layers": "l.csv"}))
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(STAGING))
    (tmp_path / "l.csv").write_text(
        "name,A_ms,B_us,compute_parallel\nl0,1000,500000,0.9\nl1,2000,300000,0.9\n"
    )
    assert load(tmp_path / "d.yaml").sha256() == load(tmp_path / "e.yaml").sha256()
    (tmp_path / "l.csv").write_text("name,A_ms,B_us,compute_parallel\nl0,1000,x,0.9\nl1,2000,300000,0.9\n")
    with pytest.raises(InstanceError, match=r"l.csv: line 2: B_us: is 'x', which is not a number"):
        load(tmp_path / "d.yaml")


def test_times_that_look_like_milliseconds_are_pointed_out(tmp_path: Path) -> None:
    layers = [{"name": f"l{k}", "compute_s": {"A": 30 + k}, "compute_parallel": 0.9} for k in range(4)]
    (tmp_path / "d.yaml").write_text(yaml.safe_dump({**STAGING, "layers": layers}))
    (note,) = load(tmp_path / "d.yaml").figure_notes()
    assert "from 31.5 s on" in note
    assert "A_ms" in note
    for layer in layers:
        layer["compute_s"]["A"] /= 1000
    (tmp_path / "d.yaml").write_text(yaml.safe_dump({**STAGING, "layers": layers}))
    assert load(tmp_path / "d.yaml").figure_notes() == []


def four_gpus(**fields: Any) -> StagingInstance:
    """Return the diamond on four GPUs, its layers with 6 bytes of weights and 8 of output."""
    layers = [
        layer.model_dump(exclude_none=True)
        | {"weight_bytes": 6.0, "output_bytes": 8.0, "compute_parallel": 1}
        for layer in diamond().layers
    ]
    return diamond(4, layers=layers, **fields)


def test_times_of_replicas() -> None:
    """Layer c takes 3 s alone; two replicas add 2 · 6/2 bytes, at 2 bytes/s, and share all of it."""
    made = with_replicas(four_gpus(), 2.0)
    assert [one.name for one in made.types] == ["1 x gpu", "2 x gpu", "3 x gpu", "4 x gpu"]
    assert [one.price_usd_per_hour for one in made.types] == [1, 2, 3, 4]
    assert (made.hourly_budget_usd, made.most_units_per_stage) == (4, 1)
    layer = made.layers[2]
    assert layer.compute_s["1 x gpu"] == 3
    assert layer.compute_s["2 x gpu"] == pytest.approx((3 + 3) / 2)
    assert layer.compute_s["3 x gpu"] == pytest.approx((3 + 4) / 3)
    assert layer.transfer_s == pytest.approx({f"{m} x gpu": 8 / m for m in range(1, 5)})


def test_what_is_not_shared() -> None:
    """A serial share stays; neither weights nor tensors need be moved."""
    layers = [layer.model_copy(update={"compute_parallel": {"gpu": 0.5}}) for layer in four_gpus().layers]
    made = with_replicas(four_gpus().model_copy(update={"layers": layers}), 2.0, 0.0, 0.0)
    assert made.layers[2].compute_s["3 x gpu"] == pytest.approx(1.5 + 0.5)
    assert made.layers[2].transfer_s == dict.fromkeys(made.layers[2].compute_s, 0.0)


def test_it_is_still_an_instance() -> None:
    """Its document can be read again."""
    made = with_replicas(four_gpus(), 2.0)
    assert StagingInstance.model_validate(made.model_dump(exclude_none=True)) == made


@pytest.mark.parametrize(
    "instance",
    [
        two_layers(),
        diamond(hourly_budget_usd=3),
        diamond(types=[{"name": "gpu", "price_usd_per_hour": 0, "limit": 2}]),
        diamond(types=[{"name": "gpu", "price_usd_per_hour": 1}]),
    ],
)
def test_other_instances_are_refused(instance: StagingInstance) -> None:
    """A chain, one with a budget, without prices, or without a limit."""
    with pytest.raises(ValueError, match="replicas need"):
        with_replicas(instance, 1.0)


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


@pytest.mark.parametrize("seed", [5, 15, 25, 35])
def test_a_single_type_with_memory_holds_all_layers(seed: int) -> None:
    """Whatever the order in which memory is added up; a unit that is too small would search for ever."""
    instance = generate_staging(7, 1, "tight", memory=True, seed=seed)
    held = sum(layer.memory_gib for layer in instance.layers)
    assert held == pytest.approx(instance.types[0].memory_gib)


def test_the_tiny_instance_is_one_of_the_model() -> None:
    """Three layers on two types, as `doctor` and warm-up solve it."""
    tiny = KIND.tiny()
    assert isinstance(tiny, KIND.model)
    assert (len(tiny.layers), len(tiny.types)) == (3, 2)


def test_lists_are_fields_of_the_model() -> None:
    """Each may come from a file of its own."""
    assert set(KIND.lists) <= set(KIND.model.model_fields)
