"""Rows of a comparison, each a solver on an instance, and their aggregates: means and performance profiles.

Beside its objective a plan may have measures, which its kind of problem defines.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

from ...instances.common.base import ProblemKind
from ...instances.common.fields import Model
from ...solvers.common.result import Limit, Status, status_text
from ..output import grouped

Unit = Literal["s", "share", "number"]
"""Of a measure: seconds, a share of 1, or a plain number."""


class Measure(Model):
    """One figure of a plan.

    Attributes
    ----------
    name
        In a few words; the same figure has the same name in every plan of its kind.
    value
        None where the plan has no such figure.
    unit
        Seconds, a share of 1, or a plain number.
    """

    name: str
    value: float | None
    unit: Unit = "number"


class Distribution(Model):
    """How seconds are distributed over the parts of a plan.

    Attributes
    ----------
    name, of
        What is distributed, such as the completion time, and over what, such as jobs.
    seconds, shares
        The share of the parts that take at most so many seconds; both rise.
    """

    name: str
    of: str
    seconds: tuple[float, ...]
    shares: tuple[float, ...]


class Measures(Model):
    """The figures of a plan, and a distribution if its kind has one."""

    figures: tuple[Measure, ...] = ()
    distribution: Distribution | None = None


class ComparisonRow(Model):
    """One solver on one instance.

    Attributes
    ----------
    instance, file
        What the instance is called, with its file where another has the same name; and that file.
    objective_name, unit, objective, bound, gap
        Of the first objective at which plans of the instance differ, else of the last: the same for all its
        rows.
    gap_to_best_bound
        How far the plan is at most from the optimum, by the best bounds of all solvers.
    gap_to_best_plan
        How much worse the plan is than the best of all solvers; 0 for that one.
    best
        Whether no other solver found a plan that is better by more than the requested gap.
    runtime_s
        Wall-clock seconds of the solve, or until its process died or was killed.
    only_claimed
        Whether `optimal` rests on a bound of the solver that our own check does not prove.
    measures
        What the kind of the instance says of the plan beside its objective; None if it says nothing.
    """

    instance: str
    file: str | None = None
    kind: ProblemKind
    solver: str
    status: Status
    limit: Limit = "none"
    objective_name: str | None = None
    unit: str | None = None
    objective: float | None = None
    bound: float | None = None
    gap: float | None = None
    gap_to_best_bound: float | None = None
    gap_to_best_plan: float | None = None
    best: bool = False
    runtime_s: float = 0.0
    message: str | None = None
    only_claimed: bool = False
    measures: Measures | None = None

    @property
    def objective_title(self) -> str | None:
        """The objective with its unit."""
        name, unit = self.objective_name, self.unit
        return name if unit in (None, name) else f"{name} [{unit}]"

    @property
    def status_text(self) -> str:
        """The status as text, as in the result itself."""
        return status_text(self.status, self.limit, self.only_claimed)


FAILED = ("error", "unknown")
"""Statuses of solves that gave no answer."""
LEAST_S = 1e-3
"""Runtimes below a millisecond count as one, since they are inaccurate."""


class SolverSummary(Model):
    """One solver over all instances that it was given.

    Attributes
    ----------
    instances, optimal, plans, failed
        How many it was given, proved, has a plan for, and ended with an error or without any answer.
    only_claimed
        How many of the optimal ones our own check does not prove.
    wins
        Instances of which no other solver has a better plan; several may win one.
    mean_runtime_s
        Geometric mean of the seconds over all its instances; where it failed, the time limit counts.
    mean_gap_to_best_bound, mean_gap_to_best_plan
        Geometric mean of 1 + gap over the instances for which it has a plan, less 1. None if there are none,
        or if one has no gap, because its value is 0 and the reference is not: no mean would tell of that.
    """

    solver: str
    instances: int
    optimal: int
    plans: int
    failed: int
    wins: int
    mean_runtime_s: float
    mean_gap_to_best_bound: float | None = None
    mean_gap_to_best_plan: float | None = None
    only_claimed: int = 0

    @property
    def optimal_text(self) -> str:
        """How many are optimal, and how many of them are only claimed."""
        return f"{self.optimal:,}" + (f" ({self.only_claimed:,} as claimed)" if self.only_claimed else "")


class ProfileCurve(Model):
    """The performance profile of a solver: share of instances done within τ times the fastest seconds.

    Attributes
    ----------
    ratio
        τ, ascending from 1; the curve is a step function, constant from each to the next.
    share
        Of the instances that it was given and that somebody has done; at most 1.
    """

    solver: str
    ratio: tuple[float, ...]
    share: tuple[float, ...]


class Profile(Model):
    """Performance profiles of several solvers (Dolan and Moré, Mathematical Programming 91, 2002).

    Attributes
    ----------
    within
        A solver has done an instance if its plan is at most this much worse than the best known.
    instances
        How many instances at least one solver has done; the others play no part.
    """

    within: float
    instances: int
    curves: tuple[ProfileCurve, ...]


def _geometric_mean(values: Iterable[float]) -> float | None:
    from scipy.stats import gmean

    given = list(values)
    return float(gmean(given)) if given else None


def _seconds(row: ComparisonRow) -> float:
    return max(row.runtime_s, LEAST_S)


def summarise(rows: Sequence[ComparisonRow], time_limit_s: float | None) -> tuple[SolverSummary, ...]:
    """Return the aggregate results of each solver over all instances.

    Parameters
    ----------
    time_limit_s
        Least seconds that a failed solve counts, so that early crashes do not look fast.
    """
    return tuple(_summary(solver, own, time_limit_s) for solver, own in _by_solver(rows).items())


def _by_solver(rows: Sequence[ComparisonRow]) -> dict[str, list[ComparisonRow]]:
    return grouped((row.solver, row) for row in rows)


def _summary(solver: str, rows: Sequence[ComparisonRow], time_limit_s: float | None) -> SolverSummary:
    def seconds(row: ComparisonRow) -> float:
        return max(_seconds(row), time_limit_s or 0.0) if row.status in FAILED else _seconds(row)

    planned = [row for row in rows if row.objective is not None]

    def mean_gap(gaps: list[float | None]) -> float | None:
        # Of 1 + gap, because a geometric mean of gaps would be 0 as soon as one of them is.
        known = [1 + gap for gap in gaps if gap is not None]
        mean = _geometric_mean(known) if len(known) == len(gaps) else None
        return None if mean is None else max(0.0, mean - 1)

    return SolverSummary(
        solver=solver,
        instances=len(rows),
        optimal=sum(row.status == "optimal" for row in rows),
        plans=len(planned),
        failed=sum(row.status in FAILED for row in rows),
        wins=sum(row.best for row in rows),
        mean_runtime_s=_geometric_mean(map(seconds, rows)) or 0.0,
        mean_gap_to_best_bound=mean_gap([row.gap_to_best_bound for row in planned]),
        mean_gap_to_best_plan=mean_gap([row.gap_to_best_plan for row in planned]),
        only_claimed=sum(row.only_claimed for row in rows),
    )


def performance_profile(rows: Sequence[ComparisonRow], within: float) -> Profile:
    """Return each solver's performance profile: share of instances solved within τ × the least runtime."""
    done: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        close = row.gap_to_best_plan is not None and row.gap_to_best_plan <= within
        if row.status != "error" and (row.status == "infeasible" or row.best or close):
            done[row.instance][row.solver] = _seconds(row)
    curves = []
    for solver, own in _by_solver(rows).items():
        ratios = sorted(times[solver] / min(times.values()) for times in done.values() if solver in times)
        given = sum(row.instance in done for row in own)
        steps = {ratio: (index + 1) / given for index, ratio in enumerate(ratios)}
        # A curve that is never the fastest begins at a share of 0.
        if not math.isclose(min(steps, default=math.inf), 1.0):
            steps = {1.0: 0.0, **steps}
        curves.append(ProfileCurve(solver=solver, ratio=tuple(steps), share=tuple(steps.values())))
    return Profile(within=within, instances=len(done), curves=tuple(curves))
