"""Tables of layers: one row for each operator of one sample, in a CSV or YAML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...common.errors import Fault, Faults, OptionError
from ...files.csv_tables import numbered_rows
from ...files.reading import fail, read_text
from ..operators import SHAPES, Operator
from .description import Layer
from .layer_model import LayerModel

COLUMNS = ("layer", "kind", "shape", "count", "parameters", "saved")
"""A layer's name, an operator of it and its shape for one sample; the others may be left out."""
NEEDED = 3
MOST = 100_000
_MOST_DIGITS = 15


def table_model(path: Path, source: str) -> LayerModel:
    """Return the model of a CSV table.

    Raises
    ------
    InstanceError
        If a column is missing or a row wrong; faults name the lines.
    """
    header, rows = numbered_rows(read_text(path, source), source)
    missing = [name for name in COLUMNS[:NEEDED] if name not in header]
    if missing:
        raise fail(
            source, f"has no column {', '.join(missing)}; the columns are {', '.join(COLUMNS)}", "line 1"
        )
    return model_of_rows([(f"line {line}", row) for line, row in rows], path.stem, source)


def model_of_rows(rows: Sequence[tuple[str, Any]], name: str, source: str) -> LayerModel:
    """Return the model of rows, each with what faults call it.

    Raises
    ------
    InstanceError
        If there are none, too many, or one is wrong.
    """
    if not 1 <= len(rows) <= MOST:
        raise fail(source, f"has {len(rows):,} layers; there must be from 1 to {MOST:,}")
    layers: dict[str, list[Operator]] = {}
    faults = Faults()
    for place, row in rows:
        try:
            operator = _operator(row)
            layers.setdefault(str(row["layer"])[:200], []).append(operator)
        except (OptionError, ValueError) as error:
            faults.add(Fault(source, place, str(error)))
    faults.refuse()
    found = tuple(Layer(key, tuple(ops), ops[-1].outputs) for key, ops in layers.items())
    return LayerModel(name, source, one_sample=found)


def _operator(row: Any) -> Operator:
    if not isinstance(row, Mapping):
        raise ValueError(f"is no mapping; the fields are {', '.join(COLUMNS)}")
    absent = [name for name in COLUMNS[:NEEDED] if row.get(name) in (None, "")]
    if absent:
        raise ValueError(f"has no {' and no '.join(absent)}")
    kind = str(row["kind"])
    if kind not in SHAPES:
        raise OptionError(f"layer kind {kind!r:.60}: unknown; there are {', '.join(SHAPES)}")
    given = row["shape"]
    texts = given if isinstance(given, list) else str(given).replace("×", "x").split("x")
    shape = tuple(_whole(text, "shape") for text in texts)
    count, parameters = _whole(row.get("count", 1), "count"), _whole(row.get("parameters", 0), "parameters")
    saved = row.get("saved")
    return Operator(
        kind, shape, count, parameters=parameters, saved=None if saved is None else _whole(saved, "saved")
    )


def _whole(given: Any, what: str) -> int:
    text = str(given).strip()
    if not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise ValueError(f"{what} is {text!r:.60}; it must be made of whole numbers")
    return int(text)
