"""The best mix of tiny instances, by trying every plan: written from the mathematics, not from our programme.

Counts are enumerated; of requests, `scipy.optimize.linprog` says whether some shares of time serve them all.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from random_instances import random_mix
from scipy.optimize import linprog

from clusterplan.instances.mix.instance import MixInstance

Values = tuple[float, float]
CLOSE = 1e-9
"""Relative distance within which values are equal."""


def instances_of(serves: bool, first: int, count: int) -> list[MixInstance]:
    """Return so many random instances of one sort, from a seed on."""
    found, seed = list[MixInstance](), first
    while len(found) < count:
        instance = random_mix(seed)
        seed += 1
        if instance.serves == serves:
            found.append(instance)
    return found


def best_values(instance: MixInstance) -> Values | None:
    """Return the objectives of the best plan; None if there is no plan."""
    counts = _counts(instance)
    devices = np.array([one.devices for one in instance.configurations])
    price = {one.name: one.price_usd_per_hour or 0.0 for one in instance.hardware}
    usd = devices * [price[one.hardware] for one in instance.configurations]
    kept = np.full(len(counts), True)
    for each in instance.hardware:
        own = devices * [one.hardware == each.name for one in instance.configurations]
        kept &= counts @ own <= (math.inf if each.limit is None else each.limit)
    if instance.devices is not None:
        kept &= counts @ devices <= instance.devices
    if instance.budget_usd_per_hour is not None:
        kept &= counts @ usd <= instance.budget_usd_per_hour * (1 + CLOSE) + CLOSE
    if not instance.serves:
        return _best_of_jobs(instance, counts[kept])
    counts = counts[kept]
    cost, used = counts @ usd, counts @ devices
    for k in np.lexsort((used, cost.round(9))):
        if _serves(instance, counts[k]):
            return float(cost[k]), float(used[k])
    return None


def _counts(instance: MixInstance) -> np.ndarray:
    """Return all counts that may matter, one row each."""
    limits = {one.name: one.limit for one in instance.hardware}
    jobs = {one.name: one.count or 0 for one in instance.types}
    asked = {one.name: one.requests_per_s or 0.0 for one in instance.types}
    most = []
    for one in instance.configurations:
        limit = limits[one.hardware]
        few = [limit // one.devices] if limit is not None else []
        few += [jobs[name] // many for name, many in one.jobs.items()]
        rates = one.requests_per_s.items()
        few += [sum(math.ceil(asked[name] / rate) for name, rate in rates)] if rates else []
        most.append(min(few))
    return np.array(list(product(*(range(limit + 1) for limit in most))))


def _best_of_jobs(instance: MixInstance, counts: np.ndarray) -> Values | None:
    weight = {one.name: one.weight for one in instance.types}
    worth = [
        sum(weight[name] * many * one.progress[name] for name, many in one.jobs.items())
        for one in instance.configurations
    ]
    least = np.array([min(one.progress.values()) for one in instance.configurations])
    kept = np.full(len(counts), True)
    for one in instance.types:
        running = counts @ [k.jobs.get(one.name, 0) for k in instance.configurations]
        kept &= running == one.count if instance.must_run else running <= one.count
    slow = least < (instance.least_progress or 0.0)
    counts = counts[kept & (counts[:, slow] == 0).all(axis=1)]
    if not len(counts):
        return None
    slowest = np.where(counts > 0, least, np.inf).min(axis=1)
    slowest[~counts.any(axis=1)] = 0.0
    return max(zip((counts @ worth).round(9).tolist(), slowest.tolist(), strict=True))


def _serves(instance: MixInstance, counts: np.ndarray) -> bool:
    """Return whether some shares of the time of these copies serve all requests."""
    asked = [(one.name, one.requests_per_s) for one in instance.types if one.requests_per_s]
    rates = np.array(
        [[k.requests_per_s.get(name, 0.0) for name, _ in asked] for k in instance.configurations]
    )
    demand = np.array([rate for _, rate in asked])
    if not asked or (counts @ rates < demand * (1 - CLOSE)).any():
        return not asked
    size, types = rates.size, len(asked)
    # Shares x_ki, and the part of all requests that is served, which is to be as large as possible.
    served = np.hstack([-(rates[:, :, None] * np.eye(types)).reshape(size, types).T, demand[:, None]])
    time = np.hstack([np.kron(np.eye(len(counts)), np.ones(types)), np.zeros((len(counts), 1))])
    found = linprog(
        np.eye(size + 1)[-1] * -1,
        A_ub=np.vstack([served, time]),
        b_ub=np.concatenate([np.zeros(types), counts]),
        bounds=[(0, None)] * size + [(0, 2)],
    )
    return bool(found.x[-1] >= 1 - 1e-8)
