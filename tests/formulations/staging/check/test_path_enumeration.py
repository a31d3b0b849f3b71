"""Enumeration of paths of stages by the check."""

from __future__ import annotations

import math

import numpy as np
import pytest

from clusterplan.formulations.staging.check import path_enumeration
from clusterplan.formulations.staging.check.path_enumeration import (
    Network,
    counted_limit_groups,
    least_by_arc,
    no_path_below,
    reduced_network,
    remaining_by_state,
)


def random_arcs(rng: np.random.Generator, layers: int) -> np.ndarray:
    """Return the first layer, the layer after the last, and the type of some stages."""
    arcs = [(a, b, t) for a in range(layers) for b in range(a + 1, layers + 1) for t in range(3)]
    return np.array([arc for arc in arcs if rng.random() < 0.7] or arcs).T


def random_network(seed: int) -> Network:
    """Return up to five layers on three types, with integer consumption of two limits."""
    rng = np.random.default_rng(seed)
    layers = int(rng.integers(1, 6))
    first, after, hardware = random_arcs(rng, layers)
    cost, consumption = rng.integers(1, 20, len(first)).astype(float), rng.integers(0, 4, (2, len(first)))
    types = 3 if rng.random() < 0.5 else 0
    return Network(
        *(first, after, hardware, cost, consumption.astype(float)),
        layers,
        types,
        rng.integers(2, 8, 2).astype(float),
    )


def paths(network: Network, layer: int = 0, before: int = -1) -> list[list[int]]:
    """Return all paths, within the limits or not."""
    if layer == network.layers:
        return [[]]
    own = np.flatnonzero(network.first == layer)
    return [
        [i, *rest]
        for i in own
        if not network.types or network.type[i] != before
        for rest in paths(network, int(network.after[i]), int(network.type[i]))
    ]


def feasible(network: Network) -> list[tuple[float, list[int]]]:
    """Return the cost and the arcs of all paths within the limits."""
    return [
        (float(network.cost[way].sum()), way)
        for way in paths(network)
        if (network.consumption[:, way].sum(axis=1) <= network.capacity).all()
    ]


def cheapest(network: Network) -> float:
    """Return the least cost of all paths within the limits."""
    return min((cost for cost, _ in feasible(network)), default=math.inf)


@pytest.mark.parametrize("seed", range(60))
def test_the_answer_is_that_of_all_paths(seed: int) -> None:
    """None below the optimum, one below anything above it, at several prices."""
    network = random_network(seed)
    best = cheapest(network)
    for prices in (np.zeros(2), np.array([1.0, 0.5]), np.array([10.0, 0.0])):
        assert no_path_below(network, prices, math.inf)[0] is math.isinf(best)
        if math.isfinite(best):
            assert no_path_below(network, prices, best - 0.5)[0] is True
            assert no_path_below(network, prices, best + 0.5)[0] is False


def test_the_enumeration_gives_up_when_it_may_not_work() -> None:
    """It then says neither yes nor no, and how much it did."""
    network = next(n for n in map(random_network, range(60)) if math.isfinite(cheapest(n)) and n.layers > 3)
    answer, work = no_path_below(network, np.zeros(2), cheapest(network) + 0.5, most_work=0)
    assert answer is None
    assert work > 0


