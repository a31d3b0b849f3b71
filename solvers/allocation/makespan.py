"""Least makespan of an allocation: which completion times can be kept by all jobs together?

For a time T only the configurations with t_jk ≤ T count. Prices v_r / C_r with Σ v_r = 1 show the least
share of the capacities that any choice among them takes, fractional ones included,

    s(T) = max_v Σ_j min {Σ_r v_r a_jkr / C_r : t_jk ≤ T},

a small matrix game. Where s(T) > 1 no plan keeps T, and the same prices rule out a range of times beyond
it. The least time that survives is approached from below by prices and from above by plans; what lies
between is settled by halving, each test on the few configurations that can be in a plan at all. Of plans
with the same makespan one with little total completion time is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...formulations.allocation.certificate import certificate
from ...formulations.allocation.formulation import AllocationFormulation
from ...instances.common.arrays import Floats, Ints
from ..backends.base import BackendError
from ..backends.cutting_planes import highest_point
from ..common.base import Clock, Outcome
from ..common.options import SolveOptions
from ..common.result import Limit
from .core import solve_core
from .knapsack import MultipleChoice
from .lagrangian import best_prices
from .lagrangian_bound import makespan_bound
from .marginal_gain import choose_by_gain
from .rounding import improve, round_prices

FIRST_CORE = 400
"""Rows of the first core beyond one for each job."""
NODES = 500
"""Of the search in a core that does not hold every row that matters."""
FIRST_STEP = 1e-5
"""How far above the bound, relatively, the first plan is looked for; each further step is 8 times as far."""
ROUGH = 1e-4
"""Relative accuracy of the prices by which ties are broken."""
REPAIRS = 300
NEAR = 3000
"""Rows among which a repair looks for its next move."""
MOST_ROUNDS = 200


def solve_makespan(
    formulation: AllocationFormulation, options: SolveOptions, clock: Clock, cores: bool = True
) -> Outcome:
    """Return a plan, the bound that was proven and a certificate.

    Parameters
    ----------
    cores
        Whether what prices leave open is solved; without, the search ends where prices and repair do.
    """
    return _Search(formulation, options, clock, cores).run()


@dataclass(frozen=True)
class _Test:
    """What is known about a time: rows of a plan that keeps it, or that there is none."""

    rows: Ints | None = None
    impossible: bool = False


class _Search:
    """Bounds on the least makespan: none before `low`; `high` is that of the best plan.

    Parameters
    ----------
    formulation
        Of the makespan.
    cores
        Whether what prices leave open is solved; without, the search ends there.
    """

    def __init__(
        self, formulation: AllocationFormulation, options: SolveOptions, clock: Clock, cores: bool
    ) -> None:
        self.cores = cores
        self.formulation, self.options, self.clock = formulation, options, clock
        self.configs = formulation.configurations
        self.problem = MultipleChoice.of(self.configs, np.zeros(len(self.configs.time_s)))
        self.times = np.unique(self.configs.time_s)
        self.share = even_share(self.configs.limit)
        self.low, self.proof = 0.0, np.zeros(len(self.share))
        self.high = math.inf
        self.rows: Ints | None = None
        self.limit: Limit = "none"
        self.message: str | None = None
        self.trace: list[tuple[float, float | None, float | None]] = []

    def run(self) -> Outcome:
        """Raise the bound by prices, find a first plan, then halve what lies between."""
        self.learn(self.share)
        if self.options.warm_start is not None:
            self.offer(self.formulation.indices_of(self.formulation.parse_plan(self.options.warm_start)))
        step, first = FIRST_STEP, True
        while self.low < math.inf and not self.proven and self.limit == "none":
            if self.clock.expired:
                self.limit = "time"
                break
            if self.rows is None:
                time = self.low if first else min(self.low * (1 + step), float(self.times[-1]))
                step, first = step * (1 if first else 8), False
            else:
                time = self.between()
            last = time >= self.times[-1]
            test = self.test(time, thorough=self.rows is not None or last)
            if test.rows is not None:
                self.offer(test.rows)
            elif not test.impossible and self.limit == "none" and (self.rows is not None or last):
                self.limit = "node"
        if self.rows is None and self.low < math.inf:
            self.offer(choose_by_gain(self.formulation, self.clock))
        if self.rows is not None and not self.clock.expired:
            self.rows = self.soonest(self.rows)
        return self.outcome()

    @property
    def proven(self) -> bool:
        """Whether plan and bound are as close as was asked."""
        return self.rows is not None and self.high - self.low <= self.options.gap * self.high

    def between(self) -> float:
        """Return the time in the middle of what is open; the bound itself while nothing was tried there."""
        low, high = np.searchsorted(self.times, [self.low, self.high])
        return float(self.times[(low + high - 1) // 2]) if high > low else self.low

    def learn(self, share: Floats) -> bool:
        """Raise the bound as far as prices of these shares prove; return whether it rose."""
        prices = per_unit(share, self.configs.limit)
        bound = makespan_bound(self.configs, prices)
        if bound <= self.low:
            return False
        self.low, self.proof = bound, prices
        self.note()
        return True

    def note(self) -> None:
        """Add a line to the trace."""
        value = None if self.rows is None else self.high
        self.trace.append((self.clock.elapsed_s, value, self.low if math.isfinite(self.low) else None))

    def offer(self, rows: Ints | None) -> None:
        """Take rows of the configs, one of each job, if they keep the limits and end before the best."""
        if rows is not None and len(rows) == self.problem.jobs and self.problem.fits(rows):
            value = float(self.configs.time_s[rows].max())
            if value < self.high:
                self.rows, self.high = rows, value
                self.note()

    def test(self, time: float, thorough: bool) -> _Test:
        """Look for a plan that keeps a time, or for a proof that there is none."""
        problem = self.problem.only(self.configs.time_s <= time)
        share, value, found = least_share(problem, self.share, self.clock)
        self.share = share
        if found is not None:
            return _Test(problem.row[found])
        if value > 1 and self.learn(share) and self.low > time:
            return _Test(impossible=True)
        prices = per_unit(share, problem.limit)
        reduced = problem.reduced_costs(prices)
        mended = _repair(problem, problem.choose(prices)[1], reduced)
        if mended is not None:
            return _Test(problem.row[mended])
        if not self.cores:
            return _Test()
        waste = float(prices @ problem.limit) - value
        return self.settle(problem, reduced, waste + 1e-9, time, prices, thorough)

    def settle(
        self,
        problem: MultipleChoice,
        reduced: Floats,
        waste: float,
        time: float,
        prices: Floats,
        thorough: bool,
    ) -> _Test:
        """Search the cores of a time; `waste` is what a plan may take beyond the least, in priced terms."""
        wanted = FIRST_CORE
        while True:
            count = problem.jobs + wanted
            reach = math.inf if count >= len(reduced) else float(np.partition(reduced, count)[count])
            complete = reach >= waste
            core = problem.only(reduced <= min(reach, waste))
            nodes = None if complete and thorough else NODES
            try:
                answer = solve_core(core, self.clock, self.options, nodes=nodes)
            except BackendError as error:
                self.message = f"a core was not solved, plan and bound are what is known without it: {error}"
                return _Test()
            if answer.rows is not None:
                return _Test(core.row[answer.rows])
            if answer.limit not in ("none", "node"):
                self.limit = answer.limit
                return _Test()
            if complete and answer.bound == math.inf:
                after = int(np.searchsorted(self.times, time, side="right"))
                self.low = float(self.times[after]) if after < len(self.times) else math.inf
                self.proof = prices
                self.note()
                return _Test(impossible=True)
            if complete or not thorough:
                return _Test()
            wanted *= 4

    def soonest(self, rows: Ints) -> Ints:
        """Return rows that end no later with less total completion time; so far only the last job counts."""
        whole = MultipleChoice.of(self.configs, self.configs.cost)
        problem = whole.only(self.configs.time_s <= self.high)
        prices = best_prices(problem, self.clock, ROUGH).prices
        found = round_prices(problem, prices, self.clock)
        if found is None:
            found = improve(problem, np.searchsorted(problem.row, rows), prices, self.clock)
        return min((rows, problem.row[found]), key=whole.value)

    def outcome(self) -> Outcome:
        """Return what is known."""
        impossible = math.isinf(self.low)
        return Outcome(
            None if self.rows is None else self.formulation.plan_of(self.rows),
            () if impossible else (self.low,),
            limit="none" if impossible else self.limit,
            infeasible=impossible,
            certificate=certificate(self.configs.resources, self.proof, None if impossible else self.low),
            trace=self.trace,
            message=self.message,
        )


def even_share(limit: Floats) -> Floats:
    """Return equal shares v_r of the resources of which there is any."""
    real = (limit > 0).astype(float)
    return real / max(1.0, float(real.sum()))


def per_unit(share: Floats, limit: Floats) -> Floats:
    """Return prices v_r / C_r; a resource of which there is none has no price."""
    prices = np.zeros(len(share))
    np.divide(share, limit, out=prices, where=limit > 0)
    return prices


def least_share(problem: MultipleChoice, share: Floats, clock: Clock) -> tuple[Floats, float, Ints | None]:
    """Play the matrix game between prices and rows.

    Returns
    -------
    share, value
        The best v that was found, and Σ_j of the least priced rows there; above 1 no choice fits.
    rows
        A choice that fits, if one came by.
    """
    limit = np.where(problem.limit > 0, problem.limit, np.inf)
    limit_share = (problem.limit > 0).astype(float)
    best, value, uses = share, -math.inf, []
    for _ in range(MOST_ROUNDS):
        least, rows = problem.choose(share / limit)
        now = math.fsum(least)
        if now > value:
            best, value = share, now
        if problem.fits(rows):
            return best, value, rows
        uses.append(problem.take(rows) / limit)
        if value > 1 + 1e-9 or clock.expired:
            break
        answer = highest_point(np.zeros(len(uses)), np.array(uses), 0.0 * limit_share, limit_share, 1.0)
        if answer is None or answer[1] <= value + 1e-9:
            break
        share = np.where(problem.limit > 0, np.maximum(answer[0], 0.0), 0.0)
    return best, value, None


def _repair(problem: MultipleChoice, rows: Ints, reduced: Floats) -> Ints | None:
    """Move single jobs, each time the one that lessens the overuse most; None if that comes to a halt."""
    rows = rows.copy()
    near = np.arange(len(reduced))
    if len(near) > NEAR + problem.jobs:
        near = np.argpartition(reduced, NEAR + problem.jobs)[: NEAR + problem.jobs]
    owner = np.searchsorted(problem.start, near, side="right") - 1
    limit = np.where(problem.limit > 0, problem.limit, 1.0)
    use = problem.take(rows)
    for _ in range(REPAIRS):
        over = float((np.maximum(use - problem.limit, 0.0) / limit).sum())
        if problem.fits(rows):
            return rows
        after = use + problem.demand[near] - problem.demand[rows[owner]]
        score = (np.maximum(after - problem.limit, 0.0) / limit).sum(axis=1)
        best = int(score.argmin())
        if score[best] >= over * (1 - 1e-12):
            return None
        use = after[best]
        rows[owner[best]] = near[best]
    return None
