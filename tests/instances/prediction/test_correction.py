"""The correction: follows what is smooth between measurements, and fades away from them."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.instances.prediction.correction import fit_correction


def test_between_and_away_from_the_measurements() -> None:
    at = np.linspace(0, 6, 61)[:, None]
    found = fit_correction(at, np.sin(at[:, 0]))
    between = np.array([[1.03], [2.77], [4.41]])
    assert found(between) == pytest.approx(np.sin(between[:, 0]), abs=0.01)
    assert found(np.array([[1000.0]])) == pytest.approx([0.0], abs=1e-6)


def test_noise_is_not_followed() -> None:
    noise = np.random.default_rng(1).normal(size=200)
    at = np.random.default_rng(2).uniform(size=(200, 2))
    assert np.std(fit_correction(at, noise)(at)) < 0.5


def test_nothing_left_over_needs_no_correction() -> None:
    at = np.arange(5.0)[:, None]
    assert fit_correction(at, np.zeros(5))(at).tolist() == [0.0] * 5
