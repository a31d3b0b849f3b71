"""Global search over the stage time: intervals, the bound of each, and what splits those that stay open."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...formulations.staging.formulation import StagingFormulation
from ...formulations.staging.plan import Stage
from ...instances.common.arrays import Floats, Ints
from ...instances.common.errors import OutOfTimeError
from ..backends.base import BackendError
from ..common.base import Clock
from ..common.options import SolveOptions
from ..common.result import Limit
from .core import MOST_COLUMNS, Core, core_of, solve_core
from .goals import Candidate, Frontier, Goal
from .intervals import Cell, Runs
from .labelling import search_labels
from .lagrangian import best_prices

log = logging.getLogger("clusterplan")

CELLS_AT_ONCE = 1 << 21
"""Runs times cells that are worked on together."""
MOST_CELLS = 16
"""At most so many intervals are worked on together."""
WIDE = 1.5
"""Intervals whose ends have a greater ratio are halved before breakpoints are looked at."""
MOST_KEPT = 0.7
"""Runs are only sorted out where no more than this part remains."""
SHORT = 1e-6
"""A chain's units, each priced, exceed all limits by at least this where they do not suffice."""
FEW_COLUMNS = 100
"""Columns of a core that labels are tried on where costs do not narrow them."""
SMALL_CORE = 400
"""Columns of a core that is worth solving in an interval of any width."""
NARROWEST = 1 + 1e-13
"""Ratio of the ends below which an interval is not split."""
NARROW = 1.02
"""Ratio of the ends of an interval below which every core is solved."""
FIRST_COLUMNS = (1000, 4000, 16_000, None)
"""Columns of the cores in which a first plan is looked for."""
FIRST_S = 10.0
"""Seconds for each of them but the last, which has all columns."""
ROUGH = 0.02
"""Relative distance to its bound at which a plan will do where any matters."""
FEW_RUNS = 2000
"""So few runs are not worth sorting out."""


@dataclass
class Found:
    """How a search ended.

    Attributes
    ----------
    cells
        A cover of the stage times, from fast to slow, with the bound of each interval.
    limit
        What stopped it; `none` if every interval is closed.
    """

    cells: list[Cell]
    limit: Limit = "none"


@dataclass
class Group:
    """Open cells next to each other, and the runs that any of them can use."""

    runs: Runs
    cells: list[Cell]

    @property
    def bound(self) -> float:
        """The least bound of a cell."""
        return min(cell.bound for cell in self.cells)


