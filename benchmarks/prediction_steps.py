"""Whole steps and epochs predicted, each measurement from others; beside published errors.

Needs the published measurements (vTrain, Zeus): CLUSTERPLAN_DATA, or ../shared/data. Writes
benchmarks/results/prediction-steps.json and .md.

Protocol. Priors of coefficients are those of `COEFFICIENTS`, and the length of the correction is the most
likely one of the training runs; neither is fitted to what is held out. The form of the formula was chosen
with all runs of one server in view; its terms of the network before any run of several was predicted. Folds
are random with seed 0; ten runs of several servers are drawn 100 times, with seeds 0 to 99. What lies in
the interval is the mean over batch sizes that are left out, each of which counts as much.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import ceil

import numpy as np
import pandas as pd
from report import protocol, write_lines
from runner import DATA, RESULTS, Row
from scipy.optimize import least_squares
from single_operators import Correction, fit_correction

from clusterplan.instances.common.arrays import Flags, Floats
from clusterplan.instances.prediction.calibration import (
    OUTSIDE,
    Estimate,
    student_ends,
)
from clusterplan.instances.prediction.epochs import EpochRecord, leave_one_out, predict_epochs

# The formula. A block of hidden size h on b sequences of s tokens, shared by t GPUs, takes in forward and
# backward passes 3·(24·b·s·h² + 4·b·s²·h)/t operations in matrices (Narayanan et al. 2021, appendix); reads
# and writes of b·s²·a/t scores of attention and of b·s·h activations, of which a part is not shared; launches
# of its kernels, which overlap with the GPU's work if that takes longer; and four all-reduces of b·s·h
# activations, a ring inside the tensor-parallel group (Shoeybi et al. 2019). The last stage adds the logits
# and its loss. m microbatches take m − 1 slots of the slowest stage, and the first passes all (GPipe; Huang
# et al. 2019). At the end the gradients are all-reduced over the replicas, and the optimiser updates the
# parameters. Each term is a figure of the data sheet times a coefficient that is fitted.


@dataclass(frozen=True)
class Runs:
    """Training runs as columns: samples, sizes of the Transformer, and degrees of parallelism."""

    batch: Floats
    microbatch: Floats
    hidden: Floats
    heads: Floats
    layers: Floats
    sequence: Floats
    tensor: Floats
    data: Floats
    pipeline: Floats

    def __len__(self) -> int:
        return len(self.batch)

    def only(self, chosen: Flags) -> Runs:
        """Return the runs that a mask selects."""
        return Runs(*(getattr(self, field.name)[chosen] for field in fields(self)))

    @property
    def microbatches(self) -> Floats:
        """Microbatches of each replica in a step."""
        return self.batch / (self.data * self.microbatch)

    def features(self) -> Floats:
        """Return the base-2 logarithms of the figures that describe a run; shape (runs, features)."""
        columns = (
            *(self.microbatch, self.hidden, self.sequence, self.tensor, self.pipeline),
            *(self.microbatches, self.data, self.layers / self.pipeline),
        )
        return np.log2(np.stack(columns, axis=1))


HALF = 2
"""Bytes of an activation or a gradient in half precision."""
LOGIT = 4
"""Bytes of a logit: the loss is computed in single precision."""
SHARPNESS = 4.0
"""Exponent of the overlap of launches with the GPU's work: 1 is the sum, infinity the maximum."""


FLOPS_PER_S, BYTES_PER_S = 312e12, 1.555e12
"""Peak of an A100 with 40 GB in half precision, and bandwidth of its memory (NVIDIA's data sheet)."""
INSIDE_BYTES_PER_S, NETWORK_BYTES_PER_S, GPUS = 300e9, 100e9, 8
"""NVLink of a GPU, four links of 200 Gbit/s of a server, one way; and its GPUs (vTrain, MICRO'24)."""
VOCABULARY = 51_200
"""Vocabulary of GPT-2, padded as in Megatron-LM."""


