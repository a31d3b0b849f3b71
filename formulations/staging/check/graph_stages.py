"""Independent stages of a graph for the check, and the proof that limited devices allow no faster plan.

A stage J − I is enumerated by removing groups from the larger ideal J, in falling order. The tensors that it
sends beyond J are cut however many groups it has, so that computing and sending bound all larger stages with
the same end. Parts are rounded down, so that no stage is excluded as too slow. Where stages relay, a stage
transfers what crosses its two ends.

The proof is a dynamic programme from all groups downwards. Its states are ideals with the units of each type
that the stages after them use, each stage with the fewest units that are fast enough. If the empty ideal is
not reached within the limits, there is no plan as fast. The only input from a solver is the stage time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....instances.common.arrays import Floats, Ints, narrow
from ....instances.common.errors import TooLargeError
from ....instances.staging.instance import StagingInstance
from ...common.clock import check_time
from ...common.compiled import compiled
from ...common.objective import loosened
from ..stages import MAX_SEGMENTS, MAX_UNITS
from .graph_order import Bools, GroupOrder, derive_ideals
from .interval_bounds import Segments

ROUNDING_FACTOR = 1 - 1e-12
"""Factor on sums of times, as the order of addition may differ elsewhere."""
MAX_STAGES = 4_000_000
CHECK_INTERVAL = 64
"""Number of ideals between two checks of the time limit."""
IDEALS_PER_BLOCK = 4096
"""Number of ideals whose tensors are counted in one matrix product."""


class DerivedGraph(NamedTuple):
    """A graph of layers as arrays; ideals (down-sets) are numbered by rising size from the empty one, 0.

    Attributes
    ----------
    inside
        Whether an ideal has a group, shape (I, G).
    link_start, group, smaller
        Ideal i without group[e] is ideal smaller[e], for e from link_start[i] to link_start[i + 1] - 1, by
        falling group.
    parts, memory
        Parts and memory of each group, shapes (G, T, 4) and (G,).
    size
        Number of groups that a tensor touches, shape (H,).
    own_start, own
        The tensors that touch group g are own[own_start[g]:own_start[g + 1]].
    seconds
        Transfer time of each tensor on each type, shape (H, T).
    crossing
        Where stages relay: seconds of the tensors cut by each ideal on each type, shape (I, T), and no tensor
        is listed above; else zeros.
    drift
        Bound on the rounding error of adding and subtracting seconds on each type, shape (T,).
    room, units
        Memory of a unit of each type, and units that a stage may have, shape (T,).
    adds_up
        Whether computing and communicating add up.
    """

    inside: NDArray[np.bool_]
    link_start: Ints
    group: Ints
    smaller: Ints
    parts: Floats
    memory: Floats
    size: Ints
    own_start: Ints
    own: Ints
    seconds: Floats
    crossing: Floats
    drift: Floats
    room: Floats
    units: Floats
    adds_up: bool


def derive_graph(instance: StagingInstance) -> DerivedGraph:
    """Return the graph of an instance as arrays: groups of layers, ideals (down-sets) and tensors.

    Raises
    ------
    TooLargeError
        If it has too many ideals.
    """
    order = GroupOrder(instance)
    below = derive_ideals(order)
    count = len(below.sets)
    groups = [order.groups[number] for number in below.groups]
    length = (len(groups) + 7) // 8
    sets = b"".join(ideal.to_bytes(length, "little") for ideal in below.sets[::-1])
    octets = np.frombuffer(sets, dtype=np.uint8).reshape(count, length)
    inside = np.unpackbits(octets, axis=1, bitorder="little")[:, : len(groups)].astype(bool)
    links = np.array(below.links, dtype=np.int64).reshape(-1, 3)
    larger, group, smaller = count - 1 - links[:, 0], links[:, 1], count - 1 - links[:, 2]
    sequence = np.lexsort((-group, larger))
    place = {number: index for index, number in enumerate(below.groups)}
    tensor = np.zeros((len(order.tensors), len(groups)), dtype=bool)
    for row, (own, _) in zip(tensor, order.tensors, strict=True):
        row[[place[number] for number in own]] = True
    seconds = np.array([seconds for _, seconds in order.tensors]).reshape(-1, len(instance.types))
    crossing = np.zeros((count, len(instance.types)))
    if instance.stage_cost == "relay":
        crossing = _crossing_seconds(inside, tensor, seconds)
        tensor, seconds = tensor[:0], seconds[:0]
    touching, touched = np.nonzero(tensor.T)
    units = [
        float(min(MAX_UNITS, one.limit or MAX_UNITS, instance.most_units_per_stage or MAX_UNITS))
        for one in instance.types
    ]
    return DerivedGraph(
        inside,
        np.searchsorted(larger[sequence], np.arange(count + 1)),
        group[sequence],
        smaller[sequence],
        np.array([one.parts for one in groups]),
        np.array([one.memory_gib for one in groups]),
        tensor.sum(axis=1),
        np.searchsorted(touching, np.arange(len(groups) + 1)),
        touched,
        seconds,
        crossing,
        1e-13 * seconds.sum(axis=0),
        np.array([math.inf if t.memory_gib is None else loosened(t.memory_gib) for t in instance.types])
        * (1 + 1e-12),
        np.array(units),
        instance.stage_cost == "sum",
    )


def _crossing_seconds(inside: Bools, tensor: Bools, seconds: Floats) -> Floats:
    """Return the total transfer time of the tensors that each ideal cuts, in s, shape (I, T)."""
    blocks, touched = [], tensor.astype(np.float32).T
    for part in np.array_split(inside, len(inside) // IDEALS_PER_BLOCK + 1):
        check_time()
        own = part.astype(np.float32) @ touched
        blocks.append(((own > 0) & (own < touched.sum(axis=0))) @ seconds)
    return np.concatenate(blocks)


@compiled
def _outside_tensors(graph: DerivedGraph, end: int) -> NDArray[np.bool_]:
    """Return a mask of the tensors that touch a group of layers outside an ideal, shape (H,)."""
    beyond = np.zeros(len(graph.seconds), dtype=np.bool_)
    for g in range(len(graph.memory)):
        if not graph.inside[end, g]:
            for at in range(graph.own_start[g], graph.own_start[g + 1]):
                beyond[graph.own[at]] = True
    return beyond


@compiled
def _remove_group(
    graph: DerivedGraph,
    level: int,
    g: int,
    touched: Ints,
    beyond: NDArray[np.bool_],
    possible: NDArray[np.bool_],
    sums: Floats,
    cut: Floats,
    sent: Floats,
) -> None:
    """Add a group to the stage being enumerated: its times, and the tensors now cut and sent.

    Only types on which the stage without the group is possible are updated.
    """
    # Loops over the few types avoid the objects of slices.
    types = len(graph.room)
    for t in range(types):
        if possible[level - 1, t]:
            cut[level, t], sent[level, t] = cut[level - 1, t], sent[level - 1, t]
            for part in range(4):
                sums[level, t, part] = sums[level - 1, t, part] + graph.parts[g, t, part]
    for at in range(graph.own_start[g], graph.own_start[g + 1]):
        h = graph.own[at]
        touched[h] += 1
        first, last = touched[h] == 1, touched[h] == graph.size[h]
        if first or last:
            for t in range(types):
                if possible[level - 1, t]:
                    if first:
                        cut[level, t] += graph.seconds[h, t]
                    if first and beyond[h]:
                        sent[level, t] += graph.seconds[h, t]
                    if last:
                        cut[level, t] -= graph.seconds[h, t]


@compiled
def _restore_group(graph: DerivedGraph, g: int, touched: Ints) -> None:
    for at in range(graph.own_start[g], graph.own_start[g + 1]):
        touched[graph.own[at]] -= 1


@compiled
def _is_fast_enough(computing: float, communicating: float, adds_up: bool, slowest: float) -> bool:
    """Return whether a stage takes at most `slowest` seconds, with a margin for rounding."""
    time = computing + communicating if adds_up else max(computing, communicating)
    return bool(time * (1 - 1e-12) <= slowest)


@compiled
def stages_ending_at(
    graph: DerivedGraph, end: int, slowest: float, start: Ints, kind: Ints, parts: Floats
) -> int:
    """Write the stages that end with an ideal and take at most `slowest` seconds; return their number.

    Parameters
    ----------
    start, kind, parts
        Smaller ideal, type, and S, A, S' and A' of each stage, written from the first row on.
    """
    groups, types = len(graph.memory), len(graph.room)
    beyond, touched = _outside_tensors(graph, end), np.zeros(len(graph.size), dtype=np.int64)
    # By level, the number of groups taken off: the ideal, its next link, the group taken off last, and sums.
    here, link = np.zeros(groups + 1, dtype=np.int64), np.zeros(groups + 1, dtype=np.int64)
    off = np.full(groups + 1, groups, dtype=np.int64)
    memory, sums = np.zeros(groups + 1), np.zeros((groups + 1, types, 4))
    cut, sent = np.zeros((groups + 1, types)), np.zeros((groups + 1, types))
    # A stage too large or too slow on a type stays so with more groups.
    possible = np.ones((groups + 1, types), dtype=np.bool_)
    for t in range(types):
        sent[0, t] = graph.crossing[end, t]
    here[0], link[0], share = end, graph.link_start[end], 1 / graph.units
    level, written = 0, 0
    while level >= 0:
        at = link[level]
        while at < graph.link_start[here[level] + 1] and graph.group[at] >= off[level]:
            at += 1
        link[level] = at + 1
        if at >= graph.link_start[here[level] + 1]:
            if level > 0:
                _restore_group(graph, off[level], touched)
            level -= 1
            continue
        level, g, to = level + 1, graph.group[at], graph.smaller[at]
        here[level], off[level], link[level] = to, g, graph.link_start[to]
        memory[level] = memory[level - 1] + graph.memory[g]
        _remove_group(graph, level, g, touched, beyond, possible, sums, cut, sent)
        larger = False
        for t in range(types):
            possible[level, t] = possible[level - 1, t] and memory[level] <= graph.room[t]
            if not possible[level, t]:
                continue
            computing = sums[level, t, 0] + sums[level, t, 1] * share[t]
            communicating = sums[level, t, 2] + sums[level, t, 3] * share[t]
            least = communicating + sent[level, t] * share[t]
            if np.isinf(computing) or not _is_fast_enough(computing, least, graph.adds_up, slowest):
                possible[level, t] = False
                continue
            larger = True
            # Rounding in adding and subtracting may leave a little too much.
            transfers = max(0.0, cut[level, t] - graph.drift[t])
            transfers = max(transfers, graph.crossing[to, t], graph.crossing[end, t])
            if _is_fast_enough(computing, communicating + transfers * share[t], graph.adds_up, slowest):
                start[written], kind[written] = to, t
                for part in range(4):
                    parts[written, part] = sums[level, t, part]
                parts[written, 3] += transfers
                written += 1
        if not larger:
            link[level] = graph.link_start[to + 1]
    if graph.adds_up:
        # The sum counts as computing.
        parts[:written, 0] += parts[:written, 2]
        parts[:written, 1] += parts[:written, 3]
        parts[:written, 2:] = 0.0
    return written


def stage_buffers(graph: DerivedGraph) -> tuple[Ints, Ints, Floats]:
    """Return arrays for the stages that end with one ideal: smaller ideal, type, and parts of time."""
    most = len(graph.inside) * len(graph.room)
    return np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64), np.empty((most, 4))


def derive_graph_segments(instance: StagingInstance, slowest_s: float) -> Segments:
    """Return all stages of a graph of at most a stage time, as segments between two ideals.

    Raises
    ------
    TooLargeError
        If there are too many.
    """
    graph = derive_graph(instance)
    start, kind, parts = stage_buffers(graph)
    # With only one order of the groups stages are as the segments of a chain.
    most = MAX_SEGMENTS if len(graph.inside) == len(graph.memory) + 1 else MAX_STAGES
    columns, total = [], 0
    for end in range(1, len(graph.inside)):
        if end % CHECK_INTERVAL == 0:
            check_time()
        count = stages_ending_at(graph, end, slowest_s, start, kind, parts)
        total += count
        if total > most:
            raise TooLargeError(f"the graph has more than {most:,} possible stages")
        order = np.lexsort((start[:count], kind[:count]))
        columns.append(
            (start[:count][order], np.full(count, end - 1), kind[:count][order], *parts[:count][order].T)
        )
    first, last, unit_type, *rows = map(np.concatenate, zip(*columns, strict=True))
    price = np.array([one.price_usd_per_hour for one in instance.types])
    rows = [row * ROUNDING_FACTOR for row in rows]
    return Segments(
        len(graph.inside) - 1, price, graph.units, narrow(first), narrow(last), narrow(unit_type), *rows
    )


MAX_STATES = 60_000_000
"""Maximum number of states: ideals times combinations of used units, one byte each."""
MAX_TIME_S = 1e200
"""Finite substitute for an infinite stage time, for the product with 0 units."""
PROOF_CHECK_INTERVAL = 16
"""Number of ideals between two checks of the time limit, in the proof."""


def proves_no_faster_plan(instance: StagingInstance, slowest_s: float) -> bool:
    """Return whether it is proven that no plan has a stage time of at most `slowest_s`.

    False if the graph is too large for the proof.

    Raises
    ------
    TooLargeError
        If there are too many ideals.
    """
    limits = np.array([one.limit or 0 for one in instance.types])
    states = math.prod((limits + 1).tolist())
    graph = derive_graph(instance)
    ideals = len(graph.inside)
    if ideals * states > MAX_STATES:
        return False
    step = np.array([math.prod((limits[:t] + 1).tolist()) for t in range(len(limits))])
    used = np.array([np.arange(states) // s % (limit + 1) for s, limit in zip(step, limits, strict=True)])
    left = limits[:, None] - used
    needed, offered = _weighted_work(graph, left)
    reached = np.zeros((ideals, states), dtype=np.bool_)
    reached[-1, 0] = True
    room = stage_buffers(graph)
    for end in range(ideals - 1, 0, -1):
        if end % PROOF_CHECK_INTERVAL == 0:
            check_time()
        # A state is pruned if the units left cannot do the work before its ideal in the time.
        fits = (needed[:, end, None] <= min(slowest_s, MAX_TIME_S) * offered * (1 + 1e-9)).all(axis=0)
        reached[end] &= fits
        if reached[end].any():
            count = stages_ending_at(graph, end, slowest_s, *room)
            _mark_reached(graph, reached, left, step, end, slowest_s, count, *room)
    return not reached[0].any()


def _weighted_work(graph: DerivedGraph, left: Ints) -> tuple[Floats, Floats]:
    """Return the weighted work inside each ideal, and the weighted capacity of the devices left.

    With any weights y ≥ 0 of the types, stages of at most τ seconds on k_t units do Σ_b min_t y_t (S + A)_bt
    ≤ τ Σ_t y_t k_t. One weight vector for each type has its least times relative to every other type.
    """
    work = graph.parts[:, :, 0] + graph.parts[:, :, 1]
    needed, offered = [], []
    for own in range(work.shape[1]):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = work[:, own, None] / work
        ratio[~np.isfinite(ratio) | np.isinf(work)] = np.inf
        weights = ratio.min(axis=0)
        if not np.isfinite(weights).all():
            continue
        with np.errstate(invalid="ignore"):
            least = np.fmin.reduce(work * weights, axis=1)
        # A group that no type can run is in no stage.
        least[~np.isfinite(least)] = 0.0
        needed.append(graph.inside @ least)
        offered.append(weights @ left)
    ways = len(needed)
    return (
        np.array(needed).reshape(ways, len(graph.inside)),
        np.array(offered).reshape(ways, left.shape[1]),
    )


@compiled
def _mark_reached(
    graph: DerivedGraph,
    reached: NDArray[np.bool_],
    left: Ints,
    step: Ints,
    end: int,
    slowest: float,
    count: int,
    start: Ints,
    kind: Ints,
    parts: Floats,
) -> None:
    """Mark the states (ideal, devices used) that are reached by stages ending with an ideal."""
    here = np.flatnonzero(reached[end])
    for row in range(count):
        t = kind[row]
        serial, parallel, waiting, moved = parts[row, 0], parts[row, 1], parts[row, 2], parts[row, 3]
        units = 1
        while (
            max(serial + parallel / units, waiting + moved / units) * (1 - 1e-12) > slowest
            and units < graph.units[t]
        ):
            units += 1
        for state in here:
            if left[t, state] >= units:
                reached[start[row], state + units * step[t]] = True
