"""First the numbers of tasks, then the servers: Optimus' own way, and pooling with best fit.

Optimus (EuroSys'18, section 4.2) places jobs after their tasks are allocated, the smallest first. Servers are
sorted by what they have left, the most first; a job is on the fewest of the first servers on which its tasks
fit in equal numbers (theorem 1). Pooling allocates at least cost by total capacities, and places the largest
job first, each piece where it leaves least.

Jobs that do not fit any more wait in the paper. To serve all of them, less of the capacities is allocated,
until all jobs fit on servers.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...formulations.allocation.configurations import UNPLACED, Configurations
from ...formulations.allocation.formulation import AllocationFormulation
from ...formulations.allocation.splits import STAYS
from ...instances.common.arrays import Floats, Ints
from ...instances.common.errors import OptionError
from ..common.base import Clock, Outcome, PresolvingSolver, Solver
from ..common.result import SolveOptions
from .heuristics import choose_by_gain
from .joint import pooled_choice
from .placement_search import ABSENT, PlacementState
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
            pool = formulation if share == 1 else _SmallerPool(formulation, share)
            chosen = choose_by_gain(pool, clock) if self.optimus else pooled_choice(pool, options, clock)
            if chosen is None or clock.expired:
                break
            rows = _rows_of_moves(pool.configurations, placements.configs, chosen)
            state = _fewest_and_equal(placements, rows) if self.optimus else placements.packed(rows)
            absent = int((state.chosen == ABSENT).sum())
            left_over = left_over or absent
            if not absent:
                jobs = "1 job fits" if left_over == 1 else f"{left_over:,} jobs fit"
                message = f"{jobs} on no servers; with {100 * share:.0f} % of the capacities all do"
                plan = placements.plan_of(state, rows)
                return Outcome(plan, message=message if left_over else None, build_s=build_s)
        what = f"{self.name}: {left_over:,} of {len(formulation.table):,} jobs fit on no servers"
        return Outcome(message=what, build_s=build_s, limit="time" if clock.expired else "none")


class _SmallerPool(AllocationFormulation):
    """An allocation of which a share of the capacities is allocated."""

    def __init__(self, whole: AllocationFormulation, share: float) -> None:
        super().__init__(whole.instance)
        self._whole, self._share = whole, share

    @cached_property
    def configurations(self) -> Configurations:
        """The configurations that fit in the share."""
        configs = self._whole.configurations
        return configs.within(configs.capacity * self._share)


def _rows_of_moves(pooled: Configurations, configs: Configurations, chosen: Ints) -> Ints:
    """Return the fastest rows of `configs` with the tasks of chosen rows of the pool."""
    rows = []
    for j, k in enumerate(chosen.tolist()):
        own = slice(int(configs.start[j]), int(configs.start[j + 1]))
        same = np.ones(own.stop - own.start, dtype=bool)
        for column in ("variant", "ps", "workers"):
            same &= getattr(configs, column)[own] == getattr(pooled, column)[k]
        places = own.start + np.flatnonzero(same)
        rows.append(int(places[np.argmin(configs.time_s[places])]))
    return np.array(rows)


def _fewest_and_equal(placements: Placements, rows: Ints) -> PlacementState:
    """Return the state in which each job is on the fewest of the emptiest servers, in equal pieces."""
    candidates = placements.candidates(rows, np.arange(len(rows) + 1), np.zeros(0))
    state, whole = placements.empty(), np.maximum(placements.servers.free.max(axis=0), 1e-300)
    demand = (placements.configs.demand[rows][:, : len(whole)] / whole).max(axis=1)
    count, current = placements.current
    for j in np.lexsort((demand, candidates.split != STAYS)).tolist():
        p, w = int(candidates.ps[j]), int(candidates.workers[j])
        order = np.argsort(-(state.free / whole).sum(axis=1), kind="stable")
        if placements.configs.variant[rows[j]] == UNPLACED:
            state.chosen[j] = j
            continue
        needed = max(0, int(candidates.split[j])) if candidates.measured[j] else 0
        for k in [needed] if needed else range(1, min(p + w, placements.most) + 1):
            piece = np.arange(min(k, len(order)))
            x, y = p // k + (piece < p % k), w // k + (piece < w % k)
            pieces = np.stack([order[: len(piece)], x, y], axis=1)
            if candidates.split[j] == STAYS:
                pieces = current[j, : count[j]]
            taken: Floats = pieces[:, 1:] @ candidates.demand[j]
            whole_job = pieces[:, 1:].sum() == p + w and pieces[:, 1:].any(axis=1).all()
            if whole_job and (taken <= state.free[pieces[:, 0]]).all():
                state.chosen[j], state.count[j] = j, len(pieces)
                state.pieces[j, : len(pieces)] = pieces
                state.free[pieces[:, 0]] -= taken
                break
    return state
