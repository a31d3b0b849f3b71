"""The fewest units with which segments are fast enough, for all segments and many stage times at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...formulations.common.clock import check_time
from ...formulations.staging.stage_times import MOST_UNITS, StageTable
from ...instances.common.arrays import Floats, Ints
from .kernels import fewest_units, least_cost


@dataclass(frozen=True)
class SegmentTimes:
    """The parts S, A, S', A' of some segments, shape (n,), and the units there are of each one's type."""

    serial: Floats
    parallel: Floats
    comm_serial: Floats
    comm_parallel: Floats
    limit: Floats

    @staticmethod
    def of(table: StageTable, segments: Ints, unit_type: Ints) -> SegmentTimes:
        """Return the parts of some segments of the table, which have these types."""
        return SegmentTimes(
            table.serial[segments],
            table.parallel[segments],
            table.comm_serial[segments],
            table.comm_parallel[segments],
            np.minimum(table.limit, MOST_UNITS)[unit_type],
        )

    @property
    def _columns(self) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        return self.serial, self.parallel, self.comm_serial, self.comm_parallel, self.limit

    def only(self, keep: NDArray[np.bool_] | NDArray[np.int64] | slice) -> SegmentTimes:
        """Return the parts of some of the segments."""
        return SegmentTimes(*(column[keep] for column in self._columns))

    def time_s(self, units: Floats) -> Floats:
        """Return ET; `units` of shape (n,) or (B, n), infinite ones count as many as there can be."""
        compute = self.parallel / units
        compute += self.serial
        communication = self.comm_parallel / units
        communication += self.comm_serial
        return np.maximum(compute, communication, out=compute)

    def fewest_units(self, time_s: Floats) -> Floats:
        """Return the smallest k ≥ 1 with ET(k) ≤ τ, infinite where there is none within the limit.

        The ceiling of A/(τ − S) is one too many or too few at many exact breakpoints, so it is corrected
        by the very time that counts.

        Parameters
        ----------
        time_s
            τ, shape (B,).

        Returns
        -------
        units
            Shape (B, n).
        """
        check_time()
        units = np.empty((len(time_s), len(self.serial)))
        fewest_units(*self._columns, time_s, units)
        return units

    def least_cost(self, rate: Floats, low: float, high: float) -> tuple[Floats, Floats]:
        """Return k(high) and the least cost of each segment in an interval of the stage time.

        Parameters
        ----------
        rate
            USD per second of stage time and unit, shape (n,).

        Returns
        -------
        units, cost
            Shape (n,); infinite cost, and one unit, where no units suffice.
        """
        check_time()
        units, cost = least_cost(*self._columns, rate, low, high)
        return units, cost
