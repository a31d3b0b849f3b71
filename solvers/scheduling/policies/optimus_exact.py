"""Optimus with a proven allocation in place of marginal gains.

At every interval the jobs that Optimus would serve get the configurations that minimise what it looks at,
such as the weighted sum of remaining times if each kept what it gets: an instance of allocation, solved to
proven optimality by the exact method of that kind, which the registry hands over. Who is served stays
Optimus's decision, so that the two policies differ in nothing but the allocation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....formulations.registry import formulate
from ....instances.common.arrays import Floats, Ints
from ....instances.registry import KINDS
from ...common.base import Clock, Solver
from ...common.options import SolveOptions
from .optimus import SOONEST_S, Optimus

PROVEN = 1e-6
"""The relative gap at which an allocation counts as proven."""
VARIANT = "row"
Allocate = Callable[[Sequence[tuple[float, Floats, Floats]], Floats], tuple[list[int], bool]]
"""Weight of each job, costs and usages of its configurations, and what there is → index for each; proven?"""


class OptimusExact(Optimus):
    """Serves whom Optimus serves, with the best configurations together.

    Parameters
    ----------
    allocate
        Returns the configuration of each job that makes the weighted sum of the costs least.
    round_s, settings
        As of `Optimus`.
    """

    def __init__(self, allocate: Allocate, round_s: float, **settings: Any) -> None:
        super().__init__(round_s, **settings)
        self._allocate = allocate
        self._intervals = self._proven = 0

    def enlarged(self, jobs: Ints, rows: Ints, free: Floats) -> Ints:
        """Return the configurations of an optimal allocation."""
        seen = self.seen
        if not len(jobs):
            return rows
        # The least configurations may take more than is free, by the tolerance.
        there = np.maximum(free, 0.0) + seen.usage[rows].sum(axis=0)
        own = [self._useful(j, there) for j in jobs.tolist()]
        if all(len(menu) == 1 for menu in own):
            return np.array([menu[0] for menu in own])
        menus = [
            (float(seen.weight[j]), self.costs(j, menu), seen.usage[menu])
            for j, menu in zip(jobs.tolist(), own, strict=True)
        ]
        chosen, proven = self._allocate(menus, there)
        self._intervals += 1
        self._proven += proven
        return np.array([menu[k] for menu, k in zip(own, chosen, strict=True)])

    def summary(self) -> str:
        """Return how many of the allocations are proven optimal."""
        if not self._intervals:
            return "no job had a choice of configurations, so that there was nothing to allocate"
        return f"{self._proven:,} of {self._intervals:,} allocations are proven optimal"

    def _useful(self, j: int, there: Floats) -> Ints:
        """Return the rows that fit, less those that take no less than another and are no faster."""
        seen = self.seen
        own = seen.rows_of(j)
        own = own[(seen.usage[own] <= there * (1 + PROVEN)).all(axis=1)]
        own = own[np.lexsort((self.shares(seen.usage[own]), -seen.speed[own]))]
        kept: list[int] = []
        for row in own.tolist():
            if not any((seen.usage[other] <= seen.usage[row]).all() for other in kept):
                kept.append(row)
        return np.array(kept)


def allocation_by(solver: Solver[Any], kind: str) -> Allocate:
    """Return how the exact method of a kind of allocation chooses configurations.

    Parameters
    ----------
    solver, kind
        From the registry, which alone knows other kinds.
    """

    def allocate(menus: Sequence[tuple[float, Floats, Floats]], there: Floats) -> tuple[list[int], bool]:
        names = [f"r{r}" for r in range(len(there))]
        document = {
            "name": "interval",
            "resources": dict(zip(names, there.tolist(), strict=True)),
            "jobs": [
                {
                    "name": f"{k}",
                    "weight": weight,
                    "remaining_steps": 1,
                    "variants": _variants(np.maximum(times, SOONEST_S), usage, names),
                }
                for k, (weight, times, usage) in enumerate(menus)
            ],
        }
        formulation = formulate(KINDS[kind].model.model_validate(document))
        outcome = solver.solve(formulation, SolveOptions(), Clock())
        plan = outcome.plan or ()
        by_name = {entry.job: int(entry.variant.removeprefix(VARIANT)) for entry in plan}
        value = formulation.evaluate(plan)[0]
        bound = outcome.bounds[0] if outcome.bounds else None
        proven = bound is not None and value - bound <= PROVEN * value
        return [by_name[f"{k}"] for k in range(len(menus))], proven

    return allocate


def _variants(times: Floats, usage: Floats, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return one variant for each configuration, whose only worker takes all of it."""
    return [
        {
            "name": f"{VARIANT}{k}",
            "worker_demand": dict(zip(names, amounts, strict=True)),
            "speed": {"model": "table", "rows": [{"workers": 1, "steps_per_s": 1 / time}]},
        }
        for k, (time, amounts) in enumerate(zip(times.tolist(), usage.tolist(), strict=True))
    ]
