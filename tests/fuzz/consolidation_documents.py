"""Random consolidation documents, tiny enough to look through all their plans."""

from __future__ import annotations

import random
from typing import Any

from .consolidation_truth import ALL, expanded, groups_of
from .device_documents import on_devices
from .palette import Palette

MODELS = ("p100", "v100")
RACKS = ("r0", "r1")
ON_DEVICES = 0.35
"""Share of the documents in which GPUs are single devices."""


def _group(
    rng: random.Random, palette: Palette, resources: list[str], name: str, most: int
) -> dict[str, Any]:
    demand = {r: palette.draw(f"demand {r}") for r in resources if rng.random() < 0.85}
    if rng.random() < 0.1:
        demand = dict.fromkeys(demand, 0)
    group = {"name": name, "tasks": rng.randint(1, most), "demand": demand}
    if rng.random() < 0.4:
        group["traffic_gbit_per_s"] = palette.draw("traffic")
    return group


def _job(rng: random.Random, palette: Palette, index: int, resources: list[str], most: int) -> dict[str, Any]:
    job: dict[str, Any] = {"name": f"job-{index}"}
    if rng.random() < 0.25:
        job["groups"] = [
            _group(rng, palette, resources, "ps", max(1, most - 1)),
            _group(rng, palette, resources, "worker", max(1, most - 1)),
        ]
    else:
        group = _group(rng, palette, resources, "tasks", most)
        job |= {"tasks": group["tasks"], "task_demand": group["demand"]}
        job |= {key: group[key] for key in ("traffic_gbit_per_s",) if key in group}
    if rng.random() < 0.7:
        job["spread"] = rng.choice(["required", "preferred", "free", "from_skew"])
        if job["spread"] == "from_skew":
            job["skew"] = rng.choice([0.1, 0.3, 0.7, 0.1 + 0.2])
    if rng.random() < 0.6:
        job["value"] = palette.draw("value") if rng.random() < 0.95 else 0
    if rng.random() < 0.15:
        job["must_place"] = True
    if rng.random() < 0.2:
        job["gpu_model"] = rng.choice(MODELS)
    if rng.random() < 0.4:
        counts = rng.sample([1, 2, 3, 5], rng.randint(1, 3))
        job["speed_by_servers"] = {
            str(n): rng.choice([1, 0.5, 0.9, 1.2, 0, palette.draw("speed")]) for n in counts
        }
    return job


def _run_now(rng: random.Random, job: dict[str, Any], names: list[str]) -> None:
    """Say where some tasks of the job run now."""
    for group in job.get("groups") or [job]:
        if rng.random() < 0.8:
            left = rng.choice([group["tasks"], rng.randint(1, group["tasks"])])
            current: dict[str, int] = {}
            for _ in range(left):
                name = rng.choice(names)
                current[name] = current.get(name, 0) + 1
            group["current"] = current


def _server(rng: random.Random, palette: Palette, index: int, room: dict[str, float]) -> dict[str, Any]:
    server: dict[str, Any] = {"name": f"n{index}", "capacity": room}
    if rng.random() < 0.25:
        server["free"] = {
            r: rng.choice([amount, 0, amount * rng.random(), min(amount, palette.draw(f"demand {r}"))])
            for r, amount in room.items()
            if rng.random() < 0.9
        }
    if rng.random() < 0.5:
        server["rack"] = rng.choice(RACKS)
    if rng.random() < 0.6:
        server["gpu_model"] = rng.choice(MODELS)
    if rng.random() < 0.3:
        server["traffic_gbit_per_s"] = palette.draw("traffic")
    return server


def document(rng: random.Random) -> dict[str, Any]:
    """Return a random consolidation document."""
    palette = Palette(rng)
    resources = ["gpu", "cpu", "disk"][: rng.choice([1, 1, 2, 2, 3])]
    servers, jobs = rng.choice([(1, 4), (2, 3), (2, 4), (3, 2), (3, 3), (4, 2)])
    most = {1: 4, 2: 3, 3: 3, 4: 2}[servers]
    rows = [_job(rng, palette, index, resources, most) for index in range(rng.randint(1, jobs))]
    if len(rows) > 1 and rng.random() < 0.25:
        rows[-1] = {**rows[0], "name": rows[-1]["name"]}
    demands = {
        r: [g["demand"].get(r, 0) for job in rows for g in groups_of(job) for _ in range(g["tasks"])]
        for r in resources
    }
    boxes: list[dict[str, Any]] = []
    alike = rng.random() < 0.4
    for index in range(servers):
        if boxes and alike and rng.random() < 0.7:
            boxes.append({**boxes[0], "name": f"n{index}"})
            continue
        room = {}
        for r in resources:
            amount = palette.near(palette.sum_of_some(demands[r]))
            room[r] = min(amount or palette.draw(f"demand {r}"), 1e15)
        boxes.append(_server(rng, palette, index, room))
    if servers > 1 and rng.random() < 0.15:
        boxes = [{**boxes[0], "count": servers}]
    if rng.random() < 0.4:
        names = [server["name"] for server in expanded(boxes)]
        for job in rows:
            if rng.random() < 0.7:
                _run_now(rng, job, names)
    data: dict[str, Any] = {
        "schema_version": 1,
        "kind": "consolidation",
        "name": "random",
        "servers": boxes,
        "jobs": rows,
    }
    if rng.random() < 0.85:
        data["objectives"] = rng.sample(ALL, rng.randint(1, rng.choice([2, 4, 7])))
    if rng.random() < 0.2:
        data["skew_threshold"] = rng.choice([0.3, 0.1 + 0.2, 0.7, 0])
    return on_devices(rng, data) if rng.random() < ON_DEVICES else _with_moves(rng, data)


def _with_moves(rng: random.Random, data: dict[str, Any]) -> dict[str, Any]:
    """Say of running jobs which stay, what moves cost, and how many there may be."""
    running = [job for job in data["jobs"] if any(g.get("current") for g in groups_of(job))]
    for job in running:
        if rng.random() < 0.2:
            job["movable"] = rng.random() < 0.2
        if rng.random() < 0.2:
            job["restart_s"] = rng.choice([0, 900, 1800, 7200])
    if running and rng.random() < 0.4:
        data["restart_cost_h"] = rng.choice([0, 0.25, 0.5, 1])
    if running and rng.random() < 0.3:
        data["max_moves"] = rng.choice([0, 1, 2])
    if running and rng.random() < 0.1:
        data["running"] = rng.choice(["stay", "move"])
    if running and rng.random() < 0.1:
        data["pinned"] = [rng.choice(["job-0", "job-[12]", "*", "other"])]
    return data
