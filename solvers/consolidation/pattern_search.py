"""Two searches of `exact` over patterns: for many distinct demands, and for the largest traffic of a server.

Of many distinct demands the linear programme by shape bounds every objective within a second. Local search
improves the plan until a bound is attained or the search has cooled. Column generation improves the bounds of
the objectives that are not proven. Dual prices at the best plan's levels are the certificate.

The largest traffic of a server is minimised by bisection over limits on the pattern formulation.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import takewhile

from ...formulations.common.objective import exact_fraction
from ...formulations.consolidation.certificate import MUST_PLACE, PRICED
from ...formulations.consolidation.cluster_data import limit_traffic, traffic_step
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import entry_of
from ...instances.common.arrays import Ints
from ...instances.common.errors import OutOfTimeError, TooLargeError
from ...instances.common.fields import Fields
from ..backends.base import BackendError
from ..common.base import Clock
from ..common.result import SolveOptions
from .local_search import improve
from .patterns.column_generation import (
    NO_BOUND,
    PatternProgram,
    RelaxationResult,
    certificate_goal,
)
from .patterns.disaggregation import Disaggregation, add_plan_columns
from .patterns.master import RestrictedMaster
from .progress import SETTINGS, Progress, reached_level
from .waste_budget import exact_cover_for_bound

log = logging.getLogger("clusterplan")


Relaxations = dict[str, tuple[dict[str, Fraction], RelaxationResult]]
"""Objective → levels of the earlier ones, and its relaxation at these."""


class PatternSearch:
    """Search for plans and bounds where demands are many and distinct; results are kept in `progress`.

    Parameters
    ----------
    clock
        Ends a little before the time limit of the solve, to leave time for the conclusion.
    """

    def __init__(
        self, master: RestrictedMaster, options: SolveOptions, clock: Clock, progress: Progress
    ) -> None:
        self.formulation, self.master, self.options = progress.formulation, master, options
        self.clock, self.progress = clock, progress
        self.known, self.presumed = Relaxations(), Relaxations()

    def bound_without_plan(self) -> None:
        """Bound the objectives before a plan exists, assuming that earlier ones attain their bounds.

        The assumption often holds if all jobs can be placed.
        """
        program = self._program(MUST_PLACE, self.clock)
        program.levels[MUST_PLACE] = Fraction(0)
        program.levels |= self.progress.settled_levels(self.master.classes)
        for goal in self._priced_objectives()[len(self.progress.settled) :]:
            relaxed = program.by_shape(goal)
            if relaxed.prices is None:
                break
            self.presumed[goal] = dict(program.levels), relaxed
            value = self.master.in_plan(goal, program.bound(goal, relaxed))
            program.levels[goal] = reached_level(self.master.classes, goal, value)

    def run(self) -> None:
        """Search for plans and bounds until the time limit, or until all gaps are closed."""
        self.bound()
        while self._should_continue() and self._find_exact_cover():
            self.bound()
        if not self._should_continue():
            return
        for number in range(SETTINGS.most_searches):
            before = self.progress.values
            self._improve(number)
            self.bound()
            self._add_columns()
            if not self._should_continue() or (number > 0 and self.progress.values == before):
                return
            self.bound(relax=True)
            if not self._should_continue():
                return

    def _should_continue(self) -> bool:
        """Return whether some objective is not proven and time is left."""
        if self.clock.expired:
            self.progress.limit = "time"
        is_open = not self.progress.infeasible and self.progress.is_open(self.options.gap)
        return is_open and not self.clock.expired

    def _priced_objectives(self) -> list[str]:
        """Return the names of the leading objectives that have dual prices."""
        return [*takewhile(PRICED.__contains__, self.formulation.instance.objectives)]

    def _open_goal(self) -> str | None:
        """Return the first objective that is not proven, None if all are.

        Without a plan it is that all required jobs are placed.
        """
        if self.progress.plan is None:
            return MUST_PLACE
        proven = len(self.progress.proven(self.options.gap))
        return next(iter(self._priced_objectives()[proven:]), None)

    def _program(self, goal: str, clock: Clock) -> PatternProgram:
        """Return the pattern formulation of an objective, with bounds on earlier ones by the incumbent."""
        program = PatternProgram(self.master, self.options, clock)
        if goal != MUST_PLACE:
            program.levels[MUST_PLACE] = Fraction(0)
            for name, value in zip(self.formulation.instance.objectives, self.progress.values, strict=False):
                if name == goal:
                    break
                program.levels[name] = reached_level(self.master.classes, name, value)
        return program

    def bound(self, relax: bool = False) -> None:
        """Bound every priced objective, with the incumbent's values as bounds on earlier objectives.

        Parameters
        ----------
        relax
            Whether column generation improves the bounds of the assignment relaxation by task shape.
        """
        progress = self.progress
        first = self._program(MUST_PLACE, self.clock)
        if progress.plan is None:
            relaxed = first.relax(MUST_PLACE) if relax else first.by_shape(MUST_PLACE)
            if self._proves_infeasibility(relaxed):
                return
        goals, bounds = list[dict[str, object]](), list[float | None](progress.settled)
        for goal in self._priced_objectives()[len(bounds) : None if progress.plan is not None else 1]:
            program = self._program(goal, self.clock.share(SETTINGS.share_of_time_left))
            try:
                relaxed = self._relaxed(goal, program, relax)
            except OutOfTimeError:
                break
            if relaxed.prices is None:
                break
            goals.append(certificate_goal(self.master, goal, relaxed.prices))
            bound = self.master.in_plan(goal, program.bound(goal, relaxed))
            bounds.append(bound if math.isfinite(bound) else None)
        progress.goals, progress.bounds = goals, bounds
        progress.report()
        if progress.plan is not None:
            progress.drop_dependent_bounds(self.master.classes, {}, progress.values)

    def _relaxed(self, goal: str, program: PatternProgram, relax: bool) -> RelaxationResult:
        """Return the best known bound on an objective; with `relax`, improved by column generation."""
        levels, known = self.known.get(goal, ({}, NO_BOUND))
        if levels != program.levels:
            presumed, candidate = self.presumed.get(goal, ({}, NO_BOUND))
            if presumed != program.levels:
                candidate = program.by_shape(goal)
            # Plans have become better in the earlier goals, so that older bounds still hold.
            known = max(known, candidate, key=lambda relaxed: relaxed.bound)
        if relax and not program.clock.expired and not self._closed(goal, program, known):
            known = program.relax(goal, known)
        self.known[goal] = dict(program.levels), known
        return known

    def _closed(self, goal: str, program: PatternProgram, relaxed: RelaxationResult) -> bool:
        """Return whether the incumbent is within the requested gap of a bound on an objective."""
        if self.progress.plan is None:
            return False
        index = self.formulation.instance.objectives.index(goal)
        bound = self.master.in_plan(goal, program.bound(goal, relaxed))
        gap = self.formulation.objectives[index].gap(self.progress.values[index], bound)
        return gap is not None and gap <= self.options.gap

    def _proves_infeasibility(self, relaxed: RelaxationResult) -> bool:
        """Return whether dual prices prove that in every plan a required job is missing."""
        if relaxed.prices is None or self.master.rounded(MUST_PLACE, relaxed.bound) <= 0:
            return False
        self.progress.goals = [certificate_goal(self.master, MUST_PLACE, relaxed.prices)]
        self.progress.infeasible = True
        return True

    def _find_exact_cover(self) -> bool:
        """Search for an exact cover of all tasks that attains a bound; return whether it settled that."""
        goal = self._open_goal()
        if goal is None or (goal != MUST_PLACE and goal not in self.known):
            return False
        program = self._program(goal, self.clock.share(SETTINGS.share_of_time_left))
        bound = 0.0 if goal == MUST_PLACE else program.bound(goal, self.known[goal][1])
        try:
            with program.clock.enforced():
                solution = exact_cover_for_bound(program, goal, bound)
        except (OutOfTimeError, BackendError):
            return False
        if solution is None:
            return False
        values = self.progress.update_incumbent(
            Disaggregation(self.formulation, self.master, solution).plan()
        )
        log.info("%s: the exact cover has %s", goal, values)
        return values is not None and self._open_goal() != goal

    def _improve(self, number: int) -> None:
        """Improve the incumbent by local search; without one, from a plan without any job."""
        progress, formulation = self.progress, self.formulation
        plan = progress.plan or [entry_of(job, {}) for job in formulation.instance.jobs]
        options = self.options.model_copy(update={"seed": (self.options.seed or 0) + number})
        clock = self.clock.share(SETTINGS.share_for_local_search)
        progress.update_incumbent(improve(formulation, plan, options, clock, self._is_within_gap))
        log.info("local search: %s", progress.values)

    def _is_within_gap(self, values: tuple[float, ...]) -> bool:
        """Return whether these objective values are within the requested gap of the known bounds."""
        return not self.progress.is_open(self.options.gap, values)

    def _add_columns(self) -> None:
        """Add the incumbent's patterns as columns, so that the relaxation is feasible at its values."""
        if self.progress.plan is not None:
            add_plan_columns(self.formulation, self.master, self.progress.plan)
            self.progress.needs_columns = False


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
    proof
        Dual prices that prove it, for the certificate; None if they do not.
    """

    most: float
    program: PatternProgram
    solution: Ints | None = None
    none: bool = False
    proof: Fields | None = None


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
        Dual prices that prove the largest of the infeasible limits, for the certificate.
    """

    formulation: ConsolidationFormulation
    levels: dict[str, Fraction]
    options: SolveOptions
    clock: Clock
    bound: float
    best: TrafficLimitResult | None = None
    refuted: Fields | None = None
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
                self.refuted = result.proof or self.refuted
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
        result = TrafficLimitResult(most, program)
        relaxed = program.relax(goal)
        # Prices prove that it cannot; the check derives the same bound again.
        if relaxed.prices is not None and program.bound(goal, relaxed) > level + 1e-9 * abs(level):
            result.none = True
            result.proof = {"below": most, "goal": certificate_goal(master, goal, relaxed.prices)}
            return result
        if not master.classes.exact:
            return result  # a solution might not be a plan
        try:
            self._find_solution(result, goal, relaxed, level)
        except BackendError as error:
            self.notes.append(f"traffic: {error}")
            return None
        program.levels[goal] = levels[goal]
        return result

    def _find_solution(
        self, result: TrafficLimitResult, goal: str, relaxed: RelaxationResult, level: float
    ) -> None:
        """Search for a solution that keeps the bound on an objective, over more and more columns.

        These are the columns so far, then all whose reduced cost is low enough.
        """
        program = result.program
        program.clock = self.clock.share(STEP_SHARE)
        result.solution, limit = program.solve_integers(goal, level, None, most=level)
        if result.solution is None and limit == "none" and relaxed.prices is not None:
            program.clock = self.clock.share(STEP_SHARE)
            if program.master.enumerate_columns(goal, relaxed.prices, level - relaxed.bound):
                result.solution, limit = program.solve_integers(goal, level, None, most=level)
                result.none = result.solution is None and limit == "none"
