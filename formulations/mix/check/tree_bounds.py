"""The bounds that the branching trees of a certificate prove, in whole numbers.

Let π ≥ 0 be prices of the types of requests and τ ≥ 0 prices of the rows A y ≤ b. For every plan y with
shares x, since Σ_k μ_ki x_ki ≥ λ_i and Σ_i x_ki ≤ y_k,

    c·y ≥ c·y + τ·(A y − b) + Σ_i π_i (λ_i − Σ_k μ_ki x_ki)
        ≥ π·λ − τ·b + Σ_k d_k y_k   with   d_k = c_k + Σ_r τ_r A_rk − max_i π_i μ_ki,

and Σ_k d_k y_k is at least Σ_k min(d_k l_k, d_k u_k) in a box l ≤ y ≤ u (Lagrangian duality; Geoffrion,
"Lagrangean relaxation for integer programming", 1974). Without the costs, a positive right side proves that
the box has no plan. The boxes of the leaves of a tree cover that of its root, so that the least of their
bounds holds for all plans.

All figures of the instance and of the certificate are floats, which are fractions; over a common
denominator they are whole numbers, and nothing is rounded. Nothing of the methods is imported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ....instances.common.arrays import Flags, Ints, offsets, run_of_each
from ....instances.mix.instance import BUDGET, DEVICES, Configuration, MixInstance
from ...common.clock import check_time
from ...common.objective import TIE_TOLERANCE, TOLERANCE, loosened
from ..certificate import MixCertificate, Tree

Wholes = NDArray[np.object_]
"""An array of Python's whole numbers, which have any size."""
SERVED = 1 - 3 * Fraction(TOLERANCE)
"""Part of a rate that a plan has to serve at least, with the tolerances of its check."""
MAX_COMPARED = 5_000
"""Largest number of configurations of which each is compared with every other."""


