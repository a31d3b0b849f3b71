"""Times of whole training steps: a formula for Megatron-LM, its fit to measured runs, and intervals.

A block of hidden size h on b sequences of s tokens, shared by t GPUs, takes in forward and backward
passes

* 3·(24·b·s·h² + 4·b·s²·h)/t floating-point operations in matrices (Narayanan et al. 2021, appendix);
* reads and writes of b·s²·a/t scores of attention and of b·s·h activations, of which a part is not
  shared;
* the launches of its kernels, which overlap with the GPU's work if that takes longer;
* four all-reduces of b·s·h activations, a ring inside the tensor-parallel group (Shoeybi et al. 2019).

The last stage of a pipeline adds the logits and its loss. m microbatches take (m − 1) slots of the
slowest stage, and the first passes all (see `pipeline_s`). At the end the gradients are all-reduced over the
replicas, and the optimiser updates the parameters. Each term is a figure of the data sheet times a
coefficient that is fitted; `COEFFICIENTS` holds the priors. The fit keeps coefficients near those of the
data sheet, and a correction interpolates between runs.

Intervals are for runs inside the measured range, outside of it, and on another cluster. Inside, they follow
from leave-one-out errors of the correction. Outside, only the formula is used, and its extrapolation error
is estimated by cross-validation: the runs with the largest and the smallest value of each feature are held
out in turn, and the errors of these groups give the ends for a new one (`student_ends`). On another cluster
the errors are those of the runs that were measured there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from ..common.arrays import Flags, Floats
from ..common.errors import OptionError
from .calibration import OUTSIDE, Correction, Estimate, fit_correction, largest_error, student_ends


@dataclass(frozen=True)
class Runs:
    """Configurations of training runs as columns, one entry for each run; all arrays have one shape.

    Parameters
    ----------
    batch, microbatch
        Samples of a step, and samples of a microbatch.
    hidden, heads, layers, sequence
        Sizes of the Transformer.
    tensor, data, pipeline
        Degrees of parallelism (Megatron-LM); their product is the number of GPUs.

    Raises
    ------
    OptionError
        If a figure is below 1, or the batch is no whole number of microbatches on each replica.
    """

    batch: Floats
    microbatch: Floats
    hidden: Floats
    heads: Floats
    layers: Floats
    sequence: Floats
    tensor: Floats
    data: Floats
    pipeline: Floats

    def __post_init__(self) -> None:
        for field in fields(self):
            if not (getattr(self, field.name) >= 1).all():
                raise OptionError(f"runs: {field.name} must be 1 or more")
        if (self.batch % (self.data * self.microbatch)).any():
            raise OptionError("runs: the batch must be a multiple of data parallelism times microbatch")

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> Runs:
        """Return the configurations of rows that have the fields of this class."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: np.array([float(row[name]) for row in rows]) for name in names})

    def __len__(self) -> int:
        return len(self.batch)

    def only(self, chosen: Flags) -> Runs:
        """Return the runs that a mask selects."""
        return Runs(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})

    @property
    def microbatches(self) -> Floats:
        """Number of microbatches of each pipeline in one step."""
        return self.batch / (self.data * self.microbatch)

    def features(self) -> Floats:
        """Return log2 of the features of the runs, shape (runs, 8).

        Columns: microbatch, hidden, sequence, tensor, pipeline, microbatches, data, layers of a
        stage.
        """
        columns = (
            *(self.microbatch, self.hidden, self.sequence, self.tensor, self.pipeline),
            *(self.microbatches, self.data, self.layers / self.pipeline),
        )
        return np.log2(np.stack(columns, axis=1))


def pipeline_s(stages_s: Sequence[float], microbatches: int) -> float:
    """Return the seconds of all passes of a pipeline with a flush.

    They are (m − 1)·max_k t_k + Σ_k t_k for m microbatches.

    The first microbatch passes all stages, and each of the others leaves the slowest stage one slot later
    (GPipe, Huang et al. 2019; the same for 1F1B of PipeDream-Flush, Narayanan et al. 2021, section 2.2).

    Parameters
    ----------
    stages_s
        Seconds of one microbatch, forward and backward, on each stage.
    microbatches
        Number of microbatches of a step.

    Raises
    ------
    OptionError
        If there is no stage, no microbatch or a negative time.
    """
    if not stages_s or microbatches < 1 or min(stages_s) < 0:
        given = f"{len(stages_s)} stages and {microbatches} microbatches"
        raise OptionError(f"{given}: needs 1 or more of each, and times from 0 on")
    return (microbatches - 1) * max(stages_s) + sum(stages_s)


