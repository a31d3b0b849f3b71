"""The rules between fields of a variant: one and columns of them are judged by the same expression."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from clusterplan.instances.common.rules import (
    broken,
    complaints,
    range_rules,
    theta_rules,
    variant_rules,
)

FLAGS = (False, True)
MODELS = ((True, False, False), (False, True, False), (False, False, True))
VARIANTS = [
    (model, *ranges) for model in MODELS for ranges in itertools.product(FLAGS, (0, 1, 2), FLAGS, (0, 1, 2))
]


def test_columns_break_the_rules_that_single_variants_break() -> None:
    """Every combination alone, and all of them as columns."""
    alone = [any(flag for _, flag, _ in variant_rules(*variant)) for variant in VARIANTS]
    model, *ranges = zip(*VARIANTS, strict=True)
    columns = [np.array(column) for column in ranges]
    together = broken(variant_rules(tuple(np.array(model).T), *columns))
    assert together.tolist() == alone
    assert 0 < sum(alone) < len(alone)


@pytest.mark.parametrize(
    ("variant", "paths"),
    [
        ((MODELS[0], False, 1, False, 1), []),
        ((MODELS[0], True, 1, True, 1), ["workers", "ps"]),
        ((MODELS[1], True, 1, False, 1), []),
        ((MODELS[1], False, 1, True, 1), ["workers", "ps"]),
        ((MODELS[2], True, 1, True, 1), []),
        ((MODELS[2], True, 0, True, 0), ["workers.min", "ps.min"]),
        ((MODELS[2], False, 1, False, 1), ["workers", "ps"]),
    ],
)
def test_variants_need_the_ranges_of_their_model(variant: tuple, paths: list[str]) -> None:  # type: ignore[type-arg]
    """A table needs none, ring all-reduce workers, the others both."""
    assert [path for path, flag, _ in variant_rules(*variant) if flag] == paths


def test_ranges_and_coefficients() -> None:
    """The upper end is at least the lower one; one coefficient is positive."""
    assert broken(range_rules(np.array([1, 2, 3]), np.array([2, 2, 2]))).tolist() == [False, False, True]
    theta = np.array([[0, 0], [0, 5e-324]])
    assert broken(theta_rules(theta.T)).tolist() == [True, False]


def test_a_broken_rule_is_said_in_words() -> None:
    """The words that a rule leaves open are filled in."""
    assert complaints(range_rules(1, 1), least=1, most=1) == []
    said = complaints(range_rules(5, 4), least=5, most=4)
    assert said == [("max", "is 4, below min 5; max must be at least min")]
