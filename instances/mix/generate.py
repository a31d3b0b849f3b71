"""Synthetic mix instances, for tests and measurements."""

from __future__ import annotations

import random

from .instance import MixInstance


def generate_serving(types: int = 3, configurations: int = 20, seed: int = 1) -> MixInstance:
    """Return synthetic requests with replicas on three models of device that serve them."""
    rng = random.Random(seed)
    raise NotImplementedError(types, configurations, rng)
