"""State of `exact`: the incumbent, its bounds, the dual prices that prove them, and tuning constants.

Lexicographic optimisation by the ε-constraint method (Haimes et al. 1971): the value that an objective
attains is a limit (level) for all later ones. If all its values are multiples of a step, bounds are rounded
to the next multiple.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ...formulations.common.objective import Bounds, common_divisor, exact_fraction
from ...formulations.consolidation.certificate import PRICED
from ...formulations.consolidation.classes import Classes
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import Plan
from ...instances.common.fields import Fields
from ..common.base import Outcome
from ..common.result import Limit
from ..common.search_control import report_progress, set_checkpoint

MAX_STEPS = 10**9
"""Largest number of steps in a value for which rounding to the step helps."""
MAX_SCALED_VALUE = 10**6
"""Largest scaled value of an objective whose values have no common step."""
ROUNDING_TOLERANCE = Fraction(1, 10**12)
"""Relative rounding tolerance of values that have no common step."""


def _job_contributions(classes: Classes, objective: str) -> list[Fraction] | None:
    """Return the possible contributions of single jobs to an objective; None if all are integers."""
    if objective == "value":
        return [amount for job in classes.jobs for amount in (job.value, job.restart)]
    if objective == "slowdown":
        return [lost for job in classes.jobs for lost in job.lost]
    return None


def objective_step(classes: Classes, objective: str) -> Fraction | None:
    """Return a common divisor (step) of all values of an objective; None if it is too small to help."""
    counts = _job_contributions(classes, objective)
    step = None if counts is None else common_divisor(counts)
    if counts is None or step is None:
        return Fraction(1)
    return step if max(map(abs, counts)) < step * MAX_STEPS else None


def scaling_step(classes: Classes, objective: str) -> Fraction:
    """Return a unit that scales an objective without a common divisor to values of up to 10⁶."""
    largest = max((abs(count) for count in _job_contributions(classes, objective) or ()), default=Fraction(0))
    return (largest or Fraction(1)) / MAX_SCALED_VALUE


def reached_level(classes: Classes, objective: str, value: float) -> Fraction:
    """Return a plan's value of an objective as the bound for later ones, in its unit, to be minimised."""
    counted = exact_fraction(value) * (-1 if objective == "value" else 1)
    return kept_level(classes, objective, counted - classes.offset(objective))


def kept_level(classes: Classes, objective: str, reached: Fraction) -> Fraction:
    """Return an objective's value as a bound, with a tolerance that values equal up to rounding keep."""
    step = objective_step(classes, objective)
    return reached + abs(reached) * ROUNDING_TOLERANCE if step is None else round(reached / step) * step


EQUALITY_TOLERANCE = 1e-9
"""Relative difference up to which two values count as equal."""


def attains_bound(value: float, bound: float) -> bool:
    """Return whether an objective value, to be minimised, attains its lower bound up to rounding."""
    return value <= bound + EQUALITY_TOLERANCE * max(1.0, abs(value))


