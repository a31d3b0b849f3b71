"""Precisions: what each GPU is trained in unless one is asked for, and GPUs that do not have it."""

from __future__ import annotations

from pathlib import Path

import pytest

import clusterplan
from clusterplan.instances.common.errors import OptionError, RefusedError
from clusterplan.instances.prediction.models.description import OPTIMISER_NUMBERS, Setting, device_memory
from clusterplan.instances.prediction.models.load import load_model
from clusterplan.instances.prediction.provisioning.predict import Prediction, predict
from clusterplan.planner.exit_codes import INFEASIBLE, code_of_error


def _predict(hardware: str, **more: object) -> Prediction:
    return predict("gpt2", hardware, **{"batch": 1, "sequence": 128, **more})  # type: ignore[arg-type]


def test_each_gpu_computes_in_what_it_is_trained_in() -> None:
    found = _predict("h100,v100,k80,a100-80")
    taken = {row["hardware"]: row["precision"] for row in found.rows()}
    assert taken == {"h100": "bf16", "v100": "fp16", "k80": "fp32", "a100-80": "bf16"}
    said = found.sentences()
    assert said[0].endswith("on a GPU, in bf16 (h100, a100-80), fp16 (v100), fp32 (k80).")
    assert any(line.startswith("No precision was asked for") for line in said)
    for one, precision in zip(found.forecasts, taken.values(), strict=True):
        assert one.step == _predict(one.rented.name, precision=precision).forecasts[0].step


def test_a_precision_that_was_asked_for_is_that_of_all() -> None:
    found = _predict("h100,v100", precision=" FP16 ")
    assert [row["precision"] for row in found.rows()] == ["fp16", "fp16"]
    assert not any("was asked for" in line for line in found.sentences())


def test_a_gpu_without_the_precision_is_left_out_and_the_others_are_answered() -> None:
    found = _predict("v100,h100,t4", precision="bf16")
    assert found.best is not None
    assert found.offers == _predict("h100", precision="bf16").offers
    first, *rest = found.rows()
    assert first["hardware"] == "h100"
    assert [(row["hardware"], row["fits"], row["why_not"]) for row in rest] == [
        ("v100", False, "no bf16"),
        ("t4", False, "no bf16"),
    ]
    assert all(list(row) == list(first) for row in rest)
    left_out = "v100 is left out: no bf16 (it has fp64, fp32, fp16)."
    assert left_out in found.sentences()
    for kind in ("staging", "allocation"):
        assert left_out in found.instance(kind).document()["assumptions"]


def test_what_is_left_and_does_not_fit_is_told_beside_what_is_left_out() -> None:
    answer = predict("llama-2-70b", "v100,l4", batch=1, gpus=1, precision="bf16").answer()
    assert "l4: does not fit" in answer
    assert "v100: no bf16 (it has fp64, fp32, fp16)" in answer


def test_without_any_gpu_that_has_the_precision_there_is_an_error() -> None:
    said = r"gpt2 cannot be trained .* v100: no bf16 .*; t4: no bf16"
    with pytest.raises(RefusedError, match=said) as raised:
        _predict("v100,t4", precision="bf16")
    assert code_of_error(raised.value) == INFEASIBLE


def test_measurements_of_a_gpu_that_is_left_out_do_not_stop_the_others(tmp_path: Path) -> None:
    path = tmp_path / "v100.csv"
    path.write_text("kind,precision,shape,seconds\nlinear,fp16,1024x1024x1024,0.0001\n")
    found = _predict("h100,v100", precision="bf16", measurements={"v100": path})
    assert [row["fits"] for row in found.rows()] == [True, False]


def test_layers_are_as_large_as_in_the_widest_precision() -> None:
    both = _predict("h100,p100", prices={"p100": 1.0}).instance("staging")
    wide = _predict("p100,h100", prices={"p100": 1.0}, precision="fp32").instance("staging")
    assert isinstance(both, clusterplan.StagingInstance)
    assert isinstance(wide, clusterplan.StagingInstance)
    assert [layer.memory_gib for layer in both.layers] == [layer.memory_gib for layer in wide.layers]
    assert [layer.output_bytes for layer in both.layers] == [layer.output_bytes for layer in wide.layers]
    assert any("as large as in fp32 on all of them" in line for line in both.assumptions)
    alone = _predict("h100").instance("staging").document()
    for one, other, half in zip(both.layers, wide.layers, alone["layers"], strict=True):
        assert one.compute_s["p100"] == pytest.approx(other.compute_s["p100"])
        assert one.compute_s["h100"] == pytest.approx(half["compute_s"]["h100"])
    assert not any("as large as in" in line for line in _predict("h100,v100").instance("staging").assumptions)


def test_shapes_are_timed_in_one_precision() -> None:
    with pytest.raises(OptionError, match=r"in bf16 \(h100\), fp16 \(v100\): name one GPU"):
        _predict("h100,v100").shapes_to_time()
    assert {row["precision"] for row in _predict("v100").shapes_to_time()} == {"fp16"}
    assert {row["precision"] for row in _predict("h100,a100-80").shapes_to_time()} == {"bf16"}


@pytest.mark.parametrize("optimiser", OPTIMISER_NUMBERS)
def test_wider_elements_never_need_less_memory(optimiser: str) -> None:
    """What staging rests on where it takes the memory of the widest."""
    model = load_model("gpt2")
    for layers in zip(*(model.layers(Setting(1, 64, name)) for name in ("fp8", "bf16", "fp32")), strict=True):
        held = [
            device_memory([layer], Setting(1, 64, name), optimiser).total
            for layer, name in zip(layers, ("fp8", "bf16", "fp32"), strict=True)
        ]
        assert held == sorted(held)
