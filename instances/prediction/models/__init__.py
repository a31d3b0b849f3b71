"""Descriptions of models as layers of operators, by name or from a file."""

from __future__ import annotations

from .description import Layer, ModelDescription, Setting
from .load import load_model

__all__ = ["Layer", "ModelDescription", "Setting", "load_model"]
