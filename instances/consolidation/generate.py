"""Generator of consolidation instances: a busy cluster's servers and a queue of jobs of 1 to 32 GPUs.

Servers are filled with random running tasks until none fits, and then as many tasks end as the load
requires. Some servers lose many tasks and others few, so residual capacities range from none to a whole
server. With devices, GPUs are single devices; amounts and values can have many digits, as on real
clusters.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..common.arrays import Floats, Ints
from ..common.errors import OptionError, refuse_options
from ..common.hardware import GEOMETRIES
from .devices import WHOLE
from .instance import ConsolidationInstance, Server
from .job import PlacementJob

SHARES = (100, 160, 200, 250, 300, 330, 400, 460, 500, 600)
"""Shares of a GPU that replicas demand, in thousandths."""
OCCUPIED_SHARES = (200, 300, 460, 700)
"""Shares of a device that tasks outside the plan hold, in thousandths."""
GEOMETRY = {"a100": "a100-80", "h100": "h100-80", None: "a100-80"}
"""GPU model → geometry; with one shape of servers GPUs have no model."""
PROFILES = ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb")
VARIANTS, PRIORITIES = 10, 20
"""Number of variants of the amounts of a request, and number of factors of values."""
RESERVED_CPUS, RESERVED_GIB = 2.0, 24.0
"""Upper limits of the CPUs and GiB that a server reserves for itself."""


def as_devices(
    rng: np.random.Generator,
    servers: Sequence[Server],
    jobs: Sequence[PlacementJob],
    shared: float,
    parted: float,
) -> tuple[list[Server], list[PlacementJob]]:
    """Return the servers with GPUs as single devices, and the jobs with demands for such devices.

    Jobs that are one object become one object.

    Devices that are not free are in use as a whole, or shared. Some jobs of one GPU become as many replicas
    with a share or a partition of a GPU as one GPU holds.

    Parameters
    ----------
    shared, parted
        Fractions of the used devices that are shared, and of the jobs of one GPU that become replicas.

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
    asking = []
    for job, how, number in zip(jobs, rule, which, strict=True):
        ask = "devices", int((job.task_demand or {})["gpu"])
        if how < len(choices) and job.tasks == 1 and ask[1] == 1:
            ask = choices[how][number % len(choices[how])]
        key = id(job), ask
        if key not in made:
            made[key] = _with_demand(job, *ask)
        asking.append(made[key])
    return [_equipped(server, rng, shared, parted) for server in servers], asking


def _equipped(server: Server, rng: np.random.Generator, shared: float, parted: float) -> Server:
    """Return a server with its GPUs as single devices, of which the first are in use."""
    count = int(server.capacity["gpu"])
    in_use = count - int(server.available["gpu"])
    sharing = int(rng.binomial(in_use, shared))
    others: list[dict[str, Any]] = [{"device": d} for d in range(in_use)]
    for d, of in enumerate(np.sort(rng.integers(len(OCCUPIED_SHARES), size=sharing)).tolist()):
        others[d]["share"] = OCCUPIED_SHARES[of]
    geometry = GEOMETRY.get(server.gpu_model) if parted else None
    devices = {"count": count, "geometry": geometry, "taken": others}
    plain = server.model_dump(exclude={"devices"})
    for amounts in (plain["capacity"], plain["free"] or {}):
        amounts.pop("gpu", None)
    return Server.model_validate({**plain, "devices": {"gpu": devices}})


def _with_demand(job: PlacementJob, form: str, of: Any) -> PlacementJob:
    """Return a one-GPU job as a job for whole devices, or for the shares or partitions that fill one GPU."""
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


