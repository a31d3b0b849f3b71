"""Times: seconds of operators, from a GPU's data sheet alone or from measurements."""

from __future__ import annotations

from .operator_times import OperatorTimes

__all__ = ["OperatorTimes"]
