"""Work: how much is to be trained, and by when."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ...common.errors import OptionError
from ..epochs import EpochRecord, predict_epochs
from ..estimate import Estimate

HOUR_S = 3600.0


@dataclass(frozen=True)
class Work:
    """What an instance asks for.

    Parameters
    ----------
    samples, epochs
        M samples, E times over.
    within_h
        Hours until it has to be done; None: as cheap, or as soon, as can be.
    microbatches
        Batches of one GPU between two exchanges of gradients.
    global_batch
        Samples of all GPUs between two exchanges, in place of `microbatches`; they then share them out.
    records
        Trainings at other batch sizes, from which epochs are predicted in place of `epochs`.
    parallel_share
        Share of the computation that further units divide (Amdahl).

    Raises
    ------
    OptionError
        If a figure is not possible.
    """

    samples: float = 1e6
    epochs: float = 1.0
    within_h: float | None = None
    microbatches: int = 8
    parallel_share: float = 0.99
    global_batch: int | None = None
    records: tuple[EpochRecord, ...] = ()

    def __post_init__(self) -> None:
        for name in ("samples", "epochs", "within_h", "microbatches", "global_batch"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1e15:
                raise OptionError(
                    f"{name.removesuffix('_h')} {value:g}: must be greater than 0, at most 1e15"
                )
        if not 0 <= self.parallel_share <= 1:
            raise OptionError(f"parallel_share {self.parallel_share:g}: must be from 0 to 1")

    @property
    def total(self) -> float:
        """Samples of all epochs."""
        return self.samples * self.epochs

    @property
    def floor_samples_per_s(self) -> float | None:
        """Samples a second that are needed to be done in time."""
        return None if self.within_h is None else self.total / (self.within_h * HOUR_S)

    def batches(self, batch: int, replicas: int) -> int:
        """Return the batches of each replica in a step."""
        if self.global_batch is None:
            return self.microbatches
        return -(-self.global_batch // (batch * replicas))

    def divides(self, batch: int, replicas: int) -> bool:
        """Return whether each replica has a batch in every step."""
        return self.global_batch is None or batch * replicas <= max(self.global_batch, batch)

    def epochs_at(self, samples: int) -> Estimate:
        """Return the epochs (in the field `seconds`) with so many samples in a step.

        Raises
        ------
        OptionError
            If the records say nothing.
        """
        if not self.records:
            return Estimate(self.epochs, self.epochs, self.epochs, True, "given")
        return _recorded(self.records, samples)


@cache
def _recorded(records: tuple[EpochRecord, ...], samples: int) -> Estimate:
    found = predict_epochs(records, samples)
    return Estimate(found.epochs, found.low, found.high, found.inside, found.basis)
