"""Random consolidation documents, tiny enough to look through all their plans.

GPUs are amounts, or single devices: whole, in shares, or in partitions.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from .consolidation_truth import ALL, expanded, groups_of
from .device_truth import FORMS, layout_of
from .palette import Palette

SHARES = (1, 100, 250, 300, 333, 334, 400, 460, 500, 501, 600, 700, 999)
GEOMETRIES: tuple[Any, ...] = (
    *(None, None, "a30-24", "a100-40"),
    {
        "slots": 4,
        "profiles": {
            "half": {"size": 2, "starts": [0, 2]},
            "middle": {"size": 2, "starts": [1]},
            "slice": {"size": 1, "starts": [0, 1, 2, 3]},
        },
    },
)
MAX_DEVICES = 3


def on_devices(rng: random.Random, data: dict[str, Any]) -> dict[str, Any]:
    """Return the document with its GPUs as single devices, and perhaps devices of a second name."""
    data = json.loads(json.dumps(data))  # jobs that are alike share no lists then
    names = ["gpu", "nic"] if rng.random() < 0.15 else ["gpu"]
    geometry = rng.choice(GEOMETRIES)
    for place, server in enumerate(data["servers"]):
        _equip(rng, server, names, geometry, always=place == 0)
    for job in data["jobs"]:
        for group in job.get("groups") or [job]:
            demand = group["demand" if "groups" in job else "task_demand"]
            demand.pop("gpu", None)
            for name in names:
                if rng.random() < (0.85 if name == "gpu" else 0.4):
                    _ask(rng, group, name, geometry)
        if any("gpu" in group.get("profile", {}) for group in groups_of(job)):
            job.setdefault("value", rng.choice([1, 0.3, rng.uniform(0.1, 9)]))
        if rng.random() < 0.1:
            job["gpu_model"] = rng.choice([["p100"], ["p100", "v100"]])
    if rng.random() < 0.2:
        data["jobs"][-1] = {**data["jobs"][0], "name": data["jobs"][-1]["name"]}
    if rng.random() < 0.5:
        data["device_moves"] = rng.random() < 0.8
    return data


def _equip(rng: random.Random, server: dict[str, Any], names: list[str], geometry: Any, always: bool) -> None:
    """Give a server devices in place of an amount."""
    if server.get("free") is None:
        server.pop("free", None)
    for amounts in (server["capacity"], server.get("free", {})):
        amounts.pop("gpu", None)
    if not server["capacity"]:
        server["capacity"] = {"cpu": rng.choice([1, 4, 8])}
        server.pop("free", None)
    devices: dict[str, Any] = {}
    for name in names:
        if not always and rng.random() < 0.15:
            continue
        devices[name] = {"count": rng.randint(1, MAX_DEVICES)}
        if geometry is not None and (always or rng.random() < 0.7):
            devices[name]["geometry"] = geometry
        if rng.random() < 0.3:
            devices[name]["taken"] = list(_others(rng, devices[name]))
        elif server.get("free") is not None or rng.random() < 0.15:
            server.setdefault("free", dict(server["capacity"]))[name] = rng.randint(0, devices[name]["count"])
    if devices:
        server["devices"] = devices


def _others(rng: random.Random, devices: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what others hold, of each device at most one thing."""
    slots = [(name, start) for name, _, starts in layout_of(devices).profiles for start in starts]
    for device in rng.sample(range(devices["count"]), rng.randint(0, devices["count"])):
        chance = rng.random()
        if chance < 0.3 and slots:
            profile, slot = rng.choice(slots)
            yield {"device": device, "profile": profile, "slot": slot}
        elif chance < 0.8:
            yield {"device": device, "share": rng.choice([*SHARES, 1000])}
        else:
            yield {"device": device}


