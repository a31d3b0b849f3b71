"""The fewest moves that free servers: a mixed-integer programme over task shapes and named servers.

The model is that of the check, `formulations.consolidation.check.moves`. Its linear relaxation gives the
prices of the certificate. Variables whose reduced cost exceeds the distance between relaxation and incumbent
occur in no better plan (reduced-cost fixing, Dantzig, Fulkerson & Johnson 1954). So branch and bound begins
with the variables of small reduced cost, and ends as soon as none that was left out can matter.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...formulations.consolidation.cluster_data import RunningTasks
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import JobPlacement, entry_of
from ...instances.common.arrays import Flags, Floats, Ints
from ..backends.base import BackendError
from ..backends.highs import branch_and_bound, highs_with_settings, linear_program
from ..common.base import Clock
from ..common.result import SolveOptions
from .progress import Progress

PRICE_DIGITS = 9
"""Decimals to which prices of a certificate are rounded."""
FIRST_DISTANCE, GROWTH = 1.0, 3.0
"""Reduced cost beyond the relaxation's next whole number of the first variables; growth of this distance."""
ROUNDING = 1e-6
SHARE_OF_WANTED, SHARE_OF_MOST = 0.7, 0.5
"""Shares of the time left for the units wanted, and then for as many as there can be."""


@dataclass
class Relaxation:
    """The optimum of the linear relaxation, the reduced costs of its variables, and its prices of rows."""

    value: float
    reduced: Floats
    prices: Floats


