"""HeterPS's comparison set: provisioning against every unit count, and each method's plans and promises."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from imports import ROOT
from random_instances import random_staging
from staging_instances import alone, half_serial, two_layers

import clusterplan
from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.stages import Stage, min_units
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.instances.staging.instance import StagingInstance
from clusterplan.solvers.backends import base
from clusterplan.solvers.backends.base import seeded_torch
from clusterplan.solvers.common.base import Clock, MethodOption
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import find_solver, solvers_for
from clusterplan.solvers.run import solve_with
from clusterplan.solvers.staging.heterps.provisioning import Provisioner, Segment, Way, segments_of
from clusterplan.solvers.staging.heterps.reinforce import Policy, features
from clusterplan.solvers.staging.heterps.type_search import (
    ELITE,
    MAX_TRACE,
    Breeder,
    Genetic,
    Greedy,
    SingleType,
    TypeSearch,
    random_types,
)

EXAMPLE = ROOT / "instances" / "examples" / "heterps-ctr.yaml"
OPTIMUM = 12.78130425347222
"""Of the example, over all 65,536 choices of types, and proven by the mixed-integer models too."""
SMALL: dict[str, dict[str, Any]] = {
    "single-type": {},
    "greedy": {},
    "genetic": {"evaluations": 100, "population": 10},
    "bayesian": {"evaluations": 25},
    "reinforce-lstm": {"episodes": 60, "batch": 10, "hidden": 4},
    "reinforce-rnn": {"episodes": 60, "batch": 10, "hidden": 4},
}
SEARCHING = [name for name in SMALL if name not in ("single-type", "greedy")]


def provisioned(
    formulation: StagingFormulation, segments: Sequence[Segment], way: Way = "exact"
) -> tuple[Stage, ...] | None:
    """Return the best plan on these stages, or that of the paper's load balance."""
    provisioner = Provisioner(formulation)
    found = provisioner.provision(segments, way)
    return None if found is None else provisioner.plan(segments, found)


def method_of(name: str) -> Any:
    return next(s for s in solvers_for("staging") if s.name == name)


@pytest.fixture
def method(request: pytest.FixtureRequest) -> str:
    """Return the name of a method, whose library is there."""
    name: str = request.param
    reason = method_of(name).unavailable()
    if reason:
        pytest.skip(reason)
    return name


def solve(instance: StagingInstance, name: str, seed: int = 0, **settings: Any) -> clusterplan.Result:
    options = SolveOptions(threads=1, seed=seed, method_options={**SMALL[name], **settings})
    return solve_with(instance, find_solver(name, "staging"), options)


def every_plan(formulation: StagingFormulation, segments: Sequence[Segment]) -> list[tuple[Stage, ...]]:
    """Return every feasible plan on these stages."""
    types = formulation.instance.types
    plans = []
    for counts in itertools.product(*(range(1, (types[kind].limit or 0) + 1) for _, _, kind in segments)):
        plan = tuple(
            Stage(first_layer=first, last_layer=last, type=types[kind].name, units=units)
            for (first, last, kind), units in zip(segments, counts, strict=True)
        )
        if not formulation.violations(plan):
            plans.append(plan)
    return plans


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_exact_provisioning_is_the_best_of_all_unit_counts(first: int) -> None:
    """On random stages, limits, floors and budgets; load balance keeps the limits and is no better."""
    found = balanced = 0
    for seed in range(first, first + 100):
        made = random_staging(seed)
        formulation, rng = StagingFormulation(made), random.Random(seed)
        objective = formulation.objectives[0]
        segments = segments_of([rng.randrange(len(made.types)) for _ in made.layers])
        plans = every_plan(formulation, segments)
        best = None
        for plan in plans:
            value = formulation.evaluate(plan)[0]
            best = value if best is None or objective.better(value, best) else best
        exact, load = (provisioned(formulation, segments, way) for way in ("exact", "load-balance"))
        assert (exact is None) == (best is None), seed
        if exact is not None and best is not None:
            found += 1
            assert not formulation.violations(exact), seed
            assert formulation.evaluate(exact)[0] == pytest.approx(best, rel=1e-9), seed
        if load is not None:
            balanced += 1
            assert not formulation.violations(load), seed
            assert best is not None
            assert not objective.better(formulation.evaluate(load)[0], best), seed
    assert found > 20
    assert balanced > 20