def with_varied_amounts(
    rng: np.random.Generator, servers: Sequence[Server], jobs: Sequence[PlacementJob]
) -> tuple[list[Server], list[PlacementJob]]:
    """Return servers and jobs with random CPU (milli-CPUs) and memory amounts (MiB), and job values."""
    factor, worth = rng.uniform(0.75, 1.0, size=(VARIANTS, 2)), rng.lognormal(0.0, 0.5, PRIORITIES)
    picked = zip(
        rng.integers(VARIANTS, size=len(jobs)), rng.integers(PRIORITIES, size=len(jobs)), strict=True
    )
    made: dict[object, PlacementJob] = {}
    varied = []
    for job, (variant, priority) in zip(jobs, picked, strict=True):
        key = id(job), variant, priority
        if key not in made:
            by = dict(zip(RESOURCES[1:], factor[variant].tolist(), strict=True))
            demand = job.task_demand or {}
            changed = {name: _rounded(name, amount * by.get(name, 1.0)) for name, amount in demand.items()}
            value = round(job.worth * float(worth[priority]), 9)
            made[key] = job.model_copy(update={"task_demand": changed, "value": value})
        varied.append(made[key])
    reserved: dict[object, dict[str, float]] = {}
    unlike = []
    for server in servers:
        shape = tuple(server.capacity.items()), server.gpu_model
        if shape not in reserved:
            cpus, gib = rng.uniform(0.1, RESERVED_CPUS), rng.uniform(1, RESERVED_GIB)
            reserved[shape] = {"cpu": _rounded("cpu", cpus), "memory_gib": _rounded("memory_gib", gib)}
        less = reserved[shape]
        reduced = {
            key: {name: _rounded(name, max(0.0, a - less.get(name, 0.0))) for name, a in amounts.items()}
            for key, amounts in (("capacity", server.capacity), ("free", server.free))
            if amounts is not None
        }
        unlike.append(server.model_copy(update=reduced))
    return unlike, varied


def _rounded(resource: str, amount: float) -> float:
    """Return an amount rounded to whole milli-CPUs or MiB; amounts of other resources unchanged."""
    if resource == "cpu":
        return round(amount, 3)
    return round(amount * 1024) / 1024 if resource == "memory_gib" else amount


RESOURCES = ("gpu", "cpu", "memory_gib")
SIZES = np.array([1, 2, 4, 8, 16, 32])
SIZE_SHARES = np.array([0.65, 0.12, 0.10, 0.09, 0.025, 0.015])
"""Numbers of GPUs of jobs, and the fraction of jobs with each: most have one, as in published traces."""
MAX_SERVERS = 100_000
MAX_JOBS = 1_000_000
FREE = 0.4
"""Share of the GPUs that is free if no load is given."""
MAX_FREE = 0.9
"""Upper limit of the share of free GPUs, unless the load cannot be met with smaller jobs."""
SERVER_WEIGHT = 2.0
"""Weight of the random number of a server, relative to that of a task, in the order in which tasks end."""
STEEPEST = 12.0

SHAPES = {
    "v100": (8, 96, 768),
    "t4": (4, 48, 192),
    "a100": (8, 96, 1152),
    "h100": (8, 192, 2048),
    "a10g": (8, 192, 768),
    "l4": (4, 48, 192),
    "l40s": (4, 96, 768),
    "t4-metal": (8, 96, 384),
}
"""GPUs, CPUs and GiB of cloud servers, by GPU model."""
REQUESTS = (
    ((1, 4, 16), 0.14),
    ((1, 8, 48), 0.16),
    ((1, 10, 100), 0.13),
    ((1, 12, 32), 0.10),
    ((1, 16, 64), 0.14),
    ((1, 24, 160), 0.07),
    ((2, 24, 160), 0.08),
    ((2, 16, 256), 0.04),
    ((4, 40, 300), 0.06),
    ((8, 64, 480), 0.03),
    ((8, 88, 640), 0.05),
)
"""GPUs, CPUs and GiB of a task, and the fraction of tasks with this request."""


def _sizes(uniforms: Floats, slope: float = 0.0) -> Ints:
    """Return each job's GPUs, shape (J,), for its uniform number; the slope tells how many are large.

    Every doubling of the GPUs multiplies the frequency of a job by e^slope; a steeper one enlarges some jobs.
    """
    shares = SIZE_SHARES * np.exp(slope * np.arange(len(SIZES)))
    ends = np.cumsum(shares / shares.sum())[:-1]
    sizes: Ints = SIZES[np.searchsorted(ends, uniforms, side="right")]
    return sizes