class Search:
    """Search for what a goal asks.

    Parameters
    ----------
    formulation
        Its floor, limits, memory and budgets hold; its objective plays no part.
    """

    def __init__(
        self, formulation: StagingFormulation, goal: Goal, options: SolveOptions, clock: Clock
    ) -> None:
        self.formulation, self.goal, self.options, self.clock = formulation, goal, options, clock
        self.slowest_s = _slowest(formulation)
        self.fastest_s = formulation.fastest_s
        self.groups: list[Group] = []
        self.closed: list[Cell] = []
        self.trace: list[tuple[float, float | None, float | None]] = []
        self.build_s = 0.0
        self.limit: Limit = "none"

    def run(self) -> Found:
        """Split intervals until all are closed, or the time is up.

        Raises
        ------
        OutOfTimeError
            If it is before there are intervals.
        """
        runs = Runs.of(self.formulation, self.slowest_s)
        self.build_s = self.clock.elapsed_s
        if self.fastest_s > self.slowest_s or not len(runs):
            return Found([])
        try:
            nowhere = self._first_plan(runs) if len(runs.rows) else None
            if nowhere is not None:
                return Found([nowhere])
            self._take_up(runs, self._first_cells(runs))
        except (KeyboardInterrupt, OutOfTimeError) as stop:
            self.limit, self.closed, self.groups = _limit_of(stop), [self._unexamined(runs)], []
        while self.groups and self.limit == "none":
            if self.clock.expired:
                self.limit = "time"
                break
            self._step()
        cells = self.closed + [cell for group in self.groups for cell in group.cells]
        return Found(sorted(cells, key=lambda cell: cell.low), self.limit)

    def _step(self) -> None:
        """Split the open cells of one group."""
        group = self._next()
        before = list(self.groups), list(self.closed)
        try:
            self.groups.remove(group)
            still = self._still_open(group.cells)
            chosen, others = (still[:1], still[1:]) if self.goal.leftmost_first else (still, [])
            if others:
                self.groups.append(Group(group.runs, others))
            # What is hardly wider than rounding keeps the bound that it has.
            self.closed += [cell for cell in chosen if cell.high <= cell.low * NARROWEST]
            parts = self._split(group.runs, [cell for cell in chosen if cell.high > cell.low * NARROWEST])
            self._take_up(group.runs, parts)
        except (KeyboardInterrupt, OutOfTimeError) as stop:
            self.groups, self.closed = before
            self.limit = _limit_of(stop)

    def _unexamined(self, runs: Runs) -> Cell:
        """Return one cell of all stage times, of which nothing is known."""
        nothing = np.zeros(len(runs))
        return Cell(self.fastest_s, self.slowest_s, nothing, nothing, np.zeros(len(runs.rows)))

    def _next(self) -> Group:
        if self.goal.leftmost_first:
            return min(self.groups, key=lambda group: group.cells[0].low)
        return min(self.groups, key=lambda group: group.bound)

    def _still_open(self, cells: Sequence[Cell]) -> list[Cell]:
        """Return the cells in which a plan may matter; the others are closed."""
        still: list[Cell] = []
        for cell in cells:
            done = cell.bound >= self.goal.cutoff(cell.low)
            (self.closed if done else still).append(cell)
        return still

    def _first_cells(self, runs: Runs) -> list[Cell]:
        # Stage times that hardly differ make one interval.
        count = _at_once(runs) if self.slowest_s > 1.001 * self.fastest_s else 1
        low = max(self.fastest_s, self.slowest_s * 1e-12)
        ends = np.geomspace(low, self.slowest_s, count + 1)
        ends[0], ends[-1] = self.fastest_s, self.slowest_s
        starts = [float(ends[0]), *np.nextafter(ends[1:-1], np.inf).tolist()]
        units = runs.times.fewest_units(ends[1:])
        none = np.zeros(len(runs.rows))
        return [
            runs.cell(low, high, k, none)
            for low, high, k in zip(starts, ends[1:].tolist(), units, strict=True)
        ]

    def _split(self, runs: Runs, cells: Sequence[Cell]) -> list[Cell]:
        """Return the two parts of each cell."""
        cuts = [self._cut(cell) for cell in cells]
        before = [math.nextafter(cut, 0.0) for cut in cuts]
        parts = []
        for cell, cut, end, units in zip(
            cells, cuts, before, runs.times.fewest_units(np.array(before)), strict=True
        ):
            faster, slower = runs.cell(cell.low, end, units, cell.prices), runs.later(cell, cut)
            faster.halve, faster.bound, slower.bound = not cell.halve, cell.bound, cell.bound
            parts += [faster, slower]
        return parts

    def _note(self, cost: float, time: float) -> None:
        """Add a plan to the trace, if the objective has one best plan."""
        if not isinstance(self.goal, Frontier):
            of_time = self.formulation.of_stage_time
            cheapest = self.formulation.instance.objective == "cost"
            self.trace.append((self.clock.elapsed_s, cost if cheapest else of_time(time), None))

    def _cut(self, cell: Cell) -> float:
        """Return where to split a cell; the stage time belongs to the slower part."""
        middle = math.sqrt(max(cell.low, cell.high * 1e-12) * cell.high)
        middle = max(middle, math.nextafter(cell.low, math.inf))
        at = self.goal.split_at
        if cell.halve:
            return middle
        if cell.low < at <= cell.high:
            return at
        if cell.high < WIDE * cell.low and len(cell.splits):
            return float(cell.splits[np.abs(cell.splits - middle).argmin()])
        return middle

    def _take_up(self, runs: Runs, cells: Sequence[Cell]) -> None:
        """Examine cells of a group; those that stay open make new groups."""
        size = _at_once(runs)
        for start in range(0, len(cells), size):
            batch = cells[start : start + size]
            weight = np.array([runs.weight(cell, cell.prices) for cell in batch])
            whole, reach = runs.chain.forward(weight)
            scarce = []
            for i, cell in enumerate(batch):
                cell.bound = max(cell.bound, float(whole[i]) - float(cell.prices @ runs.rows.limit))
                if cell.bound < self.goal.cutoff(cell.low):
                    path = runs.chain.cheapest(weight[i], reach[i])
                    cell.splits = runs.breakpoints(cell, path)
                    self._try(runs, cell, path)
                    # Where the cheapest chain keeps the limits, no prices can raise the bound.
                    if cell.prices.any() or not runs.fits(path, cell.units[path]):
                        scarce.append(cell)
            for cell in sorted(scarce, key=lambda cell: cell.bound):
                if cell.bound < self.goal.cutoff(cell.low):  # plans found since may have settled it
                    self._press(runs, cell)
            still = self._still_open(batch)
            if still and len(runs) < FEW_RUNS:
                self.groups.append(Group(runs, still))
            elif still:
                self.groups.append(self._narrowed(runs, still))

    def _press(self, runs: Runs, cell: Cell) -> None:
        """Raise the bound of a cell by prices on scarce units, and close it by a core if that is small."""
        cutoff = self.goal.cutoff(cell.low)
        priced = cell
        if math.isinf(cutoff):
            # Whatever a plan costs it matters: all that can close the cell is that units do not suffice.
            priced = cell.without_costs()
            short = best_prices(runs, priced, SHORT, self.clock)
            priced.prices = short.prices
            if short.bound >= SHORT:
                cell.prices, cell.counts_cost, cell.bound = short.prices, False, math.inf
                return
        dual = best_prices(runs, cell, cutoff, self.clock)
        cell.prices, cell.bound = dual.prices, max(cell.bound, dual.bound)
        for path in dual.paths:
            self._try(runs, cell, path)
        if cell.bound >= self.goal.cutoff(cell.low) or self.clock.expired:
            return
        cell.splits = runs.breakpoints(cell, dual.paths[-1])
        core = core_of(runs, priced, priced.prices, cutoff if priced is cell else SHORT)
        if len(core) <= (SMALL_CORE if cell.high > NARROW * cell.low else MOST_COLUMNS):
            self._solve_core(runs, cell, core, priced.prices, cutoff, self.clock)
            if math.isinf(cell.bound) and self.goal.any_cost:
                cell.prices, cell.counts_cost = priced.prices, priced.counts_cost

    def _solve_core(
        self, runs: Runs, cell: Cell, core: Core, prices: Floats, cutoff: float, clock: Clock
    ) -> bool:
        """Set the bound of a cell by its core; return whether a chain within the limits was found."""
        answer, whatever = None, math.isinf(cutoff)
        try:
            if not whatever or len(core) <= FEW_COLUMNS:
                answer = search_labels(runs, cell, core, prices, cutoff, clock)
            if answer is None:
                # Where any plan matters, a rough one will do.
                gap = ROUGH if whatever else 0.0
                answer = solve_core(runs, cell, core, cutoff, self.options, clock, gap)
        except BackendError as error:
            log.warning("a core could not be solved, which costs time but no plan: %s", error)
            return False
        if answer.limit == "interrupt":
            self.limit = "interrupt"
        if core.complete:
            # What the core leaves out reaches the cutoff.
            cell.bound = max(cell.bound, min(answer.bound, cutoff))
        if answer.path is None:
            return False
        cell.splits = runs.breakpoints(cell, answer.path)
        self._try(runs, cell, answer.path)
        return True

    def _first_plan(self, runs: Runs) -> Cell | None:
        """Look for a plan at the slowest stage time.

        A plan that is fast enough for a shorter stage time keeps all limits at the slowest too.

        Returns
        -------
        nowhere
            One cell of all stage times if it is proven that there is no plan, else None.
        """
        slowest = self.slowest_s
        units = runs.times.fewest_units(np.array([slowest]))[0]
        cell = runs.cell(slowest, slowest, units, np.zeros(len(runs.rows)))
        weight = runs.weight(cell, cell.prices)
        whole, reach = runs.chain.forward(weight[None])
        if math.isfinite(whole[0]):
            self._try(runs, cell, runs.chain.cheapest(weight, reach[0]))
        if self.goal.found:
            return None
        priced = cell.without_costs()
        short = best_prices(runs, priced, SHORT, self.clock)
        priced.prices = short.prices
        nowhere = replace(priced, low=self.fastest_s, bound=math.inf)
        if short.bound >= SHORT:
            return nowhere
        dual = best_prices(runs, cell, math.inf, self.clock)
        cell.prices, cell.bound = dual.prices, dual.bound
        for path in (*short.paths, *dual.paths):
            self._try(runs, cell, path)
        for most in FIRST_COLUMNS:
            if self.goal.found or self.clock.expired:
                break
            core = core_of(runs, cell, cell.prices, math.inf, most)
            if len(core) > MOST_COLUMNS:
                break
            left = self.clock.remaining_s
            clock = Clock(FIRST_S if left is None else min(FIRST_S, left)) if most else self.clock
            found = self._solve_core(runs, cell, core, cell.prices, math.inf, clock)
            if core.complete:
                return nowhere if not found and math.isinf(cell.bound) else None
        return None

    def _narrowed(self, runs: Runs, cells: list[Cell]) -> Group:
        """Return a group of cells, without the runs that no better plan in any of them can use."""
        weight = np.array([runs.weight(cell, cell.prices) for cell in cells])
        through = weight + runs.chain.beside(weight, runs.chain.forward(weight)[1])
        # Up to the best cost itself, not only the cutoff, so that bounds without the others still hold.
        most = np.array([self.goal.cutoff(cell.low) for cell in cells]) / self.goal.close_enough
        reach = most + np.array([cell.prices for cell in cells]) @ runs.rows.limit
        alive = np.asarray((through < reach[:, None]).any(axis=0))
        if alive.mean() > MOST_KEPT:
            return Group(runs, cells)
        for cell in cells:
            cell.keep_only(alive)
        return Group(runs.only(alive), cells)

    def _try(self, runs: Runs, cell: Cell, path: Ints) -> None:
        """Offer the plans on these runs whose stage time is a breakpoint within the cell."""
        times = runs.times.only(path)
        units = times.fewest_units(np.append(cell.splits, cell.high))
        units = units[np.isfinite(units).all(axis=1)]
        taus = times.time_s(units).max(axis=1)
        costs = taus * (units @ runs.rate[path])
        for time, cost, count in zip(taus.tolist(), costs.tolist(), units, strict=True):
            if runs.fits(path, count) and self.goal.offer(Candidate(time, cost, runs.place[path], count)):
                self._note(cost, time)


