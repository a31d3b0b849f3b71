"""Configurations and servers of jobs together: dual prices, prices of pieces, and a search for placements.

The bound is that of the relaxation by total capacities: the best dual prices λ, and a core problem at the end
where it can close the gap. Where servers are small and equal, pieces that pack badly are priced as well. The
prices ρ are multiples of dual feasible functions u (Fekete & Schepers, *New classes of fast lower bounds for
bin packing problems*, Mathematical Programming 91, 2001): any pieces that fit on a server of C units have
Σ u(a) ≤ 1. Each function gives one more capacity of the knapsack, and the best multiple is found with λ.

The plan is found by ruin and recreate among the configurations of least reduced cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ...formulations.allocation.certificate import certificate_of
from ...formulations.allocation.configurations import UNPLACED, Configurations
from ...formulations.allocation.formulation import AllocationFormulation
from ...formulations.allocation.placed_configurations import current_pieces, placed_configurations
from ...formulations.allocation.plan import JobAllocation
from ...formulations.allocation.splits import PIECES, STAYS, PiecePrices, saved_step_s
from ...instances.allocation.job import Tasks
from ...instances.allocation.job_table import TABLE
from ...instances.common.arrays import Floats, Ints
from ..common.base import Clock, Outcome
from ..common.result import Limit, SolveOptions
from ..common.search_control import report_progress, set_checkpoint
from .lagrangian import MultipleChoice, best_prices, knapsack_bound
from .placement_search import ABSENT, Candidates, PlacementState, insert_all, ruin_and_recreate
from .total_time import solve_core

MAX_UNITS = 16
"""Most units of a resource on a server for which its pieces are priced."""
MAX_CANDIDATES = 24
"""Configurations of each job in the search: those of least reduced cost."""
PRICE_TOLERANCE = 1e-6
"""Relative accuracy of the dual prices."""
ROUNDS_AT_ONCE = 200
"""Rounds between two looks at the clock."""
ROUNDS, ROUNDS_PER_JOB = 100_000, 400
"""Rounds of the whole search: so many, and so many for each job."""
HOT = 0.05
"""First temperature, as a share of the mean cost of a job."""
LOST = 10.0
"""A job that is absent costs so many times its dearest candidate."""
MAX_PIECES = 64
"""Most servers of one job that the search tries."""


def dual_feasible_functions(units: int) -> Iterator[Floats]:
    """Yield functions u of 1 to `units` units with Σ u(a) ≤ 1 for any pieces that fit together."""
    size = np.arange(1, units + 1)
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
    configs, problem
        The relaxation; with prices of pieces its last capacity is `PIECES`.
    prices, bound
        λ, shape (R,), and L(λ).
    pieces
        Prices of pieces for which λ of `PIECES` is 1; None without them.
    """

    configs: Configurations
    problem: MultipleChoice
    prices: Floats
    bound: float
    pieces: PiecePrices | None = None


def joint_dual(formulation: AllocationFormulation, pooled: JointDual, clock: Clock) -> JointDual:
    """Return the best dual prices that are found, with prices of pieces where these raise the bound."""
    best, servers = pooled, formulation.servers
    assert servers is not None
    for r, name in enumerate(servers.resources):
        units = np.floor(servers.shapes[:, r] * (1 + 1e-9)).astype(int)
        if not 2 <= units.max() <= MAX_UNITS or units.min() < units.max():
            continue
        tried: set[bytes] = set()
        for function in dual_feasible_functions(int(units.max())):
            if clock.expired:
                return best
            if function.tobytes() in tried:
                continue
            tried.add(function.tobytes())
            pieces = {name: function.tolist()}
            configs = placed_configurations(formulation.instance, formulation.table, servers, pieces)
            dual = _dual(configs, clock)
            if dual.bound > best.bound + PRICE_TOLERANCE * abs(best.bound):
                scaled = {name: (float(dual.prices[-1]) * function).tolist()}
                best = replace(dual, pieces=scaled)
    return best


def _dual(configs: Configurations, clock: Clock) -> JointDual:
    problem = MultipleChoice.of(configs, configs.cost)
    prices = best_prices(problem, clock, PRICE_TOLERANCE).prices
    return JointDual(configs, problem, prices, knapsack_bound(problem, prices))


