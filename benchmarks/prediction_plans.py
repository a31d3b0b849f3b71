"""Plans made from predictions alone, beside plans made from measured profiles: errors, plans and regrets.

Needs the published profiles (Sailor, PipeDream): CLUSTERPLAN_DATA, or ../shared/data. Writes
benchmarks/results/prediction-plans.json and .md.

Protocol. The predicted instance has seconds, sizes and memory of the layers from the model's name and the
data sheets of the GPUs, and nothing of the profile; limits, prices, links and what is asked for are those of
the measured one. Both are solved to optimality. The plan of the prediction is then valued on the measured
instance by the check of results, and its regret is what it loses there against the proven optimum. A plan
that misses the floor there is said to, by how much, and its cost is compared all the same. OPT-350: three GPU
types of Sailor, batches of 4 with 2,048 tokens; fp32 on V100, TF32 on A100 and GH200 (predicted as an H100),
an assumption, for the profile does not say. PipeDream: eight V100, one sort only, so that the
plan is where the layers are cut and how many GPUs each stage has; its nodes are summed up to our layers, and
the input, which is read from a disk, is left out. Floors are shares of the largest throughput that is
possible as measured. Beside it, the plan made for the high end of the interval, which `--robust` shows: all
layers as slow as a whole model may be.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from report import protocol, write_lines
from runner import DATA, RESULTS, Row

import clusterplan
from clusterplan.formulations.registry import formulate
from clusterplan.instances.common.hardware import GIB
from clusterplan.instances.documents import load_catalogue
from clusterplan.instances.prediction import CATALOGUE
from clusterplan.instances.prediction.calibration import spread_of_total
from clusterplan.instances.prediction.forecast import Forecast, LayerForecast, forecasts
from clusterplan.instances.prediction.hardware import rentable_hardware
from clusterplan.instances.prediction.models.description import Setting
from clusterplan.instances.prediction.models.load import load_model
from clusterplan.instances.prediction.operator_times import OperatorTimes

OPT_GPUS = {
    "A100-40": ("a100-40", "tf32"),
    "V100-16": ("v100-sxm2", "fp32"),
    "GH-96": ("h100", "tf32"),
}
"""Type of Sailor → our data sheet, and the assumed precision."""
OPT_LIMITS = {"A100-40": 8, "V100-16": 16, "GH-96": 4}
OPT_FLOORS = (30.0, 60.0, 80.0)
OPT_TOKENS = 2048
LINK_GBIT_PER_S = 25.0
PIPEDREAM = {"alexnet": 256, "vgg16": 128, "resnet50": 128}
"""Model → the batch that was measured, as the size of its input says."""
SHARES = (0.5, 0.8, 0.95)
NODE = re.compile(
    r"^node(\d+) -- (.+?) -- forward_compute_time=([\d.]+), backward_compute_time=([\d.]+), "
    r"activation_size=([\d.]+), parameter_size=([\d.]+)",
    re.M,
)
STEP_BATCHES = 4
Document = dict[str, Any]


def on_gpu(model: str, gpu: str, setting: Setting) -> Forecast:
    """Return the forecast of a model on a GPU, from its data sheet."""
    hardware = rentable_hardware([gpu], load_catalogue(CATALOGUE))
    (one,) = forecasts(
        load_model(model), [(hardware[0], setting)], {gpu: OperatorTimes(hardware[0].gpu)}, "adam"
    )
    return one


def opt(floor: float) -> tuple[Document, Document]:
    """Return the measured and the predicted instance of OPT-350."""
    measured = clusterplan.import_sailor(
        model_dir=DATA / "sailor" / "profiles" / "OPT-350",
        types=tuple(OPT_GPUS),
        limit=OPT_LIMITS,
        throughput=floor,
    ).document()
    measured["hourly_budget_usd"] = None
    layers: list[Document] = [{**layer, "compute_s": {}} for layer in measured["layers"]]
    for name, (gpu, precision) in OPT_GPUS.items():
        setting = Setting(int(measured["probe_batch"]), OPT_TOKENS, precision)
        one = on_gpu("opt-350m", gpu, setting)
        for layer, row in zip(layers, one.layers, strict=True):
            link = measured["link_gbit_per_s"] * 1e9 / 8
            all_reduce = 2 * row.weight_bytes / link / STEP_BATCHES
            layer["compute_s"][name] = row.seconds
            layer["communication_s"] = {**layer["communication_s"], name: all_reduce}
            layer |= {"memory_gib": row.memory_bytes / GIB, "weight_bytes": row.weight_bytes}
            layer["output_bytes"] = row.output_bytes
    before = [0.0, *(layer["output_bytes"] for layer in layers)]
    for layer, size in zip(layers, before, strict=False):
        layer["input_bytes"] = size
    return measured, {**measured, "layers": layers, "name": "predicted-opt-350"}


def groups(model: str) -> Iterator[list[tuple[str, float, float, float]]]:
    """Yield the nodes of PipeDream's profile that make up each of our layers: kind, seconds, bytes."""
    text = (DATA / "pipedream" / model / "graph.txt").read_text()
    nodes = sorted((int(number), *rest) for number, *rest in NODE.findall(text))
    group: list[tuple[str, float, float, float]] = []
    last = ""
    for _, kind, forward, backward, sent, held in nodes:
        if kind == "Input":
            continue
        begins = kind.startswith(("Conv2d", "Linear")) and (model != "resnet50" or not group)
        if group and begins:
            yield group
            group = []
        group.append((kind, (float(forward) + float(backward)) / 1e3, float(sent), float(held)))
        ended = kind.startswith("MaxPool") or (kind.startswith("ReLU") and last.startswith("Add"))
        if model == "resnet50" and ended:
            yield group
            group = []
        last = kind
    yield group


