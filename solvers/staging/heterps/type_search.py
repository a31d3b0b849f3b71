"""Search over the type of each layer by HeterPS's baselines: greedy, single type, genetic, Bayesian.

A choice of types stands for its maximal segments as stages, with units by one of the ways of provisioning.
Under `free_cuts` these methods produce maximal segments all the same: two neighbours of one type cost no
less than one stage of both, but a segment may exceed a unit's memory where its two halves do not.

Greedy: layer after layer, the type that makes the plan so far best. Single type: every layer on the same
type, the simplest of the baselines.

Genetic algorithm (Holland 1975; Goldberg 1989): choices of types are bred, not bits. Crossover swaps a
whole range of layers, so that the segments of both parents survive, and mutation moves a boundary between
two segments or gives a segment or a random range another type. With 5,000 evaluations, over 20 synthetic
instances of 16 layers on 2 types and `heterps-ctr`, its plans cost 0 % more than the optimum in the median
and 3 % at most with exact units; 3 % and 12 % with load balance, which found no plan for one. The default
is larger for larger instances: on 30 layers and 4 types, and on 50 and 8, ten times as many evaluations
halve the distance and more.

Bayesian optimisation with Optuna's TPE: the tree-structured Parzen estimator (Bergstra et al. 2011) models
the types of good and of other choices as two densities over all layers together, and proposes what is
likely in the first and unlikely in the second. The library is imported only when it is used. At its
defaults, over the same instances, its plans cost 0.3 % more than the optimum in the median and 11 % at most
with exact units, and it found none for two; 4 % and 11 % with load balance, and none for four.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from ....formulations.staging.formulation import StagingFormulation
from ....formulations.staging.stages import Stage
from ....instances.common.errors import OutOfTimeError
from ...backends.base import missing_package_text, no_warnings
from ...common.base import Clock, MethodOption, Outcome, Solver, Trace
from ...common.result import SolveOptions
from .provisioning import WAYS, Provision, Provisioner, Segment, Way, segments_of

PROVISIONING = MethodOption("load-balance", "how stages get their units: as the paper does, or exactly", WAYS)
MAX_TRACE = 200
"""Most points of a trace."""


MOST_REMEMBERED = 10_000_000
"""Most layers' types that are cached, so that no choice of types is provisioned twice."""
WORST_FEASIBLE = 3.0
"""The penalised objective of a feasible choice at most; infeasible ones lie above."""
MOST_BOUNDARY_SHARE = 0.5
"""A random choice of types changes type at up to this share of the layers."""


Types = tuple[int, ...]
"""A type for each layer, as indices."""


@dataclass(frozen=True, order=True)
class Fitness:
    """Fitness of an assignment of types: the smaller the better; feasible ones precede all others.

    Attributes
    ----------
    violation
        0 if there is a plan; else by how much limits, floor and memory are violated.
    score
        The cost or the stage time, according to the objective.
    """

    violation: float
    score: float

    @property
    def feasible(self) -> bool:
        """Whether the assignment of types has a feasible plan."""
        return self.violation == 0


NOT_EVALUATED = Fitness(1e300, math.inf)
"""Fitness of a choice that was not evaluated in time."""