@dataclass
class Progress:
    """State of a solve: the incumbent, bounds on its objectives, and dual prices that prove them.

    Attributes
    ----------
    values
        Objectives of the incumbent.
    bounds
        Bound of each objective treated so far, in its own unit.
    goals
        Dual prices of each goal, for the certificate.
    traffic
        Dual prices that prove that a traffic limit is infeasible.
    moves
        Prices of tasks that bound the units freed, and the moves that this takes.
    settled
        Values of the leading objectives that are proven before the search by classes begins.
    needs_columns
        Whether the incumbent's patterns may be missing among the columns.
    """

    formulation: ConsolidationFormulation
    plan: Plan | None = None
    values: tuple[float, ...] = ()
    bounds: list[float | None] = field(default_factory=list)
    goals: list[Fields] = field(default_factory=list)
    infeasible: bool = False
    traffic: Fields | None = None
    moves: list[Fields] = field(default_factory=list)
    settled: Sequence[float] = ()
    needs_columns: bool = False
    limit: Limit = "none"
    notes: list[str] = field(default_factory=list)

    def start_from(self, warm_start: Any) -> None:
        """Take a warm start (a feasible plan) as the incumbent."""
        self.plan = self.formulation.parse_plan(warm_start)
        self.values = self.formulation.evaluate(self.plan)
        self.needs_columns = True

    def update_incumbent(self, plan: Plan) -> tuple[float, ...] | None:
        """Replace the incumbent by a better plan; return the plan's objective values, None if infeasible."""
        if self.formulation.violations(plan):
            return None
        values = self.formulation.evaluate(plan)
        if self.plan is None or self.formulation.precedes(values, self.values):
            self.plan, self.values = plan, values
            self.report()
            set_checkpoint(self.formulation, self.interrupted_outcome)
        return values

    def settled_levels(self, classes: Classes) -> dict[str, Fraction]:
        """Return the settled objectives as bounds for later ones, to be minimised, by name."""
        pairs = zip(self.formulation.instance.objectives, self.settled, strict=False)
        return {name: reached_level(classes, name, value) for name, value in pairs if name in PRICED}

    def outcome(self, limit: Limit, certificate: Fields | None) -> Outcome:
        """Return the outcome of the solve: incumbent and bounds, and the certificate that it is given."""
        return Outcome(
            None if self.infeasible else self.plan,
            self.bounds,
            limit=limit,
            infeasible=self.infeasible,
            message="; ".join(self.notes) or None,
            certificate=certificate,
        )

    def interrupted_outcome(self) -> Outcome:
        """Return the outcome of an interrupted solve: incumbent and certificate, without bounds."""
        return Outcome(self.plan, certificate=self.certificate())

    def report(self) -> None:
        """Report the first objective that is not proven, or the last one, to the progress callback."""
        if self.plan is not None:
            objectives = self.formulation.objectives
            at = min(len(self.proven(0.0)), len(objectives) - 1)
            report_progress(
                objectives[at], self.values[at], self.bounds[at] if at < len(self.bounds) else None
            )

    def proven(self, most_gap: float, values: Sequence[float] | None = None) -> list[float]:
        """Return the values, else those of the incumbent, of the first objectives proven within a gap."""
        values = self.values if values is None else values
        proven = []
        for objective, value, bound in zip(self.formulation.objectives, values, self.bounds, strict=False):
            gap = objective.gap(value, bound)
            if gap is None or gap > most_gap:
                break
            proven.append(value)
        return proven

    def is_open(self, most_gap: float, values: Sequence[float] | None = None) -> bool:
        """Return whether some of the values, else of those of the incumbent, is not proven within a gap."""
        return len(self.proven(most_gap, values)) < len(self.formulation.objectives)

    def add_combinatorial_bounds(self) -> None:
        """Add combinatorial bounds of the next objectives, as long as the incumbent attains them."""
        if self.plan is None:
            return
        elementary = self.formulation.elementary_bounds()
        for known, value in list(zip(elementary, self.values, strict=True))[len(self.bounds) :]:
            if known != value:
                break
            self.bounds.append(known)

    def tighten(self, others: Bounds) -> None:
        """Replace the bound on each objective by the tighter one of itself and another."""
        both = itertools.zip_longest(self.bounds, others)
        self.bounds = [
            objective.tighter(known, more)
            for objective, (known, more) in zip(self.formulation.objectives, both, strict=False)
        ]

    def drop_dependent_bounds(
        self, classes: Classes, levels: Mapping[str, Fraction], values: Sequence[float] | None
    ) -> None:
        """Drop the bounds that suppose better values of earlier objectives than the plan attains.

        After an objective that is not proven, the bound on the next one is still valid, but not the bound on
        the one after that.

        The pattern formulation counts pieces as servers. Where spreading is worth something, two pieces of
        a job on one server are worth less than in the formulation, so that its level may be unattainable.

        Parameters
        ----------
        levels
            Of the settled objectives in the pattern formulation.
        values
            Of the plan made from it; None if that is not feasible.
        """
        if values is None:
            self.bounds = self.bounds[:1]
            return
        known = zip(self.formulation.objectives, values, self.bounds, strict=False)
        for index, (objective, value, bound) in enumerate(known):
            if objective.name in levels:
                reached, formulated = reached_level(classes, objective.name, value), levels[objective.name]
                if reached > formulated + ROUNDING_TOLERANCE * abs(formulated):
                    self.bounds = self.bounds[: index + 1]
                    return
            if bound is None or abs(value - bound) > EQUALITY_TOLERANCE * abs(value):
                self.bounds = self.bounds[: index + 2]
                return

    def certificate(self) -> Fields | None:
        """Return the certificate: dual prices of the objectives, of a refuted traffic bound, and of tasks.

        None if there are no prices.
        """
        parts = {"traffic": self.traffic, "moves": self.moves}
        document = {"goals": self.goals, **{name: part for name, part in parts.items() if part}}
        return document if any(document.values()) else None


