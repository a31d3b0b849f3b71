"""Configurations of jobs: the resources on which a job may run, and its speed there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..common.arrays import Flags, Floats, Ints, offsets, run_of_each
from ..common.errors import some
from ..common.fields import Complaint
from ..common.speed import Range, SpeedTable, Variant
from .jobs import JobTable, SchedulingJob

MAX_OF_A_JOB = 10_000
"""Limit of the configurations of one job."""
SLACK = 1e-9
"""Relative tolerance of the capacity."""


@dataclass(frozen=True, eq=False)
class JobConfigurations:
    """The configurations of one malleable job that fit into the empty cluster at some time.

    Attributes
    ----------
    usage, speed, tasks, labels
        One row for each configuration; shapes (k, R), (k,), (k,), (k,).
    requested
        Row of the configuration that its user requested; −1 if there is none with this name.
    too_many
        Number of configurations, if more than are allowed; 0 otherwise.
    """

    usage: Floats
    speed: Floats
    tasks: Ints
    labels: tuple[str, ...]
    requested: int
    too_many: int = 0


@dataclass(frozen=True, eq=False)
class Menus:
    """The configuration tables of all jobs; those of job j are rows first[j] to first[j + 1] − 1.

    A rigid job has one configuration: all its tasks, with speed 1.

    Attributes
    ----------
    first
        First row of each of the J jobs, shape (J + 1,).
    usage
        Demand of a configuration for each resource of the pool, shape (K, R).
    speed
        Work per second, shape (K,), above 0.
    work
        Work of each job, shape (J,).
    tasks
        Number of tasks of a configuration, shape (K,); 1 for all that a job has on a single server.
    labels
        The name of each configuration, unique within its job, shape (K,); "" for that of a rigid job.
    requested
        Row of the configuration in which policies without a choice run a job, shape (J,).
    malleable
        Indices of the malleable jobs.
    """

    first: Ints
    usage: Floats
    speed: Floats
    work: Floats
    tasks: Ints
    labels: Sequence[str]
    requested: Ints
    malleable: Sequence[int] = ()

    @classmethod
    def of(cls, table: JobTable, choices: Mapping[int, JobConfigurations]) -> Menus:
        """Return the configurations of a table of jobs, given those of its malleable jobs."""
        count = np.ones(len(table), dtype=np.int64)
        for j, choice in choices.items():
            count[j] = len(choice.speed)
        first = offsets(count)
        # All rows are first those of rigid jobs.
        usage, tasks = np.repeat(table.total_demand, count, axis=0), np.repeat(table.tasks, count)
        speed, labels = np.ones(len(usage)), [""] * len(usage)
        work, requested = table.duration_s.copy(), first[:-1].copy()
        for j, choice in choices.items():
            own = slice(int(first[j]), int(first[j + 1]))
            usage[own], speed[own], tasks[own] = choice.usage, choice.speed, choice.tasks
            labels[own] = choice.labels
            work[j] = table.malleable[j].work
            requested[j] += choice.requested
        return cls(first, usage, speed, work, tasks, labels, requested, tuple(choices))

    @cached_property
    def owner(self) -> Ints:
        """Index of the job of each configuration, shape (K,)."""
        return run_of_each(self.first)

    @cached_property
    def best_speed(self) -> Floats:
        """The speed of the fastest configuration of each job, shape (J,)."""
        return np.maximum.reduceat(self.speed, self.first[:-1])

    @cached_property
    def _row(self) -> dict[tuple[int, str], int]:
        """(index of a malleable job, name of a configuration) → row of the configuration table."""
        return {
            (j, self.labels[k]): k
            for j in self.malleable
            for k in range(int(self.first[j]), int(self.first[j + 1]))
        }

    def rows(self, jobs: Ints, labels: Sequence[str]) -> Ints:
        """Return the rows of the configuration table by job and name; −1 for an unknown name."""
        rows = self.first[jobs]
        if self.malleable or any(labels):
            malleable = set(self.malleable)
            for place, pair in enumerate(zip(jobs.tolist(), labels, strict=True)):
                if pair[1] or pair[0] in malleable:
                    rows[place] = self._row.get(pair, -1)
        return rows


def as_requested(table: JobTable, menus: Menus) -> JobTable:
    """Return the jobs with each malleable one made rigid, in its requested configuration."""
    if not menus.malleable:
        return table
    jobs = list(menus.malleable)
    row = menus.requested[jobs]
    demand, duration, tasks = table.demand.copy(), table.duration_s.copy(), table.tasks.copy()
    tasks[jobs], duration[jobs] = menus.tasks[row], menus.work[jobs] / menus.speed[row]
    demand[jobs] = menus.usage[row] / menus.tasks[row][:, None]
    return replace(table, demand=demand, duration_s=duration, tasks=tasks)


def configurations_of(table: JobTable, amounts: Floats, servers: Floats) -> dict[int, JobConfigurations]:
    """Return index of a malleable job → its configurations; those of a variant use one server.

    Parameters
    ----------
    amounts
        Capacity of each resource, one row for each time at which it changes, shape (T, R).
    servers
        All capacities of single servers over time, shape (S, R); those of the cluster if it is one pool.
    """
    return {
        j: _choice(job, table.resources, amounts if job.variants is None else servers)
        for j, job in sorted(table.malleable.items())
    }


def configuration_faults(
    table: JobTable, choices: Mapping[int, JobConfigurations], on_servers: bool = False
) -> Iterator[Complaint]:
    """Yield complaints about the configurations of malleable jobs, in a cluster of servers or a pool."""
    for j, choice in choices.items():
        job, takes = table.malleable[j], (choice.usage > 0).any(axis=1)
        of_one_server = on_servers and job.variants is not None
        if choice.too_many:
            what = f"are {choice.too_many:,} configurations, and at most {MAX_OF_A_JOB:,} are allowed"
            yield f"jobs[{j}].variants", f"{what}; narrow the ranges"
        elif not choice.labels:
            where = "on one server, as those of variants must" if of_one_server else "in the cluster"
            yield f"jobs[{j}]", f"{job.name!r} has no configuration that ever fits {where}"
        elif not takes.all():
            label = choice.labels[int(np.argmin(takes))]
            yield f"jobs[{j}]", f"asks for nothing as {label}; at least one amount must be above 0"
        elif choice.requested < 0:
            where = " on one server, as those of variants must," if of_one_server else ""
            what = f"is {job.requested!r}; the configurations that fit{where} are: {some(choice.labels, 12)}"
            yield f"jobs[{j}].requested", what


def in_columns(amounts: Mapping[str, float], resources: Iterable[str]) -> Floats:
    """Return amounts by name as an array in the order of the resources; 0 for those that are not named."""
    return np.array([amounts.get(name, 0.0) for name in resources])


def dominant_shares(usage: Floats, amounts: Floats) -> Floats:
    """Return the largest share that each usage, shape (k, R), takes of a resource of which there is any."""
    available: Flags = amounts > 0
    shares: Floats = (usage[:, available] / amounts[available]).max(axis=1, initial=0.0)
    return shares


def that_ever_fit(usage: Floats, amounts: Floats) -> Flags:
    """Return flags of the usages, shape (k, R), that fit into one of the capacities, shape (T, R).

    A gang needs all its resources at the same time.
    """
    fits = np.zeros(len(usage), dtype=bool)
    for moment in amounts:
        # Written as in the engines: with another rounding jobs would be accepted that never run.
        fits |= (usage <= moment + SLACK * moment).all(axis=1)
    return fits


def _choice(job: SchedulingJob, resources: tuple[str, ...], amounts: Floats) -> JobConfigurations:
    most, listed = amounts.max(axis=0), dict(sorted((job.speeds or {}).items()))
    labels, tasks = [str(count) for count in listed], np.array([*listed], dtype=np.int64)
    usages, speeds = [tasks[:, None] * in_columns(job.demand, resources)], [np.array([*listed.values()])]
    for variant in job.variants or ():
        worker = in_columns(variant.worker_demand, resources)
        server = in_columns(variant.ps_demand, resources)
        counts = _counts(variant, server, worker, most)
        size = len(labels) + np.broadcast(*counts).size
        if size > MAX_OF_A_JOB:
            return JobConfigurations(np.zeros((0, len(resources))), np.zeros(0), tasks, (), -1, size)
        ps, workers = (count.ravel() for count in np.broadcast_arrays(*counts))
        usages.append(ps[:, None] * server + workers[:, None] * worker)
        speeds.append(_steps_per_s(variant, ps, workers))
        pairs = zip(ps.tolist(), workers.tolist(), strict=True)
        labels += [f"{variant.name}:{p}+{w}" if p else f"{variant.name}:{w}" for p, w in pairs]
    usage, speed = np.concatenate(usages), np.concatenate(speeds)
    fits = that_ever_fit(usage, amounts)
    tasks = (tasks if listed else np.ones(len(usage), dtype=np.int64))[fits]
    kept = tuple(label for label, fit in zip(labels, fits.tolist(), strict=True) if fit)
    usage, speed = usage[fits], speed[fits]
    return JobConfigurations(usage, speed, tasks, kept, _requested(job, usage, speed, kept, most))


def _requested(
    job: SchedulingJob, usage: Floats, speed: Floats, labels: tuple[str, ...], most: Floats
) -> int:
    """Return the index of the requested configuration, else of the fastest; −1 if it does not exist.

    Ties go to the minimum dominant share.
    """
    if job.requested is not None:
        return labels.index(job.requested) if job.requested in labels else -1
    if not labels:
        return -1
    return int(np.lexsort((dominant_shares(usage, most), -speed))[0])


def _counts(variant: Variant, server: Floats, worker: Floats, most: Floats) -> tuple[Ints, Ints]:
    """Return the numbers of parameter servers and of workers of a variant that may fit the cluster.

    Two arrays whose broadcast has an entry for each configuration, by workers, then parameter servers.
    """
    if isinstance(variant.speed, SpeedTable):
        rows = variant.speed.sorted_rows()
        return np.array([row.ps for row in rows]), np.array([row.workers for row in rows])
    return _within(variant.ps, server, most), _within(variant.workers, worker, most)[:, None]


def _within(limits: Range | None, demand: Floats, most: Floats) -> Ints:
    if limits is None:
        return np.zeros(1, dtype=np.int64)
    taking = demand > 0
    fitting = float((most[taking] / demand[taking]).min(initial=float(limits.max)))
    return np.arange(limits.min, min(limits.max, int(fitting * (1 + SLACK))) + 1)


def _steps_per_s(variant: Variant, ps: Ints, workers: Ints) -> Floats:
    if isinstance(variant.speed, SpeedTable):
        return np.array([row.steps_per_s for row in variant.speed.sorted_rows()])
    return 1.0 / variant.speed.step_time_s(ps, workers)
