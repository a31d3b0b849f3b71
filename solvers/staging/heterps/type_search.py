"""Search over a type for each layer, shared by the methods that HeterPS (2023) compares.

A choice of types stands for its maximal segments as stages, with units by one of the ways of provisioning.
Under `free_cuts` these methods produce maximal segments all the same: two neighbours of one type cost no less
than one stage of both, but a segment may exceed a unit's memory where its two halves do not.
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
from .provisioning import WAYS, Provisioner, Way, segments_of

PROVISIONING = MethodOption("load-balance", "how stages get their units: as the paper does, or exactly", WAYS)
MOST_TRACE = 200
"""Points of a trace."""


@dataclass(frozen=True)
class TypeSearchSettings:
    """Tuning of the search over types.

    Attributes
    ----------
    most_remembered
        Layers' types that are remembered, so that no choice of types is provisioned twice.
    worst_feasible
        The penalised objective of a feasible choice at most; infeasible ones lie above.
    most_boundary_share
        A random choice of types changes type at up to this share of the layers.
    """

    most_remembered: int = 10_000_000
    worst_feasible: float = 3.0
    most_boundary_share: float = 0.5


SETTINGS = TypeSearchSettings()

Types = tuple[int, ...]
"""A type for each layer, as indices."""


@dataclass(frozen=True, order=True)
class Fitness:
    """The fitness of a choice of types: the smaller the better, and any feasible one beats all others.

    Attributes
    ----------
    violation
        0 if there is a plan; else by how much limits, floor and memory are violated.
    score
        The cost, or the stage time where that is what counts.
    """

    violation: float
    score: float

    @property
    def feasible(self) -> bool:
        """Whether there is a plan."""
        return self.violation == 0


NEVER = Fitness(1e300, math.inf)
"""Of a choice that the time did not suffice for."""


class TypeSearch:
    """Evaluates choices of types within a budget, and keeps the best plan and when it was found.

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
        self.best: tuple[Fitness, Types] | None = None
        self.plan: tuple[Stage, ...] | None = None
        self.trace: list[tuple[float, float | None, float | None]] = []
        self._known: dict[Types, Fitness] = {}

    @cached_property
    def able(self) -> list[list[int]]:
        """The types that can run each layer; never empty, as instances without any are ruled out before."""
        types = range(len(self.formulation.instance.types))
        return [
            [
                unit_type
                for unit_type in types
                if self.provisioner.parts((layer, layer, unit_type))[0] < math.inf
            ]
            for layer in range(len(self.formulation.instance.layers))
        ]

    @property
    def over(self) -> bool:
        """Whether the time or the budget of choices is used up."""
        return self.judged >= self.most or self.clock.expired

    def fitness(self, types: Sequence[int]) -> Fitness:
        """Return the fitness of a choice of types; without time to evaluate it, the worst."""
        self.judged += 1
        key = tuple(types)
        known = self._known.get(key)
        if known is not None:
            return known
        segments = segments_of(key)
        try:
            provision = self.provisioner.provision(segments, self.way)
        except OutOfTimeError:
            return NEVER
        if provision is None:
            fitness = Fitness(1 + self.provisioner.violation(segments), math.inf)
        else:
            fitness = Fitness(0.0, provision.score)
        # A choice that comes again costs a look-up, not a provisioning, but counts as an evaluation.
        if len(self._known) * len(key) < SETTINGS.most_remembered:
            self._known[key] = fitness
        if self.best is None or fitness < self.best[0]:
            self.best = fitness, key
            if provision is not None:
                self.plan = self.provisioner.plan(segments, provision)
                value = self.formulation.evaluate(self.plan)[0]
                self.trace.append((self.clock.elapsed_s, value, None))
        return fitness

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


class PenalisedObjective:
    """Turns fitness into one finite number to minimise, in which 0.01 is about a per cent of the cost.

    A feasible choice has ln(score) relative to the first feasible one, at most `worst_feasible`; the
    others have more than that, by their violation.
    """

    def __init__(self) -> None:
        self._scale: float | None = None

    def of(self, fitness: Fitness) -> float:
        """Return the penalised objective of a fitness."""
        if not fitness.feasible:
            return SETTINGS.worst_feasible + math.log1p(fitness.violation)
        if self._scale is None or self._scale == 0:
            self._scale = fitness.score
        ratio = fitness.score / self._scale if self._scale > 0 else 1.0
        return min(math.log(max(ratio, 1e-6)), SETTINGS.worst_feasible)


def random_types(able: Sequence[Sequence[int]], rng: np.random.Generator) -> Types:
    """Return random segments of random types; the number of segments is random too.

    Independent types for all layers would nearly always make L/2 segments, and good plans have few.
    """
    size, most = len(able), SETTINGS.most_boundary_share
    cuts = np.flatnonzero(rng.random(size - 1) < rng.uniform(0, most)) + 1 if size > 1 else np.empty(0, int)
    types: list[int] = []
    for first, last in zip([0, *cuts.tolist()], [*cuts.tolist(), size], strict=True):
        types = assign([*types, *[0] * (last - first)], first, last, int(rng.choice(able[first])), able, rng)
    return tuple(types)


def assign(
    types: list[int],
    first: int,
    end: int,
    unit_type: int,
    able: Sequence[Sequence[int]],
    rng: np.random.Generator,
) -> list[int]:
    """Give the layers from `first` to before `end` one type; a layer that it cannot run gets a random one."""
    for layer in range(first, end):
        types[layer] = unit_type if unit_type in able[layer] else int(rng.choice(able[layer]))
    return types


def thinned(
    trace: list[tuple[float, float | None, float | None]],
) -> list[tuple[float, float | None, float | None]]:
    """Return at most `MOST_TRACE` points of a trace, the first and the last among them."""
    if len(trace) <= MOST_TRACE:
        return trace
    return [trace[int(i)] for i in np.linspace(0, len(trace) - 1, MOST_TRACE).round()]
