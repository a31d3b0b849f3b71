"""The stages of a graph of layers: every stage between two ideals, and its times on every type.

Stages are enumerated one smaller ideal at a time, the inner loop of all solvers on graphs. From an ideal I
the supersets are reached by adding blocks in rising order, each once. Sums and cut tensors change by
the block that is added; a count for each tensor says whether a stage touches it in part. What a stage
receives from I stays cut however it grows, so that computing and receiving bound all larger stages. Where
stages relay, I and the larger ideal alone say what a stage receives and sends. Pairs are not kept here: a
graph of 35,000 ideals has hundreds of millions.

The table for the solvers has the stage times of every pair of ideals on every type. The ideals take the place
of the boundaries between the layers of a chain: a stage from ideal i to ideal j has `first` = i and `last` =
j - 1, and a plan is a path from ideal 0 to the last one. So the search for chains works on graphs too, as
long as the pairs can be stored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...instances.common.arrays import Flags, Floats, Ints, narrow
from ...instances.common.errors import TooLargeError
from ...instances.staging.instance import StagingInstance
from ..common.clock import check_time, until_time_limit
from ..common.compiled import compiled
from .graph_order import Blocks, Ideals
from .stages import MAX_SEGMENTS, StageTable, compiled_time_s, hardware_of

IDEALS_AT_ONCE = 4096
"""Number of ideals whose cut tensors are counted in one matrix product."""


class GraphArrays(NamedTuple):
    """Blocks of layers and ideals (down-sets) as arrays for compiled loops.

    Attributes
    ----------
    inside
        Whether an ideal has a block, shape (I, B).
    start, block, target
        As in `Ideals`.
    parts, memory
        Parts and memory of each block, shapes (B, T, 4) and (B,).
    room, most_units
        Memory of a unit of each type, and units that a stage may have, shape (T,).
    touching_start, touching
        The tensors of block b are touching[touching_start[b]:touching_start[b + 1]].
    touched
        Number of blocks of each tensor, shape (H,).
    transfer
        Seconds of each tensor on each type, shape (H, T); empty where stages relay.
    crossing
        Where stages relay: seconds of the tensors cut by each ideal on each type, shape (I, T); else zeros.
    adds_up
        Whether computing and communicating add up.
    """

    inside: Flags
    start: Ints
    block: Ints
    target: Ints
    parts: Floats
    memory: Floats
    room: Floats
    most_units: Floats
    touching_start: Ints
    touching: Ints
    touched: Ints
    transfer: Floats
    crossing: Floats
    adds_up: bool


class StageBuffers(NamedTuple):
    """Buffers for the stages from one ideal: the larger ideal, hardware type, and S, A, S', A' of each."""

    last: Ints
    type: Ints
    parts: Floats


def stage_buffers(problem: GraphArrays) -> StageBuffers:
    """Return buffers for the maximum possible number of stages that start from one ideal."""
    most = len(problem.inside) * len(problem.room)
    return StageBuffers(np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64), np.empty((most, 4)))


@compiled
def _touching_tensors(problem: GraphArrays, source: int) -> Flags:
    """Return a mask of the tensors that touch a block of layers in an ideal, shape (H,)."""
    begun = np.zeros(len(problem.transfer), dtype=np.bool_)
    for block in range(len(problem.memory)):
        if problem.inside[source, block]:
            for at in range(problem.touching_start[block], problem.touching_start[block + 1]):
                begun[problem.touching[at]] = True
    return begun


@compiled
def _add_block(
    problem: GraphArrays,
    depth: int,
    block: int,
    count: Ints,
    begun: Flags,
    alive: Flags,
    sums: Floats,
    cut: Floats,
    kept: Floats,
) -> None:
    """Add a block of layers to the stage being enumerated, on the types that are still possible.

    Updates its times, the tensors that the stage cuts, and those that all its extensions cut too.
    """
    # Loops over the few types avoid the objects of slices.
    types = len(problem.room)
    for t in range(types):
        if alive[depth - 1, t]:
            cut[depth, t], kept[depth, t] = cut[depth - 1, t], kept[depth - 1, t]
            for part in range(4):
                sums[depth, t, part] = sums[depth - 1, t, part] + problem.parts[block, t, part]
    for at in range(problem.touching_start[block], problem.touching_start[block + 1]):
        tensor = problem.touching[at]
        count[tensor] += 1
        first = count[tensor] == 1
        whole = count[tensor] == problem.touched[tensor]
        for t in range(types):
            if alive[depth - 1, t]:
                if first:
                    cut[depth, t] += problem.transfer[tensor, t]
                if first and begun[tensor]:
                    kept[depth, t] += problem.transfer[tensor, t]
                if whole:
                    cut[depth, t] -= problem.transfer[tensor, t]


@compiled
def stages_from(problem: GraphArrays, source: int, slowest: float, rows: StageBuffers) -> int:
    """Write the stages from one ideal that take at most `slowest` on all devices; return their number.

    Parameters
    ----------
    slowest
        The longest stage time of interest.
    """
    types, blocks = len(problem.room), len(problem.memory)
    count, begun = np.zeros(len(problem.transfer), dtype=np.int64), _touching_tensors(problem, source)
    # The stack: ideal, next edge, block added last, and the sums so far.
    ideal, edge = np.zeros(blocks + 1, dtype=np.int64), np.zeros(blocks + 1, dtype=np.int64)
    added = np.full(blocks + 1, -1, dtype=np.int64)
    memory, sums = np.zeros(blocks + 1), np.zeros((blocks + 1, types, 4))
    cut, kept = np.zeros((blocks + 1, types)), np.zeros((blocks + 1, types))
    # Where a stage is too large or too slow on a type, larger ones are too.
    alive = np.ones((blocks + 1, types), dtype=np.bool_)
    for t in range(types):
        kept[0, t] = problem.crossing[source, t]
    ideal[0], edge[0], share = source, problem.start[source], 1 / problem.most_units
    depth, written = 0, 0
    while depth >= 0:
        if edge[depth] == problem.start[ideal[depth] + 1]:
            if depth:
                for at in range(
                    problem.touching_start[added[depth]], problem.touching_start[added[depth] + 1]
                ):
                    count[problem.touching[at]] -= 1
            depth -= 1
            continue
        block, target = problem.block[edge[depth]], problem.target[edge[depth]]
        edge[depth] += 1
        if block <= added[depth]:
            continue
        depth += 1
        ideal[depth], edge[depth], added[depth] = target, problem.start[target], block
        memory[depth] = memory[depth - 1] + problem.memory[block]
        _add_block(problem, depth, block, count, begun, alive, sums, cut, kept)
        useful = False
        for t in range(types):
            alive[depth, t] = alive[depth - 1, t] and memory[depth] <= problem.room[t]
            if not alive[depth, t]:
                continue
            computing = sums[depth, t, 0] + sums[depth, t, 1] * share[t]
            communicating = sums[depth, t, 2] + (sums[depth, t, 3] + kept[depth, t]) * share[t]
            bound = computing + communicating if problem.adds_up else max(computing, communicating)
            # The margin covers rounding by which a sum exceeds that of a larger stage.
            alive[depth, t] = computing < np.inf and bound * (1 - 1e-12) <= slowest
            if not alive[depth, t]:
                continue
            useful = True
            transfers = max(cut[depth, t], problem.crossing[source, t], problem.crossing[target, t])
            serial, parallel, sent = sums[depth, t, 0], sums[depth, t, 1], sums[depth, t, 2]
            received = max(transfers, 0.0) + sums[depth, t, 3]
            if problem.adds_up:
                serial, parallel, sent, received = serial + sent, parallel + received, 0.0, 0.0
            parts = serial, parallel, sent, received
            if compiled_time_s(parts, problem.most_units[t]) <= slowest:
                rows.last[written], rows.type[written] = target, t
                for part in range(4):
                    rows.parts[written, part] = parts[part]
                written += 1
        if not useful:
            # No larger stage is possible either.
            edge[depth] = problem.start[target + 1]
    return written


MAX_STAGES = 3_000_000
"""Maximum number of stages of a graph; the arrays of a search take about 200 bytes for each."""


def graph_table(instance: StagingInstance, blocks: Blocks, ideals: Ideals, slowest_s: float) -> StageTable:
    """Return the table of a graph's stages that fit in memory and are fast enough on all devices.

    Raises
    ------
    TooLargeError
        If there are too many.
    """
    problem = graph_arrays(instance, blocks, ideals)
    # With only one order of the blocks the stages are as many as the segments of a chain.
    most = MAX_SEGMENTS if blocks.in_a_row else MAX_STAGES
    rows, columns, total = stage_buffers(problem), [], 0
    for source in until_time_limit(range(len(ideals) - 1)):
        count = stages_from(problem, source, slowest_s, rows)
        total += count
        if total > most:
            raise TooLargeError(
                f"the graph has {len(ideals):,} ideals and more than {most:,} possible stages; a tighter "
                "floor or fewer parallel branches make it smaller"
            )
        columns.append((np.full(count, source), *(own[:count].copy() for own in rows)))
    check_time()
    first, last, kind, parts = map(np.concatenate, zip(*columns, strict=True))
    # They come by rising smaller ideal.
    order = np.argsort(last * len(instance.types) + kind, kind="stable")
    places = narrow(first[order]), narrow(last[order] - 1), narrow(kind[order])
    return StageTable(len(ideals) - 1, *places, *parts[order].T.copy())


def graph_arrays(instance: StagingInstance, blocks: Blocks, ideals: Ideals) -> GraphArrays:
    """Return the blocks of layers and the ideals (down-sets) as arrays for compiled loops."""
    hardware, seconds = hardware_of(instance), blocks.transfer_s
    touches = np.zeros((len(blocks), len(blocks.tensors)), dtype=bool)
    for tensor, own in enumerate(blocks.tensors):
        touches[list(own), tensor] = True
    size = (len(blocks) + 7) // 8
    packed = b"".join(ideal.to_bytes(size, "little") for ideal in ideals.sets)
    octets = np.frombuffer(packed, dtype=np.uint8).reshape(-1, size)
    inside = np.unpackbits(octets, axis=1, count=len(blocks), bitorder="little").view(bool)
    crossing = np.zeros((len(ideals), len(instance.types)))
    if instance.stage_cost == "relay":
        crossing = _crossing_seconds(inside, touches, seconds)
        touches, seconds = touches[:, :0], seconds[:0]
    toucher, touching = np.nonzero(touches)
    parts = blocks.parts.copy()
    # An impossible part is infinite in S alone, so that no inf - inf can arise.
    parts[np.isinf(parts[:, :, 0]), 1:] = 0.0
    return GraphArrays(
        inside=inside,
        start=ideals.start,
        block=ideals.block,
        target=ideals.target,
        parts=parts,
        memory=blocks.memory_gib,
        room=hardware.room_gib,
        most_units=hardware.most,
        touching_start=np.searchsorted(toucher, np.arange(len(blocks) + 1)),
        touching=touching,
        touched=touches.sum(axis=0),
        transfer=seconds,
        crossing=crossing,
        adds_up=instance.stage_cost == "sum",
    )


def _crossing_seconds(inside: Flags, touches: Flags, seconds: Floats) -> Floats:
    """Return the transfer times [s] of the tensors that each ideal cuts, in all, shape (I, T).

    Each ideal has a separate sum without differences, so that no rounding error remains.
    """
    touched, crossing = touches.astype(np.float32), np.empty((len(inside), seconds.shape[1]))
    for start in range(0, len(inside), IDEALS_AT_ONCE):
        check_time()
        part = slice(start, start + IDEALS_AT_ONCE)
        count = inside[part].astype(np.float32) @ touched
        crossing[part] = ((count > 0) & (count < touched.sum(axis=0))) @ seconds
    return crossing


def weighted_work(work: Floats) -> tuple[list[Floats], list[Floats]]:
    """Return weights of the hardware types, shape (T,), and the least weighted work of each block, (B,).

    With any weights y ≥ 0, stages of at most τ seconds on k_t units do Σ_b min_t y_t (S + A)_bt ≤ τ Σ_t y_t
    k_t. There is one weight vector for each type: its least time relative to that of every other type.

    Parameters
    ----------
    work
        S + A of each block (or layer) on each type, shape (B, T); infinite where it cannot run.
    """
    able, every, least = np.isfinite(work), [], []
    for own in range(work.shape[1]):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(able & able[:, [own]] & (work > 0), work[:, [own]] / work, np.inf)
            weights = ratio.min(axis=0)
            # A type without weight beside one that cannot run a block is 0·∞, which fmin passes over.
            priced = np.fmin.reduce(work * weights, axis=1)
        if np.isfinite(weights).all():
            # No stage has a block that no type can run.
            priced[~np.isfinite(priced)] = 0.0
            every.append(weights)
            least.append(priced)
    return every, least
