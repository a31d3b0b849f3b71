"""The integer programme of a mix over counts of configurations, as arrays.

    minimise    c·y
    subject to  A y ≤ b
                Σ_k μ_ki x_ki ≥ λ_i   for each type of request i
                Σ_i x_ki ≤ y_k        for each configuration k
                0 ≤ y ≤ u, y integer; x ≥ 0

x_ki is how many copies of k, or parts of one, serve requests of type i; of jobs there is no type of request.
The rows of A are the numbers of jobs, of devices, and of USD per hour.

All figures of an instance are floats, which are fractions: over a common denominator they are whole numbers
of any size, with which the check works. The methods work with floats.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.mix.instance import BUDGET, DEVICES, Configuration, MixInstance
from ..common.clock import check_time
from ..common.objective import TOLERANCE, loosened, whole_numbers

Entry = tuple[int, int, Any]
"""Configuration, column and value of an entry of a matrix."""
Numbers = NDArray[Any]
"""An array of floats, or of Python's whole numbers."""
SERVED = 1 - 3 * Fraction(TOLERANCE)
"""Part of a rate that the demand has: what a plan serves at least, with the tolerances of its check."""
FULL = float(1 / SERVED)
"""All requests of a type in parts of the demand, for which the methods look."""
FINENESS = 2**40
"""Least common denominator of the figures of a programme in whole numbers."""
MAX_TOTALS, MAX_WIDTH = 64, 10_000
"""Most models whose devices are counted, as each takes two rows and two prices of every leaf; most devices of
one replica, as coefficients that are large beside the tolerances of HiGHS lose proofs."""
MAX_COMPARED = 200_000_000
"""Most comparisons of the rates of one replica with those of another."""


class Entries(NamedTuple):
    """A sparse matrix: each entry with its configuration, in their order, and its column."""

    configuration: Ints
    column: Ints
    value: Numbers

    def of(self, kept: Flags) -> Entries:
        """Return the matrix of some of the configurations."""
        inside = kept[self.configuration]
        number = np.cumsum(kept) - 1
        return Entries(number[self.configuration[inside]], self.column[inside], self.value[inside])


class Row(NamedTuple):
    """A row of A: the name of its price, −1 if it asks for *at least* −b of what is named, and b.

    Rows that are derived from others have no name. Devices and USD per hour can be bought, jobs cannot.
    """

    name: str
    sign: int
    limit: float
    is_bought: bool = False


@dataclass(frozen=True)
class MixProgram:
    """An integer programme over n configurations, with m rows and I types of requests.

    Attributes
    ----------
    cost, most
        c and u, shape (n,).
    weights, rows, limits
        A, its m rows, and b.
    rates, demand
        μ and λ, with the types as columns; none of jobs.
    devices
        w_k in the row of its model of device, 0 in the other rows, shape (G, n). There are no rows of jobs,
        of very many models, and of very wide replicas.
    unit
        All but `most` and `devices` is in parts of 1/`unit`.
    """

    cost: Numbers
    most: Numbers
    weights: Entries
    rows: tuple[Row, ...]
    limits: Numbers
    rates: Entries
    demand: Numbers
    devices: Ints
    unit: int

    def of(self, kept: Flags) -> MixProgram:
        """Return the programme over some of the configurations."""
        weights, rates, devices = self.weights.of(kept), self.rates.of(kept), self.devices[:, kept]
        cost, most = self.cost[kept], self.most[kept]
        return replace(self, cost=cost, most=most, weights=weights, rates=rates, devices=devices)

    def as_floats(self) -> MixProgram:
        """Return the programme with all figures as floats, in their own units."""

        def floats(wholes: Numbers) -> Numbers:
            return (wholes / self.unit).astype(float)

        weights, rates = (each._replace(value=floats(each.value)) for each in (self.weights, self.rates))
        cost, limits, demand = map(floats, (self.cost, self.limits, self.demand))
        most = self.most.astype(float)
        return MixProgram(cost, most, weights, self.rows, limits, rates, demand, self.devices, 1)

    @property
    def parts(self) -> Floats:
        """The rates in parts of all requests of their type; 0 where there are none."""
        parts: Floats = self.rates.value / np.where(self.demand > 0, self.demand, np.inf)[self.rates.column]
        return parts

    def reduced_costs(self, prices: Numbers, scale: float = 1) -> Numbers:
        """Return `scale` times c, plus Aᵀτ − max_i π_i μ_i at the prices (π, τ) of types and rows."""
        weights, rates, types = self.weights, self.rates, len(self.demand)
        reduced, served = scale * self.cost, np.zeros_like(self.cost)
        np.add.at(reduced, weights.configuration, prices[types:][weights.column] * weights.value)
        np.maximum.at(served, rates.configuration, prices[:types][rates.column] * rates.value)
        return reduced - served

    def constant(self, prices: Numbers) -> Any:
        """Return π·λ − τ·b, the part of a bound that does not depend on y."""
        of_types, of_rows = np.split(prices, [len(self.demand)])
        return of_types @ self.demand - of_rows @ self.limits

    def bound(self, prices: Numbers, low: Numbers, high: Numbers, scale: float = 1) -> Any:
        """Return the bound in a box of counts that follows from some prices, as the check derives it."""
        reduced = self.reduced_costs(prices, scale)
        return self.constant(prices) + (reduced * np.where(reduced > 0, low, high)).sum()


