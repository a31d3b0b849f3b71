"""Synthetic instances of the consolidation benchmark beside those of `generate consolidation`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from clusterplan import import_tensors
from clusterplan.instances.consolidation.generate import RESOURCES, generate_consolidation
from clusterplan.instances.consolidation.instance import ConsolidationInstance, Server
from clusterplan.instances.consolidation.job import PlacementJob

GPUS = 8
CAPACITY = (GPUS, 96, 768)
"""GPUs, CPUs and GiB of a server."""
TASKS = ((1, 4, 16), (1, 8, 48), (1, 8, 96), (1, 12, 32), (1, 16, 64), (1, 24, 160))
"""GPUs, CPUs and GiB of a task where three resources count, all equally common."""
PREFERRED, REQUIRED = 0.6, 0.2
"""Shares of the jobs of a fragmented cluster."""
RUNNING = 0.7
"""Share of the jobs that run now, as far as there is room for them."""


def generated(servers: int, load: float, seed: int, resources: int = 1) -> ConsolidationInstance:
    """Return a busy cluster: one shape and GPUs alone, or four shapes and CPUs and memory too."""
    shapes = 1 if resources == 1 else 4
    jobs = 3 * servers // 2
    return generate_consolidation(servers, jobs, load=load, seed=seed, resources=resources, shapes=shapes)


def of_size(servers: int, jobs: int, load: float, seed: int) -> ConsolidationInstance:
    """Return a busy cluster with this many jobs, and GPUs alone."""
    return generate_consolidation(servers, jobs, load=load, seed=seed)


def blocks(model: str, servers: int, cuts: bool) -> ConsolidationInstance:
    """Return the tensors of a model on parameter servers."""
    return import_tensors(servers, model=model, cuts=cuts)


def fragmented(servers: int, load: float, seed: int, resources: int) -> ConsolidationInstance:
    """Return a cluster without a whole free server: jobs of 8 GPUs that prefer one server need two.

    Every server of 8 GPUs has 1 to 7 free, all equally likely, beside tasks that run and are not listed.
    Jobs have 2 to 16 tasks of one GPU; so many that they ask for `load` times what is free.
    """
    rng = np.random.default_rng(seed)
    tasks, capacity = np.array(TASKS)[:, :resources], np.array(CAPACITY)[:resources]
    free = [_left(rng, capacity, tasks if resources > 1 else tasks[:1]) for _ in range(servers)]
    wanted = load * sum(int(room[0]) for room in free)
    return ConsolidationInstance(
        name=f"synthetic-fragmented-{servers}-{load:g}-{resources}-{seed}",
        source="synthetic",
        assumptions=("what is free, sizes and requests of jobs and spread rules are random",),
        servers=tuple(
            Server(name=f"server-{n}", capacity=_amounts(capacity), free=_amounts(room))
            for n, room in enumerate(free)
        ),
        jobs=tuple(_fragmented_jobs(rng, wanted, tasks if resources > 1 else tasks[:1])),
    )


def _left(rng: np.random.Generator, capacity: Any, tasks: Any) -> Any:
    """Return what 1 to 7 random tasks leave of a server; one that does not fit is the smallest instead."""
    left = capacity.copy()
    waiting = int(rng.integers(1, GPUS))
    for more in range(waiting - 1, -1, -1):
        task = tasks[rng.integers(len(tasks))]
        left -= task if np.all(left - task >= more * tasks[0]) else tasks[0]
    return left


def _fragmented_jobs(rng: np.random.Generator, wanted: float, tasks: Any) -> Iterator[PlacementJob]:
    asked = index = 0
    while asked < wanted:
        size, drawn = int(rng.integers(2, 2 * GPUS + 1)), rng.random()
        yield PlacementJob(
            name=f"job-{index}",
            tasks=size,
            task_demand=_amounts(tasks[rng.integers(len(tasks))]),
            spread="preferred"
            if drawn < PREFERRED
            else "required"
            if drawn < PREFERRED + REQUIRED
            else "free",
        )
        asked, index = asked + size, index + 1


def _amounts(row: Any) -> dict[str, float]:
    return dict(zip(RESOURCES, row.tolist(), strict=False))


def running(servers: int, load: float, seed: int, resources: int) -> ConsolidationInstance:
    """Return a busy cluster of which seven jobs in ten run now, and where it matters what has to move.

    The running jobs came in random order. Each is on a random server with room for all of it, or, where there
    is none, on random servers that were filled with it; one that had to be consolidated and could not be, or
    that found no room, does not run.
    """
    queue = generated(servers, load, seed, resources)
    rng = np.random.default_rng(seed)
    came = rng.permutation(len(queue.jobs))[: math.floor(RUNNING * len(queue.jobs))]
    jobs = list(queue.jobs)
    free = np.array([list(server.available.values()) for server in queue.servers])
    for position in came.tolist():
        job = jobs[position]
        demand = np.array(list((job.task_demand or {}).values()))
        taken = _taken(rng, free // demand, job)
        for server, tasks in taken.items():
            free[server] -= tasks * demand
        if taken:
            now = {queue.servers[server].name: tasks for server, tasks in taken.items()}
            fields = job.model_dump(exclude_none=True, exclude_defaults=True)
            jobs[position] = PlacementJob.model_validate(fields | {"current": now})
    return ConsolidationInstance(
        name=f"{queue.name}-running",
        source=queue.source,
        assumptions=(*queue.assumptions, "running jobs came in random order to random servers with room"),
        objectives=("value", "migrations", "servers"),
        servers=queue.servers,
        jobs=tuple(jobs),
    )


def _taken(rng: np.random.Generator, room: Any, job: PlacementJob) -> dict[int, int]:
    """Return servers and tasks of a job that comes; `room` is the tasks that each resource of each allows."""
    waiting = job.tasks or 0
    fits = room.min(axis=1).astype(int)
    whole = np.flatnonzero(fits >= waiting)
    if len(whole):
        return {int(rng.choice(whole)): waiting}
    taken: dict[int, int] = {}
    if job.spread == "required" or fits.sum() < waiting:
        return taken
    for server in rng.permutation(np.flatnonzero(fits)).tolist():
        taken[server] = min(int(fits[server]), waiting)
        waiting -= taken[server]
        if not waiting:
            break
    return taken
