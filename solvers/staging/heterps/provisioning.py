"""How many units each stage gets once layers and types are fixed: the paper's load balance, and exactly.

Both look at fewest units: for a stage time τ a stage needs the smallest k with ET(k) ≤ τ, and k·ET(k) does
not fall with k, because k·(S + A/k) = S·k + A. So a plan with at least k_i units on each stage costs at least
κ·max(Σ π_i k_i·ET_i(k_i), τ_S·Σ π_i k_i), where τ_S is the largest serial part; both searches stop by it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ....formulations.common.clock import check_time
from ....formulations.common.tolerance import TOLERANCE, loosened
from ....formulations.staging.formulation import StagingFormulation
from ....formulations.staging.plan import Stage

MOST_FIRST_UNITS = 1000
"""Without a limit, how many values of k_1 load balance tries beyond its lower bound."""
MOST_STEPS = 100_000
"""Without any limit, how many stage times are tried; with all work parallel the best may lie at infinity."""
MOST_UNITS = 10**15

Run = tuple[int, int, int]
"""First layer, last layer, type."""
Parts = tuple[float, float, float, float]
"""S, A of compute and S', A' of communication, with the transfer; an infinite S cannot be a stage."""
Way = Literal["load-balance", "exact"]
WAYS: tuple[Way, ...] = ("load-balance", "exact")


def runs_of(types: Sequence[int]) -> list[Run]:
    """Return the maximal runs of equal types: the stages that a type for each layer means."""
    runs: list[Run] = []
    for layer, kind in enumerate(types):
        if runs and runs[-1][2] == kind:
            runs[-1] = (runs[-1][0], layer, kind)
        else:
            runs.append((layer, layer, kind))
    return runs


def balance_load(formulation: StagingFormulation, runs: Sequence[Run]) -> tuple[Stage, ...] | None:
    """Return the best plan on these stages whose other stages are balanced to the first one.

    For every k_1 from its lower bound the other stages get the fewest units that are no slower than the
    first, k_i = ⌈A_i / (ET_1(k_1) − S_i)⌉ over compute and communication; the best plan is kept.

    Returns
    -------
    plan
        Or None if no k_1 leads to a plan within limits, floor and budgets.
    """
    provisioner = Provisioner(formulation)
    return provisioner.plan(runs, provisioner.balanced(runs))


def provision_exactly(
    formulation: StagingFormulation,
    runs: Sequence[Run],
    fastest_s: float = 0.0,
    slowest_s: float = math.inf,
) -> tuple[Stage, ...] | None:
    """Return the best plan on these stages over all numbers of units.

    Parameters
    ----------
    fastest_s, slowest_s
        Between which the stage time is looked for, beside the instance's own floor. The plan with the fewest
        units that are no slower than `slowest_s` counts even if it is faster than `fastest_s`.

    Returns
    -------
    plan
        No other plan in that range is better beyond rounding; None if there is none within limits, floor
        and budgets. Where nothing bounds the units (no limit, budget or serial part), the best of the
        first `MOST_STEPS` stage times.
    """
    provisioner = Provisioner(formulation)
    return provisioner.plan(runs, provisioner.exact(runs, fastest_s, slowest_s))


@dataclass(frozen=True)
class Provision:
    """Units for each of some runs; `score` is to be small: the cost, or else the stage time."""

    counts: tuple[int, ...]
    score: float


class Provisioner:
    """Finds units for runs of one instance, many times over: plain floats, each run's parts looked up once.

    Parameters
    ----------
    formulation
        Of the instance; its limits, floor and budgets are kept, as loosely as `violations` keeps them.
    """

    def __init__(self, formulation: StagingFormulation) -> None:
        instance = formulation.instance
        self.formulation = formulation
        self._prices = [kind.price_usd_per_hour for kind in instance.types]
        self._limits = [MOST_UNITS if kind.limit is None else kind.limit for kind in instance.types]
        self._by_cost = formulation.objectives[0].name == "cost"
        self._slowest_s = loosened(formulation.slowest_allowed_s)
        self._budget = _loose(instance.hourly_budget_usd)
        self._cost_limit = _loose(instance.cost_limit_usd)
        self._parts: dict[Run, Parts] = {}

    def provision(self, runs: Sequence[Run], way: Way) -> Provision | None:
        """Return units for these runs by the paper's load balance or exactly; None if there are none."""
        return self.exact(runs) if way == "exact" else self.balanced(runs)

    def plan(self, runs: Sequence[Run], provision: Provision | None) -> tuple[Stage, ...] | None:
        """Return the plan that these units are."""
        if provision is None:
            return None
        types = self.formulation.instance.types
        return tuple(
            Stage(first_layer=first, last_layer=last, type=types[kind].name, units=units)
            for (first, last, kind), units in zip(runs, provision.counts, strict=True)
        )

    def parts(self, run: Run) -> Parts:
        """Return the parts of a run; an infinite first one where it cannot be a stage."""
        found = self._parts.get(run)
        if found is None:
            found = self._parts[run] = self.formulation.table.parts(*run)
        return found

    def balanced(self, runs: Sequence[Run]) -> Provision | None:
        """Return the best units whose other stages are balanced to the first one (see `balance_load`)."""
        parts = [self.parts(run) for run in runs]
        mosts = [self._limits[run[2]] for run in runs]
        lowest = fewest_units(parts[0], self._slowest_s, mosts[0])
        if not lowest:
            return None
        highest = min(mosts[0], lowest + MOST_FIRST_UNITS) if mosts[0] == MOST_UNITS else mosts[0]
        best: Provision | None = None
        before = math.inf
        others = list(zip(parts[1:], mosts[1:], strict=True))
        for units in range(lowest, highest + 1):
            check_time()
            target = _time_s(parts[0], units)
            if target >= before:
                break  # the first stage is as fast as it gets
            before, limit = target, min(loosened(target), self._slowest_s)
            counts = [units]
            for part, most in others:
                counts.append(fewest_units(part, limit, most))
                if not counts[-1]:
                    return best  # more units make the first stage faster still; the others cannot follow
            state = self._state(runs, parts, counts)
            if state.over:
                return best
            best = self._better(best, counts, state.time_s, state.rate)
            if self._hopeless(best, state.time_s, state.rate, state.work, state.serial_s):
                return best
        return best

    def exact(
        self, runs: Sequence[Run], fastest_s: float = 0.0, slowest_s: float = math.inf
    ) -> Provision | None:
        """Return the best units of all (see `provision_exactly`).

        Stage times are swept downwards: the slowest stage gets one more unit, as long as that makes it
        faster. (If one more does not, a part that is all serial decides, and no number does.) So every
        stage always has the fewest units for the stage time reached, and every useful plan is passed.
        """
        parts = [self.parts(run) for run in runs]
        limit = min(loosened(slowest_s), self._slowest_s)
        counts = [
            fewest_units(part, limit, self._limits[run[2]]) for part, run in zip(parts, runs, strict=True)
        ]
        if not all(counts):
            return None
        state = self._state(runs, parts, counts)
        queue = [(-_time_s(part, k), i) for i, (part, k) in enumerate(zip(parts, counts, strict=True))]
        heapq.heapify(queue)
        best: Provision | None = None
        for step in range(MOST_STEPS):
            check_time()
            time, slowest = -queue[0][0], queue[0][1]
            if state.over or (step and time < fastest_s):
                break
            best = self._better(best, counts, time, state.rate)
            if self._hopeless(best, time, state.rate, state.work, state.serial_s):
                break
            counts[slowest] += 1
            faster = _time_s(parts[slowest], counts[slowest])
            if faster >= time:
                break
            heapq.heapreplace(queue, (-faster, slowest))
            price = self._prices[runs[slowest][2]]
            state.work += price * (counts[slowest] * faster - (counts[slowest] - 1) * time)
            self._add_unit(state, runs[slowest][2])
        return best

    def shortfall(self, runs: Sequence[Run]) -> float:
        """Return how far limits, floor, memory and budgets are from a plan on these stages.

        It guides methods that begin far from any plan: the sum over stages that cannot be as fast as the
        floor of their serial parts' excess, and of the excess of the units and money that the others take
        at the floor, all relative; a stage that cannot be at all counts one and its share of the layers.
        """
        used: dict[int, int] = {}
        time, total = 0.0, 0.0
        for run in runs:
            part, kind = self.parts(run), run[2]
            if part[0] == math.inf:
                total += 1 + (run[1] - run[0] + 1) / (runs[-1][1] + 1)
                continue
            units = fewest_units(part, self._slowest_s, MOST_UNITS)
            if units:
                used[kind] = used.get(kind, 0) + units
                time = max(time, _time_s(part, units))
            else:
                total += max(part[0], part[2]) / self._slowest_s
        rate = math.fsum(self._prices[kind] * units for kind, units in used.items())
        amounts = [(float(units), float(self._limits[kind])) for kind, units in used.items()]
        amounts += [(rate, self._budget), (self.formulation.cost_usd(time, rate), self._cost_limit)]
        return total + sum(max(0.0, amount / limit - 1) for amount, limit in amounts)

    def _state(self, runs: Sequence[Run], parts: Sequence[Parts], counts: Sequence[int]) -> _State:
        used: dict[int, int] = {}
        time, work, serial = 0.0, 0.0, 0.0
        for run, part, units in zip(runs, parts, counts, strict=True):
            own = _time_s(part, units)
            time = max(time, own)
            work += self._prices[run[2]] * units * own
            serial = max(serial, part[0], part[2])
            used[run[2]] = used.get(run[2], 0) + units
        state = _State(used, time, work, serial)
        self._tally(state)
        return state

    def _add_unit(self, state: _State, kind: int) -> None:
        state.used[kind] += 1
        self._tally(state)

    def _tally(self, state: _State) -> None:
        state.rate = math.fsum(self._prices[kind] * units for kind, units in state.used.items())
        state.over = state.rate > self._budget or any(
            units > self._limits[kind] for kind, units in state.used.items()
        )

    def _better(
        self, best: Provision | None, counts: Sequence[int], time: float, rate: float
    ) -> Provision | None:
        cost = self.formulation.cost_usd(time, rate)
        score = cost if self._by_cost else time
        if cost > self._cost_limit or time > self._slowest_s or (best is not None and score >= best.score):
            return best
        return Provision(tuple(counts), score)

    def _hopeless(
        self, best: Provision | None, time: float, rate: float, work: float, serial_s: float
    ) -> bool:
        """Return whether more units cannot give a plan that is better beyond rounding."""
        least = self.formulation.cost_factor * max(work, serial_s * rate)
        if least * (1 - TOLERANCE) > self._cost_limit:
            return True
        if best is None:
            return False
        if self._by_cost:
            return least >= best.score * (1 - TOLERANCE)
        return serial_s >= time * (1 - TOLERANCE)


