"""Certificates of scheduling: there and back, and what nobody vouches for.

Grids of prices: what is allowed, and what a price is at a moment.

What one more unit saves: never more than the best schedules of both clusters differ, and the gap.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest

from clusterplan.formulations.scheduling.certificate import (
    MAX_EDGES,
    PriceGrid,
    certificate_of,
    marginal_value_text,
    marginal_values,
    read_grid,
)
from clusterplan.formulations.scheduling.check.price_bound import price_bound
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance

BAD: list[tuple[Any, str]] = [
    (None, "dictionary"),
    ([1, 2], "dictionary"),
    ("prices", "dictionary"),
    ({}, "edges_s: field required"),
    ({"edges_s": [], "prices": {}}, "edges_s"),
    ({"edges_s": [0, 1], "prices": {"gpu": [1, 0]}, "bound": 5.0}, "bound"),
    ({"edges_s": ["0"], "prices": {}}, "numbers"),
    ({"edges_s": [True], "prices": {}}, "numbers"),
    ({"edges_s": [0, float("nan")], "prices": {}}, "finite"),
    ({"edges_s": [0, float("inf")], "prices": {}}, "finite"),
    ({"edges_s": [10**400], "prices": {}}, "number"),
    ({"edges_s": [1, 0], "prices": {"gpu": [0, 0]}}, "rise"),
    ({"edges_s": [-1, 0], "prices": {}}, "greater"),
    ({"edges_s": [0, 1], "prices": {"gpu": [-1, 0]}}, "greater"),
    ({"edges_s": [0, 1], "prices": {"gpu": [float("nan"), 0]}}, "finite"),
    ({"edges_s": [0, 1], "prices": {"gpu": [1e300, 0]}}, "less"),
    ({"edges_s": [0, 1], "prices": {"gpu": [1]}}, "1 figures for 2 edges"),
    ({"edges_s": [0, 1], "prices": {"gpu": [1, 1]}}, "last edge"),
    ({"edges_s": [0, 1], "prices": {"gpu": 3}}, "prices"),
    ({"edges_s": [0, 1], "prices": {"gpu": [[1], [0]]}}, "numbers"),
    ({"edges_s": [0, 1], "prices": [1, 0]}, "numbers|dictionary"),
    ({"edges_s": [0, 1], "prices": {"tpu": [1, 0]}}, "no such resource"),
    ({"edges_s": list(range(MAX_EDGES + 1)), "prices": {}}, "at most"),
    ({"edges_s": [0, 1], "prices": {f"r{k}": [0, 0] for k in range(5_000)}}, "at most"),
]


@pytest.mark.parametrize(("data", "word"), BAD)
def test_what_cannot_be_read_is_named(data: Any, word: str) -> None:
    """And proves no more than the elementary bound."""
    import re

    formulation = SchedulingFormulation(generate_scheduling(4, 2))
    fault = formulation.certificate_fault(data)
    assert fault is not None
    assert re.search(word, fault), fault
    assert formulation.certified_bounds(data) == formulation.elementary_bounds()


def test_there_and_back_by_json() -> None:
    """Resources that are free are left out."""
    grid = PriceGrid(np.array([0.0, 1 / 3, 2.0]), np.array([[0.1, 0.0], [0.7, 0.0], [0.0, 0.0]]))
    data = json.loads(json.dumps(certificate_of(grid, ("gpu", "cpu"))))
    assert set(data["prices"]) == {"gpu"}
    again = read_grid(data, ("gpu", "cpu"))
    assert isinstance(again, PriceGrid)
    assert (again.edges_s == grid.edges_s).all()
    assert (again.price == grid.price).all()


def test_a_price_holds_from_its_edge_to_the_next() -> None:
    """Before the first edge and after the last one everything is free."""
    grid = PriceGrid(np.array([1.0, 2.0, 4.0]), np.array([[3.0], [5.0], [0.0]]))
    assert grid.at(np.array([0.5, 1.0, 1.9, 2.0, 3.9, 4.0, 1e9]))[:, 0].tolist() == [0, 3, 3, 5, 5, 0, 0]


def test_a_finer_grid_has_the_same_prices() -> None:
    """Also where it begins earlier."""
    grid = PriceGrid(np.array([1.0, 2.0, 4.0]), np.array([[3.0], [5.0], [0.0]]))
    fine = grid.refined(np.array([0.0, 3.0, 4.0, 9.0]))
    assert fine.edges_s.tolist() == [0, 1, 2, 3, 4, 9]
    assert fine.price[:, 0].tolist() == [0, 3, 5, 5, 0, 0]


@pytest.mark.parametrize(
    ("edges", "price", "word"),
    [
        ([0.0, 1.0], [1.0], "1 figures for 2 edges"),
        ([0.0, 0.0], [1.0, 0.0], "rise"),
        ([0.0, np.nan], [1.0, 0.0], "finite"),
        ([0.0, 1.0], [np.inf, 0.0], "prices"),
        ([0.0, 1.0], [1.0, 1.0], "last edge"),
        ([float(k) for k in range(MAX_EDGES + 1)], [0.0] * (MAX_EDGES + 1), "at most"),
        ([float(k) for k in range(2_000)], [0.0] * 2_000, "too many"),
    ],
)
def test_a_grid_that_makes_no_sense_is_refused(edges: list[float], price: list[float], word: str) -> None:
    """Shapes, order, size and signs, of a cluster with 501 resources."""
    fault = read_grid({"edges_s": edges, "prices": {"r7": price}}, [f"r{k}" for k in range(501)])
    assert isinstance(fault, str)
    assert word in fault


def priced(gpus: int) -> tuple[SchedulingInstance, PriceGrid]:
    instance = generate_scheduling(30, gpus, load=2.0, seed=4)
    edges = np.linspace(0.0, 2e5, 9)
    price = np.append(np.random.default_rng(3).uniform(0, 2, 8), 0.0)[:, None]
    return instance, PriceGrid(edges, price)


def test_the_bound_falls_by_the_worth_of_a_unit() -> None:
    """The prices of one cluster, evaluated on the next larger ones."""
    small, grid = priced(8)
    worth = marginal_values(small, grid)["gpu"]
    for more in (1, 5):
        larger = small.replace(resources={"gpu": 8 + more})
        assert price_bound(small, grid) - price_bound(larger, grid) == pytest.approx(more * worth, rel=1e-6)


def test_the_bound_falls_by_the_worth_of_a_unit_whatever_jobs_weigh() -> None:
    """Weights that are all alike change neither; those that are not are shares of their sum."""
    small, grid = priced(8)
    plain = [job.model_dump(exclude_none=True) for job in small.jobs]
    for weights in ([3.0] * 30, [float(1 + k % 4) for k in range(30)]):
        jobs = [{**job, "weight": weight} for job, weight in zip(plain, weights, strict=True)]
        here = small.replace(jobs=jobs)
        fall = price_bound(here, grid) - price_bound(here.replace(resources={"gpu": 9}), grid)
        assert fall == pytest.approx(marginal_values(here, grid)["gpu"], rel=1e-6)
        whole = float((np.diff(grid.edges_s) @ grid.price[:-1])[0])
        assert marginal_values(here, grid)["gpu"] == pytest.approx(whole * max(weights) / sum(weights))


@pytest.mark.parametrize("seed", range(20))
def test_the_best_schedules_of_one_machine_and_two_differ_by_no_more(seed: int) -> None:
    """Jobs that are all there at once: shortest first is optimal on identical machines."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, size=5).astype(float)
    jobs = [
        {"name": f"j{k}", "arrival_s": 0, "tasks": 1, "demand": {"gpu": 1}, "duration_s": length}
        for k, length in enumerate(lengths)
    ]
    instance = SchedulingInstance.model_validate(
        {"kind": "scheduling", "name": "t", "resources": {"gpu": 1}, "jobs": jobs}
    )
    edges = np.arange(0.0, lengths.sum() + 1)
    grid = PriceGrid(edges, np.append(np.sort(rng.uniform(0, 3, len(edges) - 1))[::-1], 0.0)[:, None])
    ordered = np.sort(lengths)
    one = np.cumsum(ordered).mean()
    best_on_two = np.mean([ordered[k::-2].sum() for k in range(5)])
    gap = one - price_bound(instance, grid)
    assert one - best_on_two <= gap + marginal_values(instance, grid)["gpu"] + 1e-9