class TypeSearch:
    """Evaluates assignments of types to layers within a budget; keeps the best plan and a trace.

    Parameters
    ----------
    most
        Most choices that are evaluated, repeated ones included.
    """

    def __init__(
        self, formulation: StagingFormulation, way: Way, clock: Clock, most: float = math.inf
    ) -> None:
        self.formulation, self.way, self.clock, self.most = formulation, way, clock, most
        self.provisioner = Provisioner(formulation)
        self.judged = 0
        self.best: tuple[Fitness, Types] | None = None
        self.plan: tuple[Stage, ...] | None = None
        self.trace: Trace = []
        self._known: dict[Types, Fitness] = {}
        self._scale = 0.0

    @cached_property
    def able(self) -> list[Sequence[int]]:
        """Indices of the types that can run each layer, never empty.

        Layers that no type can run are mostly ruled out before; the types of others do not matter.
        """
        types = range(len(self.formulation.instance.types))
        return [
            [
                unit_type
                for unit_type in types
                if self.provisioner.parts((layer, layer, unit_type))[0] < math.inf
            ]
            or types
            for layer in range(self.formulation.table.layers)
        ]

    @property
    def over(self) -> bool:
        """Whether the time limit or the budget of evaluations is used up."""
        return self.judged >= self.most or self.clock.expired

    def fitness(self, types: Sequence[int]) -> Fitness:
        """Return the fitness of an assignment of types to layers; the worst if there is no time."""
        self.judged += 1
        key = tuple(types)
        known = self._known.get(key)
        if known is not None:
            return known
        segments = segments_of(key)
        try:
            provision = self.provisioner.provision(segments, self.way)
        except OutOfTimeError:
            return NOT_EVALUATED
        if provision is None:
            fitness = Fitness(1 + self.provisioner.violation(segments), math.inf)
        else:
            fitness = Fitness(0.0, provision.score)
        # A choice that comes again costs a look-up, not a provisioning, but counts as an evaluation.
        if len(self._known) * len(key) < MOST_REMEMBERED:
            self._known[key] = fitness
        if self.best is None or fitness < self.best[0]:
            self.best = fitness, key
            if provision is not None:
                self.plan = self.provisioner.plan(segments, provision)
                value = self.formulation.evaluate(self.plan)[0]
                self.trace.append((self.clock.elapsed_s, value, None))
        return fitness

    def loss(self, types: Sequence[int]) -> float:
        """Return one finite number to minimise: ln of the relative score, or a penalty above it.

        A difference of 0.01 is about a per cent of the cost. A feasible choice has ln(score) relative to the
        first feasible one, at most `WORST_FEASIBLE`; the others have more than that, by their violation.
        """
        fitness = self.fitness(types)
        if not fitness.feasible:
            return WORST_FEASIBLE + math.log1p(fitness.violation)
        if not self._scale:
            self._scale = fitness.score
        ratio = fitness.score / self._scale if self._scale > 0 else 1.0
        return min(math.log(max(ratio, 1e-6)), WORST_FEASIBLE)

    def outcome(self, message: str) -> Outcome:
        """Return the outcome with the best plan found and the (thinned) trace of its objective values."""
        time_is_up = self.clock.expired and self.judged < self.most
        if self.plan is None:
            message += "; no plan found within limits, floor and budgets"
        elif self.trace:
            self.trace.append((self.clock.elapsed_s, self.trace[-1][1], None))
        count = len(self.trace)
        kept = np.linspace(0, count - 1, min(count, MAX_TRACE)).round()
        return Outcome(
            self.plan,
            limit="time" if time_is_up else "none",
            message=message,
            trace=[self.trace[int(index)] for index in kept],
        )


def random_types(able: Sequence[Sequence[int]], rng: np.random.Generator) -> Types:
    """Return a random assignment of types to layers: random runs of layers with random types.

    Independent types for all layers would nearly always make L/2 segments, and good plans have few.
    """
    size, most = len(able), MOST_BOUNDARY_SHARE
    cuts = np.flatnonzero(rng.random(size - 1) < rng.uniform(0, most)) + 1 if size > 1 else np.empty(0, int)
    types: list[int] = []
    for first, last in itertools.pairwise([0, *cuts.tolist(), size]):
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
    """Assign one type to layers `first` to `end` − 1 in place, a random one where it cannot run them."""
    for layer in range(first, end):
        types[layer] = unit_type if unit_type in able[layer] else int(rng.choice(able[layer]))
    return types


TOURNAMENT_SIZE = 3
"""Individuals of which the fittest becomes a parent."""
CROSSOVER_RATE = 0.9
MUTATION_RATE = 0.7
"""Probabilities for each child."""
IMMIGRANT_RATE = 0.1
"""Probability that a child is random instead."""
ELITE = 2
"""Individuals that survive unchanged."""
BOUNDARY_SHARE = 0.4
SEGMENT_SHARE = 0.3
"""Of mutations: those that move a boundary, and those that give a whole segment another type."""


Individual = tuple[Fitness, Types]


class TypeMethod(Solver[StagingFormulation]):
    """Base of the methods that choose a type for each layer, and units by one of the ways of provisioning."""

    kinds = ("staging",)
    method_options = {"provisioning": PROVISIONING}


