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

from ...instances.common.arrays import Floats, Ints, narrow
from ...instances.staging.instance import StagingInstance
from ..common.clock import check_time
from ..common.tolerance import loosened
from .stage_times import parts_of_layers, refuse_many_segments, transfer_s


@dataclass(frozen=True)
class StageTable:
    """The parts of every segment on every type, ordered by last layer, type and first layer.

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

    def places(self, position: Ints) -> tuple[Ints, Ints, Ints]:
        """Return first layer, last layer and type of segments.

        Parameters
        ----------
        position
            In the arrays, rising, shape (k,).
        """
        every = np.arange(self.layers + 1)
        starts = every * (every + 1) // 2 * len(self.price)
        last = np.repeat(every[:-1], np.diff(np.searchsorted(position, starts)))
        within = position - starts[last]
        kind = within // (last + 1)
        first = within - kind * (last + 1)
        return narrow(first), narrow(last), narrow(kind)

    @cached_property
    def _places(self) -> tuple[Ints, Ints, Ints]:
        return self.places(np.arange(len(self.serial)))

    @property
    def first(self) -> Ints:
        """First layer of each segment, shape (n,)."""
        return self._places[0]

    @property
    def last(self) -> Ints:
        """Last layer of each segment, shape (n,)."""
        return self._places[1]

    @property
    def type(self) -> Ints:
        """Type of each segment, shape (n,)."""
        return self._places[2]

    def index(self, first: int, last: int, unit_type: int) -> int:
        """Return the position of a segment in the arrays."""
        return last * (last + 1) // 2 * len(self.price) + unit_type * (last + 1) + first

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


def stage_table(instance: StagingInstance, single: Floats | None = None) -> StageTable:
    """Return the parts of every segment; those that a unit's memory cannot hold have infinite time.

    Parameters
    ----------
    single
        `parts_of_layers` of the instance, if they are known.

    Raises
    ------
    TooLargeError
        If there are more than thirty million segments.
    """
    refuse_many_segments(instance)
    size, types = len(instance.layers), instance.types
    count = size * (size + 1) // 2 * len(types)
    single = parts_of_layers(instance) if single is None else single
    memory = np.array([[layer.memory_on(one.name) for one in types] for layer in instance.layers])
    room = np.array([math.inf if one.memory_gib is None else loosened(one.memory_gib) for one in types])
    received = np.array([transfer_s(instance, first) for first in range(size)])
    parts, end = np.empty((4, count)), 0
    # Of the segments that end with a layer, by type and first layer: each is one layer longer than before.
    sums, held = np.zeros((4, len(types), size)), np.zeros((len(types), size))
    for last in range(size):
        check_time()
        sums[:, :, : last + 1] += single[last].T[:, :, None]
        held[:, : last + 1] += memory[last, :, None]
        begin, end = end, end + len(types) * (last + 1)
        own = parts[:, begin:end].reshape(4, len(types), last + 1)
        own[:] = sums[:, :, : last + 1]
        own[3] += received[: last + 1]
        # An impossible segment is infinite in its serial part alone, so that no inf − inf can arise.
        impossible = (held[:, : last + 1] > room[:, None]) | np.isinf(own[0])
        if impossible.any():
            own[0][impossible], own[1:, impossible] = math.inf, 0.0
    serial, *others = parts
    limit = np.array([math.inf if hardware.limit is None else float(hardware.limit) for hardware in types])
    price = np.array([hardware.price_usd_per_hour for hardware in types])
    return StageTable(size, serial, others[0], others[1], others[2], price, limit)
