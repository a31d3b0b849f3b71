"""Compiled loops of the methods: fewest units, least costs, shortest paths, and paths by units used.

The check has loops of its own. Without `fastmath` the compiler rounds every sum and quotient as written.
Arrays are written entry by entry, for the compiler takes seconds for a slice.

A path is a sequence of segments, each beginning where the one before ends. Where neighbours have to differ in
type, a segment follows the cheapest path of any other type to its first layer, so that two numbers a layer,
the cheapest and the second cheapest type, carry the dynamic program over (layer, type): O(L²T).
"""

from __future__ import annotations

import math

import numpy as np

from ...formulations.common.compiled import compiled, compiled_without_arrays
from ...formulations.staging.stages import MAX_UNITS, Parts, compiled_time_s
from ...instances.common.arrays import Flags, Floats, Ints

NEAR_INTEGER = 1e-9
"""Relative distance of A/(τ − S) to an integer below which rounding may decide."""
SMALL_REMAINDER = 1e-5
"""Where τ − S is this small beside τ, the difference itself is imprecise."""
NO_REMAINDER = 1e-15
"""Where τ − S is this small beside τ, it has no correct digit."""
MAX_STEPS = 3
"""Corrections by one unit before a segment is searched by bisection."""


@compiled_without_arrays
def _corrected_units(parts: Parts, tau: float, guess: float) -> float:
    """Return the fewest units of a stage to be as fast as `tau`: steps from a guess, else bisection."""
    for _ in range(MAX_STEPS):
        if compiled_time_s(parts, guess) > tau:
            guess += 1.0
        elif guess > 1 and compiled_time_s(parts, guess - 1.0) <= tau:
            guess -= 1.0
        else:
            return guess
    low, high = 0, MAX_UNITS + 1  # ET(low) > τ; ET(high) ≤ τ, or there is none
    while high - low > 1:
        middle = (low + high) // 2
        if compiled_time_s(parts, float(middle)) <= tau:
            high = middle
        else:
            low = middle
    return float(high) if high <= MAX_UNITS else math.inf


@compiled_without_arrays
def _fractional_units(parallel: float, left: float) -> float:
    """Return the fractional number of units that suffice, A/(τ − S), where 0/0 counts as 0."""
    share = parallel / left
    return share if share > 0 else 0.0


@compiled_without_arrays
def _rounding_may_decide(share: float, units: float, least_left: float, tau: float, limit: float) -> bool:
    """Return whether rounding errors may decide the fewest units of a stage."""
    near = (abs(share - np.rint(share)) <= NEAR_INTEGER * share) & (share > 0.5)
    near |= least_left < SMALL_REMAINDER * tau
    # Further beyond the limit a correction by one unit does not matter.
    near &= units <= limit + 1
    # Where all of τ but its last digits is serial, A/k may vanish beside it, and one unit suffice.
    return bool(near | (least_left <= NO_REMAINDER * tau))


@compiled_without_arrays
def _fewest(parts: Parts, tau: float, limit: float) -> float:
    """Return the smallest k ≥ 1 with stage time ET(k) ≤ τ, infinite where there is none within the limit."""
    serial, parallel, comm_serial, comm_parallel = parts
    least_left = min(tau - serial, tau - comm_serial)
    # Even infinitely many units are too slow.
    if least_left < 0:
        return math.inf
    share = max(
        _fractional_units(parallel, tau - serial), _fractional_units(comm_parallel, tau - comm_serial)
    )
    units = max(np.ceil(share), 1.0)
    # The exact, slow search is run only where rounding may decide.
    if _rounding_may_decide(share, units, least_left, tau, limit):
        units = _corrected_units(parts, tau, min(units, float(MAX_UNITS)))
    return units if units <= limit else math.inf


@compiled_without_arrays
def fewest_units(
    serial: Floats,
    parallel: Floats,
    comm_serial: Floats,
    comm_parallel: Floats,
    limit: Floats,
    tau: Floats,
    units: Floats,
) -> None:
    """Set the fewest units of each stage at each stage time τ, shape (B, n), infinite where none suffice."""
    for row in range(len(tau)):
        for i in range(len(serial)):
            parts = serial[i], parallel[i], comm_serial[i], comm_parallel[i]
            units[row, i] = _fewest(parts, tau[row], limit[i])


