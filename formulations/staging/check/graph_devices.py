"""The check's own proof that limited devices allow no faster plan of a graph.

From all groups downwards, it is noted with how many units of each type the stages after an ideal can do, each
stage with the fewest with which it is fast enough. If the empty ideal is never reached within the limits,
there is no plan as fast. No value of a method is used but the stage time that is refuted.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ....instances.common.arrays import Floats, Ints
from ....instances.staging.instance import StagingInstance
from ...common.clock import check_time
from ...common.compiled import compiled
from .graph_stages import Stages, derive_stages, room_for, stages_into

MOST_STATES = 60_000_000
"""Ideals times ways to use units, one byte each."""
LONGEST_S = 1e200
"""Stands for an infinite stage time, which no units left would make anything of."""
LOOK_EVERY = 16
"""Ideals between two looks at the clock."""


def refuted(instance: StagingInstance, slowest_s: float) -> bool:
    """Return whether no plan of a graph has stages of at most `slowest_s`; False also where it is too large.

    Raises
    ------
    TooLargeError
        If there are too many ideals.
    """
    limits = np.array([one.limit or 0 for one in instance.types])
    states = math.prod((limits + 1).tolist())
    graph = derive_stages(instance)
    ideals = len(graph.inside)
    if ideals * states > MOST_STATES:
        return False
    step = np.array([math.prod((limits[:t] + 1).tolist()) for t in range(len(limits))])
    used = np.array([np.arange(states) // s % (limit + 1) for s, limit in zip(step, limits, strict=True)])
    left = limits[:, None] - used
    needed, offered = _work(graph, left)
    reached = np.zeros((ideals, states), dtype=np.bool_)
    reached[-1, 0] = True
    room = room_for(graph)
    for end in range(ideals - 1, 0, -1):
        if end % LOOK_EVERY == 0:
            check_time()
        # Work before this ideal that the units left cannot do in the time leads nowhere.
        fits = (needed[:, end, None] <= min(slowest_s, LONGEST_S) * offered * (1 + 1e-9)).all(axis=0)
        reached[end] &= fits
        if reached[end].any():
            count = stages_into(graph, end, slowest_s, *room)
            _spread(graph, reached, left, step, end, slowest_s, count, *room)
    return not reached[0].any()


def _work(graph: Stages, left: Ints) -> tuple[Floats, Floats]:
    """Return work inside each ideal and work that units left can do in a second, for ways to weigh types.

    With any weights y ≥ 0 of the types, stages of at most τ seconds on k_t units do Σ_b min_t y_t (S + A)_bt
    ≤ τ Σ_t y_t k_t. The weights are those of each type's speed beside another's, where it is least ahead.
    """
    work = graph.parts[:, :, 0] + graph.parts[:, :, 1]
    needed, offered = [], []
    for own in range(work.shape[1]):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = work[:, own, None] / work
        ratio[~np.isfinite(ratio) | np.isinf(work)] = np.inf
        weights = ratio.min(axis=0)
        if not np.isfinite(weights).all():
            continue
        with np.errstate(invalid="ignore"):
            least = np.fmin.reduce(work * weights, axis=1)
        # No stage has a group that no type can run.
        least[~np.isfinite(least)] = 0.0
        needed.append(graph.inside @ least)
        offered.append(weights @ left)
    ways = len(needed)
    return (
        np.array(needed).reshape(ways, len(graph.inside)),
        np.array(offered).reshape(ways, left.shape[1]),
    )


@compiled
def _spread(
    graph: Stages,
    reached: NDArray[np.bool_],
    left: Ints,
    step: Ints,
    end: int,
    slowest: float,
    count: int,
    start: Ints,
    kind: Ints,
    parts: Floats,
) -> None:
    """Note where the stages that end with an ideal lead."""
    here = np.flatnonzero(reached[end])
    for row in range(count):
        t = kind[row]
        serial, parallel, waiting, moved = parts[row, 0], parts[row, 1], parts[row, 2], parts[row, 3]
        units = 1
        while (
            max(serial + parallel / units, waiting + moved / units) * (1 - 1e-12) > slowest
            and units < graph.units[t]
        ):
            units += 1
        for state in here:
            if left[t, state] >= units:
                reached[start[row], state + units * step[t]] = True
