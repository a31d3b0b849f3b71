"""Implicit enumeration of the check against complete enumeration of all paths."""

from __future__ import annotations

import math

import numpy as np
import pytest

from clusterplan.formulations.staging.check import path_enumeration
from clusterplan.formulations.staging.check.network import Arcs, Network
from clusterplan.formulations.staging.check.path_enumeration import none_below


def random_network(seed: int) -> Network:
    """Return up to five layers on three types, with integer consumption of two limits."""
    rng = np.random.default_rng(seed)
    layers = int(rng.integers(1, 6))
    arcs = [(a, b, t) for a in range(layers) for b in range(a + 1, layers + 1) for t in range(3)]
    kept = [arc for arc in arcs if rng.random() < 0.7] or arcs
    first, after, hardware = np.array(kept).T
    cost, consumption = rng.integers(1, 20, len(kept)).astype(float), rng.integers(0, 4, (2, len(kept)))
    types = 3 if rng.random() < 0.5 else 0
    return Network(
        Arcs(first, after, hardware, cost, consumption.astype(float)),
        layers,
        types,
        rng.integers(2, 8, 2).astype(float),
    )


def cheapest(network: Network) -> float:
    """Return the least cost of all paths within the limits."""
    arcs = network.arcs

    def extend(layer: int, before: int, used: np.ndarray, cost: float) -> float:
        if (used > network.capacity).any():
            return math.inf
        if layer == network.layers:
            return cost
        own = [i for i in np.flatnonzero(arcs.first == layer) if not network.types or arcs.type[i] != before]
        ways = (
            extend(int(arcs.after[i]), int(arcs.type[i]), used + arcs.consumption[:, i], cost + arcs.cost[i])
            for i in own
        )
        return min(ways, default=math.inf)

    return extend(0, -1, np.zeros(2), 0.0)


@pytest.mark.parametrize("seed", range(60))
def test_the_answer_is_that_of_all_paths(seed: int) -> None:
    """None below the optimum, one below anything above it, at several prices."""
    network = random_network(seed)
    best = cheapest(network)
    for prices in (np.zeros(2), np.array([1.0, 0.5]), np.array([10.0, 0.0])):
        assert none_below(network, prices, math.inf)[0] is math.isinf(best)
        if math.isfinite(best):
            assert none_below(network, prices, best - 0.5)[0] is True
            assert none_below(network, prices, best + 0.5)[0] is False


def test_the_enumeration_gives_up_when_it_may_not_work() -> None:
    """It then says neither yes nor no, and how much it did."""
    network = next(n for n in map(random_network, range(60)) if math.isfinite(cheapest(n)) and n.layers > 3)
    answer, work = none_below(network, np.zeros(2), cheapest(network) + 0.5, most_work=0)
    assert answer is None
    assert work > 0


def test_large_networks_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network with more arcs than allowed costs no work."""
    monkeypatch.setattr(path_enumeration, "MOST_ARCS", 0)
    assert none_below(random_network(1), np.zeros(2), 1.0) == (None, 0)
