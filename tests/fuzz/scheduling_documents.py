"""Random scheduling documents, tiny enough to look through what can happen at every event."""

from __future__ import annotations

import random
from typing import Any

from .palette import Palette

ON_SERVERS = 0.35
WITH_EVENTS = 0.25
LONGEST_S = 1e10
SPREADS: tuple[dict[int, float], ...] = (
    {1: 1, 2: 0.5},
    {2: 0.9, 3: 0.3},
    {1: 1, 2: 1 / 3},
    {1: 0.7},
    {1: 1, 2: 1e-6},
)


def _time(palette: Palette, family: str) -> float:
    return min(max(palette.draw(family), 1e-6), LONGEST_S)


def _job(rng: random.Random, palette: Palette, index: int, names: list[str], servers: bool) -> dict[str, Any]:
    asked = rng.sample(names, rng.randint(1, len(names)))
    job: dict[str, Any] = {
        "name": f"job-{index}",
        "demand": {name: palette.draw(name) for name in asked},
        "duration_s": _time(palette, "duration"),
    }
    if rng.random() < 0.4:
        job["tasks"] = rng.randint(1, 3)
    if rng.random() < 0.7:
        job["arrival_s"] = rng.choice([0, _time(palette, "duration"), _time(palette, "arrival")])
    if rng.random() < 0.4:
        job["weight"] = palette.draw("weight")
    if rng.random() < 0.3:
        job["tenant"] = rng.choice("ab")
    if rng.random() < 0.3:
        job["estimate_s"] = _time(palette, "duration")
    if rng.random() < 0.2:
        job["restart_s"] = rng.choice([0, _time(palette, "restart")])
    if servers and rng.random() < 0.4:
        job["speed_by_servers"] = rng.choice(SPREADS)
    if servers and rng.random() < 0.3:
        job["skew"] = rng.random()
    return job


def _total(job: dict[str, Any], name: str) -> float:
    return float(job["demand"].get(name, 0) * job.get("tasks", 1))


def _cluster(rng: random.Random, palette: Palette, jobs: list[dict[str, Any]], names: list[str]) -> Any:
    """Return amounts that just hold some of the jobs together, and each of them alone."""
    amounts = {}
    for name in names:
        asked = [_total(job, name) for job in jobs]
        some = palette.sum_of_some(asked)
        amounts[name] = min(max([palette.near(some), *asked]), 1e15)
    return amounts


def _servers(rng: random.Random, palette: Palette, jobs: list[dict[str, Any]], names: list[str]) -> Any:
    """Return up to three servers, of which the first holds every job alone."""
    first = {name: max(_total(job, name) for job in jobs) for name in names}
    servers = [{"name": "s", "capacity": first}]
    for k in range(rng.randint(0, 2)):
        tasks = {name: [job["demand"].get(name, 0) for job in jobs] for name in names}
        capacity = {name: min(palette.near(palette.sum_of_some(tasks[name])), 1e15) for name in names}
        servers.append({"name": f"t{k}", "capacity": capacity})
    return servers


def _events(rng: random.Random, palette: Palette, data: dict[str, Any]) -> list[dict[str, Any]]:
    """Return something that fails, and is back later."""
    begin = _time(palette, "duration")
    end = begin + _time(palette, "duration")
    if "servers" in data:
        name = rng.choice(data["servers"])["name"]
        return [{"at_s": begin, "fails": [name]}, {"at_s": end, "returns": [name]}]
    name = rng.choice(list(data["resources"]))
    lost = data["resources"][name]
    lost = rng.choice([lost, lost / 2, lost / 4])
    return [{"at_s": begin, "change": {name: -lost}}, {"at_s": end, "change": {name: lost}}]


def document(rng: random.Random) -> dict[str, Any]:
    """Return a random scheduling document."""
    palette = Palette(rng)
    names = ["gpu", "cpu"][: rng.choice([1, 1, 2])]
    servers = rng.random() < ON_SERVERS
    jobs = [_job(rng, palette, index, names, servers) for index in range(rng.randint(1, 4 - servers))]
    last = max(job.get("arrival_s", 0) for job in jobs) + sum(job["duration_s"] for job in jobs)
    for job in jobs:  # less cannot be told beside such moments
        job["duration_s"] = max(job["duration_s"], 1e-14 * last)
    data: dict[str, Any] = {"schema_version": 1, "kind": "scheduling", "name": "random", "jobs": jobs}
    if servers:
        data["servers"] = _servers(rng, palette, jobs, names)
    else:
        data["resources"] = _cluster(rng, palette, jobs, names)
    if rng.random() < 0.3:
        data["objective"] = rng.choice(["mean_completion_time", "makespan"])
    data["preemption"] = rng.choice(["free", "free", "none", "none", "costs"])
    if rng.random() < 0.3:
        data["restart_s"] = _time(palette, "restart")
    if rng.random() < 0.15:
        data["lease_s"] = _time(palette, "duration")
    if rng.random() < WITH_EVENTS:
        data["events"] = _events(rng, palette, data)
        if data["preemption"] == "none" or rng.random() < 0.2:
            data["evict"] = "restart"
        if rng.random() < 0.4:
            data["checkpoint_s"] = _time(palette, "duration")
    if rng.random() < 0.1:
        data["tenant_shares"] = {
            name: palette.draw("share") for name in {job["tenant"] for job in jobs if "tenant" in job}
        }
    return data
