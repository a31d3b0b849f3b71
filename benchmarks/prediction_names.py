"""Steps of whole models predicted from their names and data sheets alone, beside measurements of others.

Needs the measurements of Sailor and vTrain: CLUSTERPLAN_DATA, or ../shared/data. Writes
benchmarks/results/prediction-names.md.

Protocol. Of Sailor, a step is the forward and backward passes of all layers, without the update; sequences
have 2,048 tokens. Of each profile the least degree of tensor parallelism and up to three sizes of
microbatches are compared. Profiles do not say their precision: it is single on Volta and Turing, and from
Ampere on whichever of single precision and TF32 is nearer, which are more than a factor of three apart on
A100 and GH200. OPT-350 was looked at while the parts of the formula were chosen, OPT-30 and GPT-Neo were
not. GH200 is predicted as an H100, RTX 2080 as a 2080 Ti; GPT-Neo as GPT-2 of its size, though half of its
blocks attend to 256 tokens. Of vTrain, every fourth run on one server of A100 with 40 GB, in half
precision, goes through `predict` with its degrees of parallelism; what was taken for the host's share of a
launch and for tensor cores was chosen with these in view. Those on several servers (80 GB, without
recomputation) are new to it; most of them do not fit by our count of memory, and are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
from prediction_steps import COLUMNS
from report import protocol, write_lines
from runner import DATA

import clusterplan
from clusterplan.instances.prediction.hardware import gpu_named
from clusterplan.instances.prediction.models.description import ModelDescription, Setting
from clusterplan.instances.prediction.models.load import load_model
from clusterplan.instances.prediction.models.transformer import Transformer
from clusterplan.instances.prediction.models.transformer_config import config_of
from clusterplan.instances.prediction.operator_times import OperatorTimes

PROFILES = DATA / "sailor" / "profiles"
GPUS = {
    "A100-40": "a100-40",
    "A100-80": "a100-80",
    "GH-96": "h100",
    "RTX-2080": "rtx-2080-ti",
    "RTX-3090": "rtx-3090",
    "Titan-RTX": "titan-rtx",
    "V100-16": "v100-sxm2",
}
TOKENS, SIZES = 2048, 3
EVERY, NETWORK_GBIT, VOCABULARY = 4, 800, 51_200
NEO = {"n_embd": 2560, "n_head": 20, "n_layer": 32, "vocab_size": 50257, "n_positions": TOKENS}


def models() -> dict[str, ModelDescription]:
    """Return the models by the names of their profiles."""
    neo = config_of({"model_type": "gpt2", **NEO}, "gpt-neo-2.7b")
    return {
        "OPT-350": load_model("opt-350m"),
        "OPT-30": load_model("opt-30b"),
        "GPT-Neo-2.7": Transformer("gpt-neo-2.7b", config=neo),
    }


def rows() -> Iterator[dict[str, object]]:
    """Yield a row for each profile and size of microbatches."""
    for name, model in models().items():
        for folder in sorted((PROFILES / name).iterdir()):
            profile = json.loads((folder / "profile.json").read_text())
            degree = min(int(degree) for of_it in profile.values() for degree in of_it)
            sizes = sorted(int(size) for size, of_it in profile.items() if str(degree) in of_it)
            for size in sizes[:SIZES]:
                layers = profile[str(size)][str(degree)].values()
                measured = sum(forward + backward for forward, backward, _ in layers)
                yield _row(model, name, folder.name, size, degree, measured)


def _row(
    model: ModelDescription, name: str, gpu: str, size: int, degree: int, measured: float
) -> dict[str, object]:
    times = OperatorTimes(gpu_named(GPUS[gpu]))
    volta = gpu in ("V100-16", "Titan-RTX", "RTX-2080")
    tried = []
    for precision in ("fp32",) if volta else ("fp32", "tf32"):
        setting = Setting(size, TOKENS, precision, tensor_parallel=degree)
        estimate = times.total(model.operators(setting))
        tried.append((abs(estimate.seconds / measured - 1), precision, estimate))
    _, precision, estimate = min(tried, key=lambda one: one[0])
    return {
        "model": name, "GPU": gpu, "tensor": degree, "microbatch": size, "precision": precision,
        "measured": measured, "predicted": estimate.seconds, "error": estimate.seconds / measured - 1,
        "inside": estimate.low <= measured <= estimate.high,
    }  # fmt: skip


def trained(file: str, machine: str, every: int = 1, **fixed: Any) -> pd.DataFrame:
    """Return vTrain's runs with the errors of `predict`, but for those that do not fit into memory."""
    table = pd.read_csv(DATA / "vtrain" / file, encoding="utf-8-sig").rename(columns=COLUMNS)[::every]
    found = []
    for cells in table.to_dict("records"):
        run = {name: int(cells[name]) for name in COLUMNS.values()}
        sizes = {"n_embd": run["hidden"], "n_head": run["heads"], "n_layer": run["layers"]}
        config = {"model_type": "gpt2", **sizes, "vocab_size": VOCABULARY, "n_positions": run["sequence"]}
        forecast = clusterplan.predict(
            Transformer("gpt", config=config_of(config, "gpt")),
            machine,
            batch=run["microbatch"],
            sequence=run["sequence"],
            precision="fp16",
            gpus=run["tensor"] * run["data"] * run["pipeline"],
            tensor=run["tensor"],
            pipeline=run["pipeline"],
            global_batch=run["batch"],
            **fixed,
        )
        row = forecast.to_frame().iloc[0]
        if row["fits"] and row["step_s"] is not None:
            measured = cells["iteration time (ms)"] / 1e3
            inside = row["step_low_s"] <= measured <= row["step_high_s"]
            found.append({**run, "error": row["step_s"] / measured - 1, "inside": inside})
    return pd.DataFrame(found)


