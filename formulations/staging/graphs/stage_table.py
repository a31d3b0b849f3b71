"""The stage times of every pair of ideals on every type at once, for the methods.

The ideals take the place of the boundaries between the layers of a chain: a stage from ideal i to ideal j has
`first` = i and `last` = j - 1, and a plan is a path from ideal 0 to the last one. So the search for chains
works on graphs too, as long as the pairs can be stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....instances.common.arrays import Floats, Ints, narrow
from ....instances.common.errors import TooLargeError
from ....instances.staging.instance import StagingInstance
from ...common.clock import check_time
from ...common.tolerance import loosened
from ..stage_times import MOST_UNITS
from .blocks import Blocks
from .ideals import Ideals
from .pairs import Pairs, Problem, crossing_of
from .stage_times import relays

MOST_STAGES = 3_000_000
"""Stages, one for each pair of ideals and type; all arrays of a search take some 200 bytes for each."""


@dataclass(frozen=True)
class GraphTable:
    """The parts of stages, ordered by larger ideal, type and smaller ideal.

    Attributes
    ----------
    layers
        Number of ideals less one.
    first, last, type
        Smaller ideal, larger ideal less one, and type of each stage, shape (n,).
    serial, parallel, comm_serial, comm_parallel
        S, A, S' and A' with transfers [s per probe batch], shape (n,).
    price, limit
        USD per hour and unit, and the units that one stage may have; shape (T,).
    """

    layers: int
    first: Ints
    last: Ints
    type: Ints
    serial: Floats
    parallel: Floats
    comm_serial: Floats
    comm_parallel: Floats
    price: Floats
    limit: Floats

    def places(self, position: Ints) -> tuple[Ints, Ints, Ints]:
        """Return smaller ideal, larger ideal less one, and type of stages."""
        return self.first[position], self.last[position], self.type[position]

    def index(self, first: int, last: int, unit_type: int) -> int:
        """Return the position of a stage in the arrays, -1 where it is not among them."""
        found = np.flatnonzero((self.first == first) & (self.last == last) & (self.type == unit_type))
        return int(found[0]) if len(found) else -1

    def time_s(self, units: Floats | Ints | int) -> Floats:
        """Return ET of every stage, with this number of units or one for each, shape (n,)."""
        compute = self.serial + self.parallel / units
        result: Floats = np.maximum(compute, self.comm_serial + self.comm_parallel / units)
        return result


def graph_table(instance: StagingInstance, blocks: Blocks, ideals: Ideals, slowest_s: float) -> GraphTable:
    """Return the stages that memory holds and that are fast enough on all units that they may have.

    Raises
    ------
    TooLargeError
        If there are too many.
    """
    problem = problem_of(instance, blocks, ideals)
    found = Pairs(problem).up_to(slowest_s, MOST_STAGES)
    if found is None:
        raise TooLargeError(
            f"the graph has {len(ideals):,} ideals and more than {MOST_STAGES:,} possible stages; a tighter "
            "floor or fewer parallel branches make it smaller"
        )
    check_time()
    order = np.lexsort((found.first, found.type, found.last))
    return GraphTable(
        len(ideals) - 1,
        narrow(found.first[order]),
        narrow(found.last[order] - 1),
        narrow(found.type[order]),
        found.parts[order, 0],
        found.parts[order, 1],
        found.parts[order, 2],
        found.parts[order, 3],
        np.array([one.price_usd_per_hour for one in instance.types]),
        problem.most_units.copy(),
    )


def problem_of(instance: StagingInstance, blocks: Blocks, ideals: Ideals) -> Problem:
    """Return the blocks and ideals as arrays that compiled loops read."""
    units = [instance.most_units_per_stage or MOST_UNITS, MOST_UNITS]
    relayed = relays(instance)
    counted, seconds = ((), blocks.transfer_s[:0]) if relayed else (blocks.tensors, blocks.transfer_s)
    touched_start, touched = _in_a_row(counted)
    touching: list[list[int]] = [[] for _ in range(len(blocks))]
    for index, own in enumerate(counted):
        for block in own:
            touching[block].append(index)
    touching_start, flat = _in_a_row(touching)
    words = (len(blocks) + 63) // 64
    packed = b"".join(ideal.to_bytes(8 * words, "little") for ideal in ideals.sets)
    bits = np.frombuffer(packed, dtype="<u8").reshape(-1, words).astype(np.uint64)
    crossing = np.zeros((len(ideals), len(instance.types)))
    if relayed:
        check_time()
        crossing_of(bits, *_in_a_row(blocks.tensors), blocks.transfer_s, crossing)
    parts = blocks.parts.copy()
    # An impossible part is infinite in S alone, so that no inf - inf can arise.
    parts[np.isinf(parts[:, :, 0]), 1:] = 0.0
    return Problem(
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


def _in_a_row(lists: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Return lists as one array with the start of each; the last start is the length."""
    members = np.array([member for own in lists for member in own], dtype=np.int64)
    return np.cumsum([0, *map(len, lists)]), members
