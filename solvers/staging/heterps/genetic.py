"""A genetic algorithm over a type for each layer (Holland 1975; Goldberg 1989; one of HeterPS's baselines).

Choices of types are bred, not bits: crossover swaps a whole range of layers, so that the segments of both
parents survive, and mutation moves a boundary between two segments or gives a segment or a random range
another type.

With 5,000 evaluations, over 20 synthetic instances of 16 layers on 2 types and `heterps-ctr`, its plans cost
0 % more than the optimum in the median and 3 % at most with exact units; 3 % and 12 % with load balance,
which found no plan for one. The default is larger for larger instances: on 30 layers and 4 types, and on 50
and 8, ten times as many evaluations halve the distance and more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....formulations.staging.formulation import StagingFormulation
from ...common.base import Clock, MethodOption, Outcome, Solver
from ...common.options import SolveOptions
from .provisioning import Segment, segments_of
from .type_search import PROVISIONING, Fitness, Types, TypeSearch, assign, random_types


@dataclass(frozen=True)
class GeneticSettings:
    """Tuning of the genetic algorithm.

    Attributes
    ----------
    tournament_size
        Individuals of which the fittest becomes a parent.
    crossover_rate, mutation_rate
        Probabilities for each child.
    immigrant_rate
        Probability that a child is random instead.
    elite
        Individuals that survive unchanged.
    boundary_share, segment_share
        Of mutations: those that move a boundary, and those that give a whole segment another type.
    """

    tournament_size: int = 3
    crossover_rate: float = 0.9
    mutation_rate: float = 0.7
    immigrant_rate: float = 0.1
    elite: int = 2
    boundary_share: float = 0.4
    segment_share: float = 0.3


SETTINGS = GeneticSettings()
Individual = tuple[Fitness, Types]


class Genetic(Solver[StagingFormulation]):
    """Tournament selection, two-point crossover, mutation of segments, and an elite that survives."""

    name = "genetic"
    kinds = ("staging",)
    method_options = {
        "provisioning": PROVISIONING,
        "evaluations": MethodOption(50_000, "how many choices of types are judged", least=1),
        "population": MethodOption(100, "how many choices of types make a generation", least=2),
    }
    what = "a genetic algorithm over a type for each layer (HeterPS's baseline)"

    def solve(self, formulation: StagingFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Breed one generation after the other until the budget or the time is used up."""
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
    """Makes generations of individuals, each judged when it is made; stops short when the search is over."""

    def __init__(self, search: TypeSearch, rng: np.random.Generator) -> None:
        self.search, self.rng, self.able = search, rng, search.able

    def first(self, size: int) -> list[Individual]:
        """Return one individual for each type, as far as it can run the layers, and random ones."""
        layers, types = len(self.able), len(self.search.formulation.instance.types)
        found: list[Individual] = []
        for index in range(size):
            if self.search.over:
                break
            if index < types:
                choice = tuple(assign([0] * layers, 0, layers, index, self.able, self.rng))
            else:
                choice = random_types(self.able, self.rng)
            found.append(self._evaluated(choice))
        return found

    def next(self, population: list[Individual], size: int) -> list[Individual]:
        """Return the elite and its offspring."""
        # At least one child a generation, or the smallest population would never use up its evaluations.
        children = sorted(population)[: min(SETTINGS.elite, size - 1)]
        while len(children) < size and not self.search.over:
            if self.rng.random() < SETTINGS.immigrant_rate:
                children.append(self._evaluated(random_types(self.able, self.rng)))
                continue
            child = self._parent(population)
            if self.rng.random() < SETTINGS.crossover_rate:
                child = self._crossed(child, self._parent(population))
            if self.rng.random() < SETTINGS.mutation_rate:
                child = self._mutated(child)
            children.append(self._evaluated(child))
        return children

    def _evaluated(self, types: Types) -> Individual:
        return self.search.fitness(types), types

    def _parent(self, population: list[Individual]) -> Types:
        rivals = self.rng.integers(0, len(population), SETTINGS.tournament_size)
        return min(population[int(i)] for i in rivals)[1]

    def _crossed(self, one: Types, other: Types) -> Types:
        first, end = sorted(int(i) for i in self.rng.integers(0, len(one) + 1, 2))
        return one[:first] + other[first:end] + one[end:]

    def _mutated(self, types: Types) -> Types:
        segments = segments_of(types)
        sort = self.rng.random()
        if sort < SETTINGS.boundary_share and len(segments) > 1:
            return self._with_boundary_moved(types, segments)
        if sort < SETTINGS.boundary_share + SETTINGS.segment_share:
            first, last, _ = segments[int(self.rng.integers(0, len(segments)))]
            end = last + 1
        else:
            first, end = sorted(int(i) for i in self.rng.integers(0, len(types) + 1, 2))
            end = max(end, first + 1) if first < len(types) else end
        if first >= len(types):
            return types
        return self._assigned(types, first, end, int(self.rng.choice(self.able[first])))

    def _with_boundary_moved(self, types: Types, segments: list[Segment]) -> Types:
        """Return the types with one of two neighbouring segments longer, by one layer most often."""
        at = int(self.rng.integers(1, len(segments)))
        boundary, layers = segments[at][0], int(self.rng.geometric(0.5))
        if self.rng.random() < 0.5:
            return self._assigned(types, boundary, min(boundary + layers, len(types)), segments[at - 1][2])
        return self._assigned(types, max(boundary - layers, 0), boundary, segments[at][2])

    def _assigned(self, types: Types, first: int, end: int, unit_type: int) -> Types:
        return tuple(assign(list(types), first, end, unit_type, self.able, self.rng))
