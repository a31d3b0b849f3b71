"""Pricing problem of the contents of named servers: a bounded knapsack with several resources, compiled.

Depth-first branch and bound with the bound of Dantzig (1957) on one resource in place of all: the weighted
sum of the shares of a server's capacities. The weights are tuned for a server where the search takes long. An
item is left out while one more of a better and smaller item would do (dominance, Martello & Toth 1990).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ....formulations.common.compiled import compiled
from ....formulations.consolidation.cluster_data import RequiredTasks
from ....instances.common.arrays import Floats, Ints
from ....instances.common.errors import TooLargeError

PRICE_DIGITS = 6
"""Decimals to which prices of tasks are rounded."""
PRICE_SCALE = 10**PRICE_DIGITS
"""Worths are counted in integer multiples of 1 / PRICE_SCALE of a move."""
MAX_WORTH = 2**50
"""Limit on the worth of all tasks, so that sums are exact in floating point."""
NODES_PER_SERVER, FEW_NODES = 2_000, 200
"""Mean limit on the steps of the search for one server, and steps that each server has in any case."""
SLACKS = (0.0, 0.0, 0.001, 0.01, 0.1)
"""Shares of the worth by which contents may be better than those found, in one search after the other."""
WEIGHT_STEPS = (4.0, 2.0, 1.4, 1.2)
"""Factors by which weights of resources are tuned where the search takes many steps."""
SPARE_SHARE, LEAST_SHARE = 1e-12, 1e-12
"""What rounding may lose of a server's capacity, and the least share of it that a task takes."""


@compiled
def _shares(gains: Ints, demands: Ints, limits: Ints, weights: Floats) -> tuple[Floats, Ints]:
    """Return what each item takes of a server, by weights of the resources, and an order of the items.

    What is worth most for its share comes first, as in the bound of Dantzig (1957).
    """
    share = np.full(len(gains), LEAST_SHARE)
    for r in range(len(limits)):
        if limits[r] > 0:
            share += weights[r] / limits[r] * demands[:, r]
    return share, np.argsort(-gains / share, kind="mergesort")


@compiled
def _dantzig_bound(gains: Ints, share: Floats, most: Ints, order: Ints, space: float) -> float:
    """Return the most that items in this order are worth in the space left, if they could be divided."""
    bound = 0.0
    for item in order:
        some = min(most[item], space / share[item])
        bound += some * gains[item]
        space -= some * share[item]
        if space <= 0.0:
            break
    return bound


@compiled
def _is_dominated(gains: Ints, demands: Ints, most: Ints, count: Ints, order: Ints, depth: int) -> bool:
    """Return whether one more of an earlier item does in place of an item: worth no less, and no larger."""
    item = order[depth]
    for other in order[:depth]:
        if count[other] < most[other] and gains[other] >= gains[item]:
            needs_more = False
            for r in range(demands.shape[1]):
                needs_more |= demands[other, r] > demands[item, r]
            if not needs_more:
                return True
    return False


