"""What dual prices leave open in one interval of the stage time, as a small flow problem on HiGHS.

The core (Balas & Zemel 1980) holds the segments whose reduced cost stays below the cutoff. One unit flows
from the first layer to the last; where neighbours have to differ in type, those of a type that end before a
layer and those that begin at it are together no more than all that end there, which says the same for integer
flows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....instances.common.arrays import Floats, Ints
from ...backends.highs_mip import branch_and_bound, linear_program
from ...common.base import Clock
from ...common.options import SolveOptions
from ...common.result import Limit
from ..intervals import Interval, Segments


@dataclass(frozen=True)
class CoreSettings:
    """Tuning of cores.

    Attributes
    ----------
    bound_error
        How far the bound of HiGHS may be off, where a plan costs some thousands.
    most_columns
        Larger cores are not tried.
    """

    bound_error: float = 1e-6
    most_columns: int = 20_000


SETTINGS = CoreSettings()


@dataclass(frozen=True)
class Core:
    """The segments that reduced costs leave.

    Attributes
    ----------
    segment
        Index of each, shape (k,).
    complete
        Whether every path that uses another segment reaches the cutoff.
    """

    segment: Ints
    complete: bool = True

    def __len__(self) -> int:
        return len(self.segment)


@dataclass(frozen=True)
class CoreAnswer:
    """The optimum of a core, as far as it was found.

    Attributes
    ----------
    path
        Segments of the cheapest path within the limits, None if none was found.
    bound
        No path of the core costs less; infinite if none keeps the limits.
    """

    path: Ints | None
    bound: float
    limit: Limit = "none"


def core_of(
    segments: Segments, interval: Interval, prices: Floats, cutoff: float, most: int | None = None
) -> Core:
    """Return the segments whose cheapest priced path stays below the cutoff.

    All others are excluded by their reduced cost.

    Parameters
    ----------
    most
        If there are more, only so many with the cheapest paths: enough to find a plan, but not to prove
        that there is none.
    """
    weight = segments.weight(interval, prices)[None]
    _, arrival = segments.graph.forward(weight)
    value = segments.graph.through(weight, arrival)[0] - float(prices @ segments.limits.capacity)
    # `value`: the Lagrangian bound of all plans that use the segment.
    near = np.flatnonzero(value < cutoff)
    if most is not None and len(near) > most:
        return Core(near[np.argpartition(value[near], most)[:most]], complete=False)
    return Core(near)


def solve_core(
    segments: Segments,
    interval: Interval,
    core: Core,
    cutoff: float,
    options: SolveOptions,
    clock: Clock,
    gap: float = 0.0,
) -> CoreAnswer:
    """Find the cheapest path of a core within the limits.

    Parameters
    ----------
    cutoff
        Dearer paths are of no interest.
    gap
        Relative distance between path and bound that is good enough.
    """
    if not len(core):
        return CoreAnswer(None, math.inf)
    cost, units = interval.cost[core.segment], interval.units[core.segment]
    # HiGHS works with absolute tolerances: costs are scaled to some thousands, by a power of two.
    reference = cutoff if math.isfinite(cutoff) else float(cost.sum())
    unit = 2.0 ** math.ceil(math.log2(reference / 4096)) if reference > 0 else 1.0
    model = _model(segments, core, cost / unit, units)
    settings = {"mip_abs_gap": 1e-9, "mip_rel_gap": gap}
    if math.isfinite(cutoff):
        # HiGHS stops when its bound passes the cutoff, beyond its own error.
        settings["objective_bound"] = cutoff / unit + 2 * SETTINGS.bound_error
    values, bound, limit = branch_and_bound(model, settings, clock, options)
    if bound == math.inf:
        return CoreAnswer(None, cutoff, limit)
    lowest = unit * (bound - SETTINGS.bound_error)
    if values is None:
        return CoreAnswer(None, lowest, limit)
    chosen = core.segment[values > 0.5]
    return CoreAnswer(chosen[np.argsort(segments.graph.first[chosen])], lowest, limit)


def _model(segments: Segments, core: Core, cost: Floats, units: Floats) -> Any:
    """Return the flow problem."""
    from scipy import sparse

    graph, limits = segments.graph, segments.limits
    first, after = graph.first[core.segment], graph.last[core.segment] + 1
    unit_type = graph.unit_type[core.segment]
    columns = np.arange(len(core))
    ones = np.ones(len(core))
    shape = graph.layers + 1, len(core)
    ends = sparse.csr_matrix((ones, (after, columns)), shape)
    begins = sparse.csr_matrix((ones, (first, columns)), shape)
    inner = slice(1, graph.layers)
    blocks = [begins[:1], (ends - begins)[inner]]
    low, high = [np.ones(1), np.zeros(graph.layers - 1)], [np.ones(1), np.zeros(graph.layers - 1)]
    if graph.alternating:
        state = (graph.layers + 1) * graph.types, len(core)
        own = sparse.csr_matrix((ones, (after * graph.types + unit_type, columns)), state)
        own = own + sparse.csr_matrix((ones, (first * graph.types + unit_type, columns)), state)
        places = np.arange(graph.types, graph.layers * graph.types)
        together = own[places] - ends[np.repeat(np.arange(1, graph.layers), graph.types)]
        # With one column or none the constraint is implied by the flow.
        useful = np.asarray((own[places] != 0).sum(axis=1)).ravel() > 1
        blocks.append(together[useful])
        low.append(np.full(int(useful.sum()), -np.inf))
        high.append(np.zeros(int(useful.sum())))
    # Rows are divided by their capacity: HiGHS has absolute tolerances for them too.
    scale = np.where(limits.capacity > 0, limits.capacity, 1.0)
    blocks.append(sparse.csr_matrix(segments.consumptions(core.segment, units) / scale[:, None]))
    low.append(np.full(len(limits), -np.inf))
    high.append(limits.capacity / scale)
    matrix = sparse.vstack(blocks, format="csc")
    rows, arrays = (np.concatenate(low), np.concatenate(high)), (matrix.indptr, matrix.indices, matrix.data)
    return linear_program(cost, (np.zeros(len(core)), ones), rows, arrays, [True] * len(core))
