"""Speeds of jobs, and the hardware that they run on."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from clusterplan.instances.common.errors import InstanceError
from clusterplan.instances.common.faults import validated
from clusterplan.instances.common.hardware import GEOMETRIES, Geometry
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


def test_starts_are_those_of_lgipp() -> None:
    """Size and starts as ``nvidia-smi mig -lgipp`` lists them for an A100 of 40 GB."""
    profiles = GEOMETRIES["a100-40"].profiles
    assert {name: (p.starts, p.size) for name, p in profiles.items()} == {
        "1g.5gb": ((0, 1, 2, 3, 4, 5, 6), 1),
        "1g.10gb": ((0, 2, 4, 6), 2),
        "2g.10gb": ((0, 2, 4), 2),
        "3g.20gb": ((0, 4), 4),
        "4g.20gb": ((0,), 4),
        "7g.40gb": ((0,), 8),
    }


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
