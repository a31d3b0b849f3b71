"""Plans of scheduling: segments in which a job runs without a break, and their table."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.common.fields import Model, Name, NonNegative, PositiveCount
from ...instances.scheduling.configurations import Menus


class Segment(Model):
    """A time in which a job runs in one configuration.

    Attributes
    ----------
    start_s, end_s
        From when to when.
    configuration
        The name of the one in which a malleable job runs; empty for a rigid job.
    servers
        Server → number of tasks; empty where the cluster is one pool.
    """

    job: Name
    start_s: NonNegative
    end_s: NonNegative
    configuration: str = Field("", max_length=300)
    servers: dict[Name, PositiveCount] = Field(default_factory=dict)


Plan = Sequence[Segment]
"""The entries of a plan, or some of them."""


def differs(column: Ints | Floats) -> Flags:
    """Return whether each entry of a column differs from the one before it; the first one does."""
    return np.append(True, column[1:] != column[:-1])[: len(column)]  # there may be none


def last_ends_s(jobs: int, job: Ints, end_s: Floats) -> Floats:
    """Return the end of the last segment of each of so many jobs, shape (jobs,); −∞ without one."""
    last_end = np.full(jobs, -np.inf)
    np.maximum.at(last_end, job, end_s)
    return last_end


@dataclass(frozen=True)
class SegmentTable:
    """Table of the segments of a plan (a job runs from start to end), sorted by job, then start.

    Attributes
    ----------
    job
        Index of the job of each of the S segments, shape (S,).
    start_s, end_s
        Start and end of each segment, shape (S,).
    jobs
        J, the number of jobs of the instance.
    moved
        Whether a segment has other servers, or another configuration, than the one before it in the table,
        shape (S,).
    row
        The configuration as a row of the menus, −1 where the job has none of that name; shape (S,).
    servers
        Servers of each segment; empty where none names any.
    """

    job: Ints
    start_s: Floats
    end_s: Floats
    jobs: int
    moved: Flags
    row: Ints
    servers: Sequence[Mapping[str, int]] = ()

    @classmethod
    def of(cls, plan: Plan, index: Mapping[str, int], menus: Menus | None = None) -> SegmentTable:
        """Convert a plan to a table of the segments of known jobs; without menus all jobs are rigid."""
        known = [entry for entry in plan if entry.job in index]
        job = np.array([index[entry.job] for entry in known], dtype=np.int64)
        start = np.array([entry.start_s for entry in known], dtype=float)
        end = np.array([entry.end_s for entry in known], dtype=float)
        order = np.lexsort((start, job))
        row = job if menus is None else menus.rows(job, [entry.configuration for entry in known])
        row = row[order]
        moved = differs(row)
        servers: Sequence[Mapping[str, int]] = [known[k].servers for k in order.tolist()]
        if any(servers):
            moved[1:] |= np.array([a != b for a, b in itertools.pairwise(servers)], dtype=bool)
        else:
            servers = ()
        return cls(job[order], start[order], end[order], len(index), moved, row, servers)

    @property
    def length_s(self) -> Floats:
        """Length of each segment in seconds, shape (S,)."""
        return self.end_s - self.start_s

    @property
    def begins(self) -> Flags:
        """Mask of segments that start a run: they do not continue the segment before; shape (S,)."""
        return np.asarray(differs(self.job) | (self.start_s != np.roll(self.end_s, 1)) | self.moved)

    @property
    def runs(self) -> tuple[Ints, Ints, Floats, Floats]:
        """First segment, job, length [s] and end [s] of each run: segments without a pause or a move.

        All segments of a run have one configuration and the same servers.
        """
        begins = self.begins
        length = np.bincount(np.cumsum(begins) - 1, self.length_s).astype(float)
        return np.flatnonzero(begins), self.job[begins], length, self.end_s[np.roll(begins, -1)]

    @property
    def completion_s(self) -> Floats:
        """Completion time C_j [s] of each job, the end of its last segment, shape (J,); −∞ without one."""
        return last_ends_s(self.jobs, self.job, self.end_s)

    @property
    def running_s(self) -> Floats:
        """Total running time of each job in seconds, shape (J,)."""
        # Without any segment NumPy returns integers.
        return np.bincount(self.job, self.length_s, self.jobs).astype(float)
