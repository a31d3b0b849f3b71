"""Bounds on the moves that free servers or let waiting jobs start, proven by prices of tasks.

Sets
    units u that can be freed, servers m, resources r; shapes s of running or of waiting tasks; contents q of
    a server, which has q_s tasks of each shape
Data
    N_s tasks that every plan places, n_sm of them running now;  d_sr their demand;  f_mr capacity;
    c = 1 for each move;  k units wanted
Variables
    y_u ∈ {0,1}: u is freed;  λ_mq ∈ {0,1}: server m has the contents q
Constraints
    Σ_q λ_mq + y_u(m) ≤ 1;  Σ_mq q_s λ_mq ≥ N_s;  Σ_u y_u ≥ k
    Σ_s d_sr q_s ≤ f_mr, and q_s ≤ n_sm where no task of the shape may come; without chains also q_s ≥ n_sm
Objective
    min c (Σ_s n_s − Σ_mq λ_mq Σ_s min(q_s, n_sm)), the running tasks that do not stay

Every plan that frees k units is a solution. With a price π_s ≥ 0 of a task that is placed, the Lagrangian
relaxation decomposes (Dantzig & Wolfe 1960, Geoffrion 1974): a server that is not freed has the contents
that are worth most,

    K_m = max over q of Σ_s (π_s q_s + c min(q_s, n_sm)),

and a unit that is freed gives up the K_m of its servers. So the cost of a plan that frees k units is at least

    Σ_s N_s π_s + c Σ_s n_s − Σ_m K_m + the k least of Σ_{m in u} K_m over the units u.

With c = 0 this is positive only if no plan frees k units, which bounds k. K_m is a bounded knapsack with
several resources, in integers. Where a gap is left, a tree branches on the units that are freed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....instances.common.arrays import Floats, Ints
from ....instances.common.errors import TooLargeError
from ...common.clock import check_time
from ...common.compiled import compiled
from ..certificate import MUST_PLACE, TaskPrices
from ..cluster_data import ClusterData, RequiredTasks

PRICE_SCALE = 10**6
"""Prices are counted in integer multiples of 1 / PRICE_SCALE."""
MAX_WORTH = 2**50
"""Limit on the worth of all contents of a server, so that it is exact in floating point."""
MAX_NODES, FEW_NODES = 2 * 10**7, 200
"""Limit on the steps of all searches for one certificate, and steps that each server has in any case."""
SLACKS = (0.0, 0.0, 0.001, 0.01, 0.1)
"""Shares of the worth by which contents may be better than those found, in one search after the other."""
WEIGHT_STEPS = (4.0, 2.0, 1.4, 1.2)
"""Factors by which weights of resources are tuned where the search takes many steps."""
SPARE_SHARE, LEAST_SHARE = 1e-12, 1e-12
"""What rounding may lose of a server's capacity, and the least share of it that a task takes."""


@compiled
def _useful_items(gains: Ints, demands: Ints, most: Ints, limits: Ints) -> Ints:
    """Return the items that are worth something and of which a server can hold one."""
    useful = (gains > 0) & (most > 0)
    for r in range(len(limits)):
        useful &= demands[:, r] <= limits[r]
    return np.nonzero(useful)[0]


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
def _tuned_weights(gains: Ints, demands: Ints, most: Ints, limits: Ints) -> Floats:
    """Return weights of the resources for which Dantzig's bound is small, by coordinate search."""
    weights, best = np.ones(len(limits)), np.inf
    for step in WEIGHT_STEPS:
        for r in range(len(limits)):
            for factor in (1.0, step, 1.0 / step):
                other = weights.copy()
                other[r] *= factor
                share, order = _shares(gains, demands, limits, other)
                bound = _dantzig_bound(gains, share, most, order, other.sum())
                if bound < best:
                    weights, best = other, bound
    return weights


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
        items = _useful_items(gains, demands, most[m], limits[m])
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
                weights = _tuned_weights(item_gains, item_demands, item_most, limits[m])
            limit = FEW_NODES + nodes // 8
        contents[m][items] = found
    return worth, contents


