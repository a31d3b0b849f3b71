"""Compiled loops over all segments: fewest units, least costs in an interval, and shortest paths.

The check has loops of its own. Without `fastmath` the compiler rounds every sum and quotient as written.
Arrays are written entry by entry, for the compiler takes seconds for a slice.

Shortest paths over (layer, type) are computed for many weightings of the segments at once. A path is a
sequence of segments, each beginning where the one before ends. Where neighbours have to differ in type, a
segment follows the cheapest path of any other type to its first layer, so that two numbers a layer, the
cheapest and the second cheapest type, carry the dynamic program: O(L²T) for a weighting.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...formulations.common.clock import check_time
from ...formulations.common.compiled import compiled, compiled_without_arrays
from ...formulations.staging.stages import MAX_UNITS, StageTable
from ...instances.common.arrays import Floats, Ints

NEAR_INTEGER = 1e-9
"""Relative distance of A/(τ − S) to an integer below which rounding may decide."""
SMALL_REMAINDER = 1e-5
"""Where τ − S is this small beside τ, the difference itself is imprecise."""
NO_REMAINDER = 1e-15
"""Where τ − S is this small beside τ, it has no correct digit."""
MAX_STEPS = 3
"""Corrections by one unit before a segment is searched by bisection."""


@compiled_without_arrays
def _time_s(serial: float, parallel: float, comm_serial: float, comm_parallel: float, units: float) -> float:
    compute, communication = serial + parallel / units, comm_serial + comm_parallel / units
    return compute if compute >= communication else communication


@compiled_without_arrays
def _corrected_units(
    serial: float, parallel: float, comm_serial: float, comm_parallel: float, tau: float, guess: float
) -> float:
    """Return the fewest units of a stage to be as fast as `tau`: steps from a guess, else bisection."""
    for _ in range(MAX_STEPS):
        if _time_s(serial, parallel, comm_serial, comm_parallel, guess) > tau:
            guess += 1.0
        elif guess > 1 and _time_s(serial, parallel, comm_serial, comm_parallel, guess - 1.0) <= tau:
            guess -= 1.0
        else:
            return guess
    low, high = 0, MAX_UNITS + 1  # ET(low) > τ; ET(high) ≤ τ, or there is none
    while high - low > 1:
        middle = (low + high) // 2
        if _time_s(serial, parallel, comm_serial, comm_parallel, float(middle)) <= tau:
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
def _fewest(
    serial: float, parallel: float, comm_serial: float, comm_parallel: float, tau: float, limit: float
) -> float:
    """Return the smallest k ≥ 1 with stage time ET(k) ≤ τ, infinite where there is none within the limit."""
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
        units = _corrected_units(
            serial, parallel, comm_serial, comm_parallel, tau, min(units, float(MAX_UNITS))
        )
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
            units[row, i] = _fewest(
                serial[i], parallel[i], comm_serial[i], comm_parallel[i], tau[row], limit[i]
            )


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
    doubtful: NDArray[np.bool_],
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
                units[i] = _fewest(parts[0], parts[1], parts[2], parts[3], high, limit[i])
                cost[i] = _time_s(parts[0], parts[1], parts[2], parts[3], units[i])
    for i in range(count):
        able = (units[i] <= limit[i]) & (serial[i] <= high) & (comm_serial[i] <= high)
        paid = rate[i] * units[i] * max(low, cost[i])
        units[i], cost[i] = units[i] if able else 1.0, paid if able else np.inf


@compiled
def least_cost_from(rate: Floats, units: Floats, cost: Floats, low: float) -> Floats:
    """Return each stage's least cost in USD for stage times from `low` on in an interval, shape (n,)."""
    result = np.empty(len(cost))
    for i in range(len(cost)):
        result[i] = max(cost[i], rate[i] * low * units[i])
    return result


@compiled
def _least_of_neighbours(least: Floats, alternating: bool) -> None:
    """Replace the weights of the types by the minimum over those allowed for a neighbouring stage."""
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
def forward(
    edges: Ints,
    first: Ints,
    unit_type: Ints,
    weight: Floats,
    alternating: bool,
    arrival: Floats,
    shortest: Floats,
) -> None:
    """Set the minimum weights of paths of stages from the first layer on; see `SegmentGraph.forward`.

    Parameters
    ----------
    edges
        The segments that end with layer l are `edges[l]` to `edges[l + 1]`, shape (L + 1,).
    arrival
        Output, shape (B, T, L + 1), infinite at first, but 0 before the first layer. By type first: the
        segments of one type are read one after another.
    """
    layers = len(edges) - 1
    for row in range(len(weight)):
        own, to = weight[row], arrival[row]
        for layer in range(layers):
            # Unsigned, so that indices are not checked for being negative.
            i, end = np.uint64(edges[layer]), np.uint64(edges[layer + 1])
            shortest[row] = np.inf
            while i < end:
                t, least = np.uint32(unit_type[i]), np.inf
                # One number collects the minimum of a type: no step waits for what the last one stored.
                while i < end and unit_type[i] == t:
                    least = min(least, own[i] + to[t, np.uint32(first[i])])
                    i += np.uint64(1)
                to[t, layer + 1] = least
                shortest[row] = min(shortest[row], least)
            _least_of_neighbours(to[:, layer + 1], alternating)


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

    See `SegmentGraph.backward` and `SegmentGraph.through`.

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
            _least_of_neighbours(least[:, after - 1], alternating)


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


