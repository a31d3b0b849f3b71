"""Certificates of an allocation: their form, what they prove, and the tables that the check derives.

The marginal value of resources, in words.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from random_instances import random_allocation

import clusterplan
from clusterplan.formulations.allocation.certificate import (
    PriceCertificate,
    certificate_of,
    marginal_value_text,
    read_certificate,
)
from clusterplan.formulations.allocation.check import bound
from clusterplan.formulations.allocation.check import configurations as check
from clusterplan.formulations.allocation.check.bound import (
    ROUNDING_MARGIN,
    certified_bound,
    least_priced_cost,
    makespan_price_bound,
    price_bound,
    priced_capacity,
    proves_makespan_bound,
)
from clusterplan.formulations.allocation.check.configurations import CheckedConfigurations
from clusterplan.formulations.allocation.configurations import Configurations
from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.formulations.common.clock import Clock
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.planner.api import solve
from clusterplan.solvers.allocation.lagrangian import MultipleChoice, knapsack_bound, makespan_bound


def test_a_cutoff_lies_just_below_the_bound() -> None:
    """So that the plan itself is not below it; None claims that there is no plan."""
    written = certificate_of(("cpu", "gpu"), np.array([1.5, 0.0]), 100.0)
    assert written["prices"] == {"cpu": 1.5, "gpu": 0.0}
    assert 100 * (1 - 1e-9) < written["cutoff"] < 100
    assert certificate_of(("cpu",), np.zeros(1), None)["cutoff"] is None


def test_prices_that_are_no_prices_are_written_as_such() -> None:
    """Negative ones and NaN as 0, infinite ones as the largest allowed."""
    written = certificate_of(("a", "b", "c"), np.array([-1.0, math.nan, math.inf]), 1.0)
    assert written["prices"] == {"a": 0, "b": 0, "c": 1e100}


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ({"prices": {"cpu": 1.0}, "cutoff": 2.0}, None),
        ({"prices": {"gpu": 1.0}}, "prices.gpu: there is no such resource"),
        ({"prices": {"cpu": -1.0}}, "prices.cpu: "),
        ({"cutoff": 2.0}, "prices: "),
        ({"prices": {}, "cutoff": math.inf}, "cutoff: "),
        ([], ": "),
    ],
)
def test_a_fault_names_its_place(data: Any, fault: str | None) -> None:
    """And a right form has none."""
    found = read_certificate(("cpu",), data)
    assert isinstance(found, PriceCertificate) if fault is None else str(found).startswith(fault)


def test_prices_of_pieces_are_written_only_where_there_are_any() -> None:
    """As short binary fractions whose sums are exact in every order; without them nothing says so."""
    assert list(certificate_of(("gpu",), np.zeros(1), 1.0)) == ["prices", "cutoff"]
    listed = [0.1, -1e-18, 0.3, 1e-9]
    written = certificate_of(("gpu",), np.zeros(1), 1.0, {"gpu": listed})
    assert json.loads(json.dumps(written)) == written
    given = read_certificate(("gpu",), written, {"gpu": 8.0})
    assert isinstance(given, PriceCertificate)
    assert given.pieces is not None
    assert given.pieces["gpu"] == pytest.approx(listed, abs=1e-12)
    a, b, c, d = given.pieces["gpu"]
    assert ((a + b) + c) + d == a + (b + (c + d))


@pytest.mark.parametrize(
    ("pieces", "on_servers", "fault"),
    [
        ({"gpu": [1.0]}, {"gpu": 8.0}, None),
        ({"gpu": [1.0]}, None, "pieces: the instance has no servers"),
        ({"cpu": [1.0]}, {"gpu": 8.0}, "pieces.cpu: there is no such resource"),
        ({"gpu": []}, {"gpu": 8.0}, "pieces.gpu: "),
        ({"gpu": [-1.0]}, {"gpu": 8.0}, "pieces.gpu.0: "),
        ({"gpu": [1.0] * 10_001}, {"gpu": 8.0}, "pieces.gpu: "),
        ({"gpu": [0.0, math.inf]}, {"gpu": 8.0}, "pieces.gpu.1: "),
        ({"gpu": [2e100]}, {"gpu": 8.0}, "pieces.gpu.0: "),
        ([1.0], {"gpu": 8.0}, "pieces: "),
    ],
)
def test_a_fault_of_prices_of_pieces_names_its_place(
    pieces: Any, on_servers: dict[str, float] | None, fault: str | None
) -> None:
    """Each resource has at least one price and at most 10,000, none of them negative or infinite."""
    found = read_certificate(("gpu",), {"prices": {}, "pieces": pieces}, on_servers)
    assert isinstance(found, PriceCertificate) if fault is None else str(found).startswith(fault)


def priced(**usd: float) -> AllocationInstance:
    """Return an instance with cpu and gpu."""
    return generate_allocation(3, 2, seed=1).model_copy(update={"prices_usd_per_hour": usd})


@pytest.mark.parametrize(
    ("prices", "beyond", "ending"),
    [
        ({"cpu": 0.0, "gpu": 0.0}, 0.0, "nothing is scarce: one more unit of anything saves nothing"),
        ({"cpu": 0.0}, 7200.0, "nothing is scarce: one more unit saves at most 2 job-hours"),
        (
            {"cpu": 3600.0, "gpu": 7200.0},
            0.0,
            "one more gpu saves at most 2 job-hours, one more cpu at most 1",
        ),
        ({"cpu": 3600.0}, 1800.0, "one more cpu saves at most 1.5 job-hours"),
        ({"cpu": 3600.01}, 0.0, "one more cpu saves at most 1.001 job-hours"),
        ({"cpu": 0.0}, 3780.0, "nothing is scarce: one more unit saves at most 1.1 job-hours"),
        ({"budget_usd_per_hour": 3600.0}, 0.0, "one more USD/h of budget saves at most 1 job-hours"),
    ],
)
def test_prices_are_said_in_job_hours_from_the_highest(
    prices: dict[str, float], beyond: float, ending: str
) -> None:
    """The distance to the bound is added where there is one."""
    assert marginal_value_text(priced(), prices, beyond) == f"in the configurations that fit now, {ending}"


def test_the_resource_to_buy_saves_most_for_each_usd() -> None:
    """One whose dual price is within the distance to the bound is not recommended."""
    prices: dict[str, Any] = {"cpu": 3600.0, "gpu": 7200.0}
    assert marginal_value_text(priced(cpu=1, gpu=4), prices, 0.0).endswith(
        "buy cpu next: it saves most for its price, at most 1 job-hours per USD/h"
    )
    assert "buy gpu next" in marginal_value_text(priced(cpu=1, gpu=4), prices, 5400.0)
    assert "buy" not in marginal_value_text(priced(cpu=1, gpu=4), prices, 10000.0)


@pytest.mark.parametrize(("gpus", "budget", "said"), [(1, 9, True), (2, 9, False), (2, 2, True)])
def test_configurations_too_large_for_the_cluster_or_the_budget_are_said(
    gpus: int, budget: float, said: bool
) -> None:
    """With two GPUs the job takes half as long; with one, no price knows of that."""
    rows = [{"workers": n, "steps_per_s": n} for n in (1, 2)]
    variant = {"name": "v", "worker_demand": {"gpu": 1}, "speed": {"model": "table", "rows": rows}}
    instance = AllocationInstance.model_validate(
        {
            "name": "one",
            "resources": {"gpu": gpus},
            "jobs": [{"name": "a", "remaining_steps": 10, "variants": [variant]}],
            "prices_usd_per_hour": {"gpu": 2},
            "budget_usd_per_hour": budget,
        }
    )
    message = solve(instance, "exact").message or ""
    nothing = "nothing is scarce: one more unit of anything saves nothing"
    assert message == (f"in the configurations that fit now, {nothing}" if said else nothing)


def two_jobs(gpus: float) -> CheckedConfigurations:
    """Return two jobs that take 10 s with one GPU and 4 s with three."""
    return CheckedConfigurations(
        np.array([0, 2, 4]),
        np.array([10.0, 4.0, 10.0, 4.0]),
        np.array([[1.0], [3.0], [1.0], [3.0]]),
        np.array([1.0, 1.0]),
        ("gpu",),
        np.array([gpus]),
    )


def proven(gpus: float, price: float, cutoff: float | None, makespan: bool = False) -> float:
    """Return the bound of a certificate with one price."""
    return certified_bound(two_jobs(gpus), makespan, PriceCertificate(prices={"gpu": price}, cutoff=cutoff))


def test_enumeration_closes_what_prices_leave_open() -> None:
    """With five GPUs one job can be fast: 14 s; the best price alone proves 11."""
    assert proven(5, 3.0, 13.99) == 13.99
    assert proven(5, 3.0, 14.5) == pytest.approx(11)


def test_without_time_to_enumerate_the_bound_of_the_prices_stays() -> None:
    """With six GPUs one of three jobs can be fast: 24 s; the best price alone proves 21."""
    three = CheckedConfigurations(
        np.array([0, 2, 4, 6]),
        np.tile([10.0, 4.0], 3),
        np.tile([[1.0], [3.0]], (3, 1)),
        np.ones(3),
        ("gpu",),
        np.array([6.0]),
    )
    certificate = PriceCertificate(prices={"gpu": 3.0}, cutoff=23.99)
    assert certified_bound(three, False, certificate) == 23.99
    with Clock(0.0).enforced():
        assert certified_bound(three, False, certificate) == pytest.approx(21)


def test_a_cutoff_above_the_optimum_is_not_certified() -> None:
    """Whatever the price."""
    assert all(proven(5, price, 15.0) <= 14 for price in (0.0, 1.0, 3.0, 10.0))


def test_that_there_is_no_plan_is_proven_by_prices_or_enumeration() -> None:
    """One GPU is not enough for two jobs; two are."""
    assert proven(1, 100.0, None) == math.inf
    assert proven(1, 0.0, None) == math.inf
    assert proven(2, 0.0, None) < math.inf


def test_the_makespan() -> None:
    """With five GPUs not both jobs are fast, so that 10 s is the optimum; with six both are."""
    assert proven(5, 1.0, 10.0, makespan=True) == 10
    assert proven(5, 0.0, 10.0, makespan=True) == 10
    assert proven(6, 1.0, 10.0, makespan=True) == 4


def test_a_malformed_certificate_proves_nothing() -> None:
    """But what each job takes alone."""
    formulation = AllocationFormulation(priced())
    for malformed in ({"prices": {"gpu": -1}}, "prices", None):
        assert formulation.certified_bounds(malformed) == formulation.elementary_bounds()


def test_each_figure_of_a_bound_is_wrong_by_its_margin_to_the_safe_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By at least half of it, so that no rounding of a sum makes a bound that is false."""
    configs, prices = two_jobs(5), np.array([3.0])
    least, capacity = least_priced_cost(configs, prices, configs.cost), priced_capacity(configs, prices)
    half = ROUNDING_MARGIN / 2 * (least + capacity)
    assert least - capacity - 4 * half <= price_bound(configs, prices) <= least - capacity - half
    asked: list[float] = []
    monkeypatch.setattr(bound, "_survivors", lambda *given: asked.append(given[-1]))
    certified_bound(configs, True, PriceCertificate(prices={"gpu": 3.0}, cutoff=11.0))
    late = np.where(configs.time_s < 11.0, 0.0, math.inf)
    least = least_priced_cost(configs, prices, late)
    half = ROUNDING_MARGIN / 2 * (least + capacity)
    assert capacity - least + half <= asked[0] <= capacity - least + 4 * half


