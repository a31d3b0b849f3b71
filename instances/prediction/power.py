"""Power: what a board computes for longer than a moment.

A board of little power, such as T4, lowers its clock in products of matrices: of 65 TFLOP/s in half precision
it sustains 24 (NVIDIA's developer forum, topic 264462; Jia et al. 2019, "Dissecting the NVidia Turing T4 GPU
via Microbenchmarking"). It is taken to sustain for each watt what the board `Gpu.holds_like` promises: the
PCIe board with the largest chip of about the same years (V100 for Turing, H100 for Ada).
"""

from __future__ import annotations

from ..common.errors import OptionError
from .hardware import OF_TENSOR_CORES, Gpu, gpu_named

TENSOR_CORES = 2 / 3
"""Of their peak that tensor cores reach where others reach all of theirs.

Matrices take 1.70 times what the peak promises in vTrain's trainings on A100, in half precision, and 1.14
times what boards sustain in NeuSight's products, in single precision."""


def powered(gpu: Gpu) -> Gpu:
    """Return the GPU with peaks no higher than its power sustains.

    Without `holds_like` or `watts` they are those of the data sheet; so is the peak of a precision that the
    other board does not have.

    Raises
    ------
    OptionError
        If the board that it holds like is not of the catalogue, or has no power there.
    """
    if gpu.holds_like is None or gpu.watts is None:
        return gpu
    like = powered(gpu_named(gpu.holds_like))
    if like.watts is None:
        raise OptionError(
            f"{gpu.name}: holds_like {like.name}, of which no power is known; name a board that has watts"
        )
    share = gpu.watts / like.watts
    peaks = {
        precision: min(peak, share * like.peak_tflops.get(precision, peak / share))
        for precision, peak in gpu.peak_tflops.items()
    }
    return gpu.model_copy(update={"peak_tflops": peaks})


def sustained(gpu: Gpu) -> Gpu:
    """Return the GPU with the peaks that stand beside each other: those of its power and its tensor cores."""
    most = powered(gpu)
    if not gpu.has_tensor_cores:
        return most
    peaks = {
        precision: min(peak, gpu.peak_tflops[precision] * TENSOR_CORES)
        if precision in OF_TENSOR_CORES
        else peak
        for precision, peak in most.peak_tflops.items()
    }
    return gpu.model_copy(update={"peak_tflops": peaks})