def _ask(rng: random.Random, group: dict[str, Any], name: str, geometry: Any) -> None:
    """Let tasks of a group ask for devices of one name."""
    profiles = [profile for profile, _, _ in layout_of({"geometry": geometry}).profiles]
    chance = rng.random()
    if chance < 0.25:
        group.setdefault("devices", {})[name] = rng.choice([1, 1, 2])
    elif chance < 0.6 or not profiles:
        group.setdefault("share", {})[name] = rng.choice([*SHARES, rng.randint(1, 999)])
    else:
        group.setdefault("profile", {})[name] = rng.choice(profiles)


def hold_now(rng: random.Random, job: dict[str, Any], servers: list[dict[str, Any]]) -> None:
    """Say which devices the tasks of a job hold that runs, if they ask for any."""
    geometries = [devices.get("geometry") for devices in (servers[0].get("devices") or {}).values()]
    for group in job.get("groups") or [job]:
        if any(form in group for form in FORMS):
            _hold(rng, group, geometries[0])


def _hold(rng: random.Random, group: dict[str, Any], geometry: Any) -> None:
    """Say which devices the tasks of a group hold now, whether they can or not."""
    held = {
        server: [_held(rng, group, geometry) for _ in range(count)]
        for server, count in (group.get("current") or {}).items()
        if rng.random() < 0.9
    }
    if held:
        group["current_devices"] = held


def _held(rng: random.Random, group: dict[str, Any], geometry: Any) -> dict[str, Any]:
    task: dict[str, Any] = {}
    for name, count in group.get("devices", {}).items():
        task[name] = rng.sample(range(MAX_DEVICES), count)
    for name in group.get("share", {}):
        task[name] = [rng.randrange(MAX_DEVICES)]
    for name, profile in group.get("profile", {}).items():
        slots = [slot for slot, _ in layout_of({"geometry": geometry}).slots(profile)]
        task[name] = {"device": rng.randrange(MAX_DEVICES), "slot": rng.choice(slots)}
    return task


MODELS = ("p100", "v100")
RACKS = ("r0", "r1")
ON_DEVICES = 0.35
"""Share of the documents in which GPUs are single devices."""
RUNNING = 0.8
"""Share of the documents in which jobs run."""
SCARCE = 0.15
"""Share of the documents that lack servers and little else."""


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


def _room(server: dict[str, Any]) -> dict[str, float]:
    room: dict[str, float] = server["capacity"] if server.get("free") is None else server["free"]
    return room


def _run_now(
    rng: random.Random, job: dict[str, Any], names: list[str], left: dict[str, dict[str, float]] | None
) -> None:
    """Say where tasks of the job run now: all of them where they fit into what is left, or some anywhere."""
    for group in job.get("groups") or [job]:
        if left is not None:
            current = _where_there_is_room(rng, group, left)
        else:
            tasks = rng.choice([group["tasks"], rng.randint(0, group["tasks"])])
            current = Counter(rng.choice(names) for _ in range(tasks))
        if current:
            group["current"] = dict(current)


def _where_there_is_room(
    rng: random.Random, group: dict[str, Any], left: dict[str, dict[str, float]]
) -> Counter[str]:
    """Take what is left on servers, and return how many tasks are on each; as many as fit."""
    demand, current = group["demand" if "demand" in group else "task_demand"], Counter[str]()
    for _ in range(group["tasks"]):
        fitting = [name for name, room in left.items() if all(room.get(r, 0) >= d for r, d in demand.items())]
        if not fitting:
            break
        name = rng.choice(fitting)
        current[name] += 1
        for r, amount in demand.items():
            left[name][r] = left[name].get(r, 0) - amount
    return current


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


