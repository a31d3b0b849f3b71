"""The check of staging certificates trusts nobody: whatever it is given, it proves no more than is true.

The error of a frontier that its intervals prove: of one layer on one type, by hand.
"""

from __future__ import annotations

import copy
import math
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_instances import random_staging
from staging_instances import half_serial

import clusterplan
from clusterplan.formulations.staging.check.certificate import (
    CertificateCheck,
)
from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.stages import Corner, StageTable, stage_table
from clusterplan.instances.common.arrays import Floats
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.instances.staging.instance import StagingInstance

PRICES = st.sampled_from([0.0, 5e-324, 1e-300, 1e-9, 0.5, 1.0, 1e9, 1e99, 1e100])


@cache
def solved(seed: int) -> tuple[StagingFormulation, clusterplan.Result]:
    """Return a tiny instance with brute force's optimum and the exact search's certificate."""
    formulation = StagingFormulation(random_staging(seed))  # type: ignore[arg-type]
    best = clusterplan.solve(formulation.instance, "brute-force")
    ours = clusterplan.solve(formulation.instance, "exact")
    return formulation, ours.model_copy(update={"objective": best.objective})


def altered(certificate: dict[str, Any], data: st.DataObject) -> dict[str, Any]:
    """Return a certificate with anything changed that a forger may think of."""
    forged = copy.deepcopy(certificate)
    if forged["cutoff"] is not None:
        forged["cutoff"] *= data.draw(st.sampled_from([1.0, 1 + 1e-8, 1.001, 1.5, 10.0, 0.5]))
    if data.draw(st.booleans()):
        forged["cutoff"] = data.draw(st.sampled_from([None, 1e99, 1e-99]))
    intervals = forged["intervals"]
    for interval in intervals:
        if data.draw(st.integers(0, 3)) == 0:
            interval["counts_cost"] = data.draw(st.booleans())
        if data.draw(st.integers(0, 3)) == 0:
            interval["prices"] = {name: data.draw(PRICES) for name in interval.get("prices", {})}
        if data.draw(st.integers(0, 5)) == 0:
            interval["budget_price"] = data.draw(PRICES)
    keep = data.draw(st.integers(0, len(intervals)))
    forged["intervals"] = intervals[:keep] if data.draw(st.booleans()) else intervals[keep:]
    return forged


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 60), data=st.data())
def test_no_forged_certificate_proves_more_than_the_optimum(seed: int, data: st.DataObject) -> None:
    """Prices, cutoffs and intervals at will: the bound never lies beyond brute force's optimum."""
    formulation, result = solved(seed)
    if result.objective is None or result.certificate is None:
        return
    bound = formulation.certified_bounds(altered(result.certificate, data))[0]
    if bound is None:
        return
    sign = 1 if formulation.objectives[0].sense == "min" else -1
    assert sign * bound <= sign * result.objective + 1e-9 * abs(result.objective)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"cutoff": "much"}, "cutoff: input should be a valid number"),
        ({"cutoff": math.nan}, "cutoff"),
        ({"cutoff": 10**400}, "cutoff"),
        ({"intervals": [{"until_s": 2.0}, {"until_s": 1.0}]}, "has to rise"),
        ({"intervals": [{"until_s": 1.0, "prices": {"nobody": 1.0}}]}, "no limited type"),
        ({"intervals": [{"until_s": 1.0, "prices": {"type-0": -1.0}}]}, "greater than or equal to 0"),
        ({"intervals": [{"until_s": 1.0, "prices": {"type-0": math.inf}}]}, "finite"),
        ({"intervals": 3}, "intervals"),
        ({"more": 1}, "more"),
    ],
)
def test_malformed_certificates_are_named(change: dict[str, Any], what: str) -> None:
    """A certificate that cannot be read is a fault, proves nothing and raises nothing."""
    instance = generate_staging(4, 2, "tight", seed=1)
    formulation = StagingFormulation(instance)
    result = clusterplan.solve(instance, "exact")
    forged = {**(result.certificate or {}), **change}
    fault = formulation.certificate_fault(forged)
    assert fault is not None
    assert what in fault
    assert formulation.certified_bounds(forged) == formulation.elementary_bounds()
    verification = clusterplan.verify(instance, result.model_copy(update={"certificate": forged}))
    assert not verification.ok


def test_intervals_that_leave_stage_times_out_prove_little() -> None:
    """Without its last intervals a certificate proves no more than their price bound without prices."""
    instance = generate_staging(8, 3, "tight", seed=2)
    formulation = StagingFormulation(instance)
    result = clusterplan.solve(instance, "exact")
    assert result.certificate is not None
    forged = {**result.certificate, "intervals": result.certificate["intervals"][:1]}
    bound = formulation.certified_bounds(forged)[0]
    assert bound is not None
    assert result.objective is not None
    assert bound < result.objective * (1 - 1e-6)


