"""Minimise the largest traffic of a server by bisection over limits on the pattern formulation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from ...formulations.consolidation.certificate import MUST_PLACE
from ...formulations.consolidation.classes import exact_fraction
from ...formulations.consolidation.cluster_data import limit_traffic, traffic_step
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...instances.common.errors import TooLargeError
from ..backends.base import BackendError
from ..common.base import Clock
from ..common.result import SolveOptions
from .patterns.column_generation import Integers, PatternProgram, RelaxationResult
from .patterns.master import DualPrices, RestrictedMaster

STEP_SHARE = 0.25
"""Share of the remaining time for each step of the search."""


@dataclass
class TrafficLimitResult:
    """Result of the pattern formulation under an upper bound on the traffic of each server.

    Attributes
    ----------
    solution
        A solution that keeps the levels of all settled goals; None if none was found.
    none
        Whether it is proven that no solution exists.
    goal, prices
        Dual prices that prove it; None if they do not.
    """

    most: float
    program: PatternProgram
    solution: Integers | None = None
    none: bool = False
    goal: str = ""
    prices: DualPrices | None = None


@dataclass
class TrafficSearch:
    """Bisection over upper bounds on each server's traffic, multiples of the common step of all traffic.

    Attributes
    ----------
    levels
        Values of the settled goals, to be minimised.
    bound
        Lower bound on the traffic of plans with these levels.
    best
        The least limit for which a solution is known.
    refuted
        The largest limit that dual prices prove infeasible.
    """

    formulation: ConsolidationFormulation
    levels: dict[str, Fraction]
    options: SolveOptions
    clock: Clock
    bound: float
    best: TrafficLimitResult | None = None
    refuted: TrafficLimitResult | None = None
    notes: list[str] = field(default_factory=list)

    def run(self, reached: float) -> None:
        """Search below the incumbent's traffic [Gbit/s]; store bound, best and refuted results in `self`."""
        step = traffic_step(self.formulation.instance)
        if step is None:
            return
        # Between multiples of the step no plan changes.
        low, high = math.ceil(exact_fraction(self.bound) / step), round(exact_fraction(reached) / step)
        while low < high and not self.clock.expired:
            middle = (low + high) // 2
            result = self.solve_under_limit(float(middle * step))
            if result is not None and result.solution is not None:
                self.best, high = result, middle
            elif result is not None and result.none:
                low = middle + 1
                self.refuted = result if result.prices is not None else self.refuted
            else:
                break
        self.bound = max(self.bound, float(low * step))
        if self.best is None or self.best.most > float(high * step):
            self.best = self.solve_under_limit(float(high * step))

    def solve_under_limit(self, most: float) -> TrafficLimitResult | None:
        """Search for a solution under an upper bound on the traffic of each server [Gbit/s].

        None if servers and jobs are too diverse for classes, or the backend fails.
        """
        derived = ConsolidationFormulation(limit_traffic(self.formulation.instance, most))
        try:
            master = RestrictedMaster(derived.classes)
        except TooLargeError as error:
            self.notes.append(f"traffic without classes: {error}")
            return None
        program = PatternProgram(master, self.options, self.clock.share(STEP_SHARE))
        levels = self.levels or {MUST_PLACE: Fraction(0)}
        # The last settled goal becomes the question: can it keep its level under the limit?
        *others, goal = levels
        program.levels = {name: levels[name] for name in others}
        level = program.most(goal, levels[goal])
        result = TrafficLimitResult(most, program, goal=goal)
        relaxed = program.relax(goal)
        # Prices prove that it cannot; the check derives the same bound again.
        if program.bound(goal, relaxed) > level + 1e-9 * abs(level):
            result.prices, result.none = relaxed.prices, True
            return result
        if not master.classes.exact:
            return result  # a solution might not be a plan
        try:
            self._find_solution(result, relaxed, level)
        except BackendError as error:
            self.notes.append(f"traffic: {error}")
            return None
        program.levels[goal] = levels[goal]
        return result

    def _find_solution(self, result: TrafficLimitResult, relaxed: RelaxationResult, level: float) -> None:
        """Search for a solution that keeps the bound on an objective, over more and more columns.

        These are the columns so far, then all whose reduced cost is low enough.
        """
        program, goal = result.program, result.goal
        program.clock = self.clock.share(STEP_SHARE)
        result.solution, limit = program.solve_integers(goal, level, None, most=level)
        if result.solution is None and limit == "none" and relaxed.prices is not None:
            program.clock = self.clock.share(STEP_SHARE)
            if program.master.enumerate_columns(goal, relaxed.prices, level - relaxed.bound):
                result.solution, limit = program.solve_integers(goal, level, None, most=level)
                result.none = result.solution is None and limit == "none"