@compiled
def least_cost(
    serial: Floats,
    parallel: Floats,
    comm_serial: Floats,
    comm_parallel: Floats,
    limit: Floats,
    rate: Floats,
    low: float,
    high: float,
    doubtful: Flags,
    units: Floats,
    cost: Floats,
) -> None:
    """Set fewest units k(high) and least cost in USD of each stage in an interval of stage times.

    Parameters
    ----------
    doubtful
        Output, shape (n,): whether rounding may decide the number of units.
    units, cost
        Output, shape (n,); infinite cost, and one unit, where no units suffice.
    """
    count, any_doubt = len(serial), False
    # These loops but the second have no branches, so that the compiler takes several segments in one step.
    for i in range(count):
        left, comm_left = high - serial[i], high - comm_serial[i]
        # Divisions take longest: one tells the larger quotient, one the time of both parts, but for its last
        # digit. Where either may decide, the slow search is run.
        computes = parallel[i] * comm_left >= comm_parallel[i] * left
        share = _fractional_units(
            parallel[i] if computes else comm_parallel[i], left if computes else comm_left
        )
        need = max(np.ceil(share), 1.0)
        part = 1.0 / need
        units[i] = need
        cost[i] = max(serial[i] + parallel[i] * part, comm_serial[i] + comm_parallel[i] * part)
        doubtful[i] = _rounding_may_decide(share, need, min(left, comm_left), high, limit[i])
        any_doubt |= doubtful[i]
    if any_doubt:
        for i in range(count):
            if doubtful[i]:
                parts = serial[i], parallel[i], comm_serial[i], comm_parallel[i]
                units[i] = _fewest(parts, high, limit[i])
                cost[i] = compiled_time_s(parts, units[i])
    for i in range(count):
        able = (units[i] <= limit[i]) & (serial[i] <= high) & (comm_serial[i] <= high)
        paid = rate[i] * units[i] * max(low, cost[i])
        units[i], cost[i] = units[i] if able else 1.0, paid if able else np.inf


@compiled
def forward(
    edges: Ints,
    first: Ints,
    unit_type: Ints,
    weight: Floats,
    alternating: bool,
    arrival: Floats,
) -> float:
    """Return the minimum weight of a path of stages, and set those from the first layer on.

    See `Segments.forward`.

    Parameters
    ----------
    edges
        The segments that end with layer l are `edges[l]` to `edges[l + 1]`, shape (L + 1,).
    arrival
        Output, shape (T, L + 1), infinite at first, but 0 before the first layer. By type first: the
        segments of one type are read one after another.
    """
    shortest = np.inf
    for layer in range(len(edges) - 1):
        # Unsigned, so that indices are not checked for being negative.
        i, end = np.uint64(edges[layer]), np.uint64(edges[layer + 1])
        shortest = np.inf
        while i < end:
            t, least = np.uint32(unit_type[i]), np.inf
            # One number collects the minimum of a type: no step waits for what the last one stored.
            while i < end and unit_type[i] == t:
                least = min(least, weight[i] + arrival[t, np.uint32(first[i])])
                i += np.uint64(1)
            arrival[t, layer + 1] = least
            shortest = min(shortest, least)
        least_of_neighbours(arrival[:, layer + 1], alternating)
    return shortest


@compiled
def backward(
    edges: Ints,
    first: Ints,
    unit_type: Ints,
    weight: Floats,
    arrival: Floats,
    alternating: bool,
    rest: Floats,
    through: Floats,
) -> None:
    """Set the minimum weights of paths of stages to the last layer, and of paths through each stage.

    See `Segments.backward` and `Segments.through`.

    Parameters
    ----------
    rest
        Output, shape (B, T, L + 1), infinite at first, but 0 after the last layer. An entry collects the
        paths that begin with its layer and type, until all of them are known.
    """
    layers = len(edges) - 1
    for row in range(len(weight)):
        to, own, paths, least = arrival[row], weight[row], through[row], rest[row]
        for after in range(layers, 0, -1):
            for i in range(np.uint64(edges[after - 1]), np.uint64(edges[after])):
                t, f = np.uint32(unit_type[i]), np.uint32(first[i])
                onward = own[i] + least[t, after]
                least[t, f] = min(least[t, f], onward)
                paths[i] = to[t, f] + onward
            least_of_neighbours(least[:, after - 1], alternating)