def _limit_of(stop: BaseException) -> Limit:
    return "time" if isinstance(stop, OutOfTimeError) else "interrupt"


def _at_once(runs: Runs) -> int:
    """Return how many cells are worked on together."""
    return max(1, min(MOST_CELLS, CELLS_AT_ONCE // len(runs)))


def _slowest(formulation: StagingFormulation) -> float:
    """Return the slowest stage time worth looking at: of the floor, or of one unit each."""
    slowest = formulation.latest_s
    single = formulation.table.time_s(1)
    finite = single[np.isfinite(single)]
    return min(slowest, float(finite.max())) if len(finite) else 0.0


def plan_of(formulation: StagingFormulation, candidate: Candidate) -> tuple[Stage, ...]:
    """Return a candidate as a plan."""
    table, types = formulation.table, formulation.instance.types
    return tuple(
        Stage(
            first_layer=int(table.first[run]),
            last_layer=int(table.last[run]),
            type=types[table.type[run]].name,
            units=int(units),
        )
        for run, units in zip(candidate.runs.tolist(), candidate.units.tolist(), strict=True)
    )


def candidate_of(formulation: StagingFormulation, plan: Sequence[Stage]) -> Candidate:
    """Return a feasible plan as a candidate."""
    table, names = formulation.table, [kind.name for kind in formulation.instance.types]
    places = [table.index(s.first_layer, s.last_layer, names.index(s.type)) for s in plan]
    time = formulation.stage_time_s(plan)
    return Candidate(
        time,
        formulation.cost_usd(time, formulation.rate_usd_per_hour(plan)),
        np.array(places),
        np.array([float(s.units) for s in plan]),
    )
