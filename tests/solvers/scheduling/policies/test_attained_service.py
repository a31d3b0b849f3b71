"""Limits of attained service, as exactly as moments can tell.

The Gittins index, against its definition.
"""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.solvers.scheduling.engine import Engine
from clusterplan.solvers.scheduling.kernels import until_limit
from clusterplan.solvers.scheduling.policies.attained_service import Gittins, gittins_index, reached


def test_a_limit_is_reached_up_to_rounding() -> None:
    """An infinite one never is; long after time 0 a moment is less exact."""
    limits = np.array([10.0, 10.0, np.inf])
    service, width = np.array([10 - 1e-9, 9.9, 1e9]), np.ones(3)
    assert reached(service, limits, width, 0.0).tolist() == [True, False, False]
    assert reached(np.array([10 - 1e-6]), limits[:1], width[:1], 0.0).tolist() == [False]
    assert reached(np.array([10 - 1e-6]), limits[:1], width[:1], 1.5e9).tolist() == [True]


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


class Eager(Gittins):
    """Is asked at every level that a job reaches, although nobody waits."""

    def again_s(self) -> float:
        """Return when the next job reaches a level."""
        seen = self.seen
        until_s = until_limit(seen.running, seen.executed_s, seen.width, self._level, self._limits)
        return seen.now_s + until_s


@pytest.mark.parametrize("load", [0.5, 0.9, 1.5])
def test_levels_are_of_no_concern_while_nobody_waits(load: float) -> None:
    """Jobs rise by several levels at once then, and the schedule is the same."""
    instance = generate_scheduling(150, 32, load=load, seed=4)
    found, expected = (Engine(instance, policy).run() for policy in (Gittins(), Eager()))
    assert found.job.tolist() == expected.job.tolist()
    assert found.end_s == pytest.approx(expected.end_s, rel=1e-12)