def _sizes_asking(uniforms: Floats, wanted: float) -> Ints:
    """Return each job's GPUs, shape (J,), such that all jobs demand about `wanted` GPUs, if possible."""
    low, high = -STEEPEST, STEEPEST
    for _ in range(40):
        slope = (low + high) / 2
        low, high = (slope, high) if _sizes(uniforms, slope).sum() < wanted else (low, slope)
    return _sizes(uniforms, high)


@dataclass(frozen=True)
class _Cluster:
    """The servers of a random cluster by shape (capacity and GPU model), and its running tasks.

    Attributes
    ----------
    shapes, models
        Capacity of each server shape, shape (S, R), and its GPU model.
    shape
        Index of the server shape of each server, shape (N,).
    requests, request_shares
        Demand of a task for each request, shape (K, R), and its frequency; the first is the smallest.
    tasks
        Server and request of each running task, shape (2, P).
    """

    shapes: Ints
    models: tuple[str | None, ...]
    shape: Ints
    requests: Ints
    request_shares: Floats
    tasks: Ints = field(default_factory=lambda: np.zeros((2, 0), dtype=np.int64))

    @property
    def gpus(self) -> int:
        """Number of GPUs of all servers."""
        return int(self.shapes[self.shape, 0].sum())

    @property
    def used_gpus(self) -> int:
        """Number of GPUs of all running tasks."""
        return int(self.requests[self.tasks[1], 0].sum())

    def free(self) -> Ints:
        """Return the residual capacity of each server, shape (N, R)."""
        left = self.shapes[self.shape].copy()
        np.subtract.at(left, self.tasks[0], self.requests[self.tasks[1]])
        return left

    def filled(self, rng: np.random.Generator) -> _Cluster:
        """Return the cluster filled with random tasks until no server has room for the smallest one."""
        left, still = self.shapes[self.shape].copy(), np.arange(len(self.shape))
        placed = []
        while len(still):
            drawn = rng.choice(len(self.requests), len(still), p=self.request_shares)
            fits = (self.requests[drawn] <= left[still]).all(axis=1)
            drawn = np.where(fits, drawn, 0)
            fits = (self.requests[drawn] <= left[still]).all(axis=1)
            still, drawn = still[fits], drawn[fits]
            left[still] -= self.requests[drawn]
            placed.append(np.stack([still, drawn]))
        return replace(self, tasks=np.concatenate(placed, axis=1))

    def relieved(self, rng: np.random.Generator, gpus: int) -> _Cluster:
        """Return the cluster without random running tasks of `gpus` GPUs in all, or slightly fewer."""
        luck = rng.random(len(self.shape))
        order = np.argsort(rng.random(self.tasks.shape[1]) + SERVER_WEIGHT * luck[self.tasks[0]])
        size = self.requests[self.tasks[1, order], 0]
        ended = np.cumsum(size) <= gpus
        missing = gpus - int(size[ended].sum())
        for one in np.unique(size)[::-1].tolist():
            more = np.flatnonzero(~ended & (size == one))[: missing // one]
            ended[more] = True
            missing -= len(more) * one
        return replace(self, tasks=self.tasks[:, order[~ended]])


def generate_consolidation(
    servers: int,
    jobs: int,
    gpus_per_server: int | None = None,
    load: float | None = None,
    required_share: float = 0.3,
    preferred_share: float = 0.3,
    seed: int = 0,
    *,
    resources: int = 1,
    shapes: int = 1,
    rack_size: int = 32,
    must_place_share: float = 0.0,
    devices: bool = False,
    shared: float = 0.3,
    partitioned: float = 0.0,
    unlike: bool = False,
) -> ConsolidationInstance:
    """Return a random queue of jobs for a partly filled cluster.

    Parameters
    ----------
    servers, jobs
        The size of the cluster and of the queue.
    gpus_per_server
        GPUs of each server if all have one shape; 8 if not given.
    load
        Demanded over free GPUs. Running tasks end until it is met; where that would leave hardly any or
        nearly all GPUs free, jobs are made larger or smaller. None leaves two fifths of the GPUs free.
    required_share, preferred_share
        Shares of the jobs with that spread rule.
    seed
        The same seed gives the same instance.
    resources
        1: GPUs alone, and tasks of one GPU; 3: CPUs and memory too, and tasks of a catalogue of requests.
    shapes
        How many shapes of servers there are; the first is the most common.
    rack_size
        Servers of a rack; 0 for no racks.
    must_place_share
        Share of the jobs, random ones, that must be placed; with many there may be no plan.
    devices
        Whether GPUs are single devices.
    shared, partitioned
        Shares of the jobs of one GPU that are replicas with a share of a GPU, or with a partition of one.
    unlike
        Whether amounts are in milli-CPUs and MiB, so that sums hardly repeat, and values have nine decimals.

    Raises
    ------
    OptionError
        If a parameter is out of range, or no sizes of jobs meet the load.
    """
    refuse_options(
        (
            not 1 <= servers <= MAX_SERVERS or not 1 <= jobs <= MAX_JOBS,
            f"servers must be 1 to {MAX_SERVERS:,} and jobs 1 to {MAX_JOBS:,}",
        ),
        (
            gpus_per_server is not None and not 1 <= gpus_per_server <= 1024,
            "GPUs per server must be 1 to 1,024",
        ),
        (
            resources not in (1, 3) or not 1 <= shapes <= len(SHAPES),
            f"resources must be 1 or 3, and shapes 1 to {len(SHAPES)}",
        ),
        (
            gpus_per_server is not None and shapes > 1,
            "server shapes have GPUs of their own; GPUs per server must be left out",
        ),
        (rack_size < 0, "servers of a rack must be at least 1, or 0 for no racks"),
        (devices and resources == 1, "single devices are no resource; resources must be 3"),
        (
            bool(partitioned) and not devices,
            "what is partitioned must be single devices; ask for devices, too",
        ),
        (
            not 0 <= shared <= 1 - partitioned <= 1,
            "the shares of jobs with shares and with partitions must add up to at most 1",
        ),
        (
            (load is not None and not 0 < load < np.inf)
            or not 0 <= required_share <= 1 - preferred_share <= 1,
            "load must be positive, and the two spread shares must add up to at most 1",
        ),
        (
            not 0 <= must_place_share <= 1,
            "the share of jobs that must be placed must lie between 0 and 1",
        ),
    )
    # Separate random streams: another cluster does not change the queue, nor the other way round.
    rng, running, devices_rng, digits_rng = np.random.default_rng(seed).spawn(4)
    uniforms = rng.random(jobs)
    cluster = _cluster(running, servers, gpus_per_server or 8, resources, shapes).filled(running)
    asked, free = _balanced(cluster, uniforms, load)
    cluster = cluster.relieved(running, free - (cluster.gpus - cluster.used_gpus))
    rule = np.searchsorted([required_share, required_share + preferred_share], rng.random(jobs), side="right")
    must = rng.random(jobs) < must_place_share
    what = "running tasks" if resources == 1 else "requests, server shapes, running tasks"
    rows, queue = list(_servers(cluster, rack_size)), list(_jobs(rng, cluster, asked, rule, must))
    if devices:
        rows, queue = as_devices(devices_rng, rows, queue, shared, partitioned)
        what = f"{what}, what is shared and partitioned"
    if unlike:
        rows, queue = with_varied_amounts(digits_rng, rows, queue)
        what = f"{what}, the digits of amounts and values"
    return ConsolidationInstance(
        name=f"synthetic-consolidation-{servers}-{jobs}-{seed}",
        source="synthetic",
        assumptions=(f"job sizes, spread rules, {what} and the order of their ends are random",),
        servers=tuple(rows),
        jobs=tuple(job.model_copy(update={"name": f"job-{j}"}) for j, job in enumerate(queue)),
    )


def _cluster(rng: np.random.Generator, servers: int, gpus: int, resources: int, shapes: int) -> _Cluster:
    """Return a cluster of empty servers, with the requests of tasks that fit on them."""
    table, models = list(SHAPES.values())[:shapes], tuple[str | None, ...](SHAPES)[:shapes]
    if shapes == 1:
        table, models = [(gpus, 12 * gpus, 96 * gpus)], (None,)
    capacity = np.array(table)[:, :resources]
    common = 1 / np.arange(1, shapes + 1)
    demand, share = np.array([row[0] for row in REQUESTS]), np.array([row[1] for row in REQUESTS])
    if resources == 1:
        demand, share = SIZES[:, None], SIZE_SHARES
    fits = np.any(np.all(demand[:, None, :resources] <= capacity, axis=2), axis=1)
    return _Cluster(
        shapes=capacity,
        models=models,
        shape=rng.choice(shapes, servers, p=common / common.sum()),
        requests=demand[fits][:, :resources],
        request_shares=share[fits] / share[fits].sum(),
    )


def _balanced(cluster: _Cluster, uniforms: Floats, load: float | None) -> tuple[Ints, int]:
    """Return the GPUs of each job, shape (J,), and the number of free GPUs, for a given load.

    The load is the ratio of demanded to free GPUs.
    """
    asked, total = _sizes(uniforms), cluster.gpus
    least = max(1, total - cluster.used_gpus)
    if load is None:
        return asked, max(least, round(FREE * total))
    wanted = float(asked.sum()) / load
    within = min(max(wanted, least), max(least, MAX_FREE * total))
    if within != wanted:
        asked = _sizes_asking(uniforms, load * within)
    free = round(float(asked.sum()) / load)
    if not least <= free <= total:
        least_asked, most_asked = len(asked) * SIZES[0], len(asked) * SIZES[-1]
        raise OptionError(
            f"load {load:g} must be one that the jobs can make: they ask for {least_asked:,} to "
            f"{most_asked:,} GPUs, and {least:,} to {total:,} may be free; change it or the jobs"
        )
    return asked, free


def _servers(cluster: _Cluster, rack_size: int) -> Iterator[Server]:
    """Yield the servers; those of one shape and use are copies that differ in name and rack."""
    free = cluster.free()
    names = RESOURCES[: free.shape[1]]

    @cache
    def server(shape: int, *left: int) -> Server:
        return Server(
            name="any",
            capacity=dict(zip(names, cluster.shapes[shape].tolist(), strict=True)),
            free=dict(zip(names, left, strict=True)),
            gpu_model=cluster.models[shape],
        )

    for n, key in enumerate(zip(cluster.shape.tolist(), *free.T.tolist(), strict=True)):
        changed = {"name": f"server-{n}", "rack": f"rack-{n // rack_size}" if rack_size else None}
        yield server(*key).model_copy(update=changed)


def _jobs(
    rng: np.random.Generator, cluster: _Cluster, sizes: Ints, rule: Ints, must: NDArray[np.bool_]
) -> Iterator[PlacementJob]:
    """Return the jobs without names of their own; those with equal demand are one object."""
    columns = (sizes.tolist(), _requests(rng, cluster, sizes).tolist(), rule.tolist(), must.tolist())

    @cache
    def job(size: int, request: int, spread: int, must_place: bool) -> PlacementJob:
        demand = cluster.requests[request].tolist()
        return PlacementJob(
            name="any",
            tasks=size // demand[0],
            task_demand=dict(zip(RESOURCES, demand, strict=False)),
            must_place=must_place,
            spread=("required", "preferred", "free")[spread],
        )

    return itertools.starmap(job, zip(*columns, strict=True))


def _requests(rng: np.random.Generator, cluster: _Cluster, sizes: Ints) -> Ints:
    """Return the index of a random task demand for each job, whose GPUs divide the job's; shape (J,)."""
    chosen = np.zeros(len(sizes), dtype=np.int64)
    if cluster.requests.shape[1] == 1:
        return chosen
    for size in np.unique(sizes).tolist():
        at = np.flatnonzero(sizes == size)
        share = np.where(size % cluster.requests[:, 0] == 0, cluster.request_shares, 0)
        chosen[at] = rng.choice(len(share), len(at), p=share / share.sum())
    return chosen
