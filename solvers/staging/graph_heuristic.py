"""Constructive heuristic for graphs of layers, without compiled loops: blocks in a row, stage after stage.

For a stage time τ each stage takes the type and number of units that do most by one of three measures: work
for each unit, work for each USD, or all work. The first τ is the slowest, so that a plan is found soon;
others follow on a logarithmic scale while there is time. Where units, memory or money are very scarce there
may be a plan and none is found.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...formulations.common.objective import loosened
from ...formulations.staging.formulation import GraphFormulation
from ...formulations.staging.stages import Stage
from ...instances.common.arrays import Flags, Floats, Ints, offsets, run_of_each
from ..common.base import Clock

MEASURES = ("units", "money", "reach")
HALVINGS = 6
"""Number of times that the scale of stage times is halved."""
MAX_UNITS_TRIED = 4096
"""Most units of a stage that are tried."""
SEARCH_END_RATIO = 1.005
"""Ratio of the best stage time to one not attained at which the search for faster plans ends."""
ROUNDING_FACTOR = 1 + 1e-9
"""Tolerance, as a factor, when sums are compared with a stage time."""
LEAST_SHARE = 1e-6
"""Stage times below this share of the slowest are not tried where no bound is known."""


class _StageOption(NamedTuple):
    """A candidate next stage: index of the block after it, type, units, and its value by the measure."""

    end: int
    type: int
    units: int
    worth: float


def first_plan(formulation: GraphFormulation, clock: Clock) -> tuple[Stage, ...] | None:
    """Return the constructive heuristic's best plan within the time limit, None if it finds none.

    Its stages are contiguous blocks in one topological order. One stage time is tried in any case.
    """
    slowest = min(formulation.latest_s, formulation.slowest_sum_s)
    if not slowest > 0:
        return None
    least = max(formulation.least_s, slowest * LEAST_SHARE)
    search = _PlanConstruction(formulation, clock)
    search.attempt(slowest)
    if formulation.instance.objective == "cost":
        for time in _bisection_points(least, slowest):
            if not clock.expired:
                search.attempt(time)
        return search.best
    # What no measure reaches is given up, though there may be such plans.
    while search.best is not None and not clock.expired:
        reached = formulation.stage_time_s(search.best)
        if reached <= least * SEARCH_END_RATIO:
            break
        time = math.sqrt(least * reached)
        least = least if search.attempt(time) else time
    return search.best


def _bisection_points(least: float, slowest: float) -> Iterator[float]:
    """Yield the minimum stage time, then midpoints of ever smaller intervals of a logarithmic scale."""
    yield least * (1 + 1e-9)
    for halving in range(1, HALVINGS + 1):
        for odd in range(1, 2**halving, 2):
            yield slowest * (least / slowest) ** (odd / 2**halving)


class _PlanConstruction:
    """Constructs plans for given bounds on the stage time, and keeps the best."""

    def __init__(self, formulation: GraphFormulation, clock: Clock) -> None:
        self.formulation, self.clock = formulation, clock
        self.row = _BlockSequence(formulation)
        self.one = formulation.restricted_to_one_order()
        self.best: tuple[Stage, ...] | None = None

    def attempt(self, slowest_s: float) -> bool:
        """Construct plans with at most this stage time, keep the best; return whether one is found."""
        formulation, success = self.formulation, False
        for measure in MEASURES:
            stages = self.row.stages(slowest_s, measure)
            if stages is None:
                continue
            plan = tuple(self.one.stage(first, end - 1, t, units) for first, end, t, units in stages)
            if formulation.violations(plan):
                continue
            success = True
            if self.best is None or formulation.precedes(
                formulation.evaluate(plan), formulation.evaluate(self.best)
            ):
                self.best = plan
            if formulation.instance.objective != "cost" or self.clock.expired:
                break
        return success


class _BlockSequence:
    """The blocks of layers in one topological order, with prefix sums of their times, memory and work."""

    def __init__(self, formulation: GraphFormulation) -> None:
        instance, blocks = formulation.instance, formulation.blocks
        self.adds_up, self.relays = (instance.stage_cost == rule for rule in ("sum", "relay"))
        impossible = np.isinf(blocks.parts[:, :, 0])
        parts = np.where(impossible[:, :, None], 0.0, blocks.parts)
        self.parts = _prefix_sums(parts)
        self.impossible = _prefix_sums(impossible.astype(float))
        self.memory = _prefix_sums(blocks.memory_gib)
        self.work = _prefix_sums(np.where(impossible, np.inf, parts[:, :, 0] + parts[:, :, 1]).min(axis=1))
        self.room, self.price = formulation.hardware.room_gib, formulation.hardware.price.tolist()
        budget = instance.hourly_budget_usd
        self.budget = math.inf if budget is None else loosened(budget)
        most = instance.most_units_per_stage or MAX_UNITS_TRIED
        self.limits = [MAX_UNITS_TRIED * len(blocks) if t.limit is None else t.limit for t in instance.types]
        self.counts = [_unit_counts(min(most, limit, MAX_UNITS_TRIED)) for limit in self.limits]
        self.transfer = blocks.transfer_s
        start = offsets([len(own) for own in blocks.tensors])
        self.tensor, self.end = run_of_each(start), start[1:]
        self.pin = np.array([block for own in blocks.tensors for block in own], dtype=np.int64)
        self.first, self.last = self.pin[start[:-1]], self.pin[self.end - 1]
        self.crossing = self._crossing_times(self.first, self.last)

    def __len__(self) -> int:
        return len(self.work) - 1

    def stages(self, slowest_s: float, measure: str) -> list[tuple[int, int, int, int]] | None:
        """Return stages (first, end, type, units) of all blocks within a stage time, None if not found."""
        first, result, left, money = 0, [], list(self.limits), self.budget
        while first < len(self):
            cut = self._transfer_times_from(first)
            options = [
                option
                for t, units in enumerate(left)
                for option in self._longest_stages(
                    first, t, min(units, _affordable(money, self.price[t])), cut, slowest_s, measure
                )
            ]
            if not options:
                return None
            best = max(options, key=lambda one: (one.worth, one.end, -one.units * self.price[one.type]))
            result.append((first, best.end, best.type, best.units))
            left[best.type] -= best.units
            money -= best.units * self.price[best.type]
            first = best.end
        return result

    def _longest_stages(
        self, first: int, t: int, most: int, cut: Floats, slowest_s: float, measure: str
    ) -> Iterator[_StageOption]:
        """Yield for each number of units the longest stage from a block on one type."""
        counts = self.counts[t][self.counts[t] <= most]
        if not len(counts):
            return
        serial, parallel, comm_serial, comm_parallel = (self.parts[first + 1 :, t] - self.parts[first, t]).T
        possible = self.impossible[first + 1 :, t] == self.impossible[first, t]
        possible &= self.memory[first + 1 :] - self.memory[first] <= self.room[t]
        size = int(possible.sum())
        # With more blocks computing takes no less.
        size = int(
            np.searchsorted((serial + parallel / counts[-1])[:size], slowest_s * ROUNDING_FACTOR, "right")
        )
        if not size:
            return
        units = counts[:, None]
        computing = serial[:size] + parallel[:size] / units
        moving = comm_serial[:size] + (comm_parallel[:size] + cut[:size, t]) / units
        fast = (computing + moving if self.adds_up else np.maximum(computing, moving)) <= slowest_s
        for row, number in zip(fast, counts.tolist(), strict=True):
            if row.any():
                end = first + size - int(row[::-1].argmax())
                work = float(self.work[end] - self.work[first])
                yield _StageOption(
                    end, t, number, _stage_value(work, end - first, number, self.price[t], measure)
                )

    def _transfer_times_from(self, first: int) -> Floats:
        """Return the transfer times of stages from a block on, by end block and type, in seconds."""
        if self.relays:
            relayed: Floats = np.maximum(self.crossing[first], self.crossing[first + 1 :])
            return relayed
        # The next block of each tensor from here on; tensors without one are not touched.
        following = np.searchsorted(
            self.tensor * (len(self) + 1) + self.pin, np.arange(len(self.end)) * (len(self) + 1) + first
        )
        touched = following < self.end
        start = self.pin[following[touched]]
        whole = np.where(self.first[touched] >= first, self.last[touched], len(self) + 1)
        return self._crossing_times(start, whole, touched)[first + 1 :]

    def _crossing_times(self, start: Ints, whole: Ints, touched: Flags | slice = slice(None)) -> Floats:
        """Return the transfer time of tensors begun but not complete, by number of blocks and type."""
        total = np.zeros((len(self) + 3, self.transfer.shape[1]))
        np.add.at(total, start + 1, self.transfer[touched])
        np.subtract.at(total, whole + 1, self.transfer[touched])
        # Rounding may leave sums a little below zero.
        return np.maximum(np.cumsum(total, axis=0)[: len(self) + 1], 0.0)


def _prefix_sums(rows: Floats) -> Floats:
    return np.concatenate([np.zeros((1, *rows.shape[1:])), np.cumsum(rows, axis=0)])


def _unit_counts(most: int) -> Ints:
    """Return the numbers of units to try: two for each doubling, and the maximum."""
    powers = [[2**power, 3 * 2**power] for power in range(most.bit_length())]
    return np.array(sorted({one for one in (*itertools.chain(*powers), most) if one <= most}), dtype=np.int64)


def _affordable(money: float, price: float) -> int:
    return int(min(money / price, MAX_UNITS_TRIED)) if price else MAX_UNITS_TRIED


def _stage_value(work: float, blocks: int, units: int, price: float, measure: str) -> float:
    """Return the value of a stage: work per unit, per USD/h or in all; blocks without work count a little."""
    done = work + 1e-12 * blocks
    if measure == "units":
        return done / units
    if measure == "money":
        return done / (units * price) if price else math.inf
    return done
