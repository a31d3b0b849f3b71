"""Models by name and from files: as many parameters as their authors say, and faults in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample_documents import put, refused

from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.prediction.models import Setting, load_model
from clusterplan.instances.prediction.models.load import known_models

PARAMETERS = {
    "bert-base": 109_514_298,
    "bert-large": 335_174_458,
    "gpt2": 124_439_808,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "opt-125m": 125_239_296,
    "opt-350m": 331_196_416,
    "opt-1.3b": 1_315_758_080,
    "llama-2-7b": 6_738_415_616,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "mistral-7b": 7_241_732_096,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "qwen2-7b": 7_615_616_512,
    "qwen3-8b": 8_190_735_360,
    "qwen3-30b-a3b": 30_532_122_624,
    "gemma-2b": 2_506_172_416,
    "gemma-2-9b": 9_241_705_984,
    "phi-2": 2_779_683_840,
    "falcon-7b": 6_921_720_704,
    "falcon-40b": 41_303_293_952,
    "gpt-j-6b": 6_050_882_784,
    "gpt-neox-20b": 20_554_567_680,
    "pythia-6.9b": 6_857_302_016,
    "bloom-7b1": 7_069_016_064,
    "bloom-176b": 176_247_271_424,
    "mpt-7b": 6_649_286_656,
    "starcoder": 15_517_456_384,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "roberta-base": 124_697_433,
    "albert-base": 11_221_680,
    "distilbert": 66_985_530,
    "vit-base": 86_567_656,
    "vit-large": 304_326_632,
    "alexnet": 61_100_840,
    "vgg16": 138_357_544,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "inception-v3": 23_834_568,
}
"""As `sum(p.numel() for p in model.parameters())` of the published PyTorch models."""


GPT2 = '{{"model_type": "gpt2", {}"n_head": 3, "n_layer": 1, "n_positions": 8, "vocab_size": 9}}'
LAYERS = "layer,kind,shape\n"


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_those_of_the_published_model(name: str) -> None:
    assert load_model(name).parameters() == PARAMETERS[name]


@pytest.mark.parametrize("name", known_models())
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
        ("m.csv", LAYERS + "a,lstm,1x2\n", "line 2: layer kind 'lstm': unknown; there are linear"),
        ("m.csv", LAYERS + "a,linear,1x2\n", "line 2: linear: has 2 sizes"),
        ("m.csv", LAYERS + "a,linear,1xtwox3\n",
         "line 2: shape is 'two'; it must be made of whole numbers"),
        ("m.csv", LAYERS + "a,linear,\n", "line 2: has no shape"),
        ("m.csv", "layer,kind,shape,paramters\na,linear,1x2x3,6\n",
         "line 1: 'paramters' means nothing here; the fields are layer"),
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
