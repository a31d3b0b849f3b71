"""Models by name and from files: networks, tables of layers, and faults in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from forecasts import flops
from sample_documents import put, refused

from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.prediction.models import Setting, load_model
from clusterplan.instances.prediction.models.load import model_of_rows, named

GPT2 = '{{"model_type": "gpt2", {}"n_head": 3, "n_layer": 1, "n_positions": 8, "vocab_size": 9}}'
LAYERS = "layer,kind,shape\n"


@pytest.mark.parametrize("name", named())
def test_every_known_model_has_layers(name: str) -> None:
    model = load_model(name)
    layers = model.layers(Setting(batch=2))
    assert len({layer.name for layer in layers}) == len(layers)
    assert model.source
    assert all(layer.output > 0 for layer in layers)


def test_a_config_file_is_the_named_model(tmp_path: Path) -> None:
    config = {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024}
    file = put(tmp_path / "mine.json", {**config, "vocab_size": 50257, "resid_pdrop": 0.1})
    assert load_model(file).operators(Setting(4)) == load_model("gpt2").operators(Setting(4))


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("c.json", '{"model_type": "mamba"}', "model_type: is 'mamba'; known are bert"),
        ("c.json", '{"model_type": "whisper", "is_encoder_decoder": true}',
         "model_type: is 'whisper'; known with encoder and decoder are t5"),
        ("c.json", GPT2.format('"n_embd": 10, '),
         "num_attention_heads: is 3, which does not divide hidden_size 10"),
        ("c.json", GPT2.format(""), "hidden_size or n_embd or d_model or n_embed or dim: is missing"),
        ("c.json", GPT2.format('"n_embd": -4, '), "must be at least 1"),
        ("deep.json", '{"a":' * 5000, "deep.json: is nested too deeply"),
        ("m.csv", LAYERS + "a,lstm,1x2\n", "line 2: operator 'lstm': unknown; there are linear"),
        ("m.csv", LAYERS + "a,linear,1x2\n", "line 2: linear: has 2 sizes"),
        ("m.csv", LAYERS + "a,linear,1xtwox3\n",
         "line 2: shape[1]: is 'two'; it must be a whole number"),
        ("m.csv", LAYERS + "a,linear,\n", "line 2: shape: is missing"),
        ("m.csv", "layer,kind,shape,paramters\na,linear,1x2x3,6\n",
         "line 1: 'paramters' means nothing here; the columns are layer"),
        ("m.yaml", "layers: 5", "has neither a model_type, as a config.json, nor a list of layers"),
        ("m.yaml", "- layer: a", "is no mapping; it must have a model_type"),
        ("m.yaml", "layers: " + "[" * 3000, "is nested too deeply"),
        ("m.yaml", "name: [a]\nlayers: [{layer: a, kind: linear, shape: [1, 2, 3]}]",
         "name: is ['a']; it must be text"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_one_line(tmp_path: Path, name: str, text: str, says: str) -> None:
    """A config, a table of layers, and a document of something else."""
    (tmp_path / name).write_text(text)
    with refused(says):
        load_model(tmp_path / name)


def test_unknown_names_get_a_guess() -> None:
    with pytest.raises(InstanceError, match="did you mean 'resnet50'"):
        load_model("resnet-50")
    with pytest.raises(InstanceError, match="there is no such file"):
        load_model("nowhere.json")


def test_a_table_of_layers_is_a_model(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("layer,kind,shape,parameters\na,linear,1x10x20,220\na,relu,1x20,\nb,linear,1x20x5,105\n")
    model = load_model(file)
    assert [layer.name for layer in model.layers(Setting())] == ["a", "b"]
    assert model.parameters() == 325
    assert model.layers(Setting(batch=7))[1].operators[0].shape == (7, 20, 5)
    same = tmp_path / "mine.yaml"
    same.write_text("layers: [{layer: a, kind: linear, shape: [1, 10, 20], parameters: 220}]")
    assert load_model(same).parameters() == 220


def test_settings_that_cannot_be_are_one_line() -> None:
    gpt, resnet = load_model("gpt2"), load_model("resnet50")
    with pytest.raises(OptionError, match="sequence 2048: the model has positions for 1024"):
        gpt.layers(Setting(sequence=2048))
    with pytest.raises(OptionError, match="tensor_parallel 5: does not divide the 12 heads"):
        gpt.layers(Setting(tensor_parallel=5))
    with pytest.raises(OptionError, match="only transformers share tensors"):
        resnet.layers(Setting(tensor_parallel=2))
    with pytest.raises(OptionError, match="resnet50: has no sequence"):
        resnet.layers(Setting(sequence=2))
    with pytest.raises(OptionError, match="batch 0: must be from 1"):
        Setting(batch=0)


def test_rows_of_one_name_are_one_layer() -> None:
    rows = [
        ("1", {"layer": "a", "kind": "linear", "shape": "1×2×3", "count": "2"}),
        ("2", {"layer": "a", "kind": "relu", "shape": [1, 3], "saved": 0}),
    ]
    (layer,) = model_of_rows(rows, "mine", "here").layers(Setting())
    assert [op.count for op in layer.operators] == [2, 1]
    assert layer.activations == 6


def test_every_fault_is_told() -> None:
    rows = [("layers[0]", "text"), ("layers[1]", {"kind": "relu"}), ("layers[2]", {"layer": "a"})]
    with pytest.raises(InstanceError) as error:
        model_of_rows(rows, "mine", "here")
    assert str(error.value).splitlines() == [
        "here: layers[0]: is 'text', which is not a mapping of fields",
        "here: layers[1]: layer: is missing; it must be given",
        "here: layers[1]: shape: is missing; it must be given",
        "here: layers[2]: kind: is missing; it must be given",
        "here: layers[2]: shape: is missing; it must be given",
    ]
    with pytest.raises(InstanceError, match="has 0 layers"):
        model_of_rows([], "mine", "here")


LINEAR = {"layer": "a", "kind": "linear", "shape": [1, 2, 3]}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"paramters": 6}, "paramters: unknown key; did you mean 'parameters'? allowed here: layer, kind"),
        ({"layer": ["a"]}, "layer: is ['a'], which is not text"),
        ({"shape": [-1, 2, 3]}, "shape[0]: is '-1'; it must be a whole number"),
        ({"shape": [float("nan"), 2, 3]}, "shape[0]: is 'nan'"),
        ({"shape": [True, 2, 3]}, "shape[0]: is 'True'"),
        ({"shape": [10**16, 2, 3]}, "of at most 15 digits"),
        ({"count": "many"}, "count: is 'many'"),
        ({"saved": -1}, "saved: is '-1'"),
    ],
)
def test_a_wrong_row_is_one_line(wrong: dict[str, object], says: str) -> None:
    with refused(says):
        model_of_rows([("row", {**LINEAR, **wrong})], "mine", "here")


def test_a_layer_does_not_begin_twice() -> None:
    rows = [(str(index), {**LINEAR, "layer": name}) for index, name in enumerate("aaba")]
    with pytest.raises(InstanceError, match="3: layer 'a' began above; its rows must follow one another"):
        model_of_rows(rows, "mine", "here")


def test_null_counts_as_left_out() -> None:
    row = {**LINEAR, "count": None, "parameters": None, "saved": ""}
    assert model_of_rows([("", row)], "mine", "here") == model_of_rows([("", LINEAR)], "mine", "here")


def test_a_table_without_parameters_says_so() -> None:
    assert "no parameters" in model_of_rows([("", LINEAR)], "mine", "here").assumptions[0]
    assert not model_of_rows([("", {**LINEAR, "parameters": 6})], "mine", "here").assumptions


BILLIONS = {
    "alexnet": 0.71,
    "vgg16": 15.5,
    "vgg19": 19.6,
    "resnet50": 4.1,
    "resnet152": 11.5,
    "inception-v3": 5.7,
}
"""Multiplications and additions of a sample, together one, as the papers and torchvision count them."""


@pytest.mark.parametrize("name", BILLIONS)
def test_operations_are_those_of_the_paper(name: str) -> None:
    operators = load_model(name).operators(Setting(training=False))
    products = flops(op for op in operators if op.kind in ("conv", "linear"))
    assert products / 2e9 == pytest.approx(BILLIONS[name], rel=0.02)


def test_a_residual_network_ends_at_its_classes() -> None:
    layers = load_model("resnet18").layers(Setting(3))
    assert layers[-1].output == 3000
    assert len(layers) == 10
