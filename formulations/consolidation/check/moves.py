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

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from ....instances.common.arrays import Ints
from ....instances.common.errors import TooLargeError
from ....instances.consolidation.job import allows
from ...common.clock import check_time
from ...common.objective import Values
from ..certificate import MUST_PLACE, TaskPrices
from ..cluster_data import ClusterData, RequiredTasks
from .server_prices import Knapsack, NodeBudget

PRICE_SCALE = 10**6
"""Prices are counted in integer multiples of 1 / PRICE_SCALE."""
MAX_PAID = 2**60
"""Limit on what all tasks pay, so that products fit 64 bits."""
MAX_NODES = 200_000
"""Limit on the steps of all searches for one objective."""


class MoveBound:
    """What prices of tasks prove of the units that can be freed, and of the tasks that have to move.

    Costs are in 1 / PRICE_SCALE of a move.

    Attributes
    ----------
    units
        What each unit gives up if it is freed.
    least
        The least cost if no unit has to be freed.

    Raises
    ------
    TooLargeError
        If prices are too large.
    """

    def __init__(self, tasks: RequiredTasks, prices: Sequence[float], cost: int, effort: NodeBudget) -> None:
        self.tasks, self.cost, self.effort = tasks, cost * PRICE_SCALE, effort
        self.paid = [int(price * PRICE_SCALE) for price in prices]
        paid = sum(n * p for n, p in zip(tasks.needed.tolist(), self.paid, strict=True))
        if paid > MAX_PAID:
            raise TooLargeError("prices are too large to be added up")
        worth = self._worth()
        self.units = [sum(worth[m] for m in servers) for servers in tasks.units]
        self.moves = self.cost * int(tasks.held.sum())
        self.least = paid + self.moves - sum(worth)

    def _worth(self) -> list[int]:
        """Return the most that contents of each server are worth if it is not freed, or a bound on it."""
        tasks, worth = self.tasks, [0] * len(self.tasks.position)
        limits = tasks.room if tasks.direct else tasks.capacity
        # Tasks of the same shapes may come to servers of one GPU model, unless these are to stay empty.
        pools = defaultdict[tuple[str | None, bool], list[int]](list)
        for name, m in tasks.position.items():
            pools[tasks.data.servers[name].gpu_model, tasks.data.closed(name)].append(m)
        for (model, closed), servers in pools.items():
            check_time()
            largest = limits[servers].max(axis=0).clip(0)
            shapes = enumerate(tasks.shapes)
            come = [s for s, (_, models, waits) in shapes if allows(models, model) and (waits or not closed)]
            knapsack = Knapsack([self._group(s, largest, 0) for s in come], largest.tolist())
            for m in servers:
                held = [(s, int(tasks.held[m, s])) for s in np.flatnonzero(tasks.held[m]).tolist()]
                if tasks.direct:
                    # All of them stay, and what comes has what they leave.
                    worth[m] = sum(n * (self.paid[s] + self.cost) for s, n in held)
                    held = []
                stay = [self._group(s, limits[m].clip(0), self.cost, n) for s, n in held]
                if (limits[m] >= 0).all():
                    worth[m] += knapsack.most(limits[m].tolist(), 0, self.effort, stay)
        return worth

    def _group(self, shape: int, limit: Ints, cost: int, most: int | None = None) -> tuple[Ints, Ints]:
        """Return the demands of 1, 2, … tasks of a shape that fit, shape (N, R), and their worths, (N,)."""
        demand = self.tasks.demands[shape]
        needs = demand > 0
        fits = (limit[needs] // demand[needs]).min(initial=self.tasks.needed[shape] if most is None else most)
        counts = np.arange(1, fits + 1)
        return counts[:, None] * demand, counts * (self.paid[shape] + cost)

    def bound(self, wanted: int, decided: Mapping[int, bool]) -> int:
        """Return a bound on the cost of plans that free so many units; which are freed may be decided.

        More than all moves if there is no such plan.
        """
        freed = [worth for u, worth in enumerate(self.units) if decided.get(u)]
        others = sorted(worth for u, worth in enumerate(self.units) if u not in decided)
        if len(freed) + len(others) < wanted:
            return self.moves + PRICE_SCALE
        cost: int = self.least + sum(freed) + sum(others[: max(0, wanted - len(freed))])
        return cost

    def most_units(self) -> int:
        """Return the largest number of units that can be freed, if moves cost nothing."""
        return max(k for k in range(len(self.units) + 1) if k == 0 or self.bound(k, {}) <= 0)


def move_bounds(data: ClusterData, goals: Sequence[TaskPrices], values: Values) -> dict[str, float]:
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
    if not goals:
        return bounds
    tasks, reached = RequiredTasks(data), dict(zip(data.instance.objectives, values or (), strict=False))
    wanted = round(reached.get("free", 0.0))
    for goal in goals:
        effort = NodeBudget(MAX_NODES)
        if not tasks.shapes or len(goal.prices) != len(tasks.shapes):
            continue
        bound = MoveBound(tasks, goal.prices, int(goal.objective == "migrations"), effort)
        if goal.objective == "free":
            bounds["free"] = float(min(data.most_freed, bound.most_units()))
            continue
        least, moves = float(-(-bound.bound(wanted, {}) // PRICE_SCALE)), reached.get("migrations", 0.0)
        if not wanted and least > tasks.held.sum():
            bounds[MUST_PLACE] = 1.0
        if goal.tree and least < moves and _proven_by_tree(tasks, goal, wanted, moves, effort):
            least = moves
        bounds["migrations"] = max(0.0, least)
    return bounds


def _proven_by_tree(
    tasks: RequiredTasks, goal: TaskPrices, wanted: int, value: float, effort: NodeBudget
) -> bool:
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
        if MoveBound(tasks, node.prices, 1, effort).bound(wanted, decided) <= (value - 1) * PRICE_SCALE:
            return False
    return not open_