class MoveProgram:
    """The mixed-integer programme of the moves that free units.

    Rows: units wanted; moved tasks of each shape; room of each resource on each server; with chains, the
    tasks of each shape that leave a server that is not freed. Columns: units freed, tasks that come, and
    with chains tasks that leave.
    """

    def __init__(self, formulation: ConsolidationFormulation) -> None:
        self.formulation = formulation
        tasks = self.tasks = RunningTasks(formulation)
        aim = formulation.instance.free
        assert aim is not None
        self.aim, position = aim, tasks.position
        self.units = [[position[name] for name in names] for names in formulation.releasable.values()]
        self.come = np.argwhere(tasks.destinations())
        held = [(s, m, n) for m, on in enumerate(tasks.on_server) for s, n in on.items()]
        self.leave = [] if aim.direct else held
        self.room = np.array(tasks.room, dtype=float).reshape(len(position), -1)
        self.shapes, self.resources = len(tasks.shapes), self.room.shape[1]
        self.room_row = 1 + self.shapes
        self.leave_row = self.room_row + self.room.size
        self.rows = self.leave_row + len(self.leave)
        self.size = len(self.units) + len(self.come) + len(self.leave)
        self._columns()

    def _columns(self) -> None:
        """Build the sparse columns: starts, rows, values, and the number of tasks that each moves."""
        leaving = {(s, m): self.leave_row + k for k, (s, m, _) in enumerate(self.leave)}
        columns: list[list[tuple[int, float]]] = []
        for servers in self.units:
            entries = [(0, 1.0)]
            moved = Counter[int]()
            for m in servers:
                moved.update(self.tasks.on_server[m])
                entries += self._on_server(m, self.room[m])
                entries += [(leaving[s, m], float(n)) for s, n in self.tasks.on_server[m].items() if leaving]
            columns.append([*entries, *((1 + s, -float(n)) for s, n in moved.items())])
        demands = self.tasks.demands
        columns += [[(1 + s, 1.0), *self._on_server(m, demands[s])] for s, m in self.come.tolist()]
        columns += [
            [(1 + s, -1.0), (leaving[s, m], 1.0), *self._on_server(m, -demands[s])] for s, m, _ in self.leave
        ]
        self.starts = np.cumsum([0, *map(len, columns)])
        self.entries = np.array([row for column in columns for row, _ in column], dtype=np.int32)
        self.values = np.array([value for column in columns for _, value in column])
        each = [sum(self.tasks.on_server[m].total() for m in servers) for servers in self.units]
        self.moved = np.array([*each, *[0] * len(self.come), *[1] * len(self.leave)], dtype=float)
        most = [*[1] * len(self.units), *[math.inf] * len(self.come), *(n for _, _, n in self.leave)]
        self.most = np.array(most, dtype=float)

    def _on_server(self, server: int, amounts: Floats) -> list[tuple[int, float]]:
        first = self.room_row + server * self.resources
        return [(first + r, float(a)) for r, a in enumerate(amounts) if a]

    def model(self, wanted: int | None, chosen: Flags | None = None) -> Any:
        """Return a `HighsLp`: fewest moves for the units wanted, or without a number most units.

        Parameters
        ----------
        chosen
            The columns that are used, as integers; None for all, without integrality.
        """
        keep = np.arange(self.size) if chosen is None else np.flatnonzero(chosen)
        low, high = np.full(self.rows, -np.inf), np.full(self.rows, np.inf)
        low[0] = wanted or 0
        low[1 : self.room_row] = high[1 : self.room_row] = 0.0
        high[self.room_row : self.leave_row] = self.room.ravel()
        high[self.leave_row :] = [n for _, _, n in self.leave]
        lengths = np.diff(self.starts)[keep]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        place = np.repeat(self.starts[keep] - starts[:-1], lengths) + np.arange(starts[-1])
        matrix = starts.astype(np.int32), self.entries[place], self.values[place]
        cost = self.moved[keep] if wanted is not None else -(keep < len(self.units)).astype(float)
        columns = np.zeros(len(keep)), self.most[keep]
        return linear_program(
            cost, columns, (low, high), matrix, [] if chosen is None else [True] * len(keep)
        )

    def relax(self, wanted: int | None, clock: Clock) -> Relaxation | None:
        """Return the optimum of the linear relaxation; None if there is none, or the time is up."""
        import highspy

        settings = {} if clock.remaining_s is None else {"time_limit": clock.remaining_s}
        highs = highs_with_settings(settings, BackendError)
        highs.passModel(self.model(wanted))
        highs.run()
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution, value = highs.getSolution(), highs.getInfo().objective_function_value
        return Relaxation(float(value), np.array(solution.col_dual), np.array(solution.row_dual))

    def prices(self, goal: str, relaxed: Relaxation) -> dict[str, Any]:
        """Return the prices of a relaxation as a part of the certificate."""
        # The relaxation of `free` has no row of units wanted; each freed unit counts 1.
        unit = 1.0 if goal == "free" else relaxed.prices[0]
        room = np.round(-relaxed.prices[self.room_row : self.leave_row], PRICE_DIGITS).clip(0.0)
        by_server = room.reshape(self.room.shape)
        resources = self.formulation.instance.resource_names
        return {
            "objective": goal,
            "unit": round(max(0.0, float(unit)), PRICE_DIGITS),
            "room": {
                name: {resources[r]: float(by_server[m, r]) for r in np.flatnonzero(by_server[m])}
                for name, m in self.tasks.position.items()
                if by_server[m].any()
            },
        }

    def plan(self, values: Ints) -> list[JobPlacement]:
        """Return the plan of a solution: tasks of a shape are interchangeable."""
        units, come = len(self.units), len(self.come)
        out = [Counter[int]() for _ in self.tasks.position]
        for u in np.flatnonzero(values[:units]):
            for m in self.units[u]:
                out[m] = Counter(self.tasks.on_server[m])
        for (s, m, _), count in zip(self.leave, values[units + come :].tolist(), strict=True):
            out[m][s] += count
        places: dict[int, list[int]] = defaultdict(list)
        for (s, m), count in zip(self.come.tolist(), values[units : units + come].tolist(), strict=True):
            stays = min(count, out[m][s])
            out[m][s] -= stays
            places[s] += [m] * (count - stays)
        names = list(self.tasks.position)
        placed = {
            job.name: {group.name: dict(group.current) for group in job.task_groups}
            for job, _, _ in self.tasks.groups
        }
        for job, group, s in self.tasks.groups:
            on = placed[job.name][group.name]
            for server in group.current:
                leave = min(on[server], out[self.tasks.position[server]][s])
                out[self.tasks.position[server]][s] -= leave
                on[server] -= leave
                for _ in range(leave):
                    target = names[places[s].pop()]
                    on[target] = on.get(target, 0) + 1
        return [entry_of(job, placed.get(job.name, {})) for job in self.formulation.instance.jobs]

    def fewest_moves(
        self, wanted: int, relaxed: Relaxation, options: SolveOptions, clock: Clock, start: Ints | None = None
    ) -> tuple[Ints | None, float]:
        """Return the solution with the fewest moves for the units wanted, if one was found, and a bound."""
        best, value, bound = start, math.inf, relaxed.value
        if best is not None:
            value = float(self.moved @ best)
        distance = math.ceil(relaxed.value - ROUNDING) - relaxed.value + FIRST_DISTANCE
        while not clock.expired:
            # A solution with a column that is left out costs more than this, and a whole number.
            beyond = math.ceil(relaxed.value + distance - ROUNDING)
            chosen = relaxed.reduced <= distance + ROUNDING
            if best is not None:
                chosen |= best > 0
            first = None if best is None else best[chosen].astype(float)
            found, dual, limit = branch_and_bound(self.model(wanted, chosen), {}, clock, options, first)
            if found is not None:
                best = np.zeros(self.size, dtype=np.int64)
                best[chosen] = np.rint(found)
                value = float(self.moved @ best)
            whole = bool(chosen.all())
            bound = max(bound, dual if whole else min(dual, beyond))
            if limit != "none" or whole or value <= beyond:
                break
            distance = min(GROWTH * distance, value - relaxed.value)
        return best, math.ceil(bound - ROUNDING) if math.isfinite(bound) else bound

    def most_units(self, options: SolveOptions, clock: Clock) -> tuple[Ints | None, float]:
        """Return a solution that frees the most units that was found, and a bound on their number."""
        every = np.ones(self.size, dtype=bool)
        found, dual, _ = branch_and_bound(self.model(None, every), {}, clock, options)
        return None if found is None else np.rint(found).astype(np.int64), math.floor(-dual + ROUNDING)