def with_rows(program: MixProgram, added: Iterable[tuple[Numbers, Any]]) -> MixProgram:
    """Return a programme with further rows, given by their whole weights, shape (n,), and limits."""
    weights, limits = [], []
    for row, (weight, limit) in enumerate(added, len(program.rows)):
        inside = np.flatnonzero(weight)
        weights.append((inside, np.full(len(inside), row), weight[inside] * program.unit))
        limits.append(limit)
    columns = [np.concatenate(each) for each in zip(program.weights, *weights, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    rows = (*program.rows, *(Row("", 1, 0.0) for _ in limits))
    entries = Entries(*(column[order] for column in columns))
    more = np.array(limits, dtype=program.limits.dtype) * program.unit
    return replace(program, weights=entries, rows=rows, limits=np.concatenate([program.limits, more]))


def with_totals(program: MixProgram) -> MixProgram:
    """Return a programme with the devices of each model in use as further columns, by two rows each.

    They come after the configurations, and a tree can branch on them. That all copies together have a whole
    number of devices of each model proves much more than that one configuration has whole copies, as costs
    are sums of a few prices. `devices` keeps its shape: the result is not made smaller by `of`.
    """
    devices = program.devices.astype(program.cost.dtype)
    cost = np.append(program.cost, np.zeros_like(program.cost, shape=len(devices)))
    most = np.append(program.most, devices @ program.most)
    sums = np.hstack([devices, -np.eye(len(devices), dtype=devices.dtype)])
    wider = replace(program, cost=cost, most=most)
    return with_rows(wider, [(sign * row, 0) for row in sums for sign in (1, -1)])


def better_in_second(instance: MixInstance, value: float) -> MixInstance:
    """Return the instance whose plans are better than a value of the second objective."""
    if instance.serves:
        return instance.model_copy(update={"devices": round(value) - 1})
    return instance.model_copy(update={"least_progress": math.nextafter(value, math.inf)})


def program_of(instance: MixInstance) -> MixProgram:
    """Return the programme of an instance with its first objective, in whole numbers."""
    index = {one.name: i for i, one in enumerate(instance.types)}
    rows = tuple(_rows(instance))
    price = {each.name: Fraction(each.price_usd_per_hour or 0.0) for each in instance.hardware}
    weight = {each.name: Fraction(each.weight) for each in instance.types}
    numbers: dict[str, list[int]] = {}
    for r, row in enumerate(rows):
        numbers.setdefault(row.name, []).append(r)
    weights, rates, cost = list[Entry](), list[Entry](), []
    for k, one in enumerate(instance.configurations):
        check_time()
        usd = one.devices * price[one.hardware]
        use: dict[str, Any] = {**one.jobs, one.hardware: one.devices, DEVICES: one.devices, BUDGET: usd}
        weights += [(k, r, rows[r].sign * use[name]) for name in use for r in numbers.get(name, ())]
        rates += [(k, index[name], rate) for name, rate in one.requests_per_s.items()]
        progress = (weight[name] * count * Fraction(one.progress[name]) for name, count in one.jobs.items())
        cost.append(usd if instance.serves else -sum(progress))
    demand = [Fraction(one.requests_per_s or 0.0) * SERVED for one in instance.types if instance.serves]
    limits = [loosened(row.limit) if row.name == BUDGET else row.limit for row in rows]
    groups = (cost, limits, demand, [value for *_, value in weights], [value for *_, value in rates])
    figures, unit = whole_numbers(itertools.chain.from_iterable(groups), FINENESS)
    costs, limit, asked, *values = np.split(figures, np.cumsum([len(group) for group in groups])[:-1])
    of_rows, of_types = (_entries(each, value) for each, value in zip((weights, rates), values, strict=True))
    most = np.array(list(_most(instance)), dtype=object)
    return MixProgram(costs, most, of_rows, rows, limit, of_types, asked, _devices(instance), unit)


def _devices(instance: MixInstance) -> Ints:
    """Return the devices of each configuration in the row of its model; no rows if none are to be counted."""
    number = {each.name: g for g, each in enumerate(instance.hardware)}
    model = np.array([number[one.hardware] for one in instance.configurations], dtype=np.int64)
    devices = np.array([one.devices for one in instance.configurations], dtype=np.int64)
    counted = instance.serves and len(number) <= MAX_TOTALS and devices.max(initial=0) <= MAX_WIDTH
    return np.where(model == np.arange(len(number) if counted else 0)[:, None], devices, 0)


def _entries(entries: Sequence[Entry], value: Numbers) -> Entries:
    places = np.array([place for *place, _ in entries], dtype=np.int64).reshape(-1, 2)
    return Entries(places[:, 0], places[:, 1], value)


def _rows(instance: MixInstance) -> Iterator[Row]:
    for one in () if instance.serves else instance.types:
        for sign in (1, -1) if instance.must_run else (1,):
            yield Row(one.name, sign, sign * (one.count or 0))
    limits = [(each.name, each.limit) for each in instance.hardware]
    for name, limit in [*limits, (DEVICES, instance.devices), (BUDGET, instance.budget_usd_per_hour)]:
        if limit is not None:
            yield Row(name, 1, limit, True)


def _most(instance: MixInstance) -> Iterator[int]:
    """Yield how many copies of each configuration a plan needs at most; 0 if another one takes its place.

    A replica that serves every type at least as fast on no more devices of the same model may replace
    another one in every plan. And copies beyond what the requests of its types need may be left out.
    """
    replaced = _replaced(instance) if instance.serves else set()
    limits = {each.name: each.limit for each in instance.hardware}
    price = {each.name: Fraction(each.price_usd_per_hour or 0.0) for each in instance.hardware}
    types, budget = {each.name: each for each in instance.types}, instance.budget_usd_per_hour
    for one in instance.configurations:
        slow = any(one.progress[name] < (instance.least_progress or 0.0) for name in one.jobs)
        most = [each // one.devices for each in (limits[one.hardware], instance.devices) if each is not None]
        most += [(types[name].count or 0) // count for name, count in one.jobs.items()]
        if budget is not None and price[one.hardware]:
            most.append(Fraction(loosened(budget)) // (one.devices * price[one.hardware]))
        rates = one.requests_per_s.items()
        if instance.serves:
            asked = ((Fraction(types[name].requests_per_s or 0.0), rate) for name, rate in rates)
            most.append(sum(math.ceil(requests / Fraction(rate)) for requests, rate in asked))
        yield 0 if slow or one.name in replaced else min(most)


def _replaced(instance: MixInstance) -> set[str]:
    """Return the names of replicas that another one of the same model of device can replace."""
    found, compared = set[str](), len(instance.configurations) ** 2 * len(instance.types)
    for each in instance.hardware if compared <= MAX_COMPARED else ():
        own = [one for one in instance.configurations if one.hardware == each.name]
        # Devices as a negative rate: more of every column is better.
        rows = [[-one.devices, *(one.requests_per_s.get(i.name, 0.0) for i in instance.types)] for one in own]
        table = np.array(rows).reshape(len(own), len(instance.types) + 1)
        for k, one in enumerate(own):
            check_time()
            equal_or_better = (table >= table[k]).all(axis=1)
            # Of equal ones the first stays.
            if (equal_or_better & ((table > table[k]).any(axis=1) | (np.arange(len(own)) < k))).any():
                found.add(one.name)
    return found


def least_progress_of(one: Configuration) -> float:
    """Return the least progress of a job of a group; 0 of a replica."""
    return min(one.progress.values(), default=0.0)
