"""The policies that DL² may imitate before it learns by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ....instances.common.arrays import Floats, Ints
from ..policies.optimus import Optimus
from ..round_policy import admit


class ServiceInRounds(Optimus):
    """SRSF in rounds: as requested, the least time × share of the cluster that is left first."""

    def choose(self, jobs: Ints, free: Floats) -> Ints:
        """Return the requested rows of those who come first and fit."""
        seen, rows = self.seen, self.seen.requested[jobs]
        usage = seen.usage[rows]
        order = np.argsort(seen.left[jobs] / seen.speed[rows] * self.shares(usage), kind="stable")
        served = np.zeros(len(jobs), dtype=bool)
        served[order] = admit(usage[order], free, seen.capacity)
        return np.where(served, rows, -1)


INCUMBENTS: Mapping[str, Callable[[float], Optimus]] = {
    "optimus": lambda interval_s: Optimus(interval_s, admission="shortest", aim="speeds"),
    "srsf": ServiceInRounds,
}
"""By name, for the length of an interval; `optimus` is the best of its settings."""
