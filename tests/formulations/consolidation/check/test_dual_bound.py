"""The check's Lagrangian bound, priced by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest
from placements import job, placement, server

from clusterplan.formulations.consolidation.check.classes import CheckedCluster
from clusterplan.formulations.consolidation.check.placement_enumeration import PriceBound
from clusterplan.instances.common.errors import TooLargeError

PREFERRED = placement(
    ["value", "spread"], [server("n", gpu=2), server("m", gpu=2)], [job("a", 3, spread="preferred")]
)


def test_the_cheapest_pattern_of_a_job() -> None:
    """Three tasks in pieces of one (price 2) and two (price 3): two and one cost 5, and one extra server."""
    classes = CheckedCluster.of(PREFERRED).classes
    assert classes.pieces[0].tolist() == [[1], [2]]
    weights = {"spread": Fraction(1)}
    bound = PriceBound(classes, [[2.0, 3.0]], weights, missing=False)
    assert bound.job(classes.jobs[0]) == 5  # m_j is two, and so are the servers
    assert PriceBound(classes, [[1.0, 3.0]], weights, missing=False).job(classes.jobs[0]) == 4


def test_servers_are_paid_for_the_best_pattern() -> None:
    """A server of two GPUs holds one piece of two, or two pieces of one, whichever is paid more."""
    classes = CheckedCluster.of(PREFERRED).classes
    for prices, paid in (([2.0, 3.0], 4), ([1.0, 3.0], 3)):
        bound = PriceBound(classes, [prices], {}, missing=False)
        assert {Fraction(worth, bound.scale) for worth in bound.paid()} == {Fraction(paid)}
        assert bound.value() == -2 * paid  # the job stays out


def test_prices_that_cannot_be_added_up_are_refused() -> None:
    """Rather than to leave 64 bits."""
    classes = CheckedCluster.of(PREFERRED).classes
    with pytest.raises(TooLargeError):
        PriceBound(classes, [[1e18, 1e18]], {}, missing=False)


def test_prices_have_as_many_binary_places_as_sums_leave_room_for() -> None:
    """A server holds four tasks of either job, eight in all: 58 bits, less those of 32 prices."""
    jobs = [job("a", 4, spread="preferred"), job("b", 4, demand={"gpu": 1, "cpu": 1}, spread="preferred")]
    classes = CheckedCluster.of(placement(["value", "spread"], [server("n", gpu=8, cpu=8)], jobs)).classes
    for largest, scale in ((2.0**30, 2**22), (1.7 * 2.0**30, 2**22), (2.0**52, 1)):
        prices = [[largest] * len(pieces) for pieces in classes.pieces]
        assert PriceBound(classes, prices, {}, missing=False).scale == scale
    with pytest.raises(TooLargeError):
        PriceBound(classes, [[2.0**53] * len(pieces) for pieces in classes.pieces], {}, missing=False)


def test_what_a_job_is_worth_at_home_leaves_64_bits_for_sums_too() -> None:
    """Of the job that would lose most; the other does not run."""
    jobs = [job("a", current={"n": 1}, value=1), job("b", value=1)]
    instance = placement(["value"], [server("n", gpu=2)], jobs).model_copy(update={"restart_cost_h": 2.0**40})
    classes = CheckedCluster.of(instance).classes
    lost = max(one.restart for one in classes.jobs)
    assert lost > 2**39
    bound = PriceBound(classes, [[1.0] * len(p) for p in classes.pieces], {"value": Fraction(1)}, False)
    assert bound.scale * lost * 4 <= 2**58