class MoveBound:
    """What prices of tasks prove of the units that can be freed, and of the tasks that have to move.

    Amounts of worth are in 1 / PRICE_SCALE of a move.

    Attributes
    ----------
    contents
        The contents of each server that are worth most, if it is not freed; shape (M, S).
    worth
        Their worth, or a bound on it; shape (M,).
    units
        What each unit gives up if it is freed; shape (U,).
    least
        The least cost if no unit has to be freed.

    Raises
    ------
    TooLargeError
        If prices are too large.
    """

    def __init__(self, tasks: RequiredTasks, prices: Sequence[float], cost: int, nodes: int) -> None:
        paid = np.array([int(min(price, MAX_WORTH) * PRICE_SCALE) for price in prices], dtype=object)
        stays = paid + cost * PRICE_SCALE
        if (tasks.needed @ stays) > MAX_WORTH:
            raise TooLargeError("prices are too large to be added up")
        paid, stays = paid.astype(np.int64), stays.astype(np.int64)
        # What comes and what stays are different items: only the latter saves moves.
        stay = np.zeros_like(tasks.held) if tasks.direct else tasks.held
        most = np.concatenate([tasks.destinations * (tasks.needed - tasks.held), stay], axis=1)
        limits = tasks.room if tasks.direct else tasks.capacity
        gains, demands = np.concatenate([paid, stays]), np.concatenate([tasks.demands, tasks.demands])
        self.worth, chosen = best_contents(gains, demands, most, limits, nodes)
        self.contents = sum(np.hsplit(chosen, 2), tasks.held - stay)
        self.worth += (tasks.held - stay) @ stays
        self.units = np.array([sum(self.worth[servers].tolist()) for servers in tasks.units], dtype=object)
        self.tasks, running = tasks, cost * PRICE_SCALE * int(tasks.held.sum())
        self.least = int(tasks.needed @ paid) + running - sum(self.worth.tolist())

    def cost(self, wanted: int, decided: Mapping[int, bool]) -> int:
        """Return a bound on the cost of plans that free so many units; which are freed may be decided.

        More than all moves if there is no such plan.
        """
        freed = [u for u, is_freed in decided.items() if is_freed]
        others = np.sort(np.delete(self.units, list(decided)))
        if len(freed) + len(others) < wanted:
            return PRICE_SCALE * int(self.tasks.held.sum() + 1)
        more = sum(others[: max(0, wanted - len(freed))])
        return int(self.least + sum(self.units[freed]) + more)

    def most_units(self) -> int:
        """Return the largest number of units that can be freed, if moves cost nothing."""
        return int((self.least + np.cumsum(np.sort(self.units)) <= 0).sum())


def move_bounds(
    data: ClusterData, goals: Sequence[TaskPrices], values: Sequence[float] | None
) -> dict[str, float]:
    """Return the bounds on `free` and `migrations` that prices prove, by name of the objective.

    The bound on `migrations` holds for plans that free as many units as the plan with these values, or more.
    If it exceeds the number of running tasks though no unit has to be freed, there is no plan: the jobs that
    are missing are 1 at least.

    Raises
    ------
    TooLargeError
        If prices are too large, or there are too many shapes and servers.
    """
    bounds: dict[str, float] = {}
    tasks, reached = RequiredTasks(data), dict(zip(data.instance.objectives, values or (), strict=False))
    nodes, wanted = MAX_NODES // (2 + sum(len(goal.tree) for goal in goals)), round(reached.get("free", 0.0))
    for goal in goals:
        if not tasks.shapes or len(goal.prices) != len(tasks.shapes):
            continue
        bound = MoveBound(tasks, goal.prices, int(goal.objective == "migrations"), nodes)
        if goal.objective == "free":
            bounds["free"] = float(min(data.most_freed, bound.most_units()))
            continue
        least, moves = float(-(-bound.cost(wanted, {}) // PRICE_SCALE)), reached.get("migrations", 0.0)
        if not wanted and least > tasks.held.sum():
            bounds[MUST_PLACE] = 1.0
        if goal.tree and least < moves and _proven_by_tree(tasks, goal, wanted, moves, nodes):
            least = moves
        bounds["migrations"] = max(0.0, least)
    return bounds


def _proven_by_tree(tasks: RequiredTasks, goal: TaskPrices, wanted: int, value: float, nodes: int) -> bool:
    """Return whether the leaves of a tree cover all plans, and none has one with fewer moves than a value."""
    open_: list[dict[int, bool]] = [{}]
    numbers = {name: u for u, name in enumerate(tasks.data.releasable)}
    for node in goal.tree:
        check_time()
        decided = open_.pop() if open_ else {}
        unit = numbers.get(node.unit or "")
        if unit is not None and unit not in decided:
            open_ += [{**decided, unit: True}, {**decided, unit: False}]
            continue
        if len(node.prices) != len(tasks.shapes):
            return False
        if MoveBound(tasks, node.prices, 1, nodes).cost(wanted, decided) <= (value - 1) * PRICE_SCALE:
            return False
    return not open_
