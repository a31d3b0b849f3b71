"""Predictions for GPUs, and the precision that they assume."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import clusterplan
from clusterplan.instances.common.errors import OptionError, RefusedError
from clusterplan.instances.prediction.hardware import ring_s
from clusterplan.instances.prediction.models.description import OPTIMISER_NUMBERS, Setting, device_memory
from clusterplan.instances.prediction.models.load import load_model
from clusterplan.instances.prediction.provisioning import (
    Prediction,
    allocation_of,
    predict,
    staging_of,
)
from clusterplan.instances.prediction.report import answer_of, rented_text, row_of, short
from clusterplan.planner.exit_codes import INFEASIBLE, code_of_error
from clusterplan.solvers.common.result import Result

ROOMY = {"batch": 1, "sequence": 128}


def _predict(**more: object) -> Prediction:
    return predict("gpt2", "l4,h100", **{**ROOMY, **more})  # type: ignore[arg-type]


def test_rows_are_consistent() -> None:
    found = _predict(samples=3600.0, epochs=2.0, gpus=1)
    for row in found.rows():
        assert row["step_low_s"] <= row["step_s"] <= row["step_high_s"]
        parts = ("compute_s", "waiting_s", "communication_s", "update_s")
        assert row["step_s"] == pytest.approx(sum(row[part] for part in parts))
        assert row["compute_s"] == pytest.approx(8 * row["batch_s"])
        assert row["hours"] == pytest.approx(2 * row["step_s"] / row["global_batch"])
        assert row["cost_usd"] == pytest.approx(row["gpu_hours"] * row["price_usd_per_hour"])
        held = ("parameters_gb", "gradients_gb", "optimiser_gb", "activations_gb")
        assert row["memory_gb"] == pytest.approx(sum(row[part] for part in held))
        assert row["fits"]
        assert not row["inside"]
    assert found.to_frame()["hardware"].tolist() == ["l4", "h100"]


def test_the_answer_says_what_to_rent_how_long_how_dear_and_how_sure() -> None:
    found = _predict(within_h=24.0)
    assert found.best is not None
    assert found.answer().startswith(f"Rent {found.best.gpus} × {found.best.rented.name}")
    assert "in time for 24 h even at the high end of the interval" in found.answer()
    assert "outside what was measured" in found.answer()
    assert "too late for 0.001 h" in _predict(within_h=0.001, gpus=1).answer()
    assert "fits on none" in predict("llama-2-70b", "l4", batch=8, gpus=1).answer()
    assert "at a price that is not known" in predict("gpt2", "k80", batch=1, sequence=64).answer()
    assert any("assumption" in line for line in found.sentences())


def test_what_does_not_fit_has_a_row_with_the_memory_it_needs() -> None:
    (row,) = predict("llama-2-70b", "l4", batch=8, gpus=1).rows()
    assert not row["fits"]
    assert row["gpus"] is None
    assert row["memory_gb"] > 1000


def records_of_epochs(folder: Path) -> Path:
    """Write how many epochs batches need, a 64th of the batch more than two."""
    path = folder / "records.csv"
    path.write_text("batch,epochs\n" + "".join(f"{b},{2 + b / 64}\n" for b in (16, 32, 64, 128, 256)))
    return path


def test_epochs_come_from_records_of_other_batches(tmp_path: Path) -> None:
    path = records_of_epochs(tmp_path)
    found = _predict(records=path, global_batch=64, gpus=1)
    row = found.rows()[0]
    assert row["epochs"] == pytest.approx(3.0)
    assert row["hours_low"] < row["hours"] < row["hours_high"]
    assert found.work.epochs == pytest.approx(3.0)


def test_sentences_say_the_epochs_of_each_offer(tmp_path: Path) -> None:
    path = records_of_epochs(tmp_path)
    found = predict("gpt2", "l4", batch=4, gpus=4, tensor=1, pipeline=1, records=path)
    (row,) = found.rows()
    assert row["global_batch"] == 128
    said = found.sentences()
    assert any(line.startswith("l4: 4 epochs (") and "global batch is 128" in line for line in said)
    assert not any("2.5 times over" in line for line in said)


def test_sentences_say_that_half_precision_is_faster() -> None:
    said = "In bf16 the peak of h100 is"
    assert any(line.startswith(said) for line in _predict(precision="fp32").sentences())
    assert not any("the peak of" in line for line in _predict().sentences())
    assert not any("the peak of" in line for line in predict("gpt2", "p4", batch=1, sequence=64).sentences())


def test_a_global_batch_that_replicas_cannot_share_evenly_is_filled_up() -> None:
    found = predict("gpt2", "l4", batch=8, sequence=64, gpus=3, tensor=1, pipeline=1, global_batch=100)
    assert found.rows()[0]["global_batch"] == 120
    assert any("100 samples" in line and "as many more as fill" in line for line in found.sentences())


@pytest.mark.parametrize(
    ("model", "sequence", "said"),
    [
        ("gpt2", None, "samples of 1,024 tokens are"),
        ("gpt2", 64, "samples of 64 tokens are"),
        ("t5-small", None, "samples of 512 tokens are"),
        ("resnet18", None, "samples are"),
    ],
)
def test_sentences_say_how_long_a_sample_is(model: str, sequence: int | None, said: str) -> None:
    assert said in predict(model, "l4", batch=1, sequence=sequence, gpus=1).sentences()[0]


def test_sentences_say_what_is_paid_and_not_used_and_what_the_hours_rest_on() -> None:
    found = predict("gpt2", "a100-80", batch=4, gpus=2, tensor=1, pipeline=1)
    said = found.sentences()
    assert "p4de.24xlarge is rented whole: 8 GPUs are paid, and 2 train." in said
    assert f"a100-80: {found.rows()[0]['basis']}" in said
    assert "bandwidth of links" in found.rows()[0]["basis"]


def test_a_staging_instance_carries_its_intervals() -> None:
    found = _predict(within_h=24.0)
    instance = found.instance("staging")
    assert isinstance(instance, clusterplan.StagingInstance)
    assert instance.throughput_floor_samples_per_s == pytest.approx(1e6 / 86400)
    for one in found.forecasts:
        name = one.rented.name
        total = sum(layer.compute_s[name] for layer in instance.layers)
        assert total == pytest.approx(one.step.seconds)
        low, high = one.factors
        ends = instance.at_ends()
        seconds = instance.layers[3].compute_s[name]
        assert ends["low"].layers[3].compute_s[name] == pytest.approx(low * seconds)
        assert ends["high"].layers[3].compute_s[name] == pytest.approx(high * seconds)
    assert any("90 % confidence" in sentence for sentence in instance.assumptions)
    result: Result = clusterplan.solve(instance)
    assert result.status == "optimal"


def test_an_allocation_instance_has_the_predicted_speed() -> None:
    found = _predict(limits={"l4": 4})
    instance = found.instance("allocation")
    assert isinstance(instance, clusterplan.AllocationInstance)
    assert instance.resources == {"l4": 4, "h100": 8}
    size = sum(layer.weight_bytes for layer in found.forecasts[0].layers)
    speed = instance.jobs[0].variants[0].speed
    one = found.forecasts[0]
    expected = one.step.seconds * 8 / 2 + ring_s(one.rented.network, 2, size)
    assert float(speed.step_time_s(0, 2)) == pytest.approx(expected)  # type: ignore[union-attr]
    assert set(instance.at_ends()) == {"low", "middle", "high"}
    assert clusterplan.solve(instance).status == "optimal"


def test_what_is_too_large_is_left_out_or_refused() -> None:
    found = predict("gpt2", ["l4", "h100"], batch=8, sequence=1024, precision="fp32")
    assert [one.fits for one in found.forecasts] == [False, True]
    instance = found.instance("allocation")
    assert "l4 has too little memory for the model and is left out." in instance.assumptions
    with pytest.raises(OptionError, match="more than any hardware has; give a smaller"):
        predict("gpt2", "l4", batch=8, precision="fp32").instance("allocation")


def test_shapes_to_time_and_the_script() -> None:
    found = _predict()
    rows = found.shapes_to_time()
    assert {"linear", "bmm"} <= {row["kind"] for row in rows}
    compile(found.timing_script(), "script", "exec")


def test_measurements_of_the_gpu_itself(tmp_path: Path) -> None:
    path = tmp_path / "l4.csv"
    rows = [f"linear,fp32,{n}x768x768,{1e-5 + n * 1e-7}" for n in (64, 128, 256, 512, 1024)]
    path.write_text("\n".join(["kind,precision,shape,seconds", *rows]) + "\n")
    measured = (
        predict(  # type: ignore[arg-type]
            "gpt2", "l4", precision="fp32", measurements=path, **ROOMY
        )
        .forecasts[0]
        .step
    )
    assert measured.seconds != _predict(precision="fp32").forecasts[0].step.seconds
    with pytest.raises(OptionError, match="say of which hardware"):
        _predict(measurements=path)
    with pytest.raises(OptionError, match="not in the hardware"):
        _predict(measurements={"t4": path})


@pytest.mark.parametrize(
    ("model", "hardware", "more", "error", "what"),
    [
        ("gpt2", "l40000", {}, OptionError, "unknown"),
        ("gpt2", "l4", {"precision": "fp64"}, OptionError, r"l4: no fp64 \(it has fp32, tf32, fp16, "),
        ("gpt2", "l4", {"precision": "fp7"}, OptionError, "precision 'fp7'"),
        ("gpt2", "l4", {"precision": ""}, OptionError, "precision '': unknown"),
        ("gpt2", "l4", {"samples": -1.0}, OptionError, "samples -1"),
        ("gpt2", "l4", {"tensor": 5}, OptionError, "does not divide the 12 heads"),
        ("gpt2", "l4", {"gpus": 0}, OptionError, "gpus 0: must be from 1"),
        ("gpt2", "l4", {"pipeline": 99}, OptionError, "pipeline 99: the model has 14 layers"),
        ("gpt2", "l4", {"zero_stage": 7}, OptionError, "zero_stage 7"),
        ("gpt2", "l4", {"optimiser": "lamb"}, OptionError, "optimiser 'lamb'"),
        ("gpt2", "l4", {"prices": {"l4": -3.0}}, OptionError, "price of l4 -3: must be from 0"),
        ("gpt2", "l4", {"prices": {"l4": float("nan")}}, OptionError, "price of l4 nan"),
        ("gpt2", "l4", {"limits": {"l4": 0}}, OptionError, "limit of l4 0: must be at least 1"),
        ("gpt2", "l4", {"network_gbit_per_s": -1.0}, OptionError, "network -1: must be greater than 0"),
        ("gpt2", "l4", {"global_batch": 0}, OptionError, "global_batch 0"),
        ("resnet50", "l4", {"tensor": 2}, OptionError, "only transformers share tensors"),
    ],
)
def test_one_clear_line(
    model: str, hardware: str, more: dict[str, object], error: type[Exception], what: str
) -> None:
    with pytest.raises(error, match=what) as raised:
        predict(model, hardware, **more)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


def test_instances_that_cannot_be() -> None:
    with pytest.raises(OptionError, match="there are staging, allocation"):
        _predict().instance("consolidation")
    with pytest.raises(OptionError, match="no price is known of k80; give --price k80=USD"):
        predict("gpt2", "k80", **ROOMY).instance("staging")  # type: ignore[arg-type]


def test_kinds_are_filled_by_their_own_functions() -> None:
    found = _predict(precision="bf16")
    for kind, fill in (("staging", staging_of), ("allocation", allocation_of)):
        assert found.instance(kind) == fill(found.model, found.forecasts, found.work)


def _predict_with_precision(hardware: str, **more: object) -> Prediction:
    return predict("gpt2", hardware, **{"batch": 1, "sequence": 128, **more})  # type: ignore[arg-type]


def test_each_gpu_computes_in_what_it_is_trained_in() -> None:
    found = _predict_with_precision("h100,v100,k80,a100-80")
    taken = {row["hardware"]: row["precision"] for row in found.rows()}
    assert taken == {"h100": "bf16", "v100": "fp16", "k80": "fp32", "a100-80": "bf16"}
    said = found.sentences()
    assert said[0].endswith("on a GPU, in bf16 (h100, a100-80), fp16 (v100), fp32 (k80).")
    assert any(line.startswith("No precision was asked for") for line in said)
    for one, precision in zip(found.forecasts, taken.values(), strict=True):
        assert one.step == _predict_with_precision(one.rented.name, precision=precision).forecasts[0].step


def test_a_precision_that_was_asked_for_is_that_of_all() -> None:
    found = _predict_with_precision("h100,v100", precision=" FP16 ")
    assert [row["precision"] for row in found.rows()] == ["fp16", "fp16"]
    assert not any("was asked for" in line for line in found.sentences())


def test_a_gpu_without_the_precision_is_left_out_and_the_others_are_answered() -> None:
    found = _predict_with_precision("v100,h100,t4", precision="bf16")
    assert found.best is not None
    assert found.offers == _predict_with_precision("h100", precision="bf16").offers
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
        _predict_with_precision("v100,t4", precision="bf16")
    assert code_of_error(raised.value) == INFEASIBLE


def test_measurements_of_a_gpu_that_is_left_out_do_not_stop_the_others(tmp_path: Path) -> None:
    path = tmp_path / "v100.csv"
    path.write_text("kind,precision,shape,seconds\nlinear,fp16,1024x1024x1024,0.0001\n")
    found = _predict_with_precision("h100,v100", precision="bf16", measurements={"v100": path})
    assert [row["fits"] for row in found.rows()] == [True, False]


def test_layers_are_as_large_as_in_the_widest_precision() -> None:
    both = _predict_with_precision("h100,p100", prices={"p100": 1.0}).instance("staging")
    wide = _predict_with_precision("p100,h100", prices={"p100": 1.0}, precision="fp32").instance("staging")
    assert isinstance(both, clusterplan.StagingInstance)
    assert isinstance(wide, clusterplan.StagingInstance)
    assert [layer.memory_gib for layer in both.layers] == [layer.memory_gib for layer in wide.layers]
    assert [layer.output_bytes for layer in both.layers] == [layer.output_bytes for layer in wide.layers]
    assert any("as large as in fp32 on all of them" in line for line in both.assumptions)
    alone = _predict_with_precision("h100").instance("staging").document()
    for one, other, half in zip(both.layers, wide.layers, alone["layers"], strict=True):
        assert one.compute_s["p100"] == pytest.approx(other.compute_s["p100"])
        assert one.compute_s["h100"] == pytest.approx(half["compute_s"]["h100"])
    assert not any(
        "as large as in" in line
        for line in _predict_with_precision("h100,v100").instance("staging").assumptions
    )


def test_shapes_are_timed_in_one_precision() -> None:
    with pytest.raises(OptionError, match=r"in bf16 \(h100\), fp16 \(v100\): name one GPU"):
        _predict_with_precision("h100,v100").shapes_to_time()
    assert {row["precision"] for row in _predict_with_precision("v100").shapes_to_time()} == {"fp16"}
    assert {row["precision"] for row in _predict_with_precision("h100,a100-80").shapes_to_time()} == {"bf16"}


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


def test_machines_are_named_once() -> None:
    (offer,) = predict("gpt2", "a100-40", batch=1).offers
    assert offer is not None
    assert rented_text(offer) == "8 × a100-40 (1 × p4d.24xlarge)"
    (alone,) = predict("gpt2", "p4d.24xlarge", batch=1).offers
    assert alone is not None
    assert rented_text(alone) == "1 × p4d.24xlarge (8 × a100-40)"
    (single,) = predict("gpt2", "p4d.24xlarge", batch=1, gpus=4, prices={"p4d.24xlarge": 2.0}).offers
    assert single is not None
    assert rented_text(single) == "4 × a100-40 (of p4d.24xlarge)"
    (unlisted,) = predict("gpt2", "p100", batch=1, gpus=2).offers
    assert unlisted is not None
    assert rented_text(unlisted) == "2 × p100"


def test_a_name_of_several_lines_is_one_line_of_the_answer() -> None:
    (offer,) = predict("gpt2", "l4", batch=1, gpus=1).offers
    for best in (offer, None):
        assert "my model" in answer_of("my\nmodel", best)


def test_how_sure_it_is_in_time() -> None:
    (offer,) = predict("gpt2", "l4", batch=1, gpus=1).offers
    assert offer is not None
    between = replace(offer, work=replace(offer.work, within_h=offer.hours.seconds * 1.01))
    assert "as predicted, late at the high end" in answer_of("gpt2", between)
    assert "in time" not in answer_of("gpt2", offer)
    late = replace(offer, work=replace(offer.work, within_h=offer.hours.seconds / 2))
    assert answer_of("gpt2", late).startswith("The soonest is 1 × l4")
    assert answer_of("gpt2", between).startswith("Rent 1 × l4")


@pytest.mark.parametrize(("value", "text"), [(1234.5, "1,234"), (12.34, "12.3"), (0.01234, "0.0123")])
def test_no_more_digits_than_a_prediction_has(value: float, text: str) -> None:
    assert short(value) == text


def test_rows_have_the_same_fields_whether_it_fits_or_not() -> None:
    fits, too_large = predict("gpt2", "l4", batch=1), predict("llama-2-70b", "l4", batch=1, gpus=1)
    rows = [row_of(found.forecasts[0], found.offers[0], found.refusals[0]) for found in (fits, too_large)]
    assert {name for name, value in rows[0].items() if value is None} == {"in_time", "why_not"}
    assert rows[0]["launch_bound"]
    assert list(rows[0]) == list(rows[1])
    assert rows[1]["gpus"] is None
    assert rows[1]["why_not"] == "does not fit"
