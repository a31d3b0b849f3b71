"""The four speed models, by hand.

The rules between fields of a variant: one and columns of them are judged by the same expression.

Variants of a job.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.common.faults import validated
from clusterplan.instances.common.speed import (
    Range,
    Speed,
    SpeedTable,
    Variant,
    broken,
    complaints,
    range_rules,
    theta_rules,
    variant_rules,
)

BY_HAND = [
    ({"model": "ps_sync", "theta": [1, 2, 3, 4, 5], "batch": 8}, 8 / 4 + 2 + 3 * 4 / 2 + 4 * 4 + 5 * 2),
    ({"model": "ps_async", "theta": [1, 2, 3, 4]}, (1 + 2 * 4 / 2 + 3 * 4 + 4 * 2) / 4),
    ({"model": "ring_allreduce", "theta": [1, 2, 3, 4], "batch": 8}, 8 / 4 + 2 + 3 * 3 / 4 + 4 * 3),
]


@pytest.mark.parametrize(("document", "step_s"), BY_HAND)
def test_seconds_of_a_step(document: dict[str, Any], step_s: float) -> None:
    """With two parameter servers and four workers."""
    speed = TypeAdapter[Any](Speed).validate_python(document)
    assert float(speed.step_time_s(2, 4)) == pytest.approx(step_s, rel=1e-15)


def test_measured_speeds_are_sorted_by_workers() -> None:
    """Then by parameter servers."""
    rows = [{"workers": w, "ps": p, "steps_per_s": 1} for w, p in ((2, 1), (1, 2), (1, 1))]
    table = SpeedTable.model_validate({"model": "table", "rows": rows})
    assert [(row.workers, row.ps) for row in table.sorted_rows()] == [(1, 1), (1, 2), (2, 1)]


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


def test_a_range_ends_after_it_begins() -> None:
    """Or it is refused."""
    assert Range(max=4).min == 1
    with pytest.raises(InstanceError, match="max: is 4, below min 5; max must be at least min"):
        validated(Range, {"min": 5, "max": 4}, "t")


def test_a_variant_needs_the_ranges_of_its_model() -> None:
    """Ring all-reduce has workers and no parameter servers."""
    ring = {"model": "ring_allreduce", "theta": [1, 0, 0, 0], "batch": 8}
    variant = {"name": "v", "worker_demand": {"gpu": 1}, "speed": ring}
    assert validated(Variant, {**variant, "workers": {"max": 2}}, "t").ps is None
    with pytest.raises(InstanceError, match="workers: is missing"):
        validated(Variant, variant, "t")
