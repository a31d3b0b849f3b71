"""What the import of Sailor's profiles says that it assumes."""

from __future__ import annotations

from pathlib import Path

from clusterplan.instances.importers.sailor.assumptions import assumptions
from clusterplan.instances.importers.sailor.options import SailorOptions
from clusterplan.instances.importers.sailor.units import Unit

TIMES = {"0": (1.0, 2.0, 0.5)}
OPTIONS = SailorOptions(model_dir=Path("M"), types=("A", "A-tp4"), prices={"A": 1.0})


def said(*units: Unit) -> str:
    """Return all sentences."""
    return " ".join(assumptions(OPTIONS, dict.fromkeys(units, TIMES)))


def test_single_gpus() -> None:
    """Without tensor parallelism nothing of it is said."""
    text = said(Unit("A"))
    assert "One unit is one GPU with whole layers (tensor-parallel degree 1)." in text
    assert "Further GPUs of a stage divide" in text
    assert "tensor parallelism" not in text


def test_units_of_several_gpus() -> None:
    """What a unit is, what it costs, and whose memory counts."""
    text = said(Unit("A"), Unit("A", 4))
    assert "One unit of A is one GPU with whole layers" in text
    assert "One unit of A-tp4 is 4 A, which share every layer by tensor parallelism, at the price of" in text
    assert "Its memory is that of each of them" in text
    assert "The memory of A is unknown" in text