def test_large_networks_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network with more arcs than allowed costs no work."""
    monkeypatch.setattr(path_enumeration, "MAX_ARCS", 0)
    assert no_path_below(random_network(1), np.zeros(2), 1.0) == (None, 0)


def network(types: int) -> Network:
    """Return three arcs through two layers."""
    first, after, kind = np.array([0, 1, 0]), np.array([2, 2, 1]), np.array([0, 1, 0])
    return Network(first, after, kind, np.array([3.0, 2.0, 1.0]), np.ones((1, 3)), 2, types, np.ones(1))


def test_arcs_are_sorted_selected_and_turned() -> None:
    made = network(2).sorted()
    assert len(made) == 3
    assert made.cost.tolist() == [1.0, 3.0, 2.0]
    apart = made.only(np.array([1])).compact()
    assert (apart.layers, apart.first.tolist(), apart.after.tolist()) == (1, [0], [1])
    turned = made.mirrored()
    assert turned.first.tolist() == [1, 0, 0]
    assert turned.after.tolist() == [2, 2, 1]
    assert made.only(np.array([2])).cost.tolist() == [2.0]


def test_types_matter_only_where_neighbours_differ() -> None:
    assert network(2).kind.tolist() == [0, 1, 0]
    assert network(0).kind.tolist() == [0, 0, 0]


def state_space_random_network(seed: int) -> Network:
    """Return up to five layers on three types, each with a limit of its own."""
    rng = np.random.default_rng(seed)
    layers = int(rng.integers(2, 6))
    first, after, hardware = random_arcs(rng, layers)
    units = rng.integers(1, 4, len(first))
    consumption = np.where(hardware == np.arange(3)[:, None], units, 0).astype(float)
    cost = rng.integers(1, 20, len(first)).astype(float)
    types = 3 if rng.random() < 0.5 else 0
    arcs = first, after, hardware, cost, consumption
    return Network(*arcs, layers, types, rng.integers(1, 6, 3).astype(float)).sorted()


PRICES = np.array([2.0, 0.5, 1.0])


@pytest.mark.parametrize("seed", range(20))
def test_all_limits_counted_the_least_path_through_an_arc_is_found(seed: int) -> None:
    """Three small limits are counted together, so that nothing is left to prices."""
    network = state_space_random_network(seed)
    (counting,) = counted_limit_groups(network, PRICES)
    assert not counting.prices.any()
    within = feasible(network)
    found = least_by_arc(network, counting)
    for i in range(len(network)):
        costs = [cost for cost, way in within if i in way]
        assert found[i] == pytest.approx(min(costs, default=math.inf))
    left = remaining_by_state(network, counting)
    best = cheapest(network)
    assert left[0, :, -1].min() == pytest.approx(best)
    for cutoff in (best - 0.5, best + 0.5) if math.isfinite(best) else ():
        rest, work = reduced_network(network, PRICES, cutoff)
        assert (len(rest) == 0) == (cutoff < best)
        assert work > 0


@pytest.mark.parametrize("seed", range(20))
def test_with_too_few_states_no_path_below_the_cutoff_is_lost(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not all limits are then counted together."""
    monkeypatch.setattr("clusterplan.formulations.staging.check.path_enumeration.MAX_CELLS", (7 * 6 * 3,))
    network = state_space_random_network(seed)
    costs = sorted(cost for cost, _ in feasible(network))
    if not costs:
        return
    rest, _ = reduced_network(network, PRICES, costs[len(costs) // 3] + 0.5)
    assert cheapest(rest) == costs[0]


def test_limits_without_a_price_are_not_counted() -> None:
    network = state_space_random_network(1)
    assert list(counted_limit_groups(network, np.zeros(3))) == []
    (counting,) = counted_limit_groups(network, np.array([0.0, 1.0, 0.0]))
    assert counting.places.tolist() == [0, 1, 0]


@pytest.mark.parametrize("seed", [0, 2, 3, 4])
def test_an_arc_is_only_left_out_beyond_the_margin_of_all_that_is_added_up(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here a quarter: of the value, of the cutoff and of what the limits are worth."""
    monkeypatch.setattr(path_enumeration, "MAX_CELLS", (7 * 6 * 3,))
    monkeypatch.setattr(path_enumeration, "STATES_MARGIN", 0.25)
    network = state_space_random_network(seed)
    every = list(counted_limit_groups(network, PRICES, 7 * 6 * 3))
    spare = np.array([float(counting.prices @ network.capacity) for counting in every])
    values = np.array([least_by_arc(network, counting) for counting in every])
    cutoffs = (0.75 * values / 1.25 - spare[:, None]).max(axis=0)
    arc = int(np.argmax(np.where(np.isfinite(cutoffs), cutoffs, -np.inf)))
    assert cutoffs[arc] > 0
    rest, _ = reduced_network(network, PRICES, cutoffs[arc] * (1 + 1e-9))
    assert len(rest) == np.isfinite(cutoffs).sum()


def test_states_times_arcs_are_few_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    network = state_space_random_network(2)
    assert sum(counting.states > 1 for counting in counted_limit_groups(network, PRICES)) > 0
    for steps in (40, 80, 200, 400):
        monkeypatch.setattr(path_enumeration, "MAX_STEPS", steps * len(network))
        assert all(counting.states <= steps for counting in counted_limit_groups(network, PRICES))