HALF = 2
"""Bytes of an activation or a gradient in half precision."""
LOGIT = 4
"""Bytes of a logit: the loss is computed in single precision."""
SHARPNESS = 4.0
"""Exponent of the overlap of launches with the GPU's work: 1 is the sum, infinity the maximum."""


@dataclass(frozen=True)
class Machine:
    """Machine parameters from the data sheet: peak throughputs, bandwidths and GPUs of a server.

    Parameters
    ----------
    flops_per_s, bytes_per_s
        Peak of a GPU in half precision, and bandwidth of its memory.
    inside_bytes_per_s, network_bytes_per_s
        Bandwidth of one GPU to the others of its server, and of a whole server to the network; one way.
    gpus
        GPUs of a server.
    """

    flops_per_s: float
    bytes_per_s: float
    inside_bytes_per_s: float
    network_bytes_per_s: float
    gpus: int = 8


A100_SERVER = Machine(312e12, 1.555e12, 300e9, 100e9)
"""Eight A100 with 40 GB, NVLink and four links of 200 Gbit/s (NVIDIA's data sheets; vTrain, MICRO'24)."""

VOCABULARY = 51_200
"""Vocabulary of GPT-2, padded as in Megatron-LM."""


@dataclass(frozen=True)
class Coefficient:
    """The log-normal prior of a coefficient, with median `value`.

    Parameters
    ----------
    spread
        Standard deviation of the logarithm.
    """

    value: float
    spread: float


COEFFICIENTS: Mapping[str, Coefficient] = {
    # Time relative to the peak: half to two thirds of the peak are usual.
    "matrices": Coefficient(1.6, 0.5),
    # Passes over the scores: mask, softmax and dropout, forward and backward.
    "scores": Coefficient(12, 0.7),
    # Passes over activations: normalisation, residual and dropout; and those that tensor parallelism shares.
    "activations": Coefficient(10, 0.7),
    "shared_activations": Coefficient(24, 0.7),
    # Seconds of a block's launches, of the smallest all-reduce, of the launches of the head.
    "launch_s": Coefficient(1.5e-3, 1.0),
    "latency_s": Coefficient(5e-5, 1.0),
    "head_launch_s": Coefficient(1e-3, 1.0),
    # Time relative to the bandwidth of links.
    "tensor_link": Coefficient(1.5, 0.7),
    "pipeline_link": Coefficient(1.5, 1.0),
    "data_link": Coefficient(3.0, 0.7),
    "network": Coefficient(1.5, 0.7),
    # The head: its matrix over peak, and passes over the logits.
    "head_matrix": Coefficient(1.6, 0.7),
    "logits": Coefficient(10, 0.7),
    # Bytes that the optimiser moves for a parameter, and the remaining time of a step.
    "optimiser_bytes": Coefficient(20, 0.7),
    "step_s": Coefficient(3e-3, 1.0),
}
"""Every coefficient with its prior, set from data sheets and the literature before any fit."""


def step_seconds(values: Mapping[str, float], runs: Runs, machine: Machine = A100_SERVER) -> Floats:
    """Return the seconds of each run's step by the analytic formula; shape (runs,).

    Parameters
    ----------
    values
        A value for each of `COEFFICIENTS`.
    """
    block, head = _block_s(values, runs, machine), _head_s(values, runs, machine)
    stage = block * runs.layers / runs.pipeline
    slots = runs.microbatches + runs.pipeline - 1
    tokens = runs.microbatch * runs.sequence
    sent = 2 * tokens * runs.hidden * HALF / machine.inside_bytes_per_s * values["pipeline_link"]
    transfers = np.where(runs.pipeline > 1, slots * sent, 0.0)
    pipeline = runs.microbatches * (stage + head) + (runs.pipeline - 1) * stage
    return np.asarray(pipeline + transfers + _end_s(values, runs, machine) + values["step_s"])


def _block_s(values: Mapping[str, float], runs: Runs, machine: Machine) -> Floats:
    tokens, hidden, shared = runs.microbatch * runs.sequence, runs.hidden, runs.tensor
    flops = 3 * (24 * tokens * hidden**2 + 4 * tokens * runs.sequence * hidden) / shared
    passes = values["activations"] + values["shared_activations"] / shared
    moved = HALF * tokens * (values["scores"] * runs.sequence * runs.heads / shared + passes * hidden)
    gpu = values["matrices"] * flops / machine.flops_per_s + moved / machine.bytes_per_s
    busy = (gpu**SHARPNESS + values["launch_s"] ** SHARPNESS) ** (1 / SHARPNESS)
    inside = 2 * (shared - 1) / shared * tokens * hidden * HALF / machine.inside_bytes_per_s
    servers = np.ceil(shared / machine.gpus)
    outside = 2 * (servers - 1) / servers * tokens * hidden * HALF / machine.network_bytes_per_s
    reduced = values["tensor_link"] * inside + values["network"] * outside + values["latency_s"]
    return np.asarray(busy + np.where(shared > 1, 4 * reduced, 0.0))