def test_exact_provisioning_without_any_limit() -> None:
    """Growth of the serial part ends the search; where all work is parallel, one unit each may be best."""
    for seed in range(5):
        made = generate_staging(6, 2, "none", seed=seed)
        formulation = StagingFormulation(made)
        segments = segments_of([0, 0, 1, 1, 0, 1])
        exact, load = (provisioned(formulation, segments, way) for way in ("exact", "load-balance"))
        assert formulation.evaluate(exact)[0] <= formulation.evaluate(load)[0] * (1 + 1e-9)
        # Twice the limit that the plan needs changes nothing.
        most = 2 * max(stage.units for stage in exact)
        limited = made.model_copy(
            update={"types": tuple(t.model_copy(update={"limit": most}) for t in made.types)}
        )
        again = provisioned(StagingFormulation(limited), segments)
        assert again == exact
    layers = tuple(layer.model_copy(update={"compute_parallel": 1.0}) for layer in made.layers)
    parallel = made.model_copy(update={"layers": layers, "throughput_floor_samples_per_s": None})
    assert provisioned(StagingFormulation(parallel), [(0, 5, 0)]) is not None


@pytest.mark.parametrize("method", SMALL, indirect=True)
def test_plans_are_verified_and_never_better_than_brute_force(method: str) -> None:
    """With exact units too; `single-type` and the searches start from single types where those exist."""
    plans = 0
    for seed in range(700, 725):
        made = random_staging(seed)
        result = solve(made, method, seed, provisioning="exact")
        assert result.status != "error", (seed, result.message)
        assert result.bound is None or result.status == "optimal" or result.objectives[0].certified_bound
        if result.plan is None:
            continue
        plans += 1
        assert clusterplan.verify(made, result).ok
        objective = StagingFormulation(made).objectives[0]
        best = clusterplan.solve(made, "brute-force").objective
        assert result.objective is not None
        assert best is not None
        assert not objective.better(result.objective, best), seed
    assert plans > 5


@pytest.mark.parametrize("method", SMALL, indirect=True)
def test_same_seed_same_plan(method: str) -> None:
    """With one thread the seed decides everything, also after another run."""
    made = generate_staging(10, 3, "loose", seed=4)  # which no type alone can run
    first = solve(made, method, seed=3)
    solve(made, method, seed=4)
    second = solve(made, method, seed=3)
    assert (first.plan is not None) == (method != "single-type")
    assert first.plan == second.plan
    assert [point[1] for point in first.trace] == [point[1] for point in second.trace]


@pytest.mark.parametrize("method", SMALL, indirect=True)
def test_the_clock_is_honoured(method: str) -> None:
    """Out of time at once there is no plan and no crash; a little later there is the best so far."""
    made = generate_staging(12, 2, "loose", seed=4)
    options = SolveOptions(time_limit_s=1e-9, threads=1)
    at_once = solve_with(made, find_solver(method, "staging"), options)
    assert (at_once.status, at_once.limit) == ("unknown", "time")
    if method in SEARCHING:
        key = "episodes" if method.startswith("reinforce") else "evaluations"
        solver = find_solver(method, "staging")
        endless = SolveOptions(threads=1, method_options={key: 10**9})
        later = solver.solve(StagingFormulation(made), endless, Clock(0.5))
        assert later.limit == "time"
        assert later.plan is not None


@pytest.mark.parametrize("method", SEARCHING, indirect=True)
def test_the_trace_is_the_best_so_far(method: str) -> None:
    """Times and objectives only improve, and the last point is the plan that is returned."""
    result = solve(generate_staging(12, 2, "loose", seed=1), method)
    times, values = [point[0] for point in result.trace], [point[1] for point in result.trace]
    assert times == sorted(times)
    assert values == sorted(values, key=lambda value: -(value or 0.0))
    assert values[-1] == pytest.approx(result.objective)
    assert all(point[2] is None for point in result.trace)


