"""Compiled loops of the check over all segments: their parts, their least costs, and shortest paths of them.

Importing this module compiles them, or loads what was compiled before. They are separate from those of the
solvers, so that no error is common to both. Sums and quotients are rounded as written: without `fastmath`
the compiler may not reorder them, and it does not fuse a product into a sum.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, types

from ....instances.common.arrays import Floats, Ints

UNDERESTIMATE = 1e-9
"""Units are first underestimated by this part, then corrected by the very time that counts."""

F1, F2, F3 = types.float64[::1], types.float64[:, ::1], types.float64[:, :, ::1]
I1 = types.int64[::1]
F, B, N = types.float64, types.boolean, types.int64
PARTS = (F1, F1, F1, F1)


@njit(types.Tuple((I1, I1, I1, *PARTS))(F3, F1, F1, F1), cache=True)
def derive(
    own: Floats, memory: Floats, room: Floats, received: Floats
) -> tuple[Ints, Ints, Ints, Floats, Floats, Floats, Floats]:
    """Return first and last layer, type and the four parts of every segment that a unit can hold.

    Parameters
    ----------
    own
        S, A, S', A' of each layer on each type, shape (L, T, 4).
    memory, room
        Memory of each layer, shape (L,), and of a unit of each type, shape (T,) [GiB].
    received
        D for a stage that begins at each layer, shape (L,) [s].
    """
    layers, hardware = own.shape[0], own.shape[1]
    most = layers * (layers + 1) // 2 * hardware
    firsts, lasts, unit_types = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    serial, parallel, comm_serial, comm_parallel = (
        np.empty(most),
        np.empty(most),
        np.empty(most),
        np.empty(most),
    )
    sums, held = np.zeros((hardware, layers, 4)), np.zeros(layers)
    i = 0
    for last in range(layers):
        for first in range(last + 1):
            held[first] += memory[last]
        for t in range(hardware):
            for first in range(last + 1):
                for part in range(4):
                    sums[t, first, part] += own[last, t, part]
                # A layer that a type cannot run makes S of every longer segment infinite too.
                if math.isinf(sums[t, first, 0]) or held[first] > room[t]:
                    continue
                firsts[i], lasts[i], unit_types[i] = first, last, t
                serial[i], parallel[i], comm_serial[i] = (
                    sums[t, first, 0],
                    sums[t, first, 1],
                    sums[t, first, 2],
                )
                comm_parallel[i] = sums[t, first, 3] + received[first]
                i += 1
    return (
        firsts[:i],
        lasts[:i],
        unit_types[:i],
        serial[:i],
        parallel[:i],
        comm_serial[:i],
        comm_parallel[:i],
    )


@njit(inline="always", error_model="numpy")
def _time_s(serial: float, parallel: float, comm_serial: float, comm_parallel: float, units: float) -> float:
    compute, communication = serial + parallel / units, comm_serial + comm_parallel / units
    return compute if compute >= communication else communication


@njit(types.Tuple((F1, F1))(I1, *PARTS, F1, F1, F, F, B), cache=True, error_model="numpy")
def least(
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
) -> tuple[Floats, Floats]:
    """Return a lower bound on the units of segments, k(high), and their least cost, in [low, high].

    Parameters
    ----------
    limit, rate
        Units, and κ·π, of each type.

    Returns
    -------
    units, cost
        Shape (n,); infinite cost, and one unit, where no units suffice.
    """
    units, cost = np.ones(len(serial)), np.full(len(serial), np.inf)
    # Where S is all of τ but rounding, the quotient must stay an underestimate: its divisor grows.
    tiny = max(1e-15 * high, 1e-300)
    for i in range(len(serial)):
        s, a, comm_s, comm_a = serial[i], parallel[i], comm_serial[i], comm_parallel[i]
        if s > high or comm_s > high:
            continue
        quotient = max(a / (high - s + tiny), comm_a / (high - comm_s + tiny))
        need = max(np.ceil(quotient * (1 - UNDERESTIMATE)), 1.0)
        time = _time_s(s, a, comm_s, comm_a, need)
        # One more unit only where these are shown to be too slow.
        for _ in range(2):
            if time <= high:
                break
            need += 1.0
            time = _time_s(s, a, comm_s, comm_a, need)
        if need <= limit[unit_type[i]]:
            units[i] = need
            cost[i] = rate[unit_type[i]] * need * max(time, low) if counts_cost else 0.0
    return units, cost


@njit(inline="always")
def _neighbours(best: Floats, alternating: bool, result: Floats) -> None:
    """Set for each type the least over the types that may be its neighbour."""
    first, second, cheapest = np.inf, np.inf, -1
    for t in range(len(best)):
        if best[t] < first:
            first, second, cheapest = best[t], first, t
        elif best[t] < second:
            second = best[t]
    for t in range(len(best)):
        # Every type but the cheapest may follow the cheapest; that one follows the second cheapest.
        result[t] = second if alternating and t == cheapest else first


@njit(types.Tuple((F, F2))(I1, I1, I1, F1, N, N, B), cache=True)
def forward(
    first: Ints,
    last: Ints,
    unit_type: Ints,
    weight: Floats,
    layers: int,
    hardware: int,
    alternating: bool,
) -> tuple[float, Floats]:
    """Return the least weight of a path of all layers, and of one that ends before each layer.

    Parameters
    ----------
    first, last, unit_type, weight
        Of segments by rising last layer, shape (n,); infinite weight where they cannot be used.

    Returns
    -------
    shortest, arrival
        `arrival` is of paths that may go on with a type, shape (L + 1, T).
    """
    arrival = np.full((layers + 1, hardware), np.inf)
    arrival[0] = 0.0
    ending, shortest, i = np.empty(hardware), np.inf, 0
    for layer in range(layers):
        ending[:] = np.inf
        while i < len(last) and last[i] == layer:
            # Segments of one type stand together, and their minimum stays in a register.
            t, best = unit_type[i], np.inf
            while i < len(last) and last[i] == layer and unit_type[i] == t:
                best = min(best, weight[i] + arrival[first[i], t])
                i += 1
            ending[t] = best
        shortest = ending.min()
        _neighbours(ending, alternating, arrival[layer + 1])
    return shortest, arrival


@njit(F1(I1, I1, I1, F1, F2, B), cache=True)
def through(
    first: Ints, last: Ints, unit_type: Ints, weight: Floats, arrival: Floats, alternating: bool
) -> Floats:
    """Return the least weight of a path through each segment, shape (n,); the rest is as in `forward`."""
    layers, hardware = arrival.shape[0] - 1, arrival.shape[1]
    # `beginning` takes up the ways from each layer on, until the last layers before it are done.
    beginning = np.full((layers, hardware), np.inf)
    remaining = np.full((layers + 1, hardware), np.inf)
    remaining[layers] = 0.0
    result, i = np.empty(len(last)), len(last) - 1
    for layer in range(layers, 0, -1):
        if layer < layers:
            _neighbours(beginning[layer], alternating, remaining[layer])
        while i >= 0 and last[i] == layer - 1:
            f, t = first[i], unit_type[i]
            beginning[f, t] = min(beginning[f, t], weight[i] + remaining[layer, t])
            result[i] = arrival[f, t] + remaining[layer, t] + weight[i]
            i -= 1
    return result