class Genetic(TypeMethod):
    """Genetic algorithm: tournament selection, two-point crossover, mutation of runs of layers, elitism."""

    name = "genetic"
    method_options = {
        "provisioning": PROVISIONING,
        "evaluations": MethodOption(50_000, "how many choices of types are judged", least=1),
        "population": MethodOption(100, "how many choices of types make a generation", least=2),
    }
    what = "a genetic algorithm over a type for each layer (HeterPS's baseline)"

    def solve(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Breed generations until the budget of evaluations or the time is used up; return the best plan."""
        search = TypeSearch(
            formulation, self.setting(options, "provisioning"), clock, self.setting(options, "evaluations")
        )
        size: int = self.setting(options, "population")
        breeder = Breeder(search, np.random.default_rng(options.seed or 0))
        population = breeder.first(size)
        generations = 1
        while not search.over:
            population = breeder.next(population, size)
            generations += 1
        return search.outcome(f"genetic: {search.judged:,} choices of types in {generations} generations")


class Breeder:
    """Creates generations of evaluated assignments of types; stops early when the search is over."""

    def __init__(self, search: TypeSearch, rng: np.random.Generator) -> None:
        self.search, self.rng, self.able = search, rng, search.able

    def first(self, size: int) -> list[Individual]:
        """Return the first generation: one assignment per hardware type, then random ones."""
        layers, types = len(self.able), len(self.search.formulation.instance.types)
        individuals: list[Individual] = []
        for index in range(size):
            if self.search.over:
                break
            if index < types:
                choice = tuple(assign([0] * layers, 0, layers, index, self.able, self.rng))
            else:
                choice = random_types(self.able, self.rng)
            individuals.append(self._evaluated(choice))
        return individuals

    def next(self, population: list[Individual], size: int) -> list[Individual]:
        """Return the next generation: the elite, then offspring and random immigrants."""
        # At least one child a generation, or the smallest population would never use up its evaluations.
        children = sorted(population)[: min(ELITE, size - 1)]
        while len(children) < size and not self.search.over:
            if self.rng.random() < IMMIGRANT_RATE:
                children.append(self._evaluated(random_types(self.able, self.rng)))
                continue
            child = self._parent(population)
            if self.rng.random() < CROSSOVER_RATE:
                child = self._crossed(child, self._parent(population))
            if self.rng.random() < MUTATION_RATE:
                child = self._mutated(child)
            children.append(self._evaluated(child))
        return children

    def _evaluated(self, types: Types) -> Individual:
        return self.search.fitness(types), types

    def _parent(self, population: list[Individual]) -> Types:
        rivals = self.rng.integers(0, len(population), TOURNAMENT_SIZE)
        return min(population[int(i)] for i in rivals)[1]

    def _crossed(self, one: Types, other: Types) -> Types:
        first, end = sorted(int(i) for i in self.rng.integers(0, len(one) + 1, 2))
        return one[:first] + other[first:end] + one[end:]

    def _mutated(self, types: Types) -> Types:
        segments = segments_of(types)
        sort = self.rng.random()
        if sort < BOUNDARY_SHARE and len(segments) > 1:
            return self._with_boundary_moved(types, segments)
        if sort < BOUNDARY_SHARE + SEGMENT_SHARE:
            first, last, _ = segments[int(self.rng.integers(0, len(segments)))]
            end = last + 1
        else:
            first, end = sorted(int(i) for i in self.rng.integers(0, len(types) + 1, 2))
            end = max(end, first + 1)
        if first >= len(types):
            return types
        return self._assigned(types, first, end, int(self.rng.choice(self.able[first])))

    def _with_boundary_moved(self, types: Types, segments: list[Segment]) -> Types:
        """Return the types with one of two neighbouring runs longer, mostly by one layer."""
        at = int(self.rng.integers(1, len(segments)))
        boundary, layers = segments[at][0], int(self.rng.geometric(0.5))
        if self.rng.random() < 0.5:
            return self._assigned(types, boundary, min(boundary + layers, len(types)), segments[at - 1][2])
        return self._assigned(types, max(boundary - layers, 0), boundary, segments[at][2])

    def _assigned(self, types: Types, first: int, end: int, unit_type: int) -> Types:
        return tuple(assign(list(types), first, end, unit_type, self.able, self.rng))


RANDOM_STARTS = 100
"""Random choices of types that are evaluated first, beside each type alone."""


class Bayesian(TypeMethod):
    """Bayesian optimisation by the tree-structured Parzen estimator, started with each single type."""

    name = "bayesian"
    method_options = {
        "provisioning": PROVISIONING,
        "evaluations": MethodOption(500, "how many choices of types are judged", least=1),
    }
    what = "Bayesian optimisation (Optuna's TPE) over a type for each layer (HeterPS's baseline)"

    def unavailable(self) -> str | None:
        """Return how to install Optuna, None if it is installed."""
        return missing_package_text("optuna", "optuna", "'clusterplan[bayes]'")

    def solve(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Optimise the types of layers by TPE until the evaluations or the time are used up."""
        search = TypeSearch(
            formulation, self.setting(options, "provisioning"), clock, self.setting(options, "evaluations")
        )
        with no_warnings():  # Optuna calls some of its samplers' options experimental
            _study(search, options.seed or 0)
        return search.outcome(f"bayesian: {search.judged:,} choices of types")


def _study(search: TypeSearch, seed: int) -> None:
    optuna: Any = import_module("optuna")  # untyped, so that types are checked alike without it

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=1)
        study = optuna.create_study(sampler=sampler)
        space = {
            f"layer-{layer}": optuna.distributions.CategoricalDistribution(types)
            for layer, types in enumerate(search.able)
        }
        for unit_type in range(len(search.formulation.instance.types)):
            alike = [unit_type if unit_type in able else able[0] for able in search.able]
            study.enqueue_trial(dict(zip(space, alike, strict=True)))
        # Random choices of few segments: independent ones would change type at nearly every layer.
        rng = np.random.default_rng(seed)
        for _ in range(RANDOM_STARTS):
            study.enqueue_trial(dict(zip(space, random_types(search.able, rng), strict=True)))
        while not search.over:
            trial = study.ask(space)
            types = [trial.params[name] for name in space]
            study.tell(trial, search.loss(types))
    finally:
        optuna.logging.set_verbosity(before)


