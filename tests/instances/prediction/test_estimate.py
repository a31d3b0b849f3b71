"""Estimates: sums and multiples."""

from __future__ import annotations

from clusterplan.instances.prediction.estimate import Estimate, together


def test_together_adds_up_and_is_inside_only_if_all_are() -> None:
    one, other = Estimate(2.0, 1.0, 4.0, True, "a"), Estimate(3.0, 2.0, 5.0, False, "b")
    assert together([one, other, one]) == Estimate(7.0, 4.0, 13.0, False, "a; b")


def test_times_keeps_the_relative_width() -> None:
    assert Estimate(2.0, 1.0, 4.0, True, "a").times(3) == Estimate(6.0, 3.0, 12.0, True, "a")
