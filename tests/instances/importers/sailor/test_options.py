"""Options of Sailor's imports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusterplan.instances.importers.sailor.options import SailorOptions


@pytest.mark.parametrize(
    ("given", "meant"), [("1, 2,all", ("1", "2", "all")), ([1, 4], ("1", "4")), (None, None)]
)
def test_degrees_as_text_or_numbers(given: Any, meant: tuple[str, ...] | None) -> None:
    """As typed on the command line, or in Python."""
    options = SailorOptions(model_dir=Path("M"), types="A,B", tensor_parallel=given)  # type: ignore[arg-type]
    assert (options.types, options.tensor_parallel) == (("A", "B"), meant)