MAX_TRIALS = 20_000
"""Most partial plans that greedy provisions."""


class Greedy(TypeMethod):
    """Greedy heuristic: layer after layer the type with the best score of the plan so far; backtracks.

    Where no type for the next layer goes with the choices before it (limits are used up), the last
    choice that has an alternative is revised.
    """

    name = "greedy"
    what = "the paper's baseline: layer after layer the best type, units by load balance (HeterPS)"

    def solve(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Assign a type to one layer after another, the best first, with backtracking; return the plan."""
        size, way = formulation.table.layers, self.setting(options, "provisioning")
        provisioner = Provisioner(formulation)
        trials = 0

        def ranked(types: list[int]) -> list[tuple[int, Provision]]:
            """Return the next layer's feasible types, with the partial plan's units, by descending score."""
            nonlocal trials
            feasible = []
            for unit_type in range(len(formulation.instance.types)):
                trials += 1
                provision = provisioner.provision(segments_of([*types, unit_type]), way)
                if provision is not None:
                    feasible.append((unit_type, provision))
            return sorted(feasible, key=lambda f: (-f[1].score, -f[0]))

        types: list[int] = []
        open_choices = [ranked(types)]
        while open_choices:
            if clock.expired:
                return Outcome(limit="time", message="greedy: the time was up before all layers had a type")
            if trials > MAX_TRIALS:
                return Outcome(message=f"greedy: found no plan among {MAX_TRIALS:,} partial ones")
            # No type is left for this layer: the choice for the layer before is revised.
            if not open_choices[-1]:
                open_choices.pop()
                types = types[:-1]
                continue
            unit_type, provision = open_choices[-1].pop()
            types = [*types, unit_type]
            if len(types) == size:
                return Outcome(provisioner.plan(segments_of(types), provision))
            open_choices.append(ranked(types))
        return Outcome(message="greedy: no plan found within the limits")


class SingleType(TypeMethod):
    """Baseline: the best plan that has one hardware type for all layers."""

    name = "single-type"
    what = "the best plan whose layers all run on one type (HeterPS's homogeneous baselines)"

    def solve(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Evaluate each hardware type for all layers; return the best plan."""
        layers, types = formulation.table.layers, len(formulation.instance.types)
        search = TypeSearch(formulation, self.setting(options, "provisioning"), clock, types)
        for unit_type in range(types):
            if search.over:
                break
            search.fitness([unit_type] * layers)
        return search.outcome(f"single-type: {search.judged} of {types} types tried")
