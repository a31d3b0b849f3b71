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

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...instances.common.arrays import Floats, Ints, narrow
from ...instances.common.errors import TooLargeError
from ...instances.staging.instance import StagingInstance
from ..common.clock import check_time
from ..common.compiled import compiled
from ..common.objective import loosened
from .graph_order import Blocks, Ideals, uses_relays
from .stages import MAX_SEGMENTS, MAX_UNITS, TimeTable

CHECK_INTERVAL = 64
"""Number of ideals between two checks of the time limit."""


class GraphArrays(NamedTuple):
    """Blocks of layers and ideals (down-sets) as arrays for compiled loops.

    Attributes
    ----------
    bits
        The blocks of each ideal, 64 a word, shape (I, W).
    start, block, target
        As in `Ideals`.
    parts, memory
        Parts and memory of each block, shapes (B, T, 4) and (B,).
    room, most_units
        Memory of a unit of each type, and units that a stage may have, shape (T,).
    touching_start, touching
        The tensors of block b are touching[touching_start[b]:touching_start[b + 1]].
    touched_start, touched
        The blocks of each tensor, in the same form.
    transfer
        Seconds of each tensor on each type, shape (H, T); empty where stages relay.
    crossing
        Where stages relay: seconds of the tensors cut by each ideal on each type, shape (I, T); else zeros.
    adds_up
        Whether computing and communicating add up.
    """

    bits: NDArray[np.uint64]
    start: Ints
    block: Ints
    target: Ints
    parts: Floats
    memory: Floats
    room: Floats
    most_units: Floats
    touching_start: Ints
    touching: Ints
    touched_start: Ints
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
    most = len(problem.bits) * len(problem.room)
    return StageBuffers(np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64), np.empty((most, 4)))


@compiled
def _stage_time(parts: tuple[float, float, float, float], units: float) -> float:
    """Return the stage time ET = max(S + A/k, S' + A'/k) [s] on k devices."""
    return max(parts[0] + parts[1] / units, parts[2] + parts[3] / units)


@compiled
def add_crossing_seconds(
    bits: NDArray[np.uint64], touched_start: Ints, touched: Ints, transfer: Floats, crossing: Floats
) -> None:
    """Add up the transfer times [s] of the tensors that each ideal cuts, into zeros of shape (I, T).

    Each ideal has a separate sum without differences, so that no rounding error remains.
    """
    for ideal in range(len(bits)):
        for tensor in range(len(transfer)):
            inside = 0
            for at in range(touched_start[tensor], touched_start[tensor + 1]):
                block = touched[at]
                if bits[ideal, block >> 6] >> np.uint64(block & 63) & np.uint64(1):
                    inside += 1
            if 0 < inside < touched_start[tensor + 1] - touched_start[tensor]:
                for t in range(transfer.shape[1]):
                    crossing[ideal, t] += transfer[tensor, t]


@compiled
def _touching_tensors(problem: GraphArrays, source: int) -> NDArray[np.bool_]:
    """Return a mask of the tensors that touch a block of layers in an ideal, shape (H,)."""
    begun = np.zeros(len(problem.transfer), dtype=np.bool_)
    for block in range(len(problem.memory)):
        if problem.bits[source, block >> 6] >> np.uint64(block & 63) & np.uint64(1):
            for at in range(problem.touching_start[block], problem.touching_start[block + 1]):
                begun[problem.touching[at]] = True
    return begun


