"""Times of operators on one GPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from ...common.arrays import Floats
from ..estimate import Estimate
from ..operators import Operator
from .families import work_and_launches


class OperatorTimes(ABC):
    """Seconds of operators on one GPU.

    Made by `times_on(gpu, measurements)` of `instances.prediction.times.choose`, where `gpu` is a name of the
    catalogue or a `Gpu` of `instances.prediction.hardware`, and `measurements` a CSV file, a table, or None.
    """

    @abstractmethod
    def seconds(self, operators: Sequence[Operator]) -> Floats:
        """Return the seconds of each part of one call of each operator; shape (operators, parts)."""

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

    def launch_bound(self, operators: Sequence[Operator]) -> bool:
        """Return whether the host takes longer to launch all calls than the GPU to run them."""
        work, launches = work_and_launches(self.seconds(operators), counts_of(operators))
        return launches > work


def counts_of(operators: Sequence[Operator]) -> Floats:
    """Return how often each operator is called; shape (operators,)."""
    return np.array([float(operator.count) for operator in operators])
