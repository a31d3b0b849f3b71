"""Least total completion time of an allocation: prices, fixing, core.

1. Prices: the Lagrangian dual bounds the optimum from below, and its reduced costs say what every
   configuration costs at least beyond that bound.
2. A plan, rounded from the prices: a configuration whose reduced cost exceeds the distance between plan
   and bound is in no better plan, and is gone for good.
3. Core: what is left is solved exactly. The first cores hold only the rows of least reduced cost; they
   find better plans, which leave fewer rows to the last one.
"""

from __future__ import annotations

import math

import numpy as np

from ...formulations.allocation.certificate import certificate
from ...formulations.allocation.formulation import AllocationFormulation
from ...instances.common.arrays import Floats, Ints
from ..backends.base import BackendError
from ..common.base import Clock, Outcome
from ..common.options import SolveOptions
from ..common.result import Limit
from .core import CoreAnswer, solve_core
from .knapsack import MultipleChoice
from .lagrangian import Dual, best_prices
from .lagrangian_bound import knapsack_bound
from .marginal_gain import choose_by_gain
from .rounding import round_prices

FIRST_CORE = 300
"""Rows of the first core beyond one for each job."""
GROWTH = 4
MOST_ROWS = 2_000_000
"""Of a core; a larger one is not tried."""
NODES = 1000
"""Of the search in a core that does not hold every row that matters."""
ENOUGH = 0.5
"""Share of the requested gap at which a plan is good enough to stop looking for a better one."""
CLOSE = 1e-9
"""Relative; reduced costs are compared with this much to spare."""


def solve_total(
    formulation: AllocationFormulation, options: SolveOptions, clock: Clock, cores: bool = True
) -> Outcome:
    """Return a plan, the bound that was proven, prices and a certificate.

    Parameters
    ----------
    cores
        Whether what prices leave open is solved; without, the plan is what rounding and local search give.
    """
    search = Search(formulation, options, clock)
    return search.outcome() if search.impossible else search.run(cores)


