"""Parallelism: among how many GPUs a training is divided, and how."""

from __future__ import annotations

from dataclasses import dataclass

from ...common.errors import OptionError
from ..models.memory import STAGES

MOST = 10**6


@dataclass(frozen=True)
class Parallelism:
    """How GPUs share a training.

    Parameters
    ----------
    tensor
        GPUs that share each layer (Megatron-LM; Shoeybi et al. 2019).
    pipeline
        Stages of layers, through which batches go one after the other (GPipe; Huang et al. 2019).
    data
        Replicas of all of that, each with batches of its own.
    zero_stage
        What the replicas of a layer divide: 1 the optimiser's numbers, 2 gradients too, 3 parameters too
        (Rajbhandari et al. 2020).
    recompute
        Whether only the inputs of layers are kept, and activations computed again (Chen et al. 2016).

    Raises
    ------
    OptionError
        If a figure is not possible.
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    zero_stage: int = 0
    recompute: bool = False

    def __post_init__(self) -> None:
        for name in ("tensor", "pipeline", "data"):
            if not 1 <= getattr(self, name) <= MOST:
                raise OptionError(f"{name} {getattr(self, name)}: must be from 1 to {MOST:,}")
        if self.zero_stage not in STAGES:
            raise OptionError(f"zero_stage {self.zero_stage}: must be 0, 1, 2 or 3")

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        return self.tensor * self.pipeline * self.data

    def __str__(self) -> str:
        """Return what differs from one GPU, such as ``tensor 2 × data 8, ZeRO 1``."""
        degrees = [(name, getattr(self, name)) for name in ("tensor", "pipeline", "data")]
        shared = " × ".join(f"{name} {degree}" for name, degree in degrees if degree > 1) or "alone"
        zero = f", ZeRO {self.zero_stage}" if self.zero_stage else ""
        return shared + zero + (", recomputed" if self.recompute else "")
