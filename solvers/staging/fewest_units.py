"""The fewest units with which segments are fast enough, for all segments and many stage times at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...formulations.common.clock import check_time
from ...formulations.staging.stage_table import StageTable
from ...formulations.staging.stage_times import MOST_UNITS
from ...instances.common.arrays import Floats

NEAR_INTEGER = 1e-9
"""Relative distance of A/(τ − S) to an integer below which rounding may decide."""
SMALL_REMAINDER = 1e-5
"""Where τ − S is this small beside τ, the difference itself is imprecise."""
NO_REMAINDER = 1e-15
"""Where τ − S is this small beside τ, it says nothing at all."""
CHUNK = 1 << 15
"""Counts worked on at a time, so that they stay in the processor's cache."""
MOST_STEPS = 3
"""Corrections by one unit before a segment is searched by bisection."""


@dataclass(frozen=True)
class SegmentTimes:
    """The parts S, A, S', A' of some segments, shape (n,), and the units there are of each one's type."""

    serial: Floats
    parallel: Floats
    comm_serial: Floats
    comm_parallel: Floats
    limit: Floats

    @staticmethod
    def of(table: StageTable, segments: NDArray[np.int64]) -> SegmentTimes:
        """Return the parts of some segments of the table."""
        return SegmentTimes(
            table.serial[segments],
            table.parallel[segments],
            table.comm_serial[segments],
            table.comm_parallel[segments],
            np.minimum(table.limit, MOST_UNITS)[table.type[segments]],
        )

    def only(self, keep: NDArray[np.bool_] | NDArray[np.int64] | slice) -> SegmentTimes:
        """Return the parts of some of the segments."""
        return SegmentTimes(*(column[keep] for column in vars(self).values()))

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
        tau = np.asarray(time_s, dtype=float)[:, None]
        units = np.empty((len(tau), len(self.serial)))
        size = max(1, CHUNK // max(1, len(tau)))
        for start in range(0, len(self.serial), size):
            check_time()
            self._fill(tau, units, slice(start, start + size))
        return units

    def _fill(self, tau: Floats, units: Floats, part: slice) -> None:
        """Set the units of some of the segments."""
        serial, comm_serial, limit = self.serial[part], self.comm_serial[part], self.limit[part]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # What τ leaves for the parallel part; negative where even infinitely many units are too slow.
            left = tau - serial
            share = self.parallel[part] / left
            share[left < 0] = np.inf
            comm_left = tau - comm_serial
            other = self.comm_parallel[part] / comm_left
            other[comm_left < 0] = np.inf
            np.fmax(share, other, out=share)  # 0/0 is no need for more
            found = np.fmax(np.ceil(share), 1.0)
            # Only where rounding may decide is the exact, slow search asked.
            near = (np.abs(share - np.rint(share)) <= NEAR_INTEGER * share) & (share > 0.5)
            np.minimum(left, comm_left, out=left)
            near |= (left < SMALL_REMAINDER * tau) & (left >= 0)
            # Further beyond the limit a correction by one unit does not matter.
            near &= found <= limit + 1
            # Where all of τ but its last digits is serial, A/k may vanish beside it, and one unit suffice.
            near |= (left <= NO_REMAINDER * tau) & (left >= 0)
        for row, segment in np.argwhere(near).tolist():
            guess = int(min(found[row, segment], MOST_UNITS))
            found[row, segment] = self._search(part.start + segment, float(tau[row, 0]), guess)
        found[found > limit] = np.inf
        units[:, part] = found

    def _one_time_s(self, segment: int, units: int) -> float:
        compute = float(self.serial[segment]) + float(self.parallel[segment]) / units
        return max(compute, float(self.comm_serial[segment]) + float(self.comm_parallel[segment]) / units)

    def _search(self, segment: int, tau: float, guess: int) -> float:
        """Return the fewest units of one segment: a few steps from the guess, else by bisection."""
        for _ in range(MOST_STEPS):
            if self._one_time_s(segment, guess) > tau:
                guess += 1
            elif guess > 1 and self._one_time_s(segment, guess - 1) <= tau:
                guess -= 1
            else:
                return float(guess)
        low, high = 0, MOST_UNITS + 1  # ET(low) > τ; ET(high) ≤ τ, or there is none
        while high - low > 1:
            middle = (low + high) // 2
            if self._one_time_s(segment, middle) <= tau:
                high = middle
            else:
                low = middle
        return float(high) if high <= MOST_UNITS else math.inf
