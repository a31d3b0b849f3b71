"""What one more unit saves: never more than the best schedules of both clusters differ, and the gap."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from clusterplan.formulations.scheduling.check.price_bound import price_bound
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.formulations.scheduling.price_grid import PriceGrid
from clusterplan.formulations.scheduling.worth import buy_next, worth_of_units
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance


def priced(gpus: int) -> tuple[SchedulingInstance, PriceGrid]:
    instance = generate_scheduling(30, gpus, load=2.0, seed=4)
    edges = np.linspace(0.0, 2e5, 9)
    price = np.append(np.random.default_rng(3).uniform(0, 2, 8), 0.0)[:, None]
    return instance, PriceGrid(edges, price)


def test_the_bound_falls_by_the_worth_of_a_unit() -> None:
    """The prices of one cluster, evaluated on the next larger ones."""
    small, grid = priced(8)
    worth = worth_of_units(small, grid)["gpu"]
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
        assert fall == pytest.approx(worth_of_units(here, grid)["gpu"], rel=1e-6)
        whole = float((np.diff(grid.edges_s) @ grid.price[:-1])[0])
        assert worth_of_units(here, grid)["gpu"] == pytest.approx(whole * max(weights) / sum(weights))


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
    assert one - best_on_two <= gap + worth_of_units(instance, grid)["gpu"] + 1e-9


def test_the_advice_says_seconds_and_job_hours() -> None:
    """Rounded up; weighted jobs have no hours in common."""
    instance, grid = priced(8)
    worth = worth_of_units(instance, grid)
    said = buy_next(instance, worth, 10 * worth["gpu"])
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
    assert "job-hours" not in buy_next(weighted, worth, 1.0)
    assert "more of no resource" in buy_next(instance, {"gpu": 0.0}, 1.0)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(1234.5, "1,240 s"), (999.1, "1,000 s"), (0.0012345, "0.00124 s"), (12.0, "12 s"), (1000.0, "1,000 s")],
)
def test_the_advice_has_three_digits_and_is_rounded_up(seconds: float, said: str) -> None:
    """A bound from above holds as it is printed, and says no more than it has to."""
    instance, _ = priced(8)
    assert f"at most {said} of the mean" in buy_next(instance, {"gpu": seconds}, 0.0)


def test_a_certificate_that_cannot_be_read_has_no_prices() -> None:
    formulation = SchedulingFormulation(priced(8)[0])
    assert formulation.prices({"edges_s": [1.0], "prices": {"tpu": [0.0]}}, ()) is None
    assert formulation.prices(None, ()) is None
