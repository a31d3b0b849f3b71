"""Compiled loops of the check for segments, their least costs, shortest paths, and paths with states.

They are separate from those of the solvers, so that both share no error. Sums and quotients are
rounded as written: without `fastmath` the compiler may not reorder them, and it does not fuse a product into
a sum.
"""

from __future__ import annotations

import numpy as np

from ....instances.common.arrays import Floats, Ints
from ...common.compiled import compiled, compiled_without_arrays

UNDERESTIMATE = 1e-9
"""Relative underestimate of the fewest units, before they are corrected by exact stage times."""


def segment_parts(
    own: Floats, memory: Floats, room: Floats, received: Floats, last_s: float
) -> tuple[Ints, Ints, Ints, Floats, Floats, Floats, Floats]:
    """Return first layer, last layer, type and the four parts of time of the segments that fit in memory.

    Segments that are slower than `last_s` on any number of units are left out. The segments are sorted by
    last layer, type and first layer.

    Parameters
    ----------
    own
        Parts S, A, S', A' of each layer on each type, shape (L, T, 4).
    memory, room
        Memory of each layer on each type, shape (L, T), and of a unit of each type, shape (T,) [GiB].
    received
        D for a stage that begins at each layer, shape (L,) [s].
    last_s
        The largest relevant stage time [s per probe batch].
    """
    layers, hardware = memory.shape
    most = layers * (layers + 1) // 2 * hardware
    # 32 bits halve the memory to be read later; the pages beyond the last segment are never used.
    ends, parts, count = np.empty((3, most), np.int32), np.empty((4, most)), 0
    # Running sums for each first layer: one addition for each layer, in the order of the layers.
    sums, memory_sums = np.zeros((4, hardware, layers)), np.zeros((hardware, layers))
    for last in range(layers):
        sums[:, :, : last + 1] += own[last].T[:, :, np.newaxis]
        memory_sums[:, : last + 1] += memory[last, :, np.newaxis]
        # A layer that a type cannot run makes S of every longer segment infinite too.
        able = np.isfinite(sums[0]) & (sums[0] <= last_s) & (sums[2] <= last_s)
        able &= memory_sums <= room[:, np.newaxis]
        unit_type, first = np.nonzero(able[:, : last + 1])
        new = slice(count, count + len(first))
        ends[0, new], ends[1, new], ends[2, new] = first, last, unit_type
        parts[:, new] = sums[:, unit_type, first]
        parts[3, new] += received[first]
        count = new.stop
    return *ends[:, :count], *parts[:, :count]


@compiled_without_arrays
def _time_s(serial: float, parallel: float, comm_serial: float, comm_parallel: float, units: float) -> float:
    compute, communication = serial + parallel / units, comm_serial + comm_parallel / units
    return compute if compute >= communication else communication


@compiled_without_arrays
def least_costs(
    unit_type: Ints,
    serial: Floats,
    parallel: Floats,
    comm_serial: Floats,
    comm_parallel: Floats,
    limit: Floats,
    rate: Floats,
    low: float,
    high: float,
    counts_cost: bool,
    units: Floats,
    cost: Floats,
) -> None:
    """Compute lower bounds on the devices and cost of segments at stage times in [low, high].

    Parameters
    ----------
    limit, rate
        Available units, and κ·π, of each type.
    units, cost
        Output of shape (n,); infinite cost, and one unit, where no units suffice.
    """
    # Where S equals τ up to rounding, a larger divisor keeps the quotient an underestimate.
    tiny, near, late = max(1e-15 * high, 1e-300), high * (1 - 1e-14), False
    # These loops but the second have no branches, so that the compiler does several segments in one step.
    for i in range(len(serial)):
        left, comm_left = high - serial[i] + tiny, high - comm_serial[i] + tiny
        # One division for the larger quotient; a rounding that picks the other is within the underestimate.
        computes = parallel[i] * comm_left >= comm_parallel[i] * left
        quotient = (parallel[i] if computes else comm_parallel[i]) / (left if computes else comm_left)
        need = max(np.ceil(quotient * (1 - UNDERESTIMATE)), 1.0)
        # One division for both parts; the last digit of the time matters only near `high`, below.
        part = 1.0 / need
        time = max(serial[i] + parallel[i] * part, comm_serial[i] + comm_parallel[i] * part)
        units[i], cost[i] = need, time
        late |= time > near
    if late:
        for i in range(len(serial)):
            # One more unit only where these are shown to be too slow.
            if cost[i] > near:
                cost[i] = _time_s(serial[i], parallel[i], comm_serial[i], comm_parallel[i], units[i])
                for _ in range(2):
                    if cost[i] <= high or serial[i] > high or comm_serial[i] > high:
                        break
                    units[i] += 1.0
                    cost[i] = _time_s(serial[i], parallel[i], comm_serial[i], comm_parallel[i], units[i])
    for i in range(len(serial)):
        t = np.uint32(unit_type[i])
        able = (units[i] <= limit[t]) & (serial[i] <= high) & (comm_serial[i] <= high)
        paid = rate[t] * units[i] * max(cost[i], low) if counts_cost else 0.0
        cost[i] = paid if able else np.inf
        units[i] = units[i] if able else 1.0


