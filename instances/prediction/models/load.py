"""A model by its name, or from a file."""

from __future__ import annotations

from pathlib import Path

from .description import ModelDescription


def load_model(given: str | Path) -> ModelDescription:
    """Return a model: a known name, a ``config.json``, a table of layers (YAML, CSV), or an ONNX file.

    Raises
    ------
    InstanceError
        If there is no such model, or its file is wrong.
    UnavailableError
        If reading the file needs a library that is not installed.
    """
    raise NotImplementedError