@dataclass
class _State:
    """Units in use by type, the slowest stage's time, Σ π k·ET(k), the largest serial part, the USD/h."""

    used: dict[int, int]
    time_s: float
    work: float
    serial_s: float
    rate: float = 0.0
    over: bool = False


def fewest_units(parts: Parts, time_s: float, most: int) -> int:
    """Return the smallest k from 1 to `most` with ET(k) ≤ time_s, or 0; rounding is left to the caller.

    The ceiling of A/(τ − S) can be one off at an exact breakpoint, so the very time that counts corrects it.
    """
    serial, parallel, comm_serial, comm_parallel = parts
    if serial == math.inf or serial > time_s or comm_serial > time_s:
        return 0
    need = 1
    if parallel > 0:
        if serial >= time_s or parallel > most * (time_s - serial) * (1 + TOLERANCE):
            return 0
        need = math.ceil(parallel / (time_s - serial))
    if comm_parallel > 0:
        if comm_serial >= time_s or comm_parallel > most * (time_s - comm_serial) * (1 + TOLERANCE):
            return 0
        need = max(need, math.ceil(comm_parallel / (time_s - comm_serial)))
    need = max(need, 1)
    while need > 1 and _time_s(parts, need - 1) <= time_s:
        need -= 1
    while _time_s(parts, need) > time_s:
        need += 1
        if need > most:
            return 0
    return need if need <= most else 0


def _time_s(parts: Parts, units: int) -> float:
    compute = parts[0] + parts[1] / units
    communication = parts[2] + parts[3] / units
    return compute if compute >= communication else communication


def _loose(limit: float | None) -> float:
    return math.inf if limit is None else loosened(limit)