@compiled
def _neighbour_minima(best: Floats, alternating: bool) -> None:
    """Replace the weight of each type by the minimum over the types that a neighbouring stage may have."""
    first, second, cheapest = np.inf, np.inf, -1
    for t in range(len(best)):
        if best[t] < first:
            first, second, cheapest = best[t], first, t
        elif best[t] < second:
            second = best[t]
    # Every type except the cheapest may follow the cheapest, which follows the second cheapest.
    for t in range(len(best)):
        best[t] = first
    if alternating and cheapest >= 0:
        best[cheapest] = second


@compiled
def shortest_path(
    first: Ints,
    last: Ints,
    unit_type: Ints,
    weight: Floats,
    alternating: bool,
    arrival: Floats,
) -> float:
    """Return the minimum weight of a path through all layers, and compute those of paths to each layer.

    Parameters
    ----------
    first, last, unit_type, weight
        Segments by rising last layer, shape (n,); infinite weight where they cannot be used.
    arrival
        Output, shape (T, L + 1): weights of paths that may go on with a type; at first infinite, but 0 before
        the first layer.
    """
    shortest, i = np.inf, np.uint64(0)
    for layer in range(arrival.shape[1] - 1):
        shortest = np.inf
        while i < len(last) and last[i] == layer:
            # Unsigned, so that indices are not checked for negative values.
            t = np.uint32(unit_type[i])
            arriving = weight[i] + arrival[t, np.uint32(first[i])]
            arrival[t, layer + 1] = min(arrival[t, layer + 1], arriving)
            shortest = min(shortest, arriving)
            i += np.uint64(1)
        _neighbour_minima(arrival[:, layer + 1], alternating)
    return shortest


@compiled
def paths_through_segments(
    first: Ints,
    last: Ints,
    unit_type: Ints,
    weight: Floats,
    arrival: Floats,
    alternating: bool,
    remaining: Floats,
    result: Floats,
) -> None:
    """Compute the minimum weight of a complete path through each segment, shape (n,).

    Parameters
    ----------
    remaining
        Output, shape (T, L + 1): minimum weights of paths from a layer on; at first infinite, but 0 after the
        last layer. An entry collects the paths that begin there, until all of them are processed.
    """
    i, layers = len(last) - 1, arrival.shape[1] - 1
    for layer in range(layers, 0, -1):
        if layer < layers:
            _neighbour_minima(remaining[:, layer], alternating)
        while i >= 0 and last[i] == layer - 1:
            t, f = np.uint32(unit_type[i]), np.uint32(first[i])
            onward = weight[i] + remaining[t, layer]
            remaining[t, f] = min(remaining[t, f], onward)
            result[i] = arrival[t, f] + onward
            i -= 1


