"""Grids of prices: what is allowed, and what a price is at a moment."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.formulations.scheduling.price_grid import LATEST_S, MOST_EDGES, PriceGrid


def test_a_price_holds_from_its_edge_to_the_next() -> None:
    """Before the first edge and after the last one everything is free."""
    grid = PriceGrid(np.array([1.0, 2.0, 4.0]), np.array([[3.0], [5.0], [0.0]]))
    assert grid.at(np.array([0.5, 1.0, 1.9, 2.0, 3.9, 4.0, 1e9]))[:, 0].tolist() == [0, 3, 3, 5, 5, 0, 0]


def test_a_finer_grid_has_the_same_prices() -> None:
    """Also where it begins earlier."""
    grid = PriceGrid(np.array([1.0, 2.0, 4.0]), np.array([[3.0], [5.0], [0.0]]))
    fine = grid.refined(np.array([0.0, 3.0, 4.0, 9.0]))
    assert fine.edges_s.tolist() == [0, 1, 2, 3, 4, 9]
    assert fine.price[:, 0].tolist() == [0, 3, 5, 5, 0, 0]
    assert PriceGrid.free(2).at(np.array([0.0])).tolist() == [[0, 0]]


@pytest.mark.parametrize(
    ("edges", "price", "word"),
    [
        ([0.0, 1.0], [[1.0]], "go together"),
        ([], np.zeros((0, 1)), "go together"),
        ([0.0, 0.0], [[1.0], [0.0]], "rise"),
        ([-1.0, 0.0], [[1.0], [0.0]], "rise"),
        ([0.0, np.nan], [[1.0], [0.0]], "rise"),
        ([0.0, 2 * LATEST_S], [[1.0], [0.0]], "rise"),
        ([0.0, 1.0], [[-1.0], [0.0]], "prices"),
        ([0.0, 1.0], [[np.nan], [0.0]], "prices"),
        ([0.0, 1.0], [[np.inf], [0.0]], "prices"),
        ([0.0, 1.0], [[1.0], [1.0]], "last edge"),
        (np.arange(MOST_EDGES + 1), np.zeros((MOST_EDGES + 1, 1)), "too many"),
        (np.arange(2_000), np.zeros((2_000, 501)), "too many"),
    ],
)
def test_what_makes_no_sense_is_refused(edges: list[float], price: list[list[float]], word: str) -> None:
    """Shapes, order, size and signs."""
    with pytest.raises(ValueError, match=word):
        PriceGrid(np.array(edges, dtype=float), np.array(price, dtype=float))
