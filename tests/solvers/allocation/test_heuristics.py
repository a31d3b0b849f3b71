"""Marginal gain against a plain reference: loops over jobs and tasks, no arrays and no heap.

Rounding of dual prices, and local search.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from allocation_instances import allocation, measured, ring
from random_instances import random_allocation
from small_models import best_choice, random_knapsack

import clusterplan
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.allocation.job import Job, Variant
from clusterplan.solvers.allocation.heuristics import improve, round_prices
from clusterplan.solvers.allocation.lagrangian import MultipleChoice, best_prices
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions

EARLY = 0.95
"""What gains of jobs that have only just begun are multiplied by."""
BATCH = 60
TABLE = "table"
Plan = list[tuple[str | None, int, int]]
"""Variant, parameter servers and workers of each job; (None, 0, 0) where it stays unplaced."""


@dataclass(frozen=True)
class Way:
    """One configuration of a job: its place, its completion time and what it takes."""

    variant: Variant
    ps: int
    workers: int
    time_s: float
    demand: list[float]

    @property
    def measured(self) -> bool:
        """Whether the speed comes from a table."""
        return bool(self.variant.speed.model == TABLE)


def loosened(limit: float) -> float:
    """Return a limit with the tolerance of the check."""
    return limit + 1e-9 * max(limit, 1e-9)


def limits(made: AllocationInstance) -> list[float]:
    """Return what a plan may take of each resource, and of the hourly budget behind them."""
    found = [loosened(amount) for amount in made.resources.values()]
    budget = made.budget_usd_per_hour
    return found if budget is None else [*found, loosened(budget)]


def fits(taken: list[float], made: AllocationInstance) -> bool:
    """Return whether an amount of everything keeps all limits."""
    return all(amount <= limit for amount, limit in zip(taken, limits(made), strict=True))


def one_task(made: AllocationInstance, demand: dict[str, float]) -> list[float]:
    """Return what a task takes of each resource, and its price where there is a budget."""
    found = [demand.get(name, 0.0) for name in made.resources]
    if made.budget_usd_per_hour is None:
        return found
    prices = made.prices_usd_per_hour
    return [*found, sum(demand.get(name, 0.0) * prices.get(name, 0.0) for name in made.resources)]


def step_times_s(variant: Variant) -> Iterator[tuple[int, int, float]]:
    """Yield ps, workers and the seconds of a step of each configuration, workers first."""
    speed: Any = variant.speed
    if speed.model == TABLE:
        for row in sorted(speed.rows, key=lambda row: (row.workers, row.ps)):
            yield row.ps, row.workers, 1.0 / row.steps_per_s
        return
    for w in range(variant.workers.min, variant.workers.max + 1):
        if speed.model == "ring_allreduce":
            a, b, c, d = speed.theta
            yield 0, w, a * speed.batch / w + b + c * (w - 1) / w + d * (w - 1)
            continue
        for p in range(variant.ps.min, variant.ps.max + 1):
            if speed.model == "ps_async":
                a, b, c, d = speed.theta
                yield p, w, (a + b * w / p + c * w + d * p) / w
            else:
                a, b, c, d, e = speed.theta
                yield p, w, a * speed.batch / w + b + c * w / p + d * w + e * p


def ways(made: AllocationInstance, job: Job) -> list[Way]:
    """Return every configuration of a job that keeps its deadline and fits in the empty cluster."""
    found = []
    now = job.current
    for variant in job.variants:
        ps_demand = one_task(made, variant.ps_demand)
        worker_demand = one_task(made, variant.worker_demand)
        for p, w, step_s in step_times_s(variant):
            time_s = job.remaining_steps * step_s
            if now is None or (now.variant, now.ps, now.workers) != (variant.name, p, w):
                time_s += job.restart_s
            demand = [p * a + w * b for a, b in zip(ps_demand, worker_demand, strict=True)]
            late = job.deadline_s is not None and time_s > loosened(job.deadline_s)
            if not late and fits(demand, made):
                found.append(Way(variant, p, w, time_s, demand))
    return found


def dominant(made: AllocationInstance, demand: list[float]) -> tuple[float, float]:
    """Return the largest share of a resource that a demand takes, and the absolute amount of it."""
    capacity = list(made.resources.values())
    shares = [a / c if c > 0 else 0.0 for a, c in zip(demand, capacity, strict=False)]
    most = max(range(len(shares)), key=lambda r: shares[r])
    return shares[most], demand[most]


def start(made: AllocationInstance, menus: list[list[Way]]) -> list[Way | None] | None:
    """Give each job in turn the smallest configuration of its fastest variant that still fits."""
    chosen: list[Way | None] = []
    for job, menu in zip(made.jobs, menus, strict=True):
        smallest = [
            min(own, key=lambda way: (way.ps + way.workers, dominant(made, way.demand)[0]))
            for variant in job.variants
            if (own := [way for way in menu if way.variant is variant])
        ]
        fitting = [way for way in smallest if fits(taken(made, [*chosen, way]), made)]
        if not fitting and not job.optional:
            return None
        chosen.append(min(fitting, key=lambda way: way.time_s) if fitting else None)
    return chosen


def taken(made: AllocationInstance, chosen: list[Way | None]) -> list[float]:
    """Return what some configurations take together."""
    demands = [way.demand for way in chosen if way is not None]
    return [sum(d[r] for d in demands) for r in range(len(limits(made)))]


def next_ways(
    made: AllocationInstance, configs: list[Way], way: Way, joint: bool
) -> Iterator[tuple[int, Way, float]]:
    """Yield the order of each step from a configuration, where it leads and what it takes more."""
    if way.measured:
        behind = configs[configs.index(way) + 1 :]
        if behind and behind[0].variant is way.variant:
            more = [after - before for after, before in zip(behind[0].demand, way.demand, strict=True)]
            yield 0, behind[0], dominant(made, more)[1]
        return
    ps, worker = one_task(made, way.variant.ps_demand), one_task(made, way.variant.worker_demand)
    both = [a + b for a, b in zip(ps, worker, strict=True)]
    for order, (p, w, task) in enumerate([(1, 0, ps), (0, 1, worker), (1, 1, both)][: 3 if joint else 2]):
        for other in configs:
            if (other.variant, other.ps, other.workers) == (way.variant, way.ps + p, way.workers + w):
                yield order, other, dominant(made, task)[1]


def gain(made: AllocationInstance, job: Job, drop_s: float, amount: float) -> float:
    """Return the weighted seconds saved per absolute unit; a task that takes nothing gains without end."""
    weight = 1.0 if made.objective == "makespan" else job.weight
    drop = (EARLY if job.stage == "beginning" else 1.0) * weight * drop_s
    if drop <= 0:
        return 0.0
    return drop / amount if amount > 0 else float("inf")


def reference(made: AllocationInstance, joint: bool, stop: bool) -> Plan | None:
    """Return the plan of the paper's heuristic; None if the jobs do not even start together.

    Before every task all jobs are looked at again. Ties go to the earlier job, then to the parameter server.
    """
    menus = [ways(made, job) for job in made.jobs]
    chosen = start(made, menus)
    if chosen is None:
        return None
    while True:
        best: tuple[float, int, int, Way, bool] | None = None
        for j, (job, configs) in enumerate(zip(made.jobs, menus, strict=True)):
            way = chosen[j]
            for order, other, amount in next_ways(made, configs, way, joint) if way is not None else ():
                gained = gain(made, job, way.time_s - other.time_s, amount)
                fit = fits(taken(made, [*chosen[:j], other, *chosen[j + 1 :]]), made)
                if gained > 0 and (fit or stop) and (best is None or gained > best[0]):
                    best = (gained, j, order, other, fit)
        if best is None or not best[4]:
            return [(None, 0, 0) if w is None else (w.variant.name, w.ps, w.workers) for w in chosen]
        chosen[best[1]] = best[3]


def busy(seed: int) -> AllocationInstance:
    """Return up to a dozen jobs of several random instances, with wider ranges, on one cluster."""
    rng = random.Random(seed)
    parts = [random_allocation(rng.randrange(10**6)).document() for _ in range(rng.randint(1, 4))]
    whole = max(parts, key=lambda part: len(part["resources"]))
    names, jobs = set(whole["resources"]), [job for part in parts for job in part["jobs"]]
    grown = rng.choice([0, 2, 5])
    for index, job in enumerate(jobs):
        job["name"] = f"job-{index}"
        for variant in job["variants"]:
            for key in ("workers", "ps"):
                if key in variant:
                    variant[key]["max"] += grown
    whole["jobs"] = jobs
    whole["resources"] = {name: rng.choice([4, 8, 13.5]) * len(jobs) for name in names}
    whole["resources"] = dict(sorted(whole["resources"].items()))
    if "budget_usd_per_hour" in whole:
        whole["budget_usd_per_hour"] *= len(jobs)
    return AllocationInstance.model_validate(whole)


@pytest.mark.parametrize("stop", [False, True])
@pytest.mark.parametrize("name", ["marginal-gain", "marginal-gain-joint"])
@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(BATCH, 5 * BATCH, BATCH))]
)
def test_plan_is_that_of_the_plain_reference(first: int, name: str, stop: bool) -> None:
    """Every job gets the variant and the tasks that the plain loops give it, or there is no plan in both."""
    planned = 0
    for seed in range(first, first + BATCH):
        made = busy(seed)
        result = clusterplan.solve(made, name, SolveOptions(method_options={"stop_at_first_misfit": stop}))
        expected = reference(made, name == "marginal-gain-joint", stop)
        assert (result.plan is None) == (expected is None), (seed, result.message)
        if result.plan is not None:
            planned += 1
            entries = [entry.model_dump() for entry in result.plan]
            found = [(entry["variant"], entry["ps"], entry["workers"]) for entry in entries]
            assert found == expected, seed
    assert planned > BATCH // 2


def test_a_step_that_frees_a_resource_lets_others_grow() -> None:
    """A measured configuration without a parameter server gives back the cpu that another job waits for."""
    wide = ring({"cpu": 1.5}, [1, 0, 0, 0], 2)
    grows = {"name": "grows", "remaining_steps": 1000, "variants": [wide]}
    rows = [{"workers": 1, "ps": 1, "steps_per_s": 1}, {"workers": 2, "ps": 0, "steps_per_s": 2}]
    frees = measured("frees", (1, {"gpu": 1}), remaining_steps=10)
    frees["variants"][0] |= {"ps_demand": {"cpu": 1}, "speed": {"model": "table", "rows": rows}}
    instance = allocation({"cpu": 3.5, "gpu": 4}, [grows, frees])
    assert clusterplan.solve(instance, "marginal-gain").objective == 505


def test_a_rounded_choice_is_feasible_and_often_optimal() -> None:
    """One item of each job, within the limits, no better than the optimum."""
    found = optimal = 0
    for seed in range(100):
        problem = random_knapsack(seed)
        best, _ = best_choice(problem)
        items = round_prices(problem, best_prices(problem, Clock(None)).prices, Clock(None))
        if items is None:
            continue
        assert np.searchsorted(problem.start, items, side="right").tolist() == list(
            range(1, problem.jobs + 1)
        )
        assert problem.fits(items)
        assert problem.value(items) >= best - 1e-9
        found += 1
        optimal += math.isclose(problem.value(items), best)
    assert found >= 40
    assert optimal >= 0.8 * found


def test_pairs_of_jobs_exchange_what_no_single_job_can_take() -> None:
    """The second job saves 10 with three units; the first must give back two of its own, which costs 4."""
    problem = MultipleChoice(
        np.array([0, 2, 4]),
        np.array([1.0, 5.0, 2.0, 12.0]),
        np.array([[3.0], [1.0], [3.0], [1.0]]),
        np.array([4.0]),
        np.arange(4),
    )
    items = improve(problem, np.array([0, 3]), np.zeros(1), Clock(None))
    assert items.tolist() == [1, 2]
