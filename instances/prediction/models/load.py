"""Loading of a model by its name or from a file.

A table of layers, a CSV or YAML file, has one row for each operator of one sample. Convolutional networks are
known by name, with the shapes of torchvision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator

from ...common.errors import Fault, Faults, InstanceError, OptionError
from ...common.faults import suggestion_text, validated
from ...common.fields import Model, Name
from ...files.csv_tables import numbered_rows
from ...files.reading import fail, parse_yaml, read_text
from ..operators import Operator, Shape, Whole, linear
from .computation_graph import onnx_model
from .description import Layer, LayerModel, ModelDescription
from .transformer import transformer_of
from .transformer_config import config_of

NAMED = Path(__file__).with_name("models.yaml")
NETWORKS = Path(__file__).with_name("convolutional_networks.yaml")
SUFFIXES = (".json", ".yaml", ".yml", ".csv", ".onnx")


@cache
def named() -> Mapping[str, Mapping[str, Any]]:
    """Return the bundled models by name: fields of a ``config.json``, or the layers of a network."""
    models, networks = parse_yaml(read_text(NAMED))["models"], parse_yaml(read_text(NETWORKS))
    return {**models, **networks}


def load_model(given: str | Path) -> ModelDescription:
    """Return a model: a known name, a ``config.json``, a table of layers (YAML, CSV), or an ONNX file.

    Raises
    ------
    InstanceError
        If there is no such model, or its file is wrong.
    UnavailableError
        If reading the file needs a library that is not installed.
    """
    text = str(given)
    if isinstance(given, str) and text.lower() in named():
        name, data = text.lower(), named()[text.lower()]
        if "picture" in data:
            return network(name, data)
        return transformer_of(name, data["source"], config_of(data, text))
    path = Path(given)
    match path.suffix.lower():
        case ".csv":
            return table_model(path, text)
        case ".onnx":
            return onnx_model(path, text)
        case ".json" | ".yaml" | ".yml":
            return _document_model(path, text)
    guess = suggestion_text(text.lower(), named())
    known = ", ".join(named())
    what = f"there is no such model; {guess}known are {known}; or give a file ({', '.join(SUFFIXES)})"
    raise fail(text[:200], what)


def _document_model(path: Path, source: str) -> ModelDescription:
    """Return the model of a JSON or YAML file: a transformer's configuration, or a list of layers."""
    try:
        data = parse_yaml(read_text(path, source))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        what = "is nested too deeply" if deep else f"cannot be read: {[*str(error).splitlines(), ''][0]}"
        raise fail(source, what) from None
    if not isinstance(data, Mapping):
        raise fail(source, "is no mapping; it must have a model_type, as a config.json, or a list of layers")
    if "model_type" not in data:
        if not isinstance(data.get("layers"), list):
            raise fail(source, "has neither a model_type, as a config.json, nor a list of layers")
        rows = [(f"layers[{index}]", row) for index, row in enumerate(data["layers"])]
        named = data.get("name", path.stem)
        if not isinstance(named, str):
            raise fail(source, f"is {named!r:.60}; it must be text", "name")
        return model_of_rows(rows, named[:200], source)
    name = path.parent.name if path.stem == "config" and path.parent.name else path.stem
    return transformer_of(name, source, config_of(data, source))


class _Row(Model):
    """An operator of a layer, with its shape for one sample."""

    layer: Annotated[Name, BeforeValidator(lambda name: str(name) if type(name) is int else name)]
    kind: Name
    shape: Shape
    count: Whole = 1
    parameters: Whole = 0
    saved: Whole | None = None


COLUMNS = tuple(_Row.model_fields)
"""Columns of a table of layers."""
MOST = 100_000


def table_model(path: Path, source: str) -> LayerModel:
    """Return the model described by a CSV table of layers.

    Raises
    ------
    InstanceError
        If a column is missing or a row wrong; faults name the lines.
    """
    header, rows = numbered_rows(read_text(path, source), source)
    required = (name for name, field in _Row.model_fields.items() if field.is_required())
    missing = [name for name in required if name not in header]
    others = [name for name in header if name not in COLUMNS]
    if missing or others:
        what = f"has no column {', '.join(missing)}" if missing else f"{others[0]!r:.60} means nothing here"
        raise fail(source, f"{what}; the columns are {', '.join(COLUMNS)}", "line 1")
    return model_of_rows([(f"line {line}", row) for line, row in rows], path.stem, source)


