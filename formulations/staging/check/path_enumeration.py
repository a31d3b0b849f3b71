"""Implicit enumeration by the check: the proof that no path of stages within the limits is below a cutoff.

The remaining stages of an interval form a network, whose paths are the plans. A label holds the consumption
and cost of the stages so far, and the type of the last one (labels of a resource-constrained shortest path,
Irnich & Desaulniers 2005). A label is pruned where dual prices on the rest of the limits prove that it cannot
end below the cutoff, and of labels with equal consumption only the cheapest stays. Several price vectors
around the given one are tried on every label, and bounds that count the units of some limits exactly; any of
them may prune it. All comparisons leave a margin for rounding, on the side that keeps labels.

The exact bounds count the units of a few limits and put a price on the others. A path's state is its use of
the counted limits, so that a path beyond one of them does not exist. Only the other limits are relaxed, and
the bound of a path is at least that of the prices alone (state-space augmentation: Boland, Dethridge &
Dumitrescu 2006). Arcs on no path below the cutoff are left out, and with fewer arcs more limits can be
counted together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ....instances.common.arrays import Flags, Floats, Ints
from ...common.clock import time_is_up
from ...common.compiled import compiled
from ...common.enumeration import bound_multipliers, cheapest_states

ARC_COLUMNS = ("first", "after", "type", "cost")
"""The fields of `Network` that have an entry for each arc, beside the consumption."""


@dataclass(frozen=True)
class Network:
    """Segments with their minimum numbers of devices, as arcs from the first layer to the one after the last.

    The consumption of a path is within the capacity of each limit.

    Attributes
    ----------
    first, after, type
        First layer, the layer after the last, and type, shape (K,).
    cost
        Shape (K,).
    consumption
        Consumption of each limit, shape (R, K).
    types
        Number of types T where neighbours must differ in type; otherwise 0.
    capacity
        Capacity of each limit, shape (R,).
    """

    first: Ints
    after: Ints
    type: Ints
    cost: Floats
    consumption: Floats
    layers: int
    types: int
    capacity: Floats

    def __len__(self) -> int:
        return len(self.cost)

    @property
    def kind(self) -> Ints:
        """The hardware type of each arc; 0 for all arcs where neighbouring stages need not differ."""
        return self.type if self.types else np.zeros_like(self.type)

    def only(self, keep: Ints | Flags) -> Network:
        """Return the network with the given arcs only."""
        columns = {name: getattr(self, name)[keep] for name in ARC_COLUMNS}
        return replace(self, consumption=self.consumption[:, keep], **columns)

    def sorted(self) -> Network:
        """Return the network with its arcs sorted by the layer that they lead to."""
        return self.only(np.argsort(self.after, kind="stable"))

    def compact(self) -> Network:
        """Return the network without layers at which no arc begins or ends, layers renumbered."""
        layer = np.unique(np.concatenate([[0, self.layers], self.first, self.after]))
        first, after = np.searchsorted(layer, self.first), np.searchsorted(layer, self.after)
        return replace(self, first=first, after=after, layers=len(layer) - 1)

    def mirrored(self) -> Network:
        """Return the network with the direction of all arcs and the order of layers reversed."""
        return replace(self, first=self.layers - self.after, after=self.layers - self.first)


STATES_MARGIN = 1e-12
"""Rounding margin of a sum in the bounds by state, relative to the sum of absolute values."""
MAX_CELLS = (60_000, 400_000, 2_000_000)
"""Maximum number of layers times types times states, in successive rounds."""
MAX_STEPS = 10_000_000
"""Maximum number of arcs times states, some ten milliseconds of work."""
STEPS_OF_A_BOUND = 32
"""Number of steps that take as long as the bound of a label."""
REPEAT_SHARE = 0.8
"""Share of the arcs below which a round of bounds is repeated."""


@dataclass(frozen=True)
class CountedLimits:
    """A set of capacity constraints whose consumption is counted exactly in a state.

    Attributes
    ----------
    rows
        Indices of the limits; the digit of the first one has place value 1.
    prices
        Dual price of each limit, 0 where it is counted; shape (R,).
    places
        Place value of each limit's units in the state, 0 where they are not counted; shape (R,).
    sizes
        Number of values of each digit.
    cost_weight
        What a unit of cost weighs in the bound.
    """

    rows: tuple[int, ...]
    prices: Floats
    places: Ints
    sizes: tuple[int, ...]
    cost_weight: float = 1.0

    @property
    def states(self) -> int:
        """Number of states: the product of the numbers of values of the counted constraints."""
        return math.prod(self.sizes)


def reduced_network(network: Network, prices: Floats, cutoff: float) -> tuple[Network, int]:
    """Return the network without arcs on no feasible path below the cutoff, and the work done."""
    work = 0
    for most_cells in MAX_CELLS:
        before = math.inf
        while 0 < len(network) <= REPEAT_SHARE * before:
            before = len(network)
            for counting in counted_limit_groups(network, prices, most_cells):
                if time_is_up() or not len(network):
                    return network, work
                cells = (network.layers + 1) * max(1, network.types)
                work += (len(network) + cells) * counting.states // STEPS_OF_A_BOUND
                value = least_by_arc(network, counting)
                spare = float(counting.prices @ network.capacity)
                most = cutoff + spare + STATES_MARGIN * (abs(cutoff) + spare) + 1e-280
                network = network.only(value * (1 - STATES_MARGIN) <= most).compact()
    return network, work


def counted_limit_groups(
    network: Network, prices: Floats, cells: int = MAX_CELLS[-1]
) -> Iterator[CountedLimits]:
    """Yield groups of capacity constraints to count, such that an arc consumes at most one of each.

    Constraints of highest dual price come first.
    """
    kinds = max(1, network.types)
    most = min(cells // ((network.layers + 1) * kinds), MAX_STEPS // max(1, len(network)))
    consumption = network.consumption
    waiting = [
        row
        for row in np.argsort(-prices, kind="stable").tolist()
        if prices[row] > 0
        and network.capacity[row] < most
        and (consumption[row] == np.rint(consumption[row])).all()
    ]
    while waiting:
        places, rows, sizes = np.zeros(len(prices), dtype=np.int64), list[int](), list[int]()
        busy = np.zeros(len(network), dtype=bool)
        for row in waiting:
            size, own = int(network.capacity[row]) + 1, consumption[row] > 0
            if math.prod(sizes) * size <= most and not (busy & own).any():
                places[row] = math.prod(sizes)
                rows.append(row)
                sizes.append(size)
                busy |= own
        if not sizes:
            return
        yield CountedLimits(tuple(rows), np.where(places > 0, 0.0, prices), places, tuple(sizes))
        waiting = [row for row in waiting if not places[row]]


def remaining_by_state(network: Network, counting: CountedLimits) -> Floats:
    """Return the minimum weight from each layer on, after an arc of each type, by capacity left.

    Shape (L + 1, T, states); the arcs are sorted by the layer that they lead to.
    """
    backwards = _arrivals(network.mirrored().sorted(), counting)[::-1]
    by_digit = backwards.reshape(*backwards.shape[:2], *counting.sizes[::-1])
    # A path that is feasible with fewer units left is feasible with more.
    for axis in range(2, by_digit.ndim):
        by_digit = np.minimum.accumulate(by_digit, axis=axis)
    return np.ascontiguousarray(by_digit.reshape(backwards.shape))


def least_by_arc(network: Network, counting: CountedLimits) -> Floats:
    """Return the minimum weight of a feasible path through each arc, shape (K,)."""
    to, left = _arrivals(network, counting), remaining_by_state(network, counting)
    result: Floats = paths_through_arcs(*_arc_columns(network, counting), to, left)
    return result


def _arrivals(network: Network, counting: CountedLimits) -> Floats:
    shape = network.layers, max(1, network.types), counting.states, bool(network.types)
    result: Floats = arrivals_by_state(*_arc_columns(network, counting), *shape)
    return result


def _arc_columns(
    network: Network, counting: CountedLimits
) -> tuple[Ints, Ints, Ints, Floats, Ints, Ints, Ints]:
    """Return ends, type and weight of each arc, and how it changes the state.

    Of each run of states, the first ones in which a digit can be increased, and by how much the state rises.
    """
    run, shift = np.full(len(network), counting.states), np.zeros(len(network), dtype=np.int64)
    for row, values in zip(counting.rows, counting.sizes, strict=True):
        consumed = network.consumption[row]
        own = consumed > 0
        run[own] = counting.places[row] * values
        # An arc that exceeds the limit alone can begin in no state.
        shift[own] = counting.places[row] * np.minimum(consumed[own], values)
    weight = counting.cost_weight * network.cost + counting.prices @ network.consumption
    return network.first, network.after, network.kind, weight, run, run - shift, shift


MAX_ARCS = 20_000
"""Maximum number of arcs of a network to which bounds are applied."""
MAX_ENUMERATED_ARCS = 4000
"""Maximum number of arcs, after fixing by bounds, of a network that is enumerated."""
MAX_LABELS = 1_000_000
"""Maximum number of labels at one layer before the enumeration gives up."""
MAX_WORK = 120_000_000
"""Maximum number of bounds evaluated for one interval, a second or two of work."""
MAX_COUNTED_GROUPS, CELLS_PER_ARC = 4, 2000
"""Maximum number of groups of counted limits for the bounds of labels, and of cells per arc in each."""
MAX_DOMINATING = 48
"""Number of labels of a type whose dominance over all others is tested."""
ROUNDING_MARGIN = 1e-12
"""Rounding margin of a sum, relative to the sum of absolute values."""


def no_path_below(
    network: Network, prices: Floats, cutoff: float, most_work: int = MAX_WORK
) -> tuple[bool | None, int]:
    """Return whether it is proven that no feasible path costs less than the cutoff, and the work done.

    Parameters
    ----------
    prices
        Dual prices y ≥ 0, shape (R,); any are valid, good ones make it fast.
    cutoff
        Infinite to ask whether any path within the limits exists.

    Returns
    -------
    answer, work
        True if it is proven, False if there is such a path within rounding, None if the enumeration gave up.
    """
    if len(network) > MAX_ARCS:
        return None, 0
    if math.isinf(cutoff):
        # Where costs do not matter, more labels are equal without them.
        network, cutoff = replace(network, cost=np.zeros(len(network))), 0.0
    network, work = reduced_network(network.sorted().compact(), prices, cutoff)
    if not len(network):
        return True, work
    if len(network) > MAX_ENUMERATED_ARCS:
        return None, work
    pruning = _Pruning(network, prices, cutoff)
    pruning.work = work
    order = np.argsort(network.first, kind="stable")
    edges = np.searchsorted(network.first[order], np.arange(network.layers + 1))
    # A label is a row: type of the last stage (-1: none), consumption of each limit, cost.
    waiting: list[list[Floats]] = [[] for _ in range(network.layers + 1)]
    waiting[0].append(np.concatenate([[-1.0], np.zeros(len(network.capacity) + 1)])[None])
    for layer in range(network.layers):
        if not waiting[layer]:
            continue
        labels = np.concatenate(waiting[layer])
        # Of labels of equal type and consumption only the cheapest stays.
        labels = np.column_stack(cheapest_states(labels[:, :-1], labels[:, -1]))
        labels = pruning.undominated(labels)
        waiting[layer] = []
        for arc in order[edges[layer] : edges[layer + 1]].tolist():
            if time_is_up():
                return None, pruning.work
            after, moved = int(network.after[arc]), pruning.extended(labels, arc)
            if len(moved):
                waiting[after].append(moved)
            if sum(map(len, waiting[after])) > MAX_LABELS or pruning.work > min(MAX_WORK, most_work):
                return None, pruning.work
    return not waiting[network.layers], pruning.work


class _Pruning:
    """Prunes labels by bounds: for each (w, y), w·cost + y·consumption plus the minimum rest of a path.

    Where units are counted, the least rest depends on the units left.
    """

    def __init__(self, network: Network, prices: Floats, cutoff: float) -> None:
        self.network = network
        multipliers, nothing = bound_multipliers(prices), np.zeros(len(prices), dtype=np.int64)
        bounds = [CountedLimits((), vector, nothing, (), w) for w, vector in zip(*multipliers, strict=True)]
        bounds = [bound for bound in bounds if bound.prices.any() or bound.cost_weight * network.cost.any()]
        cells = min(MAX_CELLS[-1], CELLS_PER_ARC * len(network))
        bounds += itertools.islice(counted_limit_groups(network, prices, cells), MAX_COUNTED_GROUPS)
        left = [remaining_by_state(network, bound) for bound in bounds]
        weights = np.array([bound.cost_weight for bound in bounds])
        vectors = np.array([bound.prices for bound in bounds])
        places = np.array([bound.places for bound in bounds])
        self.left = np.ascontiguousarray(np.concatenate(left, axis=2))
        self.full = np.cumsum([bound.states for bound in bounds]) - 1
        spare = vectors @ network.capacity
        most = weights * cutoff + spare
        self.most = most + ROUNDING_MARGIN * (np.abs(most) + spare) + 1e-280
        self.weights, self.vectors, self.places = weights, vectors, places
        self.capacity = network.capacity * (1 + ROUNDING_MARGIN)
        self.use = np.ascontiguousarray(network.consumption.T)
        self.kind = network.kind
        self.work = 0

    def undominated(self, labels: Floats) -> Floats:
        """Return the labels that no label of minimum priced cost and of the same type dominates."""
        if len(labels) < 2:
            return labels
        alive = np.ones(len(labels), dtype=bool)
        value = self.weights[0] * labels[:, -1] + labels[:, 1:-1] @ self.vectors[0]
        for unit_type in np.unique(labels[:, 0]).tolist():
            own = np.flatnonzero(labels[:, 0] == unit_type)
            # Labels of least priced cost dominate most others; comparing all pairs would cost too much.
            strongest = own[np.argsort(value[own], kind="stable")[:MAX_DOMINATING]]
            self.work += len(own) * len(strongest)
            for strong in strongest.tolist():
                if alive[strong]:
                    worse = (labels[own, 1:] >= labels[strong, 1:]).all(axis=1)
                    alive[own[worse]] = False
                    alive[strong] = True
        return labels[alive]

    def extended(self, labels: Floats, arc: int) -> Floats:
        """Return the extensions of labels by an arc that may still end below the cutoff."""
        network, kind = self.network, int(self.kind[arc])
        moved, work = extended_labels(
            labels,
            kind,
            self.use[arc],
            float(network.cost[arc]),
            network.types > 0,
            self.capacity,
            self.weights,
            self.vectors,
            self.places,
            self.full,
            self.most,
            self.left[int(network.after[arc]), kind],
        )
        self.work += int(work)
        result: Floats = moved
        return result


@compiled
def neighbour_minima(best: Floats, alternating: bool) -> None:
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
def arrivals_by_state(
    first: Ints,
    after: Ints,
    kind: Ints,
    weight: Floats,
    run: Ints,
    room: Ints,
    shift: Ints,
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
    run, room, shift
        Of every run of so many states an arc may begin in so many first ones, and it raises the state by so
        much; shape (K,).
    """
    arrival = np.full((layers + 1, kinds, states), np.inf)
    for t in range(kinds):
        arrival[0, t, 0] = 0.0
    i = 0
    for layer in range(1, layers + 1):
        while i < len(after) and after[i] == layer:
            source, target = arrival[first[i], kind[i]], arrival[layer, kind[i]]
            first_states, rise = room[i], shift[i]
            for start in range(0, states, run[i]):
                for state in range(start, start + first_states):
                    target[state + rise] = min(target[state + rise], source[state] + weight[i])
            i += 1
        for state in range(states):
            neighbour_minima(arrival[layer, :, state], alternating)
    return arrival


@compiled
def paths_through_arcs(
    first: Ints,
    after: Ints,
    kind: Ints,
    weight: Floats,
    run: Ints,
    room: Ints,
    shift: Ints,
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
        first_states, rest = room[i], last - shift[i]
        for start in range(0, last + 1, run[i]):
            for state in range(start, start + first_states):
                # The last state, with all units left, less the units used.
                best = min(best, before[state] + beyond[rest - state])
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
