"""Traces for tests: rigid and malleable jobs, events, leases, restarts, weights; plans and their faults."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import yaml

from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.scheduling.certificate import PriceGrid
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.formulations.scheduling.plan import Segment
from clusterplan.instances.common.faults import validated
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import find_solver
from clusterplan.solvers.scheduling.engine import Schedule


def described(document: str, fields: str = "", **more: Any) -> SchedulingInstance:
    """Return the instance `t` of a document in YAML, with other fields in YAML or as they are."""
    parts = {**yaml.safe_load(document), **(yaml.safe_load(fields) or {}), **more}
    return validated(SchedulingInstance, {"name": "t", **parts}, "t")


def plan_of(*rows: tuple[Any, ...]) -> tuple[Segment, ...]:
    """Return segments of job, start, end, and of configuration and servers where there are any."""
    names = ("job", "start_s", "end_s", "configuration", "servers")
    return tuple(Segment(**dict(zip(names, row, strict=False))) for row in rows)


def broken(instance: SchedulingInstance, *rows: tuple[Any, ...]) -> list[str]:
    """Return the constraints that a plan of such rows breaks, in words."""
    return [str(one) for one in SchedulingFormulation(instance).violations(plan_of(*rows))]


MODES = ("free", "costs", "none")
GROWS = {"name": "a", "work": 12, "demand": {"gpu": 1}, "speeds": {1: 2.0, 2: 3.0, 4: 4.0}}
RIGID = {"name": "b", "demand": {"gpu": 2}, "duration_s": 2, "arrival_s": 1}
RULES: list[dict[str, Any]] = [
    {},
    {"preemption": "none"},
    {"preemption": "costs", "restart_s": 30, "lease_s": 120},
    {"lease_s": 600},
    {"events": [{"at_s": 20_000, "change": {"gpu": -10}}, {"at_s": 60_000, "change": {"gpu": 10}}]},
]


def plan_by(formulation: SchedulingFormulation, policy: str | Any, **options: Any) -> list[Segment]:
    """Return the plan of a policy, which has to be feasible."""
    solver = find_solver(policy, "scheduling") if isinstance(policy, str) else policy
    plan = solver.solve(formulation, SolveOptions(**options), Clock()).plan
    assert formulation.violations(plan) == []
    return list(plan)


def rigid_jobs(*jobs: tuple[float, int, float]) -> list[dict[str, Any]]:
    """Return the rows of jobs a, b, … of (arrival, tasks of one GPU each, duration)."""
    return [
        {"name": "abcdefgh"[k], "arrival_s": r, "tasks": g, "demand": {"gpu": 1}, "duration_s": p}
        for k, (r, g, p) in enumerate(jobs)
    ]


def rigid_trace(*jobs: tuple[float, int, float], gpus: float = 2, **others: Any) -> SchedulingInstance:
    """Return a trace of such jobs."""
    document = {"name": "t", "resources": {"gpu": gpus}, **others, "jobs": rigid_jobs(*jobs)}
    return SchedulingInstance.model_validate(document)


def on_several_resources() -> SchedulingInstance:
    """Return jobs of unlike shapes on GPUs and CPUs, most of which have fractions, of three tenants."""
    rng = np.random.default_rng(2)
    rows = [
        {
            "name": f"j{k}",
            "arrival_s": float(rng.uniform(0, 50)),
            "demand": {"gpu": int(rng.integers(0, 4)), "cpu": round(float(rng.uniform(0.1, 8)), 3)},
            "tasks": int(rng.integers(1, 3)),
            "duration_s": float(rng.exponential(20) + 0.1),
            "tenant": f"t{k % 3}",
        }
        for k in range(50)
    ]
    document = {"name": "t", "resources": {"gpu": 6, "cpu": 16.5}, "jobs": rows}
    return SchedulingInstance.model_validate(document)


def segments_of(there: SchedulingInstance, plan: Sequence[Segment], *more: str) -> list[tuple[Any, ...]]:
    """Return job, start, end, and more, of the segments of a plan, which has to be feasible."""
    formulation = SchedulingFormulation(there)
    assert formulation.violations(plan) == []
    names = ("job", "start_s", "end_s", *more)
    return [tuple(getattr(segment, name) for name in names) for segment in formulation.finish(plan)]


def rows_of(schedule: Schedule) -> list[tuple[int, float, float]]:
    """Return job, start and end of what was simulated, in one order."""
    return sorted(zip(schedule.job.tolist(), schedule.start_s.tolist(), schedule.end_s.tolist(), strict=True))


def random_prices(instance: SchedulingInstance, seed: int, count: int) -> Iterator[PriceGrid]:
    """Yield prices of every resource in six cells, the last of which is free."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        edges = np.append(0.0, np.cumsum(rng.integers(1, 6, 5))).astype(float)
        price = rng.exponential(0.5, (6, len(instance.pool))) * (rng.random((6, 1)) < 0.7)
        price[-1] = 0
        yield PriceGrid(edges, price)


