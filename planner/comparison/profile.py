"""Aggregates over instances: geometric means, wins, and performance profiles."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from ...instances.common.fields import Model
from .row import ComparisonRow

FAILED = ("error", "unknown")
"""How a solve ended that gave no answer."""
LEAST_S = 1e-3
"""Runtimes below a millisecond count as one: they tell more of the clock than of the solver."""


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
    """Return how each solver did over all instances.

    Parameters
    ----------
    time_limit_s
        What an instance counts for a solver that failed on it, at least; crashing early is not speed.
    """
    return tuple(_summary(solver, own, time_limit_s) for solver, own in _by_solver(rows).items())


def _by_solver(rows: Sequence[ComparisonRow]) -> dict[str, list[ComparisonRow]]:
    by_solver: dict[str, list[ComparisonRow]] = defaultdict(list)
    for row in rows:
        by_solver[row.solver].append(row)
    return by_solver


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
    """Return for each solver the share of instances it has done against the ratio to the fastest."""
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
