"""Bounds on a placement from prices of pieces, derived here without trusting any solver.

A piece is what one job has on one server; a price π for each kind of piece cuts every plan into jobs, which
pay for the pieces they are cut into, and servers, which are paid for the pieces they hold. For an objective
fᵢ to be minimised, with multipliers μ ≥ 0 for the earlier ones and the plan's own values F of these,

    fᵢ ≥ Σ_j min(0, min over cuts of e·job + π·cut) + Σ_n min(0, min over loads of e·server − π·load) − μ·F

where e is what fᵢ + μ·f counts for a job or server; a job that must be placed has no 0 to choose. This holds
for every plan whose earlier objectives are no worse than F, whatever the prices. Cuts are priced by dynamic
programming over the tasks that are left, loads over the amounts taken, both in whole numbers, and objectives
that only have whole multiples of some quantum are rounded to the next one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field, ValidationError

from ..instances.errors import TooLargeError
from ..instances.fields import Model
from .consolidation_classes import Classes, Ints, JobClass, ServerClass, exact

if TYPE_CHECKING:
    from .consolidation import ConsolidationFormulation

LARGEST = 1e12
"""No price or multiplier may exceed this."""
MUST_PLACE = "must_place"
"""The goal that comes before all objectives: 0 jobs that must be placed are missing."""
PRICED = ("value", "spread", "servers", "slowdown")
"""Objectives that depend on cuts and loads alone; the others name servers."""
MOST_MERGED = 30_000_000
"""Loads looked at while pricing one pool; beyond, nothing is certified."""

Price = Annotated[float, Field(ge=0, le=LARGEST)]


class CertifiedGoal(Model):
    """Prices for one objective.

    Attributes
    ----------
    prices
        For each kind the price of each of its pieces, in the order of the classes.
    multipliers
        What a unit of each earlier objective is worth in this one.
    """

    objective: Literal["must_place", "value", "spread", "servers", "slowdown"]
    prices: tuple[tuple[Price, ...], ...]
    multipliers: dict[Literal["value", "spread", "servers", "slowdown"], Price] = {}


class ConsolidationCertificate(Model):
    """Prices for each objective that is bounded by them; the others only have what counting gives."""

    goals: Annotated[tuple[CertifiedGoal, ...], Field(max_length=8)]


def read_certificate(classes: Classes, data: Any) -> ConsolidationCertificate | str:
    """Return the certificate, or what is wrong with its form."""
    try:
        certificate = ConsolidationCertificate.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    wanted = [len(pieces) for pieces in classes.pieces]
    for goal in certificate.goals:
        if [len(prices) for prices in goal.prices] != wanted:
            return f"the prices of {goal.objective} do not fit the kinds and pieces of the instance"
    return certificate


class PriceBound:
    """Evaluates the bound of one goal.

    Parameters
    ----------
    weights
        e: what the goal and its earlier objectives count, by name.
    """

    def __init__(self, classes: Classes, goal: CertifiedGoal, weights: dict[str, Fraction]) -> None:
        self.classes, self.goal, self.weights = classes, goal, weights
        largest = max((price for prices in goal.prices for price in prices), default=0.0)
        tasks = max((int(counts.sum(axis=1).max(initial=1)) for counts in classes.slots), default=1)
        jobs = max((sum(part.tasks) for job in classes.jobs for part in job.parts), default=1)
        self.scale = 2 ** min(40, 58 - math.frexp(max(1.0, largest) * max(tasks, jobs) * 4)[1])
        self.prices = [
            np.array([math.floor(p * self.scale) for p in kind], dtype=np.int64) for kind in goal.prices
        ]

    def value(self) -> Fraction | None:
        """Return what jobs and servers cost together at least; None if some job has no way to be placed."""
        total = Fraction(0)
        for job in self.classes.jobs:
            cost = self.job(job)
            if job.must_place and self.goal.objective != MUST_PLACE:
                if cost is None:
                    return None
                total += cost * len(job.members)
            else:
                outside = Fraction(int(job.must_place))
                total += min(outside, cost if cost is not None else outside) * len(job.members)
        server_cost = self.weights.get("servers", Fraction(0))
        for server, paid in zip(self.classes.servers, self.loads(), strict=True):
            total += min(Fraction(0), server_cost - Fraction(paid, self.scale)) * len(server.members)
        return total

    def job(self, job: JobClass) -> Fraction | None:
        """Return what one job of a class costs at least if it is placed; None if it cannot be."""
        worth = self.weights.get("value", Fraction(0)) * job.value
        if job.loose:
            paid = 0
            for part in job.parts:
                if not len(self.prices[part.kind]):
                    return None
                paid += int(self.prices[part.kind][0]) * part.tasks[0]
            return Fraction(paid, self.scale) - worth
        best = self._best_cut(job)
        return None if best is None else best - worth

    def _best_cut(self, job: JobClass) -> Fraction | None:
        """Price the cuts into 1, 2, … pieces: `left[t]` is the least price of tasks t in so many pieces."""
        part = job.parts[0]
        unreachable = np.iinfo(np.int64).max // 4
        shape = tuple(count + 1 for count in part.tasks)
        left = np.full(shape, unreachable, dtype=np.int64)
        left[(0,) * len(shape)] = 0
        pieces = []
        kind = self.classes.pieces[part.kind], self.prices[part.kind]
        for counts, price in zip(kind[0].tolist(), kind[1].tolist(), strict=True):
            if all(c < n for c, n in zip(counts, shape, strict=True)):
                to = tuple(slice(c, None) for c in counts)
                origin = tuple(slice(0, n - c) for c, n in zip(counts, shape, strict=True))
                pieces.append((to, origin, price))
        best: Fraction | None = None
        for servers in range(1, job.most + 1):
            more = np.full(shape, unreachable, dtype=np.int64)
            for to, origin, price in pieces:
                np.minimum(more[to], left[origin] + price, out=more[to])
            left = np.minimum(more, unreachable)
            whole = int(left[(-1,) * len(shape)])
            if whole < unreachable:
                cost = Fraction(whole, self.scale) + self._for_servers(job, servers)
                best = cost if best is None else min(best, cost)
        return best

    def _for_servers(self, job: JobClass, servers: int) -> Fraction:
        """Return what using so many servers counts for a job."""
        cost = Fraction(0)
        if job.fewest is not None:
            cost += self.weights.get("spread", Fraction(0)) * (servers - job.fewest)
        if job.lost:
            cost += self.weights.get("slowdown", Fraction(0)) * job.lost[min(servers, len(job.lost)) - 1]
        return cost

    def loads(self) -> list[int]:
        """Return for each class of servers what one of them is paid at most, in 1/scale."""
        paid: dict[tuple[str | None, tuple[int, ...]], int] = {}
        for pool in self.classes.loads:
            servers = [server for server in self.classes.servers if server.pool == pool]
            if servers:
                taken, worth = self._priced_loads(pool, servers)
                for server in servers:
                    fits = (taken <= np.array(server.free)).all(axis=1)
                    paid[pool, server.free] = int(worth[fits].max())
        return [paid[server.pool, server.free] for server in self.classes.servers]

    def _priced_loads(self, pool: str | None, servers: Sequence[ServerClass]) -> tuple[Ints, Ints]:
        """Return amounts that tasks may take together, kind by kind, and the most that is paid for each."""
        free = np.array([server.free for server in servers], dtype=np.int64)
        limit = free.max(axis=0)
        radix = np.array([math.prod((limit[r + 1 :] + 1).tolist()) for r in range(len(limit))], dtype=object)
        if int(radix[0]) * (int(limit[0]) + 1) > 2**62:
            raise TooLargeError("amounts are too large to be priced")
        radix = radix.astype(np.int64)
        taken, worth, work = np.zeros((1, len(limit)), dtype=np.int64), np.zeros(1, dtype=np.int64), 0
        for kind in self.classes.kinds_of(pool):
            gain = closure(self.classes.pieces[kind], self.classes.slots[kind], self.prices[kind])
            useful = gain > 0
            weights = self.classes.weights(kind, self.classes.slots[kind])[useful]
            everything, paid = [taken], [worth]
            for weight, more in zip(weights, gain[useful].tolist(), strict=True):
                fits = (taken + weight <= limit).all(axis=1)
                everything.append(taken[fits] + weight)
                paid.append(worth[fits] + more)
                work += len(taken)
                if work > MOST_MERGED:
                    raise TooLargeError("there are too many loads to be priced")
            taken, worth = _best_of_each(np.concatenate(everything), np.concatenate(paid), radix)
        return taken, worth


def _best_of_each(taken: Ints, worth: Ints, radix: Ints) -> tuple[Ints, Ints]:
    """Keep of loads that take the same the one that is paid most."""
    keys = taken @ radix
    order = np.lexsort((worth, keys))
    last = np.append(np.diff(keys[order]) != 0, True)
    chosen = order[last]
    return taken[chosen], worth[chosen]


def closure(pieces: Ints, slots: Ints, prices: Ints) -> Ints:
    """Return the most that is paid for tasks of one kind on a server, cut into any pieces; shape (S,)."""
    if len(pieces) < len(slots):  # only single tasks have a price
        singles: Ints = slots[:, 0] * prices[0]
        return singles
    shape = tuple((slots.max(axis=0, initial=0) + 1).tolist())
    gain = np.full(shape, np.iinfo(np.int64).min // 4, dtype=np.int64)
    gain[(0,) * len(shape)] = 0
    gain[tuple(slots.T)] = prices
    for counts in slots[np.argsort(slots.sum(axis=1), kind="stable")].tolist():
        box = gain[tuple(slice(0, c + 1) for c in counts)]
        gain[tuple(counts)] = (box + np.flip(box)).max()
    result: Ints = gain[tuple(slots.T)]
    return result


def quantum(classes: Classes, objective: str) -> Fraction | None:
    """Return a step of which every value of an objective is a multiple; None if it is too small to help."""
    if objective in ("spread", "servers", MUST_PLACE):
        return Fraction(1)
    if objective == "value":
        amounts = {job.value for job in classes.jobs}
    else:
        amounts = {lost for job in classes.jobs for lost in job.lost}
    amounts -= {Fraction(0)}
    if not amounts:
        return Fraction(1)
    common = math.lcm(*(amount.denominator for amount in amounts))
    step = Fraction(math.gcd(*(int(amount * common) for amount in amounts)), common)
    return step if step * 10**9 > max(map(abs, amounts)) else None


ROUNDING = Fraction(1, 10**12)


def _level(classes: Classes, objective: str, value: float) -> Fraction:
    """Return an earlier objective's value, to be minimised, as an exact number that is no better than it."""
    sign = -1 if objective == "value" else 1
    step = quantum(classes, objective)
    exactly = exact(value) * sign
    if step is not None:
        return round(exactly / step) * step
    return exactly + abs(exactly) * ROUNDING