def _head_s(values: Mapping[str, float], runs: Runs, machine: Machine) -> Floats:
    logits = runs.microbatch * runs.sequence * VOCABULARY / runs.tensor
    matrix = values["head_matrix"] * 6 * logits * runs.hidden / machine.flops_per_s
    return np.asarray(
        matrix + values["logits"] * LOGIT * logits / machine.bytes_per_s + values["head_launch_s"]
    )


def _end_s(values: Mapping[str, float], runs: Runs, machine: Machine) -> Floats:
    """Return the seconds after the last microbatch: gradient all-reduce over replicas, and optimiser."""
    blocks = 12 * runs.hidden**2 * runs.layers / runs.pipeline
    parameters = (blocks + runs.hidden * VOCABULARY) / runs.tensor
    # Rings of one replica's GPUs share the network of their server.
    rings = np.minimum(runs.tensor, machine.gpus) / machine.network_bytes_per_s * values["network"]
    link = values["data_link"] / machine.inside_bytes_per_s
    pace = np.where(runs.tensor * runs.data > machine.gpus, rings, link)
    reduced = 2 * (runs.data - 1) / runs.data * parameters * HALF * pace
    return np.asarray(reduced + values["optimiser_bytes"] * parameters / machine.bytes_per_s)


ERROR = 0.1
"""Expected relative error of the formula, relative to which the priors are weighted."""
PRIOR_WEIGHT = 8.0
"""Weight of the priors, of 0.5 to 80 the one with the best extrapolation: the ends of each feature held out
in turn, among the runs of one hidden size; 8 is best for either of vTrain's two."""
FEWEST = 50
"""Number of measured runs from which on a correction is fitted."""


@dataclass(frozen=True)
class StepFit:
    """A model of step times fitted to measured runs.

    Parameters
    ----------
    values
        The coefficients of `step_seconds`.
    scale
        Factor of all times, such as for another cluster.
    correction
        Correction of the logarithm of the time inside the measured range; None with too few runs.
    least, most
        Ends of the measured range of the features.
    """

    values: Mapping[str, float]
    machine: Machine
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
        predicted = self.scale * step_seconds(self.values, runs, self.machine)
        if self.correction is None:
            return predicted
        return np.where(self.inside(runs), predicted * np.exp(self.correction(runs.features())), predicted)

    def scaled_to(self, runs: Runs, seconds: Floats) -> StepFit:
        """Return the model for another cluster, scaled by the median measured/predicted time there.

        Raises
        ------
        OptionError
            If there are no runs on it.
        """
        if not len(runs):
            raise OptionError("no run was measured on the other cluster; measure one or more")
        return replace(self, scale=self.scale * float(np.median(seconds / self.seconds(runs))))


def fit_steps(runs: Runs, seconds: Floats, machine: Machine = A100_SERVER) -> StepFit:
    """Fit the formula to measured step times, and a correction if there are at least `FEWEST` runs.

    Raises
    ------
    OptionError
        If there are no runs, or a time is not positive.
    """
    fitted = fit_formula(runs, seconds, machine)
    if len(runs) < FEWEST:
        return fitted
    rest = np.log(seconds / fitted.seconds(runs))
    return replace(fitted, correction=fit_correction(runs.features(), rest))


def fit_formula(runs: Runs, seconds: Floats, machine: Machine = A100_SERVER) -> StepFit:
    """Fit only the coefficients of the formula to measured step times.

    They are maximum a posteriori estimates, given their priors and errors of the logarithm, so that those
    that the runs do not determine stay near the data sheet.

    Raises
    ------
    OptionError
        If there are no runs, or a time is not positive.
    """
    if not len(runs) or len(runs) != len(seconds) or not (seconds > 0).all():
        raise OptionError("measured steps: needs one or more, each with seconds greater than 0")
    prior = np.log([one.value for one in COEFFICIENTS.values()])
    spread = np.array([one.spread for one in COEFFICIENTS.values()])

    def named(logarithms: Floats) -> dict[str, float]:
        return dict(zip(COEFFICIENTS, np.exp(logarithms).tolist(), strict=True))

    def residuals(logarithms: Floats) -> Floats:
        errors = np.log(step_seconds(named(logarithms), runs, machine) / seconds)
        return np.concatenate([errors / ERROR, PRIOR_WEIGHT * (logarithms - prior) / spread])

    values = named(least_squares(residuals, prior).x)
    features = runs.features()
    return StepFit(values, machine, features.min(axis=0), features.max(axis=0))


