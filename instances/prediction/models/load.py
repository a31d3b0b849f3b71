"""Loading of a model by its name or from a file."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ...common.errors import InstanceError
from ...files.reading import fail, parse_yaml, read_text
from .computation_graph import onnx_model
from .convolutional_networks import NETWORKS
from .description import ModelDescription, model_of_rows, table_model
from .encoder_decoder import STYLES, encoder_decoder_config_of, encoder_decoder_of
from .transformer import transformer_of
from .transformer_config import config_of

NAMED = Path(__file__).with_name("models.yaml")
SUFFIXES = (".json", ".yaml", ".yml", ".csv", ".onnx")


@cache
def _named() -> Mapping[str, Mapping[str, Any]]:
    models = parse_yaml(read_text(NAMED))["models"]
    assert isinstance(models, dict)
    return models


def known_models() -> tuple[str, ...]:
    """Return the names of the bundled models."""
    return (*_named(), *NETWORKS)


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
    if isinstance(given, str) and text.lower() in NETWORKS:
        return NETWORKS[text.lower()]()
    if isinstance(given, str) and text.lower() in _named():
        data = _named()[text.lower()]
        return _configured(text.lower(), str(data["source"]), data, text)
    path = Path(given)
    if path.suffix.lower() not in SUFFIXES:
        raise _unknown(text)
    match path.suffix.lower():
        case ".csv":
            return table_model(path, text)
        case ".onnx":
            return onnx_model(path, text)
    return _document_model(path, text)


def _unknown(text: str) -> InstanceError:
    near = difflib.get_close_matches(text.lower()[:60], known_models(), n=1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    known = ", ".join(known_models())
    what = f"there is no such model; {guess}known are {known}; or give a file ({', '.join(SUFFIXES)})"
    return fail(text[:200], what)


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
    return _configured(name, source, data, source)


def _configured(name: str, source: str, data: Any, place: str) -> ModelDescription:
    """Return the transformer of a configuration; `place` is its name in error messages."""
    kind = data.get("model_type") if isinstance(data, Mapping) else None
    if isinstance(kind, str) and (kind in STYLES or data.get("is_encoder_decoder") is True):
        return encoder_decoder_of(name, source, encoder_decoder_config_of(data, place))
    return transformer_of(name, source, config_of(data, place))