class SegmentGraph:
    """Graph whose arcs between layers are candidate stages, with the rule on types of neighbours.

    Parameters
    ----------
    layers, types
        L and T.
    first, last, unit_type
        Of each segment, shape (n,), sorted by last layer, then type.
    alternating
        Whether neighbours have to differ in type.
    """

    def __init__(
        self, layers: int, types: int, first: Ints, last: Ints, unit_type: Ints, alternating: bool
    ) -> None:
        self.layers, self.types = layers, types
        self.first, self.last, self.unit_type = first, last, unit_type
        self.alternating = alternating

    def only(self, keep: NDArray[np.bool_] | Ints) -> SegmentGraph:
        """Return the graph with a subset of the candidate stages."""
        first, last, unit_type = self.first[keep], self.last[keep], self.unit_type[keep]
        return SegmentGraph(self.layers, self.types, first, last, unit_type, self.alternating)

    @cached_property
    def _arcs(self) -> tuple[Ints, Ints, Ints]:
        """Offsets of the stages by last layer, (L + 1,), and first layer and type of each stage, (n,)."""
        edges = np.searchsorted(self.last, np.arange(self.layers + 1))
        return edges, np.ascontiguousarray(self.first), np.ascontiguousarray(self.unit_type)

    def forward(self, weight: Floats) -> tuple[Floats, Floats]:
        """Return the minimum weights of paths of stages from the first layer on, for B weightings.

        Parameters
        ----------
        weight
            Of each segment, shape (B, n), infinite where it cannot be used.

        Returns
        -------
        shortest, arrival
            Least weight of a path of all layers, shape (B,), and, shape (B, T, L + 1), of one that ends
            before layer p and that a segment of type t may follow.
        """
        check_time()
        arrival = np.full((len(weight), self.types, self.layers + 1), np.inf)
        arrival[:, :, 0] = 0.0
        shortest = np.empty(len(weight))
        forward(*self._arcs, weight, self.alternating, arrival, shortest)
        return shortest, arrival

    def backward(self, weight: Floats) -> Floats:
        """Return the minimum weight of a path from layer p on that may follow a stage of type t.

        Shape (B, L + 1, T); `weight` is as in `forward`.
        """
        arrival = np.zeros((len(weight), self.types, self.layers + 1))
        return self._backward(weight, arrival)[0].swapaxes(1, 2)

    def through(self, weight: Floats, arrival: Floats) -> Floats:
        """Return the minimum weight of a path of all layers through each stage, (B, n).

        It serves reduced-cost fixing.
        """
        return self._backward(weight, arrival)[1]

    def _backward(self, weight: Floats, arrival: Floats) -> tuple[Floats, Floats]:
        check_time()
        rest, through = np.full_like(arrival, np.inf), np.empty_like(weight)
        rest[:, :, -1] = 0.0
        backward(*self._arcs, weight, arrival, self.alternating, rest, through)
        return rest, through

    def cheapest(self, weight: Floats, arrival: Floats) -> Ints:
        """Return the indices, in order, of the stages of a path of minimum weight over all layers.

        Parameters
        ----------
        weight, arrival
            Of one weighting, shapes (n,) and (T, L + 1); there has to be a path.
        """
        path: Ints = cheapest_path(*self._arcs, weight, arrival, self.alternating)
        return path


@dataclass(frozen=True)
class SegmentTimes:
    """Time parameters S, A, S', A' of candidate stages, shape (n,), and limits on units of their types."""

    serial: Floats
    parallel: Floats
    comm_serial: Floats
    comm_parallel: Floats
    limit: Floats

    @staticmethod
    def of(table: StageTable, segments: Ints, unit_type: Ints) -> SegmentTimes:
        """Return the time parameters of stages by their positions in the stage table and their types."""
        return SegmentTimes(
            table.serial[segments],
            table.parallel[segments],
            table.comm_serial[segments],
            table.comm_parallel[segments],
            np.minimum(table.limit, MAX_UNITS)[unit_type],
        )

    @property
    def _columns(self) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        return self.serial, self.parallel, self.comm_serial, self.comm_parallel, self.limit

    def only(self, keep: NDArray[np.bool_] | NDArray[np.int64] | slice) -> SegmentTimes:
        """Return the time parameters of a subset of the candidate stages."""
        return SegmentTimes(*(column[keep] for column in self._columns))

    def time_s(self, units: Floats) -> Floats:
        """Return the stage times ET in seconds for `units` of shape (n,) or (B, n), possibly infinite."""
        compute = self.parallel / units
        compute += self.serial
        communication = self.comm_parallel / units
        communication += self.comm_serial
        return np.maximum(compute, communication, out=compute)

    def fewest_units(self, time_s: Floats) -> Floats:
        """Return the smallest k ≥ 1 with ET(k) ≤ τ of each stage, infinite where none is within the limit.

        The ceiling of A/(τ − S) is one too many or too few at many exact breakpoints, so it is corrected
        by the very time that counts.

        Parameters
        ----------
        time_s
            τ, shape (B,).

        Returns
        -------
        units
            Shape (B, n).
        """
        check_time()
        units = np.empty((len(time_s), len(self.serial)))
        fewest_units(*self._columns, time_s, units)
        return units

    def least_cost(self, rate: Floats, low: float, high: float) -> tuple[Floats, Floats]:
        """Return fewest units k(high) and least cost in USD of each stage in an interval of stage times.

        Parameters
        ----------
        rate
            USD per second of stage time and unit, shape (n,).

        Returns
        -------
        units, cost
            Shape (n,); infinite cost, and one unit, where no units suffice.
        """
        check_time()
        units, cost, doubtful = (np.empty(len(self.serial), kind) for kind in (float, float, bool))
        least_cost(*self._columns, rate, low, high, doubtful, units, cost)
        return units, cost
