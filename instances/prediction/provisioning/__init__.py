"""Provisioning: forecasts of training on hardware to rent, offers for a deadline, and instances."""

from __future__ import annotations