def of_vtrain() -> Iterator[str]:
    """Yield the lines of the table of vTrain's runs."""
    one = trained("ground_truth_single.csv", "p4d.24xlarge", EVERY, zero_stage=0)
    several = trained(
        "ground_truth_multi_half.csv", "p4de.24xlarge", recompute=False, network_gbit_per_s=NETWORK_GBIT
    )
    yield from ("", "| vTrain's runs | runs | mean absolute error | mean error | in 90 % interval |")
    yield "|---|---:|---:|---:|---:|"
    parts = [("one server", one)]
    parts += [(f"tensor {degree}", part) for degree, part in one.groupby("tensor")]
    parts += [(f"microbatch {size}", part) for size, part in one.groupby("microbatch")]
    for what, part in [*parts, ("several servers", several)]:
        size, mean = part["error"].abs().mean(), part["error"].mean()
        yield f"| {what} | {len(part)} | {size:.1%} | {mean:+.1%} | {part['inside'].mean():.0%} |"


def main() -> None:
    """Predict, print and store."""
    if not DATA.is_dir():
        print("skipped: there are no published profiles; set CLUSTERPLAN_DATA")
        return
    table = pd.DataFrame(rows())
    lines = ["| model | GPU | tensor | precision | microbatch | measured | predicted | error | in 90 % |"]
    lines += ["|---|---|---:|---|---:|---:|---:|---:|---|"]
    for row in table.to_dict("records"):
        lines.append(
            f"| {row['model']} | {row['GPU']} | {row['tensor']} | {row['precision']} | {row['microbatch']}"
            f" | {row['measured']:.3f} s | {row['predicted']:.3f} s | {row['error']:+.1%}"
            f" | {'yes' if row['inside'] else 'no'} |"
        )
    table["size"] = table["error"].abs()
    lines += ["", "| model | GPUs | mean absolute error | in 90 % interval |", "|---|---:|---:|---:|"]
    for name, part in table.groupby("model", sort=False):
        share = part.groupby("GPU")["inside"].mean().mean()
        lines.append(f"| {name} | {part['GPU'].nunique()} | {part['size'].mean():.1%} | {share:.0%} |")
    lines += of_vtrain()
    write_lines("prediction-names", "Whole models from their names", protocol(__doc__), lines)


if __name__ == "__main__":
    main()
