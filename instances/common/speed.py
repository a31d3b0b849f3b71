"""Speed models and variants of training jobs: steps per second, demands, ranges, and their rules.

A speed model says how many training steps per second a job makes with p parameter servers and w workers.
Each model gives the time of one step, 1/f(p, w), in seconds: times add up, and none divides by zero.

============== ==============================================================================
``ps_sync``    1/f = θ0·M/w + θ1 + θ2·w/p + θ3·w + θ4·p           (Optimus, EuroSys'18, eq. 4)
``ps_async``   1/f = (θ0 + θ1·w/p + θ2·w + θ3·p) / w              (Optimus, EuroSys'18, eq. 3)
``ring_allreduce`` 1/f = θ0·M/w + θ1 + θ2·(w−1)/w + θ3·(w−1)      (no parameter server)
``table``      measured steps/s; only the listed (p, w) exist
============== ==============================================================================

M is the global batch. All θ are non-negative and at least one is positive.

A variant holds the demands of a worker and a parameter server, their allowed numbers, and their speed.
Each rule between its fields is written once, for one job and for columns of jobs alike. A rule function
takes values of one job, or arrays with an entry for each job, and returns rules. Python's `&`, `|`, `^`,
`<` and `==` mean the same for truth values and numbers as for arrays of them, so the condition of a rule
is one expression for both. Limits of a single field are part of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from .arrays import Flags, Floats
from .fields import (
    NONE_NAMED,
    Amounts,
    Checked,
    Complaint,
    Model,
    Name,
    NonNegative,
    Positive,
    PositiveTaskCount,
    TaskCount,
    entries,
    repeated,
)

Rule = tuple[str, Any, str]
"""Path of the field, whether the rule is broken (one truth value or an array), and the message."""


def range_rules(least: Any, most: Any) -> list[Rule]:
    """Return the rule that max is at least min, for a range of tasks or for arrays of ranges.

    Messages have the placeholders {least} and {most}.
    """
    return [("max", most < least, "is {most}, below min {least}; max must be at least min")]


def theta_rules(theta: Sequence[Any]) -> list[Rule]:
    """Return the rule that at least one coefficient θ of a speed model is positive."""
    what = "all coefficients are 0, which means infinite speed; at least one must be positive"
    return [("theta", sum(theta) == 0, what)]


def variant_rules(
    model: tuple[Any, Any, Any], workers: Any, least_workers: Any, ps: Any, least_ps: Any
) -> list[Rule]:
    """Return the rules between the fields of a variant; messages have the placeholder {model}.

    Parameters
    ----------
    model
        Whether the speed is a table, `ring_allreduce`, and one of the models with parameter servers.
    workers, ps
        Whether the range is given.
    least_workers, least_ps
        Its lower end; any positive number where it is not given.
    """
    measured, ring, served = model
    formula = ring | served
    listed = "a table lists its configurations; leave this range out"
    no_workers = "is missing; {model} needs a range such as {{min: 1, max: 16}}"
    no_ps = "is missing; {model} needs a range such as {{min: 1, max: 8}}"
    return [
        ("workers", measured & workers, listed),
        ("ps", measured & ps, listed),
        ("workers", formula & (workers ^ True), no_workers),
        ("workers.min", formula & (least_workers < 1), "is 0; a job that runs has at least 1 worker"),
        ("ps", ring & ps, "ring_allreduce has no parameter servers; leave this range out"),
        ("ps", served & (ps ^ True), no_ps),
        ("ps.min", served & (least_ps < 1), "is 0; {model} needs at least 1 parameter server"),
    ]


def complaints(rules: Iterable[Rule], **words: Any) -> list[Complaint]:
    """Return the broken rules of one job or variant, as pairs of path and message."""
    return [(path, what.format(**words)) for path, broken, what in rules if broken]


def broken(rules: Iterable[Rule]) -> Flags:
    """Return a mask of the jobs that break any of the rules, which are given as arrays over jobs."""
    flagged: Flags = np.logical_or.reduce([flags for _, flags, _ in rules])
    return flagged


def ps_sync_step_s(theta: Any, batch: Any, ps: Any, workers: Any) -> Any:
    """Return the step time of synchronous training with parameter servers, in seconds.

    All arguments are numbers, or arrays of one shape; `theta` has the coefficients of the model.
    """
    t0, t1, t2, t3, t4 = theta
    return t0 * batch / workers + t1 + t2 * workers / ps + t3 * workers + t4 * ps


def ps_async_step_s(theta: Any, _batch: Any, ps: Any, workers: Any) -> Any:
    """Return the mean seconds between steps of asynchronous training with parameter servers.

    Arguments are numbers, or arrays of one shape.
    """
    t0, t1, t2, t3 = theta
    return (t0 + t1 * workers / ps + t2 * workers + t3 * ps) / workers


def ring_allreduce_step_s(theta: Any, batch: Any, _ps: Any, workers: Any) -> Any:
    """Return the step time of training with ring all-reduce, in seconds.

    Arguments are numbers, or arrays of one shape.
    """
    t0, t1, t2, t3 = theta
    return t0 * batch / workers + t1 + t2 * (workers - 1) / workers + t3 * (workers - 1)


FORMULAS: dict[str, tuple[int, Callable[[Any, Any, Any, Any], Any]]] = {
    "ps_sync": (5, ps_sync_step_s),
    "ps_async": (4, ps_async_step_s),
    "ring_allreduce": (4, ring_allreduce_step_s),
}
"""Speed model → number of coefficients θ, and function of the step time in seconds."""


class _Formula(Checked):
    """A speed that a formula gives for any configuration."""

    model: str
    theta: tuple[NonNegative, ...]

    def _complaints(self) -> list[Complaint]:
        return complaints(theta_rules(self.theta))

    def step_time_s(self, ps: Any, workers: Any) -> Floats:
        """Return the step time in seconds for w ≥ 1 workers and p ≥ 1 parameter servers.

        Both are scalars or arrays; p matters only in the models with parameter servers.
        """
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
    rows: Annotated[tuple[SpeedRow, ...], *entries(100_000, least=1)]

    def _complaints(self) -> Iterator[Complaint]:
        pairs = ((row.ps, row.workers) for row in self.rows)
        twice = "ps={value[0]}, workers={value[1]} is listed twice; each configuration stands once"
        return repeated(pairs, "rows", "", twice)

    def sorted_rows(self) -> list[SpeedRow]:
        """Return the measured rows in order of (workers, ps)."""
        return sorted(self.rows, key=lambda row: (row.workers, row.ps))


FormulaModel = PsSync | PsAsync | RingAllreduce
FORMULA_MODELS: dict[str, type[FormulaModel]] = {
    "ps_sync": PsSync,
    "ps_async": PsAsync,
    "ring_allreduce": RingAllreduce,
}


Speed = Annotated[FormulaModel | SpeedTable, Field(discriminator="model")]


class Range(Checked):
    """How many tasks of one sort a job may have, both ends included."""

    min: TaskCount = 1
    max: TaskCount

    def _complaints(self) -> list[Complaint]:
        return complaints(range_rules(self.min, self.max), least=self.min, most=self.max)


def speed_on(listed: Mapping[int, float], servers: int) -> float:
    """Return the relative speed listed for the maximum number of servers up to `servers`, else the first."""
    below = [count for count in sorted(listed) if count <= servers]
    return listed[below[-1] if below else min(listed)]


class Variant(Checked):
    """One way to run a job, for instance on one GPU model; a plan picks one variant.

    Attributes
    ----------
    worker_demand, ps_demand
        What one worker and one parameter server take of each resource (O and N of the paper).
    workers, ps
        Allowed numbers of tasks; a `table` lists its configurations and needs neither, and
        `ring_allreduce` has no parameter servers.
    """

    name: Name
    worker_demand: Amounts
    ps_demand: Amounts = NONE_NAMED
    workers: Range | None = None
    ps: Range | None = None
    speed: Speed

    def _complaints(self) -> list[Complaint]:
        model = self.speed.model
        sort = (model == "table", model == "ring_allreduce", model in ("ps_sync", "ps_async"))
        workers, ps = (1 if limits is None else limits.min for limits in (self.workers, self.ps))
        rules = variant_rules(sort, self.workers is not None, workers, self.ps is not None, ps)
        return complaints(rules, model=model)


def variant_demands(variants: Iterable[Variant]) -> Iterator[tuple[str, Amounts]]:
    """Yield the demands of a worker and a parameter server of each variant, with their paths in the job."""
    for v, variant in enumerate(variants):
        yield f"variants[{v}].worker_demand", variant.worker_demand
        yield f"variants[{v}].ps_demand", variant.ps_demand
