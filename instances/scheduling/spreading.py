"""How jobs suffer from being spread over servers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..common.arrays import Floats, Ints
from .job import SchedulingJob


@dataclass(frozen=True, eq=False)
class Spreading:
    """What is known of the J jobs of a trace; a table has none where no job says anything.

    Attributes
    ----------
    skew
        Share of the largest tensor of each model, NaN where it is not known; shape (J,).
    profile
        Row of `speeds` for each job, −1 where it is as fast however it is spread; shape (J,).
    speeds
        Relative speed on 1, 2, … servers, and on more than that, shape (P, K).
    listed
        What the documents say of each profile.
    """

    skew: Floats
    profile: Ints
    speeds: Floats
    listed: tuple[Mapping[int, float], ...]

    @classmethod
    def of(cls, jobs: Sequence[SchedulingJob]) -> Spreading | None:
        """Return what jobs say, None where none says anything."""
        if all(job.skew is None and not job.speed_by_servers for job in jobs):
            return None
        rows: dict[tuple[tuple[int, float], ...], int] = {}
        profile = [
            rows.setdefault(tuple(sorted(job.speed_by_servers.items())), len(rows))
            if job.speed_by_servers
            else -1
            for job in jobs
        ]
        skew = np.array([np.nan if job.skew is None else job.skew for job in jobs])
        listed = tuple(dict(row) for row in rows)
        most = max((max(row) for row in listed), default=1)
        speeds = np.array([[speed_on(row, k) for k in range(1, most + 1)] for row in listed])
        return cls(skew, np.array(profile, dtype=np.int64), speeds.reshape(-1, most), listed)

    def speed(self, jobs: Ints, servers: Ints) -> Floats:
        """Return the relative speed of jobs on so many servers each, shape (S,); of those on none, 1."""
        if not len(self.speeds):
            return np.ones(len(jobs))
        profile = self.profile[jobs]
        column = np.clip(servers, 1, self.speeds.shape[1]) - 1
        return np.where((profile >= 0) & (servers > 0), self.speeds[profile, column], 1.0)

    def of_job(self, j: int) -> dict[str, Any]:
        """Return what a job says, as its fields."""
        profile, skew = int(self.profile[j]), float(self.skew[j])
        return {
            "speed_by_servers": self.listed[profile] if profile >= 0 else {},
            "skew": None if np.isnan(skew) else skew,
        }

    def sha256(self) -> str:
        """Return the hash of what jobs say."""
        rows = [sorted(self.listed[p].items()) if p >= 0 else [] for p in self.profile.tolist()]
        skews = [None if np.isnan(s) else s for s in self.skew.tolist()]
        return hashlib.sha256(json.dumps([skews, rows]).encode()).hexdigest()


def speed_on(listed: Mapping[int, float], servers: int) -> float:
    """Return the speed that is listed for the largest number up to this one; the first where none is."""
    below = [count for count in sorted(listed) if count <= servers]
    return listed[below[-1] if below else min(listed)]
