"""Measurements in place of a speed."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from clusterplan.instances.allocation.speed import MeasuredSpeed, SpeedModel


def test_the_schema_allows_measurements_in_place_of_coefficients() -> None:
    """They are fitted before the document is validated."""
    schema = TypeAdapter[Any](SpeedModel).json_schema()
    assert schema["anyOf"][1]["title"] == MeasuredSpeed.__name__
    assert MeasuredSpeed(measurements="speeds.csv").model == "auto"
