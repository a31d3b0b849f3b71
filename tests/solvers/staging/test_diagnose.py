"""Explanations of infeasibility, on instances computed by hand."""

from __future__ import annotations

from staging_instances import half_serial, two_layers

from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.staging.diagnose import diagnose, too_slow


def test_the_diagnosis_names_what_is_out_of_reach() -> None:
    """Four units reach 1.6 samples/s; the cheapest plan costs one dollar."""
    floor = diagnose(StagingFormulation(half_serial(4, throughput_floor_samples_per_s=1.7)), None, Clock())
    assert floor is not None
    assert "highest throughput within the limits is 1.6 samples/s" in floor.reasons[0]
    assert "lower the floor to 1.59998" in floor.remedies[0]
    money = diagnose(StagingFormulation(half_serial(4, cost_limit_usd=0.9)), None, Clock())
    assert money is not None
    assert "without the cost limit of 0.9 USD the cheapest plan takes 1 USD" in money.reasons[0]
    assert diagnose(StagingFormulation(half_serial(4)), None, Clock()) is None


def test_layers_that_are_too_slow_alone_are_listed_by_type() -> None:
    """At 0.7 samples/s a stage has 2.86 s: too short for `a` on `slow` only if one unit were all."""
    one = two_layers(
        throughput_floor_samples_per_s=0.7,
        types=[
            {"name": "slow", "price_usd_per_hour": 1, "limit": 1},
            {"name": "fast", "price_usd_per_hour": 5},
        ],
    )
    assert too_slow(StagingFormulation(one)) == ["on all 1 slow, too slow for the floor even alone: 'a', 'b'"]