@compiled
def _search(
    gains: Ints,
    demands: Ints,
    most: Ints,
    limits: Ints,
    weights: Floats,
    slack: float,
    nodes: int,
    contents: Ints,
) -> tuple[int, bool, int]:
    """Search for the contents of one server; return a bound on their worth, if it ended, and its steps.

    Depth-first branch and bound with Dantzig's bound on one resource in place of all. What is better by less
    than a share `slack` is not looked for, but bounded.
    """
    share, order = _shares(gains, demands, limits, weights)
    left, count, space = limits.copy(), np.zeros(len(gains), np.int64), weights.sum() + SPARE_SHARE
    root = int(_dantzig_bound(gains, share, most, order, space)) + 1
    value, best, proven, depth, visited, descends = 0, 0, 0.0, 0, 0, True
    while depth >= 0:
        if descends:
            visited += 1
            if value > best:
                best = value
                contents[:] = count
            if visited > nodes:
                return root, False, visited
            # Worths are integers, and rounding errors are far below one half.
            bound = value + _dantzig_bound(gains, share, most, order[depth:], space)
            if bound < best * (1.0 + slack) + 0.5:
                proven = max(proven, bound)
            elif depth < len(order):
                item = order[depth]
                dominated = _is_dominated(gains, demands, most, count, order, depth)
                number = 0 if dominated else most[item]
                for r in range(len(left)):
                    if demands[item, r] > 0:
                        number = min(number, left[r] // demands[item, r])
                count[item] = number
                left -= number * demands[item]
                space -= number * share[item]
                value += number * gains[item]
                depth += 1
                continue
        depth -= 1
        descends = depth >= 0 and count[order[depth]] > 0
        if descends:
            item = order[depth]
            count[item] -= 1
            left += demands[item]
            space += share[item]
            value -= gains[item]
            depth += 1
    return max(best, int(proven)), True, visited


@compiled
def best_contents(gains: Ints, demands: Ints, most: Ints, limits: Ints, nodes: int) -> tuple[Ints, Ints]:
    """Return what the contents of each server are worth at most, shape (M,), and contents; shape (M, I).

    Parameters
    ----------
    gains, demands
        Worth of each item, shape (I,), and its demand for each resource, shape (I, R).
    most
        How many of each item a server may hold; shape (M, I).
    limits
        Capacity of each server; shape (M, R).
    nodes
        Limit on the steps for all servers, of which one takes a part of what is left, or a few. Beyond it
        the worth is a bound, which the contents may not attain.
    """
    worth, contents = np.zeros(len(most), np.int64), np.zeros(most.shape, np.int64)
    for m in range(len(most)):
        useful = (gains > 0) & (most[m] > 0)
        for r in range(limits.shape[1]):
            useful &= demands[:, r] <= limits[m, r]
        items = np.nonzero(useful)[0]
        item_gains, item_demands, item_most = gains[items], demands[items], most[m][items]
        found, weights, limit = np.zeros(len(items), np.int64), np.ones(limits.shape[1]), FEW_NODES
        for slack in SLACKS:
            worth[m], ended, visited = _search(
                item_gains, item_demands, item_most, limits[m], weights, slack, limit, found
            )
            nodes = max(0, nodes - visited)
            if ended:
                break
            if not slack:
                # Dantzig's bound is made small by coordinate search.
                weights, best = np.ones(limits.shape[1]), np.inf
                for step in WEIGHT_STEPS:
                    for r in range(limits.shape[1]):
                        for factor in (1.0, step, 1.0 / step):
                            other = weights.copy()
                            other[r] *= factor
                            share, order = _shares(item_gains, item_demands, limits[m], other)
                            bound = _dantzig_bound(item_gains, share, item_most, order, other.sum())
                            if bound < best:
                                weights, best = other, bound
            limit = FEW_NODES + nodes // 8
        contents[m][items] = found
    return worth, contents


class PricedContents:
    """The contents of each server that are worth most at prices of tasks, and the bound that these prove.

    Attributes
    ----------
    contents, worth
        The contents of each server if it is not freed, shape (M, S), and their worth or a bound on it, (M,).
    units
        What each unit gives up if it is freed; shape (U,).
    least
        The least cost if no unit has to be freed.

    Raises
    ------
    TooLargeError
        If prices are too large.
    """

    def __init__(self, tasks: RequiredTasks, prices: Floats, cost: int) -> None:
        if float(tasks.needed @ (prices + cost)) * PRICE_SCALE > MAX_WORTH:
            raise TooLargeError("prices are too large to be added up")
        paid: Ints = (prices * PRICE_SCALE).astype(np.int64)
        stays = paid + cost * PRICE_SCALE
        # What comes and what stays are different items: only the latter saves moves.
        stay = np.zeros_like(tasks.held) if tasks.direct else tasks.held
        most = np.concatenate([tasks.destinations * (tasks.needed - tasks.held), stay], axis=1)
        limits = tasks.room if tasks.direct else tasks.capacity
        gains, demands = np.concatenate([paid, stays]), np.concatenate([tasks.demands, tasks.demands])
        self.worth, chosen = best_contents(gains, demands, most, limits, NODES_PER_SERVER * len(most))
        self.contents = sum(np.hsplit(chosen, 2), tasks.held - stay)
        self.worth += (tasks.held - stay) @ stays
        self.units = np.array([sum(self.worth[servers].tolist()) for servers in tasks.units], dtype=object)
        self.running = cost * PRICE_SCALE * int(tasks.held.sum())
        self.least = int(tasks.needed @ paid) + self.running - sum(self.worth.tolist())

    def cost(self, wanted: int, decided: Mapping[int, bool]) -> int:
        """Return a bound on the cost of plans that free so many units; which are freed may be decided.

        More than all moves if there is no such plan.
        """
        freed = [u for u, is_freed in decided.items() if is_freed]
        others = np.sort(np.delete(self.units, list(decided)))
        if len(freed) + len(others) < wanted:
            return int(self.running + PRICE_SCALE)
        more = sum(others[: max(0, wanted - len(freed))])
        return int(self.least + sum(self.units[freed]) + more)

    def most_units(self) -> int:
        """Return the largest number of units that can be freed, if moves cost nothing."""
        return int((self.least + np.cumsum(np.sort(self.units)) <= 0).sum())
