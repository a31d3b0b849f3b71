"""Best fit of one gang, against all ways to spread it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from clusterplan.solvers.scheduling.placement.kernels import best_fit, most_tasks


def fitted(free: list[list[float]], demand: list[float], tasks: int, most: int) -> dict[int, int]:
    """Return what best fit puts where."""
    room = np.array(free)
    servers, counts = best_fit(room, 5e-10 * room, room, np.array(demand), tasks, most)
    return dict(zip(servers.tolist(), counts.tolist(), strict=True))


def test_the_server_that_is_filled_best_is_taken() -> None:
    """Of those that hold all tasks; else the one that holds most."""
    assert fitted([[8], [4], [5]], [2], 2, 2) == {1: 2}
    assert fitted([[8], [4], [5]], [2], 5, 9) == {0: 4, 1: 1}
    assert fitted([[1], [1]], [2], 1, 9) == {}
    assert fitted([[4], [4]], [4], 2, 1) == {}


def test_several_resources_are_all_kept() -> None:
    """The scarcest says how many tasks fit."""
    free, none = np.array([8.0, 3.0]), np.zeros(2)
    assert most_tasks(free, none, np.array([1.0, 1.0]), 9) == 3
    assert most_tasks(free, none, np.array([2.0, 0.0]), 9) == 4
    assert fitted([[8, 1], [2, 2]], [1, 1], 2, 2) == {1: 2}


@pytest.mark.parametrize("seed", range(30))
def test_no_other_way_needs_fewer_servers(seed: int) -> None:
    """On three servers with two resources."""
    rng = np.random.default_rng(seed)
    free, demand = rng.integers(0, 7, (3, 2)).astype(float), rng.integers(1, 4, 2).astype(float)
    tasks = int(rng.integers(1, 5))
    ways = [
        way
        for way in itertools.product(range(tasks + 1), repeat=3)
        if sum(way) == tasks and (np.outer(way, demand) <= free).all()
    ]
    fewest = min((sum(map(bool, way)) for way in ways), default=None)
    found = fitted(free.tolist(), demand.tolist(), tasks, 3)
    assert (len(found) or None) == fewest
    assert sum(found.values()) == (tasks if ways else 0)
    assert fewest is None or not fitted(free.tolist(), demand.tolist(), tasks, fewest - 1)
