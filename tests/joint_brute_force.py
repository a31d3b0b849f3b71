"""Brute force over configurations, splits and servers of tiny allocation instances, and random ones of them.

What a plan is worth is written here from the page of the problem, without a function of the package.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from clusterplan.formulations.allocation.plan import JobAllocation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.instances.allocation.job import Job, Variant

TOLERANCE = 1e-9

Split = dict[str, tuple[int, int]]
"""Server → parameter servers and workers there."""


class Option(NamedTuple):
    """One way to run a job: its variant and split (none: unplaced), its time, and what it takes."""

    time_s: float
    variant: Variant | None
    split: Split
    usage: dict[tuple[str, str], float]
    usd: float


def naive_step_s(variant: Variant, split: Split, share: float) -> float | None:
    """Return the step time [s] of a split; None if it is not measured."""
    p, w = (sum(tasks[sort] for tasks in split.values()) for sort in (0, 1))
    speed: Any = variant.speed
    if speed.model == "table":
        rows = {(row.ps, row.workers, row.servers): row.steps_per_s for row in speed.rows}
        listed = rows.get((p, w, len(split)), rows.get((p, w, None)))
        return None if listed is None else 1 / listed
    t = speed.theta
    if speed.model == "ring_allreduce":
        return t[0] * speed.batch / w + t[1] + t[2] * (w - 1) / w + t[3] * (w - 1)
    remote = max([w - y for x, y in split.values() if x] + [p - x for x, y in split.values() if y])
    sending = (1 - share) * w + share * remote
    if speed.model == "ps_sync":
        return t[0] * speed.batch / w + t[1] + t[2] * sending / p + t[3] * w + t[4] * p
    return (t[0] + t[1] * sending / p + t[2] * w + t[3] * p) / w


def naive_time_s(
    instance: AllocationInstance, job: Job, variant: Variant | None, split: Split
) -> float | None:
    """Return what a job counts with [s]; None if it is not measured."""
    if variant is None:
        return job.unplaced_s
    share = 1.0 if instance.network_share is None else instance.network_share
    step_s = naive_step_s(variant, split, share)
    if step_s is None:
        return None
    p, w = (sum(tasks[sort] for tasks in split.values()) for sort in (0, 1))
    now = job.current
    stays = now is not None and (now.variant, now.ps, now.workers) == (variant.name, p, w)
    if now is not None and now.placement is not None:
        there = {name: (tasks.ps, tasks.workers) for name, tasks in now.placement.items()}
        stays &= {name: tasks for name, tasks in there.items() if any(tasks)} == split
    return job.remaining_steps * step_s + (0.0 if stays else job.restart_s)


def naive_value(instance: AllocationInstance, times_s: list[float]) -> float:
    """Return the objective of completion times in the order of the jobs."""
    if instance.objective == "makespan":
        return max(times_s)
    return math.fsum(job.weight * time_s for job, time_s in zip(instance.jobs, times_s, strict=True))


def free_amounts(instance: AllocationInstance) -> dict[str, dict[str, float]]:
    """Return server → resource → what is free there."""
    rows = instance.servers or ()
    return {
        name: server.capacity if server.free is None else server.free
        for server in rows
        for name in (
            [server.name] if server.count is None else [f"{server.name}-{k}" for k in range(server.count)]
        )
    }


def spread(tasks: int, servers: int) -> Iterator[tuple[int, ...]]:
    """Yield every number of tasks on each server."""
    if not servers:
        return
    for cuts in itertools.combinations(range(tasks + servers - 1), servers - 1):
        ends = (-1, *cuts, tasks + servers - 1)
        yield tuple(high - low - 1 for low, high in itertools.pairwise(ends))


def counts(variant: Variant) -> Iterator[tuple[int, int]]:
    """Yield the parameter servers and workers that a variant may have."""
    if variant.speed.model == "table":
        yield from sorted({(row.ps, row.workers) for row in variant.speed.rows})
        return
    assert variant.workers is not None
    ps = (0, 0) if variant.ps is None else (variant.ps.min, variant.ps.max)
    yield from itertools.product(range(ps[0], ps[1] + 1), range(variant.workers.min, variant.workers.max + 1))


def options(instance: AllocationInstance, job: Job) -> list[Option]:
    """Return every way to run a job alone, in order of time."""
    free = free_amounts(instance)
    found = [Option(job.unplaced_s, None, {}, {}, 0.0)] if job.unplaced_s is not None else []
    for variant in job.variants:
        for p, w in counts(variant):
            for x, y in itertools.product(spread(p, len(free)), spread(w, len(free))):
                split = {
                    name: each for name, each in zip(free, zip(x, y, strict=True), strict=True) if any(each)
                }
                time_s = naive_time_s(instance, job, variant, split)
                usage, usd = _usage(instance, variant, split)
                if time_s is None or (
                    job.deadline_s is not None and time_s > job.deadline_s * (1 + TOLERANCE)
                ):
                    continue
                if all(used <= free[s].get(r, 0.0) + TOLERANCE for (s, r), used in usage.items()):
                    found.append(Option(time_s, variant, split, usage, usd))
    return sorted(found, key=lambda option: option.time_s)


def _usage(
    instance: AllocationInstance, variant: Variant, split: Split
) -> tuple[dict[tuple[str, str], float], float]:
    """Return what a split takes of each resource of each server, and its cost per hour."""
    usage: dict[tuple[str, str], float] = {}
    for server, (x, y) in split.items():
        for demand, tasks in ((variant.ps_demand, x), (variant.worker_demand, y)):
            for resource, amount in demand.items():
                key = (server, resource)
                usage[key] = usage.get(key, 0.0) + tasks * amount
    prices = instance.prices_usd_per_hour
    return usage, sum(used * prices.get(resource, 0.0) for (_, resource), used in usage.items())


def best_options(instance: AllocationInstance) -> list[Option] | None:
    """Return the options of a best plan in the order of the jobs; None if there is no plan."""
    each = [options(instance, job) for job in instance.jobs]
    left = {(s, r): amount for s, amounts in free_amounts(instance).items() for r, amount in amounts.items()}
    budget = instance.budget_usd_per_hour
    best: list[Any] = [math.inf, None]

    def search(chosen: list[Option], left: dict[tuple[str, str], float], usd: float) -> None:
        fastest = [own[0].time_s for own in each[len(chosen) :]]
        bound = naive_value(instance, [option.time_s for option in chosen] + fastest)
        if bound >= best[0]:
            return
        if len(chosen) == len(each):
            best[:] = bound, chosen
            return
        for option in each[len(chosen)]:
            after = {key: amount - option.usage.get(key, 0.0) for key, amount in left.items()}
            paid = usd + option.usd
            if min(after.values(), default=0.0) >= -TOLERANCE and (
                budget is None or paid <= budget + TOLERANCE
            ):
                search([*chosen, option], after, paid)

    if all(each):
        search([], left, 0.0)
    found: list[Option] | None = best[1]
    return found


def plan_of(instance: AllocationInstance, chosen: list[Option]) -> tuple[JobAllocation, ...]:
    """Return the plan of one option for each job."""
    return tuple(
        JobAllocation.model_validate(
            {"job": job.name, "placed": False}
            if option.variant is None
            else {
                "job": job.name,
                "variant": option.variant.name,
                "ps": sum(x for x, _ in option.split.values()),
                "workers": sum(y for _, y in option.split.values()),
                "placement": {s: {"ps": x, "workers": y} for s, (x, y) in option.split.items()},
            }
        )
        for job, option in zip(instance.jobs, chosen, strict=True)
    )


def best_plan(instance: AllocationInstance) -> tuple[JobAllocation, ...] | None:
    """Return a plan that no other is better than; None if there is no plan."""
    chosen = best_options(instance)
    return None if chosen is None else plan_of(instance, chosen)


def optimum(instance: AllocationInstance) -> float | None:
    """Return the value of a best plan in seconds; None if there is no plan."""
    chosen = best_options(instance)
    return None if chosen is None else naive_value(instance, [option.time_s for option in chosen])


def random_joint(seed: int) -> AllocationInstance:
    """Return two or three jobs on two or three servers, with every feature of placement at random."""
    rng = random.Random(seed)
    resources = ["gpu", "cpu"][: rng.choice([1, 1, 2])]
    servers = [
        {"name": f"s{k}", "capacity": {r: rng.randint(2, 4) for r in resources}}
        for k in range(rng.choice([2, 3]))
    ]
    if rng.random() < 0.3:
        servers = [{"name": "s", "count": len(servers), "capacity": servers[0]["capacity"]}]
    if rng.random() < 0.3:
        servers[0]["free"] = {r: rng.randint(0, amount) for r, amount in servers[0]["capacity"].items()}
    data: dict[str, Any] = {
        "name": f"joint-{seed}",
        "servers": servers,
        "jobs": [_random_job(rng, f"job-{j}", resources) for j in range(rng.choice([2, 2, 3]))],
    }
    if (share := rng.choice([None, 0, 0.5, 1])) is not None:
        data["network_share"] = share
    if rng.random() < 0.2:
        data |= {"prices_usd_per_hour": {"gpu": 1}, "budget_usd_per_hour": rng.randint(2, 8)}
    instance = AllocationInstance.model_validate(data)
    for job, row in zip(instance.jobs, data["jobs"], strict=True):
        if rng.random() < 0.5:
            row["current"] = _random_current(rng, instance, job)
    return AllocationInstance.model_validate(data)


def _random_job(rng: random.Random, name: str, resources: list[str]) -> dict[str, Any]:
    job: dict[str, Any] = {
        "name": name,
        "remaining_steps": rng.randint(10, 100),
        "weight": rng.choice([1, 1, 2, 0.5]),
        "restart_s": rng.choice([0, 0, 20, 200]),
        "variants": [_random_variant(rng, f"v{v}", resources) for v in range(rng.choice([1, 1, 2]))],
    }
    if rng.random() < 0.3:
        job |= {"optional": True, "unplaced_s": rng.randint(10, 2000)}
    if rng.random() < 0.2:
        job["deadline_s"] = rng.randint(50, 500)
    return job


def _random_variant(rng: random.Random, name: str, resources: list[str]) -> dict[str, Any]:
    model = rng.choice(["ps_sync", "ps_sync", "ps_async", "ring_allreduce", "table"])
    variant: dict[str, Any] = {
        "name": name,
        "worker_demand": {r: rng.choice([1, 1, 2, 0.5]) for r in resources},
        "ps_demand": {r: rng.choice([0, 1, 0.5]) for r in resources if rng.random() < 0.7},
        "speed": {"model": model},
    }
    if model == "table":
        cells = [(p, w, k) for p in (0, 1) for w in (1, 2, 3) for k in (None, 1, 2, 3)]
        rows = [
            {"ps": p, "workers": w, "steps_per_s": rng.randint(1, 9)} | ({} if k is None else {"servers": k})
            for p, w, k in rng.sample(cells, rng.randint(1, 5))
        ]
        return variant | {"speed": {"model": model, "rows": rows}}
    theta = [rng.choice([0, 1, 2, 3]) for _ in range(5 if model == "ps_sync" else 4)]
    variant["speed"] |= {"theta": [theta[0] or 1, *theta[1:]]} | ({} if model == "ps_async" else {"batch": 4})
    least = rng.choice([1, 1, 2])
    variant["workers"] = {"min": least, "max": rng.randint(least, 3)}
    if model != "ring_allreduce":
        variant["ps"] = {"min": 1, "max": rng.randint(1, 2)}
    return variant


def _random_current(rng: random.Random, instance: AllocationInstance, job: Job) -> dict[str, Any]:
    """Return what a job runs with now: mostly something allowed, sometimes where it does not fit."""
    names = sorted(free_amounts(instance))
    allowed = [option for option in options(instance, job) if option.variant is not None]
    variant, split = rng.choice(job.variants), {rng.choice(names): (rng.randint(0, 2), rng.randint(1, 4))}
    if allowed and rng.random() < 0.8:
        chosen = rng.choice(allowed)
        variant, split = chosen.variant or variant, chosen.split
    now: dict[str, Any] = {
        "variant": variant.name,
        "ps": sum(x for x, _ in split.values()),
        "workers": sum(y for _, y in split.values()),
    }
    if rng.random() < 0.8:
        now["placement"] = {s: {"ps": x, "workers": y} for s, (x, y) in split.items()}
        idle = rng.choice(names)
        if rng.random() < 0.1 and idle not in split:  # a server that is named without a task
            now["placement"][idle] = {}
    return now
