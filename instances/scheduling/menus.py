"""Menus of configurations: on what a job may run, and how fast it works there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..common.arrays import Floats, Ints
from .job_table import JobTable


@dataclass(frozen=True, eq=False)
class Menus:
    """The configurations of all jobs; those of job j are rows first[j] to first[j + 1] − 1.

    A rigid job has one configuration: all its tasks, which do a second of work in a second.

    Attributes
    ----------
    first
        Where the configurations of each of the J jobs begin, shape (J + 1,).
    usage
        What a configuration takes of each resource of the pool, shape (K, R).
    speed
        Work per second, shape (K,), above 0.
    work
        What a job has to do, shape (J,).
    labels
        The name of each configuration, unique within its job, shape (K,); "" for that of a rigid job.
    """

    first: Ints
    usage: Floats
    speed: Floats
    work: Floats
    labels: Sequence[str]

    @classmethod
    def of(cls, table: JobTable) -> Menus:
        """Return the menus of rigid jobs."""
        jobs = len(table)
        return cls(
            first=np.arange(jobs + 1),
            usage=table.total_demand,
            speed=np.ones(jobs),
            work=table.duration_s,
            labels=[""] * jobs,
        )
