"""The Gittins index, against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.solvers.scheduling.policies.gittins import gittins_index


def test_the_index_is_the_best_chance_for_the_time_spent() -> None:
    """Sup over Δ of P(S − a ≤ Δ | S > a) / E[min(S − a, Δ) | S > a], tried at every sample."""
    services = np.sort(np.random.default_rng(3).exponential(5, 60))
    for attained in (0.0, 1.0, 4.5, float(services[-2])):
        beyond = services[services > attained] - attained
        tried = [(beyond <= d).mean() / np.minimum(beyond, d).mean() for d in beyond]
        assert gittins_index(services, attained) == pytest.approx(max(tried))
        enough = [chance for chance, d in zip(tried, beyond, strict=True) if d >= 3.0]
        assert gittins_index(services, attained, 3.0) == pytest.approx(max([*enough, tried[-1]]))


def test_beyond_all_samples_there_is_nothing_to_expect() -> None:
    """The index is 0, the least there is."""
    assert gittins_index(np.array([1.0, 2.0]), 2.0) == 0.0