COEFFICIENTS: Mapping[str, tuple[float, float]] = {
    # Time relative to the peak: half to two thirds of the peak are usual.
    "matrices": (1.6, 0.5),
    # Passes over the scores: mask, softmax and dropout, forward and backward.
    "scores": (12, 0.7),
    # Passes over activations: normalisation, residual and dropout; and those that tensor parallelism shares.
    "activations": (10, 0.7),
    "shared_activations": (24, 0.7),
    # Seconds of a block's launches, of the smallest all-reduce, of the launches of the head.
    "launch_s": (1.5e-3, 1.0),
    "latency_s": (5e-5, 1.0),
    "head_launch_s": (1e-3, 1.0),
    # Time relative to the bandwidth of links.
    "tensor_link": (1.5, 0.7),
    "pipeline_link": (1.5, 1.0),
    "data_link": (3.0, 0.7),
    "network": (1.5, 0.7),
    # The head: its matrix over peak, and passes over the logits.
    "head_matrix": (1.6, 0.7),
    "logits": (10, 0.7),
    # Bytes that the optimiser moves for a parameter, and the remaining time of a step.
    "optimiser_bytes": (20, 0.7),
    "step_s": (3e-3, 1.0),
}
"""Coefficient → its log-normal prior, set before any fit: median, and standard deviation of the logarithm."""


def step_seconds(values: Mapping[str, float], runs: Runs) -> Floats:
    """Return the seconds of each run's step by the formula; shape (runs,)."""
    block, head = _block_s(values, runs), _head_s(values, runs)
    stage = block * runs.layers / runs.pipeline
    slots = runs.microbatches + runs.pipeline - 1
    tokens = runs.microbatch * runs.sequence
    sent = 2 * tokens * runs.hidden * HALF / INSIDE_BYTES_PER_S * values["pipeline_link"]
    transfers = np.where(runs.pipeline > 1, slots * sent, 0.0)
    pipeline = runs.microbatches * (stage + head) + (runs.pipeline - 1) * stage
    return np.asarray(pipeline + transfers + _end_s(values, runs) + values["step_s"])


def _block_s(values: Mapping[str, float], runs: Runs) -> Floats:
    tokens, hidden, shared = runs.microbatch * runs.sequence, runs.hidden, runs.tensor
    flops = 3 * (24 * tokens * hidden**2 + 4 * tokens * runs.sequence * hidden) / shared
    passes = values["activations"] + values["shared_activations"] / shared
    moved = HALF * tokens * (values["scores"] * runs.sequence * runs.heads / shared + passes * hidden)
    gpu = values["matrices"] * flops / FLOPS_PER_S + moved / BYTES_PER_S
    busy = (gpu**SHARPNESS + values["launch_s"] ** SHARPNESS) ** (1 / SHARPNESS)
    inside = 2 * (shared - 1) / shared * tokens * hidden * HALF / INSIDE_BYTES_PER_S
    servers = np.ceil(shared / GPUS)
    outside = 2 * (servers - 1) / servers * tokens * hidden * HALF / NETWORK_BYTES_PER_S
    reduced = values["tensor_link"] * inside + values["network"] * outside + values["latency_s"]
    return np.asarray(busy + np.where(shared > 1, 4 * reduced, 0.0))


def _head_s(values: Mapping[str, float], runs: Runs) -> Floats:
    logits = runs.microbatch * runs.sequence * VOCABULARY / runs.tensor
    matrix = values["head_matrix"] * 6 * logits * runs.hidden / FLOPS_PER_S
    return np.asarray(matrix + values["logits"] * LOGIT * logits / BYTES_PER_S + values["head_launch_s"])


def _end_s(values: Mapping[str, float], runs: Runs) -> Floats:
    """Return the seconds after the last microbatch: gradient all-reduce over replicas, and optimiser."""
    blocks = 12 * runs.hidden**2 * runs.layers / runs.pipeline
    parameters = (blocks + runs.hidden * VOCABULARY) / runs.tensor
    # Rings of one replica's GPUs share the network of their server.
    rings = np.minimum(runs.tensor, GPUS) / NETWORK_BYTES_PER_S * values["network"]
    link = values["data_link"] / INSIDE_BYTES_PER_S
    pace = np.where(runs.tensor * runs.data > GPUS, rings, link)
    reduced = 2 * (runs.data - 1) / runs.data * parameters * HALF * pace
    return np.asarray(reduced + values["optimiser_bytes"] * parameters / BYTES_PER_S)


