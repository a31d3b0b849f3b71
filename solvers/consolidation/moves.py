"""The fewest moves that free servers or let jobs start: a programme over task shapes and named servers.

The model is that of the check, `formulations.consolidation.check.moves`. Its linear relaxation gives the
prices of the certificate. Units are chosen first, as if tasks could be divided, which bounds the moves; then
whole tasks move for these units (relax and fix), first with the variables of least reduced cost (Dantzig,
Fulkerson & Johnson 1954). If more moves are needed than the bound says, everything is open again.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...formulations.consolidation.cluster_data import RequiredTasks
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import JobPlacement, entry_of
from ...instances.common.arrays import Flags, Floats, Ints
from ..backends.highs import Columns, LinearOptimum, branch_and_bound, linear_optimum, linear_program
from ..common.base import Clock
from ..common.result import SolveOptions
from .progress import Progress

PRICE_DIGITS = 9
"""Decimals to which prices of a certificate are rounded."""
ROUNDING = 1e-6
SHARE_OF_GREEDY, SHARE_OF_WANTED, SHARE_OF_FEWER, SHARE_OF_UNITS = 0.1, 0.8, 0.5, 0.3
"""Shares of the time left: for a first plan, the whole aim, and fewer units; within each to choose units."""


class MoveProgram:
    """The mixed-integer programme of the moves that free units or let waiting jobs start.

    Rows: units wanted; tasks of each shape that come; room of each resource on each server; with chains, the
    tasks of each shape that leave a server which is not freed. Columns: units freed; tasks of a shape that
    come to a server; with chains, tasks that leave.

    Attributes
    ----------
    held
        Shape, server and number of the running tasks; shape (H, 3).
    come
        Shape and server of the tasks that may come; shape (C, 2).
    moved
        Number of tasks that each column moves.
    """

    def __init__(self, formulation: ConsolidationFormulation) -> None:
        self.formulation = formulation
        tasks = self.tasks = RequiredTasks(formulation)
        self.units = [[tasks.position[name] for name in unit] for unit in formulation.releasable.values()]
        on = [(s, m, n) for m, held in enumerate(tasks.on_server) for s, n in held.items()]
        self.held: Ints = np.array(on, dtype=np.int64).reshape(-1, 3)
        self.come: Ints = np.argwhere(tasks.destinations())
        self.room = np.array(tasks.room, dtype=float).reshape(len(tasks.position), -1)
        leave = [] if tasks.direct else on
        leave_row = {(s, m): k for k, (s, m, _) in enumerate(leave)}
        self.ends = np.cumsum([len(self.units), len(self.come), len(leave)])
        self.rows = np.cumsum([1, len(tasks.shapes), self.room.size, len(leave)])
        low, high = np.full(self.rows[-1], -np.inf), np.full(self.rows[-1], np.inf)
        low[1 : self.rows[1]] = high[1 : self.rows[1]] = [tasks.starting[s] for s in range(len(tasks.shapes))]
        high[self.rows[1] : self.rows[2]] = self.room.ravel()
        high[self.rows[2] :] = [n for _, _, n in leave]
        self.limits = low, high
        columns = Columns()
        for servers in self.units:
            held = [(s, m, float(n)) for m in servers for s, n in tasks.on_server[m].items()]
            entries = [(0, 1.0), *((1 + s, -n) for s, _, n in held)]
            entries += [(self.rows[2] + leave_row[s, m], n) for s, m, n in held if leave]
            entries += [entry for m in servers for entry in self._on_server(m, self.room[m])]
            columns.add(sum(n for _, _, n in held), entries, 1.0)
        for s, m in self.come.tolist():
            columns.add(0.0, [(1 + s, 1.0), *self._on_server(m, tasks.demands[s])])
        for (s, m), row in leave_row.items():
            entries = [(1 + s, -1.0), (self.rows[2] + row, 1.0), *self._on_server(m, -tasks.demands[s])]
            columns.add(1.0, entries)
        self.moved, self.most, self.matrix = np.array(columns.costs), np.array(columns.most), columns.matrix

    def _on_server(self, server: int, amounts: Floats) -> list[tuple[int, float]]:
        """Return the entries of a column in the rows of room of a server."""
        first = int(self.rows[1]) + server * len(amounts)
        return [(first + r, amount) for r, amount in enumerate(amounts.tolist()) if amount]

    def model(self, wanted: int | None, most: Floats, units: Floats | None = None, whole: int = 0) -> Any:
        """Return a `HighsLp`: fewest moves for the units wanted, or without a number most units.

        Parameters
        ----------
        most
            Upper limit of each column.
        units
            Which units are freed; None if that is open.
        whole
            So many of the first columns are integers.
        """
        low, high = self.limits[0].copy(), self.limits[1]
        low[0] = wanted or 0
        freed, least = np.zeros(len(most)), np.zeros(len(most))
        freed[: len(self.units)] = 1.0
        if units is not None:
            most = np.concatenate([units, most[len(units) :]])
            least[: len(units)] = units
        cost = -freed if wanted is None else self.moved
        integers = [column < whole for column in range(len(most))] if whole else []
        return linear_program(cost, (least, most), (low, high), self.matrix, integers)

    def relax(self, wanted: int | None, clock: Clock, units: Floats | None = None) -> LinearOptimum | None:
        """Return the optimum of the linear relaxation; None if there is none, or the time is up."""
        return linear_optimum(self.model(wanted, self.most, units), clock.remaining_s)

    def prices(self, goal: str, relaxed: LinearOptimum) -> dict[str, Any]:
        """Return the prices of a relaxation as a part of the certificate."""
        # The relaxation of `free` has no units wanted: each that is freed counts 1.
        unit = 1.0 if goal == "free" else max(0.0, relaxed.prices[0])
        room = np.round(-relaxed.prices[self.rows[1] : self.rows[2]], PRICE_DIGITS).clip(0.0)
        names = self.formulation.instance.resource_names
        by_server = {
            name: {names[r]: float(prices[r]) for r in np.flatnonzero(prices)}
            for name, prices in zip(self.tasks.position, room.reshape(self.room.shape), strict=True)
        }
        used = {name: prices for name, prices in by_server.items() if prices}
        return {"objective": goal, "unit": round(unit, PRICE_DIGITS), "room": used}

    def _freed(self, units: Floats) -> Flags:
        """Return whether each server belongs to one of these units; shape (M,)."""
        freed = np.zeros(len(self.room), dtype=bool)
        for u in np.flatnonzero(units):
            freed[self.units[u]] = True
        return freed

    def plan(self, values: Floats) -> list[JobPlacement]:
        """Return the plan of a solution; tasks of a shape are interchangeable."""
        units, come, leave = np.split(values.astype(int), self.ends[:2])
        out = self.held[:, 2] * self._freed(units)[self.held[:, 1]]
        out[: len(leave)] += leave
        leaving = {(s, m): n for (s, m, _), n in zip(self.held.tolist(), out.tolist(), strict=True)}
        targets: dict[int, list[str]] = defaultdict(list)
        names = list(self.tasks.position)
        for (s, m), count in zip(self.come.tolist(), come.tolist(), strict=True):
            targets[s] += [names[m]] * count
        placed: dict[str, dict[str, dict[str, int]]] = defaultdict(dict)
        for job, group, s in self.tasks.groups:
            on = Counter(placed[job.name].get(group.name, group.current))
            placed[job.name][group.name] = on
            if self.tasks.starting[s]:
                on.update(targets[s].pop() for _ in range(group.tasks - sum(group.current.values())))
                continue
            for server, count in group.current.items():
                key = s, self.tasks.position[server]
                move = min(count, leaving[key])
                leaving[key] -= move
                on[server] -= move
                on.update(targets[s].pop() for _ in range(move))
        return [entry_of(job, placed.get(job.name, {})) for job in self.formulation.instance.jobs]

    def fewest_moves(
        self, wanted: int, options: SolveOptions, clock: Clock, start: Floats | None = None
    ) -> tuple[Floats | None, float]:
        """Return the solution with the fewest moves for the units wanted, if one was found, and a bound."""
        best = start
        patience = clock.share(SHARE_OF_UNITS)
        relaxed, dual, _ = branch_and_bound(
            self.model(wanted, self.most, whole=len(self.units)), {}, patience, options
        )
        bound = math.ceil(dual - ROUNDING) if math.isfinite(dual) else dual
        models = []
        if relaxed is not None:
            units = np.rint(relaxed[: len(self.units)])
            found = self.best_fit(units)
            if found is not None and (best is None or self.moved @ found < self.moved @ best):
                best = found
            models.append(self.model(wanted, self.most, units, self.ends[2]))
        starting = self.tasks.starting.total()
        if starting:
            # Most tasks that make room can go where there is room now.
            shape, server = self.come.T
            waits = np.array([waits for *_, waits in self.tasks.shapes])[shape]
            fits = (self.tasks.demands[shape] <= self.room[server]).all(axis=1)
            most = self.most.copy()
            most[self.ends[0] : self.ends[1]][~(waits | fits)] = 0.0
            models = [self.model(wanted, most, whole=self.ends[2])]
        models.append(self.model(wanted, self.most, whole=self.ends[2]))
        for model in models:
            # What better plans there are where more makes room is left to classes, which bound it closely.
            if clock.expired or (best is not None and (starting or self.moved @ best <= bound)):
                break
            last = model is models[-1]
            patience = clock if last else clock.share(SHARE_OF_WANTED if starting else SHARE_OF_UNITS)
            found, dual, _ = branch_and_bound(model, {}, patience, options, best)
            best = best if found is None else np.rint(found)
            bound = max(bound, math.ceil(dual - ROUNDING)) if last and math.isfinite(dual) else bound
        return best, bound

    def best_fit(self, units: Floats) -> Floats | None:
        """Return the solution that frees these units and moves nothing else; None if best fit finds none.

        The largest tasks, of those that leave and of those that wait, go first, each to the server on which
        it leaves least.
        """
        room, demands = self.room.copy(), self.tasks.demands
        size = 1 / np.maximum(room.max(axis=0, initial=0.0), demands.max(axis=0, initial=1e-9))
        values = np.zeros(self.ends[2])
        values[: len(units)] = units
        freed = self._freed(units)
        room[freed] = -np.inf
        waiting = np.array([(s, -1, n) for s, n in self.tasks.starting.items()], dtype=np.int64)
        leaving = np.concatenate([self.held[freed[self.held[:, 1]]], waiting.reshape(-1, 3)])
        for s, _, count in leaving[np.argsort(-(demands[leaving[:, 0]] @ size), kind="stable")].tolist():
            columns = np.flatnonzero(self.come[:, 0] == s)
            servers = self.come[columns, 1]
            for _ in range(count):
                left = room[servers] - demands[s]
                fits = np.flatnonzero((left >= 0).all(axis=1))
                if not len(fits):
                    return None
                best = fits[(left[fits] @ size).argmin()]
                room[servers[best]] = left[best]
                values[len(units) + columns[best]] += 1
        return values

    def greedy(self, wanted: int, clock: Clock) -> Floats:
        """Return the solution that frees one unit after the other, fewest tasks first, if best fit can."""
        best = np.zeros(self.ends[2])
        for u in np.argsort(self.moved[: len(self.units)], kind="stable"):
            units = best[: len(self.units)].copy()
            if clock.expired or units.sum() == wanted:
                break
            units[u] = 1.0
            found = self.best_fit(units)
            best = best if found is None else found
        return best

    def most_units(
        self, options: SolveOptions, clock: Clock, start: Floats | None
    ) -> tuple[Floats | None, int]:
        """Return a solution that frees the most units that was found, and a bound on their number."""
        every = self.model(None, self.most, whole=self.ends[2])
        found, dual, _ = branch_and_bound(every, {}, clock, options, start)
        most = math.floor(-dual + ROUNDING) if math.isfinite(dual) else len(self.units)
        return start if found is None else np.rint(found), most


def room_prices(program: MoveProgram, plan: Sequence[JobPlacement], clock: Clock) -> list[dict[str, Any]]:
    """Return the prices that bound `free`, where a plan frees fewer units than wanted, and `migrations`."""
    goals, freed = [], int(program.formulation.evaluate(plan)[0])
    if freed < program.formulation.most_freed and (most := program.relax(None, clock)) is not None:
        goals.append(program.prices("free", most))
    if "migrations" in program.formulation.instance.objectives:
        relaxed = program.relax(freed, clock)
        if relaxed is not None:
            goals.append(program.prices("migrations", relaxed))
    return goals


def plan_moves(progress: Progress, options: SolveOptions, clock: Clock) -> None:
    """Free as many units as are wanted and can be freed, and let jobs start, with the fewest moves.

    Plan, bounds and prices are stored in `progress`; nothing where a job runs that may be stopped, or
    there is nothing to do.
    """
    formulation = progress.formulation
    program = MoveProgram(formulation)
    starting, units = program.tasks.starting.total(), len(program.units)
    if not program.tasks.complete or not (units or (starting and len(program.come))):
        return
    most = freed = formulation.most_freed
    start = None if starting else program.greedy(freed, clock.share(SHARE_OF_GREEDY))
    if start is not None:
        progress.update_incumbent(program.plan(start))
    enough = start is not None and start[:units].sum() == freed
    share = clock.share(SHARE_OF_WANTED) if freed else clock
    values, fewest = program.fewest_moves(freed, options, share, start if enough else None)
    if values is None and freed:
        values, bound = program.most_units(options, clock.share(SHARE_OF_FEWER), start)
        most = min(most, bound)
        if values is not None:
            freed = min(most, int(values[:units].sum()))
            values, fewest = program.fewest_moves(freed, options, clock, values)
    if values is not None:
        progress.update_incumbent(program.plan(values))
    if progress.plan is None:
        return
    if formulation.instance.free is None:
        progress.bounds = [max(0.0, fewest)]
        return
    progress.bounds = [float(most)]
    if formulation.instance.objectives[1:2] == ("migrations",) and progress.values[0] >= freed:
        progress.bounds.append(max(0.0, fewest))
    progress.moves = room_prices(program, progress.plan, clock)
