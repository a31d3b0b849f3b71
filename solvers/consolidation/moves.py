"""The fewest moves that free servers or let jobs start: column generation over the contents of servers.

The formulation is that of the check, `formulations.consolidation.check.moves`. Its relaxation is solved by
column generation (Dantzig & Wolfe 1960): the prices of tasks stay in a box around the best ones so far,
whose size follows the success (Du Merle et al. 1999, Marsten et al. 1975). The plan is an integer solution
over the contents that were found. Where a gap is left, a tree branches on the units that are freed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...formulations.consolidation.certificate import MAX_LEAVES
from ...formulations.consolidation.cluster_data import RequiredTasks
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.plan import JobPlacement, Plan, entry_of
from ...instances.common.arrays import Floats, Ints
from ...instances.common.fields import Fields
from ..backends.highs import Columns, branch_and_bound, linear_optimum, linear_program
from ..common.base import Clock
from ..common.result import SolveOptions
from .patterns.contents_pricing import PRICE_DIGITS, PRICE_SCALE, PricedContents
from .progress import Progress

TOLERANCE = 1e-4
"""Difference up to which bound and value of the linear relaxation agree, in moves."""
FIRST_WIDTH, LEAST_WIDTH, MOST_WIDTH = 0.5, 0.02, 1_000.0
"""Half the size of the box of prices: at first, at least and at most."""
SUCCESS, WIDER, NARROWER, REACHED = 0.3, 1.5, 0.6, 4.0
"""Share of the gap that is a success, and factors on the box: after it, after none, at the box's optimum."""
REDUCED_COST = 1.0
"""Contents are first left out of the integer programme if they cost more than this beyond their prices."""
MOST_TRIES, VARIATION = 6, 2.0
"""Integer programmes without success, and change of the prices from which other contents are found."""
TREE_PATIENCE_S = 20.0
"""Seconds that the search for a branching tree may take."""
SHARE_OF_WANTED, SHARE_OF_RELAXATION, SHARE_OF_PROGRAMME, SHARE_OF_VARIATION = 0.7, 0.6, 0.5, 0.3
"""Shares of the time left: for the whole aim, its relaxation, an integer programme, and other contents."""
SHARE_OF_UNITS, FEW_UNITS = 0.3, 8
"""Share of the time left for the most units, and number up to which bisection alone finds how many."""


@dataclass(frozen=True)
class PricedTasks:
    """Prices of tasks, the bound that they prove, and how much of each unit the relaxation frees.

    Attributes
    ----------
    cost
        The bound in moves, not rounded; where moves cost nothing, in units freed, less than 0.
    """

    bound: PricedContents
    cost: float
    prices: Floats
    units: Floats


