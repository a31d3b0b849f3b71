"""Column generation for the pattern formulation: relaxation, Lagrangian bound, and integer solutions.

The relaxation is solved over the columns so far, and the pricing problems find columns of negative reduced
cost. It ends if there are none (Gilmore & Gomory 1961), or if the Lagrangian bound, rounded to the goal's
step, equals the relaxation. Integer solutions are sought over the columns found so far only: this is no
branch-and-price.

Lagrangian bound, for any prices of pieces: supply rows are relaxed with their prices, so that jobs and
servers are independent. Each job takes its cheapest pattern, each server the one of largest price (Dantzig &
Wolfe 1960). The check derives the same bound with independent code; here the pricing problems compute it.

Smoothed dual prices: prices of a relaxation over few columns jump from round to round. Columns are priced
between the prices of the best bound so far and those of the relaxation, which leads to the bound in fewer
rounds (Wentges 1997; Pessoa, Sadykov, Uchoa & Vanderbeck 2018).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from ....formulations.consolidation.certificate import MAX_PRICE, MUST_PLACE, CertifiedGoal
from ....formulations.consolidation.classes import ClassTable
from ....instances.common.arrays import Flags, Floats, Ints
from ....instances.common.errors import OutOfTimeError, TooLargeError
from ....instances.common.fields import Fields
from ...backends.base import BackendError
from ...backends.highs import (
    Columns,
    branch_and_bound,
    highs_with_settings,
    linear_program,
    run_to_optimum,
    threads_and_seed,
)
from ...common.base import Clock
from ...common.result import Limit, SolveOptions
from ..progress import EQUALITY_TOLERANCE, SETTINGS
from .assignment_relaxation import AssignmentRelaxation
from .knapsack_pricing import SearchPricing
from .master import Column, DualPrices, RestrictedMaster
from .pricing import JobPricing, ServerPricing

ROUNDING_MARGIN = 1e-12
"""Rounding margin of a sum, relative to the sum of absolute terms."""


def lagrangian_bound(
    classes: ClassTable,
    pricing: Sequence[ServerPricing | SearchPricing],
    goal: CertifiedGoal,
    levels: Mapping[str, Fraction],
    placed: Iterable[tuple[float, float]],
) -> float:
    """Return the Lagrangian lower bound on an objective, to be minimised, given bounds on earlier ones.

    Parameters
    ----------
    pricing
        Pricing problem of each pool of servers.
    placed
        Fewest and most jobs of each class that are placed.

    Returns
    -------
    bound
        Not rounded to the objective's step; -∞ if a required job has no pattern.

    Raises
    ------
    TooLargeError
        If a pricing problem is too large.
    """
    weights = {str(name): float(mu) for name, mu in goal.multipliers.items() if name in levels}
    terms = [-mu * float(levels[name]) for name, mu in weights.items()]
    missing = goal.objective == MUST_PLACE
    if not missing:
        weights[goal.objective] = 1.0
    prices = [np.array(listed, dtype=float) for listed in goal.prices]
    patterns = JobPricing(classes, prices, weights)
    for job, (fewest, most) in zip(classes.jobs, placed, strict=True):
        candidates = patterns.cheapest(job, math.inf)
        if not candidates and fewest and not missing:
            return -math.inf
        cost = min((pattern.cost for pattern in candidates), default=0.0) - patterns.worth(job)
        costs = [cost * fewest, cost * most] if candidates else []
        terms.append(min([*costs, fewest] if missing else costs, default=0.0))
    tables = zip(classes.task_shapes, classes.pieces, classes.slots, prices, strict=True)
    # A resident has one piece, which is not to be parted.
    paid = [
        listed if shape.current is not None else _slot_prices(pieces, slots, listed)
        for shape, pieces, slots, listed in tables
    ]
    for pool in pricing:
        for number, most, _ in pool.best(paid):
            gain = min(0.0, weights.get("servers", 0.0) * classes.servers[number].opening - most)
            terms.append(gain * len(classes.servers[number].members))
    return math.fsum(terms) - ROUNDING_MARGIN * math.fsum(map(abs, terms))


def _slot_prices(pieces: Ints, slots: Ints, prices: Floats) -> Floats:
    """Return the maximum dual price of each task combination on a server over its splits, shape (S,)."""
    if len(pieces) < len(slots):
        singles: Floats = slots[:, 0] * prices[0]
        return singles
    place = np.full(tuple(slots.max(axis=0, initial=0) + 1), -1)
    place[tuple(slots.T)] = np.arange(len(slots))
    best = prices.copy()
    # Small pieces come first, so that both halves of a piece are final when it is looked at.
    for i in np.argsort(slots.sum(axis=1), kind="stable").tolist():
        rest = slots[i] - slots
        one = np.flatnonzero((rest >= 0).all(axis=1))
        other = place[tuple(rest[one].T)]
        halves = best[one] + best[other]
        best[i] = max(best[i], halves[other >= 0].max(initial=-np.inf))
    return best


@dataclass
class Smoothing:
    """Smoothed dual prices: the point between two price vectors at which columns are priced next.

    Attributes
    ----------
    center
        Dual prices of the best bound.
    share
        Weight of the center if the last columns improved the relaxation.
    misses
        Rounds without improvement; each moves the prices further from the center.
    """

    center: DualPrices
    share: float = 0.3
    misses: int = 0

    def next(self, prices: DualPrices, improved: bool) -> tuple[DualPrices, bool]:
        """Return the dual prices for the next pricing round, and whether to price to optimality.

        Parameters
        ----------
        improved
            Whether the last columns improved the relaxation.
        """
        self.misses = 0 if improved else self.misses + 1
        weight = 1 - (self.misses + 1) * (1 - self.share)
        if weight <= 0:
            # Where not even the relaxation's own prices helped, heuristics do not do any more.
            return prices, self.misses * (1 - self.share) >= 1
        return convex_combination(self.center, prices, weight), False


def convex_combination(first: DualPrices, second: DualPrices, weight: float) -> DualPrices:
    """Return a convex combination of two sets of dual prices; `weight` is that of the first."""
    rest = 1 - weight
    names = {*first.earlier, *second.earlier}
    return DualPrices(
        tuple(weight * a + rest * b for a, b in zip(first.pieces, second.pieces, strict=True)),
        weight * first.servers + rest * second.servers,
        weight * first.jobs + rest * second.jobs,
        {
            name: weight * first.earlier.get(name, 0.0) + rest * second.earlier.get(name, 0.0)
            for name in sorted(names)
        },
    )


log = logging.getLogger("clusterplan")

INFEASIBILITY_BOUND = 1e9
"""Bound on a goal, in steps, that a dual price proves if no plan keeps the earlier goals."""
EXCHANGES = ("split", "host", "apart", "ask")


@dataclass(frozen=True)
class RelaxationResult:
    """Result of the linear relaxation of the pattern formulation for one objective.

    Attributes
    ----------
    bound
        Lower bound on all solutions, in steps of the goal.
    prices
        Dual prices that prove it; None if there was no time.
    values
        Values of the columns in the last linear program; shape (columns,).
    """

    bound: float
    prices: DualPrices | None
    values: Floats | None = None


NO_BOUND = RelaxationResult(-math.inf, None)
"""Where nothing is known yet."""


class PatternProgram:
    """The pattern formulation, solved for one objective after the other (lexicographically).

    Attributes
    ----------
    levels
        Limits on the settled goals, in their units.
    """

    def __init__(self, master: RestrictedMaster, options: SolveOptions, clock: Clock) -> None:
        self.master, self.options, self.clock = master, options, clock
        self.levels = master.classes.least_levels()

    def most(self, goal: str, reached: Fraction) -> float:
        """Return the upper bound, in steps, that keeps an earlier objective at the value reached."""
        most = float(reached / self.master.steps[goal])
        # Coefficients are rounded, so that a solution may seem to miss by a hair what it reaches.
        return most if self.master.integral[goal] else most + SETTINGS.level_slack * max(1.0, abs(most))

    def bound(self, goal: str, relaxed: RelaxationResult) -> float:
        """Return the lower bound on an objective, in steps, that the check will derive from dual prices."""
        master = self.master
        if relaxed.prices is None:
            return -math.inf
        if not master.searches:  # else pricing bounds what it does not search to the end
            with suppress(TooLargeError):
                return self.bound_by(certificate_goal(master, goal, relaxed.prices))
        return master.rounded(goal, relaxed.bound)

    def bound_by(self, prices: Mapping[str, Any]) -> float:
        """Return the lower bound on an objective, in steps, that prices in the certificate's format prove.

        Raises
        ------
        TooLargeError
            If a pricing problem is too large.
        """
        master, priced = self.master, CertifiedGoal.model_validate(prices)
        goal = priced.objective
        levels = {name: reached for name, reached in self.levels.items() if name != MUST_PLACE}
        placed = zip(master.fewest_placed, master.most_placed, strict=True)
        least = lagrangian_bound(master.classes, master.pricing, priced, levels, placed)
        least /= float(master.steps[goal])
        # A sum of floats: what it is off by must not lift it to the next step.
        return master.rounded(goal, least) if master.integral[goal] else least

    def relax(self, goal: str, known: RelaxationResult | None = None) -> RelaxationResult:
        """Solve the linear relaxation for an objective by column generation.

        Parameters
        ----------
        known
            A bound known before; by default that of the programme by shape if pools have no table of sums.
        """
        master = self.master
        if not master.columns:
            return self._without_columns()
        highs = self._relaxation()
        given, last = 0, math.inf
        best = known or (self.by_shape(goal) if master.searches else NO_BOUND)
        smoothing = None if best.prices is None or not master.searches else Smoothing(best.prices)
        for _ in range(SETTINGS.most_pricing_rounds):
            self._extend(highs, master.columns[given:], goal)
            given = len(master.columns)
            if not run_to_optimum(highs, self.clock):
                # A limit; columns that do not reach earlier levels yet; or figures too unlike for HiGHS.
                status = highs.modelStatusToString(highs.getModelStatus())
                log.info("%s: HiGHS stopped with status %r", goal, status)
                return best
            prices = self._prices(highs)
            value = highs.getInfo().objective_function_value
            at, searched = prices, True
            if smoothing is not None:
                at, searched = smoothing.next(
                    prices, value < last - EQUALITY_TOLERANCE * max(1.0, abs(value))
                )
            last = value
            try:
                with self.clock.enforced():
                    added, beyond = master.generate_columns(goal, at, searched)
            except OutOfTimeError:
                return best
            values = np.array(highs.getSolution().col_value)
            bound = (value if at is prices else self._dual_value(at)) - beyond
            # Lagrangian bounds go up and down from round to round; the best one counts.
            if bound > best.bound:
                best = RelaxationResult(bound, at)
                if smoothing is not None:
                    smoothing.center = at
            best = replace(best, values=values)
            log.debug("%s: relaxation %g, bound %g, %d new", goal, value, best.bound, added)
            # No better integer value is left between bound and relaxation.
            closed = master.rounded(goal, best.bound) >= master.rounded(goal, value)
            ended = not added and searched and at is prices
            if ended or closed or self.clock.expired:
                return best
        return best

    def _without_columns(self) -> RelaxationResult:
        """Return bound and dual prices of the relaxation without columns: no task fits on any server.

        If an earlier goal requires more, there is no plan, and a price for that goal proves any bound.
        """
        classes = self.master.classes
        pieces = tuple([np.zeros(len(listed)) for listed in classes.pieces])
        prices = DualPrices(pieces, np.zeros(len(classes.servers)), np.zeros(len(classes.jobs)), {})
        for name, most in self._limits().items():
            if most < 0:
                prices.earlier[name] = INFEASIBILITY_BOUND / -most
                break
        return RelaxationResult(self._dual_value(prices), prices)

    def _relaxation(self) -> Any:
        """Return a HiGHS model with the rows of the relaxation and no columns yet."""
        settings = {"solver": "simplex", **threads_and_seed(self.options.threads, None)}
        highs = highs_with_settings(settings, BackendError)
        low, high = self.master.limits([*self._limits().values()])
        nothing = np.zeros(0, dtype=np.int32)
        highs.addRows(len(low), low, high, 0, nothing, nothing, np.zeros(0))
        return highs

    def _limits(self) -> dict[str, float]:
        """Return the upper bounds, in steps, that keep the earlier objectives at their levels."""
        return {name: self.most(name, reached) for name, reached in self.levels.items()}

    def by_shape(self, goal: str) -> RelaxationResult:
        """Return bound and dual prices of the assignment relaxation by task shape.

        It has at least one second of time.
        """
        relaxation = AssignmentRelaxation(self.master, goal, self._limits())
        solved = relaxation.solve(self.clock.at_least(1.0).remaining_s)
        return NO_BOUND if solved is None else RelaxationResult(*solved)

    def _dual_value(self, prices: DualPrices) -> float:
        """Return the objective value of the relaxation's dual at given prices, in steps of the objective."""
        master = self.master
        terms = [*(prices.jobs * master.most_placed), *(-prices.servers * master.servers)]
        terms += [-mu * self.most(name, self.levels[name]) for name, mu in prices.earlier.items()]
        return math.fsum(terms)

    def _extend(self, highs: Any, columns: Sequence[Column], goal: str) -> None:
        """Add columns to the HiGHS model."""
        if columns:
            listed = self._listed(columns, goal, self.levels)
            starts, rows, values = listed.matrix
            costs, least, most = np.array(listed.costs), np.zeros(len(columns)), np.array(listed.most)
            highs.addCols(len(columns), costs, least, most, len(rows), starts[:-1], rows, values)

    def _listed(self, columns: Sequence[Column], goal: str, limited: Iterable[str]) -> Columns:
        """Return columns with what they add to an objective, rows of limited objectives last.

        Required jobs may be missing only until the objective of placing them is settled.
        """
        listed, settled = Columns(), MUST_PLACE in self.levels
        limits = [*enumerate(limited, self.master.rows)]
        for column in columns:
            counts = column.counts
            more = [(row, counts[name]) for row, name in limits if name in counts]
            most = 0.0 if settled and column.type == "missing" else np.inf
            listed.add(counts.get(goal, 0.0), column.entries + more, most)
        return listed

    def _prices(self, highs: Any) -> DualPrices:
        duals = np.array(highs.getSolution().row_dual)
        master = self.master
        count = len(master.classes.pieces)
        return DualPrices(
            # Duals of the wrong sign are rounding of the simplex method.
            tuple(np.maximum(duals[master.supply[k] : master.supply[k + 1]], 0.0) for k in range(count)),
            np.maximum(-duals[master.server_row : master.job_row], 0.0),
            duals[master.job_row : master.rows],
            {name: max(0.0, -float(duals[row])) for row, name in enumerate(self.levels, master.rows)},
        )

    def near_relaxation(
        self, goal: str, target: float, relaxed: RelaxationResult, start: Ints | None
    ) -> Ints | None:
        """Return the best integer solution found near the relaxation, or the start solution, if any.

        First only the columns of the relaxation are allowed; then most of these are fixed, rounded down, and
        all others are free. Both restrictions are quick to solve.
        """
        if relaxed.values is None:
            return start
        values = np.zeros(len(self.master.columns))
        values[: len(relaxed.values)] = relaxed.values
        exchange = np.array([column.type in EXCHANGES for column in self.master.columns])
        random = np.random.default_rng(self.options.seed or 0)
        solution, clock, counted = start, self.clock, self.master.counted
        # Neighbourhoods of the relaxation: small ones first, which take little time.
        for kept in (None, *SETTINGS.kept_shares):
            least, allowed = np.zeros(len(values)), np.ones(len(values), dtype=bool)
            if kept is None:
                allowed = (values > SETTINGS.integrality_tolerance) | exchange
            else:
                # Exchange columns stay free, for they repair what the fixed columns leave.
                fixed = (random.random(len(values)) < kept) & ~exchange
                least[fixed] = np.floor(values[fixed] + SETTINGS.integrality_tolerance)
            self.clock = clock.share(0.25)
            candidate, limit = self.solve_integers(goal, target, None, bounds=(least, allowed))
            if candidate is not None and (
                solution is None or counted(goal, candidate) < counted(goal, solution)
            ):
                solution = candidate
            enough = target + SETTINGS.integrality_tolerance
            reached = solution is not None and counted(goal, solution) <= enough
            if reached or clock.expired or limit == "interrupt":
                break
        self.clock = clock
        return solution

    def solve_integers(
        self,
        goal: str,
        target: float,
        start: Ints | None,
        most: float = math.inf,
        bounds: tuple[Floats, Flags] | None = None,
        covers: bool = False,
    ) -> tuple[Ints | None, Limit]:
        """Return the best integer solution over the columns so far, and the limit that stopped HiGHS.

        Parameters
        ----------
        target
            Optimal value, at which the search stops.
        start
            Values of the first columns, the others being 0.
        most
            Only solutions of at most this value count.
        bounds
            Lower limit of each column, and whether the column is allowed.
        covers
            Whether supply is to equal demand, which bounds exact covers better.
        """
        master = self.master
        limits = self._limits()
        if math.isfinite(most):
            limits[goal] = most
        if not master.columns:
            nothing = np.zeros(0, dtype=np.int64) if min(limits.values(), default=0.0) >= 0 else None
            return nothing, "none"
        listed = self._listed(master.columns, goal, limits)
        cost = np.array(listed.costs)
        least, allowed = bounds or (np.zeros(len(cost)), np.ones(len(cost), dtype=bool))
        columns = least, np.where(allowed, listed.most, 0.0)
        rows = master.limits([*limits.values()])
        if covers:
            rows[1][: master.server_row] = 0.0
        model = linear_program(cost, columns, rows, listed.matrix, [True] * len(cost))
        settings = {"objective_target": target + 1e-6}
        first = None
        if start is not None:
            first = np.zeros(len(cost))
            first[: len(start)] = start
        values, _, limit = branch_and_bound(model, settings, self.clock, self.options, first)
        return None if values is None else np.round(values).astype(np.int64), limit


def certificate_goal(master: RestrictedMaster, goal: str, prices: DualPrices) -> Fields:
    """Return an objective's dual prices and multipliers, in its unit, in the certificate's format."""
    step = float(master.steps[goal])
    return {
        "objective": goal,
        "prices": [np.minimum(shape * step, MAX_PRICE).tolist() for shape in prices.pieces],
        "multipliers": {
            name: min(price * step / float(master.steps[name]), MAX_PRICE)
            for name, price in prices.earlier.items()
            if name != MUST_PLACE and price > 0
        },
    }