class JointSearch:
    """Search for the least total completion time of jobs on servers.

    Attributes
    ----------
    dual, bound
        Dual prices, and what no plan is below.
    value
        Of the best plan.
    """

    def __init__(self, formulation: AllocationFormulation, options: SolveOptions, clock: Clock) -> None:
        self.formulation, self.options, self.clock = formulation, options, clock
        self.limit: Limit = "none"
        self.trace: list[tuple[float, float | None, float | None]] = []
        self.value, self.plan = math.inf, None
        servers = formulation.servers
        assert servers is not None
        # With prices of nothing, staying and moving with the same tasks are rows of their own.
        self.configs = placed_configurations(formulation.instance, formulation.table, servers, {})
        self.pooled = _dual(formulation.configurations, clock)
        self.dual = joint_dual(formulation, self.pooled, clock)
        self.bound = self.dual.bound
        self.candidates, self.rows = self._candidates()
        self._note()

    plan: tuple[JobAllocation, ...] | None

    def run(self) -> Outcome:
        """Search for a plan, then for a better bound; return the outcome."""
        self._search()
        if not self._proven and self.limit == "none":
            self._close()
        return self._outcome()

    @property
    def _proven(self) -> bool:
        return self.plan is not None and self.value - self.bound <= self.options.gap * abs(self.value)

    def _note(self) -> None:
        value = self.value if self.plan is not None else None
        self.trace.append((self.clock.elapsed_s, value, self.bound))
        report_progress(self.formulation.objectives[0], value, self.bound)

    def _outcome(self) -> Outcome:
        dual = self.dual
        prices = dict(zip(dual.configs.resources, dual.prices, strict=True))
        prices.pop(PIECES, None)
        names = tuple(prices)
        extra = () if dual.pieces is None else (dual.pieces,)
        certificate = certificate_of(names, np.array(list(prices.values())), self.bound, *extra)
        return Outcome(self.plan, (self.bound,), limit=self.limit, certificate=certificate, trace=self.trace)

    def _candidates(self) -> tuple[Candidates, Ints]:
        """Return the candidates of the search, and the row of each in the table of configurations.

        They are the configurations of least reduced cost, and the one of fewest tasks.
        """
        configs, formulation = self.configs, self.formulation
        table, prices = formulation.table, np.append(self.pooled.prices, 0.0)
        problem = MultipleChoice.of(configs, configs.cost)
        reduced = problem.reduced_costs(prices)
        kept = []
        for j in range(configs.jobs):
            own = np.arange(configs.start[j], configs.start[j + 1])
            order = own[np.argsort(reduced[own], kind="stable")][:MAX_CANDIDATES]
            fewest = own[np.argmin(configs.demand[own] @ (prices + 1e-9))]
            kept.append(order if fewest in order else np.append(order, fewest))
        rows = np.concatenate(kept)
        start = np.concatenate([[0], np.cumsum([len(own) for own in kept])])
        assert configs.split is not None
        owner = np.repeat(np.arange(configs.jobs), np.diff(start))
        variant = np.where(configs.variant[rows] == UNPLACED, 0, configs.variant[rows])
        index = table.first_variant[owner] + variant
        ps, workers, split = (c[rows].astype(np.int64) for c in (configs.ps, configs.workers, configs.split))
        low = configs.cost[rows]
        measured = table.model[index] == TABLE
        formula = ~measured & (ps + workers > 0) & (split != STAYS)
        slope = np.zeros(len(rows))
        saved = saved_step_s(table, index, ps, workers, workers - 1, formulation.share)
        slope[formula] = (table.weight[owner] * table.remaining_steps[owner] * saved)[formula]
        return (
            Candidates(
                start,
                ps,
                workers,
                split,
                measured.astype(np.int64),
                low - slope * np.where(formula, split, 0),
                slope,
                low,
                configs.demand[rows] @ prices,
                *(
                    np.where((ps + workers > 0)[:, None], demand[index], 0.0)
                    for demand in (table.ps_demand, table.worker_demand)
                ),
            ),
            rows,
        )

    def _search(self) -> None:
        """Run ruin and recreate until the gap is closed, the rounds are made or the time is up."""
        formulation, candidates = self.formulation, self.candidates
        servers, configs = formulation.servers, self.configs
        assert servers is not None
        jobs = configs.jobs
        most = min(len(servers.names), MAX_PIECES, int((candidates.ps + candidates.workers).max()))
        free = servers.free + 1e-9 * np.maximum(servers.free, 1e-9)
        state = PlacementState(
            np.full(jobs, ABSENT),
            np.zeros(jobs, np.int64),
            *(np.zeros((jobs, most), np.int64) for _ in range(3)),
            free,
        )
        arrays = tuple(vars(candidates).values())
        current = self._current(most)
        scale = np.maximum(servers.free.sum(axis=0), 1e-9)
        value = self.pooled.prices[: len(servers.resources)] + 1e-3 * configs.cost.mean() * jobs / scale
        dearest = np.maximum.reduceat(candidates.low, candidates.start[:-1])
        penalty = LOST * dearest + candidates.low.max()
        weight = -np.minimum.reduceat(candidates.price, candidates.start[:-1])
        cost = insert_all(np.argsort(weight, kind="stable"), 1.0, arrays, current, value, state.arrays())
        cost = np.where(np.isfinite(cost), cost, penalty)
        best, costs = state.copy(), (cost, cost.copy())
        seed = np.array([12_345 if self.options.seed is None else self.options.seed + 1], np.int64)
        rounds, first = ROUNDS + ROUNDS_PER_JOB * jobs, HOT * cost.mean()
        self._record(best, costs[1])
        for made in range(0, rounds, ROUNDS_AT_ONCE):
            if self._proven:
                break
            if self.clock.expired:
                self.limit = "time"
                break
            left_s, elapsed = self.clock.remaining_s, self.clock.elapsed_s
            done = made / rounds if left_s is None else max(made / rounds, elapsed / (elapsed + left_s))
            temperature = first * (1 - done) ** 4
            before = costs[1].sum()
            ruin_and_recreate(
                arrays,
                current,
                value,
                penalty,
                state.arrays(),
                best.arrays(),
                costs,
                seed,
                ROUNDS_AT_ONCE,
                temperature,
            )
            if costs[1].sum() < before:
                self._record(best, costs[1])
        self._note()

    def _record(self, best: PlacementState, cost: Floats) -> None:
        """Keep the plan of a state if all jobs are in it and it is better."""
        value = math.fsum(cost)
        if (best.chosen == ABSENT).any() or value >= self.value:
            return
        plan = self._plan_of(best)
        if self.formulation.violations(plan):
            return
        self.plan, self.value = plan, self.formulation.evaluate(plan)[0]
        self._note()
        set_checkpoint(self.formulation, self._outcome)

    def _plan_of(self, state: PlacementState) -> tuple[JobAllocation, ...]:
        formulation, rows = self.formulation, self.rows
        configs, table, servers = self.configs, formulation.table, formulation.servers
        assert servers is not None
        plan = []
        for j, name in enumerate(table.names):
            k = rows[state.chosen[j]]
            if configs.variant[k] == UNPLACED:
                plan.append(JobAllocation(job=name, placed=False))
                continue
            placement = {
                servers.names[state.server[j, i]]: Tasks(
                    ps=int(state.ps[j, i]), workers=int(state.workers[j, i])
                )
                for i in range(state.count[j])
            }
            plan.append(
                JobAllocation(
                    job=name,
                    variant=table.variant_names[int(table.first_variant[j] + configs.variant[k])],
                    ps=int(configs.ps[k]),
                    workers=int(configs.workers[k]),
                    placement=placement,
                )
            )
        return formulation.finish(tuple(plan))

    def _current(self, most: int) -> tuple[Ints, Ints, Ints, Ints]:
        """Return number, servers and tasks of the pieces with which jobs run now."""
        formulation = self.formulation
        servers, jobs = formulation.servers, len(formulation.table)
        assert servers is not None
        count = np.zeros(jobs, np.int64)
        server, ps, workers = (np.zeros((jobs, most), np.int64) for _ in range(3))
        for j in range(jobs):
            pieces = list((current_pieces(formulation.instance, j) or {}).items())[:most]
            count[j] = len(pieces)
            for i, (name, (x, y)) in enumerate(pieces):
                server[j, i], ps[j, i], workers[j, i] = servers.index[name], x, y
        return count, server, ps, workers

    def _close(self) -> None:
        """Raise the bound by the core problem of the relaxation: what can be in a better plan."""
        problem, dual = self.dual.problem, self.dual
        reduced = problem.reduced_costs(dual.prices)
        threshold = (self.value - dual.bound) * (1 + 1e-9)
        core = problem.only(reduced <= threshold + 1e-9 * abs(dual.bound))
        answer = solve_core(core, self.clock, self.options, gap=0.5 * self.options.gap * abs(self.bound))
        if answer.bound > self.bound:
            self.bound = min(answer.bound, self.value)
            self._note()
        if answer.limit == "time":
            self.limit = "time"
