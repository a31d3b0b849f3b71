"""Which coefficients measured configurations determine, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.instances.allocation.fits.identifiability import (
    column_lengths,
    design_matrix,
    explanation,
    rank_of,
    reasons,
    remedy,
)

Columns = tuple[np.ndarray, np.ndarray, np.ndarray]


def columns(ps: list[float], workers: list[float], batch: list[float]) -> Columns:
    """Return the columns of measurements."""
    return np.array(ps, dtype=float), np.array(workers, dtype=float), np.array(batch, dtype=float)


def test_a_row_of_the_design_has_the_factors_of_the_coefficients() -> None:
    """M/w, 1, w/p, w and p of `ps_sync`."""
    assert design_matrix("ps_sync", *columns([2], [4], [8])).tolist() == [[2, 1, 2, 4, 2]]


def test_columns_of_zeros_have_length_one() -> None:
    """So that they can be divided by it."""
    assert column_lengths(np.array([[3.0, 0.0], [4.0, 0.0]])).tolist() == [5, 1]


def test_different_configurations_determine_all_coefficients() -> None:
    """Nothing is undetermined."""
    rank = rank_of(design_matrix("ps_sync", *columns([1, 2, 1, 3, 2, 4], [1, 1, 2, 2, 5, 3], [8] * 6)))
    assert rank.full
    assert rank.undetermined == ()


@pytest.mark.parametrize(
    ("model", "given", "rank", "common"),
    [
        ("ps_sync", columns([1, 2, 3, 4], [1, 2, 3, 4], [8] * 4), 3, "ps = workers"),
        ("ps_sync", columns([2, 2, 2, 2], [1, 2, 3, 4], [8] * 4), 3, "ps = 2"),
        ("ps_sync", columns([2, 4, 6, 8], [1, 2, 3, 4], [8] * 4), 3, "the same ratio of ps to workers"),
        ("ring_allreduce", columns([0] * 4, [1, 2, 3, 4], [8] * 4), 3, "batch = 8"),
        ("ring_allreduce", columns([0] * 4, [1, 2, 3, 4], [8, 16, 24, 32]), 3, "the same batch per worker"),
    ],
)
def test_a_common_property_hides_coefficients(model: str, given: Columns, rank: int, common: str) -> None:
    """It is named, with how many coefficients are left."""
    found = rank_of(design_matrix(model, *given))
    assert found.rank == rank
    assert not found.full
    assert common in reasons(model, *given)
    assert f"only {rank} of the" in explanation(found, model, *given)


def test_a_remedy_asks_for_what_varies_too_little() -> None:
    """Another batch, or another ratio."""
    assert "another batch" in remedy("ring_allreduce", np.array([8.0, 8.0]))
    assert "workers and batch" in remedy("ring_allreduce", np.array([8.0, 16.0]))
    assert "not all in one ratio" in remedy("ps_sync", np.array([8.0]))