def test_a_long_trace_is_thinned() -> None:
    """Its first and last points stay."""
    search = TypeSearch(StagingFormulation(half_serial()), "exact", Clock())
    search.trace = [(float(i), -float(i), None) for i in range(1234)]
    short = search.outcome("").trace
    assert len(short) == MAX_TRACE
    assert (short[0], short[-1]) == (search.trace[0], search.trace[-1])


@pytest.mark.parametrize("method", SMALL, indirect=True)
def test_options_are_checked(method: str) -> None:
    """A value that is not among the allowed ones, or too small, is named with what is allowed."""
    made = generate_staging(4, 2, "loose", seed=1)
    with pytest.raises(OptionError, match=r"'provisioning'.*must be 'load-balance' or 'exact'"):
        solve(made, method, provisioning="best")
    for key in SMALL[method]:
        with pytest.raises(OptionError, match=r"must be \d or more"):
            solve(made, method, **{key: 0})
        with pytest.raises(OptionError, match="must be a int"):
            solve(made, method, **{key: 2.5})


def test_a_number_must_be_finite() -> None:
    """Not a number, or infinite, is no learning rate."""
    option = MethodOption(0.5, "…", least=0.0)
    assert option.fault(math.inf) == "must be finite"
    assert option.fault(math.nan) == "must be finite"
    assert option.fault(1) is None
    assert option.fault(True) == "must be a float"


@pytest.mark.parametrize("method", SMALL, indirect=True)
def test_without_a_plan_there_is_a_message(method: str) -> None:
    """A cost limit that no plan keeps: the method proves nothing and says so."""
    made = generate_staging(4, 2, "loose", seed=1).model_copy(update={"cost_limit_usd": 1e-3})
    result = solve(made, method)
    assert (result.status, result.plan) == ("unknown", None)
    assert method in (result.message or "")
    assert "no plan found within" in (result.message or "")


@pytest.mark.parametrize(
    ("method", "most"),
    [
        ("genetic", 0.0),
        pytest.param("bayesian", 0.05, marks=pytest.mark.slow),
        pytest.param("reinforce-lstm", 0.0, marks=pytest.mark.slow),
        pytest.param("reinforce-rnn", 0.0, marks=pytest.mark.slow),
    ],
    indirect=["method"],
)
def test_defaults_come_close_to_the_optimum_of_the_example(method: str, most: float) -> None:
    """16 layers, 2 types and a floor that few choices of types can keep; the optimum is known."""
    made = clusterplan.load(EXAMPLE)
    options = SolveOptions(threads=1, seed=1, method_options={"provisioning": "exact"})
    result = clusterplan.solve(made, method, options)
    assert OPTIMUM * (1 - 1e-6) <= result.objective <= OPTIMUM * (1 + most + 1e-6)


def test_more_violation_is_worse_than_any_plan() -> None:
    """Infeasible choices rank behind feasible ones, and nearer ones before others."""
    made = clusterplan.load(EXAMPLE)
    search = TypeSearch(StagingFormulation(made), "exact", Clock(), 10)
    choices = [[0] * lookups + [1] * (16 - lookups) for lookups in (6, 10, 16)]
    found = [search.fitness(types) for types in choices]
    assert [fitness.feasible for fitness in found] == [True, False, False]
    assert found == sorted(found)
    values = [search.loss(types) for types in choices]
    assert values == sorted(values)
    assert all(map(math.isfinite, values))


def test_random_choices_keep_to_types_that_can_run_the_layer() -> None:
    """Every drawn type is able, and there are short and long segments."""
    rng = np.random.default_rng(0)
    able = [[0, 1], [1], [0, 1], [0], [0, 1], [0, 1, 2]]
    drawn = [random_types(able, rng) for _ in range(200)]
    assert all(kind in kinds for types in drawn for kind, kinds in zip(types, able, strict=True))
    assert {len(segments_of(types)) for types in drawn} >= {2, 3, 4, 5}


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """`unavailable` says what to install."""
    monkeypatch.setattr(base.util, "find_spec", lambda name: None)
    for solver, extra in (("bayesian", "clusterplan[bayes]"), ("reinforce-lstm", "clusterplan[rl]")):
        assert f"pip install '{extra}'" in (method_of(solver).unavailable() or "")


