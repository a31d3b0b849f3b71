"""Data sheets of GPUs, and the peaks that a board can sustain within its power limit.

A board with a low power limit, such as T4, lowers its clock in matrix products: of 65 TFLOP/s in half
precision it sustains 24 (NVIDIA's developer forum, topic 264462; Jia et al. 2019, "Dissecting the NVidia
Turing T4 GPU via Microbenchmarking"). It is assumed to sustain the same peak for each watt as the board
`Gpu.holds_like`: the PCIe board with the largest chip of about the same years (V100 for Turing,
H100 for Ada).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from pydantic import Field

from ..common.errors import OptionError
from ..common.faults import validated
from ..common.fields import Checked, Complaint, Model, Name, NonNegative, Positive, Text, repeated
from ..files.reading import parse_yaml, read_text
from .operators import PRECISION_BYTES

CATALOGUE = Path(__file__).with_name("gpus.yaml")
ALIASES: Mapping[str, str] = {
    "a100": "a100-40",
    "v100-32": "v100",
    "gh-96": "gh200",
    "rtx-pro-server-6000": "rtx-pro-6000",
}
"""Alternative names of GPUs, such as those in price lists of machines."""
PAIRS = 2.5
"""Ratio of half- to single-precision peak above which half precision must run on tensor cores."""
OF_TENSOR_CORES = ("tf32", "bf16", "fp16", "fp8")


class Gpu(Model):
    """A GPU.

    Attributes
    ----------
    peak_tflops
        Precision → 10¹² floating-point operations a second of dense matrices.
    link_gb_per_s, link
        Its fastest link to another GPU of the same server, in one direction.
    cache_mb
        Of the second-level cache, what one kernel's data can use; 0 where it is not known.
    watts
        Power of the board; without it the peaks are taken to be sustained.
    holds_like
        Name of a board of the catalogue, with chips of about the same years, that has the power for its
        peaks: this one computes as much for a watt, and no more. Without one its peaks are sustained.
    source
        Which data sheet says so.
    """

    name: Name
    peak_tflops: dict[str, Positive] = Field(min_length=1)
    bandwidth_gb_per_s: Positive
    memory_gb: Positive
    link_gb_per_s: Positive | None = None
    link: Text | None = None
    cache_mb: NonNegative = 0.0
    watts: Positive | None = None
    holds_like: Name | None = None
    source: Text

    def peak(self, precision: str) -> float:
        """Return the peak of a precision in floating-point operations per second.

        Raises
        ------
        OptionError
            If the data sheet gives none.
        """
        if precision not in PRECISION_BYTES:
            raise OptionError(f"precision {precision!r:.60}: unknown; there are {', '.join(PRECISION_BYTES)}")
        if precision not in self.peak_tflops:
            known = ", ".join(self.peak_tflops)
            raise OptionError(f"{self.name}: has no peak for {precision}; it has {known}")
        return self.peak_tflops[precision] * 1e12

    @property
    def has_tensor_cores(self) -> bool:
        """Whether the GPU has tensor cores, judged by the precisions and peaks of its data sheet."""
        peaks = self.peak_tflops
        only = any(precision in peaks for precision in OF_TENSOR_CORES if precision != "fp16")
        return only or ("fp16" in peaks and "fp32" in peaks and peaks["fp16"] > PAIRS * peaks["fp32"])

    @property
    def training_precision(self) -> str:
        """The usual precision for training: bf16, else fp16 on tensor cores, else single."""
        usual = ["bf16", "fp16", "fp32"] if self.has_tensor_cores else ["fp32"]
        return next(one for one in (*usual, *self.peak_tflops) if one in self.peak_tflops)

    @property
    def bytes_per_s(self) -> float:
        """Memory bandwidth in bytes per second."""
        return self.bandwidth_gb_per_s * 1e9

    @property
    def cache_bytes(self) -> float:
        """Capacity of the second-level cache for one kernel's data, in bytes."""
        return self.cache_mb * 1e6


class GpuCatalogue(Checked):
    """A list of GPUs."""

    gpus: tuple[Gpu, ...] = Field(min_length=1, max_length=10_000)

    def _complaints(self) -> Iterable[Complaint]:
        yield from repeated((gpu.name for gpu in self.gpus), "gpus")
        for index, gpu in enumerate(self.gpus):
            for precision in gpu.peak_tflops:
                if precision not in PRECISION_BYTES:
                    known = ", ".join(PRECISION_BYTES)
                    yield (
                        f"gpus[{index}].peak_tflops",
                        f"{precision!r:.60} is no precision; there are {known}",
                    )


def read_gpus(path: Path) -> Mapping[str, Gpu]:
    """Return the GPUs of a YAML file by name.

    Raises
    ------
    InstanceError
        If anything is wrong with it.
    """
    catalogue = validated(GpuCatalogue, parse_yaml(read_text(path)), str(path))
    return {gpu.name: gpu for gpu in catalogue.gpus}


@cache
def known_gpus() -> Mapping[str, Gpu]:
    """Return the bundled GPUs by name."""
    return read_gpus(CATALOGUE)


def gpu_named(name: str) -> Gpu:
    """Return a bundled GPU.

    Raises
    ------
    OptionError
        If there is none with this name.
    """
    gpus = known_gpus()
    key = name.strip().lower()
    gpu = gpus.get(ALIASES.get(key, key))
    if gpu is None:
        near = difflib.get_close_matches(key, gpus, n=1)
        guess = f"did you mean {near[0]!r}? " if near else ""
        raise OptionError(f"GPU {name!r:.60}: unknown; {guess}known are {', '.join(gpus)}")
    return gpu


TENSOR_CORES = 2 / 3
"""Share of their peak that tensor cores reach in practice, relative to other units.

Matrices take 1.70 times what the peak promises in vTrain's trainings on A100, in half precision, and 1.14
times what boards sustain in NeuSight's products, in single precision."""


def powered(gpu: Gpu) -> Gpu:
    """Return the GPU with its peak throughputs limited to what its power limit sustains.

    Without `holds_like` or `watts`, and for a precision that the other board does not have, they are those of
    the data sheet.

    Raises
    ------
    OptionError
        If the board `holds_like` is not in the catalogue, or has no power there.
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
    """Return the GPU with the peak throughputs that its power limit and tensor cores sustain."""
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
