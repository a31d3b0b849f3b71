"""The least largest traffic of a server: bisection over limits on the pattern formulation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from ...formulations.consolidation.certificate import MUST_PLACE
from ...formulations.consolidation.classes import exact
from ...formulations.consolidation.cluster_data import limited, traffic_step
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...instances.common.errors import TooLargeError
from ..backends.base import BackendError
from ..common.base import Clock
from ..common.result import SolveOptions
from .patterns.column_generation import Integers, Program, Relaxed
from .patterns.master import DualPrices, RestrictedMaster

SHARE = 0.25
"""Of the time that is left, for each step of the search."""


@dataclass
class Limited:
    """The pattern formulation under a limit on traffic, and its answer.

    Attributes
    ----------
    solution
        A solution that keeps the levels of all settled goals; None if there is none, or none was found.
    none
        Whether it was proven that there is none.
    goal, prices
        Prices that prove it; None if they do not.
    """

    most: float
    program: Program
    solution: Integers | None = None
    none: bool = False
    goal: str = ""
    prices: DualPrices | None = None


@dataclass
class TrafficSearch:
    """Bisects the multiples of the step of all traffic.

    Attributes
    ----------
    levels
        Values of the settled goals, to be minimised.
    bound
        No plan with these levels has less traffic.
    best
        The least limit that has a solution.
    refuted
        The largest limit that prices prove to have none.
    """

    formulation: ConsolidationFormulation
    levels: dict[str, Fraction]
    options: SolveOptions
    clock: Clock
    bound: float
    best: Limited | None = None
    refuted: Limited | None = None
    notes: list[str] = field(default_factory=list)

    def run(self, reached: float) -> None:
        """Search below a traffic that a plan has reached; leave the findings in the attributes."""
        step = traffic_step(self.formulation.instance)
        if step is None:
            return
        # Between multiples of the step no plan changes.
        low, high = math.ceil(exact(self.bound) / step), round(exact(reached) / step)
        while low < high and not self.clock.expired:
            middle = (low + high) // 2
            found = self.ask(float(middle * step))
            if found is not None and found.solution is not None:
                self.best, high = found, middle
            elif found is not None and found.none:
                low = middle + 1
                self.refuted = found if found.prices is not None else self.refuted
            else:
                break
        self.bound = max(self.bound, float(low * step))
        if self.best is None or self.best.most > float(high * step):
            self.best = self.ask(float(high * step))

    def ask(self, most: float) -> Limited | None:
        """Look for a solution under a limit; None where classes do not help."""
        derived = ConsolidationFormulation(limited(self.formulation.instance, most))
        try:
            master = RestrictedMaster(derived.classes)
        except TooLargeError as error:
            self.notes.append(f"traffic without classes: {error}")
            return None
        program = Program(master, self.options, self.clock.share(SHARE))
        levels = self.levels or {MUST_PLACE: Fraction(0)}
        # The last settled goal becomes the question: can it keep its level under the limit?
        *others, goal = levels
        program.levels = {name: levels[name] for name in others}
        level = program.most(goal, levels[goal])
        found = Limited(most, program, goal=goal)
        relaxed = program.relax(goal)
        # Prices prove that it cannot; the check derives the same bound again.
        if program.bound(goal, relaxed) > level + 1e-9 * abs(level):
            found.prices, found.none = relaxed.prices, True
            return found
        if not master.classes.exact:
            return found  # a solution might not be a plan
        try:
            self._look(found, relaxed, level)
        except BackendError as error:
            self.notes.append(f"traffic: {error}")
            return None
        program.levels[goal] = levels[goal]
        return found

    def _look(self, found: Limited, relaxed: Relaxed, level: float) -> None:
        """Look for a solution of at most a level over the columns there are, then over all that matter."""
        program, goal = found.program, found.goal
        program.clock = self.clock.share(SHARE)
        found.solution, limit = program.solve_integers(goal, level, None, most=level)
        if found.solution is None and limit == "none" and relaxed.prices is not None:
            program.clock = self.clock.share(SHARE)
            if program.master.enumerate_columns(goal, relaxed.prices, level - relaxed.bound):
                found.solution, limit = program.solve_integers(goal, level, None, most=level)
                found.none = found.solution is None and limit == "none"
