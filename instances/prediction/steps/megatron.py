"""The seconds of a step of Megatron-LM, from what its layers compute, read, write and send.

A block of hidden size h on b sequences of s tokens, shared by t GPUs, takes in forward and backward passes

* 3·(24·b·s·h² + 4·b·s²·h)/t floating-point operations in matrices (Narayanan et al. 2021, appendix);
* reads and writes of b·s²·a/t scores of attention and of b·s·h activations, of which a part is not shared;
* the launches of its kernels, which hide behind the GPU's work where that takes longer;
* four all-reduces of b·s·h activations, a ring inside the tensor-parallel group (Shoeybi et al. 2019).

The last stage of a pipeline adds the logits and its loss. m microbatches take (m − 1) slots of the slowest
stage, and the first passes all (see `pipeline_s`). At the end the gradients are added up over the replicas,
and the optimiser goes over its parameters. Each term is a figure of the data sheet times a coefficient that
is fitted; what a coefficient is before anything was measured stands in `COEFFICIENTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...common.arrays import Floats
from .runs import Runs

HALF = 2
"""Bytes of an activation or a gradient in half precision."""
LOGIT = 4
"""Bytes of a logit: the loss is computed in single precision."""
SHARPNESS = 4.0
"""Exponent with which launches hide behind the GPU's work; 1 adds them, infinity takes the longer."""


@dataclass(frozen=True)
class Machine:
    """A server of the data sheet.

    Parameters
    ----------
    flops_per_s, bytes_per_s
        Peak of a GPU in half precision, and bandwidth of its memory.
    inside_bytes_per_s, network_bytes_per_s
        Of the links of one GPU to the others of its server, and of a whole server to the network; one way.
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
"""GPT-2's, padded as Megatron-LM does."""


@dataclass(frozen=True)
class Coefficient:
    """What is taken of a coefficient before it is fitted: log-normal around `value`.

    Parameters
    ----------
    spread
        Standard deviation of the logarithm.
    """

    value: float
    spread: float


COEFFICIENTS: Mapping[str, Coefficient] = {
    # Times over peak: half to two thirds of the peak are usual.
    "matrices": Coefficient(1.6, 0.5),
    # Passes over the scores: mask, softmax and dropout, forward and backward.
    "scores": Coefficient(12, 0.7),
    # Passes over activations: normalisation, residual and dropout; and those that tensor parallelism shares.
    "activations": Coefficient(10, 0.7),
    "shared_activations": Coefficient(24, 0.7),
    # Seconds of a block's launches, of an all-reduce however small, of the launches of the head.
    "launch_s": Coefficient(1.5e-3, 1.0),
    "latency_s": Coefficient(5e-5, 1.0),
    "head_launch_s": Coefficient(1e-3, 1.0),
    # Times over the bandwidth of links.
    "tensor_link": Coefficient(1.5, 0.7),
    "pipeline_link": Coefficient(1.5, 1.0),
    "data_link": Coefficient(3.0, 0.7),
    "network": Coefficient(1.5, 0.7),
    # The head: its matrix over peak, and passes over the logits.
    "head_matrix": Coefficient(1.6, 0.7),
    "logits": Coefficient(10, 0.7),
    # Bytes that the optimiser moves for a parameter, and what else a step takes.
    "optimiser_bytes": Coefficient(20, 0.7),
    "step_s": Coefficient(3e-3, 1.0),
}
"""Every coefficient with its prior, set from data sheets and the literature before any fit."""


def step_seconds(values: Mapping[str, float], runs: Runs, machine: Machine = A100_SERVER) -> Floats:
    """Return the seconds of each run's step; shape (runs,).

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
    """Return the seconds after the last microbatch: gradients over all replicas, and the optimiser."""
    blocks = 12 * runs.hidden**2 * runs.layers / runs.pipeline
    parameters = (blocks + runs.hidden * VOCABULARY) / runs.tensor
    # Rings of one replica's GPUs share the network of their server.
    rings = np.minimum(runs.tensor, machine.gpus) / machine.network_bytes_per_s * values["network"]
    link = values["data_link"] / machine.inside_bytes_per_s
    pace = np.where(runs.tensor * runs.data > machine.gpus, rings, link)
    reduced = 2 * (runs.data - 1) / runs.data * parameters * HALF * pace
    return np.asarray(reduced + values["optimiser_bytes"] * parameters / machine.bytes_per_s)