def whole_numbers(figures: Iterable[Fraction | float]) -> tuple[Wholes, int]:
    """Return numbers times their least common denominator, and that denominator."""
    ratios = [each.as_integer_ratio() for each in figures]
    unit = math.lcm(*{denominator for _, denominator in ratios}, 1)
    made = np.empty(len(ratios), dtype=object)
    made[:] = [numerator * (unit // denominator) for numerator, denominator in ratios]
    return made, unit


@dataclass(frozen=True)
class _Matrix:
    """Entries by configuration, each with the index of a row or of a type of request."""

    start: Ints
    index: Ints
    value: Wholes

    def of(self, kept: Flags) -> _Matrix:
        inside = kept[run_of_each(self.start)]
        return _Matrix(offsets(np.diff(self.start)[kept]), self.index[inside], self.value[inside])

    def combined(self, prices: Wholes, how: np.ufunc) -> Wholes:
        """Return the sum or the largest (`how`) of prices times values of each configuration; at least 0."""
        made = np.zeros(len(self.start) - 1, dtype=object)
        how.at(made, run_of_each(self.start), prices[self.index] * self.value)
        return made


@dataclass(frozen=True)
class ExactProgram:
    """The programme of an instance in whole numbers, all but `most` in parts of 1/`unit`.

    Attributes
    ----------
    cost, most
        c and u, shape (n,).
    weights, limits
        A and b.
    rates, demand
        μ and λ.
    """

    cost: Wholes
    most: Wholes
    weights: _Matrix
    limits: Wholes
    rates: _Matrix
    demand: Wholes
    unit: int

    def of(self, kept: Flags) -> ExactProgram:
        """Return the programme over some of the configurations."""
        return replace(
            self,
            cost=self.cost[kept],
            most=self.most[kept],
            weights=self.weights.of(kept),
            rates=self.rates.of(kept),
        )

    def dual(self, prices: Sequence[float], counts_cost: bool = True) -> tuple[Wholes, int, int]:
        """Return d and π·λ − τ·b at some prices as whole numbers, and the unit of which they are parts."""
        priced, unit = whole_numbers(prices)
        rows, types = np.split(priced, [len(self.limits)])
        reduced = self.weights.combined(rows, np.add) - self.rates.combined(types, np.maximum)
        if counts_cost:
            reduced = reduced + self.cost * unit
        return reduced, sum(types * self.demand) - sum(rows * self.limits), self.unit * unit


def exact_program(instance: MixInstance, most_usd: float | None = None) -> ExactProgram:
    """Return the programme of an instance with its first objective, or with that of the devices.

    Parameters
    ----------
    most_usd
        Of requests: the devices are counted, and no plan costs more than this.
    """
    index = {one.name: i for i, one in enumerate(instance.types)}
    rows = list(_rows(instance, most_usd))
    numbers: dict[str, list[tuple[int, int]]] = {}
    for r, (name, sign, _) in enumerate(rows):
        numbers.setdefault(name, []).append((r, sign))
    weights, cost, served = [], [], instance.serves
    for one, usd in zip(instance.configurations, _usd_per_hour(instance), strict=True):
        use: dict[str, Fraction | int] = {one.hardware: one.devices, DEVICES: one.devices, BUDGET: usd}
        use |= one.jobs
        weights.append(
            {r: Fraction(sign * amount) for name, amount in use.items() for r, sign in numbers.get(name, ())}
        )
        first = usd if served else -_progress(instance, one)
        cost.append(first if most_usd is None else Fraction(one.devices))
    rates = [
        {index[name]: Fraction(rate) for name, rate in one.requests_per_s.items()}
        for one in instance.configurations
    ]
    demand = [Fraction(one.requests_per_s or 0.0) * SERVED for one in instance.types if served]
    flat = [[value for row in matrix for value in row.values()] for matrix in (weights, rates)]
    groups = (cost, flat[0], [limit for *_, limit in rows], flat[1], demand)
    figures, unit = whole_numbers([value for group in groups for value in group])
    parts = np.split(figures, np.cumsum([len(group) for group in groups])[:-1])
    most = np.empty(len(cost), dtype=object)
    most[:] = list(_most(instance))
    matrices = [
        _Matrix(
            offsets([len(row) for row in matrix]),
            np.array([i for row in matrix for i in row], dtype=np.int64),
            value,
        )
        for matrix, value in ((weights, parts[1]), (rates, parts[3]))
    ]
    return ExactProgram(parts[0], most, matrices[0], parts[2], matrices[1], parts[4], unit)


def _rows(instance: MixInstance, most_usd: float | None) -> Iterator[tuple[str, int, Fraction]]:
    """Yield the name, the sign of the weights, and b of each row, in the order of the programme."""
    for one in () if instance.serves else instance.types:
        yield one.name, 1, Fraction(one.count or 0)
        if instance.must_run:
            yield one.name, -1, Fraction(-(one.count or 0))
    for each in instance.hardware:
        if each.limit is not None:
            yield each.name, 1, Fraction(each.limit)
    if instance.devices is not None:
        yield DEVICES, 1, Fraction(instance.devices)
    for usd in (instance.budget_usd_per_hour, most_usd):
        if usd is not None:
            yield BUDGET, 1, Fraction(loosened(usd))


def _usd_per_hour(instance: MixInstance) -> list[Fraction]:
    price = {each.name: Fraction(each.price_usd_per_hour or 0.0) for each in instance.hardware}
    return [one.devices * price[one.hardware] for one in instance.configurations]


def _progress(instance: MixInstance, one: Configuration) -> Fraction:
    weight = {each.name: each.weight for each in instance.types}
    parts = (
        Fraction(weight[name]) * count * Fraction(one.progress[name]) for name, count in one.jobs.items()
    )
    return sum(parts, Fraction(0))


def _most(instance: MixInstance) -> Iterator[int]:
    """Yield how many copies of each configuration a plan needs at most; 0 if another one takes its place.

    A replica that serves every type at least as fast on no more devices of the same model may replace
    another one in every plan. And copies beyond what the requests of its types need may be left out.
    """
    replaced = _replaced(instance) if instance.serves else set()
    limits = {each.name: each.limit for each in instance.hardware}
    types = {each.name: each for each in instance.types}
    for index, one in enumerate(instance.configurations):
        if index in replaced or any(
            one.progress[name] < (instance.least_progress or 0.0) for name in one.jobs
        ):
            yield 0
            continue
        most = [each // one.devices for each in (limits[one.hardware], instance.devices) if each is not None]
        most += [(types[name].count or 0) // count for name, count in one.jobs.items()]
        rates = one.requests_per_s.items()
        needed = [
            math.ceil(Fraction(types[name].requests_per_s or 0.0) / Fraction(rate)) for name, rate in rates
        ]
        yield min([*most, sum(needed)]) if needed else min(most)


def _replaced(instance: MixInstance) -> set[int]:
    """Return the indices of replicas that another one of the same model of device can replace."""
    found: set[int] = set()
    if len(instance.configurations) > MAX_COMPARED:
        return found
    for each in instance.hardware:
        own = [k for k, one in enumerate(instance.configurations) if one.hardware == each.name]
        table = np.array(
            [
                [instance.configurations[k].requests_per_s.get(t.name, 0.0) for t in instance.types]
                for k in own
            ]
        )
        devices = np.array([instance.configurations[k].devices for k in own])
        for k, place in enumerate(own):
            better = (table >= table[k]).all(axis=1) & (devices <= devices[k])
            # Of two that are equal the first one stays.
            better &= (table > table[k]).any(axis=1) | (devices < devices[k]) | (np.arange(len(own)) < k)
            if better.any():
                found.add(place)
    return found


def tree_bound(program: ExactProgram, tree: Tree, cutoff: Fraction | None) -> Fraction | None:
    """Return a bound on the cost of all plans that cost at most `cutoff`; None if the tree excludes them.

    Parameters
    ----------
    cutoff
        Of plans that cost more nothing is said; None: the bound holds for all plans.
    """
    reduced, constant, unit = program.dual(tree.prices)
    low, high = np.zeros(len(reduced), dtype=object), program.most.copy()
    if cutoff is not None:
        room = math.floor(cutoff * unit - constant - (np.minimum(reduced, 0) * high).sum())
        if room < 0:
            return None
        dear = reduced > 0
        high[dear] = np.minimum(high[dear], room // reduced[dear])
    kept = high > 0
    number = {int(k): i for i, k in enumerate(np.flatnonzero(kept))}
    program = program.of(kept.astype(bool))
    boxes: list[Box | None] = [(low[kept], high[kept])]
    least: Fraction | None = None
    for node in tree.nodes:
        check_time()
        box = boxes.pop()
        if node.prices is None:
            boxes += _halves(box, number.get(node.configuration or 0), node.at_most or 0)
        elif box is not None:
            bound = _leaf_bound(program, box, node.prices, node.infeasible)
            least = bound if least is None or (bound is not None and bound < least) else least
    return least


Box = tuple[Wholes, Wholes]
"""The least and the most copies of each configuration."""


def _halves(box: Box | None, k: int | None, at_most: int) -> list[Box | None]:
    """Return the boxes with more than so many copies of k, and with at most so many; None if one is empty.

    Of a configuration that was left out, `k` is None: there are no copies.
    """
    if box is None or k is None:
        return [None, box]
    low, high = box
    above, below = low.copy(), high.copy()
    above[k], below[k] = max(low[k], at_most + 1), min(high[k], at_most)
    return [
        (above, high) if above[k] <= high[k] else None,
        (low, below) if low[k] <= below[k] else None,
    ]


def _leaf_bound(
    program: ExactProgram, box: Box, prices: Sequence[float], infeasible: bool
) -> Fraction | None:
    """Return the bound of a leaf; None if its prices prove that it has no plan."""
    if infeasible and _box_bound(program, box, prices, counts_cost=False) > 0:
        return None
    return _box_bound(program, box, prices, counts_cost=True)


def _box_bound(program: ExactProgram, box: Box, prices: Sequence[float], counts_cost: bool) -> Fraction:
    reduced, constant, unit = program.dual(prices, counts_cost)
    return Fraction(constant + np.where(reduced > 0, reduced * box[0], reduced * box[1]).sum(), unit)


def certified_bounds(
    instance: MixInstance, given: MixCertificate, values: Sequence[float] | None
) -> tuple[float | None, float | None]:
    """Return the bounds that a certificate proves on both objectives; both infinite if there is no plan.

    Parameters
    ----------
    values
        Objectives of a plan, if there is one.
    """
    program, sign = exact_program(instance), 1 if instance.serves else -1
    cutoff = None if values is None else sign * Fraction(values[0])
    bound = tree_bound(program, given.first, cutoff)
    if values is None or cutoff is None:
        return (math.inf, math.inf) if bound is None else (float(sign * bound), None)
    first = values[0] if bound is None else float(sign * min(bound, cutoff))
    if given.second is None:
        return first, None
    if not instance.serves:
        return first, _least_progress_bound(instance, program, given, cutoff)
    fewer = Fraction(values[1] - 1)
    least = tree_bound(exact_program(instance, values[0]), given.second, fewer)
    return first, values[1] if least is None or least > fewer else float(math.ceil(least))


def _least_progress_bound(
    instance: MixInstance, program: ExactProgram, given: MixCertificate, cutoff: Fraction
) -> float | None:
    """Return the least progress beyond which no plan has as much progress, if a certificate proves it."""
    if given.second is None or given.above is None:
        return None
    slow = [min(one.progress.values()) <= given.above for one in instance.configurations]
    program.most[np.array(slow, dtype=bool)] = 0
    # Of plans that are worse by rounding alone nothing is known.
    cutoff += abs(cutoff) * Fraction(TIE_TOLERANCE)
    bound = tree_bound(program, given.second, cutoff)
    return given.above if bound is None or bound > cutoff else None
