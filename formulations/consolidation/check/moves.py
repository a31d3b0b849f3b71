"""Bounds on the moves that free servers or let waiting jobs start, proven by prices of room on servers.

Sets
    units u that can be freed, servers m, resources r; shapes s of running or of waiting tasks; servers to
    which tasks of a shape can come: with chains those that could hold one, else those with room for one now
Data
    n_sm running tasks;  t_s waiting tasks that have to start;  d_sr their demand;  f_mr room that the running
    ones leave;  c = 1 for each move;  k units wanted
Variables
    y_u ∈ {0,1}: u is freed;  x_sm ≥ 0: tasks that come to m;  o_sm: tasks that leave m, which is not freed
Constraints
    Σ_u y_u ≥ k;  Σ_m x_sm = t_s + Σ_m (n_sm y_u(m) + o_sm)
    Σ_s d_sr (x_sm − o_sm) + f_mr y_u(m) ≤ f_mr;  0 ≤ o_sm ≤ n_sm (1 − y_u(m)), without chains o = 0
Objective
    min c (Σ n_sm y_u(m) + Σ o_sm)

Every plan that frees k units is a solution. For prices μ ≥ 0 of a unit and σ_mr ≥ 0 of room, the least of the
Lagrangian function over x, o and y bounds the cost of each (Geoffrion 1974). With a price π_s of each task
that comes, x_sm does not occur in it where π_s ≤ Σ_r d_sr σ_mr, and the best such price is the least over all
servers to which the tasks can come. A task that leaves without need brings at most
ω_sm = max(0, Σ_r d_sr σ_mr − π_s − c). So the cost is at least

    k μ + Σ_s t_s π_s − Σ_m f_m·σ_m − Σ_sm n_sm ω_sm
        − Σ_u max(0, μ − Σ_{m in u} (f_m·σ_m + Σ_s n_sm (c + π_s + ω_sm)))

A unit with tasks that can move to no server is never freed. With c = 0 the expression is positive only if no
plan frees k units, which bounds k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from ..certificate import RoomPrices
from ..cluster_data import ClusterData, RequiredTasks


class MoveBound:
    """What prices of room prove of the units that can be freed, and of the tasks that have to move.

    Attributes
    ----------
    unit
        μ, the price of a unit.
    able
        Number of units all of whose tasks can move somewhere.
    paid
        What the cost is lower than k μ by at most: Σ_m f_m·σ_m + Σ_sm n_sm ω_sm − Σ_s t_s π_s, and what units
        are worth beyond what their tasks pay.
    """

    def __init__(self, tasks: RequiredTasks, goal: RoomPrices, cost: int) -> None:
        self.tasks, self.unit = tasks, Fraction(goal.unit)
        names = tasks.data.instance.resource_names
        self.prices = {
            tasks.position[server]: [Fraction(prices.get(name, 0.0)) for name in names]
            for server, prices in goal.room.items()
            if server in tasks.position
        }
        least = self._least_payments()
        self.paid = -sum((n * (least[s] or 0) for s, n in tasks.starting.items()), Fraction(0))
        of_server = list[Fraction | None]()
        for m, held in enumerate(tasks.on_server):
            payment = self._priced(m, tasks.room[m])
            self.paid += payment
            for s, count in held.items():
                price = least[s] or Fraction(0)
                gain = Fraction(0)
                if least[s] is not None and not tasks.direct:
                    gain = max(gain, self._priced(m, tasks.shapes[s][0]) - price - cost)
                self.paid += count * gain
                payment += count * (cost + price + gain)
            of_server.append(None if any(least[s] is None for s in held) else payment)
        self.able = 0
        for servers in tasks.data.releasable.values():
            payments = [of_server[tasks.position[name]] for name in servers]
            if None not in payments:
                self.able += 1
                self.paid += max(Fraction(0), self.unit - sum(filter(None, payments)))

    def _priced(self, server: int, amounts: Sequence[Fraction]) -> Fraction:
        """Return what amounts of all resources are worth on a server."""
        prices = self.prices.get(server, ())
        return sum((p * a for p, a in zip(prices, amounts, strict=False) if p), Fraction(0))

    def _least_payments(self) -> list[Fraction | None]:
        """Return π_s, the least price for a task of each shape that comes; None if it can come nowhere."""
        least: list[Fraction | None] = []
        for (demand, *_), fits in zip(self.tasks.shapes, self.tasks.destinations(), strict=True):
            servers = fits.nonzero()[0].tolist()
            unpriced = any(m not in self.prices for m in servers)
            payments = (self._priced(m, demand) for m in servers)
            least.append(Fraction(0) if unpriced else min(payments, default=None))
        return least


def move_bounds(
    data: ClusterData, goals: Sequence[RoomPrices], values: Sequence[float] | None
) -> dict[str, float]:
    """Return the bounds on `free` and `migrations` that prices prove, by name of the objective.

    The bound on `migrations` holds for plans that free as many units as the plan with these values, or more.
    """
    bounds: dict[str, float] = {}
    tasks = RequiredTasks(data) if data.most_freed and goals else None
    if tasks is None or not tasks.complete:
        return bounds
    for goal in goals:
        bound = MoveBound(tasks, goal, int(goal.objective == "migrations"))
        if goal.objective == "free":
            # With moves that cost nothing, more units would cost more than nothing.
            most = math.floor(bound.paid / bound.unit) if bound.unit else bound.able
            bounds["free"] = float(max(0, min(data.most_freed, bound.able, most)))
        elif values is not None:
            bounds["migrations"] = float(max(0, math.ceil(round(values[0]) * bound.unit - bound.paid)))
    return bounds