def random_trace(seed: int, most_jobs: int = 12, whole: bool = False) -> SchedulingInstance:
    """Return a trace of a few jobs.

    Parameters
    ----------
    whole
        Whether it is of the simplest sort, in which all times are whole seconds in every configuration, so
        that all schedules of interest can be listed.
    """
    rng = np.random.default_rng(seed)
    jobs = [_job(rng, j, whole) for j in range(int(rng.integers(1, most_jobs + 1)))]
    jobs[0]["weight"] = 1
    document: dict[str, Any] = {"name": f"random-{seed}", "resources": {"gpu": 4, "cpu": 6}, "jobs": jobs}
    if whole:
        return SchedulingInstance.model_validate({**document, "preemption": "none"})
    document["preemption"] = MODES[seed % 3]
    document["restart_s"] = float(rng.choice([0, 0.5, 7]))
    document["lease_s"] = float(rng.choice([0, 0, 3, 50]))
    if rng.random() < 0.4:
        at = np.sort(rng.uniform(0, 60, 2)).round(3).tolist()
        document["events"] = [
            {"at_s": at[0], "change": {"gpu": -float(rng.integers(1, 4))}},
            {"at_s": at[1], "change": {"gpu": 4.0}},
        ]
    return SchedulingInstance.model_validate(document)


def _job(rng: np.random.Generator, j: int, whole: bool) -> dict[str, Any]:
    job: dict[str, Any] = {"name": f"j{j}", "weight": float(rng.choice([0, 1, 1, 2.5]))}
    job["arrival_s"] = float(rng.integers(0, 4)) if whole else round(float(rng.uniform(0, 60)), 3)
    demand = {"gpu": 1, "cpu": float(rng.choice([0, 1, 1.5]))}
    sort = rng.random()
    if sort < 0.35:
        duration = float(rng.integers(1, 4)) if whole else round(float(rng.lognormal(2, 1)), 3) + 0.01
        return {**job, "tasks": int(rng.integers(1, 4)), "demand": demand, "duration_s": duration}
    if whole:
        return {**job, "demand": demand, "work": 6, "speeds": {1: 2, 2: 3, 4: 6}}
    work = round(float(rng.lognormal(2, 1)), 3) + 0.01
    if sort < 0.7:
        counts = rng.choice([1, 2, 3, 4], size=int(rng.integers(1, 4)), replace=False).tolist()
        return {**job, "demand": demand, "work": work, "speeds": {c: round(c**0.7, 3) for c in counts}}
    served = {"model": "ps_async", "theta": [0.2, 0.1, 0.02, 0.05]}
    ring = {"model": "ring_allreduce", "theta": [0.1, 0.05, 0.01, 0.01], "batch": 4}
    worker = {"gpu": 1.0, "cpu": 0.5}
    variants = [
        {"name": "ring", "worker_demand": worker, "workers": {"max": 3}, "speed": ring},
        {
            "name": "ps",
            "worker_demand": worker,
            "workers": {"max": 3},
            "ps_demand": {"cpu": 1},
            "ps": {"max": 2},
            "speed": served,
        },
    ]
    return {**job, "work": work * 5, "variants": variants}


def least_of_malleable(instance: SchedulingInstance) -> float:
    """Return the least weighted mean of all schedules in whole seconds, without restarts, leases and events.

    What it finds is feasible, so no bound may be above it. Without preemption it is optimal where every job
    takes whole seconds in all its configurations.
    """
    table, menus = instance.table(), instance.menus()
    capacity, once = instance.capacity_over_time[1][0], instance.preemption == "none"
    rows = [range(a, b) for a, b in itertools.pairwise(menus.first.tolist())]
    horizon = table.arrival_s.max() + menus.work.sum()

    @cache
    def best(t: int, states: tuple[tuple[float, int], ...]) -> float:
        """Return the least cost from second t on, by each job's work, and what it has to run in or −1."""
        if t > horizon or not any(left for left, _ in states):
            return np.inf if t > horizon else 0.0
        found, choices = np.inf, []
        for (left, now), arrival, own in zip(states, table.arrival_s, rows, strict=True):
            absent = left == 0 or t < arrival
            choices.append([-1] if absent else [now] if now >= 0 else [-1, *own])
        for chosen in itertools.product(*choices):
            if (menus.usage[[k for k in chosen if k >= 0]].sum(axis=0) > capacity).any():
                continue
            cost, after = 0.0, []
            for j, ((left, _), k) in enumerate(zip(states, chosen, strict=True)):
                done = float(menus.speed[k]) if k >= 0 else 0.0
                present = min(1.0, left / done) if done else float(left > 0 and t >= table.arrival_s[j])
                cost += float(table.weight[j]) * present
                after.append((max(0.0, left - done), k if once and left > done else -1))
            found = min(found, cost + best(t + 1, tuple(after)))
        return found

    return best(0, tuple((work, -1) for work in menus.work.tolist())) / float(table.weight.sum())
