"""The shortest job first, by its duration, its remaining time, or its remaining GPU-time."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ....instances.common.arrays import Floats, Ints
from ..policy import ByKey
from ..seen import Knowledge


class Shortest(ByKey):
    """Serves the job with the least time that is left.

    Parameters
    ----------
    estimates
        Whether it goes by what users claim, less what has run, in place of the truth.
    """

    def __init__(self, estimates: bool = False) -> None:
        self.knows = Knowledge.ESTIMATE if estimates else Knowledge.REMAINING

    def keys_of(self, jobs: Ints) -> Floats:
        """Return the time that is left."""
        if self.knows is Knowledge.ESTIMATE:
            return np.maximum(self.seen.estimate_s[jobs] - self.seen.executed_s[jobs], 0.0)
        return self.seen.remaining_s[jobs]


class ShortestRemaining(Shortest):
    """The same with preemption (SRTF)."""

    preempts: ClassVar[bool] = True


class ShortestService(ShortestRemaining):
    """With preemption, by remaining time × GPUs (SRSF; Gu et al., Tiresias, NSDI'19)."""

    def keys_of(self, jobs: Ints) -> Floats:
        """Return the service that is left."""
        return super().keys_of(jobs) * self.seen.width[jobs]
