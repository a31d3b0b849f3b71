"""What HeterPS's comparison set shares: a type for each layer is judged by the plan that it means.

A choice of types means its maximal runs as stages, with units by one of the ways of provisioning. Under
`free_cuts` these methods produce maximal runs all the same: two neighbours of one type cost no less than one
stage of both, but a run may exceed a unit's memory where its two halves do not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ....formulations.staging.formulation import StagingFormulation
from ....formulations.staging.plan import Stage
from ....instances.common.errors import OutOfTimeError
from ...common.base import Clock, MethodOption, Outcome
from .provisioning import WAYS, Provisioner, Way, runs_of

PROVISIONING = MethodOption("load-balance", "how stages get their units: as the paper does, or exactly", WAYS)
MOST_REMEMBERED = 10_000_000
"""How many layers' types are remembered, so that no choice of types is provisioned twice."""
MOST_TRACE = 200
WORST_FEASIBLE = 3.0

Types = tuple[int, ...]
"""A type for each layer, as indices."""


@dataclass(frozen=True, order=True)
class Merit:
    """How good a choice of types is; the smaller the better, and any feasible one beats all others.

    Attributes
    ----------
    shortfall
        0 if there is a plan; else how far limits, floor and memory are from allowing one.
    score
        The cost, or the stage time where that is what counts.
    """

    shortfall: float
    score: float

    @property
    def feasible(self) -> bool:
        """Whether there is a plan."""
        return self.shortfall == 0


NEVER = Merit(1e300, math.inf)
"""Of a choice that the time did not suffice for."""


class Search:
    """Judges choices of types within a budget, and keeps the best plan and when it was found.

    Parameters
    ----------
    most
        How many choices may be judged, repeated ones included.
    """

    def __init__(
        self, formulation: StagingFormulation, way: Way, clock: Clock, most: float = math.inf
    ) -> None:
        self.formulation, self.way, self.clock, self.most = formulation, way, clock, most
        self.provisioner = Provisioner(formulation)
        self.judged = 0
        self.best: tuple[Merit, Types] | None = None
        self.plan: tuple[Stage, ...] | None = None
        self.trace: list[tuple[float, float | None, float | None]] = []
        self._known: dict[Types, Merit] = {}

    @cached_property
    def able(self) -> list[list[int]]:
        """The types that can run each layer; never empty, as instances without any are found by counting."""
        kinds = range(len(self.formulation.instance.types))
        return [
            [kind for kind in kinds if self.provisioner.parts((layer, layer, kind))[0] < math.inf]
            for layer in range(len(self.formulation.instance.layers))
        ]

    @property
    def over(self) -> bool:
        """Whether the time or the budget of choices is used up."""
        return self.judged >= self.most or self.clock.expired

    def merit(self, types: Sequence[int]) -> Merit:
        """Judge a choice of types; there is none worse than one that the time did not suffice for."""
        self.judged += 1
        key = tuple(types)
        known = self._known.get(key)
        if known is not None:
            return known
        runs = runs_of(key)
        try:
            provision = self.provisioner.provision(runs, self.way)
        except OutOfTimeError:
            return NEVER
        if provision is None:
            merit = Merit(1 + self.provisioner.shortfall(runs), math.inf)
        else:
            merit = Merit(0.0, provision.score)
        if len(self._known) * len(key) < MOST_REMEMBERED:
            self._known[key] = merit
        if self.best is None or merit < self.best[0]:
            self.best = merit, key
            if provision is not None:
                self.plan = self.provisioner.plan(runs, provision)
                assert self.plan is not None
                value = self.formulation.evaluate(self.plan)[0]
                self.trace.append((self.clock.elapsed_s, value, None))
        return merit

    def outcome(self, message: str) -> Outcome:
        """Return the best plan; the trace ends now."""
        time_is_up = self.clock.expired and self.judged < self.most
        if self.plan is None:
            message += "; no plan found within limits, floor and budgets"
        elif self.trace:
            self.trace.append((self.clock.elapsed_s, self.trace[-1][1], None))
        return Outcome(
            self.plan, limit="time" if time_is_up else "none", message=message, trace=thinned(self.trace)
        )


class Loss:
    """Turns merits into finite numbers to be small, in which a hundredth is about a per cent of the cost.

    A feasible choice has ln(score) relative to the first feasible one, at most `WORST_FEASIBLE`; the
    others have more than that, by their shortfall.
    """

    def __init__(self) -> None:
        self._scale: float | None = None

    def of(self, merit: Merit) -> float:
        """Return the loss of a merit."""
        if not merit.feasible:
            return WORST_FEASIBLE + math.log1p(merit.shortfall)
        if self._scale is None or self._scale == 0:
            self._scale = merit.score
        ratio = merit.score / self._scale if self._scale > 0 else 1.0
        return min(math.log(max(ratio, 1e-6)), WORST_FEASIBLE)


def random_types(able: Sequence[Sequence[int]], rng: np.random.Generator) -> Types:
    """Return random runs of random types; how many runs there are is random too.

    A type for each layer on its own would mean L/2 runs nearly always, and good plans have few.
    """
    size = len(able)
    cuts = np.flatnonzero(rng.random(size - 1) < rng.uniform(0, 0.5)) + 1 if size > 1 else np.empty(0, int)
    types: list[int] = []
    for first, last in zip([0, *cuts.tolist()], [*cuts.tolist(), size], strict=True):
        types = paint([*types, *[0] * (last - first)], first, last, int(rng.choice(able[first])), able, rng)
    return tuple(types)


def paint(
    types: list[int],
    first: int,
    end: int,
    kind: int,
    able: Sequence[Sequence[int]],
    rng: np.random.Generator,
) -> list[int]:
    """Give the layers from `first` to before `end` one type; a layer that it cannot run gets a random one."""
    for layer in range(first, end):
        types[layer] = kind if kind in able[layer] else int(rng.choice(able[layer]))
    return types


def thinned(
    trace: list[tuple[float, float | None, float | None]],
) -> list[tuple[float, float | None, float | None]]:
    """Return at most `MOST_TRACE` points of a trace, the first and the last among them."""
    if len(trace) <= MOST_TRACE:
        return trace
    return [trace[int(i)] for i in np.linspace(0, len(trace) - 1, MOST_TRACE).round()]