@compiled
def _add_block(
    problem: GraphArrays,
    depth: int,
    block: int,
    count: Ints,
    begun: NDArray[np.bool_],
    alive: NDArray[np.bool_],
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
        whole = count[tensor] == problem.touched_start[tensor + 1] - problem.touched_start[tensor]
        for t in range(types):
            if alive[depth - 1, t]:
                if first:
                    cut[depth, t] += problem.transfer[tensor, t]
                if first and begun[tensor]:
                    kept[depth, t] += problem.transfer[tensor, t]
                if whole:
                    cut[depth, t] -= problem.transfer[tensor, t]


@compiled
def _remove_block(problem: GraphArrays, block: int, count: Ints) -> None:
    for at in range(problem.touching_start[block], problem.touching_start[block + 1]):
        count[problem.touching[at]] -= 1


@compiled
def _with_transfers(
    problem: GraphArrays, sums: Floats, depth: int, t: int, transfers: float
) -> tuple[float, float, float, float]:
    """Return the parts S, A, S' and A' of a stage's time; S' and A' are 0 where times add up."""
    received = max(transfers, 0.0) + sums[depth, t, 3]
    if problem.adds_up:
        return sums[depth, t, 0] + sums[depth, t, 2], sums[depth, t, 1] + received, 0.0, 0.0
    return sums[depth, t, 0], sums[depth, t, 1], sums[depth, t, 2], received


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
                _remove_block(problem, added[depth], count)
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
            parts = _with_transfers(problem, sums, depth, t, transfers)
            if _stage_time(parts, problem.most_units[t]) <= slowest:
                rows.last[written], rows.type[written] = target, t
                for part in range(4):
                    rows.parts[written, part] = parts[part]
                written += 1
        if not useful:
            # No larger stage is possible either.
            edge[depth] = problem.start[target + 1]
    return written


def stages_up_to(problem: GraphArrays, slowest_s: float, most: int) -> tuple[Ints, Ints, Ints, Floats] | None:
    """Return the stages of at most a stage time; None where there are more than `most`.

    They are arrays: smaller ideal, larger ideal and type, shape (n,), and S, A, S', A', shape (n, 4).
    """
    rows = stage_buffers(problem)
    first, last, types, parts = [], [], [], []
    total = 0
    for source in range(len(problem.bits) - 1):
        if source % CHECK_INTERVAL == 0:
            check_time()
        count = stages_from(problem, source, slowest_s, rows)
        total += count
        if total > most:
            return None
        first.append(np.full(count, source))
        last.append(rows.last[:count].copy())
        types.append(rows.type[:count].copy())
        parts.append(rows.parts[:count].copy())
    return np.concatenate(first), np.concatenate(last), np.concatenate(types), np.concatenate(parts)


MAX_STAGES = 3_000_000
"""Maximum number of stages of a graph; the arrays of a search take about 200 bytes for each."""


@dataclass(frozen=True)
class GraphTable(TimeTable):
    """Table of the parts of stage time of a graph, ordered by larger ideal, type and smaller ideal.

    Attributes
    ----------
    layers
        Number of ideals less one.
    first, last, type
        Smaller ideal, larger ideal less one, and type of each stage, shape (n,).
    """

    first: Ints
    last: Ints
    type: Ints

    def places(self, position: Ints) -> tuple[Ints, Ints, Ints]:
        """Return smaller ideal, larger ideal less one, and type of the stages at the given indices."""
        return self.first[position], self.last[position], self.type[position]

    def index(self, first: int, last: int, unit_type: int) -> int:
        """Return the index of a stage in the arrays of the table; -1 if it is missing."""
        key = (last * len(self.price) + unit_type) * (self.layers + 1) + first
        at = int(np.searchsorted(self._keys, key))
        return at if at < len(self._keys) and self._keys[at] == key else -1

    @cached_property
    def _keys(self) -> Ints:
        """A number for each stage, which rises from one to the next, shape (n,)."""
        return (self.last.astype(np.int64) * len(self.price) + self.type) * (self.layers + 1) + self.first


def graph_table(instance: StagingInstance, blocks: Blocks, ideals: Ideals, slowest_s: float) -> GraphTable:
    """Return the table of a graph's stages that fit in memory and are fast enough on all devices.

    Raises
    ------
    TooLargeError
        If there are too many.
    """
    problem = graph_arrays(instance, blocks, ideals)
    # With only one order of the blocks the stages are as many as the segments of a chain.
    most = MAX_SEGMENTS if blocks.in_a_row else MAX_STAGES
    stages = stages_up_to(problem, slowest_s, most)
    if stages is None:
        raise TooLargeError(
            f"the graph has {len(ideals):,} ideals and more than {most:,} possible stages; a tighter "
            "floor or fewer parallel branches make it smaller"
        )
    check_time()
    first, last, kind, parts = stages
    # They come by rising smaller ideal.
    order = np.argsort(last * len(instance.types) + kind, kind="stable")
    serial, parallel, comm_serial, comm_parallel = parts[order].T.copy()
    return GraphTable(
        len(ideals) - 1,
        serial,
        parallel,
        comm_serial,
        comm_parallel,
        np.array([one.price_usd_per_hour for one in instance.types]),
        problem.most_units.copy(),
        narrow(first[order]),
        narrow(last[order] - 1),
        narrow(kind[order]),
    )


def graph_arrays(instance: StagingInstance, blocks: Blocks, ideals: Ideals) -> GraphArrays:
    """Return the blocks of layers and the ideals (down-sets) as arrays for compiled loops."""
    units = [instance.most_units_per_stage or MAX_UNITS, MAX_UNITS]
    relayed = uses_relays(instance)
    counted, seconds = ((), blocks.transfer_s[:0]) if relayed else (blocks.tensors, blocks.transfer_s)
    touched_start, touched = _concatenated(counted)
    touching: list[list[int]] = [[] for _ in range(len(blocks))]
    for index, own in enumerate(counted):
        for block in own:
            touching[block].append(index)
    touching_start, flat = _concatenated(touching)
    words = (len(blocks) + 63) // 64
    packed = b"".join(ideal.to_bytes(8 * words, "little") for ideal in ideals.sets)
    bits = np.frombuffer(packed, dtype="<u8").reshape(-1, words).astype(np.uint64)
    crossing = np.zeros((len(ideals), len(instance.types)))
    if relayed:
        check_time()
        add_crossing_seconds(bits, *_concatenated(blocks.tensors), blocks.transfer_s, crossing)
    parts = blocks.parts.copy()
    # An impossible part is infinite in S alone, so that no inf - inf can arise.
    parts[np.isinf(parts[:, :, 0]), 1:] = 0.0
    return GraphArrays(
        bits=bits,
        start=ideals.start,
        block=ideals.block,
        target=ideals.target,
        parts=parts,
        memory=blocks.memory_gib,
        room=np.array([math.inf if t.memory_gib is None else loosened(t.memory_gib) for t in instance.types]),
        most_units=np.array([float(min(units + ([t.limit] if t.limit else []))) for t in instance.types]),
        touching_start=touching_start,
        touching=flat,
        touched_start=touched_start,
        touched=touched,
        transfer=seconds,
        crossing=crossing,
        adds_up=instance.stage_cost == "sum",
    )


def _concatenated(lists: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Concatenate lists; return the start of each list, with the total length last, and the elements."""
    members = np.array([member for own in lists for member in own], dtype=np.int64)
    return np.cumsum([0, *map(len, lists)]), members
