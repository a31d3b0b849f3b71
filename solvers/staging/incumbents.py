"""The incumbent of a search over stage times: the best known plan or plans, and the cutoff that they imply.

An incumbent is updated with every plan that the search meets, and gives for each interval of stage times the
cost below which a plan in it would matter.
"""

from __future__ import annotations

import bisect
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...formulations.common.tolerance import loosened
from ...formulations.staging.formulation import StagingFormulation
from ...formulations.staging.plan import Stage
from ...instances.common.arrays import Floats, Ints

SLACK = 2e-10
"""Plans that are better by no more than this, relatively, count as equally good: floats are added in another
order elsewhere."""


@dataclass(frozen=True)
class Candidate:
    """A plan in arrays: its segments, as positions in the table, and the units of each.

    Attributes
    ----------
    time_s, cost_usd
        τ, and the cost of the training.
    """

    time_s: float
    cost_usd: float
    segments: Ints
    units: Floats


class Incumbent(ABC):
    """Keeps the best of the plans that it is updated with.

    Parameters
    ----------
    cost_limit_usd
        Plans that cost more are of no interest; infinite if there is no limit.
    gap
        Relative distance at which a bound is good enough.
    """

    leftmost_first = False
    """Whether only the fastest open interval is worth looking at."""
    any_cost = True
    """Whether there may be intervals in which a plan matters whatever it costs, to the very end."""

    def __init__(self, cost_limit_usd: float, gap: float) -> None:
        self.cost_limit_usd = loosened(cost_limit_usd) if math.isfinite(cost_limit_usd) else math.inf
        # A plan at exactly the limit counts, so the cutoff is the next float.
        self.most_usd = math.nextafter(self.cost_limit_usd, math.inf)
        # Half of the gap is kept back for the rounding of bounds and plans.
        self.close_enough = 1 - max(gap / 2, SLACK)

    @abstractmethod
    def update(self, candidate: Candidate) -> bool:
        """Keep a plan that is within all limits but perhaps the cost limit; return whether it improves."""

    @abstractmethod
    def cutoff(self, low: float) -> float:
        """Return the cost below which a plan with τ ≥ low matters; infinite if any does, −∞ if none."""

    @property
    @abstractmethod
    def found(self) -> bool:
        """Whether there is a plan yet."""

    @property
    def split_at(self) -> float:
        """A stage time at which intervals are split first; NaN if there is none but their own breakpoints."""
        return math.nan


class BestPlan(Incumbent):
    """Keeps a single best plan."""

    def __init__(self, cost_limit_usd: float, gap: float) -> None:
        super().__init__(cost_limit_usd, gap)
        self.best: Candidate | None = None

    @property
    def found(self) -> bool:
        """Whether there is a best plan."""
        return self.best is not None

    @property
    def split_at(self) -> float:
        """The stage time of the best plan."""
        return math.nan if self.best is None else self.best.time_s


class Cheapest(BestPlan):
    """The least cost."""

    any_cost = False

    def update(self, candidate: Candidate) -> bool:
        """Keep the plan if it is the cheapest so far."""
        least = self.cost_limit_usd if self.best is None else self.best.cost_usd
        improves = candidate.cost_usd < least or (self.best is None and candidate.cost_usd <= least)
        if improves:
            self.best = candidate
        return improves

    def cutoff(self, low: float) -> float:
        """Return the best cost, less the tolerated gap."""
        del low
        if self.best is None:
            return self.most_usd
        return self.best.cost_usd * self.close_enough


class Fastest(BestPlan):
    """The least stage time, among plans that keep the cost limit."""

    leftmost_first = True

    def update(self, candidate: Candidate) -> bool:
        """Keep the plan if it is the fastest so far, and of equally fast ones the cheapest."""
        if candidate.cost_usd > self.cost_limit_usd:
            return False
        figures = candidate.time_s, candidate.cost_usd
        improves = self.best is None or figures < (self.best.time_s, self.best.cost_usd)
        if improves:
            self.best = candidate
        return improves

    def cutoff(self, low: float) -> float:
        """Return the cost limit where a plan would be faster, by more than is close enough."""
        if self.best is not None and low >= self.best.time_s * self.close_enough:
            return -math.inf
        return self.most_usd


class NonDominated(Incumbent):
    """Every plan that no other plan beats in both cost and stage time, up to a relative error in cost.

    Parameters
    ----------
    error
        Plans whose cost is lower by no more than this part than that of a plan as fast are left out.
    """

    def __init__(self, cost_limit_usd: float, error: float) -> None:
        super().__init__(cost_limit_usd, 2 * error)
        self.points: list[Candidate] = []
        """By rising stage time and falling cost."""

    def update(self, candidate: Candidate) -> bool:
        """Keep the plan if none is at least as good in both, and drop those it beats."""
        if candidate.cost_usd > self.cost_limit_usd:
            return False
        at = bisect.bisect_right(self.points, candidate.time_s, key=lambda point: point.time_s)
        if at and self.points[at - 1].cost_usd <= candidate.cost_usd:
            return False
        # Equally fast and, as the test before says, cheaper: it takes that point's place.
        if at and self.points[at - 1].time_s == candidate.time_s:
            at -= 1
        end = at
        while end < len(self.points) and self.points[end].cost_usd >= candidate.cost_usd:
            end += 1
        self.points[at:end] = [candidate]
        return True

    def cutoff(self, low: float) -> float:
        """Return the cost of the cheapest known plan with τ ≤ low, less the error."""
        at = bisect.bisect_right(self.points, low, key=lambda point: point.time_s)
        if not at:
            return self.most_usd
        return self.points[at - 1].cost_usd * self.close_enough

    @property
    def found(self) -> bool:
        """Whether there is a point."""
        return bool(self.points)


def plan_of(formulation: StagingFormulation, candidate: Candidate) -> tuple[Stage, ...]:
    """Return a candidate as a plan."""
    columns = (*formulation.table.places(candidate.segments), candidate.units.astype(int))
    return tuple(map(formulation.stage, *(column.tolist() for column in columns)))


def candidate_of(formulation: StagingFormulation, plan: Sequence[Stage]) -> Candidate | None:
    """Return a feasible plan as a candidate, None where the table does not have its stages."""
    positions = formulation.positions(plan)
    if positions is None:
        return None
    return Candidate(
        formulation.stage_time_s(plan),
        formulation.plan_cost_usd(plan),
        np.array(positions),
        np.array([float(s.units) for s in plan]),
    )