@dataclass(frozen=True)
class ExactSettings:
    """Time shares and size limits of `exact`.

    Attributes
    ----------
    share_of_time_left
        Share of the time left for one step.
    many_server_classes
        With more of them, best fit runs before any relaxation is solved.
    bounds_first_s
        With less time than this, best fit runs before any bound is computed.
    share_for_first_bounds
        Of all time, for classes and the first bounds.
    best_fit_patience_s
        Seconds for a plan of best fit, even if the time is over.
    branching_patience_s
        Seconds that the search for a branching tree may take.
    certificate_patience_s
        Seconds that the search for prices of another method's plan may take.
    most_pricing_rounds
        Linear programs of one relaxation.
    reduced_cost_tolerance
        A column must improve on the dual prices by more than this, in steps of the objective.
    relaxation_tolerance
        How far the linear relaxation may be off, in steps of the goal.
    integrality_tolerance
        How far a column's value may be from an integer.
    level_slack
        By which settled goals are loosened, relatively, where they are no multiples of a step.
    kept_shares
        Shares of the columns that are kept while looking near the relaxation.
    most_split_columns
        Exchange columns that split a piece in two.
    most_patterns_enumerated
        Server patterns to enumerate for a complete model, or within the waste budget.
    most_shapes_enumerated
        Shapes of which all server patterns are listed, by one nested call for each.
    first_patterns_per_class
        Patterns of a job class that are listed from the start; pricing adds more.
    columns_per_class_and_round
        Patterns of one class that are added for the same prices.
    most_listing_steps
        Steps of the search for the first patterns of one job class.
    most_stay_selections
        Ways to keep residents of a server, or a job in place, that are enumerated.
    most_priced_selections
        Of these, those that are kept for a server that has no table.
    most_table_cells
        Cells of the tables of one server pricing problem.
    most_priced_cells
        Cells of these tables that are filled again for each prices.
    resting_rounds
        Rounds in which a pool that had no new patterns is not priced.
    patterns_per_search
        Patterns of one class that are made for the same prices where there is no table.
    most_first_patterns
        Classes of a pool times shapes up to which each class has a pattern of each shape from the start.
    most_coarse_cells
        Cells of the coarse table of one pool.
    most_coarse_steps
        Cells along its first axis.
    most_pricing_nodes
        Nodes of the branch and bound on the knapsack of one class.
    pricing_patience_s
        Seconds of that branch and bound.
    most_linked_rows
        Classes of servers times shapes that the linear programme by shape tells apart; beyond, it has
        groups of classes, as many as these rows allow.
    fewest_groups
        Number of groups that it has at least, even with more rows.
    most_searches
        Rounds of local search and better bounds, where pools have no table of sums.
    share_of_search
        Of all time, where pools have no table of sums; what is left is for the certificate.
    share_for_local_search
        Of the time left, for improving the plan.
    most_halves
        Sets of up to three tasks that are listed for the waste budget, and pairs of them that match.
    most_named_cells
        Groups of tasks times servers of the compact model.
    most_textbook_cells
        Groups of tasks times servers up to which the textbook model is tried before a search over columns.
    share_of_textbook
        Of the time left, for the textbook model.
    textbook_patience_s
        Seconds that it may take.
    most_rounds
        Beginnings of the search for even loads on small instances, and where there is no time limit.
    most_enumerated
        Ways to place all jobs that are enumerated where that model leaves a gap.
    """

    share_of_time_left: float = 0.5
    many_server_classes: int = 1000
    bounds_first_s: float = 1.5
    share_for_first_bounds: float = 0.75
    best_fit_patience_s: float = 1.2
    branching_patience_s: float = 5.0
    certificate_patience_s: float = 10.0
    most_pricing_rounds: int = 500
    reduced_cost_tolerance: float = 1e-7
    relaxation_tolerance: float = 1e-5
    integrality_tolerance: float = 1e-6
    level_slack: float = 1e-12
    kept_shares: tuple[float, ...] = (0.9, 0.7, 0.5)
    most_split_columns: int = 60_000
    most_patterns_enumerated: int = 20_000
    most_shapes_enumerated: int = 200
    first_patterns_per_class: int = 400
    columns_per_class_and_round: int = 4
    most_listing_steps: int = 50_000
    most_stay_selections: int = 5_000
    most_priced_selections: int = 200
    most_table_cells: int = 150_000_000
    most_priced_cells: int = 2_500_000
    resting_rounds: int = 4
    patterns_per_search: int = 12
    most_first_patterns: int = 20_000
    most_coarse_cells: int = 100_000
    most_coarse_steps: int = 900
    most_pricing_nodes: int = 5_000
    pricing_patience_s: float = 2.0
    most_linked_rows: int = 30_000
    fewest_groups: int = 200
    most_searches: int = 3
    share_of_search: float = 0.8
    share_for_local_search: float = 0.6
    most_halves: int = 4_000_000
    most_named_cells: int = 300_000
    most_textbook_cells: int = 1_000
    share_of_textbook: float = 0.5
    textbook_patience_s: float = 10.0
    most_rounds: int = 300
    most_enumerated: int = 20_000


SETTINGS = ExactSettings()
