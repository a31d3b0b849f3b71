"""Fits: from measured speeds and losses to the coefficients and the remaining steps of a job."""

from __future__ import annotations

from .loss import LossFit, fit_loss
from .measurements import LossPoint, SpeedPoint
from .speed import SpeedFit, fit_speed

__all__ = ["LossFit", "LossPoint", "SpeedFit", "SpeedPoint", "fit_loss", "fit_speed"]
