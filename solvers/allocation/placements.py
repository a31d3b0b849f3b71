"""Candidates and plans of the search for placements: from configurations to arrays, and back."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from ...formulations.allocation.configurations import BUDGET, UNPLACED, formula_step_s
from ...formulations.allocation.formulation import AllocationFormulation
from ...formulations.allocation.plan import Plan
from ...formulations.allocation.splits import STAYS, sending_workers
from ...formulations.common.objective import all_loosened, loosened
from ...instances.allocation.job import Tasks
from ...instances.allocation.job_table import TABLE
from ...instances.common.arrays import Floats, Ints, run_of_each
from .placement_search import ABSENT, WAYS, Candidates, PlacementState, insert_all

MAX_PIECES = 64
"""Most servers of one job that the search tries."""
LEFTOVER = 1e-3
"""Value of all that is left over, beside its dual prices, as a share of the cost of all jobs."""


class Placements:
    """Placements of an allocation on servers, in arrays.

    Parameters
    ----------
    plan
        To start from: no job is on more servers than in it, than now, or than the search tries.
    """

    def __init__(self, formulation: AllocationFormulation, plan: Plan = ()) -> None:
        assert formulation.servers is not None
        self.formulation, self.servers = formulation, formulation.servers
        self.configs = formulation.configurations
        tasks = int((self.configs.ps + self.configs.workers).max(initial=1))
        widths = [*map(len, self.servers.current.values()), *(len(entry.placement or ()) for entry in plan)]
        self._most = max([min(len(self.servers.names), MAX_PIECES, tasks), *widths])

    def candidates(self, rows: Ints, start: Ints, prices: Floats) -> Candidates:
        """Return configurations as candidates of the search.

        Parameters
        ----------
        rows, start
            Rows of the table; those of job j are `start[j]` to `start[j + 1]`.
        prices
            λ of each resource, and of the budget if there is one.
        """
        configs, table = self.configs, self.formulation.table
        assert configs.split is not None
        owner = run_of_each(start)
        placed = configs.variant[rows] != UNPLACED
        index = table.first_variant[owner] + np.where(placed, configs.variant[rows], 0)
        ps, workers, split = (c[rows].astype(np.int64) for c in (configs.ps, configs.workers, configs.split))
        measured = table.model[index] == TABLE
        formula = ~measured & placed & (split != STAYS)
        p, w, share = np.maximum(ps, 1), np.maximum(workers, 1), self.servers.share
        # A step is linear in the remote tasks.
        steps = [
            formula_step_s(table, index, p, w, sending_workers(w, remote, share)) for remote in (w, w - 1)
        ]
        per_task = table.weight[owner] * table.remaining_steps[owner] * (steps[0] - steps[1])
        slope = np.where(formula, per_task, 0.0)
        low = configs.cost[rows]
        base = low - slope * np.where(formula, split, 0)
        demand = np.stack([table.ps_demand[index], table.worker_demand[index]], axis=1)
        priced = configs.demand[rows][:, : len(prices)] @ prices
        budget = [r for r, name in enumerate(configs.resources) if name == BUDGET]
        flags, usd = measured.astype(np.int64), configs.demand[rows][:, budget].sum(axis=1)
        return Candidates(start, ps, workers, split, flags, base, slope, low, priced, demand, usd)

    @cached_property
    def current(self) -> tuple[Ints, Ints]:
        """Number of the pieces with which jobs run now, and the pieces."""
        empty = self.empty()
        for j, pieces in self.servers.current.items():
            empty.number[j], empty.pieces[j, : len(pieces)] = len(pieces), pieces
        return empty.number, empty.pieces

    def empty(self) -> PlacementState:
        """Return the state in which no job is placed."""
        jobs = len(self.formulation.table)
        pieces = np.zeros((jobs, self._most, 3), np.int64)
        free, budget = all_loosened(self.servers.free), self.formulation.instance.budget_usd_per_hour
        usd = np.array([math.inf if budget is None else loosened(budget)])
        return PlacementState(np.full(jobs, ABSENT), np.zeros(jobs, np.int64), pieces, free, usd)

    def value(self, prices: Floats) -> Floats:
        """Return the value of what a server has left over, by resource; λ, and a little for all."""
        scale = np.maximum(self.servers.free.sum(axis=0), 1e-9)
        mean = float(self.configs.cost.mean()) * self.configs.jobs
        values: Floats = prices[: len(scale)] + LEFTOVER * mean / scale
        return values

    def state_of(self, plan: Plan, candidates: Candidates, chosen: Ints) -> PlacementState:
        """Return the state of a feasible plan in the order of the jobs, which have these candidates."""
        state = self.empty()
        state.chosen[:] = chosen
        state.usd[0] -= candidates.usd[chosen].sum()
        for j, entry in enumerate(plan):
            pieces = np.array(self.servers.pieces(entry.placement), np.int64).reshape(-1, 3)
            state.number[j], state.pieces[j, : len(pieces)] = len(pieces), pieces
            state.free[pieces[:, 0]] -= pieces[:, 1:] @ candidates.demand[chosen[j]]
        return state

    def plan_of(self, state: PlacementState, rows: Ints) -> Plan:
        """Return the plan of a state in which every job is placed.

        Parameters
        ----------
        rows
            Row of the configuration of each candidate.
        """
        plan = []
        for j, entry in enumerate(self.formulation.plan_of(rows[state.chosen])):
            pieces = state.pieces[j, : state.number[j]].tolist()
            placement = {self.servers.names[s]: Tasks(ps=x, workers=y) for s, x, y in pieces}
            # A job that is not placed has no pieces; the time depends on those that there are.
            plan.append(entry.model_copy(update={"placement": placement or None, "completion_s": None}))
        return self.formulation.finish(tuple(plan))

    def packed(self, rows: Ints, optimus: bool) -> PlacementState:
        """Return the state with one given configuration of each job, placed one after the other.

        Jobs that stay come before all.

        Parameters
        ----------
        optimus
            The smallest job first, in equal pieces on the fewest servers, those with the most left; else the
            largest job first, where it leaves least.
        """
        candidates = self.candidates(rows, np.arange(len(rows) + 1), np.zeros(0))
        state, whole = self.empty(), np.maximum(self.servers.free.max(axis=0, initial=0.0), 1e-300)
        size = (self.configs.demand[rows][:, : len(whole)] / whole).max(axis=1)
        value, ways, size = (-1 / whole, 1, size) if optimus else (self.value(0 * whole), WAYS, -size)
        order = np.lexsort((size, candidates.split != STAYS))
        insert_all(order, candidates, self.current, value, state, ways)
        return state
