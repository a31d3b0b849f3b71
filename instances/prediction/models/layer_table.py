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
    try:
        _refuse_others(header)
    except ValueError as error:
        raise fail(source, str(error), "line 1") from None
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
    last = None
    for place, row in rows:
        try:
            operator, layer = _operator(row), str(row["layer"])[:200]
            if layer != last and layer in layers:
                raise ValueError(f"layer {layer!r:.60} began above; its rows must follow one another")
            layers.setdefault(layer, []).append(operator)
            last = layer
        except (OptionError, ValueError) as error:
            faults.add(Fault(source, place, str(error)))
    faults.refuse()
    found = tuple(Layer(key, tuple(ops), ops[-1].outputs) for key, ops in layers.items())
    held = any(layer.parameters for layer in found)
    said = () if held else ("The table says no parameters: none is held, exchanged or updated.",)
    return LayerModel(name, source, one_sample=found, assumptions=said)


def _operator(row: Any) -> Operator:
    if not isinstance(row, Mapping):
        raise ValueError(f"is no mapping; the fields are {', '.join(COLUMNS)}")
    _refuse_others([str(name) for name in row])
    absent = [name for name in COLUMNS[:NEEDED] if row.get(name) in (None, "")]
    if absent:
        raise ValueError(f"has no {' and no '.join(absent)}")
    if not isinstance(row["layer"], str | int):
        raise ValueError(f"layer is a {type(row['layer']).__name__}; it must be a name")
    kind = str(row["kind"])
    if kind not in SHAPES:
        raise OptionError(f"layer kind {kind!r:.60}: unknown; there are {', '.join(SHAPES)}")
    given = row["shape"]
    texts = given if isinstance(given, list) else str(given).replace("×", "x").split("x")
    shape = tuple(_whole(text, "shape") for text in texts)
    numbers = {name: _whole(row[name], name) for name in COLUMNS[NEEDED:] if row.get(name) not in (None, "")}
    return Operator(
        kind,
        shape,
        numbers.get("count", 1),
        parameters=numbers.get("parameters", 0),
        saved=numbers.get("saved"),
    )


def _refuse_others(names: Sequence[str]) -> None:
    """Refuse fields that mean nothing here, such as misspelt ones.

    Raises
    ------
    ValueError
        If there is one.
    """
    others = [name for name in names if name not in COLUMNS]
    if others:
        raise ValueError(f"{others[0]!r:.60} means nothing here; the fields are {', '.join(COLUMNS)}")


def _whole(given: Any, what: str) -> int:
    text = str(given).strip()
    if not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise ValueError(
            f"{what} is {text!r:.60}; it must be made of whole numbers, of at most {_MOST_DIGITS} digits"
        )
    return int(text)