def price_bounds(
    formulation: ConsolidationFormulation, data: Any, values: Sequence[float] | None
) -> dict[str, float]:
    """Return the bounds that a certificate proves, by objective; infinite ones if there is no plan.

    Parameters
    ----------
    values
        Of the plan that it came with; bounds of later objectives are derived from earlier values.
    """
    try:
        classes = formulation.classes
        certificate = read_certificate(classes, data)
        if isinstance(certificate, str):
            return {}
        found: dict[str, float] = {}
        names = list(formulation.instance.objectives)
        for goal in certificate.goals:
            earlier = names[: names.index(goal.objective)] if goal.objective in names else []
            if goal.objective != MUST_PLACE and goal.objective not in names:
                continue
            if values is None and goal.multipliers:
                continue
            used = [name for name in earlier if name in goal.multipliers]
            levels = {name: _level(classes, name, (values or ())[names.index(name)]) for name in used}
            bound = _bound(classes, goal, levels)
            if bound is not None:
                found[goal.objective] = bound
    except TooLargeError:
        return {}
    return found


def _bound(classes: Classes, goal: CertifiedGoal, levels: dict[str, Fraction]) -> float | None:
    """Return the bound of one goal in the terms of its objective."""
    weights = {name: Fraction(goal.multipliers[name]) for name in levels}  # type: ignore[index]
    if goal.objective != MUST_PLACE:
        weights[goal.objective] = Fraction(1)
    least = PriceBound(classes, goal, weights).value()
    if least is None:
        return None
    least -= sum((weights[name] * level for name, level in levels.items()), Fraction(0))
    step = quantum(classes, goal.objective)
    if step is not None:
        least = math.ceil(least / step) * step
    return float(-least if goal.objective == "value" else least)
