"""Exact solution of allocations: `exact`, enumeration; certificates, and diagnosis of infeasibility.

`exact` proves optimality with a certificate that the check verifies without trust in any solver. For
methods that write no certificate, dual prices are computed here, and the bound that the method claims is
the cutoff. The check decides whether they prove the bound; a wrong bound is left uncertified.

Implicit enumeration of all combinations of configurations is the ground truth for tiny instances. Where an
allocation has no plan, the least capacity that is missing is found by an elastic model (Chinneck 2008).

The least makespan is the least completion time that all jobs can keep together. For a time T only the
configurations with t_jk ≤ T count. Dual prices v_r / C_r with Σ v_r = 1 show the least share of the
capacities that any choice among them takes, fractional ones included,

    s(T) = max_v Σ_j min {Σ_r v_r a_jkr / C_r : t_jk ≤ T},

the value of a matrix game between prices and configurations, found by cutting planes (Kelley 1960). Where
s(T) > 1 no plan keeps T, and the same prices exclude a range of times beyond it. The least time that
survives is approached from below by prices and from above by plans; the interval between them is closed by
bisection, with a core problem (Balas & Zemel 1980) for each time. Of plans with the same makespan one with
little total completion time is taken.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...formulations.allocation.certificate import certificate_of
from ...formulations.allocation.formulation import AllocationFormulation, choice_variables
from ...formulations.common.clock import check_model_size, check_time
from ...formulations.common.formulation import new_problem
from ...formulations.common.objective import Diagnosis
from ...instances.common.arrays import Floats, Ints
from ..backends import BACKENDS
from ..backends.base import BackendError
from ..backends.highs import maximize_cutting_planes
from ..common.base import BruteForce, Clock, Enumeration, Outcome, Solver, refuse_many
from ..common.result import SolveOptions
from .heuristics import choose_by_gain, improve, round_prices
from .joint import ROUNDS_PER_JOB, JointSearch
from .lagrangian import MultipleChoice, best_prices, makespan_bound
from .total_time import IncumbentSearch, TotalTimeSearch, solve_core, threshold

FIRST_CORE, CORE_GROWTH = 400, 4
"""Configurations of the first core beyond one for each job, and the factor to the next core."""
NODES_OF_PARTIAL_CORE = 500
"""Branch-and-bound nodes in a core without every configuration that matters."""
FIRST_STEP, STEP_GROWTH = 1e-5, 8.0
"""How far above the bound, relatively, a first plan is looked for, and the factor to the next step."""
TIE_TOLERANCE = 1e-4
"""Relative accuracy of the prices by which ties are broken."""
MAX_REPAIRS, CONFIGURATIONS_IN_REPAIR = 300, 3000
"""Moves of a repair, and configurations among which it looks for the next one."""
MAX_ROUNDS = 200
"""Rounds of the matrix game."""
SHARE_MARGIN = 1e-9
"""Shares of the capacities are compared with this much to spare."""


class MakespanSearch(IncumbentSearch):
    """Search for the minimum makespan: no plan ends before `bound`; `value` is that of the incumbent.

    Parameters
    ----------
    formulation
        Of the makespan.
    cores
        Whether cores are solved; without, the search ends where prices and repair do.
    """

    def __init__(
        self, formulation: AllocationFormulation, options: SolveOptions, clock: Clock, cores: bool = True
    ) -> None:
        self.cores = cores
        super().__init__(formulation, options, clock, np.zeros(len(formulation.configurations.time_s)))
        self.times = np.unique(self.configs.time_s)
        self.share = even_share(self.configs.limit)
        self.proof = np.zeros(len(self.share))

    def run(self) -> Outcome:
        """Raise the bound by dual prices, find an incumbent, then bisect the makespans between the two."""
        self.raise_bound(self.share)
        self.take_warm_start()
        step, latest = 0.0, float(self.configs.time_s.max(initial=0.0))
        while self.bound < math.inf and not self.proven and self.limit == "none":
            if self.clock.expired:
                self.limit = "time"
                break
            # Without an incumbent, times are tried in growing steps: near the bound few plans exist.
            if self.incumbent is None:
                time = min(self.bound * (1 + step), latest)
                step = step * STEP_GROWTH or FIRST_STEP
            else:
                time = self.between()
            thorough = self.incumbent is not None or time >= latest
            chosen = self.test(time, thorough)
            self.update_incumbent(chosen)
            if chosen is None and self.bound <= time and self.limit == "none" and thorough:
                self.limit = "node"
        if self.incumbent is None and self.bound < math.inf:
            self.update_incumbent(choose_by_gain(self.formulation, self.clock))
        if self.incumbent is not None and not self.clock.expired:
            self.incumbent = self.break_ties(self.incumbent)
        return self.final_outcome(self.proof, math.isinf(self.bound))

    def between(self) -> float:
        """Return the median of the possible completion times between bound and incumbent, in seconds."""
        low, high = np.searchsorted(self.times, [self.bound, self.value])
        return float(self.times[(low + high - 1) // 2]) if high > low else self.bound

    def raise_bound(self, share: Floats) -> bool:
        """Raise the makespan bound as far as dual prices of these shares prove; return whether it rose."""
        prices = per_unit(share, self.configs.limit)
        bound = makespan_bound(self.configs, prices)
        if bound <= self.bound:
            return False
        self.bound, self.proof = bound, prices
        self.note()
        return True

    def value_of(self, chosen: Ints) -> float:
        """Return the makespan in seconds of a choice of one configuration per job."""
        return float(self.configs.time_s[chosen].max())

    def test(self, time: float, thorough: bool) -> Ints | None:
        """Search for a plan with at most this makespan in seconds, or for a proof that none exists.

        Returns the configuration of each job; None without a plan, and with a proof the bound is above.
        """
        problem = self.problem.only(self.configs.time_s <= time)
        share, value, fitting = least_share(problem, self.share, self.clock)
        self.share = share
        if fitting is not None:
            return problem.configuration[fitting]
        if value > 1 and self.raise_bound(share) and self.bound > time:
            return None
        prices = per_unit(share, problem.limit)
        reduced = problem.reduced_costs(prices)
        repaired = _repair(problem, problem.choose(prices)[1], reduced)
        if repaired is not None:
            return problem.configuration[repaired]
        if not self.cores:
            return None
        # A plan may waste λ·C less the least priced demand; beyond that a reduced cost excludes.
        waste = float(prices @ problem.limit) - value
        return self.settle(problem, reduced, waste + SHARE_MARGIN, time, prices, thorough)

    def settle(
        self,
        problem: MultipleChoice,
        reduced: Floats,
        waste: float,
        time: float,
        prices: Floats,
        thorough: bool,
    ) -> Ints | None:
        """Solve core problems of growing size for a makespan, as `test`.

        Configurations of reduced cost beyond `waste` are in no plan.
        """
        size = FIRST_CORE
        while True:
            of_size = threshold(reduced, problem.jobs + size)
            complete = of_size >= waste
            core = problem.only(reduced <= min(of_size, waste))
            nodes = None if complete and thorough else NODES_OF_PARTIAL_CORE
            try:
                answer = solve_core(core, self.clock, self.options, nodes=nodes)
            except BackendError as error:
                self.message = f"a core was not solved, plan and bound are what is known without it: {error}"
                return None
            if answer.chosen is not None:
                return core.configuration[answer.chosen]
            if answer.limit not in ("none", "node"):
                self.limit = answer.limit
                return None
            if complete and answer.bound == math.inf:
                # No plan keeps `time`, so that none ends before the next completion time.
                after = int(np.searchsorted(self.times, time, side="right"))
                self.bound = float(self.times[after]) if after < len(self.times) else math.inf
                self.proof = prices
                self.note()
                return None
            if complete or not thorough:
                return None
            size *= CORE_GROWTH

    def break_ties(self, chosen: Ints) -> Ints:
        """Return configurations of no larger makespan and, if some are found, less total completion time."""
        whole = MultipleChoice.of(self.configs, self.configs.cost)
        problem = whole.only(self.configs.time_s <= self.value)
        prices = best_prices(problem, self.clock, TIE_TOLERANCE).prices
        items = round_prices(problem, prices, self.clock)
        if items is None:
            items = improve(problem, np.searchsorted(problem.configuration, chosen), prices, self.clock)
        return min((chosen, problem.configuration[items]), key=whole.value)


def even_share(limit: Floats) -> Floats:
    """Return equal price shares v_r, summing to 1, of the resources with a positive capacity, shape (R,)."""
    real = (limit > 0).astype(float)
    return real / max(1.0, float(real.sum()))


def per_unit(share: Floats, limit: Floats) -> Floats:
    """Return v_r / C_r, such as dual prices of shares v; 0 for a resource without capacity; shape (R,)."""
    return share / np.where(limit > 0, limit, np.inf)


def least_share(problem: MultipleChoice, share: Floats, clock: Clock) -> tuple[Floats, float, Ints | None]:
    """Return price shares v, the least share s(T) of the capacities that they prove, and any feasible choice.

    Returns
    -------
    share, value
        The best v that was found, and its s(T); above 1 no choice fits.
    chosen
        A choice that fits, if one was met.
    """
    limit_share = (problem.limit > 0).astype(float)
    best, value, uses = share, -math.inf, []
    for _ in range(MAX_ROUNDS):
        least, chosen = problem.choose(per_unit(share, problem.limit))
        now = math.fsum(least)
        if now > value:
            best, value = share, now
        if problem.fits(chosen):
            return best, value, chosen
        # Every choice is a linear piece of the concave function of which s(T) is the maximum.
        uses.append(per_unit(problem.take(chosen), problem.limit))
        if value > 1 + SHARE_MARGIN or clock.expired:
            break
        answer = maximize_cutting_planes(
            np.zeros(len(uses)), np.array(uses), 0.0 * limit_share, limit_share, 1.0
        )
        if answer is None or answer[1] <= value + SHARE_MARGIN:
            break
        share = np.maximum(answer[0], 0.0)
    return best, value, None


def _repair(problem: MultipleChoice, chosen: Ints, reduced: Floats) -> Ints | None:
    """Return a feasible choice by single-job moves that reduce overuse most, None if they reach none."""
    chosen = chosen.copy()
    near = np.arange(len(reduced))
    count = CONFIGURATIONS_IN_REPAIR + problem.jobs
    if len(near) > count:
        near = np.argpartition(reduced, count)[:count]
    owner = problem.owner_of(near)
    limit = np.where(problem.limit > 0, problem.limit, 1.0)
    use = problem.take(chosen)
    for _ in range(MAX_REPAIRS):
        over = float((np.maximum(use - problem.limit, 0.0) / limit).sum())
        if problem.fits(chosen):
            return chosen
        after = use + problem.demand[near] - problem.demand[chosen[owner]]
        score = (np.maximum(after - problem.limit, 0.0) / limit).sum(axis=1)
        best = int(score.argmin())
        if score[best] >= over * (1 - 1e-12):
            return None
        use = after[best]
        chosen[owner[best]] = near[best]
    return None


class AllocationExact(Solver[AllocationFormulation]):
    """Lagrangian bound, reduced-cost fixing and core problem, with a certificate that `verify` checks.

    Parameters
    ----------
    cores
        Without cores it is `lagrangian`: the Lagrangian bound, and a plan that is rounded from the dual
        prices, repaired and improved, without any integer program.
    rounds
        Of the search for placements on servers, for each job.
    """

    kinds = ("allocation",)
    features = frozenset({"warm_start"})

    def __init__(self, cores: bool = True, rounds: int = ROUNDS_PER_JOB) -> None:
        self.cores = self.proves = cores
        self.rounds = rounds
        self.name = "exact" if cores else "lagrangian"
        self.what = (
            "prices, fixing and a small core on HiGHS; proves up to a million jobs, with a certificate"
            if cores
            else "Lagrangian prices, rounding and local search; a certified bound, no integer program"
        )

    def solve(self, formulation: AllocationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the best plan found, a lower bound on its objective, dual prices and a certificate."""
        build_s = clock.elapsed_s
        if formulation.servers is not None:
            return JointSearch(formulation, options, clock, self.cores, self.rounds).run()
        search = MakespanSearch if formulation.is_makespan else TotalTimeSearch
        outcome = search(formulation, options, clock, self.cores).run()
        outcome.build_s = build_s
        return outcome


