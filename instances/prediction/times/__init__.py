"""Times: seconds of operators, from a GPU's data sheet alone or from measurements."""

from __future__ import annotations

from .choose import times_on
from .measurements import Measurement, read_measurements
from .operator_times import OperatorTimes

__all__ = ["Measurement", "OperatorTimes", "read_measurements", "times_on"]
