"""The nodes and jobs of a Slurm cluster, and what the importer makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal

from ...common.fields import Name
from ...common.hostlist import compress_hostlist
from ..cluster_options import Running, Spread
from ..importer import ImportOptions, Option
from ..node_restrictions import Choice as NodeChoice
from ..node_restrictions import Restrictions, numbered
from .jobs import SlurmJob, is_running, jobs_of, needed_nodes, waits, waits_for_resources
from .nodes import SlurmNode
from .objects import JobRecord

MIB_PER_GIB = 1024


class SlurmOptions(ImportOptions):
    """Nodes and queue of a Slurm cluster: a consolidation instance."""

    nodes: Annotated[
        Path, Option("What 'scontrol show nodes --json' or 'sinfo --json' prints.", argument="nodes")
    ]
    queue: Annotated[Path, Option("What 'squeue --json' prints.", argument="queue")]
    choice: Annotated[
        Literal["gpu", "all"], Option("gpu: jobs that ask for a GPU; all: every job.", option="--jobs")
    ] = "gpu"
    running: Running = "move"
    partitions: Annotated[
        tuple[Name, ...], Option("Only nodes and jobs of this partition; repeatable.", option="--partition")
    ] = ()
    spread: Spread = "preferred"


@dataclass(frozen=True)
class Cluster:
    """The nodes and jobs, and what is made of them."""

    listed: tuple[SlurmNode, ...]
    records: tuple[JobRecord, ...]
    options: SlurmOptions

    def in_partition(self, partitions: Iterable[str]) -> bool:
        """Return whether one of the partitions is asked for."""
        return not self.options.partitions or not set(self.options.partitions).isdisjoint(partitions)

    @cached_property
    def nodes(self) -> list[SlurmNode]:
        """The nodes that take jobs."""
        return [node for node in self.listed if node.usable and self.in_partition(node.partitions)]

    @cached_property
    def out(self) -> list[str]:
        """The names of those that do not for their state."""
        return [node.name for node in self.listed if not node.usable]

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the nodes that take jobs."""
        return frozenset(node.name for node in self.nodes)

    @cached_property
    def chosen(self) -> list[JobRecord]:
        """The jobs that wait or run, in the right partition."""
        return [
            record
            for record in self.records
            if (waits(record) or is_running(record)) and self.in_partition(record.partition)
        ]

    @cached_property
    def stranded(self) -> list[JobRecord]:
        """Running jobs that hold a node which is not planned; they stay where they are."""
        return [r for r in self.chosen if is_running(r) and not self.names.issuperset(r.nodes)]

    @cached_property
    def unready(self) -> list[JobRecord]:
        """Waiting jobs that wait for something else than resources."""
        return [r for r in self.chosen if waits(r) and not waits_for_resources(r)]

    @cached_property
    def jobs(self) -> list[SlurmJob]:
        """The jobs that are planned."""
        out = {id(record) for record in (*self.stranded, *self.unready)}
        return [
            job
            for record in self.chosen
            if id(record) not in out and (waits(record) or self.options.running == "move")
            for job in jobs_of(record)
            if job.gpus or self.options.choice == "all"
        ]

    def allowed(self, job: SlurmJob) -> frozenset[str]:
        """Return the nodes that a job may use: those of its partitions that it names, or does not exclude."""
        partitions, excluded = set(job.record.partition), set(job.record.excluded_nodes)
        needed = needed_nodes(job.record)
        return frozenset(
            node.name
            for node in self.nodes
            if node.name not in excluded
            and (not needed or node.name in needed)
            and not (partitions and node.partitions and partitions.isdisjoint(node.partitions))
        )

    @cached_property
    def _choices(self) -> dict[int, NodeChoice]:
        """Identity of a job → its name, which no other has, and the nodes that it may use."""
        cache: dict[tuple[object, ...], frozenset[str]] = {}
        found = {}
        for job, name in zip(self.jobs, numbered((job.name for job in self.jobs), "{} ({})"), strict=True):
            # Thousands of jobs share few choices; each is compared with the nodes once.
            key = (job.record.partition, job.record.excluded_nodes, needed_nodes(job.record))
            if key not in cache:
                cache[key] = self.allowed(job)
            now: dict[str | None, int] = dict(job.current.items()) or {None: job.tasks}
            found[id(job)] = NodeChoice(name, cache[key], now, partial(self._described, job.record))
        return found

    @cached_property
    def restrictions(self) -> Restrictions:
        """The choices of nodes that jobs are limited to."""
        return Restrictions(self.names, self._choices.values())

    def _described(self, record: JobRecord) -> str:
        """Say in a few words which nodes a job may use."""
        partitions, parts = set(record.partition), ["node"]
        needed, excluded = needed_nodes(record), self.names.intersection(record.excluded_nodes)
        if needed:
            return f"node {compress_hostlist(needed)}"
        if (
            any(node.partitions and partitions.isdisjoint(node.partitions) for node in self.nodes)
            and partitions
        ):
            parts.append(f"in partition {' or '.join(record.partition)}")
        if excluded:
            parts.append(f"other than {compress_hostlist(excluded)}")
        return " ".join(parts)

    @cached_property
    def held(self) -> tuple[dict[str, Counter[str]], dict[str, Counter[str]]]:
        """What planned jobs hold of each node, and what the other running ones do by their own account."""
        planned = {id(job.record) for job in self.jobs}
        both: tuple[dict[str, Counter[str]], dict[str, Counter[str]]] = ({}, {})
        for record in self.records:
            if is_running(record):
                held = both[0 if id(record) in planned else 1]
                for job in jobs_of(record):
                    for node, tasks in job.current.items():
                        amounts = {name: amount * tasks for name, amount in _demand(job).items()}
                        held.setdefault(node, Counter()).update(amounts)
        return both

    def server(self, node: SlurmNode) -> dict[str, Any]:
        """Return a node as a server."""
        planned, others = (held.get(node.name, Counter[str]()) for held in self.held)
        capacity = _amounts(node.cpus, node.memory_mib / MIB_PER_GIB, sum(node.gpus.values()))
        used = {
            "cpu": node.used_cpus,
            "memory_gib": None if node.used_memory_mib is None else node.used_memory_mib / MIB_PER_GIB,
            "gpu": node.used_gpus,
        }
        permits = self.restrictions.permits(node.name)
        free = {}
        for name, amount in capacity.items():
            taken = used[name]
            # What a node lists as used includes what planned jobs hold; the sum over others does not.
            foreign = float(others[name]) if taken is None else taken - planned[name]
            free[name] = min(amount, max(amount - max(foreign, 0.0), float(planned[name])))
        return {
            "name": node.name,
            "capacity": capacity | permits,
            "free": free | permits,
            "gpu_model": node.gpu_model,
        }

    def document_of(self, job: SlurmJob) -> dict[str, Any]:
        """Return a job as the document has it."""
        choice = self._choices[id(job)]
        return {
            "name": choice.job,
            "tasks": job.tasks,
            "task_demand": _demand(job) | self.restrictions.demand(choice),
            "value": job.gpus * job.tasks or 1.0,
            "must_place": bool(job.current),
            "spread": self.options.spread if job.tasks > 1 else "free",
            "gpu_model": job.gpu_model if self._fits_model(job) else None,
            "current": job.current,
        }

    def _fits_model(self, job: SlurmJob) -> bool:
        """Return whether a job runs only where all GPUs are of its model; one that waits does."""
        return all(node.gpu_model == job.gpu_model for node in self.nodes if node.name in job.current)


def _amounts(cpus: float, memory_gib: float, gpus: float) -> dict[str, float]:
    return {"cpu": cpus, "memory_gib": memory_gib, "gpu": gpus}


def _demand(job: SlurmJob) -> dict[str, float]:
    return {name: amount for name, amount in _amounts(job.cpus, job.memory_gib, job.gpus).items() if amount}
