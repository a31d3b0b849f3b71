"""The stage times of every segment of layers on every type at once, for the methods.

A segment is a run of consecutive layers on one type. Its parts are added from the first layer to the last, so
that the arrays here and the evaluation of a single stage (`stage_times.py`) give the same floating-point
numbers. The check derives its own (`check/segments.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ...instances.staging.instance import StagingInstance
from ..common.clock import check_time
from ..common.tolerance import loosened
from .stage_times import layer_parts, refuse_many_segments, transfer_s


@dataclass(frozen=True)
class StageTable:
    """The parts of every segment on every type, ordered by last layer, first layer and type.

    Attributes
    ----------
    layers
        L, the number of layers.
    serial, parallel, comm_serial, comm_parallel
        S, A, S' and A' with the transfer [s per probe batch], shape (n,) with n = L(L + 1)/2·T; S is infinite
        where the segment cannot be a stage.
    price, limit
        USD per hour and unit, and available units (infinite without a limit); shape (T,).
    """

    layers: int
    serial: Floats
    parallel: Floats
    comm_serial: Floats
    comm_parallel: Floats
    price: Floats
    limit: Floats

    @cached_property
    def first(self) -> Ints:
        """First layer of each segment, shape (n,)."""
        firsts = [np.arange(last + 1) for last in range(self.layers)]
        return np.repeat(np.concatenate(firsts), len(self.price))

    @cached_property
    def last(self) -> Ints:
        """Last layer of each segment, shape (n,)."""
        types = len(self.price)
        return np.repeat(np.arange(self.layers), np.arange(1, self.layers + 1) * types)

    @cached_property
    def type(self) -> Ints:
        """Type of each segment, shape (n,)."""
        types = len(self.price)
        return np.tile(np.arange(types), len(self.serial) // types)

    def index(self, first: int, last: int, unit_type: int) -> int:
        """Return the position of a segment in the arrays."""
        return (last * (last + 1) // 2 + first) * len(self.price) + unit_type

    def by_type(self) -> Ints:
        """Return the positions of all segments by last layer, then type, then first layer, shape (n,)."""
        types, ordered = len(self.price), np.arange(len(self.serial))
        for last in range(self.layers):
            own = slice(self.index(0, last, 0), self.index(0, last + 1, 0))
            ordered[own] = ordered[own].reshape(-1, types).T.ravel()
        return ordered

    def parts(self, first: int, last: int, unit_type: int) -> tuple[float, float, float, float]:
        """Return S, A, S' and A' of one segment."""
        at = self.index(first, last, unit_type)
        compute = float(self.serial[at]), float(self.parallel[at])
        return *compute, float(self.comm_serial[at]), float(self.comm_parallel[at])

    def time_s(self, units: Floats | Ints | int) -> Floats:
        """Return ET of every segment, with this number of units or one for each, shape (n,)."""
        compute = self.serial + self.parallel / units
        result: Floats = np.maximum(compute, self.comm_serial + self.comm_parallel / units)
        return result


def stage_table(instance: StagingInstance) -> StageTable:
    """Return the parts of every segment; those that a unit's memory cannot hold have infinite time.

    Raises
    ------
    TooLargeError
        If there are more than thirty million segments.
    """
    refuse_many_segments(instance)
    size, types = len(instance.layers), instance.types
    count = size * (size + 1) // 2 * len(types)
    single = np.array(
        [[layer_parts(layer, hardware.name) for hardware in types] for layer in instance.layers]
    )
    memory = np.array([[layer.memory_on(one.name) for one in types] for layer in instance.layers])
    room = np.array([math.inf if one.memory_gib is None else loosened(one.memory_gib) for one in types])
    parts = np.empty((4, count // len(types), len(types)))
    lasts = np.arange(size)
    for first in range(size):
        check_time()
        own = np.cumsum(single[first:], axis=0)
        own[:, :, 3] += transfer_s(instance, first)
        own[np.cumsum(memory[first:], axis=0) > room] = math.inf
        # Segments are numbered by their last layer: those that end before layer l are l(l + 1)/2.
        parts[:, lasts[first:] * (lasts[first:] + 1) // 2 + first] = own.transpose(2, 0, 1)
    serial, *others = parts.reshape(4, count)
    # An impossible segment is infinite in its serial part alone, so that no inf − inf can arise.
    impossible = np.isinf(serial)
    for column in others:
        column[impossible] = 0.0
    limit = np.array([math.inf if hardware.limit is None else float(hardware.limit) for hardware in types])
    price = np.array([hardware.price_usd_per_hour for hardware in types])
    return StageTable(size, serial, others[0], others[1], others[2], price, limit)