def room_prices(program: MoveProgram, freed: int, clock: Clock) -> list[dict[str, Any]]:
    """Return the prices that bound `free`, where not all units wanted are freed, and `migrations`."""
    goals, wanted = [], min(program.aim.count, len(program.units))
    if freed < wanted and (most := program.relax(None, clock)) is not None:
        goals.append(program.prices("free", most))
    if "migrations" in program.formulation.instance.objectives:
        relaxed = program.relax(freed, clock)
        if relaxed is not None:
            goals.append(program.prices("migrations", relaxed))
    return goals


def free_servers(progress: Progress, options: SolveOptions, clock: Clock) -> None:
    """Free as many units as are wanted and can be freed, with the fewest moves.

    Plan, bounds and prices are stored in `progress`; nothing where a job runs with a part of its tasks only.
    """
    formulation = progress.formulation
    program = MoveProgram(formulation)
    if not program.tasks.complete:
        return
    most = freed = min(program.aim.count, len(program.units))
    relaxed, values, fewest = program.relax(freed, clock), None, -math.inf
    if relaxed is not None:
        values, fewest = program.fewest_moves(freed, relaxed, options, clock.share(SHARE_OF_WANTED))
    if values is None:
        values, bound = program.most_units(options, clock.share(SHARE_OF_MOST))
        most = min(most, int(bound))
        freed = 0 if values is None else min(most, int(values[: len(program.units)].sum()))
        relaxed = program.relax(freed, clock)
        if relaxed is not None:
            values, fewest = program.fewest_moves(freed, relaxed, options, clock, values)
    if values is not None:
        progress.update_incumbent(program.plan(values))
    if progress.plan is None:
        return
    progress.bounds = [float(most)]
    reached = int(progress.values[0])
    if formulation.instance.objectives[1:2] == ("migrations",) and reached >= freed:
        progress.bounds.append(float(max(0.0, fewest)))
    progress.moves = room_prices(program, reached, clock)
    progress.tighten(
        formulation.certified_bounds(progress.certificate(), progress.values)[: len(progress.bounds)]
    )
