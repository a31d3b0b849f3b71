"""Why layers cannot be planned at all: what counting alone shows, one line for all layers alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...instances.staging.instance import Layer, StagingInstance
from ..common.objective import Diagnosis
from ..common.tolerance import within

MOST_NAMED = 5
"""Layers of a line that are listed by name."""


def named(layers: Sequence[Layer]) -> str:
    """Return the names of the first few layers, and how many more there are."""
    more = f" and {len(layers) - MOST_NAMED} more" if len(layers) > MOST_NAMED else ""
    return ", ".join(repr(layer.name) for layer in layers[:MOST_NAMED]) + more


def layers_out_of_reach(
    instance: StagingInstance, fastest: Sequence[tuple[float, str]], slowest_allowed_s: float
) -> Diagnosis | None:
    """Return which layers no type can hold, or none can run at the floor.

    Parameters
    ----------
    fastest
        For each layer its least time [s per probe batch] and the type with it; infinite where none holds it.
    slowest_allowed_s
        The longest stage time at the floor.
    """
    layers = list(zip(instance.layers, fastest, strict=True))
    homeless = [layer for layer, (time, _) in layers if math.isinf(time)]
    timed = [(layer, time, name) for layer, (time, name) in layers if math.isfinite(time)]
    slow = [found for found in timed if not within(found[1], slowest_allowed_s)]
    if not homeless and not slow:
        return None
    reasons = [_fit_no_device(instance, homeless)] if homeless else []
    remedies = ["raise a limit, memory or parallel share that is named above"]
    if slow:
        slowest, time, name = max(slow, key=lambda found: found[1])
        best = instance.probe_batch / time
        reason = f"layer {slowest.name!r}: at most {best:g} samples/s, on all units of {name}"
        others = [layer for layer, _, _ in slow if layer is not slowest]
        reasons.append(f"{reason}; too slow as well: {named(others)}" if others else reason)
    longest = max(time for time, _ in fastest)
    if 0 < longest < math.inf:
        remedies.insert(0, f"no floor above {instance.probe_batch / longest:g} samples/s can be reached")
    return Diagnosis(reasons=tuple(reasons), remedies=tuple(remedies))


def _fit_no_device(instance: StagingInstance, layers: Sequence[Layer]) -> str:
    """Say which layers no unit can hold, with the figures of the one that is farthest from it."""
    shares = [
        min(
            (layer.memory_on(one.name) / one.memory_gib, layer.memory_on(one.name), one.memory_gib, one.name)
            for one in instance.types
            if one.name in layer.compute_s and one.memory_gib is not None
        )
        for layer in layers
    ]
    farthest = max(range(len(layers)), key=lambda index: shares[index][0])
    _, needed, room, name = shares[farthest]
    figures = f"needs {needed:g} GiB, and a unit of {name} has {room:g}"
    if len(layers) == 1:
        return f"layer {layers[0].name!r} fits no device: it {figures}"
    return f"{len(layers)} layers fit no device: {named(layers)}; {layers[farthest].name!r} {figures}"
