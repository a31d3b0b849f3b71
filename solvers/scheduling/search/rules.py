"""Static rules: what the search starts from."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....instances.common.arrays import Floats
from ..event_state import Rule
from ..serve import Server

SHAPES = (
    # power of the width, power of the duration, power of the remaining time
    (1.0, 0.0, 1.0),
    (0.0, 0.0, 1.0),
    (0.9, 0.0, 1.0),
    (1.0, 0.2, 0.8),
    (0.9, 0.1, 0.9),
    (1.0, 0.5, 0.5),
    (1.0, 0.0, 1.2),
)
"""SRSF and SRTF first, which nothing may be worse than; then what was best on production traces."""
KEEPS = (1.0, 0.7, 0.4)
"""What the keys of running jobs are multiplied by where an interruption costs."""
LEAST_WEIGHT = 1e-9
"""Of the largest one: what a job counts that has no weight, so that its key is finite."""


def static_rules(server: Server, costs: bool) -> Iterator[Rule]:
    """Yield rules in which a job's key is width^a × duration^b × remaining^c / weight.

    Without weights, exponents 1, 0, 1 are SRSF (Tiresias) and 0, 0, 1 are SRTF; with weights these are the
    rules of Smith (1956) for one machine. Rules for SRSF and SRTF without weights come too where jobs have
    weights.

    Parameters
    ----------
    costs
        Whether interruptions cost.
    """
    weight = np.maximum(server.weight, LEAST_WEIGHT * server.weight.max())
    weights: list[Floats] = [weight / weight.max()]
    if (weight != weight[0]).any():
        weights.append(np.ones(len(weight)))
    for scale in weights:
        for width, duration, remaining in SHAPES:
            multiplier = server.width**width * server.trace.duration_s**duration / scale
            for keep in KEEPS if costs else KEEPS[:1]:
                yield Rule(multiplier, remaining, keep, preempts=True, blocks=False)
    # Shortest job first: nobody is stopped.
    yield Rule(np.ones(len(weight)), 1.0, 1.0, preempts=False, blocks=False)
