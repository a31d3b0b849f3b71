"""First the numbers of tasks, then the servers: Optimus' own way, and pooling with best fit.

Optimus (EuroSys'18, section 4.2) places jobs after their tasks are allocated, the smallest first. Servers are
sorted by what they have left, the most first; a job is on the fewest of the first servers on which its tasks
fit in equal numbers (theorem 1). Pooling allocates at least cost by total capacities, and places the largest
job first, each piece where it leaves least.

Jobs that do not fit any more wait in the paper. To serve all of them, less of the capacities is allocated,
until all jobs fit on servers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...formulations.allocation.configurations import UNPLACED
from ...formulations.allocation.formulation import AllocationFormulation
from ...instances.common.errors import OptionError
from ..common.base import Clock, Outcome, PresolvingSolver, Solver
from ..common.result import SolveOptions
from .heuristics import choose_by_gain
from .joint import pooled_choice
from .placement_search import ABSENT
from .placements import Placements

SHARES = tuple(np.linspace(1, 0.4, 31).tolist())
"""Shares of the capacities that are allocated in turn."""
ONLY_POOLS = "plans pooled resources, and this instance has servers; take exact, optimus or pool-then-pack"
ONLY_SERVERS = "places jobs on servers, and this instance has pooled resources; take exact"


class OnPools(PresolvingSolver[AllocationFormulation]):
    """Wrapper of a method that plans pooled resources, and refuses servers."""

    def solve(self, formulation: AllocationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Solve a pooled allocation.

        Raises
        ------
        OptionError
            If the instance has servers.
        """
        if formulation.servers is not None:
            raise OptionError(f"{self.name} {ONLY_POOLS}")
        return self.method.solve(formulation, options, clock)


class PoolThenPack(Solver[AllocationFormulation]):
    """Allocation by total capacities, then placement.

    Parameters
    ----------
    optimus
        By marginal gains and theorem 1, as the paper; else at least cost, and best fit.
    """

    kinds = ("allocation",)

    def __init__(self, optimus: bool) -> None:
        self.optimus = optimus
        self.name = "optimus" if optimus else "pool-then-pack"
        self.what = (
            "the paper's way on servers: marginal gains, then the fewest servers and equal pieces (Optimus)"
            if optimus
            else "least cost by total capacities, then best fit on servers"
        )

    def solve(self, formulation: AllocationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Return the plan; none, and how many jobs are left over, where not all jobs can be placed.

        Raises
        ------
        OptionError
            If the instance has no servers.
        """
        if formulation.servers is None:
            raise OptionError(f"{self.name} {ONLY_SERVERS}")
        build_s = clock.elapsed_s
        placements, left_over = Placements(formulation), 0
        for share in SHARES:
            pool = _Pool(formulation, share)
            chosen = choose_by_gain(pool, clock) if self.optimus else pooled_choice(pool, options, clock)
            if chosen is None or clock.expired:
                break
            rows = pool.rows[chosen]
            state = placements.packed(rows, self.optimus)
            absent = int((state.chosen == ABSENT).sum())
            left_over = left_over or absent
            if not absent:
                jobs = "1 job fits" if left_over == 1 else f"{left_over:,} jobs fit"
                message = f"{jobs} on no servers; with {100 * share:.0f} % of the capacities all do"
                plan = placements.plan_of(state, rows)
                return Outcome(plan, message=message if left_over else None, build_s=build_s)
        what = f"{self.name}: {left_over:,} of {len(formulation.table):,} jobs fit on no servers"
        return Outcome(message=what, build_s=build_s, limit="time" if clock.expired else "none")


class _Pool(AllocationFormulation):
    """An allocation by total capacities, of which a share is allocated.

    Attributes
    ----------
    rows
        Of the configurations on servers: the fastest with each number of tasks.
    """

    def __init__(self, whole: AllocationFormulation, share: float) -> None:
        super().__init__(whole.instance)
        configs = whole.configurations
        last = np.where(configs.variant == UNPLACED, np.iinfo(np.int32).max, configs.variant)
        keys = np.stack([configs.ps, configs.workers, last, configs.owner])
        order = np.lexsort((configs.time_s, *keys))
        rows = order[np.any(np.diff(keys[:, order], axis=1, prepend=-1) != 0, axis=0)]
        smaller = replace(configs, capacity=share * configs.capacity, split=None)
        self.rows = rows[np.all(configs.demand[rows] <= smaller.limit, axis=1)]
        start = np.searchsorted(configs.owner[self.rows], np.arange(configs.jobs + 1))
        self.configurations = smaller.only(self.rows, start=start)
