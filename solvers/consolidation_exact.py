"""`exact` for consolidation: classes, prices and whole numbers, then named servers where an objective asks.

Objective after objective: the linear relaxation of the class model, with every column that its prices ask
for, bounds the goal; whole numbers over the columns that were found reach that bound nearly always. The plan
is written back to named servers at the end and judged by the formulation, like any other.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..formulations.base import Formulation
from ..formulations.consolidation import ConsolidationFormulation, JobPlacement
from ..formulations.consolidation_certificate import LARGEST, MUST_PLACE, PRICED
from .base import Clock, Outcome, Solver
from .consolidation_master import Master, Prices
from .consolidation_program import Program, Whole
from .consolidation_write_back import WriteBack
from .options import SolveOptions
from .result import Limit

log = logging.getLogger("clusterplan")

ROUNDING = 1e-5
"""How far the linear relaxation may be off, in steps of the goal."""


@dataclass
class _Progress:
    """What is known so far.

    Attributes
    ----------
    bounds
        By goal, in steps.
    goals
        Prices of each goal, for the certificate.
    """

    whole: Whole | None = None
    bounds: dict[str, float] = field(default_factory=dict)
    goals: list[dict[str, Any]] = field(default_factory=list)
    infeasible: bool = False
    limit: Limit = "none"


class ConsolidationExact(Solver):
    """Proven placements on as many servers as a data centre has."""

    name = "exact"
    kinds = ("consolidation",)
    proves = True
    features = frozenset({"warm_start"})
    what = "classes of interchangeable servers and jobs, prices and whole numbers; certified"

    def solve(self, formulation: Formulation[Any, Any], options: SolveOptions, clock: Clock) -> Outcome:
        """Settle one objective after the other."""
        assert isinstance(formulation, ConsolidationFormulation)
        master = Master(formulation.classes)
        outcome = Outcome(build_s=clock.elapsed_s)
        program = Program(master, options, clock)
        progress = _Progress()
        for goal in self._goals(formulation):
            if not self._settle(program, goal, progress):
                break
        outcome.limit = progress.limit
        outcome.infeasible = progress.infeasible
        outcome.certificate = {"goals": progress.goals} if progress.goals else None
        if progress.whole is not None and not progress.infeasible:
            outcome.plan = WriteBack(master.classes, master.columns, progress.whole).plan(formulation)
        outcome.bounds = self._bounds(formulation, master, progress)
        return outcome

    @staticmethod
    def _goals(formulation: ConsolidationFormulation) -> list[str]:
        """Return the goals that depend on classes alone, up to the first objective that names servers."""
        goals = [MUST_PLACE] if any(job.must_place for job in formulation.classes.jobs) else []
        for name in formulation.instance.objectives:
            if name not in PRICED:
                break
            goals.append(name)
        return goals

    def _settle(self, program: Program, goal: str, progress: _Progress) -> bool:
        """Bound a goal and reach the bound; return whether later goals may follow."""
        master, clock = program.master, program.clock
        relaxed = program.relax(goal)
        if relaxed.prices is not None:
            progress.goals.append(_certified(master, goal, relaxed.prices))
        log.info("%s: relaxed %.6f with %d columns, %.2f s", goal, relaxed.value, len(master.columns), clock.elapsed_s)
        bound = math.ceil(relaxed.value - ROUNDING) if relaxed.complete else -math.inf
        progress.bounds[goal] = bound
        if goal == MUST_PLACE and bound > 0:
            progress.infeasible = True
            return False
        whole, found_bound, limit = program.whole(goal, bound, progress.whole)
        log.info("%s: bound %s, whole bound %s, %s, %.2f s", goal, bound, found_bound, limit, clock.elapsed_s)
        progress.limit = limit
        if whole is None:
            return False
        progress.whole = whole
        value = sum(c.counts.get(goal, 0.0) * n for c, n in zip(master.columns, whole.tolist(), strict=True))
        program.levels[goal] = round(value) if value == round(value) else value
        return True

    @staticmethod
    def _bounds(
        formulation: ConsolidationFormulation, master: Master, progress: _Progress
    ) -> list[float | None]:
        bounds: list[float | None] = []
        for objective in formulation.objectives:
            if objective.name not in progress.bounds or not math.isfinite(progress.bounds[objective.name]):
                break
            bound = float(progress.bounds[objective.name] * master.steps[objective.name])
            bounds.append(-bound if objective.sense == "max" else bound)
        return bounds


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
