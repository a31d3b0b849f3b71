"""Times of operators on one GPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..estimate import Estimate
from ..operators import Operator


class OperatorTimes(ABC):
    """Seconds of operators on one GPU.

    Made by `times_on(gpu, measurements)` of `instances.prediction.times.choose`, where `gpu` is a name of the
    catalogue or a `Gpu` of `instances.prediction.hardware`, and `measurements` a CSV file, a table, or None.
    """

    @abstractmethod
    def predict(self, operators: Sequence[Operator]) -> list[Estimate]:
        """Return the seconds of each operator, all its `count` calls together.

        Raises
        ------
        OptionError
            If the GPU has no peak for a precision.
        """

    @abstractmethod
    def total(self, operators: Sequence[Operator]) -> Estimate:
        """Return the seconds of all together: a whole step, with the interval of whole models."""