@compiled
def arrivals_by_state(
    first: Ints,
    after: Ints,
    kind: Ints,
    weight: Floats,
    place: Ints,
    size: Ints,
    units: Ints,
    layers: int,
    kinds: int,
    states: int,
    alternating: bool,
) -> Floats:
    """Return the minimum weight of a path to each layer, by type and state, (L + 1, T, states).

    A state is the use of the counted limits.

    Parameters
    ----------
    first, after, kind, weight
        Arcs by rising `after`, shape (K,).
    place, size, units
        The digit of the state that an arc increases: its place value, its number of values, and the
        increase; shape (K,).
    """
    arrival = np.full((layers + 1, kinds, states), np.inf)
    for t in range(kinds):
        arrival[0, t, 0] = 0.0
    ending, column = np.empty((kinds, states)), np.empty(kinds)
    i = 0
    for layer in range(1, layers + 1):
        for t in range(kinds):
            for state in range(states):
                ending[t, state] = np.inf
        while i < len(after) and after[i] == layer:
            source, target = arrival[first[i], kind[i]], ending[kind[i]]
            shift, room = place[i] * units[i], place[i] * (size[i] - units[i])
            # States in which the digit can be increased come in runs of `room`.
            for run in range(0, states, place[i] * size[i]):
                for state in range(run, run + room):
                    target[state + shift] = min(target[state + shift], source[state] + weight[i])
            i += 1
        for state in range(states):
            for t in range(kinds):
                column[t] = ending[t, state]
            _neighbour_minima(column, alternating)
            for t in range(kinds):
                arrival[layer, t, state] = column[t]
    return arrival


@compiled
def paths_through_arcs(
    first: Ints,
    after: Ints,
    kind: Ints,
    weight: Floats,
    place: Ints,
    size: Ints,
    units: Ints,
    arrival: Floats,
    left: Floats,
) -> Floats:
    """Return the minimum weight of a complete path through each arc, shape (K,).

    Parameters
    ----------
    arrival, left
        Least weights up to a layer by units used, and from it on by units left, (L + 1, T, states).
    """
    last, result = arrival.shape[2] - 1, np.empty(len(weight))
    for i in range(len(weight)):
        before, beyond, best = arrival[first[i], kind[i]], left[after[i], kind[i]], np.inf
        shift, room = place[i] * units[i], place[i] * (size[i] - units[i])
        for run in range(0, last + 1, place[i] * size[i]):
            for state in range(run, run + room):
                # The last state, with all units left, less the units used.
                best = min(best, before[state] + beyond[last - shift - state])
        result[i] = best + weight[i]
    return result


@compiled
def extended_labels(
    labels: Floats,
    kind: int,
    use: Floats,
    cost: float,
    alternating: bool,
    capacity: Floats,
    weights: Floats,
    vectors: Floats,
    places: Ints,
    full: Ints,
    most: Floats,
    left: Floats,
) -> tuple[Floats, int]:
    """Return the extensions of labels by an arc that no bound prunes, and the number of bounds evaluated.

    Parameters
    ----------
    labels
        Rows of the type of the last stage, the consumption of each limit and the cost, shape (n, R + 2).
    kind, use, cost
        Type, consumption and cost of the arc; `use` has shape (R,).
    weights, vectors, places, full, most
        For each bound: the weight of costs, prices and place values of the limits, the index in `left` of the
        state with nothing used, and its maximum; shapes (M,), (M, R), (M, R), (M,), (M,).
    left
        Least weights of the rest of a path, shape (S,).
    """
    limits, count, work = len(capacity), 0, 0
    result = np.empty(labels.shape)
    for i in range(len(labels)):
        if alternating and labels[i, 0] == kind:
            continue
        fits = True
        for r in range(limits):
            result[count, r + 1] = labels[i, r + 1] + use[r]
            fits = fits and result[count, r + 1] <= capacity[r]
        result[count, 0], result[count, limits + 1] = kind, labels[i, limits + 1] + cost
        bound = 0
        while fits and bound < len(weights):
            work += 1
            value, state = weights[bound] * result[count, limits + 1], full[bound]
            for r in range(limits):
                value += vectors[bound, r] * result[count, r + 1]
                state -= places[bound, r] * int(result[count, r + 1])
            fits = value + left[state] <= most[bound]
            bound += 1
        if fits:
            count += 1
    return result[:count].copy(), work
