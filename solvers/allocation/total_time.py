"""Least total completion time: Lagrangian bound, reduced-cost fixing and core problem.

1. Bound: the best dual prices bound the optimum from below (Kelley 1960), and the reduced cost of a
   configuration says how much every plan with it exceeds that bound at least.
2. Fixing: a plan is rounded from the prices. A configuration whose reduced cost exceeds the distance between
   plan and bound is in no better plan, and is removed for good.
3. Core (Balas & Zemel 1980; for multiple-choice knapsacks Pisinger 1995): the rest is solved exactly. The
   first cores hold only the configurations of least reduced cost; they find better plans, which leave fewer
   configurations to the last one.
4. Pairs: where a core stays open, partial choices around the prices are paired, once.

Cores are solved by HiGHS. Jobs with one item left are constants. Costs and demands are taken relative to each
job's least, and limits to what that leaves, all scaled to moderate figures, because HiGHS works with absolute
tolerances. So no coefficient is negative, and where HiGHS drops a tiny one the model is only looser: its
bound still holds.

`IncumbentSearch` is the state that this search shares with the one for the least makespan.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...formulations.allocation.certificate import certificate_of, earlier_prices
from ...formulations.allocation.formulation import AllocationFormulation
from ...formulations.allocation.plan import Plan
from ...formulations.allocation.splits import PiecePrices
from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.common.errors import OutOfTimeError
from ..backends.base import BackendError
from ..backends.highs import branch_and_bound, linear_program
from ..common.base import Clock, Outcome, Trace
from ..common.result import Limit, SolveOptions
from ..common.search_control import report_progress, set_checkpoint
from .heuristics import choose_by_gain, round_prices
from .lagrangian import MultipleChoice, best_prices, knapsack_bound
from .meet_in_the_middle import better_choices

BOUND_ERROR = 1e-6
"""How far the bound of HiGHS may be off, in units of the scaled costs."""
LARGEST_COST = 4096.0
"""The largest scaled cost lies between half of this and this."""
LEAST_GAP = 1e-9
"""Least absolute gap that is asked of HiGHS."""
FINE_COEFFICIENT = 2.0**13
"""The largest coefficient of limits in the second attempt, for which the tolerance of 1e-9 is far below the
slack that limits have."""
TIGHTENING = 1e-8
"""Relative to the largest demand: how much tighter limits are in the third attempt."""
MAX_CHOICES = 10_000
"""Most choices that are enumerated where the tolerance of HiGHS is too coarse for the limits."""


@dataclass(frozen=True)
class CoreAnswer:
    """Best choice of one item per job found in a core problem, and a lower bound on all its choices.

    Attributes
    ----------
    chosen
        Item of each job; None if no choice was found that keeps the limits.
    bound
        No choice costs less; infinite if none keeps the limits.
    limit
        What stopped HiGHS, `none` if it ended or reached the target.
    """

    chosen: Ints | None
    bound: float
    limit: Limit = "none"


def solve_core(
    problem: MultipleChoice,
    clock: Clock,
    options: SolveOptions,
    *,
    start: Ints | None = None,
    target: float = -math.inf,
    gap: float = 0.0,
    nodes: int | None = None,
    attempt: int = 0,
) -> CoreAnswer:
    """Solve a core problem by branch and bound on HiGHS; return its best choice and a lower bound.

    Parameters
    ----------
    start
        Items of the core, one of each job, to start from.
    target
        A choice that costs no more is good enough.
    gap
        Distance between choice and bound that is good enough.
    nodes
        Most nodes of the search; None for no limit.
    attempt
        0, then 1 with limits in so fine a unit that HiGHS tolerates next to nothing, then 2 with tighter
        limits.
    """
    counts, base = problem.counts, problem.start[:-1]
    free = np.flatnonzero(counts > 1)
    least, cheapest = problem.least(problem.demand), problem.least(problem.cost)
    constant, slack = math.fsum(cheapest), problem.limit - least.sum(axis=0)
    if not len(free):
        return CoreAnswer(base, constant) if (slack >= 0).all() else CoreAnswer(None, math.inf)
    items = np.flatnonzero(problem.spread(counts > 1))
    owner = np.repeat(np.arange(len(free)), counts[free])
    cost = problem.cost[items] - cheapest[free][owner]
    demand = problem.demand[items] - least[free][owner]
    unit = _unit(cost)
    model = _model(cost / unit, demand, slack, owner, len(free), FINE_COEFFICIENT if attempt else 1.0)
    highs: dict[str, Any] = {"mip_abs_gap": max(gap / unit, LEAST_GAP)}
    if math.isfinite(target):
        highs["objective_target"] = (target - constant) / unit
    if nodes is not None:
        highs["mip_max_nodes"] = nodes
    known = None if start is None else np.isin(items, start).astype(float)
    values, bound, limit = branch_and_bound(model, highs, clock, options, known)
    if bound == math.inf:
        return CoreAnswer(None, math.inf, limit)
    lowest = constant + unit * (bound - BOUND_ERROR)
    if values is None:
        return CoreAnswer(None, lowest, limit)
    chosen = base.copy()
    # Values are integers within a tolerance: of each job the item of the largest value is chosen.
    order = np.lexsort((-values, owner))
    chosen[free] = items[order[np.unique(owner[order], return_index=True)[1]]]
    if problem.fits(chosen):
        return CoreAnswer(chosen, lowest, limit)
    # The choice breaks a limit by what HiGHS tolerates.
    if attempt == 0:
        finer = solve_core(problem, clock, options, target=target, gap=gap, nodes=nodes, attempt=1)
        if finer.chosen is not None or finer.bound == math.inf:
            return finer
    if attempt <= 1:  # ask for a choice that keeps the limits by far; the bound stands
        tighter = replace(problem, limit=problem.limit - TIGHTENING * problem.demand.max(axis=0))
        other = solve_core(tighter, clock, options, target=target, gap=gap, nodes=nodes, attempt=2)
        if other.chosen is None and math.prod(counts.tolist()) <= MAX_CHOICES:
            return _enumerate_core(problem)
        return CoreAnswer(other.chosen, lowest, limit)
    return CoreAnswer(None, lowest, limit)


def _enumerate_core(problem: MultipleChoice) -> CoreAnswer:
    """Return the best feasible choice of a small core problem by enumeration of all choices."""
    counts = problem.counts
    choices = np.stack(np.unravel_index(np.arange(counts.prod()), counts), axis=1) + problem.start[:-1]
    fitting = choices[(problem.demand[choices].sum(axis=1) <= problem.limit).all(axis=1)]
    if not len(fitting):
        return CoreAnswer(None, math.inf)
    best = min(fitting, key=problem.value)
    return CoreAnswer(best, problem.value(best))


def _unit(cost: Floats) -> float:
    """Return the divisor of costs, a power of 2, which scales the largest to some thousands."""
    largest = float(np.abs(cost).max())
    return 2.0 ** math.ceil(math.log2(largest / LARGEST_COST)) if largest > 0 else 1.0


def _model(cost: Floats, demand: Floats, slack: Floats, owner: Ints, jobs: int, size: float) -> Any:
    """Return the integer program of a core: one choice constraint per job, and R capacity constraints.

    The largest coefficient of capacity constraints is `size`.
    """
    columns, limits = demand.shape
    largest = np.abs(demand).max(axis=0)
    scale = np.where(largest > 0, largest, 1.0) / size
    low = np.concatenate([np.ones(jobs), np.full(limits, -np.inf)])
    high = np.concatenate([np.ones(jobs), slack / scale])
    # Every column has one entry in its job's row and one in each limit.
    places = np.column_stack([owner, np.tile(jobs + np.arange(limits), (columns, 1))])
    values = np.column_stack([np.ones(columns), demand / scale])
    matrix = np.arange(columns + 1) * (limits + 1), places.ravel(), values.ravel()
    zero, one = np.zeros(columns), np.ones(columns)
    return linear_program(cost, (zero, one), (low, high), matrix, [True] * columns)


def threshold(reduced: Floats, count: int) -> float:
    """Return the reduced cost of rank `count` in ascending order, infinite if there are no more items."""
    return float(np.partition(reduced, count)[count]) if count < len(reduced) else math.inf


class IncumbentSearch(ABC):
    """Base class of a search that keeps an incumbent, a lower bound, and the trace of both.

    Parameters
    ----------
    cost
        Of each configuration in the knapsack problem.

    Attributes
    ----------
    incumbent, value
        The best plan, as the configuration of each job, None without one; and the plan's value.
    bound
        No plan has a lower value.
    cuts
        Price of each resource in the cutting planes of the price search, where they are asked for.
    """

    incumbent: Any = None
    cuts: list[dict[str, float]] | None = None

    def __init__(
        self, formulation: AllocationFormulation, options: SolveOptions, clock: Clock, cost: Floats
    ) -> None:
        self.formulation, self.options, self.clock = formulation, options, clock
        self.configs = formulation.configurations
        self.problem = MultipleChoice.of(self.configs, cost)
        self.value, self.bound = math.inf, 0.0
        self.limit: Limit = "none"
        self.message: str | None = None
        self.trace: Trace = []

    @abstractmethod
    def value_of(self, chosen: Ints) -> float:
        """Return the objective value of a choice of one configuration per job."""

    @property
    def proven(self) -> bool:
        """Whether the gap between incumbent and bound is at most the requested one."""
        return self.incumbent is not None and self.value - self.bound <= self.options.gap * abs(self.value)

    def note(self) -> None:
        """Add the incumbent's value and the bound to the trace, and report them as progress."""
        value = None if self.incumbent is None else self.value
        bound = self.bound if math.isfinite(self.bound) else None
        self.trace.append((self.clock.elapsed_s, value, bound))
        report_progress(self.formulation.objectives[0], value, bound)

    def is_feasible(self, chosen: Ints) -> bool:
        """Return whether a choice of one configuration per job is a plan."""
        return len(chosen) == self.problem.jobs and self.problem.fits(chosen)

    def update_incumbent(self, chosen: Any) -> None:
        """Replace the incumbent by a choice of one configuration per job if that is feasible and better."""
        if chosen is not None and self.is_feasible(chosen):
            value = self.value_of(chosen)
            if value < self.value:
                self.incumbent, self.value = chosen, value
                self.note()
                set_checkpoint(self.formulation, self.so_far)

    def plan(self) -> Plan | None:
        """Return the plan of the incumbent; None without one."""
        return None if self.incumbent is None else self.formulation.plan_of(self.incumbent)

    def so_far(self) -> Outcome:
        """Return the outcome with the incumbent's plan and the bound so far."""
        return Outcome(self.plan(), (self.bound,), trace=self.trace)

    def take_warm_start(self) -> None:
        """Make the plan of the warm start the incumbent, if one was given."""
        if self.options.warm_start is not None:
            plan = self.formulation.parse_plan(self.options.warm_start)
            self.update_incumbent(self.formulation.indices_of(plan))

    def final_outcome(self, prices: Floats, impossible: bool, pieces: PiecePrices | None = None) -> Outcome:
        """Return the outcome with incumbent, bound, and the certificate from these dual prices."""
        claim = None if impossible else self.bound
        return Outcome(
            self.plan(),
            () if impossible else (self.bound,),
            limit="none" if impossible else self.limit,
            infeasible=impossible,
            certificate=certificate_of(self.configs.resources, prices, claim, pieces),
            cuts=self.cuts,
            trace=self.trace,
            message=None if impossible else self.message,  # which is about plan and bound
        )


