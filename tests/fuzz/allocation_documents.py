"""Random allocation documents, tiny enough to look through all their plans."""

from __future__ import annotations

import random
from typing import Any

from .allocation_truth import configurations
from .palette import Palette

MODELS = {"ps_sync": 5, "ps_async": 4, "ring_allreduce": 4, "table": 0}


def _variant(
    rng: random.Random, palette: Palette, name: str, resources: list[str], most: int
) -> dict[str, Any]:
    model = rng.choice(list(MODELS))

    def demand(least: float) -> dict[str, float]:
        return {
            r: palette.draw(f"demand {r}") if rng.random() < 0.8 else 0
            for r in resources
            if rng.random() > least
        }

    variant: dict[str, Any] = {"name": name, "worker_demand": demand(0.1), "speed": {"model": model}}
    if model == "table":
        pairs = [(w, p) for w in range(1, 4) for p in range(rng.choice([1, 3]))]
        variant["speed"]["rows"] = [
            {"workers": w, "ps": p, "steps_per_s": palette.draw("speed")}
            for w, p in rng.sample(pairs, min(len(pairs), rng.randint(1, most)))
        ]
    else:
        theta = [palette.draw("theta") if rng.random() < 0.7 else 0 for _ in range(MODELS[model])]
        if not any(theta):
            theta[rng.randrange(len(theta))] = palette.draw("theta")
        variant["speed"]["theta"] = theta
        if model != "ps_async":
            variant["speed"]["batch"] = palette.draw("batch")
        least = rng.choice([1, 1, 2])
        variant["workers"] = {"min": least, "max": least + rng.randint(0, most - 1)}
        if model != "ring_allreduce":
            variant["ps"] = {"max": rng.randint(1, 2)}
    if model != "ring_allreduce" and rng.random() < 0.8:
        variant["ps_demand"] = demand(0.3)
    return variant


def _job(rng: random.Random, palette: Palette, index: int, resources: list[str], most: int) -> dict[str, Any]:
    names = ["a", "b"][: rng.choice([1, 1, 2])]
    job: dict[str, Any] = {
        "name": f"job-{index}",
        "remaining_steps": palette.draw("steps"),
        "variants": [_variant(rng, palette, name, resources, most) for name in names],
    }
    if rng.random() < 0.5:
        job["weight"] = rng.choice([0, 1, palette.draw("weight")])
    if rng.random() < 0.3:
        job["stage"] = rng.choice(["beginning", "running"])
    if rng.random() < 0.3:
        job["restart_s"] = palette.draw("restart")
    rows = [{r: 1} for r in resources]
    choices = list(configurations(job, rows))
    if rng.random() < 0.3:
        variant, ps, workers = rng.choice(choices).key or ("a", 0, 1)
        job["current"] = {"variant": variant, "ps": ps, "workers": workers}
    times = [float(choice.time_s) for choice in choices]
    if rng.random() < 0.2:
        job["deadline_s"] = _clipped(palette.near(rng.choice(times)))
    if rng.random() < 0.3:
        chosen = rng.choice([palette.draw("unplaced"), palette.near(rng.choice(times)), 0])
        job |= {"optional": True, "unplaced_s": min(chosen, 1e15)}
    return job


def _clipped(amount: float) -> float:
    return min(max(amount, 1e-12), 1e15)


def _taken(rng: random.Random, job: dict[str, Any], resources: list[str]) -> list[float]:
    """Return what a random configuration of a job takes, added up as a user would."""
    rows = [{r: 1} for r in resources]
    choices = list(configurations({**job, "deadline_s": None}, rows))
    return [float(amount) for amount in rng.choice(choices).takes]


def document(rng: random.Random) -> dict[str, Any]:
    """Return a random allocation document."""
    palette = Palette(rng)
    resources = ["gpu", "cpu", "memory_gib"][: rng.randint(1, 3)]
    count = rng.choice([1, 2, 2, 3, 3, 4])
    most = {1: 4, 2: 4, 3: 3, 4: 2}[count]
    jobs = [_job(rng, palette, index, resources, most) for index in range(count)]
    taken = [_taken(rng, job, resources) for job in jobs]
    capacity = {
        r: min(palette.near(sum(column)) if sum(column) else palette.draw(f"demand {r}"), 1e15)
        for r, column in zip(resources, zip(*taken, strict=True), strict=True)
    }
    data: dict[str, Any] = {
        "schema_version": 1,
        "kind": "allocation",
        "name": "random",
        "resources": capacity,
        "jobs": jobs,
    }
    if rng.random() < 0.6:
        data["objective"] = rng.choice(["total_completion_time", "makespan"])
    if rng.random() < 0.3:
        prices = {r: palette.draw("price") for r in resources}
        spent = sum(prices[r] * amount for row in taken for r, amount in zip(resources, row, strict=True))
        data["prices_usd_per_hour"] = prices
        if rng.random() < 0.8:
            data["budget_usd_per_hour"] = min(palette.near(spent), 1e15)
    return data
