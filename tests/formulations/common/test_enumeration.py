"""Implicit enumeration against every choice written out."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from clusterplan.formulations.common import enumeration
from clusterplan.formulations.common.enumeration import (
    Choices,
    no_choice_below,
)


def random_choices(seed: int) -> Choices:
    """Return a few jobs with a few configurations each; whole figures, so that ties occur."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4, int(rng.integers(1, 6)))
    rows, limits = int(counts.sum()), int(rng.integers(1, 4))
    demand = rng.integers(0, 5, (rows, limits)).astype(float)
    limit = rng.integers(0, 3 * len(counts) + 1, limits).astype(float)
    return Choices(np.array([0, *np.cumsum(counts)]), rng.integers(-3, 9, rows).astype(float), demand, limit)


def least(choices: Choices) -> float:
    """Return the cost of the cheapest choice within the limits, by trying all."""
    rows = [range(a, b) for a, b in itertools.pairwise(choices.start.tolist())]
    costs = [
        choices.cost[list(chosen)].sum()
        for chosen in itertools.product(*rows)
        if (choices.demand[list(chosen)].sum(axis=0) <= choices.limit).all()
    ]
    return float(min(costs, default=np.inf))


@pytest.mark.parametrize("seed", range(60))
def test_the_answer_is_that_of_trying_all(seed: int) -> None:
    choices = random_choices(seed)
    prices = np.random.default_rng(seed + 1000).integers(0, 3, len(choices.limit)).astype(float)
    best = least(choices)
    for cutoff in (best, best + 1) if np.isfinite(best) else (0.0, 1e6):
        # A choice at the cutoff itself may be found or not: the margin is on the side that keeps states.
        answers = {True, False} if best == cutoff else {best >= cutoff}
        assert no_choice_below(choices, prices, cutoff) in answers
    if np.isfinite(best):
        assert no_choice_below(choices, prices, best - 0.5) is True


def test_a_job_without_a_configuration_has_no_choice() -> None:
    choices = Choices(np.array([0, 1, 1]), np.ones(1), np.zeros((1, 1)), np.ones(1))
    assert no_choice_below(choices, np.zeros(1), 1e9) is True


def test_a_search_that_grows_too_large_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    choices = Choices(
        np.array([0, 2, 4]), np.array([1.0, 2, 1, 2]), np.array([[2.0], [1], [2], [1]]), np.full(1, 3)
    )
    assert no_choice_below(choices, np.zeros(1), 3.5) is False
    monkeypatch.setattr(enumeration, "MAX_STATES", 1)
    assert no_choice_below(choices, np.zeros(1), 3.5) is None


def test_sums_over_very_many_jobs_prove_nothing_false() -> None:
    """A choice that is cheaper by 2e-12 than the cutoff is there, and each job has only this one."""
    jobs = 100_000
    choices = Choices(np.arange(jobs + 1), np.full(jobs, 0.1), np.zeros((jobs, 1)), np.ones(1))
    assert no_choice_below(choices, np.zeros(1), math.fsum(choices.cost) * (1 + 2e-12)) is False
