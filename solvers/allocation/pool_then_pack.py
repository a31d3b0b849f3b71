"""First the numbers of tasks, then the servers: Optimus' own way, and pooling with best fit.

Optimus (EuroSys'18, section 4.2) places jobs after their tasks are allocated, the smallest first. Servers are
sorted by what they have left, the most first; a job is on the fewest of the first servers on which its tasks
fit in equal numbers (theorem 1). Pooling allocates at least cost by total capacities, and places the largest
job first, each piece where it leaves least.

A job that does not fit any more takes the fastest of its other configurations that does. The paper lets it
wait; without such a configuration these methods have no plan.
"""

from __future__ import annotations

import numpy as np

from ...formulations.allocation.configurations import UNPLACED
from ...formulations.allocation.formulation import AllocationFormulation
from ...instances.common.arrays import Floats, Ints
from ..common.base import Clock, Outcome, PresolvingSolver, Solver
from ..common.result import SolveOptions
from .heuristics import choose_by_gain
from .joint import pooled_choice
from .placement_search import ABSENT, PlacementState
from .placements import Placements

ONLY_POOLS = "plans pooled resources, and this instance has servers; take exact, optimus or pool-then-pack"
ONLY_SERVERS = "places jobs on servers, and this instance has pooled resources; take exact"


class OnPools(PresolvingSolver[AllocationFormulation]):
    """Wrapper of a method that plans pooled resources, and refuses servers."""

    def solve(self, formulation: AllocationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Solve a pooled allocation; return a failed outcome with a message for one on servers."""
        if formulation.servers is not None:
            return Outcome(failed=True, message=f"{self.name} {ONLY_POOLS}")
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
        """Return the plan; none, and how many jobs are left over, where not all jobs can be placed."""
        if formulation.servers is None:
            return Outcome(failed=True, message=f"{self.name} {ONLY_SERVERS}")
        build_s = clock.elapsed_s
        chosen = (
            choose_by_gain(formulation, clock) if self.optimus else pooled_choice(formulation, options, clock)
        )
        if chosen is None:
            return Outcome(
                message=f"{self.name}: no allocation by total capacities was found", build_s=build_s
            )
        placements = Placements(formulation)
        rows = _rows_of_moves(formulation, placements, chosen)
        state = _fewest_and_equal(placements, rows) if self.optimus else placements.packed(rows)
        left_over = int((state.chosen == ABSENT).sum())
        state, rows = placements.completed(state, rows)
        absent = int((state.chosen == ABSENT).sum())
        message = None
        if left_over:
            message = (
                f"{self.name}: {left_over:,} of {len(state.chosen):,} jobs fit on no servers with the tasks they "
                f"got; {left_over - absent:,} of them have others, {absent:,} have none"
            )
        plan = None if absent else placements.plan_of(state, rows)
        return Outcome(plan, message=message, build_s=build_s)


def _rows_of_moves(formulation: AllocationFormulation, placements: Placements, chosen: Ints) -> Ints:
    """Return the rows with the tasks of chosen configurations, that of staying where there is one."""
    pooled, configs = formulation.configurations, placements.configs
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
    for j in np.argsort(demand, kind="stable").tolist():
        p, w = int(candidates.ps[j]), int(candidates.workers[j])
        order = np.argsort(-(state.free / whole).sum(axis=1), kind="stable")
        if placements.configs.variant[rows[j]] == UNPLACED:
            state.chosen[j] = j
            continue
        needed = int(candidates.split[j]) if candidates.measured[j] else 0
        for k in [needed] if needed else range(1, min(p + w, placements.most) + 1):
            piece = np.arange(k)
            x, y = p // k + (piece < p % k), w // k + (piece < w % k)
            taken: Floats = x[:, None] * candidates.per_ps[j] + y[:, None] * candidates.per_worker[j]
            if k <= len(order) and (taken <= state.free[order[:k]]).all():
                state.chosen[j], state.count[j] = j, k
                state.server[j, :k], state.ps[j, :k], state.workers[j, :k] = order[:k], x, y
                state.free[order[:k]] -= taken
                break
    return state
