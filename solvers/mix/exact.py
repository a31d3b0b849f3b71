"""`exact` for a mix: HiGHS on all configurations, then a branching tree as the proof.

HiGHS works with tolerances and says nothing of how it proves a bound. So its plan is the start of our own
branch and bound, which may improve it, and whose leaves the check verifies. The second objective has a tree
of its own: of requests with the cost as one more row, of jobs over the groups of a larger least progress.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from ...formulations.common.objective import TIE_TOLERANCE, Diagnosis, loosened
from ...formulations.mix.formulation import MixFormulation
from ...formulations.mix.plan import Plan
from ...formulations.mix.program import MixProgram, Row, devices_of, least_progress_of
from ...formulations.mix.service import plan_of
from ...instances.common.arrays import Ints
from ...instances.common.fields import Fields
from ..backends.highs import branch_and_bound
from ..common.base import Clock, Outcome, Solver
from ..common.result import Limit, SolveOptions
from .branching import BranchAndBound, Goal, Proof
from .relaxation import Relaxation, model_of
from .replaced import without_replaced

SEARCH_SHARE = 0.5
"""Share of the remaining time for HiGHS."""
STEP = 1e-6
"""Part of a device by which a bound has to exceed a number of them."""


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
        search.minimise(search.program)
        return search.outcome()


class MixSearch:
    """The search for the best plan of one instance, one objective after the other.

    Attributes
    ----------
    plan, values
        The incumbent and its objectives; None without one.
    """

    def __init__(self, formulation: MixFormulation, options: SolveOptions, clock: Clock) -> None:
        self.formulation, self.options, self.clock = formulation, options, clock
        self.program = without_replaced(formulation)
        self.names = list(formulation.configurations)
        self.sign = 1.0 if formulation.instance.serves else -1.0
        self.plan: Plan | None = None
        self.values: tuple[float, ...] | None = None

    def consider(self, plan: Plan | None) -> None:
        """Make a plan the incumbent if it is feasible and better."""
        if plan is None or self.formulation.violations(plan):
            return
        values = self.formulation.evaluate(plan)
        if self.values is None or self.formulation.precedes(values, self.values):
            self.plan, self.values = plan, values

    def consider_counts(self, counts: Ints) -> None:
        """Consider the plan with so many copies of each configuration, if they serve all requests."""
        chosen = {self.names[k]: int(counts[k]) for k in np.flatnonzero(counts).tolist()}
        self.consider(plan_of(self.formulation.instance, chosen))

    def minimise(self, program: MixProgram) -> None:
        """Consider the plan that HiGHS finds for a programme."""
        clock = self.clock.share(SEARCH_SHARE)
        values, _, _ = branch_and_bound(model_of(program, whole=True), {}, clock, self.options)
        if values is not None:
            self.consider_counts(np.round(values[: len(program.cost)]).astype(np.int64))

    def outcome(self) -> Outcome:
        """Return the incumbent with the bounds of both objectives, after proving them."""
        proof = self._proof(self.program, self._first_goal)
        certificate: Fields = {"first": proof.tree()}
        if self.plan is None or self.values is None:
            return Outcome(
                infeasible=math.isinf(proof.bound), limit=self._limit(proof), certificate=certificate
            )
        bounds: list[float | None] = [self.sign * min(proof.bound, self.sign * self.values[0])]
        gap = self.formulation.objectives[0].gap(self.values[0], bounds[0])
        if gap is not None and gap <= self.options.gap:
            second = self._fewest_devices() if self.formulation.instance.serves else self._least_progress()
            certificate |= second
            bounds += [self.values[1]] if second else []
        limit = "none" if len(bounds) > 1 else self._limit(proof)
        return Outcome(self.plan, bounds, limit=limit, certificate=certificate)

    def _limit(self, proof: Proof) -> Limit:
        """Return what stopped the search if it did not end by itself."""
        return "time" if self.clock.expired else "node" if proof.stopped else "none"

    def _first_goal(self) -> Goal:
        if self.values is None:
            return Goal()
        cutoff = self.sign * self.values[0]
        return Goal(cutoff, cutoff - self.options.gap / 2 * abs(cutoff))

    def _proof(self, program: MixProgram, goal_of: Callable[[], Goal]) -> Proof:
        """Return the proof of a programme, whose goal changes with the incumbent."""
        search = BranchAndBound(program, goal_of(), self.clock)

        def found(counts: Ints) -> Goal:
            self.consider_counts(counts)
            return goal_of()

        return search.run(found)

    def _fewest_devices(self) -> Fields:
        """Return the proof that no plan of the same cost takes fewer devices; nothing if there is none."""
        assert self.values is not None
        cost, devices = self.program.cost, devices_of(self.formulation.instance)
        program = replace(self.program, cost=devices).with_row(Row("cost", loosened(self.values[0])), cost)
        self.minimise(program)

        def goal() -> Goal:
            assert self.values is not None
            return Goal(self.values[1] - 1 + STEP, self.values[1] - 1 + STEP)

        proof = self._proof(program, goal)
        return {"second": proof.tree()} if proof.bound >= goal().target else {}

    def _least_progress(self) -> Fields:
        """Return the proof that no plan of as much progress has a larger least progress, if it is one."""
        least = least_progress_of(self.formulation.instance)
        while True:
            assert self.values is not None
            before = self.values
            cutoff = -before[0] + TIE_TOLERANCE * abs(before[0])
            program = replace(self.program, most=np.where(least > before[1], self.program.most, 0.0))
            proof = self._proof(program, partial(Goal, cutoff, math.nextafter(cutoff, math.inf)))
            if self.values == before:
                break
        return {"second": proof.tree(), "above": before[1]} if proof.bound > cutoff else {}


def certify(formulation: MixFormulation, outcome: Outcome, clock: Clock) -> None:
    """Add the proofs of our own branch and bound to the outcome of another method."""
    search = MixSearch(formulation, SolveOptions(), clock)
    search.consider(outcome.plan)
    outcome.certificate = search.outcome().certificate


def diagnose(formulation: MixFormulation, known: Diagnosis | None, clock: Clock) -> Diagnosis | None:
    """Return which limits and demands are in the way together, by the prices of the relaxation."""
    program = formulation.program
    relaxed = Relaxation(program).solve(np.zeros(len(program.cost)), program.most)
    if known is not None or clock.expired or not relaxed.infeasible:
        return known
    names = [*(row.name for row in program.rows), *(one.name for one in formulation.instance.types)]
    binding = dict.fromkeys(name for name, price in zip(names, relaxed.prices, strict=False) if price > 0)
    reason = f"no plan keeps all of these together: {', '.join(binding)}"
    return Diagnosis(reasons=(reason,), remedies=("raise one of the limits, or ask for less",))