def pipedream(model: str) -> tuple[Document, Document]:
    """Return the measured and the predicted instance of a network of convolutions on eight V100."""
    batch = PIPEDREAM[model]
    one = on_gpu(model, "v100", Setting(batch, precision="fp32"))
    profile = [
        (sum(node[1] for node in group), group[-1][2], sum(node[3] for node in group))
        for group in groups(model)
    ]
    measured = [
        _layer(row, seconds, sent, held)
        for row, (seconds, sent, held) in zip(one.layers, profile, strict=True)
    ]
    predicted = [_layer(row, row.seconds, row.output_bytes, row.weight_bytes) for row in one.layers]
    head = {
        "schema_version": 1,
        "kind": "staging",
        "objective": "throughput",
        "stage_rule": "free_cuts",
        "training": {"samples": 1e6},
        "probe_batch": batch,
        "link_gbit_per_s": LINK_GBIT_PER_S,
        "types": [{"name": "v100", "price_usd_per_hour": 3.0, "limit": 8}],
    }
    return (
        {**head, "name": f"measured-{model}", "layers": measured},
        {**head, "name": f"predicted-{model}", "layers": predicted},
    )


def _layer(row: LayerForecast, seconds: float, sent: float, held: float) -> Document:
    return {
        "name": row.layer.name,
        "compute_s": {"v100": seconds},
        "communication_s": {"v100": 2 * held * 8 / (LINK_GBIT_PER_S * 1e9)},
        "output_bytes": sent,
        "weight_bytes": held,
        "compute_parallel": 1.0,
    }


def compared(name: str, asked: str, measured: Document, predicted: Document) -> Row:
    """Return the error of a prediction, and what its plan loses as measured; why not, if one has no plan."""
    truth, guess = clusterplan.parse_instance(measured), clusterplan.parse_instance(predicted)
    assert isinstance(truth, clusterplan.StagingInstance)
    assert isinstance(guess, clusterplan.StagingInstance)
    best, own = clusterplan.solve(truth), clusterplan.solve(guess)
    if best.status != "optimal" or own.status != "optimal" or own.plan is None:
        none = f"{best.status} as measured, {own.status} as predicted"
        return {"model": name, "asked": asked, "none": none}
    value, regret, broken = _valued(truth, own, best)
    safe = clusterplan.solve(clusterplan.parse_instance(_slower(predicted)))
    _, safe_regret, safe_broken = _valued(truth, safe, best) if safe.plan else (None, None, None)
    totals = {
        one.name: tuple(
            sum(layer.compute_s[one.name] for layer in instance.layers) for instance in (guess, truth)
        )
        for one in truth.types
    }
    each = [
        abs(a.compute_s[t.name] / b.compute_s[t.name] - 1)
        for t in truth.types
        for a, b in zip(guess.layers, truth.layers, strict=True)
    ]
    return {
        "model": name,
        "asked": asked,
        "error_of_steps_percent": {t: round(100 * (a / b - 1), 1) for t, (a, b) in totals.items()},
        "mean_error_of_layers_percent": round(100 * sum(each) / len(each), 1),
        "plan_as_predicted": _plan(own),
        "plan_as_measured": _plan(best),
        "same_plan": _plan(own) == _plan(best),
        "predicted_value": own.objective,
        "value_as_measured": value,
        "optimum_as_measured": best.objective,
        "regret_percent": regret,
        "broken": broken,
        "high_end_regret_percent": safe_regret,
        "high_end_broken": safe_broken,
    }