FIRST_CORE, CORE_GROWTH = 300, 4
"""Configurations of the first core beyond one for each job, and the factor to the next core."""
MAX_CONFIGURATIONS = 2_000_000
"""Of a core, beyond one for each job; a larger one is not tried."""
NODES_OF_PARTIAL_CORE = 1000
"""Branch-and-bound nodes in a core without every configuration that matters."""
GAP_SHARE = 0.5
"""Share of the requested gap at which a plan of a core is good enough."""
PRICE_ACCURACY, LEAST_PRICE_TOLERANCE = 100.0, 1e-10
"""The dual prices are so many times as accurate as the requested gap, but no finer than the second."""
FIXING_MARGIN = 1e-9
"""Relative; reduced costs are compared with this much to spare."""
FEWEST_PRICED, NODES_BEFORE_PAIRS = 5, 50
"""Where so many limits have a price, a first core is left for pairs of partial choices after so many
nodes."""
PAIR_SHARE, LEAST_PAIR_S = 0.85, 5.0
"""Share of the time that is left for pairs; none if that is less, for loops may have to be compiled."""


class TotalTimeSearch(IncumbentSearch):
    """Search for the minimum (weighted) total completion time: incumbent, dual prices and bound.

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
        names, known = self.configs.resources, options.warm_prices
        dual = best_prices(
            self.problem,
            clock,
            max(LEAST_PRICE_TOLERANCE, options.gap / PRICE_ACCURACY),
            [] if known is None else earlier_prices(names, known),
        )
        if options.keep_cuts:
            self.cuts = [dict(zip(names, prices.tolist(), strict=True)) for prices in dual.cuts]
        self.prices, self.priced = dual.prices, knapsack_bound(self.problem, dual.prices)
        # In plain floating point a dual may only seem unbounded; the price bound is rounded down.
        self.impossible = dual.unbounded and self.priced > 2 * self.problem.largest_value
        if dual.unbounded and not self.impossible:
            self.prices = np.zeros_like(dual.prices)
            self.priced = knapsack_bound(self.problem, self.prices)
        self.bound = self.priced
        self.searched_pairs = False
        self.note()

    def value_of(self, chosen: Ints) -> float:
        """Return the total weighted completion time of a choice of one configuration per job."""
        return self.problem.value(chosen)

    def run(self) -> Outcome:
        """Find an incumbent, then solve core problems until it is proven optimal or the time is up."""
        if self.impossible:
            return self.final_outcome(self.prices, self.impossible)
        reduced = self.problem.reduced_costs(self.prices)
        self.first_plan(reduced)
        size = FIRST_CORE
        while not (self.proven or self.impossible or self.limit != "none"):
            if self.clock.expired:
                self.limit = "time"
                break
            if not self.cores:
                break
            of_size = threshold(reduced, self.problem.jobs + size)
            # The pruning threshold: reduced costs add up to the bound of the prices, not of a core.
            margin = FIXING_MARGIN
            pruning = (self.value - self.priced) * (1 + margin) + margin * abs(self.value)
            complete = of_size >= pruning
            keep = reduced <= min(of_size, pruning) + margin * abs(self.bound)
            core = self.problem.only(self._affordable(keep) if complete else keep)
            if len(core.cost) > MAX_CONFIGURATIONS + core.jobs:
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
            size *= CORE_GROWTH
        if self.cores and self.limit == "none" and not (self.proven or self.impossible):
            self.enumerate()
        return self.final_outcome(self.prices, self.impossible)

    def enumerate(self) -> None:
        """Raise the bound, or prove infeasibility, by the implicit enumeration of the certificate check.

        It has no tolerances, so that it also decides where HiGHS takes infeasible choices for feasible.
        """
        claim = None if self.incumbent is None else self.value
        data = certificate_of(self.configs.resources, self.prices, claim)
        try:
            with self.clock.enforced():
                certified = self.formulation.certified_bounds(data)[0]
        except OutOfTimeError:
            self.limit = "time"
            return
        if certified is not None and claim is None:
            self.impossible = math.isinf(certified)
        elif certified is not None:
            self.bound = max(self.bound, min(certified, self.value))
        if self.clock.expired and not self.proven:
            self.limit = "time"

    def _affordable(self, keep: Flags) -> Flags:
        """Return flags of the kept items that could be in a plan better than the incumbent by cost alone.

        Where a job would have none, all kept items are flagged.

        A configuration may cost more than the whole incumbent, and scarce prices hide that. In a core it
        would set the scale of costs, and HiGHS would not see the others.
        """
        problem, cost = self.problem, self.problem.cost
        cheapest = problem.least(cost)
        most = self.value - math.fsum(cheapest) + FIXING_MARGIN * abs(self.value)
        affordable = keep & (cost - problem.spread(cheapest) <= most)
        return affordable if problem.every_job_has(affordable) else keep

    def first_plan(self, reduced: Floats) -> None:
        """Find an incumbent: the warm start, rounded dual prices and, if these fail, marginal gain."""
        count = self.problem.jobs + max(4 * FIRST_CORE, self.problem.jobs)
        self.take_warm_start()
        near = self.problem.only(reduced <= threshold(reduced, count))
        # Rounding among few configurations is fast, but may find none that keep the limits.
        for problem in (near, self.problem):
            chosen = round_prices(problem, self.prices, self.clock)
            if chosen is not None:
                self.update_incumbent(problem.configuration[chosen])
                break
        if self.incumbent is None or self.clock.expired:
            self.update_incumbent(choose_by_gain(self.formulation, self.clock))

    def solve(self, core: MultipleChoice, complete: bool) -> CoreAnswer:
        """Solve a core problem to a fraction of the requested gap; return its best choice and bound."""
        enough = GAP_SHARE * self.options.gap * abs(self.bound)
        nodes = NODES_OF_PARTIAL_CORE
        # The relaxation leaves as many jobs fractional as limits bind (Sinha & Zoltners 1979).
        if self.wants_pairs and np.count_nonzero(self.prices) >= FEWEST_PRICED:
            nodes = NODES_BEFORE_PAIRS
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
        """Whether pairs of partial choices are still to be searched if a core remains unsolved."""
        left_s = self.clock.share(PAIR_SHARE).remaining_s
        in_time = left_s is None or left_s >= LEAST_PAIR_S
        return in_time and not self.searched_pairs and self.incumbent is not None

    def search_pairs(self, incumbent: Ints, reduced: Floats) -> None:
        """Search for better plans among pairs of partial choices (meet in the middle)."""
        self.searched_pairs = True
        clock = self.clock.share(PAIR_SHARE)
        keep = reduced <= (self.value - self.priced) * (1 + FIXING_MARGIN)
        keep[incumbent] = True
        near = self.problem.only(keep)
        items = np.searchsorted(near.configuration, incumbent)
        for better in better_choices(near, self.prices, items, clock, self.options.seed):
            self.update_incumbent(near.configuration[better])
            if self.proven:
                break

    def learn(self, core: MultipleChoice, answer: CoreAnswer, complete: bool) -> None:
        """Update incumbent and bound from the answer of a core problem."""
        if answer.chosen is not None:
            self.update_incumbent(core.configuration[answer.chosen])
        if answer.limit != "node":
            self.limit = answer.limit
        if complete:
            if answer.bound == math.inf and self.incumbent is None:
                self.impossible = True
                return
            self.bound = max(self.bound, min(answer.bound, self.value))
            self.note()