class Search:
    """The state of the search: the best plan so far, in rows of the configs, and the best bound.

    Parameters
    ----------
    formulation
        Of the total completion time.

    Attributes
    ----------
    prices, priced
        λ and L(λ), which stay; `bound` is the best that is known.
    """

    def __init__(self, formulation: AllocationFormulation, options: SolveOptions, clock: Clock) -> None:
        self.formulation, self.options, self.clock = formulation, options, clock
        configs = formulation.configurations
        self.problem = MultipleChoice.of(configs, configs.cost)
        dual: Dual = best_prices(self.problem, clock, max(1e-10, options.gap / 100))
        self.prices, self.priced = dual.prices, knapsack_bound(self.problem, dual.prices)
        # In plain floating point a dual may only seem unbounded; the price bound is rounded down.
        self.impossible = dual.unbounded and self.priced > 2 * _dearest(self.problem)
        if dual.unbounded and not self.impossible:
            self.prices = np.zeros_like(dual.prices)
            self.priced = knapsack_bound(self.problem, self.prices)
        self.bound = self.priced
        self.rows: Ints | None = None
        self.value = math.inf
        self.limit: Limit = "none"
        self.message: str | None = None
        self.trace: list[tuple[float, float | None, float | None]] = []
        # Prices that the time did not suffice to find say nothing about what is scarce.
        self.found_prices = bool(self.prices.any()) or not clock.expired
        self.note()

    def note(self) -> None:
        """Add a line to the trace."""
        value = None if self.rows is None else self.value
        self.trace.append((self.clock.elapsed_s, value, self.bound))

    def offer(self, rows: Ints | None) -> None:
        """Take rows of the configs, one of each job, if they keep the limits and cost less than the best."""
        if rows is not None and len(rows) == self.problem.jobs and self.problem.fits(rows):
            value = self.problem.value(rows)
            if value < self.value:
                self.rows, self.value = rows, value
                self.note()

    @property
    def proven(self) -> bool:
        """Whether plan and bound are as close as was asked."""
        return self.rows is not None and self.value - self.bound <= self.options.gap * abs(self.value)

    def run(self, cores: bool) -> Outcome:
        """Find a first plan, then solve cores until it is proven or the time is up."""
        reduced = self.problem.reduced_costs(self.prices)
        self.first_plan(reduced)
        wanted = FIRST_CORE
        while not (self.proven or self.impossible or self.limit != "none"):
            if self.clock.expired:
                self.limit = "time"
                break
            if not cores:
                break
            reach = _reach(reduced, self.problem.jobs + wanted)
            # Reduced costs add up to the bound of the prices, not to a better one from a core.
            most = (self.value - self.priced) * (1 + CLOSE) + CLOSE * abs(self.value)
            complete = reach >= most
            core = self.problem.only(reduced <= min(reach, most) + CLOSE * abs(self.bound))
            if len(core.cost) > MOST_ROWS + core.jobs:
                self.limit = "memory"
                break
            before = self.value
            try:
                self.take(core, self.solve(core, complete), complete)
            except BackendError as error:
                self.message = f"the core was not solved, plan and bound are from the prices: {error}"
                break
            if complete and not self.value < before:
                break  # a better plan leaves fewer rows, on which a bound can be sharper
            wanted *= GROWTH
        return self.outcome()

    def first_plan(self, reduced: Floats) -> None:
        """Start from a given plan, the rounded prices and, if all fails, marginal gain."""
        wanted = self.problem.jobs + max(4 * FIRST_CORE, self.problem.jobs)
        if self.options.warm_start is not None:
            self.offer(self.formulation.indices_of(self.formulation.parse_plan(self.options.warm_start)))
        near = self.problem.only(reduced <= _reach(reduced, wanted))
        for problem in (near, self.problem):
            rows = round_prices(problem, self.prices, self.clock)
            if rows is not None:
                self.offer(problem.row[rows])
                break
        if self.rows is None or self.clock.expired:
            self.offer(choose_by_gain(self.formulation, self.clock))

    def solve(self, core: MultipleChoice, complete: bool) -> CoreAnswer:
        """Solve a core as far as it helps."""
        enough = ENOUGH * self.options.gap * abs(self.bound)
        start = None
        if self.rows is not None and np.isin(self.rows, core.row, assume_unique=True).all():
            start = np.searchsorted(core.row, self.rows)
        return solve_core(
            core,
            self.clock,
            self.options,
            start=start,
            target=self.bound + enough if enough else -math.inf,
            gap=enough,
            nodes=None if complete else NODES,
        )

    def take(self, core: MultipleChoice, answer: CoreAnswer, complete: bool) -> None:
        """Learn from what was found in a core."""
        if answer.rows is not None:
            self.offer(core.row[answer.rows])
        if answer.limit != "node":
            self.limit = answer.limit
        if complete:
            if math.isinf(answer.bound) and answer.bound > 0 and self.rows is None:
                self.impossible = True
                return
            self.bound = max(self.bound, min(answer.bound, self.value))
            self.note()

    def outcome(self) -> Outcome:
        """Return what is known."""
        configs, prices = self.formulation.configurations, self.prices
        priced = dict(zip(configs.resources, prices.tolist(), strict=True))
        if self.impossible:
            return Outcome(
                infeasible=True, certificate=certificate(configs.resources, prices, None), trace=self.trace
            )
        return Outcome(
            None if self.rows is None else self.formulation.plan_of(self.rows),
            (self.bound,),
            limit=self.limit,
            prices=priced if self.found_prices else None,
            certificate=certificate(configs.resources, prices, self.bound),
            trace=self.trace,
            message=self.message,
        )


def _dearest(problem: MultipleChoice) -> float:
    """Return what no choice of rows can exceed."""
    return math.fsum(np.maximum.reduceat(problem.cost, problem.start[:-1]))


def _reach(reduced: Floats, count: int) -> float:
    """Return the reduced cost that so many rows do not exceed; infinite if there are no more rows."""
    if count >= len(reduced):
        return math.inf
    return float(np.partition(reduced, count)[count])
