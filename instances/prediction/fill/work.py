"""Work: how much is to be trained, and by when."""

from __future__ import annotations

from dataclasses import dataclass

from ...common.errors import OptionError

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

    def __post_init__(self) -> None:
        for name in ("samples", "epochs", "within_h", "microbatches"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1e15:
                raise OptionError(f"{name.replace('_h', '')} {value:g}: must be greater than 0, at most 1e15")
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
