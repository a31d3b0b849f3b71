"""Synthetic servers and jobs as real ones are: GPUs as single devices, amounts and values in many digits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..common.errors import OptionError
from ..common.geometries import GEOMETRIES
from .devices import WHOLE
from .job import PlacementJob
from .server import Server

SHARES = (100, 160, 200, 250, 300, 330, 400, 460, 500, 600)
"""Thousandths of a GPU that a replica takes."""
OF_OTHERS = (200, 300, 460, 700)
"""Thousandths that others hold of a shared device."""
GEOMETRY = {"a100": "a100-80", "h100": "h100-80", None: "a100-80"}
"""How GPUs of a model can be partitioned; those of servers of one shape are of no named model."""
PROFILES = ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb")
VARIANTS, PRIORITIES = 10, 20
"""So many amounts there are of one request, and so many factors of values."""
RESERVED_CPUS, RESERVED_GIB = 2.0, 24.0
"""What a server keeps for itself at most."""


def as_devices(
    rng: np.random.Generator,
    servers: Sequence[Server],
    jobs: Sequence[PlacementJob],
    shared: float,
    parted: float,
) -> tuple[list[Server], list[PlacementJob]]:
    """Return servers whose GPUs are single devices, and jobs that ask for these.

    Devices that are not free are held whole, or shared. Of the jobs of one GPU some become replicas with a
    share of a GPU, or with a partition of one, as many as one GPU holds.

    Parameters
    ----------
    shared, parted
        Shares of the devices that others share, and of the jobs of one GPU that become replicas.

    Raises
    ------
    OptionError
        If jobs are to hold partitions, and no server can be partitioned.
    """
    if parted and not any(server.gpu_model in GEOMETRY for server in servers):
        raise OptionError(
            "some servers must have GPUs that can be partitioned: a100, h100, or all of one shape"
        )
    choices = [("share", share) for share in SHARES], [("profile", profile) for profile in PROFILES]
    rule = np.searchsorted([shared, shared + parted], rng.random(len(jobs)), side="right").tolist()
    which = rng.integers(1 << 16, size=len(jobs)).tolist()
    made: dict[object, PlacementJob] = {}
    found = []
    for job, how, number in zip(jobs, rule, which, strict=True):
        demand = job.task_demand or {}
        ask = "devices", int(demand["gpu"])
        if how < len(choices) and job.tasks == 1 and ask[1] == 1:
            ask = choices[how][number % len(choices[how])]
        key = ask, job.tasks, tuple(demand.items()), job.spread, job.must_place
        if key not in made:
            made[key] = _asking(job, *ask)
        found.append(made[key].model_copy(update={"name": job.name}))
    return [_equipped(server, rng, shared, parted) for server in servers], found


def _equipped(server: Server, rng: np.random.Generator, shared: float, parted: float) -> Server:
    """Return a server with devices; those that are held come first."""
    count = int(server.capacity["gpu"])
    held = count - int(server.available["gpu"])
    sharing = int(rng.binomial(held, shared))
    others: list[dict[str, Any]] = [{"device": d} for d in range(held)]
    for d, of in enumerate(np.sort(rng.integers(len(OF_OTHERS), size=sharing)).tolist()):
        others[d]["share"] = OF_OTHERS[of]
    geometry = GEOMETRY.get(server.gpu_model) if parted else None
    devices = {"count": count, "geometry": geometry, "taken": others}
    plain = server.model_dump(exclude={"devices"})
    for amounts in (plain["capacity"], plain["free"] or {}):
        amounts.pop("gpu", None)
    return Server.model_validate({**plain, "devices": {"gpu": devices}})


def _asking(job: PlacementJob, form: str, of: Any) -> PlacementJob:
    """Return a job that asks for whole devices, or the replicas that hold one with shares or partitions."""
    tasks = job.tasks or 1
    demand = {name: amount for name, amount in (job.task_demand or {}).items() if name != "gpu"}
    value = None
    if form != "devices":
        tasks = WHOLE // of if form == "share" else GEOMETRIES["a100-80"].most(of)
        demand = {name: math.ceil(1000 * amount / tasks) / 1000 for name, amount in demand.items()}
        value = 1.0 if form == "profile" else None
    asked = {"tasks": tasks, "task_demand": demand, form: {"gpu": of}, "value": value}
    plain = {"name": job.name, "spread": job.spread, "must_place": job.must_place}
    return PlacementJob.model_validate(plain | asked)


def with_unlike_amounts(
    rng: np.random.Generator, servers: Sequence[Server], jobs: Sequence[PlacementJob]
) -> tuple[list[Server], list[PlacementJob]]:
    """Return servers and jobs whose amounts, in milli-CPUs and MiB, and values have many digits."""
    factor, worth = rng.uniform(0.75, 1.0, size=(VARIANTS, 2)), rng.lognormal(0.0, 0.5, PRIORITIES)
    picked = zip(
        rng.integers(VARIANTS, size=len(jobs)), rng.integers(PRIORITIES, size=len(jobs)), strict=True
    )
    made: dict[object, PlacementJob] = {}
    found = []
    for job, (variant, priority) in zip(jobs, picked, strict=True):
        demand = job.task_demand or {}
        asks = tuple(sorted(job.task_groups[0].asks.items()))
        key = asks, job.tasks, tuple(demand.items()), job.spread, job.must_place, variant, priority
        if key not in made:
            by = {"cpu": float(factor[variant, 0]), "memory_gib": float(factor[variant, 1])}
            changed = {name: _fine(name, amount * by.get(name, 1.0)) for name, amount in demand.items()}
            value = round(job.worth * float(worth[priority]), 9)
            made[key] = job.model_copy(update={"task_demand": changed, "value": value})
        found.append(made[key].model_copy(update={"name": job.name}))
    reserved: dict[object, dict[str, float]] = {}
    unlike = []
    for server in servers:
        shape = tuple(server.capacity.items()), server.gpu_model
        if shape not in reserved:
            cpus, gib = rng.uniform(0.1, RESERVED_CPUS), rng.uniform(1, RESERVED_GIB)
            reserved[shape] = {"cpu": _fine("cpu", cpus), "memory_gib": _fine("memory_gib", gib)}
        less = reserved[shape]
        reduced = {
            key: {name: _fine(name, max(0.0, a - less.get(name, 0.0))) for name, a in amounts.items()}
            for key, amounts in (("capacity", server.capacity), ("free", server.free))
            if amounts is not None
        }
        unlike.append(server.model_copy(update=reduced))
    return unlike, found


def _fine(resource: str, amount: float) -> float:
    """Return an amount in whole milli-CPUs or MiB; others as they are."""
    if resource == "cpu":
        return round(amount, 3)
    return round(amount * 1024) / 1024 if resource == "memory_gib" else amount
