"""`exact` for consolidation: classes, prices and whole numbers; named servers only where an objective asks.

Objective after objective, as far as they depend on classes alone: the linear relaxation of the class model,
with every column that its prices ask for, bounds the goal, and whole numbers over the columns found so far
reach that bound nearly always. The plan is written back to named servers. Racks, migrations and traffic name
servers, so from the first of them on the model with named servers goes on from that plan, with what is
settled kept. At the end every objective that has prices gets them, for the check to derive its bound again.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..formulations.base import Formulation
from ..formulations.consolidation import ConsolidationFormulation, JobPlacement
from ..formulations.consolidation_certificate import LARGEST, MUST_PLACE, PRICED
from ..instances.errors import TooLargeError
from . import consolidation_named
from .base import Clock, Outcome, Solver
from .best_fit import BestFit
from .consolidation_master import Master, Prices
from .consolidation_program import Program, Relaxed, Whole
from .consolidation_read_in import read_in
from .consolidation_write_back import WriteBack
from .options import SolveOptions
from .result import Limit

log = logging.getLogger("clusterplan")

CLOSE = 1e-9
"""Values this close, relatively, are the same."""
SHARE = 0.5
"""Of the time that is left, for one step."""
PATIENCE_S = 10.0
"""Seconds for a first plan one job after the other."""


@dataclass
class _Progress:
    """What is known so far.

    Attributes
    ----------
    bounds
        Of each objective that was looked at, in its own terms.
    goals
        Prices of each goal, for the certificate.
    read_in
        Whether the plan is not one of the class model.
    """

    plan: Sequence[JobPlacement] | None = None
    bounds: list[float | None] = field(default_factory=list)
    goals: list[dict[str, Any]] = field(default_factory=list)
    infeasible: bool = False
    read_in: bool = False
    limit: Limit = "none"
    notes: list[str] = field(default_factory=list)


class ConsolidationExact(Solver):
    """Proven placements on as many servers as a data centre has."""

    name = "exact"
    kinds = ("consolidation",)
    proves = True
    features = frozenset({"warm_start"})
    what = "classes of interchangeable servers and jobs, prices and whole numbers; certified"

    def solve(self, formulation: Formulation[Any, Any], options: SolveOptions, clock: Clock) -> Outcome:
        """Settle one objective after the other, then find prices for the certificate."""
        assert isinstance(formulation, ConsolidationFormulation)
        progress = _Progress()
        if options.warm_start is not None:
            progress.plan = formulation.parse_plan(options.warm_start)
            progress.read_in = True
        run = _Run(formulation, options, clock, progress)
        build_s = run.by_classes()
        run.by_size()
        if not progress.infeasible:
            run.by_names()
            run.certify()
            if len(run.proven()) == len(formulation.objectives):
                progress.limit = "none"
        outcome = Outcome(
            None if progress.infeasible else progress.plan,
            progress.bounds,
            limit=progress.limit,
            infeasible=progress.infeasible,
            build_s=build_s,
            message="; ".join(progress.notes) or None,
            certificate={"goals": progress.goals} if progress.goals else None,
        )
        if outcome.plan is not None:
            outcome.prices = formulation.prices(outcome.certificate, outcome.plan)
        return outcome


class _Run:
    """One solve; the phases leave what they find in the progress."""

    def __init__(
        self,
        formulation: ConsolidationFormulation,
        options: SolveOptions,
        clock: Clock,
        progress: _Progress,
    ) -> None:
        self.formulation, self.options, self.clock, self.progress = formulation, options, clock, progress
        self.master: Master | None = None
        self.levels: dict[str, float] = {}

    def by_classes(self) -> float:
        """Settle the first objectives, those that depend on classes alone; return the seconds of building."""
        progress, formulation = self.progress, self.formulation
        try:
            master = self.master = Master(formulation.classes)
            if progress.plan is not None:
                read_in(formulation, master, progress.plan)
        except TooLargeError as error:
            progress.notes.append(f"without classes: {error}")
            return self.clock.elapsed_s
        build_s = self.clock.elapsed_s
        program = Program(master, self.options, self.clock)
        goals: list[str] = list(formulation.instance.objectives)
        named = next((i for i, name in enumerate(goals) if name not in PRICED), len(goals))
        goals = goals[:named]
        if any(job.must_place for job in formulation.classes.jobs):
            goals.insert(0, MUST_PLACE)
        elif not goals:
            goals = [MUST_PLACE]  # nothing to settle, but a first plan
        whole: Whole | None = None
        for goal in goals:
            whole = self._settle(program, goal, whole)
            if whole is None or progress.infeasible:
                break
        if whole is not None and not progress.infeasible:
            self._offer(WriteBack(master.classes, master.columns, whole).plan(formulation))
        return build_s

    def by_size(self) -> None:
        """Place the jobs one after the other, where the class model has no plan."""
        if self.progress.plan is None and not self.progress.infeasible:
            patience = Clock(
                PATIENCE_S if self.clock.remaining_s is None else max(1.0, self.clock.remaining_s)
            )
            plan = BestFit().solve(self.formulation, SolveOptions(), patience).plan
            if plan is not None:
                self._offer(plan)
                self.progress.read_in = True
                self.progress.notes.append("a first plan by best-fit")

    def _settle(self, program: Program, goal: str, start: Whole | None) -> Whole | None:
        """Bound a goal and reach the bound; return the solution, or None where there is no time for one."""
        master, progress = program.master, self.progress
        program.clock = self._share()
        relaxed = program.relax(goal)
        bound = master.rounded(goal, relaxed.bound)
        if goal == MUST_PLACE and relaxed.prices is not None and bound > 0:
            progress.goals = [_certified(master, goal, relaxed.prices)]
            progress.infeasible = True
            return None
        if goal != MUST_PLACE and relaxed.prices is not None:
            progress.goals.append(_certified(master, goal, relaxed.prices))
        program.clock = self._share()
        whole, limit = program.whole(goal, bound, start)
        if whole is not None and relaxed.prices is not None and limit == "none":
            whole, bound, limit = self._close(program, goal, relaxed, bound, whole)
        progress.limit = limit if limit != "none" else progress.limit
        if goal != MUST_PLACE:
            known = float(bound * master.steps[goal]) + master.classes.offset(goal)
            progress.bounds.append((-known if goal == "value" else known) if math.isfinite(bound) else None)
        if whole is None:
            return None
        value = master.counted(goal, whole)
        log.info("%s: bound %g, reached %g with %d columns", goal, bound, value, len(master.columns))
        program.levels[goal] = value
        return whole

    def _share(self) -> Clock:
        """Return the time that one step may take, so that some is left for the others."""
        left = self.clock.remaining_s
        return Clock(None if left is None else SHARE * left)

    def _close(
        self, program: Program, goal: str, relaxed: Relaxed, bound: float, whole: Whole
    ) -> tuple[Whole, float, Limit]:
        """Where whole numbers did not reach the bound, add every column that a better solution may use."""
        master = program.master
        value = master.counted(goal, whole)
        while value > bound + CLOSE * abs(value) and not self.clock.expired:
            assert relaxed.prices is not None
            step = 1.0 if master.whole[goal] else 0.0
            if not master.complete(goal, relaxed.prices, value - step - relaxed.bound):
                break
            better, limit = program.whole(goal, bound, None, most=value - step)
            if limit != "none":
                return whole if better is None else better, bound, limit
            if better is None or master.counted(goal, better) >= value:
                return whole, value, "none"
            whole, value = better, master.counted(goal, better)
        return whole, bound, "none"

    def _offer(self, plan: Sequence[JobPlacement]) -> None:
        """Keep a plan if it is feasible and better than the one there is."""
        if self.formulation.violations(plan):
            self.progress.notes.append("a plan of the class model could not be written back")
            return
        best = self.progress.plan
        if best is None or _precedes(self.formulation, plan, best):
            self.progress.plan = plan

    def by_names(self) -> None:
        """Go on with named servers from the first objective that is not proven."""
        progress, formulation = self.progress, self.formulation
        settled = self.proven()
        if len(settled) == len(formulation.objectives) or self.clock.expired:
            return
        name = formulation.objectives[len(settled)].name
        try:
            found = consolidation_named.solve(formulation, progress.plan, settled, self.options, self.clock)
        except TooLargeError as error:
            progress.notes.append(f"{name} and what follows are not proven: {error}")
            return
        progress.notes.append(f"{name} and what follows by the model with named servers")
        progress.limit = found.limit
        progress.infeasible = found.infeasible
        if found.plan is not None and not formulation.violations(found.plan):
            self._offer(found.plan)
            progress.read_in = True
            both = itertools.zip_longest(progress.bounds, found.bounds)
            progress.bounds = [
                objective.tighter(known, more)
                for objective, (known, more) in zip(formulation.objectives, both, strict=False)
            ]

    def proven(self) -> list[float]:
        """Return the values of the first objectives of the plan, as far as bounds prove them."""
        plan, formulation = self.progress.plan, self.formulation
        if plan is None:
            return []
        proven = []
        for objective, value, bound in zip(
            formulation.objectives, formulation.evaluate(plan), self.progress.bounds, strict=False
        ):
            gap = objective.gap(value, bound)
            if value != bound and (gap is None or gap > self.options.gap):
                break
            proven.append(value)
        return proven

    def certify(self) -> None:
        """Find prices for every objective that has any and none yet."""
        progress = self.progress
        if self.master is not None and progress.plan is not None:
            if progress.read_in:
                read_in(self.formulation, self.master, progress.plan)
            values = self.formulation.evaluate(progress.plan)
            progress.goals = certified_goals(
                self.formulation, self.master, values, self.options, self.clock, progress.goals
            )


def certified_goals(
    formulation: ConsolidationFormulation,
    master: Master,
    values: Sequence[float],
    options: SolveOptions,
    clock: Clock,
    known: Sequence[dict[str, Any]] = (),
) -> list[dict[str, Any]]:
    """Return prices for every objective that has any, with what a plan reaches in the earlier ones kept.

    Parameters
    ----------
    known
        Prices that there are already.
    """
    goals = {goal["objective"]: goal for goal in known}
    program = Program(master, options, clock)
    program.levels[MUST_PLACE] = 0.0
    for objective, value in zip(formulation.objectives, values, strict=True):
        if objective.name not in PRICED:
            continue
        if objective.name not in goals and not clock.expired:
            relaxed = program.relax(objective.name)
            if relaxed.prices is not None:
                goals[objective.name] = _certified(master, objective.name, relaxed.prices)
        least = (value - master.classes.offset(objective.name)) * (-1 if objective.sense == "max" else 1)
        program.levels[objective.name] = least / float(master.steps[objective.name])
    return list(goals.values())


def infeasibility(master: Master, options: SolveOptions, clock: Clock) -> list[dict[str, Any]]:
    """Return prices that prove that not all jobs that must be placed can be; nothing if there are none."""
    relaxed = Program(master, options, clock).relax(MUST_PLACE)
    if relaxed.prices is None or master.rounded(MUST_PLACE, relaxed.bound) <= 0:
        return []
    return [_certified(master, MUST_PLACE, relaxed.prices)]


def _precedes(
    formulation: ConsolidationFormulation, a: Sequence[JobPlacement], b: Sequence[JobPlacement]
) -> bool:
    """Return whether plan `a` comes before `b` in the lexicographic order of the objectives."""
    for objective, x, y in zip(
        formulation.objectives, formulation.evaluate(a), formulation.evaluate(b), strict=True
    ):
        if objective.better(x, y) or objective.better(y, x):
            return objective.better(x, y)
    return False


def _certified(master: Master, goal: str, prices: Prices) -> dict[str, Any]:
    """Return the prices of a goal in the units of its objective, as the certificate has them."""
    step = float(master.steps[goal])
    return {
        "objective": goal,
        "prices": [[min(float(p) * step, LARGEST) for p in kind] for kind in prices.pieces],
        "multipliers": {
            name: min(price * step / float(master.steps[name]), LARGEST)
            for name, price in prices.earlier.items()
            if name != MUST_PLACE and price > 0
        },
    }
