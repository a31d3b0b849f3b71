"""The simple baselines and the breeding of the genetic algorithm, on layers computed by hand."""

from __future__ import annotations

import math

import numpy as np
from staging_instances import half_serial, two_layers

from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.stages import Stage, min_units
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.staging.heterps.provisioning import Provisioner, segments_of
from clusterplan.solvers.staging.heterps.type_search import (
    ELITE,
    Breeder,
    Genetic,
    Greedy,
    SingleType,
    TypeSearch,
)

EXACT = SolveOptions(method_options={"provisioning": "exact"})


def test_single_type_is_the_best_plan_on_one_type() -> None:
    """Both layers on one unit: 12 s at 1 USD/h, or 2.2 s at 5 USD/h, for one hour of each second."""
    outcome = SingleType().solve(StagingFormulation(two_layers()), EXACT, Clock())
    assert outcome.plan == (Stage(first_layer=0, last_layer=1, type="fast", units=1),)
    assert outcome.message == "single-type: 2 of 2 types tried"


def test_greedy_revises_a_choice_that_leaves_nothing_for_the_next_layer() -> None:
    """Alone the first layer is cheapest on the cheap type, which then has no unit left for the second."""
    types = [
        {"name": "slow", "price_usd_per_hour": 0.01, "limit": 1, "memory_gib": 1},
        {"name": "fast", "price_usd_per_hour": 5, "limit": 2},
    ]
    layers = [
        {"name": "a", "compute_s": {"slow": 1, "fast": 1}, "compute_parallel": 1, "memory_gib": 1},
        {"name": "b", "compute_s": {"slow": 1}, "compute_parallel": 1, "memory_gib": 1},
    ]
    instance = two_layers(types=types, layers=layers)
    outcome = Greedy().solve(StagingFormulation(instance), EXACT, Clock())
    assert [stage.type for stage in outcome.plan] == ["fast", "slow"]


def test_greedy_says_that_it_found_nothing() -> None:
    """It proves nothing by that."""
    formulation = StagingFormulation(half_serial(2, cost_limit_usd=0.5))
    outcome = Greedy().solve(formulation, EXACT, Clock())
    assert (outcome.plan, outcome.infeasible) == (None, False)
    assert outcome.message == "greedy: no plan found within the limits"


def breeder(seed: int) -> Breeder:
    formulation = StagingFormulation(generate_staging(8, 3, "loose", seed=1))
    return Breeder(TypeSearch(formulation, "exact", Clock()), np.random.default_rng(seed))


def test_generations_keep_the_elite_and_never_get_worse() -> None:
    """Every individual has a type that can run it for each layer."""
    own = breeder(0)
    population = own.first(12)
    assert [set(types) for _, types in population[:3]] == [{0}, {1}, {2}]
    for _ in range(5):
        children = own.next(population, 12)
        assert len(children) == 12
        assert sorted(children)[0] <= sorted(population)[0]
        assert children[:ELITE] == sorted(population)[:ELITE]
        population = children
    assert all(t in own.able[layer] for _, types in population for layer, t in enumerate(types))


def test_mutation_changes_one_range_of_layers() -> None:
    """The layers that change get one type, and stand together."""
    own, types = breeder(1), (0, 0, 0, 1, 1, 2, 2, 2)
    changes = set()
    for _ in range(200):
        mutated = own._mutated(types)
        changed = [layer for layer in range(8) if mutated[layer] != types[layer]]
        assert len({mutated[layer] for layer in changed}) <= 1
        if changed:
            inner = mutated[changed[0] : changed[-1] + 1]
            assert len(set(inner)) == 1
        changes.add(len(changed))
    assert len(changes) > 3


def test_a_child_has_a_range_of_one_parent_within_the_other() -> None:
    """Two-point crossover."""
    own = breeder(2)
    for _ in range(50):
        child = own._crossed((0,) * 8, (1,) * 8)
        assert len(segments_of(child)) <= 3
        assert set(child) <= {0, 1}


def test_genetic_stops_at_its_evaluations() -> None:
    """The single types are among the first, so one layer is solved at once."""
    options = SolveOptions(seed=1, method_options={"evaluations": 5, "population": 2})
    outcome = Genetic().solve(StagingFormulation(half_serial(4)), options, Clock())
    assert outcome.plan == (Stage(first_layer=0, last_layer=0, type="t", units=1),)
    assert (outcome.message or "").startswith("genetic: 5 choices of types")


def test_load_balance_by_hand() -> None:
    """Of `a` on two units, 3 s, `b` needs three: ⌈8/3⌉; the cheapest k_1 is kept."""
    provisioner = Provisioner(StagingFormulation(two_layers(stage_rule="free_cuts")))
    assert min_units(provisioner.parts((1, 1, 0)), 3.0, 8) == 3
    assert min_units(provisioner.parts((1, 1, 0)), 1.2, 8) == 0
    found = provisioner.balanced([(0, 0, 0), (1, 1, 0)])
    assert found.counts == (1, 2)  # 4 s on 3 units; 3 s on 5 units, 2.67 s on 6 cost more


def test_the_violation_grows_with_what_is_missing() -> None:
    """A plan within all limits has none."""

    def violation(limit: int) -> float:
        formulation = StagingFormulation(half_serial(limit, throughput_floor_samples_per_s=1.6))
        return Provisioner(formulation).violation([(0, 0, 0)])

    assert [violation(limit) for limit in (4, 2, 1)] == [0.0, 1.0, 3.0]
    assert math.isfinite(violation(1))
