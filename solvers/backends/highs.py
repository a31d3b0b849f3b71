"""HiGHS through highspy, with true bounds and honest reasons for stopping."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...formulations.common.clock import check_time
from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.common.errors import OptionError
from .base import Answer, Backend, Request, installed
from .highs_mip import (
    TOLERANCE,
    TOLERANCES,
    how_it_ended,
    linear_program,
    solver_with,
    start_from,
    threads_and_seed,
)
from .threads import run_highs

LARGEST_ENTRY = 1e4
"""The largest coefficient of a row: beyond, sums of doubles are rounded by as much as HiGHS tolerates."""


class Highs(Backend):
    """HiGHS through highspy."""

    name, title = "highs", "HiGHS"

    def unavailable(self) -> str | None:
        """Return why highspy cannot be used."""
        return installed("highspy", "highspy")

    def version(self) -> str:
        """Return the version of highspy."""
        return metadata.version("highspy")

    def minimise(self, problem: Any, request: Request) -> Answer:
        """Solve with HiGHS; bound and status come from its info object."""
        import pulp

        settings = {**TOLERANCES, "mip_rel_gap": request.gap, "mip_abs_gap": 1e-12}
        settings |= {**threads_and_seed(request.threads, request.seed), **(request.settings or {})}
        model = solver_with(settings, OptionError)
        variables = problem.variables()
        lp, uncertain = _in_arrays(problem, variables)
        model.passModel(lp)
        if request.start:
            start_from(model, [float(request.start.get(v, 0.0)) for v in variables])
        if request.clock.remaining_s is not None and "time_limit" not in settings:
            model.setOptionValue("time_limit", request.clock.remaining_s)  # after the model took its time
        if not run_highs(model, request.clock):
            return Answer(None, None, "time")
        ended = how_it_ended(model)
        if ended.infeasible:
            return Answer(None, None, infeasible=True)
        columns = model.getSolution().col_value if ended.found else None
        values = None if columns is None else {v.name: columns[i] for i, v in enumerate(variables)}
        info, bound = model.getInfo(), -model.inf
        if any(v.cat == pulp.LpInteger for v in variables):
            bound = info.mip_dual_bound
        elif ended.found:
            bound = info.objective_function_value  # a linear program has no gap
        proven = float(bound) - uncertain if abs(bound) < model.inf else None
        return Answer(values, proven, ended.limit)


def _in_arrays(problem: Any, variables: Sequence[Any]) -> tuple[Any, float]:
    """Return a PuLP problem as HiGHS takes it, and by how much the bound may be off.

    Variables are columns. PuLP's own way adds them and the rows one after the other, which takes longer than
    building the model.
    """
    import pulp

    column = {id(variable): i for i, variable in enumerate(variables)}
    sizes, index, value = list[int](), list[int](), list[float]()
    rows = problem.constraints()
    for row in rows:
        check_time()
        for variable, coefficient in row.items():
            index.append(column[id(variable)])
            value.append(coefficient)
        sizes.append(len(row))
    places = np.array(index, dtype=np.int64)
    owner = np.repeat(np.arange(len(rows)), sizes)
    whole = np.array([v.cat == pulp.LpInteger for v in variables], dtype=bool)
    over_integers = np.ones(len(rows), dtype=bool)
    np.logical_and.at(over_integers, owner, whole[places])
    factors = _fair_factors(owner, np.array(value, dtype=float), over_integers)
    entries = np.array(value, dtype=float) * factors[owner]
    cost = np.array([float(problem.objective.get(v, 0.0)) for v in variables])
    low = _limits((row.getLb() for row in rows), -np.inf) * factors
    high = _limits((row.getUb() for row in rows), np.inf) * factors
    least = _limits((variable.lowBound for variable in variables), -np.inf)
    most = _limits((variable.upBound for variable in variables), np.inf)
    matrix = np.cumsum([0, *sizes]), places, entries
    lp = linear_program(cost, (least, most), (low, high), matrix, whole, by_rows=True)
    # What HiGHS tolerates in a row that was scaled down is more in the row's own unit.
    loose = ~whole[places] & (factors[owner] < 1)
    seen, slack = loose & (entries != 0), np.zeros(len(variables))
    np.maximum.at(slack, places[seen], TOLERANCE / np.abs(entries[seen]))
    # A coefficient that scaling made zero limits its variable no more.
    slack[places[loose & ~seen & (np.array(value) != 0)]] = np.inf
    counts = cost != 0
    return lp, float(np.abs(cost[counts]) @ slack[counts])


def _fair_factors(owner: Ints, entries: Floats, over_integers: Flags) -> Floats:
    """Return row scaling factors by which HiGHS's tolerance is neither large nor below rounding in any row.

    Entries beyond 1e4 are rounded by as much as it tolerates. Fractions over integers are brought up to 1e4:
    its presolve cuts off optima where they are small and the row is just filled. Factors are powers of two,
    so that whole numbers lose no digit.

    Parameters
    ----------
    owner
        The row of each entry.
    over_integers
        Whether a row has no continuous variable.
    """
    largest, fractions = np.zeros(len(over_integers)), np.zeros(len(over_integers), dtype=bool)
    np.maximum.at(largest, owner, np.abs(entries))
    np.logical_or.at(fractions, owner, entries != np.round(entries))
    scaled = (largest > LARGEST_ENTRY) | (over_integers & fractions)
    return np.exp2(np.floor(np.log2(LARGEST_ENTRY / np.where(scaled, largest, LARGEST_ENTRY))))


def _limits(given: Iterable[float | None], infinite: float) -> NDArray[np.float64]:
    return np.array([infinite if limit is None else limit for limit in given], dtype=float)
