"""`exact` for a mix: HiGHS on all configurations, then a branching tree as the proof.

HiGHS works with tolerances and says nothing of how it proves a bound. So its plan is the start of our own
branch and bound, which may improve it, and whose leaves the check verifies. The second objective has a tree
of its own, over the plans that are better in it: of requests with one device fewer, of jobs with groups of a
larger least progress. It proves that all of them are worse in the first objective.
"""

from __future__ import annotations

import math
from contextlib import suppress
from functools import cached_property, partial

import numpy as np

from ...formulations.common.objective import TIE_TOLERANCE, Diagnosis
from ...formulations.mix.formulation import MixFormulation
from ...formulations.mix.plan import Plan
from ...formulations.mix.program import better_in_second, program_of
from ...instances.common.arrays import Ints
from ...instances.common.fields import Fields
from ...instances.mix.instance import BUDGET, DEVICES
from ..backends.base import BackendError
from ..backends.highs import branch_and_bound
from ..common.base import Clock, Outcome, Solver
from ..common.result import Limit, SolveOptions
from .baselines import BestFirst, CheapestForEachType, OneConfiguration
from .branching import BranchAndBound, Goal, Proof
from .relaxation import Relaxation, model_of

SEARCH_SHARE = 0.5
"""Share of the remaining time for HiGHS."""
RULES = (BestFirst(), OneConfiguration(), CheapestForEachType())


class MixExact(Solver[MixFormulation]):
    """Branch and bound with certificates, begun from HiGHS's plan."""

    name = "exact"
    kinds = ("mix",)
    proves = True
    features = frozenset({"warm_start"})
    what = "HiGHS on all configurations, and a branching tree as proof"

    def solve(self, formulation: MixFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the best plan with its bounds and certificate."""
        search = MixSearch(formulation, options, clock)
        if options.warm_start is not None:
            search.consider(formulation.parse_plan(options.warm_start))
        try:
            search.minimise()
            return search.outcome()
        except BackendError as error:  # the plan stays, with what counting proves
            return Outcome(search.plan, failed=search.plan is None, message=f"{self.name}: {error}")


class MixSearch:
    """The search for the best plan of one instance, one objective after the other.

    Attributes
    ----------
    plan, values
        The incumbent and its objectives; None without one.
    """

    def __init__(self, formulation: MixFormulation, options: SolveOptions, clock: Clock) -> None:
        self.formulation, self.options, self.clock = formulation, options, clock
        self.program = formulation.program
        self.sign = 1.0 if formulation.instance.serves else -1.0
        self.plan: Plan | None = None
        self.values: tuple[float, ...] | None = None

    @cached_property
    def _relaxation(self) -> Relaxation:
        return Relaxation(self.program)

    def consider(self, plan: Plan | None) -> None:
        """Make a plan the incumbent if it is feasible and better."""
        if plan is None or self.formulation.violations(plan):
            return
        values = self.formulation.evaluate(plan)
        if self.values is None or self.formulation.precedes(values, self.values):
            self.plan, self.values = plan, values

    def consider_counts(self, counts: Ints) -> None:
        """Consider the plan with so many copies of each configuration, if they serve all requests."""
        serves = self.formulation.instance.serves
        shares = self._relaxation.shares(counts.astype(float)) if serves else np.zeros(0)
        self.consider(None if shares is None else self.formulation.copies(counts.tolist(), shares.tolist()))

    def minimise(self) -> None:
        """Consider the plans of simple rules, and what HiGHS finds."""
        for rule in RULES:
            if rule.serves == self.formulation.instance.serves:
                self.consider(rule.plan(self.formulation))
        if not self.program.most.any():
            self.consider(())  # HiGHS knows no programme without columns
            return
        clock = self.clock.share(SEARCH_SHARE)
        values, _, _ = branch_and_bound(model_of(self.program, whole=True), {}, clock, self.options)
        if values is not None:
            self.consider_counts(np.round(values[: len(self.program.cost)]).astype(np.int64))

    def outcome(self) -> Outcome:
        """Return the incumbent with the bounds of both objectives, after proving them."""
        proof = BranchAndBound(self.program, self._first_goal, self.clock).run(self.consider_counts)
        certificate: Fields = {"first": proof.tree()}
        if self.plan is None or self.values is None:
            infeasible, limit = proof.bound == math.inf, self._limit(proof)
            return Outcome(infeasible=infeasible, limit=limit, certificate=certificate, message=proof.failure)
        bounds: list[float | None] = [self.sign * min(proof.bound, self.sign * self.values[0])]
        gap = self.formulation.objectives[0].gap(self.values[0], bounds[0])
        if gap is not None and gap <= self.options.gap:
            with suppress(BackendError):  # the proof of the first objective stays
                certificate |= self._second()
            bounds += [self.values[1]] if "second" in certificate else []
        limit = "none" if len(bounds) > 1 else self._limit(proof)
        return Outcome(self.plan, bounds, limit=limit, certificate=certificate, message=proof.failure)

    def _limit(self, proof: Proof) -> Limit:
        """Return what stopped the search if it did not end by itself."""
        return "time" if self.clock.expired else "node" if proof.stopped else "none"

    def _first_goal(self) -> Goal:
        if self.values is None:
            return Goal()
        cutoff = self.sign * self.values[0]
        return Goal(cutoff, cutoff - self.options.gap / 2 * abs(cutoff))

    def _second(self) -> Fields:
        """Return the proof that no plan as good is better in the second objective, if there is one."""
        while True:
            assert self.values is not None
            before = self.values
            cutoff = self.sign * before[0]
            cutoff += 2 * TIE_TOLERANCE * abs(cutoff)
            program = program_of(better_in_second(self.formulation.instance, before[1])).as_floats()
            goal_of = partial(Goal, cutoff, math.nextafter(cutoff, math.inf))
            proof = BranchAndBound(program, goal_of, self.clock).run(self.consider_counts)
            if self.values == before:
                return {"second": proof.tree()} if proof.bound > cutoff else {}


def certify(formulation: MixFormulation, outcome: Outcome, clock: Clock) -> None:
    """Add the proofs of our own branch and bound to the outcome of another method."""
    search = MixSearch(formulation, SolveOptions(), clock)
    search.consider(outcome.plan)
    with suppress(BackendError):  # the plan stays, with what counting proves
        outcome.certificate = search.outcome().certificate


def diagnose(formulation: MixFormulation, known: Diagnosis | None, clock: Clock) -> Diagnosis | None:
    """Return which limits and demands are in the way together, by the prices of the relaxation."""
    program = formulation.program
    if known is not None or clock.expired:
        return known
    relaxed = None
    with suppress(BackendError):  # that there is no plan stays
        relaxed = Relaxation(program).solve(np.zeros(len(program.cost)), program.most)
    if relaxed is None or not relaxed.infeasible:
        return None
    types = formulation.instance.types if formulation.instance.serves else ()
    units = {DEVICES: "devices", BUDGET: "USD/h"}
    asks = [f"serve {one.name}" for one in types]
    for name, sign, limit, _ in program.rows:
        asks.append(f"at most {limit:,.10g} {units.get(name, name)}" if sign > 0 else f"run all {name}")
    binding = dict.fromkeys(what for what, price in zip(asks, relaxed.prices, strict=True) if price > 0)
    reason = f"no plan keeps all of these together: {'; '.join(binding)}"
    return Diagnosis(reasons=(reason,), remedies=("raise one of the limits, or ask for less",))
