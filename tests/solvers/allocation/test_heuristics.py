"""Marginal gain against a plain reference: loops over jobs and tasks, no arrays and no heap.

Rounding of dual prices, and local search.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
from allocation_instances import allocation, measured, ring
from random_instances import random_allocation
from small_models import best_choice, random_knapsack

import clusterplan
from clusterplan.formulations.allocation.configurations import UNPLACED, task_demands
from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.allocation.job import Job
from clusterplan.instances.allocation.job_table import TABLE
from clusterplan.instances.common.arrays import Floats
from clusterplan.solvers.allocation.heuristics import improve, round_prices
from clusterplan.solvers.allocation.lagrangian import MultipleChoice, best_prices
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions

BATCH = 60
EARLY = 0.95
"""What gains of jobs that have only just begun are multiplied by."""
Plan = list[tuple[str | None, int, int]]
"""Variant, parameter servers and workers of each job; (None, 0, 0) where it stays unplaced."""


class Way(NamedTuple):
    """One configuration of a job: variant in the table of jobs, tasks, completion time, and what it takes."""

    variant: int
    ps: int
    workers: int
    time_s: float
    demand: Floats


class Reference:
    """The paper's heuristic in plain loops: before every task all jobs are looked at again.

    Ties go to the earlier job, then to the parameter server.
    """

    def __init__(self, made: AllocationInstance, joint: bool, stop: bool) -> None:
        self.made, self.additions, self.stop = made, 3 if joint else 2, stop
        formulation = AllocationFormulation(made)
        configs, self.table = formulation.configurations, formulation.table
        ps, worker = task_demands(made, self.table)
        self.tasks = [((1, 0), ps), ((0, 1), worker), ((1, 1), ps + worker)]
        self.limit = configs.limit
        first = self.table.first_variant
        self.menus = [
            [
                Way(int(first[j] + v), *(int(n) for n in counts), float(time_s), demand)
                for v, *counts, time_s, demand in zip(
                    *(column[configs.of(j)] for column in (configs.variant, configs.ps, configs.workers)),
                    configs.time_s[configs.of(j)],
                    configs.demand[configs.of(j)],
                    strict=True,
                )
                if v != UNPLACED
            ]
            for j in range(configs.jobs)
        ]

    def fits(self, chosen: list[Way | None]) -> bool:
        """Return whether some configurations together keep all limits."""
        taken = sum((way.demand for way in chosen if way is not None), np.zeros(len(self.limit)))
        return bool((taken <= self.limit).all())

    def dominant(self, demand: Floats) -> tuple[float, float]:
        """Return the largest share of a resource that a demand takes, and the absolute amount of it."""
        capacity = list(self.made.resources.values())
        shares = [a / c if c > 0 else 0.0 for a, c in zip(demand, capacity, strict=False)]
        most = max(range(len(shares)), key=lambda r: shares[r])
        return shares[most], float(demand[most])

    def start(self) -> list[Way | None] | None:
        """Give each job in turn the smallest configuration of its fastest variant that still fits."""
        chosen: list[Way | None] = []
        for job, menu in zip(self.made.jobs, self.menus, strict=True):
            by_variant = itertools.groupby(menu, key=lambda way: way.variant)
            smallest = [
                min(own, key=lambda way: (way.ps + way.workers, self.dominant(way.demand)[0]))
                for _, own in by_variant
            ]
            fitting = [way for way in smallest if self.fits([*chosen, way])]
            if not fitting and not job.optional:
                return None
            chosen.append(min(fitting, key=lambda way: way.time_s) if fitting else None)
        return chosen

    def next_ways(self, menu: list[Way], way: Way) -> Iterator[tuple[Way, float]]:
        """Yield, for each step from a configuration, where it leads and what it takes more."""
        if self.table.model[way.variant] == TABLE:
            behind = menu[next(k for k, other in enumerate(menu) if other is way) + 1 :]
            if behind and behind[0].variant == way.variant:
                yield behind[0], self.dominant(behind[0].demand - way.demand)[1]
            return
        for (p, w), demand in self.tasks[: self.additions]:
            for other in menu:
                if other[:3] == (way.variant, way.ps + p, way.workers + w):
                    yield other, self.dominant(demand[way.variant])[1]

    def gain(self, job: Job, drop_s: float, amount: float) -> float:
        """Return the weighted seconds saved per unit; a task that takes nothing gains without end."""
        weight = 1.0 if self.made.objective == "makespan" else job.weight
        drop = (EARLY if job.stage == "beginning" else 1.0) * weight * drop_s
        if drop <= 0:
            return 0.0
        return drop / amount if amount > 0 else float("inf")

    def plan(self) -> Plan | None:
        """Return the plan; None if the jobs do not even start together."""
        chosen = self.start()
        if chosen is None:
            return None
        while True:
            best: tuple[float, int, Way, bool] | None = None
            for j, (job, menu, way) in enumerate(zip(self.made.jobs, self.menus, chosen, strict=True)):
                for other, amount in self.next_ways(menu, way) if way is not None else ():
                    gained = self.gain(job, way.time_s - other.time_s, amount)
                    fit = self.fits([*chosen[:j], other, *chosen[j + 1 :]])
                    if gained > 0 and (fit or self.stop) and (best is None or gained > best[0]):
                        best = (gained, j, other, fit)
            if best is None or not best[3]:
                names = self.table.variant_names
                return [(None, 0, 0) if w is None else (names[w.variant], w.ps, w.workers) for w in chosen]
            chosen[best[1]] = best[2]


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
        expected = Reference(made, name == "marginal-gain-joint", stop).plan()
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
