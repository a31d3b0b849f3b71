"""Units of each stage once layers and types are fixed: by load balance (HeterPS 2023), and exactly.

Both use fewest units: for a stage time τ a stage needs the smallest k with ET(k) ≤ τ, and k·ET(k) does
not fall with k, because k·(S + A/k) = S·k + A. So a plan with at least k_i units on each stage costs at least
κ·max(Σ π_i k_i·ET_i(k_i), τ_S·Σ π_i k_i), where τ_S is the largest serial part; both searches stop by it.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from ....formulations.common.clock import check_time
from ....formulations.common.objective import TOLERANCE, loosened
from ....formulations.staging.formulation import StagingFormulation
from ....formulations.staging.stages import MAX_UNITS, Parts, Stage, min_units, parts_time_s

MAX_FIRST_UNITS = 1000
"""Most values of k_1 that load balance tries beyond its lower bound, where units have no limit."""
MAX_STAGE_TIMES = 100_000
"""Most stage times that are tried; without limits and with all work parallel the best may lie at infinity."""

Segment = tuple[int, int, int]
"""First layer, last layer, type."""
Way = Literal["load-balance", "exact"]
WAYS: tuple[Way, ...] = ("load-balance", "exact")


def segments_of(types: Sequence[int]) -> list[Segment]:
    """Return the maximal runs of layers of equal type, as (first layer, last layer, type)."""
    segments: list[Segment] = []
    for layer, unit_type in enumerate(types):
        if segments and segments[-1][2] == unit_type:
            segments[-1] = (segments[-1][0], layer, unit_type)
        else:
            segments.append((layer, layer, unit_type))
    return segments


@dataclass(frozen=True)
class Provision:
    """Units of each stage, and the `score` to be minimised: the cost in USD, or else the stage time."""

    counts: tuple[int, ...]
    score: float


class Provisioner:
    """Computes the units of given stages of one instance; caches the stages' time parameters.

    Parameters
    ----------
    formulation
        Of the instance; its limits, floor and budgets are kept within the tolerance of `violations`.
    """

    def __init__(self, formulation: StagingFormulation) -> None:
        instance, hardware = formulation.instance, formulation.hardware
        self.formulation = formulation
        self._prices = hardware.price.tolist()
        self._limits = np.minimum(hardware.limit, MAX_UNITS).astype(int).tolist()
        self._most = hardware.most.astype(int).tolist()
        self._by_cost, self._slowest_s = instance.objective == "cost", formulation.latest_s
        self._budget, self._cost_limit = (
            math.inf if limit is None else loosened(limit)
            for limit in (instance.hourly_budget_usd, instance.cost_limit_usd)
        )
        self.parts = cache(lambda segment: formulation.table.parts(*segment))

    def provision(self, segments: Sequence[Segment], way: Way) -> Provision | None:
        """Return units for these stages by load balance or exactly, None if no units are feasible."""
        return self.exact(segments) if way == "exact" else self.balanced(segments)

    def plan(self, segments: Sequence[Segment], provision: Provision) -> tuple[Stage, ...]:
        """Return the plan of these stages with their units."""
        stage, counts = self.formulation.stage, provision.counts
        return tuple(stage(*segment, units) for segment, units in zip(segments, counts, strict=True))

    def balanced(self, segments: Sequence[Segment]) -> Provision | None:
        """Return the best units with all stages balanced to the first, None if none are feasible.

        For every k_1 from its lower bound the other stages get the fewest units that are no slower than the
        first, k_i = ⌈A_i / (ET_1(k_1) − S_i)⌉ over compute and communication; the best is kept.
        """
        parts = [self.parts(segment) for segment in segments]
        mosts = [self._most[segment[2]] for segment in segments]
        lowest = min_units(parts[0], self._slowest_s, mosts[0])
        if not lowest:
            return None
        highest = min(mosts[0], lowest + MAX_FIRST_UNITS) if mosts[0] == MAX_UNITS else mosts[0]
        best: Provision | None = None
        before = math.inf
        others = list(zip(parts[1:], mosts[1:], strict=True))
        for units in range(lowest, highest + 1):
            check_time()
            target = parts_time_s(parts[0], units)
            if target >= before:
                break  # the first stage is as fast as it gets
            before, limit = target, min(loosened(target), self._slowest_s)
            counts = [units]
            for part, most in others:
                counts.append(min_units(part, limit, most))
                if not counts[-1]:
                    return best  # more units make the first stage faster still; the others cannot follow
            state = self._state(segments, parts, counts)
            if state.over:
                return best
            best = self._better(best, counts, state)
            if self._cannot_improve(best, state):
                return best
        return best

    def exact(self, segments: Sequence[Segment]) -> Provision | None:
        """Return the optimal units of these stages, up to rounding; None if none are feasible.

        Notes
        -----
        Where nothing bounds the units (no limit, budget or serial part), the best of the first
        `MAX_STAGE_TIMES` stage times. Stage times are swept downwards: the slowest stage gets one more unit,
        as long as that makes it faster. (If one more does not, a part that is all serial decides, and no
        number does.) So every stage always has the fewest units for the stage time reached, and every useful
        plan is passed.
        """
        parts = [self.parts(segment) for segment in segments]
        counts = [
            min_units(part, self._slowest_s, self._most[segment[2]])
            for part, segment in zip(parts, segments, strict=True)
        ]
        if not all(counts):
            return None
        state = self._state(segments, parts, counts)
        queue = [(-parts_time_s(part, k), i) for i, (part, k) in enumerate(zip(parts, counts, strict=True))]
        heapq.heapify(queue)
        best: Provision | None = None
        # The heap has the slowest stage on top: the only one that more units can help.
        for _ in range(MAX_STAGE_TIMES):
            check_time()
            state.time_s, slowest = -queue[0][0], queue[0][1]
            if state.over:
                break
            best = self._better(best, counts, state)
            unit_type = segments[slowest][2]
            if self._cannot_improve(best, state) or counts[slowest] == self._most[unit_type]:
                break
            counts[slowest] += 1
            faster = parts_time_s(parts[slowest], counts[slowest])
            if faster >= state.time_s:
                break
            heapq.heapreplace(queue, (-faster, slowest))
            price = self._prices[unit_type]
            state.work += price * (counts[slowest] * faster - (counts[slowest] - 1) * state.time_s)
            state.used[unit_type] += 1
            self._tally(state)
        return best

    def violation(self, segments: Sequence[Segment]) -> float:
        """Return a relative penalty (≥ 0) for these stages' excess over limits, floor and budgets.

        The penalty guides methods that begin far from any plan: the sum over stages that cannot be as fast as
        the floor of their serial parts' excess, and of the excess of the units and money that the others take
        at the floor, all relative; a stage that cannot be at all counts one and its share of the layers.
        """
        used = Counter[int]()
        time, total = 0.0, 0.0
        for segment in segments:
            part, unit_type = self.parts(segment), segment[2]
            if part[0] == math.inf:
                total += 1 + (segment[1] - segment[0] + 1) / (segments[-1][1] + 1)
                continue
            units = min_units(part, self._slowest_s, MAX_UNITS)
            if units:
                used[unit_type] += units
                time = max(time, parts_time_s(part, units))
            else:
                total += max(part[0], part[2]) / self._slowest_s
        rate = self._rate(used)
        amounts: list[tuple[float, float]] = [
            *((units, self._limits[unit_type]) for unit_type, units in used.items()),
            (rate, self._budget),
            (self.formulation.cost_usd(time, rate), self._cost_limit),
        ]
        return total + sum(max(0.0, amount / limit - 1) for amount, limit in amounts)

    def _state(self, segments: Sequence[Segment], parts: Sequence[Parts], counts: Sequence[int]) -> _State:
        used = Counter[int]()
        time, work, serial = 0.0, 0.0, 0.0
        for segment, part, units in zip(segments, parts, counts, strict=True):
            own = parts_time_s(part, units)
            time = max(time, own)
            work += self._prices[segment[2]] * units * own
            serial = max(serial, part[0], part[2])
            used[segment[2]] += units
        state = _State(used, time, work, serial)
        self._tally(state)
        return state

    def _rate(self, used: Counter[int]) -> float:
        return math.fsum(self._prices[unit_type] * units for unit_type, units in used.items())

    def _tally(self, state: _State) -> None:
        state.rate = self._rate(state.used)
        state.over = state.rate > self._budget or any(
            units > self._limits[unit_type] for unit_type, units in state.used.items()
        )

    def _better(self, best: Provision | None, counts: Sequence[int], state: _State) -> Provision | None:
        cost = self.formulation.cost_usd(state.time_s, state.rate)
        score = cost if self._by_cost else state.time_s
        over = cost > self._cost_limit or state.time_s > self._slowest_s
        if over or (best is not None and score >= best.score):
            return best
        return Provision(tuple(counts), score)

    def _cannot_improve(self, best: Provision | None, state: _State) -> bool:
        """Return whether more units cannot lower the best score (cost or stage time) beyond rounding."""
        # Both grow with the units: what is paid for work, and for the largest serial part on all units.
        least = self.formulation.cost_factor * max(state.work, state.serial_s * state.rate)
        if least * (1 - TOLERANCE) > self._cost_limit:
            return True
        if best is None:
            return False
        if self._by_cost:
            return least >= best.score * (1 - TOLERANCE)
        return state.serial_s >= state.time_s * (1 - TOLERANCE)


@dataclass
class _State:
    """Units used by type, slowest stage time, Σ π k·ET(k), largest serial part, USD/h of a provision."""

    used: Counter[int]
    time_s: float
    work: float
    serial_s: float
    rate: float = 0.0
    over: bool = False