@compiled
def least_of_neighbours(least: Floats, alternating: bool) -> None:
    """Replace the weights of the types by the minimum over those allowed for a neighbouring stage.

    Parameters
    ----------
    least
        Least weight by type, shape (T,).
    alternating
        Whether neighbours have to differ in type.
    """
    first, second, best = np.inf, np.inf, -1
    for t in range(len(least)):
        if least[t] < first:
            first, second, best = least[t], first, t
        elif least[t] < second:
            second = least[t]
    # Every type but the cheapest may neighbour the cheapest; that one gets the second cheapest.
    for t in range(len(least)):
        least[t] = first
    if alternating and best >= 0:
        least[best] = second


@compiled
def cheapest_path(
    edges: Ints, first: Ints, unit_type: Ints, weight: Floats, arrival: Floats, alternating: bool
) -> Ints:
    """Return the indices, in order, of the stages of a path of minimum weight over all layers."""
    path, count, layer, after = np.empty(len(edges) - 1, np.int64), 0, len(edges) - 1, -1
    while layer > 0:
        best, least = -1, np.inf
        goal = np.inf
        for t in range(len(arrival)):
            if after in (-1, t):
                goal = min(goal, arrival[t, layer])
        for i in range(edges[layer - 1], edges[layer]):
            t = unit_type[i]
            # The type of the next segment is not allowed.
            if alternating and t == after:
                continue
            way = weight[i] + arrival[t, first[i]]
            if way < least:
                best, least = i, way
                # No other can be better.
                if way == goal:
                    break
        path[count] = best
        count, layer, after = count + 1, first[best], unit_type[best]
    forwards = np.empty(count, np.int64)
    for k in range(count):
        forwards[k] = path[count - 1 - k]
    return forwards


@compiled
def least_by_state(
    first: Ints,
    after: Ints,
    unit_type: Ints,
    weight: Floats,
    digits: Ints,
    alternating: bool,
    least: Floats,
) -> None:
    """Set the minimum weight of a path of stages to each layer, by type and exact units used.

    Parameters
    ----------
    first, after, unit_type, weight
        Of columns by the layer they lead to, shape (K,).
    digits
        Shape (K, 3): by how much the columns raise the state, and the states that they may raise: so many at
        the beginning of every run of so many.
    least
        Output, shape (L + 1, T, states): of paths that a column of a type may follow; at first infinite, but
        0 at layer 0 where nothing is used. A layer's entries collect the paths that end there.
    """
    i, states = 0, least.shape[2]
    for layer in range(1, len(least)):
        while i < len(after) and after[i] == layer:
            shift, room, run = digits[i, 0], digits[i, 1], digits[i, 2]
            before, reached, own = least[first[i], unit_type[i]], least[layer, unit_type[i]], weight[i]
            for start in range(0, states, run):
                for state in range(start, start + room):
                    reached[state + shift] = min(reached[state + shift], before[state] + own)
            i += 1
        for state in range(states):
            least_of_neighbours(least[layer, :, state], alternating)


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
    """Return the minimum weight of a path of all layers through each candidate stage, shape (K,).

    Parameters
    ----------
    to, rest
        Least weights of paths to a layer by units used, and from it on by units left, (L + 1, T, states).
    """
    states, through = to.shape[2], np.full(len(weight), np.inf)
    for i in range(len(weight)):
        shift, room, run = digits[i, 0], digits[i, 1], digits[i, 2]
        before, beyond = to[first[i], unit_type[i]], rest[after[i], unit_type[i]]
        least = np.inf
        for start in range(0, states, run):
            for state in range(start, start + room):
                # The last state less another one has the units that this one leaves.
                least = min(least, before[state] + beyond[states - 1 - state - shift])
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
    """Extend labels (partial paths) by stages; keep those within the limits and below all thresholds.

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
        Output: label and column of each kept extension, shape (n, 2).

    Returns
    -------
    kept, work
        Numbers of kept extensions and of evaluated bounds.
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