ERROR = 0.1
"""Expected relative error of the formula, relative to which the priors are weighted."""
PRIOR_WEIGHT = 8.0
"""Weight of the priors, of 0.5 to 80 the one with the best extrapolation: the ends of each feature held out
in turn, among the runs of one hidden size; 8 is best for either of vTrain's two."""
LENGTHS, NOISES = (1.0, 2.0, 4.0, 8.0), (1e-4, 1e-2, 1e-1)
"""Length scales of the correction, and variances of its noise relative to its own, of which one is taken."""
FEWEST_LEFT = 10
"""Least number of remaining runs when an end of a feature is held out."""
Ends = tuple[float, float]


@dataclass(frozen=True)
class StepFit:
    """A model of step times fitted to measured runs.

    Parameters
    ----------
    values
        The coefficients of `step_seconds`.
    least, most
        Ends of the measured range of the features.
    scale
        Factor of all times, such as for another cluster.
    correction
        Correction of the logarithm of the time inside the measured range.
    """

    values: Mapping[str, float]
    least: Floats
    most: Floats
    scale: float = 1.0
    correction: Correction | None = None

    def inside(self, runs: Runs) -> Flags:
        """Return a mask of the runs whose features lie within the measured range."""
        features = runs.features()
        return np.asarray(((features >= self.least) & (features <= self.most)).all(axis=1))

    def seconds(self, runs: Runs) -> Floats:
        """Return the predicted seconds of each run's step; shape (runs,)."""
        predicted = self.scale * step_seconds(self.values, runs)
        if self.correction is None:
            return predicted
        return np.where(self.inside(runs), predicted * np.exp(self.correction(runs.features())), predicted)

    def scaled_to(self, runs: Runs, seconds: Floats) -> StepFit:
        """Return the model for another cluster, scaled by the median measured/predicted time there."""
        return replace(self, scale=self.scale * float(np.median(seconds / self.seconds(runs))))


def fit_steps(runs: Runs, seconds: Floats) -> StepFit:
    """Fit the formula to measured step times, and a correction of it."""
    fitted = fit_formula(runs, seconds)
    rest = np.log(seconds / fitted.seconds(runs))
    return replace(fitted, correction=fit_correction(runs.features(), rest, LENGTHS, NOISES))


def fit_formula(runs: Runs, seconds: Floats) -> StepFit:
    """Fit only the coefficients of the formula to measured step times.

    They are maximum a posteriori estimates, given their priors and errors of the logarithm, so that those
    that the runs do not determine stay near the data sheet.
    """
    median, spread = np.array([*COEFFICIENTS.values()]).T
    prior = np.log(median)

    def named(logarithms: Floats) -> dict[str, float]:
        return dict(zip(COEFFICIENTS, np.exp(logarithms).tolist(), strict=True))

    def residuals(logarithms: Floats) -> Floats:
        errors = np.log(step_seconds(named(logarithms), runs) / seconds)
        return np.concatenate([errors / ERROR, PRIOR_WEIGHT * (logarithms - prior) / spread])

    values = named(least_squares(residuals, prior).x)
    features = runs.features()
    return StepFit(values, features.min(axis=0), features.max(axis=0))


@dataclass(frozen=True)
class StepIntervals:
    """A fitted model of step times with 90 % intervals.

    Inside the measured range they follow from leave-one-out errors of the correction. Outside, the runs
    with the largest and the smallest value of each feature are held out in turn, and the errors of these
    groups give the ends for a new one. On another cluster the errors are those of the runs measured there.

    Parameters
    ----------
    inside, outside
        Ends of the interval of the logarithm of measured over predicted time.
    untried
        Factor of the ends if a feature differs that never varied, so that its error is unknown.
    """

    fit: StepFit
    inside: Ends
    outside: Ends
    untried: float = OUTSIDE

    def predict(self, runs: Runs) -> list[Estimate]:
        """Return the predicted seconds of each run's step, with intervals."""
        estimates = []
        fixed = self.fit.least == self.fit.most
        untried = (runs.features() != self.fit.least)[:, fixed].any(axis=1)
        for seconds, inside, far in zip(self.fit.seconds(runs), self.fit.inside(runs), untried, strict=True):
            low, high = self.inside if inside else self.outside
            if far:
                low, high = self.untried * low, self.untried * high
            ends = seconds * np.exp(min(low, 0.0)), seconds * np.exp(max(high, 0.0))
            estimates.append(Estimate(seconds, *ends, inside, "measured steps"))
        return estimates

    def scaled_to(self, runs: Runs, seconds: Floats) -> StepIntervals:
        """Return the model for another cluster; each run measured there is predicted from the others."""
        errors = []
        for index in range(len(runs)):
            others = np.arange(len(runs)) != index
            scaled = self.fit.scaled_to(runs.only(others), seconds[others])
            errors.append(np.log(seconds[index] / scaled.seconds(runs.only(~others))[0]))
        # The conformal quantile of the absolute errors, or the largest.
        rank = min(ceil(0.9 * (len(errors) + 1)), len(errors))
        away = float(np.sort(np.abs(errors))[rank - 1])
        return StepIntervals(self.fit.scaled_to(runs, seconds), (-away, away), (-away, away), untried=1.0)


