"""What prices leave open in one interval of the stage time, as a small flow problem on HiGHS.

Columns are the runs that may still be part of a plan below the cutoff. One unit flows from the first layer to
the last; where neighbours have to differ in type, those of a type that end before a layer and those that
begin at it are together no more than all that end there, which says the same for whole flows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...instances.common.arrays import Floats, Ints
from ..backends.highs_mip import branch_and_bound
from ..common.base import Clock
from ..common.options import SolveOptions
from ..common.result import Limit
from .intervals import Cell, Runs

BOUND_ERROR = 1e-6
"""How far the bound of HiGHS may be off, where a plan costs some thousands."""
MOST_COLUMNS = 20_000
"""Larger cores are not tried."""


@dataclass(frozen=True)
class Core:
    """The runs that are left.

    Attributes
    ----------
    run
        Place of each.
    complete
        Whether what is left out reaches the cutoff.
    """

    run: Ints
    complete: bool = True

    def __len__(self) -> int:
        return len(self.run)


@dataclass(frozen=True)
class CoreAnswer:
    """What was found out about a core.

    Attributes
    ----------
    path
        Runs of the cheapest chain within the limits, None if none was found.
    bound
        No chain of the core costs less; infinite if none keeps the limits.
    """

    path: Ints | None
    bound: float
    limit: Limit = "none"


def core_of(runs: Runs, cell: Cell, prices: Floats, cutoff: float, most: int | None = None) -> Core:
    """Return the runs whose cheapest priced chain stays below the cutoff.

    Parameters
    ----------
    most
        If there are more, only so many with the cheapest chains: enough to find a plan, but not to prove
        that there is none.
    """
    weight = runs.weight(cell, prices)[None]
    _, reach = runs.chain.forward(weight)
    value = (runs.chain.beside(weight, reach) + weight)[0] - float(prices @ runs.rows.limit)
    near = np.flatnonzero(value < cutoff)
    if most is not None and len(near) > most:
        return Core(near[np.argpartition(value[near], most)[:most]], complete=False)
    return Core(near)


def solve_core(
    runs: Runs,
    cell: Cell,
    core: Core,
    cutoff: float,
    options: SolveOptions,
    clock: Clock,
    gap: float = 0.0,
) -> CoreAnswer:
    """Find the cheapest chain of a core within the limits.

    Parameters
    ----------
    cutoff
        Dearer chains are of no interest.
    gap
        Relative distance between chain and bound that is good enough.
    """
    if not len(core):
        return CoreAnswer(None, math.inf)
    cost, units = cell.cost[core.run], cell.units[core.run]
    reference = cutoff if math.isfinite(cutoff) else float(cost.sum())
    unit = 2.0 ** math.ceil(math.log2(reference / 4096)) if reference > 0 else 1.0
    model = _model(runs, core, cost / unit, units)
    settings = {"mip_abs_gap": 1e-9, "mip_rel_gap": gap}
    if math.isfinite(cutoff):
        settings["objective_bound"] = cutoff / unit + 2 * BOUND_ERROR
    values, bound, limit = branch_and_bound(model, settings, clock, options)
    if bound == math.inf:
        return CoreAnswer(None, cutoff, limit)
    lowest = unit * (bound - BOUND_ERROR)
    if values is None:
        return CoreAnswer(None, lowest, limit)
    chosen = core.run[values > 0.5]
    return CoreAnswer(chosen[np.argsort(runs.chain.first[chosen])], lowest, limit)


def _model(runs: Runs, core: Core, cost: Floats, units: Floats) -> Any:
    """Return the flow problem."""
    import highspy
    from scipy import sparse

    chain, rows = runs.chain, runs.rows
    first, after, kind = chain.first[core.run], chain.last[core.run] + 1, chain.kind[core.run]
    columns = np.arange(len(core))
    ones = np.ones(len(core))
    shape = chain.layers + 1, len(core)
    ends = sparse.csr_matrix((ones, (after, columns)), shape)
    begins = sparse.csr_matrix((ones, (first, columns)), shape)
    inner = slice(1, chain.layers)
    blocks = [begins[:1], (ends - begins)[inner]]
    low, high = [np.ones(1), np.zeros(chain.layers - 1)], [np.ones(1), np.zeros(chain.layers - 1)]
    if chain.apart:
        state = (chain.layers + 1) * chain.kinds, len(core)
        own = sparse.csr_matrix((ones, (after * chain.kinds + kind, columns)), state)
        own = own + sparse.csr_matrix((ones, (first * chain.kinds + kind, columns)), state)
        places = np.arange(chain.kinds, chain.layers * chain.kinds)
        together = own[places] - ends[np.repeat(np.arange(1, chain.layers), chain.kinds)]
        # A row without a column of its own says nothing.
        useful = np.asarray((own[places] != 0).sum(axis=1)).ravel() > 1
        blocks.append(together[useful])
        low.append(np.full(int(useful.sum()), -highspy.kHighsInf))
        high.append(np.zeros(int(useful.sum())))
    scale = np.where(rows.limit > 0, rows.limit, 1.0)
    blocks.append(sparse.csr_matrix(runs.row_of[:, core.run] * units / scale[:, None]))
    low.append(np.full(len(rows), -highspy.kHighsInf))
    high.append(rows.limit / scale)
    matrix = sparse.vstack(blocks, format="csc")
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = matrix.shape
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = cost, np.zeros(len(core)), ones
    lp.row_lower_, lp.row_upper_ = np.concatenate(low), np.concatenate(high)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = matrix.indptr, matrix.indices
    lp.a_matrix_.value_ = matrix.data
    lp.integrality_ = [highspy.HighsVarType.kInteger] * len(core)
    return lp
