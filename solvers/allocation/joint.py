"""Configurations and servers of jobs together: dual prices, prices of pieces, and a search for placements.

The bound is that of the relaxation by total capacities: the best dual prices λ, and a core problem at the end
where it can close the gap. Where servers are small, pieces that pack badly are priced as well. On equal
servers the prices ρ are multiples of dual feasible functions u (Fekete & Schepers, *New classes of fast lower
bounds for bin packing problems*, Mathematical Programming 91, 2001): any pieces that fit on a server of C
units have Σ u(a) ≤ 1. On servers of several sizes, pieces are priced that fit on the larger ones only. Each
function gives one more capacity of the knapsack, and the best multiple is found with λ.

The plan is found by ruin and recreate among the configurations of least reduced cost.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...formulations.allocation.configurations import Configurations
from ...formulations.allocation.formulation import AllocationFormulation
from ...formulations.allocation.placed_configurations import placed_configurations
from ...formulations.allocation.plan import Plan
from ...formulations.allocation.splits import STAYS, PiecePrices
from ...instances.common.arrays import Floats, Ints, offsets
from ..common.base import Clock, Outcome
from ..common.result import SolveOptions
from .heuristics import round_prices
from .lagrangian import MultipleChoice, best_prices, knapsack_bound
from .placement_search import (
    ABSENT,
    WAYS,
    Arrays,
    Candidates,
    PlacementState,
    insert_all,
    ruin_and_recreate,
)
from .placements import Placements
from .total_time import FIXING_MARGIN, GAP_SHARE, CoreAnswer, IncumbentSearch, solve_core

MAX_UNITS = 16
"""Most units of a resource on a server for which its pieces are priced."""
MAX_CANDIDATES = 24
"""Configurations of each job in the search: so many of least reduced cost, and so many undominated ones."""
NEAR = 8 * MAX_CANDIDATES
"""Configurations of each job of which those that another one dominates are left out."""
PRICE_TOLERANCE = 1e-6
"""Relative accuracy of the dual prices."""
JOBS_AT_ONCE = 100
"""Jobs that are inserted between two looks at the clock."""
ROUNDS_AT_ONCE = 200
"""Rounds between two looks at the clock."""
ROUNDS_PER_JOB = 10_000
"""Rounds of a whole search for each job, if the gap is not closed before."""
HOT = 0.05
"""First temperature, as a share of the mean cost of a job."""
COOLING = 4
"""Power with which the temperature falls."""
LOST = 10.0
"""A job that is absent costs so many times its dearest candidate."""


def piece_functions(sizes: Ints) -> Iterator[Floats]:
    """Yield functions u of 1, 2, … units whose multiples are tried as prices of pieces.

    Parameters
    ----------
    sizes
        Distinct units of servers, rising. Of one size Σ u(a) ≤ 1 for any pieces that fit together.
    """
    units = int(sizes[-1])
    size = np.arange(1, units + 1)
    yield from (np.where(size > smaller, 1.0, 0.0) for smaller in sizes[:-1])
    if len(sizes) > 1:
        return
    for least in range(2, units // 2 + 1):  # small pieces cost nothing, those that leave no room for one all
        yield np.where(size > units - least, 1.0, np.where(size < least, 0.0, size / units))
    for k in range(1, units):
        whole = (size * (k + 1)) % units == 0
        yield np.where(whole, size / units, (size * (k + 1)) // units / k)


@dataclass(frozen=True)
class JointDual:
    """Dual prices of resources and pieces, and the relaxation for which they are best.

    Attributes
    ----------
    problem
        The relaxation; with prices of pieces its last capacity is `PIECES`.
    prices, bound
        λ, shape (R,), and L(λ); infinite where some job has no configuration.
    pieces
        Prices of pieces for which λ of `PIECES` is 1; None without them.
    """

    problem: MultipleChoice
    prices: Floats
    bound: float
    pieces: PiecePrices | None = None


def joint_dual(formulation: AllocationFormulation, pooled: JointDual, clock: Clock) -> JointDual:
    """Return the best dual prices that are found, with prices of pieces where these raise the bound."""
    best, servers = pooled, formulation.servers
    assert servers is not None
    for r, name in enumerate(servers.resources):
        sizes = np.unique(np.floor(servers.shapes[:, r] * (1 + 1e-9)).astype(int))
        if not 2 <= sizes.max(initial=0) <= MAX_UNITS:
            continue
        # A server that has none of it holds no piece.
        for function in np.unique([*piece_functions(sizes[sizes > 0])], axis=0):
            if clock.expired:
                return best
            pieces = {name: function.tolist()}
            configs = placed_configurations(formulation.instance, formulation.table, servers, pieces)
            if not configs.counts.all():  # the pieces of some job cost more than all servers can earn
                return replace(best, bound=math.inf, pieces=pieces)
            dual = dual_of(configs, clock)
            if dual.bound > best.bound + PRICE_TOLERANCE * abs(best.bound):
                scaled = {name: (float(dual.prices[-1]) * function).tolist()}
                best = replace(dual, pieces=scaled)
    return best


def dual_of(configs: Configurations, clock: Clock) -> JointDual:
    """Return the best dual prices of a table of configurations."""
    problem = MultipleChoice.of(configs, configs.cost)
    prices = best_prices(problem, clock, PRICE_TOLERANCE).prices
    return JointDual(problem, prices, knapsack_bound(problem, prices))


class JointSearch(IncumbentSearch):
    """Search for the least total completion time of jobs on servers; the incumbent is a plan.

    Parameters
    ----------
    cores
        Whether the bound is raised by a core problem; without, it is that of the dual prices.
    rounds
        Of ruin and recreate, for each job.

    Attributes
    ----------
    pooled, dual
        Dual prices without and with prices of pieces.
    """

    def __init__(
        self,
        formulation: AllocationFormulation,
        options: SolveOptions,
        clock: Clock,
        cores: bool = True,
        rounds: int = ROUNDS_PER_JOB,
    ) -> None:
        super().__init__(formulation, options, clock, formulation.configurations.cost)
        self.cores, self.rounds = cores, rounds
        self.pooled = dual_of(self.configs, clock)
        self.dual = joint_dual(formulation, self.pooled, clock)
        self.bound = self.dual.bound
        self.note()

    def is_feasible(self, chosen: Any) -> bool:
        """Return whether a plan keeps all constraints: sums of many rounds may be off by their rounding."""
        return not self.formulation.violations(chosen)

    def value_of(self, chosen: Any) -> float:
        """Return the total completion time of a plan."""
        return self.formulation.evaluate(chosen)[0]

    def plan(self) -> Plan | None:
        """Return the incumbent, which is a plan; None without one."""
        plan: Plan | None = self.incumbent
        return plan

    def run(self) -> Outcome:
        """Search for a plan, then for a better bound; return the outcome."""
        # A bound above what any configurations cost leaves none that fit.
        impossible = self.bound > self.dual.problem.largest_value * (1 + PRICE_TOLERANCE)
        if not impossible:
            self._search()
            if self.cores and not self.proven and self.limit == "none":
                self._close()
        prices = self.dual.prices[: len(self.configs.resources)]
        return self.final_outcome(prices, impossible, self.dual.pieces)

    def _search(self) -> None:
        """Run ruin and recreate until the gap is closed, the rounds are made or the time is up."""
        plan, prices, known = None, self.pooled.prices, np.zeros(0, np.int64)
        if self.options.warm_start is not None:
            plan = self.formulation.finish(self.formulation.parse_plan(self.options.warm_start))
            self.update_incumbent(plan)
            known = self.formulation.indices_of(plan)
        placements = Placements(self.formulation, plan or ())
        rows, start = self._candidate_rows(known)
        candidates = placements.candidates(rows, start, prices)
        penalty = LOST * np.maximum.reduceat(candidates.low, start[:-1]) + candidates.low.max()
        given = candidates, placements.current, placements.value(prices)
        if plan is None:
            state, cost = self._greedy(placements, candidates, given)
        else:
            chosen = np.array([np.flatnonzero(rows == row)[0] for row in known.tolist()])
            state = placements.state_of(plan, candidates, chosen)
            cost = self.configs.weight * np.array([entry.completion_s or 0.0 for entry in plan])
        cost = np.where(np.isfinite(cost), cost, penalty)
        best, costs = copy.deepcopy(state), (cost, cost.copy())
        seed = np.array([12_345 if self.options.seed is None else self.options.seed + 1], np.int64)
        rounds, hot = self.rounds * len(cost), HOT * float(cost.mean())
        self._record(placements, best, costs[1], rows)
        for made in range(0, rounds, ROUNDS_AT_ONCE):
            if self.proven:
                break
            if self.clock.expired:
                self.limit = "time"
                break
            temperature = hot * (1 - max(made / rounds, self._time_share())) ** COOLING
            before = costs[1].sum()
            ruin_and_recreate(*given, penalty, state, best, costs, seed, ROUNDS_AT_ONCE, temperature)
            if costs[1].sum() < before:
                self._record(placements, best, costs[1], rows)
        self.note()

    def _greedy(
        self, placements: Placements, candidates: Candidates, given: tuple[Candidates, Arrays, Floats]
    ) -> tuple[PlacementState, Floats]:
        """Insert the jobs, those of the dearest demand first; return the state and each job's cost.

        The cost is infinite where a job is absent: it has no room, or the time is up.
        """
        state, jobs = placements.empty(), self.configs.jobs
        cost = np.full(jobs, np.inf)
        order = np.argsort(-np.minimum.reduceat(candidates.price, candidates.start[:-1]), kind="stable")
        for part in np.array_split(order, 1 + jobs // JOBS_AT_ONCE):  # the clock is read between parts
            if not self.clock.expired:
                cost[part] = insert_all(part, *given, state, WAYS)[part]
        return state, cost

    def _time_share(self) -> float:
        """Return how much of the time limit is over."""
        limit_s = self.clock.limit_s
        return 0.0 if limit_s is None else self.clock.elapsed_s / max(limit_s, 1e-9)

    def _candidate_rows(self, known: Ints) -> tuple[Ints, Ints]:
        """Return the rows of the search, and where those of each job start.

        They are the configurations of least reduced cost, the one that takes least, and those of the plan to
        start from.
        """
        configs = self.configs
        assert configs.split is not None
        reduced = self.problem.reduced_costs(self.pooled.prices)
        taken = configs.demand @ (self.pooled.prices + 1e-9)
        kept = []
        for j in range(configs.jobs):
            own = np.arange(configs.start[j], configs.start[j + 1])
            # Staying, which costs no restart, would seem to dominate moving with the same tasks.
            moving = own[configs.split[own] != STAYS]
            near = moving[np.argsort(reduced[moving], kind="stable")]
            # Of equal times on one server, more parameter servers are faster on several: both are kept.
            best = np.append(near[:MAX_CANDIDATES], _undominated(configs, near)[:MAX_CANDIDATES])
            others = [own[np.argmin(taken[own])], *own[configs.split[own] == STAYS], *known[j : j + 1]]
            kept.append(np.unique(np.append(best, others)))
            kept[-1] = kept[-1][np.argsort(reduced[kept[-1]], kind="stable")]
        return np.concatenate(kept), offsets([len(own) for own in kept])

    def _record(self, placements: Placements, best: PlacementState, cost: Floats, rows: Ints) -> None:
        """Keep the plan of a state if all jobs are in it and it is better."""
        absent = int((best.chosen == ABSENT).sum())
        if absent and self.incumbent is None:
            self.message = f"{absent:,} of {len(cost):,} jobs found no room on the servers"
        elif not absent and math.fsum(cost) < self.value:
            self.message = None
            self.update_incumbent(placements.plan_of(best, rows))

    def _close(self) -> None:
        """Raise the bound by the core problem of the relaxation: all that can be in a better plan."""
        _, answer = solve_near(self.dual, self.value, self.options, self.clock)
        if self.bound < answer.bound < math.inf:
            self.bound = min(answer.bound, self.value)
            self.note()
        if answer.limit != "none":
            self.limit = answer.limit


def _undominated(configs: Configurations, rows: Ints) -> Ints:
    """Return the first of these rows of one job, without those than which another takes and costs no more.

    Of equal rows, which would crowd out others, one is left.
    """
    rows = rows[:NEAR]
    demand, cost = configs.demand[rows], configs.cost[rows]
    no_worse = (demand[None] <= demand[:, None]).all(axis=2) & (cost[None] <= cost[:, None])
    earlier = np.tri(len(rows), k=-1, dtype=bool)
    kept: Ints = rows[~(no_worse & (~no_worse.T | earlier)).any(axis=1)]
    return kept


def pooled_choice(formulation: AllocationFormulation, options: SolveOptions, clock: Clock) -> Ints | None:
    """Return the configurations of least cost by total capacities alone; None if no choice is found."""
    dual = dual_of(formulation.configurations, clock)
    chosen = round_prices(dual.problem, dual.prices, clock)
    if chosen is None:
        return None
    core, answer = solve_near(dual, dual.problem.value(chosen), options, clock)
    return chosen if answer.chosen is None else core.configuration[answer.chosen]


def solve_near(
    dual: JointDual, value: float, options: SolveOptions, clock: Clock
) -> tuple[MultipleChoice, CoreAnswer]:
    """Solve the core problem of all configurations that can be in a choice below a value; return both."""
    reduced, size = dual.problem.reduced_costs(dual.prices), abs(dual.bound)
    core = dual.problem.only(reduced <= (value - dual.bound) * (1 + FIXING_MARGIN) + FIXING_MARGIN * size)
    return core, solve_core(core, clock, options, gap=GAP_SHARE * options.gap * size)