def fit_with_intervals(runs: Runs, seconds: Floats) -> StepIntervals:
    """Fit a model of step times, with the intervals of its predictions."""
    fit = fit_steps(runs, seconds)
    low, high = np.quantile(fit.correction.errors, (0.05, 0.95))
    scores, groups = [], []
    for index, held_out in enumerate(_ends_of_features(runs)):
        if (~held_out).sum() >= FEWEST_LEFT:
            others = fit_formula(runs.only(~held_out), seconds[~held_out])
            scores.append(np.log(seconds[held_out] / others.seconds(runs.only(held_out))))
            groups += [index] * int(held_out.sum())
    return StepIntervals(fit, (low, high), student_ends(np.concatenate(scores), groups))


def _ends_of_features(runs: Runs) -> list[Flags]:
    """Return masks of the runs at the minimum and at the maximum of each varying feature."""
    masks = []
    for column in runs.features().T:
        if column.min() < column.max():
            masks += [column == column.min(), column == column.max()]
    return masks


COLUMNS = {
    **{"global batch": "batch", "micro batch": "microbatch", "hidden size": "hidden", "# layers": "layers"},
    **{"attention heads": "heads", "sequence length": "sequence", "tensor parallelism": "tensor"},
    **{"data parallelism": "data", "pipeline parallelism": "pipeline"},
}
TARGETS = {"imagenet": 0.60, "librispeech": 45.0, "sentiment140": 0.852, "squad": 84.5}
"""The deepest target that half of the trainings meet at every batch size."""


def mape(predicted: np.ndarray, measured: np.ndarray) -> float:
    """Return the mean absolute relative error in percent."""
    return float(100 * np.abs(predicted / measured - 1).mean())


def vtrain(name: str) -> tuple[Runs, np.ndarray]:
    """Return runs and their seconds."""
    table = pd.read_csv(DATA / "vtrain" / name, encoding="utf-8-sig").rename(columns=COLUMNS)
    return Runs(**{name: table[name].to_numpy(float) for name in COLUMNS.values()}), table[
        "iteration time (ms)"
    ].to_numpy() / 1e3


def steps() -> list[Row]:
    """Return the errors of whole steps."""
    runs, seconds = vtrain("ground_truth_single.csv")
    folds = np.random.default_rng(0).permutation(len(seconds)) % 5
    corrected, plain = np.zeros(len(seconds)), np.zeros(len(seconds))
    covered = np.zeros(len(seconds), dtype=bool)
    for fold in range(5):
        held = folds == fold
        fit = fit_with_intervals(runs.only(~held), seconds[~held])
        estimates = fit.predict(runs.only(held))
        corrected[held], covered[held] = seconds_of(estimates), inside(estimates, seconds[held])
        plain[held] = step_seconds(fit.fit.values, runs.only(held))
    beside = "vTrain 8.37 %"
    found: list[Row] = [
        row("whole steps, 5 folds", mape(corrected, seconds), len(seconds), beside, covered.mean()),
        row("whole steps, 5 folds, formula alone", mape(plain, seconds), len(seconds), beside),
    ]
    for hidden in (1024, 2048):
        held = runs.hidden == hidden
        estimates = fit_with_intervals(runs.only(~held), seconds[~held]).predict(runs.only(held))
        found.append(
            row(
                f"hidden size {hidden} left out",
                mape(seconds_of(estimates), seconds[held]),
                int(held.sum()),
                "",
                inside(estimates, seconds[held]).mean(),
            )
        )
    return [*found, *several_servers(fit_with_intervals(runs, seconds))]


