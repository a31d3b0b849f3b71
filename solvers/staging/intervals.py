"""Intervals of the stage time, and what a stage costs at least within one.

For a stage time τ a run of layers needs k(τ) units, a falling step function, and costs κ·π·τ·k(τ). In an
interval [a, b] it has at least k(b) units, and because k·ET(k) does not fall with k it costs at least

    κ·π·k(b)·max(a, ET(k(b)))

A chain of runs at these costs and units is a relaxation of all plans in the interval, and prices on units may
be added. It is exact where the interval is short enough that no k changes within.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ...formulations.common.clock import check_time
from ...formulations.common.tolerance import loosened
from ...formulations.staging.formulation import StagingFormulation
from ...instances.common.arrays import Floats, Ints
from .fewest_units import CHUNK, RunTimes
from .shortest_path import Chain


@dataclass(frozen=True)
class Rows:
    """What units are scarce by: each limited type, and the hourly budget.

    Attributes
    ----------
    weight
        What one unit of each type takes, shape (R, T).
    limit
        What there is, shape (R,).
    """

    weight: Floats
    limit: Floats

    @staticmethod
    def of(formulation: StagingFormulation) -> Rows:
        """Return the rows of an instance."""
        instance = formulation.instance
        limits = [math.inf if one.limit is None else float(one.limit) for one in instance.types]
        limited = np.isfinite(limits)
        weight, limit = np.eye(len(limits))[limited], np.array(limits)[limited]
        if instance.hourly_budget_usd is not None:
            weight = np.vstack([weight, [one.price_usd_per_hour for one in instance.types]])
            limit = np.append(limit, loosened(instance.hourly_budget_usd))
        return Rows(weight, limit)

    def __len__(self) -> int:
        return len(self.limit)


@dataclass
class Cell:
    """One interval of the stage time.

    Attributes
    ----------
    low, high
        Both belong to it [s per probe batch].
    units
        Fewest units of every run, k(high), shape (n,); 1 where a run cannot be used.
    cost
        Least cost of every run [USD], shape (n,); infinite where a run cannot be used.
    prices
        Of each row [USD per unit], shape (R,).
    counts_cost
        Whether the bound counts cost; else it only shows that units do not suffice.
    bound
        No plan in the interval costs less [USD]; infinite if there is none.
    splits
        Stage times at which the cheapest chain changes within the interval.
    halve
        Whether to split in the middle. Every second time, or the search might walk from breakpoint to
        breakpoint.
    """

    low: float
    high: float
    units: Floats
    cost: Floats
    prices: Floats
    counts_cost: bool = True
    bound: float = -math.inf
    splits: Floats = field(default_factory=lambda: np.empty(0))
    halve: bool = False

    def keep_only(self, keep: NDArray[np.bool_]) -> None:
        """Forget the other runs."""
        self.units, self.cost = self.units[keep], self.cost[keep]

    def without_costs(self) -> Cell:
        """Return the cell in which runs only take units."""
        free = np.where(np.isinf(self.cost), np.inf, 0.0)
        return replace(self, cost=free, prices=np.zeros_like(self.prices), counts_cost=False)


@dataclass
class Runs:
    """The runs that still matter, and their costs in cells.

    Attributes
    ----------
    place
        Of each run in the table, shape (n,).
    rate
        κ·π: USD per second of stage time and unit.
    """

    chain: Chain
    times: RunTimes
    place: Ints
    rate: Floats
    rows: Rows
    row_of: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.row_of = self.rows.weight[:, self.chain.kind]

    @staticmethod
    def of(formulation: StagingFormulation, slowest_s: float) -> Runs:
        """Return the runs that can be as fast as τ = `slowest_s`."""
        table, instance = formulation.table, formulation.instance
        place = table.by_type()
        times = RunTimes.of(table, place)
        able = np.isfinite(times.fewest_units(np.array([slowest_s]))[0])
        place = place[able]
        apart = instance.stage_rule == "maximal_runs"
        columns = table.first[place], table.last[place], table.type[place]
        return Runs(
            Chain(table.layers, len(table.price), *columns, apart),
            times.only(able),
            place,
            formulation.cost_factor * table.price[table.type[place]],
            Rows.of(formulation),
        )

    def only(self, keep: NDArray[np.bool_]) -> Runs:
        """Return some of the runs."""
        return Runs(
            self.chain.only(keep), self.times.only(keep), self.place[keep], self.rate[keep], self.rows
        )

    def __len__(self) -> int:
        return len(self.place)

    def cell(self, low: float, high: float, units: Floats, prices: Floats) -> Cell:
        """Return a cell.

        Parameters
        ----------
        units
            k(high), shape (n,), infinite where there is none; is overwritten.
        """
        cost = np.empty(len(units))
        for start in range(0, len(units), CHUNK):
            check_time()
            part = slice(start, start + CHUNK)
            able = np.isfinite(units[part])
            units[part][~able] = 1.0
            spent = self.rate[part] * units[part]
            spent *= np.maximum(low, self.times.only(part).time_s(units[part]))
            cost[part] = np.where(able, spent, np.inf)
        return Cell(low, high, units, cost, prices)

    def later(self, cell: Cell, low: float) -> Cell:
        """Return the part of a cell from a later stage time on."""
        return Cell(
            low, cell.high, cell.units, np.maximum(cell.cost, self.rate * low * cell.units), cell.prices
        )

    def weight(self, cell: Cell, prices: Floats) -> Floats:
        """Return the priced cost of every run in a cell, shape (n,)."""
        if not prices.any():
            return cell.cost
        weight: Floats = cell.cost + (prices @ self.row_of) * cell.units
        return weight

    def breakpoints(self, cell: Cell, path: Ints) -> Floats:
        """Return the stage times within a cell at which a run of the path begins to need fewer units."""
        times = self.times.only(path).time_s(cell.units[path])
        return np.unique(times[times > cell.low])

    def fits(self, runs: Ints, units: Floats) -> bool:
        """Return whether some runs keep all limits with these units."""
        return not len(self.rows) or bool((self.taken(runs, units) <= self.rows.limit).all())

    def taken(self, runs: Ints, units: Floats) -> Floats:
        """Return what some runs take of each row with these units, shape (R,)."""
        result: Floats = self.row_of[:, runs] @ units
        return result