def test_a_configuration_at_the_threshold_survives_whatever_the_rounding() -> None:
    """Reduced costs of 6 s without a price: with a threshold that is short of it by a rounding, too."""
    configs, prices = two_jobs(5), np.zeros(1)
    for part, kept in ((0.0, 4), (3.0, 4), (1e9, 2)):
        left = bound._survivors(configs, configs.cost, prices, 6.0 * (1 - part * ROUNDING_MARGIN))
        assert left is not None
        assert len(left.cost) == kept


def test_enumeration_is_left_where_too_many_configurations_survive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside one of each job; here two more do."""
    monkeypatch.setattr(bound, "MAX_FREE_CONFIGURATIONS", 2)
    assert proven(5, 3.0, 13.99) == 13.99
    monkeypatch.setattr(bound, "MAX_FREE_CONFIGURATIONS", 1)
    assert proven(5, 3.0, 13.99) == pytest.approx(11)


def test_a_bound_within_the_margin_of_the_dearest_choice_excludes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each job has one configuration, so that prices of 0 prove what it costs, less the margin."""
    monkeypatch.setattr(bound, "ROUNDING_MARGIN", 0.1)
    single = CheckedConfigurations(
        np.array([0, 1]), np.array([10.0]), np.array([[1.0]]), np.ones(1), ("gpu",), np.ones(1)
    )
    found = certified_bound(single, False, PriceCertificate(prices={"gpu": 0.0}))
    assert found == pytest.approx(9.0)