def test_the_advice_says_seconds_and_job_hours() -> None:
    """Rounded up; weighted jobs have no hours in common."""
    instance, grid = priced(8)
    worth = marginal_values(instance, grid)
    said = marginal_value_text(instance, worth, 10 * worth["gpu"])
    assert "one more gpu throughout saves at most" in said
    assert "(10 %)" in said or "(10.1 %)" in said
    assert "job-hours in all, beyond the certified gap" in said
    assert float(said.split("at most ")[1].split(" s")[0].replace(",", "")) >= worth["gpu"]
    weighted = instance.replace(
        jobs=[
            {**job.model_dump(exclude_none=True), "weight": weight}
            for job, weight in zip(instance.jobs, itertools.count(1), strict=False)
        ]
    )
    assert "job-hours" not in marginal_value_text(weighted, worth, 1.0)
    assert "more of no resource" in marginal_value_text(instance, {"gpu": 0.0}, 1.0)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(1234.5, "1,240 s"), (999.1, "1,000 s"), (0.0012345, "0.00124 s"), (12.0, "12 s"), (1000.0, "1,000 s")],
)
def test_the_advice_has_three_digits_and_is_rounded_up(seconds: float, said: str) -> None:
    """A bound from above holds as it is printed, and says no more than it has to."""
    instance, _ = priced(8)
    assert f"at most {said} of the mean" in marginal_value_text(instance, {"gpu": seconds}, 0.0)


def test_a_certificate_that_cannot_be_read_has_no_prices() -> None:
    formulation = SchedulingFormulation(priced(8)[0])
    assert formulation.prices({"edges_s": [1.0], "prices": {"tpu": [0.0]}}, ()) is None
    assert formulation.prices(None, ()) is None
