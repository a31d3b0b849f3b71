"""The check's own stage times: the parts of every segment of layers on every type of hardware.

Written from docs/problems/staging.md, apart from the table that the methods use (`stage_table.py`). A stage
on k units takes ET(k) = max(S + A/k, S' + A'/k). Each part is a sum over the layers of the stage, so the
segments that end with a layer are those that end with the layer before, each one layer longer, and the layer
alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....instances.common.arrays import Floats, Ints
from ....instances.staging.instance import Layer, StagingInstance
from ...common.clock import check_time
from ...common.tolerance import loosened
from ..stage_times import MOST_UNITS, refuse_many_segments
from .kernels import derive


@dataclass(frozen=True)
class Segments:
    """The segments that can be a stage, ordered by last layer, then type, then first layer.

    Attributes
    ----------
    layers
        L, the number of layers.
    price, limit
        USD per hour and unit, and available units (at most what a stage may have); shape (T,).
    first, last, type
        First layer, last layer and type of each segment, shape (n,).
    serial, parallel, comm_serial, comm_parallel
        S, A, S' and A' with the transfer [s per probe batch], shape (n,).
    """

    layers: int
    price: Floats
    limit: Floats
    first: Ints
    last: Ints
    type: Ints
    serial: Floats
    parallel: Floats
    comm_serial: Floats
    comm_parallel: Floats

    def only(self, keep: Ints) -> Segments:
        """Return some of the segments."""
        columns = ("first", "last", "type", "serial", "parallel", "comm_serial", "comm_parallel")
        return replace(self, **{name: getattr(self, name)[keep] for name in columns})

    def time_s(self, units: Floats) -> Floats:
        """Return ET for these units, shape (n,) or (B, n)."""
        compute = self.serial + self.parallel / units
        return np.maximum(compute, self.comm_serial + self.comm_parallel / units)


def derive_segments(instance: StagingInstance, last_s: float = math.inf) -> Segments:
    """Return the segments of an instance that a unit's memory can hold.

    Parameters
    ----------
    last_s
        Segments that are slower on however many units are left out.

    Raises
    ------
    TooLargeError
        If there are more than thirty million.
    """
    refuse_many_segments(instance)
    check_time()
    hardware, layers = instance.types, instance.layers
    room = np.array([math.inf if one.memory_gib is None else loosened(one.memory_gib) for one in hardware])
    own = _layer_parts(layers, [one.name for one in hardware])
    memory = np.array([[layer.memory_on(one.name) for one in hardware] for layer in layers])
    columns = derive(own, memory, room, _received_s(instance), last_s)
    return Segments(
        len(layers),
        np.array([one.price_usd_per_hour for one in hardware]),
        np.array(
            [MOST_UNITS if one.limit is None else min(one.limit, MOST_UNITS) for one in hardware], float
        ),
        *columns,
    )


def _layer_parts(layers: Sequence[Layer], names: Sequence[str]) -> Floats:
    """Return S, A, S', A' of each layer on each type, shape (L, T, 4); S is infinite where it cannot run."""
    parts = np.zeros((len(layers), len(names), 4))
    for row, layer in zip(parts, layers, strict=True):
        shares = layer.compute_parallel, layer.communication_parallel
        alpha, beta = (
            np.array([one.get(name, 0.0) for name in names]) if isinstance(one, dict) else one
            for one in shares
        )
        computing = np.array([layer.compute_s.get(name, 0.0) for name in names])
        communicating = np.array([layer.communication_s.get(name, 0.0) for name in names])
        row[:, 0], row[:, 1] = computing * (1 - alpha), computing * alpha
        row[:, 2], row[:, 3] = communicating * (1 - beta), communicating * beta
        row[[name not in layer.compute_s for name in names]] = math.inf, 0.0, 0.0, 0.0
    return parts


def _received_s(instance: StagingInstance) -> Floats:
    """Return D for a stage that begins at each layer: the output of the layer before, over the link [s]."""
    received = np.zeros(len(instance.layers))
    if instance.link_gbit_per_s is not None:
        bytes_per_s = instance.link_gbit_per_s * 1e9 / 8
        received[1:] = [layer.output_bytes / bytes_per_s for layer in instance.layers[:-1]]
    return received
