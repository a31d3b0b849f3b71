"""Gaps, and which of two values or bounds is better, for both senses."""

from __future__ import annotations

import pytest

from clusterplan.formulations.common.objective import Objective, Violation

LEAST, MOST = Objective("cost", "min", "USD"), Objective("value", "max", "USD")


@pytest.mark.parametrize(
    ("value", "bound", "gap"),
    [(10, 9, 0.1), (-10, -11, 0.1), (0, 0, 0.0), (0, -1, None), (None, 1, None), (1, None, None)],
)
def test_the_gap_is_relative_to_the_value(
    value: float | None, bound: float | None, gap: float | None
) -> None:
    assert LEAST.gap(value, bound) == MOST.gap(value, bound) == gap


def test_a_gap_beyond_all_floats_is_unknown() -> None:
    assert LEAST.gap(1e-200, 1e200) is None


def test_better_is_less_or_more_but_never_a_rounding() -> None:
    assert LEAST.better(1, 2)
    assert not MOST.better(1, 2)
    assert MOST.better(2, 1)
    assert not LEAST.better(1, 1 + 1e-12)
    assert not MOST.better(1 + 1e-12, 1)


def test_the_tighter_bound_is_nearer_to_the_optimum() -> None:
    assert LEAST.tighter(3, 4) == 4
    assert MOST.tighter(3, 4) == 3
    assert LEAST.tighter(None, 4) == MOST.tighter(4, None) == 4
    assert LEAST.tighter(None, None) is None


def test_a_violation_names_its_constraint() -> None:
    assert str(Violation("capacity of gpu", "is exceeded by 2")) == "capacity of gpu: is exceeded by 2"
