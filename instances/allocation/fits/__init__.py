"""Fits of a job's speed model and remaining steps to measured speeds and losses."""

from __future__ import annotations

from .loss import LossFit, fit_loss
from .measurements import LossPoint, SpeedPoint
from .speed import SpeedFit, fit_speed

__all__ = ["LossFit", "LossPoint", "SpeedFit", "SpeedPoint", "fit_loss", "fit_speed"]