def _slower(document: Document) -> Document:
    """Return a predicted instance at the high end of the interval of whole models."""
    _, high = spread_of_total("data sheet", inside=False)
    layers = [
        {**layer, "compute_s": {name: high * seconds for name, seconds in layer["compute_s"].items()}}
        for layer in document["layers"]
    ]
    return {**document, "layers": layers}


def _valued(
    truth: clusterplan.StagingInstance, own: clusterplan.Result, best: clusterplan.Result
) -> tuple[float, float, str | None]:
    """Return what a plan is worth as measured, its regret in percent, and which limit it breaks."""
    formulation = formulate(truth)
    broken = formulation.violations(own.plan)
    value, optimum = formulation.evaluate(own.plan)[0], best.objective
    assert optimum is not None
    sign = 1.0 if best.objectives[0].sense == "min" else -1.0
    regret = round(100 * sign * (value / optimum - 1), 2) + 0.0  # no -0
    return value, regret, str(broken[0]) if broken else None


def _plan(result: clusterplan.Result) -> str:
    stages: list[Any] = list(result.plan or ())
    return ", ".join(f"{s.first_layer}–{s.last_layer} {s.units}×{s.type}" for s in stages)


def rows() -> Iterator[Row]:
    """Yield a row for each model and what is asked for."""
    for floor in OPT_FLOORS:
        yield compared("OPT-350", f"least cost, {floor:g} samples/s", *opt(floor))
    measured, predicted = opt(0.001)
    for document in (measured, predicted):
        document |= {"objective": "throughput", "throughput_floor_samples_per_s": None}
    yield compared("OPT-350", "most throughput", measured, predicted)
    for model in PIPEDREAM:
        measured, predicted = pipedream(model)
        fastest = compared(model, "most throughput, 8 GPUs", measured, predicted)
        yield fastest
        for share in SHARES:
            floor = {"throughput_floor_samples_per_s": share * fastest["optimum_as_measured"]}
            more = {"objective": "cost", **floor}
            asked = f"least cost, {100 * share:.0f} % of it"
            yield compared(model, asked, {**measured, **more}, {**predicted, **more})


def main() -> None:
    """Predict, plan, value, print and store."""
    if not DATA.is_dir():
        print("skipped: there are no published profiles; set CLUSTERPLAN_DATA")
        return
    found = list(rows())
    stored = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    (RESULTS / "prediction-plans.json").write_text(stored, encoding="utf-8")
    write_lines("prediction-plans", "Plans from predictions alone", protocol(__doc__), report(found))


def report(found: list[Row]) -> list[str]:
    """Return the lines of the page of results."""
    lines = ["| model | asked for | error of a step | mean error of a layer | regret | plan | high end |"]
    lines += ["|---|---|---:|---:|---:|---|---:|"]
    lines += map(_line, found)
    broken = [row for row in found if row.get("broken")]
    lines += [
        *([""] if broken else []),
        *(f"* {row['model']}, {row['asked']}: not allowed as measured: {row['broken']}" for row in broken),
    ]
    lines += ["", "Plans (layers, GPUs), as predicted and as measured:", ""]
    lines += [
        f"* {row['model']}, {row['asked']}: {row['plan_as_predicted']}; as measured {row['plan_as_measured']}"
        for row in found
        if row.get("same_plan") is False
    ]
    return lines


def _line(row: Row) -> str:
    if "none" in row:
        return f"| {row['model']} | {row['asked']} | – | – | – | {row['none']} | – |"
    steps = ", ".join(f"{name} {error:+.1f} %" for name, error in row["error_of_steps_percent"].items())
    regret = _regret(row["regret_percent"], row["broken"])
    high = _regret(row["high_end_regret_percent"], row["high_end_broken"])
    same = "the same" if row["same_plan"] else "another"
    error = f"{row['mean_error_of_layers_percent']} %"
    return f"| {row['model']} | {row['asked']} | {steps} | {error} | {regret} | {same} | {high} |"


def _regret(percent: float | None, broken: str | None) -> str:
    if percent is None:
        return "no plan"
    return "not allowed" if broken else f"{percent:.2f} %"


if __name__ == "__main__":
    main()