FEWEST_LEFT = 10
"""Least number of remaining runs when an end of a feature is held out."""
UNVARIED_FACTOR = OUTSIDE
"""Factor of the ends outside if a feature differs that never varied, so that its error is unknown."""
UNKNOWN = (-0.7, 0.7)
"""Ends outside with too few runs for an estimate: a factor of two."""
Ends = tuple[float, float]


@dataclass(frozen=True)
class StepIntervals:
    """A fitted model of step times with prediction intervals.

    Parameters
    ----------
    inside, outside
        Ends of the interval of the logarithm of measured over predicted time.
    untried
        Factor of the ends if a feature differs that never varied.
    """

    fit: StepFit
    inside: Ends
    outside: Ends
    untried: float = UNVARIED_FACTOR

    def predict(self, runs: Runs) -> list[Estimate]:
        """Return the predicted seconds of each run's step, with intervals."""
        estimates = []
        fixed = self.fit.least == self.fit.most
        untried = (runs.features() != self.fit.least)[:, fixed].any(axis=1)
        for seconds, inside, far in zip(self.fit.seconds(runs), self.fit.inside(runs), untried, strict=True):
            low, high = self.inside if inside else self.outside
            if far:
                low, high = self.untried * low, self.untried * high
            basis = "measured steps" if inside else "measured steps of other sizes"
            ends = seconds * np.exp(min(low, 0.0)), seconds * np.exp(max(high, 0.0))
            estimates.append(Estimate(float(seconds), float(ends[0]), float(ends[1]), bool(inside), basis))
        return estimates

    def scaled_to(self, runs: Runs, seconds: Floats) -> StepIntervals:
        """Return the model for another cluster, with intervals from runs measured there.

        Each of them is predicted from the others; with a single run the interval is that outside.

        Raises
        ------
        OptionError
            If there are no runs on it.
        """
        scaled_fit = self.fit.scaled_to(runs, seconds)
        if len(runs) < 2:
            return replace(self, fit=scaled_fit, inside=self.outside)
        errors = []
        for index in range(len(runs)):
            others = np.arange(len(runs)) != index
            scaled = self.fit.scaled_to(runs.only(others), seconds[others])
            errors.append(np.log(seconds[index] / scaled.seconds(runs.only(~others))[0]))
        away = largest_error(np.array(errors))
        return StepIntervals(scaled_fit, (-away, away), (-away, away), untried=1.0)


def fit_with_intervals(runs: Runs, seconds: Floats, machine: Machine = A100_SERVER) -> StepIntervals:
    """Fit a model of step times, with the intervals of its predictions.

    Raises
    ------
    OptionError
        If there are no runs, or a time is not positive.
    """
    fit = fit_steps(runs, seconds, machine)
    outside = _outside(runs, seconds, machine)
    if fit.correction is None:
        return StepIntervals(fit, outside, outside)
    low, high = np.quantile(fit.correction.errors, (0.05, 0.95))
    return StepIntervals(fit, (float(low), float(high)), outside)


def _outside(runs: Runs, seconds: Floats, machine: Machine) -> Ends:
    """Return the interval of log errors outside the measured range, by cross-validation.

    Each fold holds out one end of a feature.
    """
    scores: list[Floats] = []
    groups: list[int] = []
    for index, held_out in enumerate(_ends_of_features(runs)):
        if (~held_out).sum() >= FEWEST_LEFT:
            fit = fit_formula(runs.only(~held_out), seconds[~held_out], machine)
            scores.append(np.log(seconds[held_out] / fit.seconds(runs.only(held_out))))
            groups += [index] * int(held_out.sum())
    return student_ends(np.concatenate(scores), groups) if len(scores) > 1 else UNKNOWN


def _ends_of_features(runs: Runs) -> list[Flags]:
    """Return masks of the runs at the minimum and at the maximum of each varying feature."""
    masks = []
    for column in runs.features().T:
        if column.min() < column.max():
            masks += [column == column.min(), column == column.max()]
    return masks
