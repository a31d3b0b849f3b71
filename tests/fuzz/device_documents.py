"""Random consolidation documents whose GPUs are single devices: whole, in shares, or in partitions."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from .consolidation_truth import groups_of
from .device_truth import FORMS, layout_of

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
