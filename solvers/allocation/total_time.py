"""Least total completion time: Lagrangian bound, reduced-cost fixing and core problem.

1. Bound: the best dual prices bound the optimum from below (Kelley 1960), and the reduced cost of a
   configuration says how much every plan with it exceeds that bound at least.
2. Fixing: a plan is rounded from the prices. A configuration whose reduced cost exceeds the distance between
   plan and bound is in no better plan, and is removed for good.
3. Core (Balas & Zemel 1980; for multiple-choice knapsacks Pisinger 1995): the rest is solved exactly. The
   first cores hold only the configurations of least reduced cost; they find better plans, which leave fewer
   configurations to the last one.
4. Pairs: where a core stays open, partial choices around the prices are paired, once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...formulations.allocation.certificate import certificate
from ...formulations.allocation.formulation import AllocationFormulation
from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.common.errors import OutOfTimeError
from ..backends.base import BackendError
from ..common.base import Clock, Outcome
from ..common.options import SolveOptions
from .core import CoreAnswer, solve_core
from .incumbent import IncumbentSearch
from .knapsack import MultipleChoice
from .lagrangian import Dual, best_prices
from .lagrangian_bound import knapsack_bound
from .marginal_gain import choose_by_gain
from .rounding import round_prices
from .two_lists.search import better_choices


@dataclass(frozen=True)
class TotalTimeSettings:
    """Constants of the search.

    Attributes
    ----------
    first_core, core_growth
        Configurations of the first core beyond one for each job, and the factor to the next core.
    most_configurations
        Of a core, beyond one for each job; a larger one is not tried.
    nodes_of_partial_core
        Branch-and-bound nodes in a core without every configuration that matters.
    gap_share
        Share of the requested gap at which a plan of a core is good enough.
    price_accuracy, least_price_tolerance
        The dual prices are so many times as accurate as the requested gap, but no finer than the second.
    fixing_margin
        Relative; reduced costs are compared with this much to spare.
    fewest_priced, nodes_before_pairs
        Where so many limits have a price, a first core is left for pairs of partial choices after so many
        nodes.
    pair_share, least_pair_s
        Share of the time that is left for pairs; none if that is less, for loops may have to be compiled.
    """

    first_core: int = 300
    core_growth: int = 4
    most_configurations: int = 2_000_000
    nodes_of_partial_core: int = 1000
    gap_share: float = 0.5
    price_accuracy: float = 100
    least_price_tolerance: float = 1e-10
    fixing_margin: float = 1e-9
    fewest_priced: int = 5
    nodes_before_pairs: int = 50
    pair_share: float = 0.85
    least_pair_s: float = 5.0


SETTINGS = TotalTimeSettings()


class TotalTimeSearch(IncumbentSearch):
    """The state of the search.

    Parameters
    ----------
    formulation
        Of the total completion time.
    cores
        Whether cores are solved; without, the plan is what rounding and local search give.

    Attributes
    ----------
    prices, priced
        λ and L(λ), which stay; `bound` is the best that is known.
    """

    def __init__(
        self, formulation: AllocationFormulation, options: SolveOptions, clock: Clock, cores: bool = True
    ) -> None:
        self.cores = cores
        super().__init__(formulation, options, clock, formulation.configurations.cost)
        dual: Dual = best_prices(
            self.problem, clock, max(SETTINGS.least_price_tolerance, options.gap / SETTINGS.price_accuracy)
        )
        self.prices, self.priced = dual.prices, knapsack_bound(self.problem, dual.prices)
        # In plain floating point a dual may only seem unbounded; the price bound is rounded down.
        self.impossible = dual.unbounded and self.priced > 2 * _dearest(self.problem)
        if dual.unbounded and not self.impossible:
            self.prices = np.zeros_like(dual.prices)
            self.priced = knapsack_bound(self.problem, self.prices)
        self.bound = self.priced
        # Prices that the time did not suffice to find say nothing about what is scarce.
        self.found_prices = bool(self.prices.any()) or not clock.expired
        self.searched_pairs = False
        self.note()

    def value_of(self, chosen: Ints) -> float:
        """Return the weighted completion time of a choice."""
        return self.problem.value(chosen)

    def run(self) -> Outcome:
        """Find an incumbent, then solve cores until it is proven optimal or the time is up."""
        if self.impossible:
            return self.outcome()
        reduced = self.problem.reduced_costs(self.prices)
        self.first_plan(reduced)
        size = SETTINGS.first_core
        while not (self.proven or self.impossible or self.limit != "none"):
            if self.clock.expired:
                self.limit = "time"
                break
            if not self.cores:
                break
            of_size = _threshold(reduced, self.problem.jobs + size)
            # The pruning threshold: reduced costs add up to the bound of the prices, not of a core.
            margin = SETTINGS.fixing_margin
            pruning = (self.value - self.priced) * (1 + margin) + margin * abs(self.value)
            complete = of_size >= pruning
            keep = reduced <= min(of_size, pruning) + margin * abs(self.bound)
            core = self.problem.only(self._affordable(keep) if complete else keep)
            if len(core.cost) > SETTINGS.most_configurations + core.jobs:
                self.limit = "memory"
                break
            before = self.value
            try:
                answer = self.solve(core, complete)
            except BackendError as error:
                self.message = f"the core was not solved, plan and bound are from the prices: {error}"
                break
            self.learn(core, answer, complete)
            if answer.limit == "node" and self.incumbent is not None and self.wants_pairs:
                self.search_pairs(self.incumbent, reduced)
                continue
            if complete and not self.value < before:
                break  # only a better plan leaves a smaller core, on which the bound can be sharper
            size *= SETTINGS.core_growth
        if self.cores and self.limit == "none" and not (self.proven or self.impossible):
            self.enumerate()
        return self.outcome()

    def enumerate(self) -> None:
        """Ask the enumeration of certificates whether there is anything better than the incumbent.

        It has no tolerances: it settles what choices leave open that HiGHS takes for feasible and are not.
        """
        claim = None if self.incumbent is None else self.value
        data = certificate(self.configs.resources, self.prices, claim)
        try:
            with self.clock.enforced():
                found = self.formulation.certified_bounds(data)[0]
        except OutOfTimeError:
            self.limit = "time"
            return
        if found is not None and claim is None:
            self.impossible = math.isinf(found)
        elif found is not None:
            self.bound = max(self.bound, min(found, self.value))
        if self.clock.expired and not self.proven:
            self.limit = "time"

    def _affordable(self, keep: Flags) -> Flags:
        """Return those kept that prices of zero prune neither, unless a job would be left with none.

        A configuration may cost more than the whole incumbent, and scarce prices hide that. In a core it
        would set the scale of costs, and HiGHS would not see the others.
        """
        start, cost = self.problem.start, self.problem.cost
        cheapest = np.minimum.reduceat(cost, start[:-1])
        most = self.value - math.fsum(cheapest) + SETTINGS.fixing_margin * abs(self.value)
        affordable = keep & (cost - np.repeat(cheapest, np.diff(start)) <= most)
        return affordable if np.logical_or.reduceat(affordable, start[:-1]).all() else keep

    def first_plan(self, reduced: Floats) -> None:
        """Find an incumbent: a given plan, the rounded prices and, if all fails, marginal gain."""
        count = self.problem.jobs + max(4 * SETTINGS.first_core, self.problem.jobs)
        self.take_warm_start()
        near = self.problem.only(reduced <= _threshold(reduced, count))
        # Rounding among few configurations is fast, but may find none that keep the limits.
        for problem in (near, self.problem):
            chosen = round_prices(problem, self.prices, self.clock)
            if chosen is not None:
                self.update_incumbent(problem.configuration[chosen])
                break
        if self.incumbent is None or self.clock.expired:
            self.update_incumbent(choose_by_gain(self.formulation, self.clock))

    def solve(self, core: MultipleChoice, complete: bool) -> CoreAnswer:
        """Solve a core, to a part of the requested gap."""
        enough = SETTINGS.gap_share * self.options.gap * abs(self.bound)
        nodes = SETTINGS.nodes_of_partial_core
        # The relaxation leaves as many jobs fractional as limits bind (Sinha & Zoltners 1979).
        if self.wants_pairs and np.count_nonzero(self.prices) >= SETTINGS.fewest_priced:
            nodes = SETTINGS.nodes_before_pairs
        start = None
        if (
            self.incumbent is not None
            and np.isin(self.incumbent, core.configuration, assume_unique=True).all()
        ):
            start = np.searchsorted(core.configuration, self.incumbent)
        return solve_core(
            core,
            self.clock,
            self.options,
            start=start,
            target=self.bound + enough if enough else -math.inf,
            gap=enough,
            nodes=None if complete else nodes,
        )

    @property
    def wants_pairs(self) -> bool:
        """Whether pairs of partial choices are still to be searched if a core stays open."""
        left_s = self.clock.share(SETTINGS.pair_share).remaining_s
        in_time = left_s is None or left_s >= SETTINGS.least_pair_s
        return in_time and not self.searched_pairs and self.incumbent is not None

    def search_pairs(self, incumbent: Ints, reduced: Floats) -> None:
        """Look for better plans in pairs of partial choices."""
        self.searched_pairs = True
        clock = self.clock.share(SETTINGS.pair_share)
        keep = reduced <= (self.value - self.priced) * (1 + SETTINGS.fixing_margin)
        keep[incumbent] = True
        near = self.problem.only(keep)
        items = np.searchsorted(near.configuration, incumbent)
        for better in better_choices(near, self.prices, items, clock, self.options.seed):
            self.update_incumbent(near.configuration[better])
            if self.proven:
                break

    def learn(self, core: MultipleChoice, answer: CoreAnswer, complete: bool) -> None:
        """Update incumbent and bound from the answer of a core."""
        if answer.chosen is not None:
            self.update_incumbent(core.configuration[answer.chosen])
        if answer.limit != "node":
            self.limit = answer.limit
        if complete:
            if math.isinf(answer.bound) and answer.bound > 0 and self.incumbent is None:
                self.impossible = True
                return
            self.bound = max(self.bound, min(answer.bound, self.value))
            self.note()

    def outcome(self) -> Outcome:
        """Return incumbent, bound and certificate."""
        outcome = self.concluded(self.prices, self.impossible)
        if self.impossible:
            outcome.message = None  # it is about plan and bound
        elif self.found_prices:
            outcome.prices = dict(zip(self.configs.resources, self.prices.tolist(), strict=True))
        return outcome


def _dearest(problem: MultipleChoice) -> float:
    """Return the largest cost of any choice."""
    return math.fsum(np.maximum.reduceat(problem.cost, problem.start[:-1]))


def _threshold(reduced: Floats, count: int) -> float:
    """Return the reduced cost that so many items do not exceed; infinite if there are no more items."""
    if count >= len(reduced):
        return math.inf
    return float(np.partition(reduced, count)[count])
