"""Models: from a name or a file to layers of operators."""

from __future__ import annotations

from .description import Layer, ModelDescription, Setting
from .load import load_model

__all__ = ["Layer", "ModelDescription", "Setting", "load_model"]
