"""The nodes and jobs of a Slurm cluster, which of them are planned, and their snapshot."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Annotated

from ...common.fields import Name
from ...common.hostlist import compress_hostlist
from ...consolidation.devices import DeviceDemand
from ..importer import ImportOptions, Option
from ..node_restrictions import name_by_models
from .device_inventory import NO_DEVICES, Demands, DeviceInventory, Sharing
from .device_sharing import Mig
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
from .slurm_nodes import (
    SlurmNode,
    asks_for_part,
    device_inventory,
    gpu_model_of,
    jobs_on_devices,
    unknown_partitions,
)
from .snapshot import (
    CROWDED,
    MAX_SEPARATED,
    OUTSIDE,
    ClusterSnapshot,
    Drained,
    Planned,
    Running,
    SnapshotNode,
    Spread,
    TaskGroup,
    Value,
    Workload,
)

MIB_PER_GIB = 1024


class SlurmOptions(ImportOptions):
    """Nodes and queue of a Slurm cluster: a consolidation instance."""

    nodes: Annotated[
        Path, Option("What 'scontrol show nodes --json' or 'sinfo --json' prints.", argument="nodes")
    ]
    queue: Annotated[Path, Option("What 'squeue --json' prints.", argument="queue")]
    choice: Planned = "gpu"
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
    def _alive(self) -> list[JobRecord]:
        """The waiting and running jobs."""
        return [record for record in self.records if is_waiting(record) or is_running(record)]

    @cached_property
    def sharing(self) -> Sharing[SlurmNode, JobRecord]:
        """Whether GPUs are single devices, and whether their partitions are resources as they are now."""
        return Sharing(self.listed, self.options.mig, self._alive, asks_for_part, unknown_partitions)

    @cached_property
    def _jobs_of(self) -> dict[int, list[SlurmJob]]:
        """Identity of the record of a waiting or running job → its jobs, several of a job array."""
        if not self.sharing.by_device:
            return {id(record): list(jobs_of(record)) for record in self._alive}
        return {id(record): jobs_on_devices(record, self.sharing.keep_partitions) for record in self._alive}

    @cached_property
    def devices(self) -> DeviceInventory:
        """The GPUs as single devices, if any job demands a part of one; else none."""
        jobs = chain.from_iterable(self._jobs_of.values())
        keep = self.sharing.keep_partitions
        return device_inventory(self.listed, jobs, keep) if self.sharing.by_device else NO_DEVICES

    def in_partition(self, partitions: Iterable[str]) -> bool:
        """Return whether one of these partitions is selected by the options."""
        return not self.options.partitions or not set(self.options.partitions).isdisjoint(partitions)

    @cached_property
    def nodes(self) -> list[SlurmNode]:
        """The nodes that accept jobs, and those that are emptied."""
        unclear = self.unknown | self.devices.out.keys()
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
        return [record for record in self._alive if self.in_partition(record.partition)]

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

    @cached_property
    def _ready(self) -> list[SlurmJob]:
        """The jobs that the options select and that are ready to be planned."""
        out = {id(record) for record in (*self.stranded, *self.unready)}
        return [
            job
            for record in self.chosen
            if id(record) not in out and (self.options.running == "move" or is_waiting(record))
            if is_running(record) or not unmodelled(record)
            for job in self._jobs_of[id(record)]
            if self.options.choice == "all" or job.gpus or job.shards or job.profile or job.unclear
        ]

    @property
    def asking_for_none(self) -> bool:
        """Whether jobs would be planned if jobs without GPUs were selected, too."""
        return bool(replace(self, options=self.options.model_copy(update={"choice": "all"})).jobs)

    @cached_property
    def _asks(self) -> Demands:
        """The demands of the tasks of the jobs for single devices."""
        if not self.sharing.by_device:
            return Demands()
        return self.devices.demands(((id(job), self._allowed(job)) for job in self._ready), self.names)

    @property
    def unclear(self) -> dict[str, str]:
        """Name of each job with an unclear demand for devices → the reason."""
        reasons = self._asks.unclear
        return {job.name: reasons[id(job)] for job in self._ready if id(job) in reasons}

    @cached_property
    def _clear(self) -> list[SlurmJob]:
        """The jobs whose demand for GPUs is clear."""
        asks = self._asks.clear
        return [job for job in self._ready if id(job) in asks] if self.sharing.by_device else self._ready

    @cached_property
    def jobs(self) -> list[SlurmJob]:
        """The jobs that are planned."""
        crowd = {id(job) for job in self.crowd if not job.current}
        return [job for job in self._clear if id(job) not in crowd] if crowd else self._clear

    @property
    def asks(self) -> list[DeviceDemand]:
        """The demands of the planned jobs for single devices."""
        return [ask for ask in self._asks.clear.values() if ask is not None]

    @cached_property
    def models(self) -> dict[str, str | None]:
        """Node → the model of its GPUs, None if it has none or several."""
        keep = self.sharing.keep_partitions or not self.sharing.by_device
        return {node.name: gpu_model_of(node, keep) for node in self.nodes}

    @cached_property
    def _mixed(self) -> frozenset[str]:
        """The names of the nodes with several types of GPU, such as partitions (MIG) beside whole ones."""
        several = (node.name for node in self.listed if node.is_mixed)
        return frozenset() if self.sharing.by_device else frozenset(several)

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
            self._allowances[key] = self.devices.offering(self.devices.request(id(job)), self.allowed(job))
        return self._allowances[key]

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
    def _workloads(self) -> list[Workload]:
        """The planned jobs, with the GPU models that they request, or that stand for their nodes."""
        workloads = list(map(self._workload, self.jobs))
        # A type of partition without a model in its name is not restricted to models.
        pairs = zip(self.jobs, workloads, strict=True)
        name_by_models((own for job, own in pairs if own.gpu_model or not job.profile), self.models)
        return workloads

    @property
    def by_models(self) -> list[str]:
        """The names of the jobs whose allowed nodes are expressed as GPU models."""
        return [workload.name for workload in self._workloads if isinstance(workload.gpu_model, list)]

    @cached_property
    def snapshot(self) -> ClusterSnapshot:
        """The nodes that accept jobs, and the jobs that are planned."""
        workloads = []
        for job, workload in zip(self.jobs, self._workloads, strict=True):
            models = {self.models.get(name) for name in job.current}
            # A running job keeps its model.
            keeps = len(models) == 1 and models != {None} and (job.gpus or job.shards or job.profile)
            workloads.append(replace(workload, gpu_model=models.pop()) if keeps else workload)
        nodes, options = list(map(self._node, self.nodes)), self.options
        return ClusterSnapshot(nodes, workloads, self.devices, options.value, options.spread)

    def _workload(self, job: SlurmJob) -> Workload:
        """Return a job, with the one GPU model that it requests."""
        ask, record = self._asks.clear.get(id(job)), job.record
        group = TaskGroup(
            name="tasks",
            demand=self._demand(job),
            nodes=self._allowed(job),
            current=dict(job.current.items()) or {None: job.tasks},
            describe=partial(self._described, job),
            ask=ask,
            members=self.devices.members([job]),
        )
        why = self.why_it_stays(job) if job.current else ""
        notes = [f"It is not moved ({why})."] if why else []
        if needed_nodes(record):
            notes.append("It uses no other nodes than it asks for, though perhaps not each of them.")
        # One that runs on other GPUs, too, is not restricted.
        fits = all(self.models[name] == job.gpu_model for name in job.current if name in self.names)
        return Workload(
            name=job.name,
            groups=[group],
            gpus=(job.gpus if ask is None else self.devices.worth(ask)) * job.tasks,
            priority=record.priority,
            must_place=bool(job.current),
            stays=why,
            gpu_model=job.gpu_model if fits and job.gpu_model not in self.types else None,
            exclusive=is_exclusive(record),
            separate=id(job) in self._apart,
            assumed=notes,
        )

    def _node(self, node: SlurmNode) -> SnapshotNode:
        """Return a node, and what jobs hold there that are not planned."""
        used = {
            "cpu": node.used_cpus,
            "memory_gib": None if node.used_memory_mib is None else node.used_memory_mib / MIB_PER_GIB,
            "gpu": sum(node.used_gpus.values()),
            **{f"gpu:{kind}": node.used_gpus.get(kind, 0.0) for kind in self.types},
        }
        others = self._unplanned.get(node.name, [])
        foreign = Counter[str]()
        for job in others:
            tasks = job.current.get(node.name, 0)
            foreign.update({name: amount * tasks for name, amount in self._demand(job).items() if tasks})
        return SnapshotNode(
            name=node.name,
            capacity=self._has(node),
            foreign=foreign,
            used=used,
            others=[next(jobs_of(job.record)).name for job in others],
            gpu_model=self.models[node.name],
            emptied=node.name in self.emptied,
        )

    @cached_property
    def _unplanned(self) -> dict[str, list[SlurmJob]]:
        """Node → the running jobs there that are not planned."""
        planned, on = {id(job.record) for job in self.jobs}, defaultdict[str, list[SlurmJob]](list)
        for record in self._alive:
            if is_running(record) and id(record) not in planned:
                for node in dict.fromkeys(record.nodes):
                    on[node] += self._jobs_of[id(record)]
        return on

    def why_it_stays(self, job: SlurmJob) -> str:
        """Return why a running job is not moved; empty if it may be."""
        crowded = any(job is other for other in self.crowd)
        allowed, emptied = self._allowed(job), self.emptied
        outside = any(node not in allowed and node not in emptied for node in job.current)
        return why_it_stays(job.record) or CROWDED * crowded or OUTSIDE * outside

    def _has(self, node: SlurmNode) -> dict[str, float]:
        amounts = self._amounts(node.cpus, node.memory_mib / MIB_PER_GIB, sum(node.gpus.values()))
        return amounts | {f"gpu:{kind}": node.gpus.get(kind, 0.0) for kind in sorted(self.types)}

    def _amounts(self, cpus: float, memory_gib: float, gpus: float) -> dict[str, float]:
        amounts = {"cpu": cpus, "memory_gib": memory_gib}
        return amounts if self.sharing.by_device else amounts | {"gpu": gpus}

    def _demand(self, job: SlurmJob) -> dict[str, float]:
        amounts = self._amounts(job.cpus, job.memory_gib, job.gpus)
        amounts |= {f"gpu:{job.gpu_model}": job.gpus} if job.gpu_model in self.types else {}
        return {name: amount for name, amount in amounts.items() if amount}
