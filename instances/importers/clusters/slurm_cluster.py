"""The nodes and jobs of a Slurm cluster, and their servers and jobs in the instance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal

from ...common.fields import Name
from ...common.hostlist import compress_hostlist
from ...consolidation.devices import DeviceDemand
from ...consolidation.instance import emptied_server
from ..importer import ImportOptions, Option
from ..node_restrictions import Choice as NodeChoice
from ..node_restrictions import Restrictions, models_of_choice, numbered
from .device_sharing import Mig, UnclearDemandError, fields_of
from .job_values import Drained, Running, Spread, Value, worths
from .slurm_jobs import (
    JobRecord,
    SlurmJob,
    has_features,
    is_by_node,
    is_exclusive,
    is_running,
    is_waiting,
    jobs_of,
    needed_nodes,
    nodes_of,
    unmodelled,
    waits_for_resources,
    why_it_stays,
)
from .slurm_nodes import SlurmDevices, SlurmNode, unknown_partitions

MIB_PER_GIB = 1024
WHOLE_NODE, SHARES = "whole node", 1000.0
"""Resource of which a job that needs nodes of its own takes all, others 1 a share; and what nodes have."""
MAX_OTHERS = 20
"""Limit of the unplanned jobs that a server names."""
MAX_SEPARATED = 50
"""Limit of the jobs for which a resource is added that keeps their shares on separate nodes."""
CROWDED = f"needs several nodes, as do more than {MAX_SEPARATED} jobs"
"""Why further ones stay, or are left out."""
OUTSIDE = "could not start again where it runs"
"""Why running jobs stay."""


class SlurmOptions(ImportOptions):
    """Nodes and queue of a Slurm cluster: a consolidation instance."""

    nodes: Annotated[
        Path, Option("What 'scontrol show nodes --json' or 'sinfo --json' prints.", argument="nodes")
    ]
    queue: Annotated[Path, Option("What 'squeue --json' prints.", argument="queue")]
    choice: Annotated[
        Literal["gpu", "all"], Option("gpu: jobs that ask for a GPU; all: every job.", option="--plan")
    ] = "gpu"
    running: Running = "move"
    drained: Drained = "empty"
    partitions: Annotated[
        tuple[Name, ...], Option("Only nodes and jobs of this partition; repeatable.", option="--partition")
    ] = ()
    spread: Spread = "preferred"
    mig: Mig = "keep"
    reservations: Annotated[
        Path | None,
        Option("What 'scontrol show reservation' prints: no job starts on, or moves to, these nodes."),
    ] = None
    value: Value = "gpus"


@dataclass(frozen=True)
class Cluster:
    """The nodes and jobs of a cluster, and which of them are planned."""

    listed: tuple[SlurmNode, ...]
    records: tuple[JobRecord, ...]
    options: SlurmOptions
    unread: frozenset[str] = frozenset()
    reserved: frozenset[str] = frozenset()

    @cached_property
    def devices(self) -> SlurmDevices | None:
        """The GPUs as single devices, if any job demands a part of one; else None."""
        keep = self.options.mig == "keep" or bool(self.unknown_partitions)
        needed = SlurmDevices.needed(self.records, keep)
        return SlurmDevices(self.listed, self.records, keep) if needed else None

    @cached_property
    def unknown_partitions(self) -> dict[str, str]:
        """Node → text on its GPU partitions of unknown geometry, which a plan cannot change."""
        if self.options.mig == "keep" or not SlurmDevices.needed(self.records, False):
            return {}
        by_node = ((node.name, unknown_partitions(node)) for node in self.listed)
        return {name: partitions for name, partitions in by_node if partitions}

    def in_partition(self, partitions: Iterable[str]) -> bool:
        """Return whether one of these partitions is selected by the options."""
        return not self.options.partitions or not set(self.options.partitions).isdisjoint(partitions)

    @cached_property
    def nodes(self) -> list[SlurmNode]:
        """The nodes that accept jobs, and those that are emptied."""
        unclear = self.unknown | (self.devices.out.keys() if self.devices is not None else set())
        known = (node for node in self.listed if self._takes_jobs(node) or node.name in self.emptied)
        chosen = (node for node in known if node.name not in unclear)
        return [node for node in chosen if self.in_partition(node.partitions)]

    @cached_property
    def emptied(self) -> frozenset[str]:
        """The names of the drained nodes on which jobs run that may move, if the options let them."""
        if self.options.drained == "stay" or self.options.running == "stay":
            return frozenset()
        moving = (record for record in self.chosen if is_running(record) and not why_it_stays(record))
        held = {name for record in moving for name in record.nodes}
        return frozenset(node.name for node in self.listed if node.drained and node.name in held)

    @cached_property
    def unknown(self) -> frozenset[str]:
        """The names of the nodes with an invalid job and no listed use, so that their use is unknown."""
        silent = (n.name for n in self.listed if n.used_cpus is None or n.used_memory_mib is None)
        return self.unread.intersection(silent)

    @cached_property
    def out(self) -> list[str]:
        """The names of the nodes that accept no jobs in their Slurm state, or are in no partition."""
        out = (node for node in self.listed if not self._takes_jobs(node))
        return [node.name for node in out if node.name not in self.emptied]

    def _takes_jobs(self, node: SlurmNode) -> bool:
        """Return whether a node takes jobs in its state, and is in a partition if any node is."""
        return node.usable and (bool(node.partitions) or not self._have_partitions)

    @cached_property
    def _have_partitions(self) -> bool:
        """Whether the source says which partitions nodes are in."""
        return any(node.partitions for node in self.listed)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the nodes that accept jobs."""
        return frozenset(node.name for node in self.nodes)

    @cached_property
    def chosen(self) -> list[JobRecord]:
        """The waiting and running jobs of the selected Slurm partitions."""
        return [
            record
            for record in self.records
            if (is_waiting(record) or is_running(record)) and self.in_partition(record.partition)
        ]

    @cached_property
    def stranded(self) -> list[JobRecord]:
        """The running jobs that keep their nodes and are not planned.

        They have a node that is not planned, or one that is emptied although they cannot move.
        """
        return [
            record
            for record in self.chosen
            if is_running(record)
            and not (self.names - (self.emptied if why_it_stays(record) else set())).issuperset(record.nodes)
        ]

    @cached_property
    def unready(self) -> list[JobRecord]:
        """The pending jobs that wait for other reasons than resources, such as a dependency."""
        return [r for r in self.chosen if is_waiting(r) and not waits_for_resources(r)]

    @cached_property
    def unmodelled(self) -> dict[str, str]:
        """Name of each job that waits for resources, but must not be planned → the reason."""
        waiting = (r for r in self.chosen if is_waiting(r) and waits_for_resources(r))
        reasons = ((next(jobs_of(record)).name, unmodelled(record)) for record in waiting)
        return {name: why for name, why in reasons if why}

    def _jobs_of(self, record: JobRecord) -> Sequence[SlurmJob]:
        return list(jobs_of(record)) if self.devices is None else self.devices.jobs(record)

    @cached_property
    def _ready(self) -> list[SlurmJob]:
        """The jobs that the options select and that are ready to be planned."""
        out, devices = {id(record) for record in (*self.stranded, *self.unready)}, self.devices
        return [
            job
            for record in self.chosen
            if id(record) not in out and (self.options.running == "move" or is_waiting(record))
            if is_running(record) or not unmodelled(record)
            for job in self._jobs_of(record)
            if self.options.choice == "all" or (devices.is_asked(job) if devices is not None else job.gpus)
        ]

    @property
    def asking_for_none(self) -> bool:
        """Whether jobs would be planned if jobs without GPUs were selected, too."""
        every = replace(self, options=self.options.model_copy(update={"choice": "all"}))
        return bool(every.jobs)

    @cached_property
    def _asks(self) -> tuple[dict[int, DeviceDemand | None], dict[str, str]]:
        """Identity of a job → device demand of its tasks; and name of a job → why this is unclear."""
        asks: dict[int, DeviceDemand | None] = {}
        unclear: dict[str, str] = {}
        for job in self._ready:
            if self.devices is None:
                break
            try:
                asks[id(job)] = self.devices.ask_of(job, self._allowed(job), self.names)
            except UnclearDemandError as error:
                unclear[job.name] = str(error)
        return asks, unclear

    @property
    def unclear(self) -> dict[str, str]:
        """Name of each job with an unclear demand for devices → the reason."""
        return self._asks[1]

    @cached_property
    def _clear(self) -> list[SlurmJob]:
        """The jobs whose demand for GPUs is clear."""
        asks = self._asks[0]
        return self._ready if self.devices is None else [job for job in self._ready if id(job) in asks]

    @cached_property
    def jobs(self) -> list[SlurmJob]:
        """The jobs that are planned."""
        crowd = {id(job) for job in self.crowd if not job.current}
        return [job for job in self._clear if id(job) not in crowd] if crowd else self._clear

    @property
    def asks(self) -> list[DeviceDemand]:
        """The demands of the planned jobs for single devices."""
        return [ask for ask in self._asks[0].values() if ask is not None]

    @cached_property
    def models(self) -> dict[str, str | None]:
        """Node → the model of its GPUs, None if it has none or several."""
        devices = self.devices
        return {node.name: devices.model(node) if devices else node.gpu_model for node in self.nodes}

    @cached_property
    def _mixed(self) -> frozenset[str]:
        """The names of the nodes with several types of GPU, such as partitions (MIG) beside whole ones."""
        several = (node for node in self.listed if sum(count > 0 for count in node.gpus.values()) > 1)
        return frozenset(node.name for node in several) if self.devices is None else frozenset()

    @cached_property
    def types(self) -> frozenset[str]:
        """The types of GPU that are resources, for jobs ask for them and a node has others, too."""
        there = {kind for node in self.listed if node.name in self._mixed for kind in node.gpus}
        return frozenset(job.gpu_model for job in self._ready if job.gpu_model in there and job.gpu_model)

    def allowed(self, job: SlurmJob) -> frozenset[str]:
        """Return the names of the nodes of a job's partitions that it may use: named and not excluded.

        Which of several types of GPU a job gets that names none, only Slurm knows; it goes to other nodes.
        """
        partitions, excluded = set(job.record.partition), {*job.record.excluded_nodes, *self.reserved}
        excluded |= self._mixed if self.types and job.gpus and job.gpu_model is None else set()
        needed, features = needed_nodes(job.record), bool(job.record.features)
        return frozenset(
            node.name
            for node in self.nodes
            if node.name not in excluded
            and (not needed or node.name in needed)
            and (not features or has_features(job.record, node.features))
            and not (partitions and node.partitions and partitions.isdisjoint(node.partitions))
        )

    @cached_property
    def _allowances(self) -> dict[tuple[object, ...], frozenset[str]]:
        """Cache: key of a job's constraints → the names of the nodes that such jobs may use."""
        return {}

    def _allowed(self, job: SlurmJob) -> frozenset[str]:
        """Return the names of the nodes that a job may use and whose GPUs can satisfy its demand."""
        record = job.record
        part = (job.shards > 0, job.profile != "")
        untyped = job.gpus > 0 and job.gpu_model is None
        key = (
            record.partition,
            record.excluded_nodes,
            needed_nodes(record),
            str(record.features),
            part,
            untyped,
        )
        if key not in self._allowances:
            nodes = self.allowed(job)
            self._allowances[key] = nodes if self.devices is None else self.devices.offering(job, nodes)
        return self._allowances[key]

    @cached_property
    def _by_models(self) -> dict[int, list[str]]:
        """Identity of a restricted job → GPU models of its nodes.

        Only jobs whose nodes are exactly those of some models are included.
        """
        known: dict[tuple[object, ...], tuple[frozenset[str], list[str] | None]] = {}
        by_job = {}
        for job in self.jobs:
            nodes, model = self._allowed(job), self._model_of(job)
            # A type of partition without a model in its name is not restricted to models.
            if nodes == self.names or (job.profile and model is None):
                continue
            if (model, nodes) not in known:
                chosen = frozenset(name for name in nodes if model in (None, self.models[name]))
                known[model, nodes] = chosen, models_of_choice(chosen, self.models)
            chosen, listed = known[model, nodes]
            if listed is not None and chosen.issuperset(job.current):
                by_job[id(job)] = listed
        return by_job

    @property
    def by_models(self) -> list[str]:
        """The names of the jobs whose allowed nodes are expressed as GPU models."""
        return [job.name for job in self.jobs if id(job) in self._by_models]

    @cached_property
    def _choices(self) -> dict[int, NodeChoice]:
        """Identity of a job → the allowed nodes of its tasks, under a unique name of the job."""
        choices = {}
        for job, name in zip(self.jobs, numbered((job.name for job in self.jobs), "{} ({})"), strict=True):
            now: dict[str | None, int] = dict(job.current.items()) or {None: job.tasks}
            nodes = self.names if id(job) in self._by_models else self._allowed(job)
            choices[id(job)] = NodeChoice(name, nodes, now, partial(self._described, job))
        return choices

    @property
    def crowd(self) -> list[SlurmJob]:
        """The jobs of `need_apart` beyond the limit: what waits is left out, what runs stays."""
        return self.need_apart[MAX_SEPARATED:]

    @cached_property
    def need_apart(self) -> list[SlurmJob]:
        """The jobs with GPUs requested per node of which one node could hold several tasks."""
        has = [self._has(node) for node in self.nodes]
        largest = {name: max(amounts[name] for amounts in has) for name in (has[0] if has else ())}
        return [
            job
            for job in self._clear
            if is_by_node(job.record)
            and job.tasks == nodes_of(job.record)
            and all(2 * amount <= largest[name] for name, amount in self._demand(job).items())
        ]

    @cached_property
    def _apart(self) -> set[int]:
        """The identities of the jobs with at most one task on a node."""
        return {id(job) for job in self.need_apart[:MAX_SEPARATED]}

    @cached_property
    def _alone(self) -> bool:
        """Whether a planned job needs nodes of its own."""
        return any(is_exclusive(job.record) for job in self.jobs)

    @cached_property
    def restrictions(self) -> Restrictions:
        """The artificial resources that restrict jobs to the nodes they may use."""
        return Restrictions(self.names, self._choices.values())

    @property
    def made_up(self) -> list[str]:
        """The resources that stand for restrictions, and for nodes of a job's own."""
        return [*self.restrictions.names, *([WHOLE_NODE] if self._alone else [])]

    def _described(self, job: SlurmJob) -> str:
        """Return a few words on the nodes that a job may use."""
        record = job.record
        partitions, parts = set(record.partition), ["node"]
        needed = needed_nodes(record)
        excluded = self.names.intersection((*record.excluded_nodes, *self.reserved))
        if needed:
            return f"node {compress_hostlist(needed)}"
        if (
            any(node.partitions and partitions.isdisjoint(node.partitions) for node in self.nodes)
            and partitions
        ):
            parts.append(f"in partition {' or '.join(record.partition)}")
        if excluded:
            parts.append(f"other than {compress_hostlist(excluded)}")
        parts += [f"with {record.features}"] if record.features else []
        parts += ["with shards"] if job.shards else ["with partitions"] if job.profile else []
        return " ".join(parts)

    @cached_property
    def usage(self) -> tuple[dict[str, Counter[str]], dict[str, Counter[str]]]:
        """Two mappings node → amounts by resource: held by planned jobs, and by other running jobs."""
        both: tuple[dict[str, Counter[str]], dict[str, Counter[str]]] = ({}, {})
        for record in self.records:
            if is_running(record):
                on_nodes = both[0 if id(record) in self._planned else 1]
                for job in self._jobs_of(record):
                    for node, tasks in job.current.items():
                        amounts = {name: amount * tasks for name, amount in self._demand(job).items()}
                        on_nodes.setdefault(node, Counter()).update(amounts)
        return both

    def server(self, node: SlurmNode) -> dict[str, Any]:
        """Return a node as a server of the document."""
        planned, others = (on_nodes.get(node.name, Counter[str]()) for on_nodes in self.usage)
        capacity = self._has(node)
        used = {
            "cpu": node.used_cpus,
            "memory_gib": None if node.used_memory_mib is None else node.used_memory_mib / MIB_PER_GIB,
            "gpu": node.used_gpus,
            **{f"gpu:{kind}": node.used_by_type.get(kind, 0.0) for kind in self.types},
        }
        permits = self.restrictions.permits(node.name) | ({WHOLE_NODE: SHARES} if self._alone else {})
        free, busy = {}, bool(others)
        for name, amount in capacity.items():
            taken = used[name]
            # The use that a node lists includes planned jobs; the sum over the other jobs does not.
            foreign = float(others[name]) if taken is None else taken - planned[name]
            busy = busy or foreign > 0
            free[name] = min(amount, max(amount - max(foreign, 0.0), float(planned[name])))
        server = {
            "name": node.name,
            "capacity": capacity | permits,
            "free": free | permits | ({WHOLE_NODE: SHARES - busy} if self._alone else {}),
            "gpu_model": self.models[node.name],
            "others": self._others.get(node.name),
            **({} if self.devices is None else self.devices.document(node.name, self._planned)),
        }
        if node.name not in self.emptied:
            return server
        staying = [job for job in self.jobs if node.name in job.current and self.why_it_stays(job)]
        if not staying:
            return emptied_server(server)
        # What cannot leave, though its node is to be empty, has what it holds, and no more.
        held = dict.fromkeys(capacity, 0.0)
        for job in staying:
            for name, amount in self._demand(job).items():
                held[name] += amount * job.current[node.name]
        devices = self.devices
        only = {id(job.record) for job in staying}
        own = {} if devices is None else devices.document(node.name, only)
        return {**server, "free": held | permits, **own}

    @cached_property
    def _others(self) -> dict[str, list[str]]:
        """Node → some of the running jobs there that are not planned."""
        names: dict[str, list[str]] = {}
        for record in self.records:
            if is_running(record) and id(record) not in self._planned:
                for node in record.nodes:
                    on_node = names.setdefault(node, [])
                    if len(on_node) < MAX_OTHERS:
                        on_node.append(next(jobs_of(record)).name)
        return names

    @cached_property
    def _planned(self) -> set[int]:
        """The identities of the records of planned jobs."""
        return {id(job.record) for job in self.jobs}

    def document_of(self, job: SlurmJob) -> dict[str, Any]:
        """Return a job as the document has it."""
        choice, ask = self._choices[id(job)], self._asks[0].get(id(job))
        demand = self._demand(job) | self.restrictions.demand(choice)
        if self._alone:
            demand[WHOLE_NODE] = SHARES if is_exclusive(job.record) else 1.0
        return {
            "name": choice.job,
            "tasks": job.tasks,
            "task_demand": demand,
            "value": self._worths[id(job)],
            "must_place": bool(job.current),
            **({"movable": False} if job.current and self.why_it_stays(job) else {}),
            "spread": self.options.spread if job.tasks > 1 else "free",
            "gpu_model": self._models_of(job),
            "current": job.current,
            "max_per_server": 1 if id(job) in self._apart else None,
            "assumed": self._notes(job) or None,
            **fields_of(ask, {} if self.devices is None else self.devices.held_of(job)),
        }

    def why_it_stays(self, job: SlurmJob) -> str:
        """Return why a running job is not moved; empty if it may be."""
        crowded = id(job) not in self._apart and any(job is other for other in self.crowd)
        outside = not self.emptied.union(self._allowed(job)).issuperset(job.current)
        return why_it_stays(job.record) or CROWDED * crowded or OUTSIDE * outside

    def _notes(self, job: SlurmJob) -> list[str]:
        """Return what is assumed about a planned job, one sentence each."""
        why = self.why_it_stays(job) if job.current else ""
        notes = [f"It is not moved ({why})."] if why else []
        if needed_nodes(job.record):
            notes.append("It uses no other nodes than it asks for, though perhaps not each of them.")
        return notes

    @cached_property
    def _worths(self) -> dict[int, float]:
        """Identity of a job → the objective value of placing it."""
        gpus = []
        for job in self.jobs:
            ask = self._asks[0].get(id(job))
            each = job.gpus if self.devices is None or ask is None else self.devices.worth(ask)
            gpus.append(each * job.tasks)
        values = worths(self.options.value, gpus, [job.record.priority for job in self.jobs])
        return {id(job): worth for job, worth in zip(self.jobs, values, strict=True)}

    def _models_of(self, job: SlurmJob) -> str | list[str] | None:
        """Return the allowed GPU models of a job, None for any; a running job keeps its own."""
        now = {self.models.get(name) for name in job.current}
        if len(now) == 1 and now != {None} and (job.gpus or job.shards or job.profile):
            return now.pop()
        return self._by_models[id(job)] if id(job) in self._by_models else self._model_of(job)

    def _model_of(self, job: SlurmJob) -> str | None:
        """Return the GPU model that a job requests; None for any, or if it runs on other GPUs, too."""
        fits = all(self.models[name] == job.gpu_model for name in job.current if name in self.names)
        return job.gpu_model if fits and job.gpu_model not in self.types else None

    def _has(self, node: SlurmNode) -> dict[str, float]:
        amounts = self._amounts(node.cpus, node.memory_mib / MIB_PER_GIB, sum(node.gpus.values()))
        return amounts | {f"gpu:{kind}": node.gpus.get(kind, 0.0) for kind in sorted(self.types)}

    def _amounts(self, cpus: float, memory_gib: float, gpus: float) -> dict[str, float]:
        amounts = {"cpu": cpus, "memory_gib": memory_gib}
        return amounts | {"gpu": gpus} if self.devices is None else amounts

    def _demand(self, job: SlurmJob) -> dict[str, float]:
        amounts = self._amounts(job.cpus, job.memory_gib, job.gpus)
        amounts |= {f"gpu:{job.gpu_model}": job.gpus} if job.gpu_model in self.types else {}
        return {name: amount for name, amount in amounts.items() if amount}
