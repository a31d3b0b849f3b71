"""Candidates and plans of the search for placements: from configurations to arrays, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...formulations.allocation.configurations import BUDGET, UNPLACED, Configurations, formula_step_s
from ...formulations.allocation.formulation import AllocationFormulation
from ...formulations.allocation.placed_configurations import current_pieces, placed_configurations
from ...formulations.allocation.plan import JobAllocation
from ...formulations.allocation.splits import STAYS, sending_workers
from ...formulations.common.objective import all_loosened, loosened
from ...instances.allocation.job import Tasks
from ...instances.allocation.job_table import TABLE
from ...instances.common.arrays import Floats, Ints
from .placement_search import ABSENT, Candidates, PlacementState, insert_all

MAX_PIECES = 64
"""Most servers of one job that the search tries."""
LEFTOVER = 1e-3
"""Value of all that is left over, beside its dual prices, as a share of the cost of all jobs."""


class Placements:
    """Placements of an allocation on servers, in arrays.

    Parameters
    ----------
    widest
        Largest number of servers of a job in the plan to start from.

    Attributes
    ----------
    configs
        Configurations in which staying and moving with the same tasks are rows of their own.
    most
        Largest number of pieces of a job.
    """

    def __init__(self, formulation: AllocationFormulation, widest: int = 0) -> None:
        assert formulation.servers is not None
        self.formulation, self.servers = formulation, formulation.servers
        self.configs: Configurations = placed_configurations(
            formulation.instance, formulation.table, self.servers, {}
        )

        running = (current_pieces(formulation.instance, j) for j in range(self.configs.jobs))
        tasks = int((self.configs.ps + self.configs.workers).max(initial=1))
        fewest = max(widest, *(len(pieces or ()) for pieces in running))
        self.most = max(fewest, min(len(self.servers.names), MAX_PIECES, tasks))

    def rows_of(self, plan: Sequence[JobAllocation]) -> Ints:
        """Return the row of each job's configuration in a feasible plan."""
        configs, table = self.configs, self.formulation.table
        entries = {entry.job: entry for entry in plan}
        rows = []
        for j, name in enumerate(table.names):
            entry, own = entries[name], np.arange(configs.start[j], configs.start[j + 1])
            first = int(table.first_variant[j])
            names = [*table.variant_names[first : int(table.first_variant[j + 1])], None]
            variant = names.index(entry.variant) if entry.placed else UNPLACED
            same = (configs.variant[own] == variant) & (configs.ps[own] == entry.ps)
            same &= configs.workers[own] == entry.workers
            now = current_pieces(self.formulation.instance, j)
            stays = now is not None and dict(zip(entry.placement or {}, entry.pieces, strict=True)) == now
            assert configs.split is not None
            if entry.placed:
                is_table = table.model[first + variant] == TABLE
                counted = is_table & (configs.split[own] > 0) & (configs.split[own] != len(entry.pieces))
                same &= (configs.split[own] == STAYS) == stays
                same &= ~counted
            rows.append(int(own[np.flatnonzero(same)[0]]))
        return np.array(rows)

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
        owner = np.repeat(np.arange(configs.jobs), np.diff(start))
        placed = configs.variant[rows] != UNPLACED
        index = table.first_variant[owner] + np.where(placed, configs.variant[rows], 0)
        ps, workers, split = (c[rows].astype(np.int64) for c in (configs.ps, configs.workers, configs.split))
        measured = table.model[index] == TABLE
        formula = ~measured & placed & (split != STAYS)
        p, w, share = np.maximum(ps, 1), np.maximum(workers, 1), self.formulation.share
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
        flags, usd = measured.astype(np.int64), self._usd(rows)
        return Candidates(start, ps, workers, split, flags, base, slope, low, priced, demand, usd)

    def _usd(self, rows: Ints) -> Floats:
        """Return what configurations cost per hour; 0 where there is no budget."""
        if BUDGET not in self.configs.resources:
            return np.zeros(len(rows))
        usd: Floats = self.configs.demand[rows, self.configs.resources.index(BUDGET)]
        return usd

    @cached_property
    def current(self) -> tuple[Ints, Ints]:
        """Number of the pieces with which jobs run now, and the pieces."""
        empty = self.empty()
        for j in range(len(empty.count)):
            self._put(empty, j, current_pieces(self.formulation.instance, j) or {})
        return empty.count, empty.pieces

    def _put(self, state: PlacementState, j: int, placement: Mapping[str, tuple[int, int]]) -> None:
        """Write the pieces of a job into a state."""
        listed = [(self.servers.index[name], *tasks) for name, tasks in placement.items()]
        state.count[j] = len(listed)
        state.pieces[j, : len(listed)] = np.array(listed, np.int64).reshape(-1, 3)

    def empty(self) -> PlacementState:
        """Return the state in which no job is placed."""
        jobs = len(self.formulation.table)
        pieces = np.zeros((jobs, self.most, 3), np.int64)
        free, budget = all_loosened(self.servers.free), self.formulation.instance.budget_usd_per_hour
        usd = np.array([math.inf if budget is None else loosened(budget)])
        return PlacementState(np.full(jobs, ABSENT), np.zeros(jobs, np.int64), pieces, free, usd)

    def value(self, prices: Floats) -> Floats:
        """Return the value of what a server has left over, by resource; λ, and a little for all."""
        scale = np.maximum(self.servers.free.sum(axis=0), 1e-9)
        mean = float(self.configs.cost.mean()) * self.configs.jobs
        values: Floats = prices[: len(scale)] + LEFTOVER * mean / scale
        return values

    def state_of(self, plan: Sequence[JobAllocation], candidates: Candidates, chosen: Ints) -> PlacementState:
        """Return the state of a feasible plan, whose jobs have these candidates."""
        state, entries = self.empty(), {entry.job: entry for entry in plan}
        state.chosen[:] = chosen
        state.usd -= candidates.usd[chosen].sum()
        for j, name in enumerate(self.formulation.table.names):
            entry = entries[name]
            self._put(state, j, dict(zip(entry.placement or {}, entry.pieces, strict=True)))
            for s, *tasks in state.pieces[j, : state.count[j]].tolist():
                state.free[s] -= np.array(tasks) @ candidates.demand[chosen[j]]
        return state

    def plan_of(self, state: PlacementState, rows: Ints) -> tuple[JobAllocation, ...]:
        """Return the plan of a state in which every job is placed.

        Parameters
        ----------
        rows
            Row of the configuration of each candidate.
        """
        configs, table = self.configs, self.formulation.table
        plan = []
        for j, name in enumerate(table.names):
            k = rows[state.chosen[j]]
            if configs.variant[k] == UNPLACED:
                plan.append(JobAllocation(job=name, placed=False))
                continue
            pieces = state.pieces[j, : state.count[j]].tolist()
            placement = {self.servers.names[s]: Tasks(ps=x, workers=y) for s, x, y in pieces}
            variant = table.variant_names[int(table.first_variant[j] + configs.variant[k])]
            tasks: dict[str, Any] = {"ps": int(configs.ps[k]), "workers": int(configs.workers[k])}
            plan.append(JobAllocation(job=name, variant=variant, placement=placement, **tasks))
        return self.formulation.finish(tuple(plan))

    def packed(self, rows: Ints) -> PlacementState:
        """Return the state with one given configuration of each job: best fit, the largest job first.

        Jobs that stay come before all.
        """
        candidates = self.candidates(rows, np.arange(len(rows) + 1), np.zeros(0))
        state, value = self.empty(), self.value(np.zeros(self.servers.free.shape[1]))
        demand = self.configs.demand[rows][:, : len(value)] @ value
        order = np.lexsort((-demand, candidates.split != STAYS))
        insert_all(order, 1.0, candidates.arrays(), self.current, value, state.arrays())
        return state
