"""Each staging method by itself, on a layer whose plans are known: k units take (1 + 1/k)/2 s."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
from random_instances import random_staging
from staging_instances import half_serial, two_layers

import clusterplan
from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.plan import Stage
from clusterplan.instances.staging.instance import StagingInstance
from clusterplan.solvers.common.base import Clock, Outcome
from clusterplan.solvers.common.options import SolveOptions
from clusterplan.solvers.staging import search
from clusterplan.solvers.staging.brute_force import StagingBruteForce
from clusterplan.solvers.staging.certify import certify
from clusterplan.solvers.staging.diagnose import diagnose, too_slow
from clusterplan.solvers.staging.exact import StagingExact, certificate, incumbent_of, intervals_of
from clusterplan.solvers.staging.frontier import describe, find_frontier
from clusterplan.solvers.staging.frontier_result import Frontier
from clusterplan.solvers.staging.incumbents import Cheapest, Fastest
from clusterplan.solvers.staging.intervals import Interval
from clusterplan.solvers.staging.kind import STAGING
from clusterplan.solvers.staging.settings import SETTINGS


def units(count: int) -> Stage:
    return Stage(first_layer=0, last_layer=0, type="t", units=count)


@pytest.mark.parametrize("solver", [StagingBruteForce(), StagingExact()], ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("fields", "best"),
    [({}, 1), ({"throughput_floor_samples_per_s": 1.2}, 2), ({"objective": "time"}, 4)],
)
def test_the_best_number_of_units(solver: Any, fields: dict[str, Any], best: int) -> None:
    """One is the cheapest, two keep a floor of 1.2 samples/s, all four are the fastest."""
    outcome = solver.solve(StagingFormulation(half_serial(4, **fields)), SolveOptions(), Clock())
    assert tuple(outcome.plan) == (units(best),)
    assert not outcome.infeasible


@pytest.mark.parametrize("solver", [StagingBruteForce(), StagingExact()], ids=lambda one: one.name)
def test_no_plan_is_faster_than_the_serial_part(solver: Any) -> None:
    """Two samples a second would take infinitely many units."""
    formulation = StagingFormulation(half_serial(4, throughput_floor_samples_per_s=1.9))
    assert solver.solve(formulation, SolveOptions(), Clock()).infeasible


def interval(low: float, high: float, price: float, counts_cost: bool = True) -> Interval:
    return Interval(low, high, np.zeros(1), np.zeros(1), np.array([price]), counts_cost)


def test_intervals_become_those_of_a_certificate() -> None:
    """The stage times before the first are one more; the last goes on for ever."""
    formulation = StagingFormulation(half_serial())
    found = intervals_of(formulation, [interval(0.5, 0.7, 2.0, False), interval(0.7, 1.0, 0.0)], 1.0)
    assert found == [
        {"until_s": math.nextafter(0.5, 0)},
        {"until_s": 0.7, "prices": {"t": 2.0}, "counts_cost": False},
        {"until_s": 1e100},
    ]


def test_a_cutoff_lies_just_beyond_the_bound() -> None:
    """Below a cost, above a throughput; there is none for a bound that the form does not hold."""
    cost = certificate(StagingFormulation(half_serial()), [], 2.0, 1.0)
    assert cost is not None
    assert 2.0 * (1 - 1e-8) < cost["cutoff"] < 2.0
    speed = certificate(StagingFormulation(half_serial(objective="throughput")), [], 2.0, 1.0)
    assert speed is not None
    assert 2.0 < speed["cutoff"] < 2.0 * (1 + 1e-8)
    assert certificate(StagingFormulation(half_serial()), [], 1e101, 1.0) is None


def test_the_objective_decides_what_is_searched_for() -> None:
    """The fastest plan for throughput and time, within the cost limit."""
    assert isinstance(incumbent_of(StagingFormulation(half_serial()), SolveOptions()), Cheapest)
    fast = incumbent_of(StagingFormulation(half_serial(objective="time", cost_limit_usd=2)), SolveOptions())
    assert isinstance(fast, Fastest)
    assert fast.cost_limit_usd == pytest.approx(2)


@pytest.mark.parametrize(
    "changed",
    [
        {"few_segments": 0, "most_kept_share": 1.0},
        {"most_at_once": 1, "segments_at_once": 1},
        {"halved_above_ratio": 1.0, "core_at_any_width": 0},
    ],
)
def test_tuning_changes_no_optimum(monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]) -> None:
    """Segments are dropped, intervals taken one by one, cores tried late: the answers stay."""
    instances = [random_staging(seed) for seed in range(12)]
    before = [clusterplan.solve(instance, "exact").objective for instance in instances]
    with pytest.raises(FrozenInstanceError):
        SETTINGS.most_at_once = 1  # type: ignore[misc]
    monkeypatch.setattr(search, "SETTINGS", replace(SETTINGS, **changed))
    assert [clusterplan.solve(instance, "exact").objective for instance in instances] == [
        None if value is None else pytest.approx(value, rel=1e-9) for value in before
    ]


def test_a_bound_gets_a_certificate_that_proves_it() -> None:
    """A method that says that one dollar is the least cost is right, and 1.2 is refuted."""
    formulation = StagingFormulation(half_serial(4))
    right = Outcome((units(1),), (1.0,))
    certify(formulation, right, Clock())
    assert formulation.certified_bounds(right.certificate) == (pytest.approx(1.0, rel=1e-8),)
    wrong = Outcome((units(2),), (1.2,))
    certify(formulation, wrong, Clock())
    assert (wrong.bounds, wrong.certificate) == ((), None)
    assert "refutes" in (wrong.message or "")


def test_a_wrong_proof_that_there_is_no_plan_is_left_out() -> None:
    """The search finds one."""
    outcome = Outcome(infeasible=True)
    certify(StagingFormulation(half_serial(4)), outcome, Clock())
    assert not outcome.infeasible


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


def test_the_frontier_of_one_layer() -> None:
    """A point for each number of units, from the fastest to the cheapest."""
    frontier = find_frontier(half_serial(3), SolveOptions(), 0.0, None)
    assert [point.cost_usd for point in frontier.points] == pytest.approx([2.0, 1.5, 1.0])
    assert [point.stage_time_s for point in frontier.points] == pytest.approx([2 / 3, 0.75, 1.0])
    assert (frontier.status, frontier.certified_error) == ("complete", 0.0)
    cheap = find_frontier(half_serial(3), SolveOptions(), 0.0, 1.6)
    assert [point.cost_usd for point in cheap.points] == pytest.approx([1.5, 1.0])


def test_unlimited_units_end_at_ten_times_the_least_cost() -> None:
    """Nineteen units cost ten dollars."""
    frontier = find_frontier(half_serial(None), SolveOptions(), 0.0, None)
    assert frontier.most_usd == pytest.approx(10.0)
    assert frontier.points[0].plan == (units(19),)


def test_figures_of_a_point_are_computed_from_the_plan() -> None:
    """Two units: 0.75 s a sample, 3600 samples, 2 USD/h."""
    point = describe(StagingFormulation(half_serial()), (units(2),))
    assert point.stage_time_s == 0.75
    assert point.throughput_samples_per_s == pytest.approx(4 / 3)
    assert (point.time_s, point.rate_usd_per_hour, point.cost_usd) == pytest.approx((2700, 2, 1.5))


def test_a_frontier_becomes_a_table_with_short_plans() -> None:
    """As a frame and as a notebook shows it."""
    frontier = find_frontier(half_serial(2), SolveOptions(), 0.0, None)
    frame = frontier.to_frame()
    assert frame["plan"].tolist() == ["0-0:t*2", "0-0:t*1"]
    assert Frontier.model_validate_json(frontier.model_dump_json()) == frontier
    assert "frontier of 2 points, complete" in frontier._repr_html_()


def test_quick_methods_find_a_plan_with_the_options_that_are_registered() -> None:
    """In both ways of provisioning."""
    instance = half_serial(4)
    assert isinstance(instance, StagingInstance)
    for name, options in STAGING.quick:
        result = clusterplan.solve(instance, name, SolveOptions(method_options=dict(options)))
        assert result.objective == pytest.approx(1.0), (name, options)
    assert STAGING.exact.proves
    assert {"greedy", "genetic", "cp-sat", "brute-force"} <= {solver.name for solver in STAGING.solvers}