def two_priced_jobs() -> CheckedConfigurations:
    """Return two jobs that take 10 s with one GPU and 4 s with two, in a cluster of three GPUs."""
    return CheckedConfigurations(
        np.array([0, 2, 4]),
        np.array([10.0, 4.0, 10.0, 4.0]),
        np.array([[1.0], [2.0], [1.0], [2.0]]),
        np.array([1.0, 1.0]),
        ("gpu",),
        np.array([3.0]),
    )


@pytest.mark.parametrize(("price", "bound"), [(0, 8), (4, 12), (6, 14), (10, 10), (-5, 8)])
def test_the_lagrangian_bound_by_hand(price: float, bound: float) -> None:
    """L(λ) = 2·min(10 + λ, 4 + 2λ) − 3λ; the optimum is 14."""
    found = price_bound(two_priced_jobs(), np.array([float(price)]))
    assert bound * (1 - 1e-8) <= found <= bound


def test_the_elementary_bounds_by_hand() -> None:
    """Alone in the cluster each job takes 4 s."""
    assert two_priced_jobs().elementary_bound(makespan=False) == 8
    assert two_priced_jobs().elementary_bound(makespan=True) == 4


@pytest.mark.parametrize("at_once", [1, 2, 3, 7])
def test_jobs_are_bounded_some_at_a_time(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    """Each is counted once, wherever the parts begin."""
    configs = AllocationFormulation(generate_allocation(7, 2, seed=1)).checked
    prices = np.full(len(configs.resources), 0.1)
    whole = price_bound(configs, prices)
    monkeypatch.setattr("clusterplan.formulations.allocation.check.bound.JOBS_PER_BLOCK", at_once)
    assert price_bound(configs, prices) == pytest.approx(whole, rel=1e-12)


def test_the_makespan_bound_by_hand() -> None:
    """Two jobs with two GPUs each take four of three, so that nothing ends before 10 s."""
    assert makespan_price_bound(two_priced_jobs(), np.array([1.0])) == 10
    assert proves_makespan_bound(two_priced_jobs(), np.array([1.0]), 10)
    assert not proves_makespan_bound(two_priced_jobs(), np.array([1.0]), 10.1)
    assert makespan_price_bound(two_priced_jobs(), np.array([0.0])) == 4


def test_a_job_without_a_configuration_has_no_plan() -> None:
    """Its bound is infinite."""
    empty = CheckedConfigurations(
        np.array([0, 0]), np.zeros(0), np.zeros((0, 1)), np.ones(1), ("gpu",), np.array([3.0])
    )
    assert makespan_price_bound(empty, np.zeros(1)) == math.inf
    assert empty.elementary_bound(makespan=True) is None


def test_the_methods_bounds_are_the_same() -> None:
    """Two implementations, hundreds of random prices, one figure."""
    compared = 0
    for seed in range(300):
        instance = random_allocation(seed)
        assert isinstance(instance, AllocationInstance)
        formulation = AllocationFormulation(instance)
        configs, derived = formulation.configurations, formulation.checked
        if derived.some_job_has_none:
            continue
        scale = 10.0 ** (seed % 7 - 3)
        prices = scale * np.random.default_rng(seed).random(len(configs.resources))
        problem = MultipleChoice.of(configs, configs.cost)
        assert knapsack_bound(problem, prices) == price_bound(derived, prices)
        assert makespan_bound(configs, prices) == makespan_price_bound(derived, prices)
        compared += 1
    assert compared > 200


def made(seed: int) -> AllocationFormulation:
    """Return the formulation of a random instance: tables, restarts, deadlines, budgets, optional jobs."""
    instance = random_allocation(seed)
    assert isinstance(instance, AllocationInstance)
    return AllocationFormulation(instance)


@pytest.mark.parametrize("block", range(10))
def test_the_derivation_equals_the_table_of_the_methods(block: int) -> None:
    """On 300 random instances both list the same configurations in the same order."""
    for seed in range(30 * block, 30 * block + 30):
        formulation = made(seed)
        configs, derived = formulation.configurations, formulation.checked
        assert derived.shared is None
        assert derived.start.tolist() == configs.start.tolist()
        np.testing.assert_allclose(derived.time_s, configs.time_s, rtol=1e-12)
        np.testing.assert_allclose(derived.demand, configs.demand, rtol=1e-12)
        assert derived.resources == configs.resources
        assert derived.limit.tolist() == configs.limit.tolist()
        assert derived.cost.tolist() == configs.cost.tolist()


def certified(formulation: AllocationFormulation) -> float | None:
    """Return what a certificate of `exact` proves about the formulation's instance."""
    certificate = clusterplan.solve(formulation.instance, "exact").certificate
    return formulation.certified_bounds(certificate)[0]


def test_a_wrong_row_of_the_methods_does_not_reach_a_small_check() -> None:
    """A table whose times are too long changes nothing: the check never reads them."""
    instance = generate_allocation(5, 2, 0.5, seed=1)
    right = certified(AllocationFormulation(instance))
    wrong = AllocationFormulation(instance)
    configs = wrong.configurations
    wrong.configurations = replace(configs, time_s=2 * configs.time_s)
    assert right is not None
    assert certified(wrong) == right


def planted(configs: Configurations, what: str) -> Configurations:
    """Return the table with one wrong entry, or without one configuration, in the middle of its jobs."""
    job = configs.jobs // 2
    index = int(configs.start[job])
    if what == "time":
        time_s = configs.time_s.copy()
        time_s[index] *= 1 + 1e-9
        return replace(configs, time_s=time_s)
    if what == "demand":
        demand = configs.demand.copy()
        demand[index, 0] += 1e-6
        return replace(configs, demand=demand)
    start = configs.start - (configs.start > index)
    return replace(
        configs,
        start=start,
        time_s=np.delete(configs.time_s, index),
        demand=np.delete(configs.demand, index, axis=0),
    )


@pytest.mark.parametrize("what", ["time", "demand", "missing"])
def test_a_wrong_row_of_a_shared_table_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all jobs are sampled, any wrong row makes the certificate prove nothing, without a traceback."""
    monkeypatch.setattr(check, "MAX_DERIVED", 0)
    instance = generate_allocation(8, 2, 0.5, seed=3)
    certificate = clusterplan.solve(instance, "exact").certificate
    right = AllocationFormulation(instance)
    assert right.certified_bounds(certificate)[0] != right.elementary_bounds()[0]
    assert "all those of 8 jobs, derived again and equal" in str(right.shared_tables())
    wrong = AllocationFormulation(instance)
    wrong.configurations = planted(wrong.configurations, what)
    assert wrong.certified_bounds(certificate) == wrong.elementary_bounds()
    assert "the certificate proves nothing" in str(wrong.shared_tables())


def test_the_sample_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs are drawn until the sample is full; what was compared is said."""
    monkeypatch.setattr(check, "MAX_DERIVED", 0)
    monkeypatch.setattr(check, "MAX_SAMPLED", 100)
    formulation = AllocationFormulation(generate_allocation(50, 2, 0.5, seed=3))
    said = str(formulation.shared_tables())
    assert 0 < int(said.split("; ")[1].split(" of ", maxsplit=1)[0]) <= 100


def test_within_a_smaller_cluster_is_what_that_cluster_derives() -> None:
    """The configurations of a scaled cluster are those of the whole one that fit."""
    instance = generate_allocation(6, 3, 0.2, seed=2)
    half = {name: amount / 2 for name, amount in instance.resources.items()}
    smaller = AllocationFormulation(instance.model_copy(update={"resources": half})).checked
    cut = AllocationFormulation(instance).checked.within(smaller.capacity)
    assert cut.start.tolist() == smaller.start.tolist()
    assert cut.time_s.tolist() == smaller.time_s.tolist()
    assert cut.demand.tolist() == smaller.demand.tolist()