def _scarce(rng: random.Random) -> dict[str, Any]:
    """Return more jobs than servers hold, each of which fits on any: one more server wins something."""
    palette = Palette(rng)
    count, resources = rng.choice([1, 2, 2, 3]), ["gpu", "cpu"][: rng.choice([1, 1, 2])]
    jobs: list[dict[str, Any]] = [
        {
            "name": f"job-{index}",
            "tasks": rng.randint(1, min(2, count)),
            "task_demand": {r: palette.draw(f"demand {r}") for r in resources},
            "value": palette.draw("value"),
        }
        for index in range(rng.randint(2, 5))
    ]
    demands = {r: [job["task_demand"][r] for job in jobs] for r in resources}
    rooms = [{r: max(*of, palette.near(rng.choice(of)), 1e-12) for r, of in demands.items()} for _ in "ab"]
    servers: list[dict[str, Any]] = [
        {"name": f"n{n}", "capacity": rooms[rng.choice([0, 0, 1])]} for n in range(count)
    ]
    for job in jobs:
        if rng.random() < 0.2:
            job["spread"] = rng.choice(["required", "preferred"])
    objectives = ["value", *rng.sample(ALL[1:], rng.randint(0, 2))]
    fields = {"servers": servers, "jobs": jobs, "objectives": objectives}
    return {"schema_version": 1, "kind": "consolidation", "name": "random", **fields}


def document(rng: random.Random) -> dict[str, Any]:
    """Return a random consolidation document."""
    if rng.random() < SCARCE:
        data = _scarce(rng)
        return _with_moves(rng, _running(rng, data)) if rng.random() < 0.3 else data
    data = _various(rng)
    data = on_devices(rng, data) if rng.random() < ON_DEVICES else data
    return _with_moves(rng, _running(rng, data) if rng.random() < RUNNING else data)


def _various(rng: random.Random) -> dict[str, Any]:
    """Return servers and jobs with odd combinations of fields."""
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
    data: dict[str, Any] = {
        "schema_version": 1,
        "kind": "consolidation",
        "name": "random",
        "servers": boxes,
        "jobs": rows,
    }
    if rng.random() < 0.85:
        data["objectives"] = rng.sample(ALL, rng.randint(1, rng.choice([2, 4, 8])))
    if rng.random() < 0.2:
        data["skew_threshold"] = rng.choice([0.3, 0.1 + 0.2, 0.7, 0])
    return data


def _running(rng: random.Random, data: dict[str, Any]) -> dict[str, Any]:
    """Say where most jobs run now: half of the time where there is room, else anywhere."""
    data = json.loads(json.dumps(data))  # jobs that are alike share no lists then
    servers = expanded(data["servers"])
    left = {server["name"]: dict(_room(server)) for server in servers} if rng.random() < 0.7 else None
    for job in data["jobs"]:
        if rng.random() < 0.8:
            _run_now(rng, job, [server["name"] for server in servers], left)
            if rng.random() < 0.5:
                hold_now(rng, job, data["servers"])
    return data


def _with_moves(rng: random.Random, data: dict[str, Any]) -> dict[str, Any]:
    """Say of running jobs which stay, what moves cost, and how many there may be."""
    running = [job for job in data["jobs"] if any(g.get("current") for g in groups_of(job))]
    if not running:
        return data
    for job in running:
        if rng.random() < 0.5:
            job["movable"] = rng.random() < 0.15
        if rng.random() < 0.3:
            job["restart_s"] = rng.choice([0, 360, 900, 1800, 2520, 7200])
    if rng.random() < 0.7:
        data["restart_cost_h"] = rng.choice([0, 0.1, 0.25, 0.5, 0.7, 1])
    if rng.random() < 0.3:
        data["max_moves"] = rng.choice([0, 1, 2])
    if rng.random() < 0.2:
        data["free"] = {"count": rng.choice([1, 1, 2, 3]), "per": rng.choice(["server", "server", "rack"])}
        data["free"] |= rng.choice([{}, {}, {"chains": True}, {"chains": False}, {"into_empty": True}])
        later = rng.choice([[], ["migrations"], ["migrations"], ["value", "migrations"], ["servers"]])
        data["objectives"] = ["free", *later]
    if rng.random() < 0.15:
        data["running"] = rng.choice(["stay", "move"])
    if rng.random() < 0.25:
        data["pinned"] = rng.sample(["job-0", "job-[12]", "*", "other"], rng.choice([1, 1, 2]))
    return data
