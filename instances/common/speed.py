"""The four speed models: how many training steps per second a job makes with p servers and w workers.

Each model gives the time of one step, 1/f(p, w), in seconds: times add up, and none divides by zero.

============== ==============================================================================
``ps_sync``    1/f = θ0·M/w + θ1 + θ2·w/p + θ3·w + θ4·p           (Optimus, EuroSys'18, eq. 4)
``ps_async``   1/f = (θ0 + θ1·w/p + θ2·w + θ3·p) / w              (Optimus, EuroSys'18, eq. 3)
``ring_allreduce`` 1/f = θ0·M/w + θ1 + θ2·(w−1)/w + θ3·(w−1)      (no parameter server)
``table``      measured steps/s; only the listed (p, w) exist
============== ==============================================================================

M is the global batch. All θ are non-negative and at least one is positive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from .arrays import Floats
from .fields import (
    Checked,
    Complaint,
    Model,
    NonNegative,
    Positive,
    PositiveTaskCount,
    TaskCount,
    in_slices,
    repeated,
)
from .rules import complaints, theta_rules


def ps_sync_step_s(theta: Any, batch: Any, ps: Any, workers: Any) -> Any:
    """Return 1/f of `ps_sync`; θ0 … θ4, M, p and w are numbers, or arrays of one shape."""
    t0, t1, t2, t3, t4 = theta
    return t0 * batch / workers + t1 + t2 * workers / ps + t3 * workers + t4 * ps


def ps_async_step_s(theta: Any, _batch: Any, ps: Any, workers: Any) -> Any:
    """Return 1/f of `ps_async`; θ0 … θ3, p and w are numbers, or arrays of one shape."""
    t0, t1, t2, t3 = theta
    return (t0 + t1 * workers / ps + t2 * workers + t3 * ps) / workers


def ring_allreduce_step_s(theta: Any, batch: Any, _ps: Any, workers: Any) -> Any:
    """Return 1/f of `ring_allreduce`; θ0 … θ3, M and w are numbers, or arrays of one shape."""
    t0, t1, t2, t3 = theta
    return t0 * batch / workers + t1 + t2 * (workers - 1) / workers + t3 * (workers - 1)


FORMULAS: dict[str, tuple[int, Callable[[Any, Any, Any, Any], Any]]] = {
    "ps_sync": (5, ps_sync_step_s),
    "ps_async": (4, ps_async_step_s),
    "ring_allreduce": (4, ring_allreduce_step_s),
}
"""Speed model → how many θ it has, and its seconds of one step."""


class _Formula(Checked):
    """A speed that a formula gives for any configuration."""

    model: str
    theta: tuple[NonNegative, ...]

    def _complaints(self) -> list[Complaint]:
        return complaints(theta_rules(self.theta))

    def step_time_s(self, ps: Any, workers: Any) -> Floats:
        """Return the seconds of one step for arrays (or scalars) of w ≥ 1, and of p ≥ 1 where it counts."""
        p, w = np.asarray(ps, dtype=float), np.asarray(workers, dtype=float)
        _, step_s = FORMULAS[self.model]
        return np.asarray(step_s(self.theta, getattr(self, "batch", None), p, w), dtype=float)


class PsSync(_Formula):
    """Synchronous training with parameter servers."""

    model: Literal["ps_sync"]
    theta: tuple[NonNegative, NonNegative, NonNegative, NonNegative, NonNegative]
    batch: Positive


class PsAsync(_Formula):
    """Asynchronous training with parameter servers; f counts the steps of all workers together."""

    model: Literal["ps_async"]
    theta: tuple[NonNegative, NonNegative, NonNegative, NonNegative]


class RingAllreduce(_Formula):
    """Synchronous training with ring all-reduce; there are no parameter servers."""

    model: Literal["ring_allreduce"]
    theta: tuple[NonNegative, NonNegative, NonNegative, NonNegative]
    batch: Positive


class SpeedRow(Model):
    """One measured configuration."""

    workers: PositiveTaskCount
    ps: TaskCount = 0
    steps_per_s: Positive


class SpeedTable(Checked):
    """Measured speeds; a configuration that is not listed does not exist."""

    model: Literal["table"]
    rows: Annotated[tuple[SpeedRow, ...], Field(min_length=1, max_length=100_000), in_slices(100_000)]

    def _complaints(self) -> Iterator[Complaint]:
        pairs = ((row.ps, row.workers) for row in self.rows)
        twice = "ps={value[0]}, workers={value[1]} is listed twice; each configuration stands once"
        return repeated(pairs, "rows", "", twice)

    def sorted_rows(self) -> list[SpeedRow]:
        """Return the rows in order of (workers, ps)."""
        return sorted(self.rows, key=lambda row: (row.workers, row.ps))


FormulaModel = PsSync | PsAsync | RingAllreduce
FORMULA_MODELS: dict[str, type[FormulaModel]] = {
    "ps_sync": PsSync,
    "ps_async": PsAsync,
    "ring_allreduce": RingAllreduce,
}


Speed = Annotated[PsSync | PsAsync | RingAllreduce | SpeedTable, Field(discriminator="model")]
