"""Quantiles over groups: a large group does not drown a small one, and like groups cover each other."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.instances.prediction.intervals.conformal import coverage, ends


def test_groups_weigh_the_same() -> None:
    scores = np.concatenate([np.zeros(1000), np.ones(10)])
    groups = ["many"] * 1000 + ["few"] * 10
    assert ends(scores, groups) == (0.0, 1.0)
    assert ends(scores, ["one"] * 1010) == (0.0, 0.0)


def test_like_groups_are_covered_at_the_level() -> None:
    scores = np.random.default_rng(0).normal(size=6000)
    found = coverage(scores, [index % 6 for index in range(6000)])
    assert all(0.88 < share < 0.95 for share in found.values())


def test_a_group_unlike_the_others_is_not_covered() -> None:
    scores = np.concatenate([np.linspace(-1, 1, 100), np.linspace(-1, 1, 100), np.full(100, 5.0)])
    assert coverage(scores, ["a"] * 100 + ["b"] * 100 + ["c"] * 100)["c"] == 0.0


def test_what_has_no_answer_is_refused() -> None:
    with pytest.raises(ValueError, match="0 scores of 0 rows"):
        ends(np.array([]), [])
    with pytest.raises(ValueError, match="needs two groups"):
        coverage(np.array([1.0]), ["a"])