@pytest.fixture(params=["lstm", "rnn"])
def policy(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return a small policy over two layers, the second of which cannot run on the second type."""
    pytest.importorskip("torch", reason="PyTorch is not installed; pip install 'clusterplan[rl]'")
    made = generate_staging(2, 3, "loose", seed=2)
    with seeded_torch(5, 1):
        policy = Policy(
            features(StagingFormulation(made)),
            [[0, 1, 2], [0, 2]],
            3,
            cell=request.param,
            hidden=4,
            learning_rate=0.05,
        )
        # Away from the uniform start, where the gradient with respect to the network is zero.
        policy.torch.nn.init.normal_(policy.head.weight)
        yield policy


LOSSES = {
    types: float(np.sin(3 * index)) for index, types in enumerate(itertools.product(range(3), repeat=2))
}


def test_reinforce_follows_the_gradient_of_the_expected_loss(policy: Any) -> None:
    """Against finite differences of the expectation, by enumeration exactly and by drawing roughly."""

    def probabilities() -> dict[tuple[int, ...], float]:
        logs, _ = policy.log_probabilities(list(LOSSES))
        return dict(zip(LOSSES, logs.detach().double().exp().tolist(), strict=True))

    def expected() -> float:
        return sum(p * LOSSES[types] for types, p in probabilities().items())

    def estimate(drawn: list[tuple[int, ...]], advantages: Any) -> Any:
        policy.head.weight.grad = None
        policy.surrogate(drawn, np.array(advantages)).backward()
        return policy.head.weight.grad.double().numpy().copy()

    assert sum(probabilities().values()) == pytest.approx(1, abs=1e-5)
    assert max(p for types, p in probabilities().items() if types[1] == 1) < 1e-9
    slopes, step = np.zeros((3, 4)), 1e-2
    for i, j in np.ndindex(3, 4):
        for sign in (1, -1):
            policy.head.weight.data[i, j] += sign * step
            slopes[i, j] += sign * expected() / (2 * step)
            policy.head.weight.data[i, j] -= sign * step
    baseline = 0.3  # any will do: it changes the variance, not the mean
    chances = probabilities()
    drawn = list(LOSSES)
    weighted = [len(drawn) * chances[types] * (LOSSES[types] - baseline) for types in drawn]
    assert estimate(drawn, weighted) == pytest.approx(slopes, abs=2e-4)
    drawn = policy.draw(20_000, np.random.default_rng(0))
    assert estimate(drawn, [LOSSES[types] - baseline for types in drawn]) == pytest.approx(slopes, abs=0.02)


def test_training_makes_the_best_types_most_probable(policy: Any) -> None:
    """A few dozen steps on two layers end at the choice with the least loss that is able."""
    rng = np.random.default_rng(0)
    for _ in range(150):
        drawn = policy.draw(20, rng)
        losses = np.array([LOSSES[types] for types in drawn])
        policy.step(drawn, losses - losses.mean(), 0.01)
    able = {types: loss for types, loss in LOSSES.items() if types[1] != 1}
    assert policy.most_probable() == min(able, key=lambda types: able[types])


def test_torch_is_left_as_it_was() -> None:
    """Neither its threads nor its random numbers change for whoever calls."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; pip install 'clusterplan[rl]'")
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    result = clusterplan.solve(
        generate_staging(4, 2, "loose", seed=1),
        "reinforce-lstm",
        SolveOptions(threads=1, method_options=SMALL["reinforce-lstm"]),
    )
    assert result.plan is not None
    assert torch.get_num_threads() == threads
    assert bool((torch.get_rng_state() == state).all())
    assert "mean ln(cost/first)" in (result.message or "")


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
    assert outcome.plan == (alone(1),)
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


def test_segments_of_equal_types() -> None:
    """A type for each layer means its maximal runs."""
    assert segments_of([0, 0, 1, 0]) == [(0, 1, 0), (2, 2, 1), (3, 3, 0)]
