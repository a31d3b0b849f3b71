"""The pricing problem of servers in the check: the most that pieces pay for one server, in integers.

Where there are few different sums of demands, dynamic programming tabulates the best value of each, for all
servers of a pool at once. Otherwise each server is a knapsack. A piece that stays belongs to a resident task
of the server. With the table, such pieces are chosen one resident after the other, and the residual capacity
is filled with other pieces; in the knapsack each resident is one more group of alternatives.

The knapsack is a multiple-choice knapsack with several resources. One resource is counted in cells, and the
others are relaxed with Lagrange multipliers λ ≥ 0 (Martello & Toth 1990): the price less λ times the demand
is maximised over cells by dynamic programming, group by group. The table completes every partial solution to
a bound, and branch and bound always extends the one of largest bound (A*, Hart, Nilsson & Raphael 1968).
Floating point only proposes λ: any is valid, and sums are integers.
"""

from __future__ import annotations

import heapq
import math
import operator
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ....instances.common.arrays import Ints
from ....instances.common.errors import TooLargeError
from ...common.clock import check_time, time_is_up
from ..classes import Classes, Vector

Amounts = Sequence[int]
"""Units of each resource."""
Alternatives = tuple[Ints, Ints]
"""Demands of the alternatives of a group, shape (A, R), and their prices, shape (A,)."""
Groups = Sequence[Alternatives]

MAX_CELLS = 1_000
"""Largest number of cells in which one resource is counted; larger amounts are rounded down."""
MAX_COUNTED_RESOURCES = 3
"""Number of resources that are tried as the resource counted in cells."""
TUNING_STEPS = (0.08, 0.04, 0.02)
"""Relative steps by which multipliers are tuned for hard servers."""
FIRST_NODES = 100
"""Limit on the nodes with multipliers of another server, and with dual prices, before tuning."""
MIN_NODES = 300
"""Least number of nodes for each server."""
MAX_RELAXATIONS = 8
"""Number of relaxations that are kept for other servers."""
MAX_BOUND = 2**60
"""Limit on bounds in the search, so that sums do not overflow 64 bits."""


