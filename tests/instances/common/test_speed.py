"""Speeds of jobs, and the hardware that they run on."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from clusterplan.instances.common.hardware import GEOMETRIES, Geometry
from clusterplan.instances.common.speed import (
    Speed,
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


MIG_USER_GUIDE = {
    "a30-24": {"1g.6gb": 4, "2g.12gb": 2, "4g.24gb": 1},
    "a100-40": {"1g.5gb": 7, "1g.10gb": 4, "2g.10gb": 3, "3g.20gb": 2, "4g.20gb": 1, "7g.40gb": 1},
    "a100-80": {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1},
    "h100-80": {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1},
}
"""Column "Number of Instances Available" of the section "Supported MIG Profiles"."""


def test_each_profile_fits_as_often_as_nvidia_says() -> None:
    """On an empty device, with nothing else."""
    found = {name: {p: g.most(p) for p in g.profiles} for name, g in GEOMETRIES.items()}
    assert found == MIG_USER_GUIDE


def test_taken_slots_leave_less() -> None:
    """A 3g.20gb in front leaves one behind, and three of 1g.5gb, for slot 7 is nobody's."""
    geometry = GEOMETRIES["a100-40"]
    taken = geometry.profiles["3g.20gb"].mask(0)
    assert taken == 0b1111
    assert (geometry.most("3g.20gb", taken), geometry.most("1g.5gb", taken)) == (1, 3)
    assert geometry.most("4g.20gb", taken) == 0
    assert geometry.most("no such profile") == 0


def test_a_profile_that_leaves_the_device_is_refused() -> None:
    """With the place and the words."""
    with pytest.raises(ValidationError, match="3 slots from 2 on are more than the 4 there are"):
        Geometry.model_validate({"slots": 4, "profiles": {"x": {"size": 3, "starts": [2]}}})