def certify(formulation: AllocationFormulation, outcome: Outcome, clock: Clock) -> None:
    """Add a certificate (dual prices and cutoff) of an outcome's bound, or of its infeasibility."""
    configs, claim = formulation.configurations, None if outcome.infeasible else outcome.bounds[0]
    if formulation.instance.objective == "total_completion_time":
        prices = best_prices(MultipleChoice.of(configs, configs.cost), clock).prices
    else:
        # A bound T on the makespan is proven by prices of the configurations that end before T.
        early = configs.time_s < (np.inf if claim is None else claim)
        if not configs.every_job_has(early):
            return  # a job that is later alone is proof enough
        problem = MultipleChoice.of(configs, np.zeros(len(early))).only(early)
        share, _, _ = least_share(problem, even_share(configs.limit), clock)
        prices = per_unit(share, configs.limit)
    outcome.certificate = certificate_of(configs.resources, prices, claim)


class AllocationBruteForce(BruteForce[AllocationFormulation]):
    """Complete enumeration of configurations, depth first; prunes by capacity and objective value."""

    kinds = ("allocation",)
    what = "every combination of configurations; tiny instances only"

    def enumerate(self, formulation: AllocationFormulation, search: Enumeration) -> None:
        """Enumerate all combinations of the jobs' configurations depth first, and keep the best."""
        refuse_many(len(formulation.instance.jobs), "jobs")
        configs, makespan = formulation.configurations, formulation.is_makespan
        jobs, limit = configs.jobs, configs.limit
        best_value, chosen = np.inf, [0] * jobs

        def extend(job: int, used: Any, value: float) -> None:
            nonlocal best_value
            # Costs only add up, so that no completion of this branch is better.
            if value >= best_value:
                return
            if job == jobs:
                plan = formulation.plan_of(chosen)
                best_value, search.best = value, (formulation.evaluate(plan), plan)
                return
            for k in configs.of(job):
                if search.over():
                    return
                after = used + configs.demand[k]
                if (after <= limit).all():
                    chosen[job] = k
                    extend(
                        job + 1, after, max(value, configs.time_s[k]) if makespan else value + configs.cost[k]
                    )

        extend(0, np.zeros(len(configs.resources)), 0.0)