@dataclass
class NodeBudget:
    """Remaining limit on branch-and-bound nodes for several servers; each search gets a share of it."""

    left: int

    @property
    def share(self) -> int:
        """Maximum number of branch-and-bound nodes for the next server."""
        return max(MIN_NODES, self.left // 4) if self.left > 0 else 0


class Knapsack:
    """The multiple-choice knapsack with several resources of the servers of a pool.

    Parameters
    ----------
    limit
        Largest residual capacity of each resource on a server.

    Raises
    ------
    TooLargeError
        If sums of prices overflow 64 bits.
    """

    def __init__(self, groups: Groups, limit: Amounts) -> None:
        self.limit = limit
        self.groups = _useful_alternatives(groups, limit)
        self._known: deque[_Relaxation] = deque(maxlen=MAX_RELAXATIONS)

    def most(
        self,
        free: Amounts,
        least: int,
        effort: NodeBudget,
        residents: Groups = (),
    ) -> int:
        """Return the optimum of the knapsack for a residual capacity, or an upper bound on it.

        Parameters
        ----------
        least
            Values up to this one need not be distinguished.
        effort
            Limit on nodes; then, or when the time is up, the best bound is returned.
        residents
            Further groups, of the tasks that run on the server now.
        """
        residents = _useful_alternatives(residents, free)
        fitting = [*residents, *_useful_alternatives(self.groups, free)]
        bound = sum(int(paid.max()) for _, paid in fitting)
        if not fitting or not len(free):
            return bound
        for known, nodes in self._relaxations_for(fitting, residents, free, effort.share):
            relaxation = known.beside(residents)
            reached, exact, visited = relaxation.search(free, least, nodes)
            bound = min(bound, reached)
            effort.left -= visited
            if exact or time_is_up():
                break
        return bound

    def _relaxations_for(
        self,
        fitting: Groups,
        residents: Groups,
        free: Amounts,
        nodes: int,
    ) -> Iterator[tuple[_Relaxation, int]]:
        """Yield Lagrangian relaxations of a server's knapsack by rising work, each with a node limit."""
        few = min(nodes, FIRST_NODES)
        # Servers are much alike, so that mostly the multipliers of another one do.
        nearest = min(self._known, key=lambda relaxation: relaxation.root(free), default=None)
        if nearest is not None:
            yield nearest, few
            if not nodes:
                return
        own = self._best_relaxation(fitting, residents, free)
        self._known.append(own)
        yield own, few
        if not nodes:
            return
        self._known[-1] = tuned = own.tuned(free, residents)
        yield tuned, nodes

    def _best_relaxation(
        self,
        fitting: Groups,
        residents: Groups,
        free: Amounts,
    ) -> _Relaxation:
        """Return the Lagrangian relaxation of best root bound over the candidate unrelaxed resources.

        The candidates are the most expensive resources at LP dual prices.
        """
        multipliers = _dual_prices(fitting, free)
        cost = [each * amount for each, amount in zip(multipliers, free, strict=True)]
        costly = sorted(range(len(free)), key=lambda r: -cost[r])[:MAX_COUNTED_RESOURCES]
        made = (_Relaxation(self.groups, self.limit, r, multipliers) for r in costly)
        return min(made, key=lambda relaxation: relaxation.beside(residents).root(free))


def _useful_alternatives(groups: Groups, free: Amounts) -> list[Alternatives]:
    """Return, by group, the alternatives of positive price that fit into the residual capacity.

    Raises
    ------
    TooLargeError
        If sums of prices overflow 64 bits.
    """
    groups_left = []
    for weights, paid in groups:
        useful = (paid > 0) & (weights <= np.array(free)).all(axis=1)
        if useful.any():
            groups_left.append((weights[useful], paid[useful]))
    if sum(int(paid.max()) for _, paid in groups_left) > MAX_BOUND // 8:
        raise TooLargeError("prices are too large to be added up")
    return groups_left


def _dual_prices(groups: Groups, free: Amounts) -> list[float]:
    """Return the dual price of each resource in the LP relaxation of the multiple-choice knapsack."""
    import highspy  # SciPy's linprog, which calls it too, takes half a second to load

    size = np.maximum(np.array(free, dtype=float), 1.0)
    fractions = np.concatenate([weights for weights, _ in groups]) / size
    paid = np.concatenate([paid for _, paid in groups]).astype(float)
    unit = float(paid.max())
    columns, resources = fractions.shape
    group = np.repeat(np.arange(len(groups)), [len(paid) for _, paid in groups])
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = columns, resources + len(groups)
    model.col_cost_ = -paid / unit
    model.col_lower_, model.col_upper_ = np.zeros(columns), np.full(columns, np.inf)
    # All resources, then at most one alternative of each group.
    model.row_lower_, model.row_upper_ = np.full(model.num_row_, -np.inf), np.ones(model.num_row_)
    rows = np.broadcast_to(np.arange(resources), (columns, resources))
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = np.arange(columns + 1, dtype=np.int32) * (resources + 1)
    model.a_matrix_.index_ = np.column_stack([rows, resources + group]).ravel().astype(np.int32)
    model.a_matrix_.value_ = np.column_stack([fractions, np.ones(columns)]).ravel()
    highs = highspy.Highs()
    highs.silent()
    highs.passModel(model)
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return [0.0] * resources
    duals = np.array(highs.getSolution().row_dual[:resources])
    multipliers: list[float] = (np.nan_to_num(np.maximum(-duals, 0.0)) * unit / size).tolist()
    return multipliers


@dataclass(frozen=True)
class _PartialSolution:
    """A partial solution of the knapsack: alternatives chosen from the groups before `group`.

    Attributes
    ----------
    reduced
        Price of the alternatives, less the cost of their demand for relaxed resources, plus the cost of the
        whole residual capacity.
    rest, cells
        Remaining amounts of each resource, and of the resource counted in cells.
    """

    group: int
    reduced: int
    paid: int
    rest: Ints
    cells: int


@dataclass(frozen=True)
class _Extensions:
    """The extensions of a partial knapsack solution by one alternative, by decreasing upper bound."""

    choice: _PartialSolution
    bounds: Ints
    added: Ints

    def push(self, open_: list[tuple[int, int, int]], number: int, place: int) -> None:
        """Add an extension, if there is one, to a priority queue: largest bound first, then newest branch."""
        if place < len(self.bounds):
            heapq.heappush(open_, (-int(self.bounds[place]), -number, place))


class _Relaxation:
    """The Lagrangian relaxation of the knapsack in which all resources but one are relaxed.

    Parameters
    ----------
    rest
        The relaxation of further groups, at the same multipliers; they come after the given ones.
    """

    def __init__(
        self,
        groups: Groups,
        limit: Amounts,
        resource: int,
        multipliers: Sequence[float],
        rest: _Relaxation | None = None,
    ) -> None:
        self.groups, self.limit, self.resource, self.multipliers = groups, limit, resource, list(multipliers)
        self.ratios = [m.as_integer_ratio() for m in multipliers]
        self.cell = max(1, -(-limit[resource] // MAX_CELLS))
        if self.cell == 1:
            # What is counted exactly needs no multiplier; coarse cells alone would lose what is rounded.
            self.ratios[resource] = (0, 1)
        own = [(weights, paid, paid - self._alternative_costs(weights)) for weights, paid in groups]
        # Groups that gain most from a cell come first: what follows matters little then.
        own.sort(key=lambda group: -(group[2] / np.maximum(group[0][:, resource], 1)).max())
        self.ordered: list[tuple[Ints, Ints, Ints]] = [*own, *(rest.ordered if rest is not None else ())]
        weights, paid, reduced = ([group[column] for group in self.ordered] for column in range(3))
        none = np.zeros((0, len(limit)), dtype=np.int64)
        self.weights: Ints = np.concatenate([none, *weights])
        self.paid: Ints = np.concatenate([none.ravel(), *paid])
        self.reduced: Ints = np.concatenate([none.ravel(), *reduced])
        self.cells: Ints = self.weights[:, resource] // self.cell
        sizes = list(map(len, paid))
        self.group, self.first = np.repeat(np.arange(len(sizes)), sizes), np.cumsum([0, *sizes])
        last = np.zeros((1, limit[resource] // self.cell + 1), dtype=np.int64)
        self.table: Ints = self._completions(len(own), last if rest is None else rest.table)

    def beside(self, residents: Groups) -> _Relaxation:
        """Return the relaxation with the groups of resident tasks before all others."""
        if not residents:
            return self
        return _Relaxation(residents, self.limit, self.resource, self.multipliers, self)

    def _alternative_costs(self, weights: Ints) -> Ints:
        """Return the cost, at the multipliers, of each alternative's demand for the relaxed resources."""
        # What costs more than any server holds may cost less: bounds stay bounds.
        cost = [min(self._amount_cost(row), MAX_BOUND) for row in weights.tolist()]
        return np.array(cost, dtype=np.int64)

    def _amount_cost(self, amounts: Amounts) -> int:
        """Return the cost, at the multipliers, of amounts of the relaxed resources (superadditive)."""
        pairs = zip(amounts, self.ratios, strict=True)
        return sum(numerator * amount // denominator for amount, (numerator, denominator) in pairs)

    def _completions(self, groups: int, rest: Ints) -> Ints:
        """Return the maximum reduced price of groups g, g + 1, … by capacity; shape (groups + 1, cells + 1).

        A cell is a block of units of the unrelaxed resource. The table of further groups is `rest`.
        """
        cells = rest.shape[1] - 1
        table = np.concatenate([np.zeros((groups, cells + 1), dtype=np.int64), rest])
        for g in range(groups - 1, -1, -1):
            table[g] = table[g + 1]
            for a in range(self.first[g], self.first[g + 1]):
                if self.reduced[a] > 0:
                    width = int(self.cells[a])
                    with_it = table[g + 1, : cells + 1 - width] + self.reduced[a]
                    np.maximum(table[g, width:], with_it, out=table[g, width:])
        return table

    def root(self, free: Amounts) -> int:
        """Return the Lagrangian upper bound on the knapsack at a residual capacity."""
        return self._amount_cost(free) + int(self.table[0, free[self.resource] // self.cell])

    def tuned(self, free: Amounts, residents: Groups) -> _Relaxation:
        """Return the relaxation at the neighbouring multipliers of best bound, or this one if it is best.

        The bound is that with residents.
        """
        best = self
        for step in TUNING_STEPS:
            for r, (numerator, _) in enumerate(self.ratios):
                for factor in (1 - step, 1 + step) if numerator else ():
                    multipliers = list(best.multipliers)
                    multipliers[r] *= factor
                    other = _Relaxation(self.groups, self.limit, self.resource, multipliers)
                    if other.beside(residents).root(free) < best.beside(residents).root(free):
                        best = other
                        break
        return best

    def search(self, free: Amounts, least: int, nodes: int) -> tuple[int, bool, int]:
        """Run branch and bound; return an upper bound, whether it is exact, and the number of nodes.

        A bound of at most `least` counts as exact.
        """
        if self.root(free) > MAX_BOUND:
            return self.root(free), False, 0
        everything = _PartialSolution(
            0, self._amount_cost(free), 0, np.array(free), free[self.resource] // self.cell
        )
        incumbent, branch = self._extensions(everything, max(0, least))
        branches, open_, visited = [branch], list[tuple[int, int, int]](), 0
        branch.push(open_, 0, 0)
        while open_ and -open_[0][0] > incumbent and visited < nodes and not time_is_up():
            visited += 1
            _, newest, place = heapq.heappop(open_)
            branches[-newest].push(open_, -newest, place + 1)
            incumbent, branch = self._extensions(self._extend(branches[-newest], place), incumbent)
            branch.push(open_, len(branches), 0)
            branches.append(branch)
        bound = -open_[0][0] if open_ else incumbent
        return max(bound, incumbent), bound <= incumbent, visited

    def _extensions(self, choice: _PartialSolution, incumbent: int) -> tuple[int, _Extensions]:
        """Return the incumbent's value, and the extensions of a partial solution that may exceed it."""
        begin = self.first[choice.group]
        fits = np.flatnonzero((self.weights[begin:] <= choice.rest).all(axis=1)) + begin
        incumbent = max(incumbent, choice.paid + int(self.paid[fits].max(initial=0)))
        left = choice.cells - self.cells[fits]
        bounds = choice.reduced + self.reduced[fits] + self.table[self.group[fits] + 1, left]
        promising = np.flatnonzero(bounds > incumbent)
        order = promising[np.argsort(-bounds[promising], kind="stable")]
        return incumbent, _Extensions(choice, bounds[order], fits[order])

    def _extend(self, branch: _Extensions, place: int) -> _PartialSolution:
        """Return the partial knapsack solution with one more alternative."""
        added, choice = int(branch.added[place]), branch.choice
        return _PartialSolution(
            int(self.group[added]) + 1,
            choice.reduced + int(self.reduced[added]),
            choice.paid + int(self.paid[added]),
            choice.rest - self.weights[added],
            choice.cells - int(self.cells[added]),
        )


MAX_MERGED = 1_000_000
"""Limit on the sums of demands merged into the table of one pool; takes a fraction of a second."""
MAX_RESIDUALS = 5_000
"""Limit on the residual capacities beside the residents that stay on a server."""
MAX_KEY = 2**62
"""Upper limit of the integers into which the amounts of all resources are packed."""


class ServerPrices:
    """The pricing problem of the servers of one pool: tasks of maximum total price on one server.

    Parameters
    ----------
    prices
        For each shape the price of each of its pieces.
    effort
        Node limit of the searches; beyond, they return a bound.
    """

    def __init__(
        self, classes: Classes, pool: str | None, prices: Sequence[Ints], effort: NodeBudget
    ) -> None:
        self.classes, self.prices, self.effort = classes, prices, effort
        free = [server.free for server in classes.servers if server.pool == pool]
        self.limit = [max(amounts) for amounts in zip(*free, strict=True)]
        # Tasks of several jobs of one shape may share a server: any split into pieces may be best.
        self.groups = [
            (
                classes.weights(k, classes.slots[k]),
                best_split_prices(classes.pieces[k], classes.slots[k], prices[k]),
            )
            for k in classes.shapes_of(pool)
        ]
        self.table = _value_table(self.groups, np.array(self.limit, dtype=np.int64))

    @cached_property
    def knapsack(self) -> Knapsack:
        """The knapsack of the servers of the pool, where sums of demands are not tabulated."""
        return Knapsack(self.groups, self.limit)

    def most(self, free: Vector, residents: Vector = (), least: int = 0) -> int:
        """Return the maximum total price of tasks on one server, or an upper bound on it.

        Parameters
        ----------
        residents
            Shapes of the current placements on the server.
        least
            Values up to this one need not be distinguished.

        Raises
        ------
        TooLargeError
            If there are too many residents.
        """
        if self.table is not None:
            check_time()
            return self._from_table(self.table, free, residents)
        alternatives = [(self.classes.weights(k, self.classes.pieces[k]), self.prices[k]) for k in residents]
        return self.knapsack.most(free, least, self.effort, alternatives)

    def _from_table(self, table: tuple[Ints, Ints], free: Vector, residents: Vector) -> int:
        """Return the optimum of a server's pricing problem from the table of subset sums of demands.

        Resident tasks that stay are chosen first, and other tasks beside them.
        """
        selections = {free: 0}
        for shape in residents:
            weights = self.classes.weights(shape, self.classes.pieces[shape]).tolist()
            for left, paid in list(selections.items()):
                for weight, price in zip(weights, self.prices[shape].tolist(), strict=True):
                    rest = tuple(map(operator.sub, left, weight))
                    # A resident without a positive price had better go.
                    if price > 0 and min(rest) >= 0:
                        selections[rest] = max(selections.get(rest, 0), paid + price)
            if len(selections) > MAX_RESIDUALS:
                raise TooLargeError("a server has too many residents")
        demands, worth = table
        return max(
            paid + int(worth[(demands <= np.array(left)).all(axis=1)].max())
            for left, paid in selections.items()
        )


def _value_table(groups: Groups, limit: Ints) -> tuple[Ints, Ints] | None:
    """Return the subset sums of demands and the maximum total price of each; None if there are too many."""
    # Amounts as one number, in which equal amounts are found by sorting.
    sizes = [amount + 1 for amount in limit.tolist()]
    if math.prod(sizes) > MAX_KEY:
        return None
    radix = np.array([math.prod(sizes[r + 1 :]) for r in range(len(sizes))], dtype=np.int64)
    demands, worth, work = np.zeros((1, len(limit)), dtype=np.int64), np.zeros(1, dtype=np.int64), 0
    for weights, gain in groups:
        useful = gain > 0
        everything, paid = [demands], [worth]
        for weight, more in zip(weights[useful], gain[useful].tolist(), strict=True):
            check_time()
            fits = (demands + weight <= limit).all(axis=1)
            everything.append(demands[fits] + weight)
            paid.append(worth[fits] + more)
            work += len(demands)
            if work > MAX_MERGED:
                return None
        demands, worth = np.concatenate(everything), np.concatenate(paid)
        # Each distinct sum once, with its maximum total price.
        keys = demands @ radix
        order = np.lexsort((worth, keys))
        chosen = order[np.append(np.diff(keys[order]) != 0, True)]
        demands, worth = demands[chosen], worth[chosen]
    return demands, worth


def best_split_prices(pieces: Ints, slots: Ints, prices: Ints) -> Ints:
    """Return the maximum price of each vector of task counts over its splits among jobs; shape (S,)."""
    if len(pieces) < len(slots):  # only single tasks have a price
        singles: Ints = slots[:, 0] * prices[0]
        return singles
    shape = tuple((slots.max(axis=0, initial=0) + 1).tolist())
    gain = np.full(shape, np.iinfo(np.int64).min // 4, dtype=np.int64)
    gain.flat[0] = 0
    gain[tuple(slots.T)] = prices
    for counts in slots[np.argsort(slots.sum(axis=1), kind="stable")].tolist():
        check_time()
        box = gain[tuple(slice(0, c + 1) for c in counts)]
        gain[tuple(counts)] = (box + np.flip(box)).max()
    result: Ints = gain[tuple(slots.T)]
    return result