def model_of_rows(rows: Sequence[tuple[str, Any]], name: str, source: str) -> LayerModel:
    """Return the model described by rows, each given with its name in error messages.

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
        filled: Any = row
        if isinstance(row, Mapping):
            filled = {name: cell for name, cell in row.items() if cell not in (None, "")}
        try:
            given = validated(_Row, filled, f"{source}: {place}").model_dump()
            layer = given.pop("layer")
            if layer != last and layer in layers:
                raise OptionError(f"layer {layer!r:.60} began above; its rows must follow one another")
            layers.setdefault(layer, []).append(Operator(**given))
            last = layer
        except InstanceError as error:
            faults.add_all(error)
        except OptionError as error:
            faults.add(Fault(source, place, str(error)))
    faults.refuse()
    modelled = tuple(Layer(key, tuple(ops), ops[-1].outputs) for key, ops in layers.items())
    trained = any(layer.parameters for layer in modelled)
    assumptions = () if trained else ("The table says no parameters: none is held, exchanged or updated.",)
    return LayerModel(name, source, one_sample=modelled, assumptions=assumptions)


def network(name: str, data: Mapping[str, Any]) -> LayerModel:
    """Return a convolutional network from its steps in `convolutional_networks.yaml`."""
    channels, side = 3, data["picture"]
    picture = _Picture((channels, side, side), data.get("normalised", True))
    layers, numbers = [], Counter[str]()
    for entry in data["layers"]:
        for _ in range(entry.get("times", 1)):
            picture.operators = []
            picture.take(entry["steps"])
            numbers[entry["layer"]] += 1
            label = entry["layer"].replace("#", str(numbers[entry["layer"]]))
            layers.append(Layer(label, tuple(picture.operators), prod(picture.shape)))
    return LayerModel(name, data["source"], one_sample=tuple(layers))


@dataclass
class _Picture:
    """A picture on its way through a convolutional network: the operators so far and what they return.

    Parameters
    ----------
    shape
        Channels, height and width of one sample.
    normalised
        Whether a batch normalisation follows each convolution, in place of a bias; None: neither does.
    """

    shape: tuple[int, ...]
    normalised: bool | None
    operators: list[Operator] = field(default_factory=list)

    def take(self, steps: Sequence[Mapping[str, Any]]) -> None:
        """Add the operators of steps, one after the other."""
        for step in steps:
            match step:
                case {"conv": filters, **how}:
                    self._conv(filters, **how)
                case {"pool": kernel, **how}:
                    self._pool(kernel, **how)
                case {"linear": outputs, **how}:
                    self._linear(outputs, **how)
                case {"sum": branches, **how}:
                    (self.shape,) = {*self._ends(branches)}
                    self._over("add")
                    if how.get("relu", True):
                        self._over("relu", saved=0)
                case {"norm": relu}:
                    self._normalise(relu)
                case {"concat": branches}:
                    ends = self._ends(branches)
                    self.shape = (sum(channels for channels, *_ in ends), *ends[0][1:])
                    self._over("copy", saved=0)
                case _:
                    raise ValueError(f"{NETWORKS.name}: {step} is no step")

    def _ends(self, branches: Sequence[Sequence[Mapping[str, Any]]]) -> list[tuple[int, ...]]:
        """Add the operators of branches that start at the same picture; return the shapes at their ends."""
        start, ends = self.shape, []
        for branch in branches:
            self.shape = start
            self.take(branch)
            ends.append(self.shape)
        return ends

    def _conv(
        self, filters: int, kernel: Any = 1, stride: int = 1, padding: Any = 0, relu: bool = True
    ) -> None:
        channels, *size = self.shape
        (high, wide), pads = (one if isinstance(one, list) else [one, one] for one in (kernel, padding))
        weights = channels * filters * high * wide + filters * (self.normalised is False)
        shape = (1, channels, filters, high, wide, *size, stride, *pads, 1)
        operator = Operator("conv", shape, parameters=weights)
        self.operators.append(operator)
        self.shape = (filters, *operator.output_size)
        if self.normalised:
            self._normalise(relu)
        elif relu and self.normalised is False:
            self._over("relu", saved=0)

    def _normalise(self, relu: bool) -> None:
        self._over("batch_norm", parameters=2 * self.shape[0])
        if relu:
            self._over("relu", saved=0)

    def _pool(self, kernel: int, stride: int, padding: int = 0) -> None:
        pool = Operator("pool", (1, *self.shape, kernel, stride, padding))
        self.operators.append(pool)
        self.shape = (self.shape[0], *pool.output_size)

    def _linear(self, outputs: int, relu: bool = True) -> None:
        self.operators.append(linear(1, prod(self.shape), outputs))
        self.shape = (outputs, 1, 1)
        if relu:
            self._over("relu", saved=0)

    def _over(self, kind: str, parameters: int = 0, saved: int | None = None) -> None:
        """Add an operator over all elements, whose width is the number of channels."""
        channels, *size = self.shape
        self.operators.append(Operator(kind, (prod(size), channels), parameters=parameters, saved=saved))