def diagnose(formulation: AllocationFormulation, known: Diagnosis | None, clock: Clock) -> Diagnosis | None:
    """Return the known diagnosis, or the minimum extra capacity per resource that makes a plan feasible."""
    backend = BACKENDS["highs"]
    if known is not None or backend.unavailable():
        return known
    import pulp

    configs, problem = formulation.configurations, new_problem("elastic")
    check_model_size(formulation.model_terms, "the relaxed model")
    x = choice_variables(problem, configs)
    limits = configs.capacity.tolist()
    extra = [problem.add_variable(f"extra_{r}", lowBound=0) for r in range(len(limits))]
    for r, limit in enumerate(limits):
        check_time()
        terms = list(zip(x, configs.demand[:, r].tolist(), strict=True))
        problem += pulp.LpAffineExpression([*terms, (extra[r], -1.0)]) <= limit
    problem.objective = pulp.LpAffineExpression(
        [(more, 1 / max(limit, 1.0)) for more, limit in zip(extra, limits, strict=True)]
    )
    # Any solution that is found in time will do.
    values = backend.minimise(problem, SolveOptions(gap=1e-4), clock).values
    if values is None:
        return None
    missing = [
        (name, limit, values(more))
        for name, limit, more in zip(configs.resources, limits, extra, strict=True)
        if values(more) > 1e-6
    ]
    reasons = [
        f"{name}: {more:g} more than the {limit:g} there are would be needed" for name, limit, more in missing
    ]
    together = " and ".join(f"{name} to {limit + more:g}" for name, limit, more in missing)
    return Diagnosis(reasons=tuple(reasons), remedies=(f"raise {together}",)) if missing else None