def several_servers(fit: StepIntervals) -> list[Row]:
    """Return the errors on several servers of a model that was fitted on one."""
    several, measured = vtrain("ground_truth_multi_half.csv")
    beside = "vTrain 14.73 %"
    blind = fit.predict(several)
    errors, shares = [], []
    for seed in range(100):
        chosen = np.random.default_rng(seed).permutation(len(measured)) < 10
        estimates = fit.scaled_to(several.only(chosen), measured[chosen]).predict(several.only(~chosen))
        errors.append(mape(seconds_of(estimates), measured[~chosen]))
        shares.append(inside(estimates, measured[~chosen]).mean())
    share = inside(blind, measured).mean()
    return [
        row("several servers, untouched", mape(seconds_of(blind), measured), 55, beside, share),
        row("several servers, ten runs", float(np.mean(errors)), 45, beside, np.mean(shares)),
    ]


def seconds_of(estimates: list[Estimate]) -> np.ndarray:
    """Return the predicted seconds."""
    return np.array([estimate.seconds for estimate in estimates])


def inside(estimates: list[Estimate], measured: np.ndarray) -> np.ndarray:
    """Return which measurements lie inside their intervals."""
    return np.array([e.low <= m <= e.high for e, m in zip(estimates, measured, strict=True)])


def epochs() -> list[Row]:
    """Return the errors of epochs with each batch size left out, beside the best constant."""
    table, found = pd.read_csv(DATA / "zeus" / "summary_train.csv.gz"), []
    for name, target in TARGETS.items():
        own = table[(table.dataset == name) & (table.target_metric == target)]
        means = own.groupby("batch_size").target_epoch.mean()
        sizes, values = means.index.to_numpy(dtype=float), means.to_numpy()
        error = float(100 * np.abs(leave_one_out(sizes, values)).mean())
        others = [np.delete(values, index) for index in range(len(values))]
        constant = [(1 / o).sum() / (1 / o**2).sum() for o in others]
        beside = f"a constant {mape(np.array(constant), values):.1f} %"
        what = f"epochs of {name} to {target:g}, a batch size left out"
        found.append(row(what, error, len(sizes), beside, epochs_covered(own)))
    return found


def epochs_covered(own: pd.DataFrame) -> float:
    """Return the share of trainings whose epochs lie in other sizes' interval; the mean over batch sizes."""
    met = own.dropna(subset=["target_epoch"])
    shares = []
    for size in sorted(met.batch_size.unique()):
        others = met[met.batch_size != size]
        records = tuple(map(EpochRecord, others.batch_size, others.target_epoch))
        estimate = predict_epochs(records, float(size))
        own_epochs = met[met.batch_size == size].target_epoch
        shares.append(np.mean([estimate.low <= value <= estimate.high for value in own_epochs]))
    return float(np.mean(shares))


def row(what: str, error: float, points: int, beside: str = "", covered: float | None = None) -> Row:
    """Return a row of the table."""
    share = None if covered is None else round(100 * float(covered), 1)
    return {
        "what": what,
        "error_percent": round(error, 2),
        "points": points,
        "covered_percent": share,
        "beside": beside,
    }


def main() -> None:
    """Predict, print and store."""
    if not DATA.is_dir():
        print("skipped: there are no published measurements; set CLUSTERPLAN_DATA")
        return
    rows = [*steps(), *epochs()]
    stored = json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
    (RESULTS / "prediction-steps.json").write_text(stored, encoding="utf-8")
    write_lines("prediction-steps", "Whole steps and epochs, predicted", protocol(__doc__), report(rows))


def report(rows: list[Row]) -> list[str]:
    """Return the lines of the table."""
    lines = ["| held out | mean absolute error | measurements | in 90 % interval | beside |"]
    lines += ["|---|---:|---:|---:|---|"]
    for r in rows:
        covered = "" if r["covered_percent"] is None else f"{r['covered_percent']} %"
        lines.append(f"| {r['what']} | {r['error_percent']} % | {r['points']} | {covered} | {r['beside']} |")
    return lines


if __name__ == "__main__":
    main()
