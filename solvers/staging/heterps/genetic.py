"""A genetic algorithm over a type for each layer (one of HeterPS's baselines).

Choices of types are bred, not bits: crossover swaps a whole range of layers, so that the runs of both parents
survive, and mutation moves a boundary between two runs or paints a run or a random range with another type.

With 5,000 evaluations, over 20 synthetic instances of 16 layers on 2 types and `heterps-ctr`, its plans cost
0 % more than the optimum in the median and 3 % at most with exact units; 3 % and 12 % with load balance,
which found no plan for one. The default is larger for larger instances: on 30 layers and 4 types, and on 50
and 8, ten times as many evaluations halve the distance and more.
"""

from __future__ import annotations

import numpy as np

from ....formulations.staging.formulation import StagingFormulation
from ...common.base import Clock, MethodOption, Outcome, Solver
from ...common.options import SolveOptions
from .provisioning import runs_of
from .type_search import PROVISIONING, Merit, Search, Types, paint, random_types

RIVALS = 3
CROSSOVER = 0.9
MUTATION = 0.7
IMMIGRANTS = 0.1
ELITE = 2

Individual = tuple[Merit, Types]


class Genetic(Solver[StagingFormulation]):
    """Tournament selection, two-point crossover, mutation of runs, and an elite that survives."""

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
        search = Search(
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

    def __init__(self, search: Search, rng: np.random.Generator) -> None:
        self.search, self.rng, self.able = search, rng, search.able

    def first(self, size: int) -> list[Individual]:
        """Return one individual for each type, as far as it can run the layers, and random ones."""
        layers, kinds = len(self.able), len(self.search.formulation.instance.types)
        found: list[Individual] = []
        for index in range(size):
            if self.search.over:
                break
            if index < kinds:
                types = tuple(paint([0] * layers, 0, layers, index, self.able, self.rng))
            else:
                types = random_types(self.able, self.rng)
            found.append(self._judged(types))
        return found

    def next(self, population: list[Individual], size: int) -> list[Individual]:
        """Return the elite and its offspring."""
        children = sorted(population)[:ELITE]
        while len(children) < size and not self.search.over:
            if self.rng.random() < IMMIGRANTS:
                children.append(self._judged(random_types(self.able, self.rng)))
                continue
            child = self._chosen(population)
            if self.rng.random() < CROSSOVER:
                child = self._crossed(child, self._chosen(population))
            if self.rng.random() < MUTATION:
                child = self._mutated(child)
            children.append(self._judged(child))
        return children

    def _judged(self, types: Types) -> Individual:
        return self.search.merit(types), types

    def _chosen(self, population: list[Individual]) -> Types:
        rivals = self.rng.integers(0, len(population), RIVALS)
        return min(population[int(i)] for i in rivals)[1]

    def _crossed(self, one: Types, other: Types) -> Types:
        first, end = sorted(int(i) for i in self.rng.integers(0, len(one) + 1, 2))
        return one[:first] + other[first:end] + one[end:]

    def _mutated(self, types: Types) -> Types:
        runs = runs_of(types)
        sort = self.rng.random()
        if sort < 0.4 and len(runs) > 1:  # move a boundary: one of two neighbouring runs gets longer
            at = int(self.rng.integers(1, len(runs)))
            boundary, reach = runs[at][0], 1 + int(self.rng.geometric(0.5))
            if self.rng.random() < 0.5:
                return self._painted(types, boundary, min(boundary + reach - 1, len(types)), runs[at - 1][2])
            return self._painted(types, max(boundary - reach + 1, 0), boundary, runs[at][2])
        if sort < 0.7:
            first, last, _ = runs[int(self.rng.integers(0, len(runs)))]
            end = last + 1
        else:
            first, end = sorted(int(i) for i in self.rng.integers(0, len(types) + 1, 2))
            end = max(end, first + 1) if first < len(types) else end
        if first >= len(types):
            return types
        return self._painted(types, first, end, int(self.rng.choice(self.able[first])))

    def _painted(self, types: Types, first: int, end: int, kind: int) -> Types:
        return tuple(paint(list(types), first, end, kind, self.able, self.rng))