def test_joined_intervals_prove_what_single_ones_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trying neighbours together, as large instances do, changes no bound."""
    instance = generate_staging(20, 6, "none", seed=3)
    result = clusterplan.solve(instance, "exact")
    alone = StagingFormulation(instance).certified_bounds(result.certificate)
    monkeypatch.setattr("clusterplan.formulations.staging.check.interval_bounds.GROUPING_SIZE", 1)
    together = StagingFormulation(instance).certified_bounds(result.certificate)
    assert alone == together
    assert result.certified_gap is not None
    assert result.certified_gap <= 1e-6


def test_a_wrong_table_of_the_methods_misleads_no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that is told that its best stages are slow claims too much, and that is not certified."""
    instance = generate_staging(8, 3, "loose", seed=2)
    true = clusterplan.solve(instance, "exact")
    assert true.plan is not None
    best = true.plan[0]

    def planted(instance: StagingInstance, single: Floats) -> StageTable:
        table = stage_table(instance, single)
        names = [hardware.name for hardware in instance.types]
        table.serial[table.index(best.first_layer, best.last_layer, names.index(best.type))] *= 1e6
        return table

    monkeypatch.setattr("clusterplan.formulations.staging.formulation.stage_table", planted)
    misled = clusterplan.solve(instance, "exact")
    assert true.objective is not None
    assert misled.objective is not None
    assert misled.certified_bound is not None
    assert misled.objective > true.objective * (1 + 1e-6)
    assert misled.certified_bound <= true.objective * (1 + 1e-9)


def test_limits_are_one_row_a_limited_type_and_one_for_the_budget() -> None:
    """Units count one each; of the budget they take their price."""
    instance = generate_staging(3, 2, "tight", seed=1)
    rows = CertificateCheck(instance)._limits()
    assert rows.weight.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert rows.capacity.tolist() == [float(hardware.limit or 0) for hardware in instance.types]
    first = instance.types[0].model_copy(update={"limit": None})
    other = instance.model_copy(update={"types": (first, instance.types[1]), "hourly_budget_usd": 7.0})
    rows = CertificateCheck(other)._limits()
    prices = [hardware.price_usd_per_hour for hardware in instance.types]
    assert rows.weight.tolist() == [[0.0, 1.0], prices]
    assert rows.capacity[1] == pytest.approx(7.0)


BOTH = [Corner(0.75, 1.5), Corner(1.0, 1.0)]
INTERVALS: list[dict[str, Any]] = [
    {"until_s": math.nextafter(0.75, 0), "prices": {"t": 1.0}, "counts_cost": False},
    {"until_s": math.nextafter(1.0, 0)},
    {"until_s": 1e100},
]


def test_a_complete_frontier_has_the_error_that_is_claimed() -> None:
    """Below 0.75 s no units suffice, and from there on each corner is the cheapest."""
    assert CertificateCheck(half_serial()).certified_error(BOTH, 0.0, None, INTERVALS) == 0.0
    assert CertificateCheck(half_serial()).certified_error(BOTH, 0.01, None, INTERVALS) == 0.01


def test_a_corner_left_out_is_an_error_of_its_saving() -> None:
    """Without the cheap corner plans may save a third of the cost of the fast one."""
    found = CertificateCheck(half_serial()).certified_error(BOTH[:1], 0.0, None, INTERVALS)
    assert found == pytest.approx(1 / 3)


def test_a_fast_corner_left_out_leaves_no_error() -> None:
    """Faster plans than the fastest corner are not ruled out: nothing is proven."""
    assert CertificateCheck(half_serial()).certified_error(BOTH[1:], 0.0, None, INTERVALS) is None
    assert (
        CertificateCheck(half_serial()).certified_error(BOTH[1:], 0.0, 1.2, INTERVALS) == 0.0
    )  # it costs more than counts


def test_malformed_intervals_prove_nothing() -> None:
    """Neither an error nor that there is no plan."""
    assert CertificateCheck(half_serial()).certified_error(BOTH, 0.0, None, [{"until_s": -1}]) is None
    assert not CertificateCheck(half_serial()).proves_none(0.5, [{"until_s": -1}])


@pytest.mark.parametrize(("most", "none"), [(0.9, True), (1.1, False)])
def test_no_plan_costs_less_than_one_dollar(most: float, none: bool) -> None:
    """The cheapest plan costs exactly one."""
    assert CertificateCheck(half_serial()).proves_none(most, [{"until_s": 1e100}]) == none
