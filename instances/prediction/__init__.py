"""Prediction of times and memory of training a model on GPUs, each with an interval.

It is not a kind of problem; it makes instances of the existing kinds. Other packages import it here, and
nothing of its inside.
"""

from __future__ import annotations

from .models import load_model
from .models.computation_graph import module_model
from .offers import OF_MEMORY
from .provisioning import CATALOGUE, Prediction, predict
from .report import short

__all__ = ["CATALOGUE", "OF_MEMORY", "Prediction", "load_model", "module_model", "predict", "short"]
