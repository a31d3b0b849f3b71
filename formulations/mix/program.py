"""The integer programme of a mix over counts of configurations, as arrays.

    minimise    c·y
    subject to  A y ≤ b
                Σ_k μ_ki x_ki ≥ λ_i   for each type of request i
                Σ_i x_ki ≤ y_k        for each configuration k
                0 ≤ y ≤ u, y integer; x ≥ 0

x_ki is how many copies of k, or parts of one, serve requests of type i; of jobs there is no type of request.
The rows of A are the numbers of jobs, of devices, and of USD per hour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...instances.common.arrays import Flags, Floats, Ints, offsets, run_of_each
from ...instances.mix.instance import BUDGET, DEVICES, MixInstance
from ..common.objective import loosened

MAX_COMPARED = 5_000
"""Largest number of configurations of which each is compared with every other."""
SLACK = 3e-9
"""Part of a rate that a plan may leave unserved within the tolerances of the check."""


@dataclass(frozen=True)
class Entries:
    """A sparse matrix by configuration: those of k are `start[k]` to `start[k + 1]`."""

    start: Ints
    index: Ints
    value: Floats

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[int, float]]) -> Entries:
        """Return the matrix of one mapping of index to value for each configuration."""
        index = [i for row in rows for i in row]
        value = [v for row in rows for v in row.values()]
        return cls(
            offsets([len(row) for row in rows]), np.array(index, dtype=np.int64), np.array(value, float)
        )

    def of(self, kept: Flags) -> Entries:
        """Return the matrix of some of the configurations."""
        inside = kept[run_of_each(self.start)]
        return Entries(offsets(np.diff(self.start)[kept]), self.index[inside], self.value[inside])

    def products(self, prices: Floats) -> Floats:
        """Return the sum of prices times values of each configuration, shape (n,)."""
        sums = np.zeros(len(self.start) - 1)
        np.add.at(sums, run_of_each(self.start), prices[self.index] * self.value)
        return sums

    def maxima(self, prices: Floats) -> Floats:
        """Return the largest price times value of each configuration, 0 without any, shape (n,)."""
        most = np.zeros(len(self.start) - 1)
        np.maximum.at(most, run_of_each(self.start), prices[self.index] * self.value)
        return most


class Row(NamedTuple):
    """A row of A: the name of its price, b, and −1 where it stands for *at least* −b of what is named."""

    name: str
    limit: float
    sign: int = 1


@dataclass(frozen=True)
class MixProgram:
    """An integer programme over n configurations, with m rows and I types of requests.

    Attributes
    ----------
    cost, most
        c and u, shape (n,).
    weights, rows
        A, and its m rows.
    rates, demand
        μ and λ; no types of requests if the instance has jobs.
    """

    cost: Floats
    weights: Entries
    rows: tuple[Row, ...]
    rates: Entries
    demand: Floats
    most: Floats

    @cached_property
    def limits(self) -> Floats:
        """The limits b of the rows, shape (m,)."""
        limits = [loosened(row.limit) if row.name == BUDGET else row.limit for row in self.rows]
        return np.array(limits, dtype=float)

    def with_row(self, row: Row, weights: Floats) -> MixProgram:
        """Return the programme with one more row."""
        old, runs = self.weights, run_of_each(self.weights.start)
        order = np.argsort(np.concatenate([runs, np.arange(len(weights))]), kind="stable")
        index = np.concatenate([old.index, np.full(len(weights), len(self.rows))])[order]
        entries = Entries(offsets(np.diff(old.start) + 1), index, np.concatenate([old.value, weights])[order])
        return replace(self, weights=entries, rows=(*self.rows, row))

    def of(self, kept: Flags) -> MixProgram:
        """Return the programme over some of the configurations."""
        weights, rates = self.weights.of(kept), self.rates.of(kept)
        return MixProgram(self.cost[kept], weights, self.rows, rates, self.demand, self.most[kept])

    def reduced_costs(self, prices: Floats, weight: float = 1.0) -> Floats:
        """Return c + Aᵀτ − max_i π_i μ_i at the prices (τ, π) of rows and types, shape (n,)."""
        rows = len(self.rows)
        return weight * self.cost + self.weights.products(prices[:rows]) - self.rates.maxima(prices[rows:])

    def constant(self, prices: Floats) -> float:
        """Return λ·π − b·τ, the part of a bound that does not depend on y."""
        rows = len(self.rows)
        return float(self.demand @ prices[rows:] - self.limits @ prices[:rows])


def devices_of(instance: MixInstance) -> Floats:
    """Return the devices of each configuration, shape (n,)."""
    return np.array([one.devices for one in instance.configurations], dtype=float)


def usd_per_hour(instance: MixInstance) -> Floats:
    """Return the price of each configuration in USD per hour, shape (n,); a missing price counts as 0."""
    prices = {each.name: each.price_usd_per_hour or 0.0 for each in instance.hardware}
    return np.array([one.devices * prices[one.hardware] for one in instance.configurations], dtype=float)


def progress_of(instance: MixInstance) -> Floats:
    """Return the weighted progress of the jobs of each configuration, shape (n,)."""
    weight = {one.name: one.weight for one in instance.types}
    values = [
        math.fsum(weight[name] * count * one.progress[name] for name, count in one.jobs.items())
        for one in instance.configurations
    ]
    return np.array(values, dtype=float)


def least_progress_of(instance: MixInstance) -> Floats:
    """Return the least progress of a job of each configuration, shape (n,)."""
    return np.array([min(one.progress.values(), default=0.0) for one in instance.configurations], dtype=float)


def program_of(instance: MixInstance) -> MixProgram:
    """Return the programme of an instance, with its first objective."""
    rows, cost, served = [], usd_per_hour(instance), instance.serves
    index = {one.name: i for i, one in enumerate(instance.types)}
    limits = list(_rows(instance))
    number = {(row.name, row.sign): r for r, row in enumerate(limits)}
    for k, one in enumerate(instance.configurations):
        use: dict[str, float] = {one.hardware: one.devices, DEVICES: one.devices, BUDGET: cost[k], **one.jobs}
        signed = (
            (number.get((name, sign)), sign * amount) for name, amount in use.items() for sign in (1, -1)
        )
        rows.append({r: amount for r, amount in signed if r is not None})
    rates = [
        {index[name]: rate for name, rate in one.requests_per_s.items()} for one in instance.configurations
    ]
    demand = [(one.requests_per_s or 0.0) * (1 - SLACK) for one in instance.types] if served else []
    return MixProgram(
        cost if served else -progress_of(instance),
        Entries.from_rows(rows),
        tuple(limits),
        Entries.from_rows(rates),
        np.array(demand, dtype=float),
        np.array(list(_most(instance)), dtype=float),
    )


def _rows(instance: MixInstance) -> Iterator[Row]:
    for one in () if instance.serves else instance.types:
        yield Row(one.name, one.count or 0)
        if instance.must_run:
            yield Row(one.name, -(one.count or 0), -1)
    for each in instance.hardware:
        if each.limit is not None:
            yield Row(each.name, each.limit)
    if instance.devices is not None:
        yield Row(DEVICES, instance.devices)
    if instance.budget_usd_per_hour is not None:
        yield Row(BUDGET, instance.budget_usd_per_hour)


def _most(instance: MixInstance) -> Iterator[int]:
    """Yield how many copies of each configuration a plan needs at most.

    Of a replica these are as many as serve all requests of its types, each type by copies of its own.
    """
    limits = {each.name: each.limit for each in instance.hardware}
    types = {each.name: each for each in instance.types}
    for one in instance.configurations:
        most = [(types[name].count or 0) // count for name, count in one.jobs.items()]
        rates = one.requests_per_s.items()
        enough = sum(math.ceil((types[name].requests_per_s or 0.0) / rate) for name, rate in rates)
        devices = (limits[one.hardware], instance.devices)
        most += [each // one.devices for each in devices if each is not None]
        slow = min(one.progress.values(), default=math.inf) < (instance.least_progress or 0.0)
        yield 0 if slow else min([*most, *([enough] if instance.serves else [])])