class MoveProgram:
    """The restricted master problem of the fewest moves, and its solution by column generation.

    Rows: units wanted; tasks of each shape; servers. Columns: units freed; for each shape, tasks too few and
    tasks too many, which keep prices in a box; contents of servers.

    Attributes
    ----------
    worth
        What a unit is worth where moves cost nothing, so that prices are of the same size as for moves.
    """

    def __init__(self, formulation: ConsolidationFormulation, options: SolveOptions) -> None:
        self.formulation, self.options = formulation, options
        tasks = self.tasks = RequiredTasks(formulation)
        self.contents: dict[tuple[int, bytes], Ints] = {}
        self.random = np.random.default_rng(options.seed or 0)
        self.columns, self.running = Columns(), int(tasks.held.sum())
        shapes, self.free = len(tasks.shapes), len(tasks.units)
        self.first = self.free + 2 * shapes
        self.wanted, self.worth = formulation.most_freed, max(1, self.running // max(1, self.free))
        self._trees: dict[tuple[int, float], list[Fields]] = {}
        for servers in tasks.units:
            self.columns.add(0.0, [(0, 1.0), *((1 + shapes + m, 1.0) for m in servers)], 1.0)
        for sign in (1.0, -1.0):
            for s in range(shapes):
                self.columns.add(0.0, [(1 + s, sign)])
        for m in range(len(tasks.position)):
            self._add(m, tasks.held[m])

    def _add(self, server: int, contents: Ints) -> None:
        """Add the column of the contents of a server, unless it exists or they do not fit."""
        key = server, contents.tobytes()
        if key in self.contents or (contents @ self.tasks.demands > self.tasks.capacity[server]).any():
            return
        self.contents[key] = contents
        entries = [(1 + s, float(contents[s])) for s in np.flatnonzero(contents).tolist()]
        stays = float(np.minimum(contents, self.tasks.held[server]).sum())
        self.columns.add(-stays, [*entries, (1 + len(contents) + server, 1.0)], 1.0)

    def _model(
        self, cost: int, decided: Mapping[int, bool], box: tuple[Floats, Floats] | None, used: Any = ()
    ) -> Any:
        """Return a `HighsLp`: fewest moves for the units wanted or, where moves cost nothing, most units.

        Parameters
        ----------
        box
            The least and the largest price of each shape; None for the integer programme.
        used
            For this, the contents that may be used.
        """
        costs, most = np.array(self.columns.costs) * cost, np.array(self.columns.most)
        least, units = np.zeros(len(costs)), slice(0, self.free)
        costs[units] = (cost - 1.0) * self.worth
        for u, is_freed in decided.items():
            least[u] = most[u] = float(is_freed)
        if box is None:
            most[self.free : self.first] = 0.0
            most[self.first :] *= used
        else:
            costs[self.free : self.first] = np.concatenate([box[1], -box[0]])
        servers = len(self.tasks.position)
        low = np.concatenate([[self.wanted * cost], self.tasks.needed, np.full(servers, -np.inf)])
        high = np.concatenate([np.full(len(low) - servers, np.inf), np.ones(servers)])
        whole = [True] * len(costs) if box is None else ()
        return linear_program(costs, (least, most), (low, high), self.columns.matrix, whole)

    def _priced(self, prices: Floats, units: Floats, cost: int, decided: Mapping[int, bool]) -> PricedTasks:
        """Return the bound that prices prove, and add the contents that are worth most."""
        bound = PricedContents(self.tasks, prices, cost)
        for m, contents in enumerate(bound.contents):
            self._add(m, contents)
        if cost:
            proven = bound.cost(self.wanted, decided)
        else:
            proven = bound.least + sum(np.minimum(bound.units - self.worth * PRICE_SCALE, 0))
            proven /= self.worth
        return PricedTasks(bound, proven / PRICE_SCALE, prices, units)

    def _first_prices(self, cost: int) -> list[Floats]:
        """Return prices of 0 and, for some resources, prices at which the capacity is worth all moves.

        They are the resources of which the units wanted leave too little or, where moves cost nothing, all.
        """
        capacity, asked = self.tasks.capacity.sum(axis=0), self.tasks.needed @ self.tasks.demands
        units = np.array([self.tasks.capacity[u].sum(axis=0) for u in self.tasks.units] or [0 * capacity])
        left = capacity - np.sort(units, axis=0)[: self.wanted].sum(axis=0) * cost
        short = np.flatnonzero((asked > left) | ((capacity > 0) & (not cost)))
        size = self.tasks.demands / np.maximum(capacity, 1)
        return [np.zeros(len(size)), *(np.round(self.running * size[:, r], PRICE_DIGITS) for r in short)]

    def relax(
        self, cost: int, clock: Clock, enough: float, decided: Mapping[int, bool], start: Floats | None = None
    ) -> PricedTasks:
        """Return the best prices that were found, by column generation in a box.

        Parameters
        ----------
        cost
            1 for the fewest moves, 0 for the most units.
        enough
            A bound, rounded up, that ends the search.
        """
        shapes, width = len(self.tasks.needed), FIRST_WIDTH
        starts = self._first_prices(cost) if start is None else [start]
        for prices in starts[1:] if cost else ():
            if (none := self._impossible(prices, decided)) is not None:
                return none
        priced = [self._priced(prices, np.zeros(self.free), cost, decided) for prices in starts]
        best = max(priced, key=lambda one: one.cost)
        while not clock.expired and np.ceil(best.cost) < enough:
            box = np.maximum(best.prices - width, 0.0), best.prices + width
            solved = linear_optimum(self._model(cost, decided, box), clock.remaining_s)
            if solved is None:
                break
            prices = np.round(solved.prices[1 : 1 + shapes], PRICE_DIGITS).clip(0.0)
            found = self._priced(prices, solved.values[: self.free], cost, decided)
            value = solved.value + self.running if cost else solved.value / self.worth
            gain, gap = found.cost - best.cost, value - best.cost
            best = found if gain > 0 else PricedTasks(best.bound, best.cost, best.prices, found.units)
            # Few units are found by bisection, so that nothing is left to do where no better bound is likely.
            if not cost and gain <= 0 and -FEW_UNITS <= np.ceil(value - TOLERANCE) <= np.ceil(best.cost):
                break
            if value - best.cost < TOLERANCE:
                inside = solved.values[self.free : self.first].max(initial=0.0) < TOLERANCE
                if inside or width >= MOST_WIDTH:
                    break
                if cost and (none := self._impossible(best.prices, decided)) is not None:
                    return none
                width *= REACHED
            elif gain > SUCCESS * gap:
                width = min(width * WIDER, MOST_WIDTH)
            elif gain <= 0:
                width = max(width * NARROWER, LEAST_WIDTH)
        return best

    def _impossible(self, prices: Floats, decided: Mapping[int, bool]) -> PricedTasks | None:
        """Return these prices, enlarged, if they prove more moves than there are running tasks, else None."""
        # Without a cost of moves, the bound grows as the prices do.
        cost = PricedContents(self.tasks, prices, 0).cost(self.wanted, decided)
        if cost * MOST_WIDTH <= self.running * PRICE_SCALE:
            return None
        larger = np.ceil(prices * ((self.running + 1) * PRICE_SCALE / cost))
        return self._priced(larger, np.zeros(self.free), 1, decided)

    def integers(
        self, cost: int, relaxed: PricedTasks, clock: Clock, start: Floats | None = None
    ) -> Floats | None:
        """Return an integer solution over the contents; at first over those of low reduced cost."""
        stays = np.array(self.columns.costs[self.first :]) * -cost
        worth = stays + np.array([*self.contents.values()]) @ relaxed.prices
        reduced = relaxed.bound.worth[[m for m, _ in self.contents]] / PRICE_SCALE - worth
        for used in (reduced <= REDUCED_COST, True):
            if start is not None:
                start = np.concatenate([start, np.zeros(len(self.columns.costs) - len(start))])
            patience = clock.share(SHARE_OF_PROGRAMME)
            model = self._model(cost, {}, None, used)
            found, *_ = branch_and_bound(model, {}, patience, self.options, start)
            start = start if found is None else np.rint(found)
            if start is not None and self.value(cost, start) <= np.ceil(relaxed.cost - TOLERANCE):
                break
        return start

    def value(self, cost: int, values: Floats) -> float:
        """Return the number of moves of a solution or, where moves cost nothing, minus its units."""
        if not cost:
            return -float(values[: self.free].sum())
        return self.running + float(values @ np.array(self.columns.costs[: len(values)]))

    def tree(self, relaxed: PricedTasks, value: float, clock: Clock) -> list[Fields]:
        """Return a tree of prices which prove that no plan has fewer moves than a value; empty if not found.

        It is found once for each value.
        """
        key = self.wanted, value
        if key not in self._trees:
            patience = clock.at_most(TREE_PATIENCE_S)
            self._trees[key] = self._branch(relaxed, value, patience, {}) or []
        return self._trees[key]

    def is_proven(self, values: Floats) -> bool:
        """Return whether a tree proves that a solution has the fewest moves for the units wanted."""
        return bool(self._trees.get((self.wanted, self.value(1, values))))

    def _branch(
        self, relaxed: PricedTasks, value: float, clock: Clock, decided: Mapping[int, bool]
    ) -> list[Fields] | None:
        """Return the nodes below a node of the tree, itself included; None if they prove nothing.

        It branches on the unit of which the relaxation frees a half, or nearly.
        """
        if np.ceil(relaxed.cost) >= value:
            return [{"prices": relaxed.prices.tolist()}]
        distance = np.abs(relaxed.units - 0.5)
        distance[list(decided)] = 0.5
        if clock.expired or distance.min(initial=0.5) > 0.5 - TOLERANCE:
            return None
        unit = int(distance.argmin())
        nodes: list[Fields] = [{"unit": list(self.formulation.releasable)[unit]}]
        for is_freed in (False, True):
            more = {**decided, unit: is_freed}
            below = self._branch(self.relax(1, clock, value, more, relaxed.prices), value, clock, more)
            if below is None or len(nodes) + len(below) > MAX_LEAVES:
                return None
            nodes += below
        return nodes

    def plan(self, values: Floats) -> list[JobPlacement]:
        """Return the plan of a solution; tasks of a shape are interchangeable."""
        held = self.tasks.held
        contents = np.zeros_like(held)
        chosen = values[self.first :].astype(bool)
        for (m, _), tasks, is_chosen in zip(self.contents, self.contents.values(), chosen, strict=False):
            contents[m] += tasks * is_chosen
        names, targets = list(self.tasks.position), defaultdict[int, list[str]](list)
        for m, s in np.argwhere(contents > held).tolist():
            targets[s] += [names[m]] * int(contents[m, s] - held[m, s])
        leaving = (held - contents).clip(0)
        placed: dict[str, dict[str, dict[str, int]]] = defaultdict(dict)
        for job, group, s in self.tasks.groups:
            on = Counter(placed[job.name].get(group.name, group.current))
            placed[job.name][group.name] = on
            moves = 0
            if self.tasks.starting[s]:
                moves = group.tasks - group.running_tasks
            for server, count in () if moves else group.current.items():
                m = self.tasks.position[server]
                leaves = min(count, int(leaving[m, s]))
                leaving[m, s] -= leaves
                on[server] -= leaves
                moves += leaves
            on.update(targets[s].pop() for _ in range(moves))
        return [entry_of(job, placed.get(job.name, {})) for job in self.formulation.instance.jobs]

    def fewest_moves(self, clock: Clock, start: Floats | None = None) -> tuple[Floats | None, PricedTasks]:
        """Return the solution with the fewest moves for the units wanted, if one was found, and prices."""
        relaxed = self.relax(1, clock.share(SHARE_OF_RELAXATION), self.running + 1, {})
        tries = 0
        while relaxed.cost <= self.running and tries < MOST_TRIES and not clock.expired:
            better = self.integers(1, relaxed, clock, start)
            if better is None or (start is not None and self.value(1, better) >= self.value(1, start)):
                if start is None:
                    break
                tries += 1
                more = self.random.uniform(0.0, VARIATION, len(relaxed.prices))
                # Another way to the same optimum finds other contents.
                self.relax(
                    1,
                    clock.share(SHARE_OF_VARIATION),
                    self.running + 1,
                    {},
                    np.round(relaxed.prices + more, PRICE_DIGITS),
                )
                continue
            start = better
            # Branching finds contents that a better solution may use.
            if self.tree(relaxed, self.value(1, start), clock):
                break
        return start, relaxed


def _certified(name: str, relaxed: PricedTasks) -> Fields:
    """Return prices as a part of the certificate."""
    return {"objective": name, "prices": relaxed.prices.tolist()}


def certified_moves(
    program: MoveProgram, values: Sequence[float], clock: Clock, known: Mapping[int, PricedTasks]
) -> list[Fields]:
    """Return the prices that bound the units freed, where they are fewer than wanted, and the moves.

    Parameters
    ----------
    values
        Those of a plan that frees the units that the programme wants.
    known
        Prices that are known already, by what a move costs.
    """
    goals, objectives = list[Fields](), program.formulation.instance.objectives
    moves = dict(zip(objectives, values, strict=True)).get("migrations", 0.0)
    for cost, name in enumerate(("free", "migrations")):
        if name not in objectives or not (cost or program.wanted < program.formulation.most_freed):
            continue
        relaxed = known.get(cost) or program.relax(cost, clock, moves if cost else -program.wanted, {})
        goals.append(_certified(name, relaxed))
        tree = program.tree(relaxed, moves, clock) if cost else []
        if len(tree) > 1:
            goals[-1]["tree"] = tree
    return goals


def prices_of_plan(formulation: ConsolidationFormulation, plan: Plan | None, clock: Clock) -> list[Fields]:
    """Return the prices for a plan of any method; none where jobs that run may be stopped."""
    if plan is None or not formulation.instance.has_aim or formulation.violations(plan):
        return []
    program, values = MoveProgram(formulation, SolveOptions()), formulation.evaluate(plan)
    if not program.tasks.shapes:
        return []
    if program.wanted:
        program.wanted = int(values[0])
    return certified_moves(program, values, clock, {})


def plan_moves(progress: Progress, options: SolveOptions, clock: Clock) -> None:
    """Free as many units as are wanted and can be freed, and let jobs start, with the fewest moves.

    Plan, bounds and prices are stored in `progress`; nothing where a job runs that may be stopped, or
    there is nothing to do.
    """
    formulation = progress.formulation
    program = MoveProgram(formulation, options)
    most, known = program.wanted, dict[int, PricedTasks]()
    if not program.tasks.shapes or not (most or program.tasks.starting.total() or formulation.instance.drain):
        return
    values, known[1] = program.fewest_moves(clock.share(SHARE_OF_WANTED) if most else clock)
    if values is None and most:
        known[0] = program.relax(0, clock.share(SHARE_OF_UNITS), 0.0, {})
        most = min(most, known[0].bound.most_units())
        few = most <= FEW_UNITS
        values = None if few else program.integers(0, known[0], clock.share(SHARE_OF_UNITS))
        freed, high = 0 if values is None else round(values[: program.free].sum()), most
        while freed < high and not clock.expired:
            program.wanted = (freed + high + 1) // 2
            found, priced = program.fewest_moves(clock.share(SHARE_OF_PROGRAMME))
            if found is None:
                high = program.wanted - 1
            else:
                freed, values, known[1] = program.wanted, found, priced
        program.wanted = freed
        # What bisection has proven already is not solved again.
        if values is None or not program.is_proven(values):
            values, known[1] = program.fewest_moves(clock, values if freed else None)
    if values is not None:
        progress.update_incumbent(program.plan(values))
    if progress.plan is None:
        progress.infeasible = not most and known[1].cost > program.running
        progress.moves = [_certified("migrations", known[1])] if progress.infeasible else []
        return
    progress.moves = certified_moves(program, progress.values, clock, known)
    place = int(formulation.instance.free is not None)
    progress.bounds = [float(most)] * place
    if formulation.instance.objectives[place : place + 1] != ("migrations",):
        return
    if "tree" in progress.moves[-1]:
        progress.bounds.append(progress.values[place])
    elif not place or progress.values[0] >= program.wanted:
        progress.bounds.append(max(0.0, float(np.ceil(known[1].cost))))
