"""Compiled loops over the columns of a core: least weights by units used, and labels."""

from __future__ import annotations

import numpy as np

from ....formulations.common.compiled import compiled
from ....instances.common.arrays import Floats, Ints


@compiled
def _onward(ending: Floats, alternating: bool, result: Floats) -> None:
    """Set for each type, in each state, the least over the types that may be its neighbour."""
    for state in range(ending.shape[1]):
        first, second, best = np.inf, np.inf, -1
        for t in range(len(ending)):
            value = ending[t, state]
            if value < first:
                first, second, best = value, first, t
            elif value < second:
                second = value
        for t in range(len(ending)):
            result[t, state] = second if alternating and t == best else first


@compiled
def least_by_state(
    first: Ints,
    after: Ints,
    unit_type: Ints,
    weight: Floats,
    digits: Ints,
    layers: int,
    hardware: int,
    states: int,
    alternating: bool,
) -> Floats:
    """Return the least weight of paths to each layer that use exactly so many units.

    Parameters
    ----------
    first, after, unit_type, weight
        Of columns by the layer they lead to, shape (K,).
    digits
        Shape (K, 3): the columns' own digit of the state, as its place value and its number of values, and
        by how much they raise it.

    Returns
    -------
    least
        Of paths that a column of a type may follow, shape (L + 1, T, states).
    """
    least = np.full((layers + 1, hardware, states), np.inf)
    least[0, :, 0] = 0.0
    ending, i = np.empty((hardware, states)), 0
    for layer in range(1, layers + 1):
        ending[:] = np.inf
        while i < len(after) and after[i] == layer:
            place, values, units = digits[i, 0], digits[i, 1], digits[i, 2]
            before, found, own = least[first[i], unit_type[i]], ending[unit_type[i]], weight[i]
            # States whose digit has room for the units are blocks next to each other.
            for start in range(0, states, place * values):
                for state in range(start, start + place * (values - units)):
                    value = before[state] + own
                    found[state + place * units] = min(found[state + place * units], value)
            i += 1
        _onward(ending, alternating, least[layer])
    return least


@compiled
def through_states(
    first: Ints,
    after: Ints,
    unit_type: Ints,
    weight: Floats,
    digits: Ints,
    to: Floats,
    rest: Floats,
) -> Floats:
    """Return the least weight of a path through each column, shape (K,).

    Parameters
    ----------
    to, rest
        Least weights of paths to a layer by units used, and from it on by units left, (L + 1, T, states).
    """
    states, through = to.shape[2], np.full(len(weight), np.inf)
    for i in range(len(weight)):
        place, values, units = digits[i, 0], digits[i, 1], digits[i, 2]
        before, beyond = to[first[i], unit_type[i]], rest[after[i], unit_type[i]]
        least = np.inf
        for start in range(0, states, place * values):
            for state in range(start, start + place * (values - units)):
                # The last state less another one has the units that this one leaves.
                least = min(least, before[state] + beyond[states - 1 - state - place * units])
        through[i] = least + weight[i]
    return through


@compiled
def extend(
    labels: tuple[Ints, Floats, Floats],
    columns: Ints,
    core: tuple[Ints, Ints, Floats, Floats],
    capacity: Floats,
    alternating: bool,
    bounds: tuple[Floats, Floats, Ints, Ints, Floats],
    threshold: Floats,
    moved: Ints,
) -> tuple[int, int]:
    """Extend labels by columns; keep what is within the limits and below all thresholds.

    Parameters
    ----------
    labels
        Type, consumption and cost, shapes (n,), (n, R), (n,).
    core
        The layer that each column leads to, type, consumption and cost, shapes (K,), (K,), (K, R), (K,).
    bounds
        Of each bound the weight of the cost, the prices, the place values of units in its state, and which
        state has all units left, shapes (M,), (M, R), (M, R), (M,); and the least values of the rest in all
        states of all bounds, by layer and type, shape (L + 1, T, S).
    moved
        Room for label and column of what is kept, shape (n, 2).

    Returns
    -------
    kept, work
        How many are kept, and how many bounds were evaluated.
    """
    label_type, label_use, label_cost = labels
    after, unit_type, use, cost = core
    weights, prices, places, last, rest = bounds
    kept, work, used = 0, 0, np.empty(len(capacity))
    for column in columns:
        t = unit_type[column]
        for label in range(len(label_cost)):
            if alternating and label_type[label] == t:
                continue
            fits = True
            for r in range(len(capacity)):
                used[r] = label_use[label, r] + use[column, r]
                if used[r] > capacity[r]:
                    fits = False
                    break
            if not fits:
                continue
            total = label_cost[label] + cost[column]
            for m in range(len(weights)):
                value, state = weights[m] * total, last[m]
                for r in range(len(capacity)):
                    value += prices[m, r] * used[r]
                    state -= places[m, r] * int(used[r])
                work += 1
                if value + rest[after[column], t, state] > threshold[m]:
                    fits = False
                    break
            if fits:
                moved[kept, 0], moved[kept, 1] = label, column
                kept += 1
    return kept, work
