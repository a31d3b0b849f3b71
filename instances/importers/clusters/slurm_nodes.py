"""Nodes of Slurm, from either layout of its commands, and their GPUs as devices with shards and partitions.

Several shards are one GPU; partitions (MIG) are types of GPU. According to Slurm's documentation of generic
resources (gres.html), shards are spread evenly over the GPUs of a node; the shards of a job on a node are
on one GPU; a GPU is used as a whole or in shards, never both. Partitions exist before Slurm starts, with
the profile in the name of their type.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ...common.errors import refuse_faults
from ...common.faults import validated
from ...common.fields import repeated
from ...common.hostlist import expand_hostlist
from ...consolidation.devices import WHOLE, DeviceDemand
from ...files.reading import fail, read_mapping, read_text
from ..node_restrictions import counted
from .device_sharing import (
    MORE_THAN_DEVICES_HOLD,
    Gpus,
    Holding,
    UnclearDemandError,
    check_available,
    check_count,
    common_demand,
    device_assumptions,
    fewest_devices,
    geometry_of,
    known_devices_fit,
    list_with_reasons,
    taken,
    thousandths,
    worth,
)
from .slurm_jobs import (
    JobRecord,
    NodeRecord,
    NodeRecords,
    ReservationRecords,
    SinfoRow,
    SinfoRows,
    SlurmJob,
    is_running,
    is_waiting,
    jobs_of,
    nodes_of,
    places_of,
    shards_of,
    spread_over,
    types_of,
)

UNUSABLE = frozenset(
    (
        "BLOCKED",
        "DOWN",
        "DRAIN",
        "DRAINED",
        "DRAINING",
        "DYNAMIC_FUTURE",
        "ERROR",
        "FAIL",
        "FAILED",
        "FAILING",
        "FUTURE",
        "INVALID",
        "INVALID_REG",
        "MAINT",
        "MAINTENANCE",
        "MAN_POWER_DOWN",
        "NOT_RESPONDING",
        "POWERING_DOWN",
        "POWER_DOWN",
        "POWER_DRAIN",
        "REBOOT_ISSUED",
        "REBOOT_REQUESTED",
        "RESERVED",
        "UNKNOWN",
    )
)
"""States in which a node takes no job, or only those of its reservation."""
DRAINED = frozenset(("DRAIN", "DRAINED", "DRAINING"))
"""Of these, the states in which its jobs run on."""


@dataclass
class SlurmNode:
    """The state of a Slurm node: capacity, use, partitions and features.

    Parameters
    ----------
    name
        Its NodeName.
    states
        In capitals.
    cpus, memory_mib, gpus
        Capacity for jobs; GPUs by type.
    used_cpus, used_memory_mib
        Use by its jobs; None if the source does not give it.
    used_gpus
        GPUs that its jobs use.
    partitions
        The partitions that contain it.
    used_by_type
        The GPUs that its jobs hold, by type.
    shards, used_shards
        Shards of its GPUs, and those that its jobs use.
    features
        The active features.
    """

    name: str
    states: frozenset[str]
    cpus: float
    memory_mib: float
    gpus: dict[str, float]
    used_cpus: float | None
    used_memory_mib: float | None
    used_gpus: float
    partitions: set[str] = field(default_factory=set)
    used_by_type: dict[str, float] = field(default_factory=dict)
    shards: float = 0.0
    used_shards: float = 0.0
    features: frozenset[str] = frozenset()

    @property
    def usable(self) -> bool:
        """Whether the node accepts jobs."""
        return not self.states & UNUSABLE

    @property
    def drained(self) -> bool:
        """Whether the node accepts no jobs only because it is being drained."""
        return bool(self.states & DRAINED) and not self.states & (UNUSABLE - DRAINED)

    @property
    def gpu_model(self) -> str | None:
        """The GPU type of the node, None if it has none or several."""
        types = [kind for kind, count in self.gpus.items() if count]
        return (types[0] or None) if len(types) == 1 else None


def read_nodes(path: Path) -> list[SlurmNode]:
    """Return the nodes of a file, without duplicates.

    Raises
    ------
    InstanceError
        If the file is wrong; one fault a line.
    """
    source = str(path)
    what = "has neither 'nodes' nor 'sinfo'; give what scontrol show nodes --json or sinfo --json prints"
    data = read_mapping(path, what)
    if not {"nodes", "sinfo"} & set(data):
        raise fail(source, "the first file lists jobs; nodes are wanted" if "jobs" in data else what)
    if "nodes" in data:
        records = validated(NodeRecords, {"nodes": data["nodes"]}, source).nodes
        twice = "{value!r} is listed twice; each node may stand once"
        refuse_faults(source, repeated((record.name for record in records), "nodes", what=twice))
        return list(map(_from_record, records))
    nodes: dict[str, SlurmNode] = {}
    for node in _from_rows(validated(SinfoRows, {"sinfo": data["sinfo"]}, source).sinfo):
        known = nodes.setdefault(node.name, node)
        known.partitions |= node.partitions
    return list(nodes.values())


_RESERVED = re.compile(r"(?:^|\s)Nodes=(\S*)")


def read_reservations(path: Path | None) -> frozenset[str]:
    """Return the names of the nodes of all reservations, now or to come, of a file; none without one.

    Raises
    ------
    InstanceError
        If it is not what ``scontrol show reservation`` prints, as text or JSON.
    """
    if path is None:
        return frozenset()
    text = read_text(path)
    if text.lstrip().startswith("{"):
        listed = validated(ReservationRecords, read_mapping(path), str(path)).reservations
        return frozenset(name for record in listed for name in record.nodes)
    if "ReservationName=" not in text and "No reservations" not in text:
        raise fail(str(path), "has no reservations; give what scontrol show reservation prints")
    try:
        lists = (match for match in _RESERVED.findall(text) if match not in ("", "(null)"))
        names = frozenset(name for match in lists for name in expand_hostlist(match))
    except ValueError as error:
        raise fail(str(path), f"has Nodes= that {error}") from None
    return names


def _states(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(word.upper().rstrip("*~#!%$@^-") for word in words)


def _from_record(record: NodeRecord) -> SlurmNode:
    cpus = record.cpus if record.effective_cpus is None else record.effective_cpus
    return SlurmNode(
        name=record.name,
        states=_states(record.state + record.state_flags),
        cpus=cpus or 0.0,
        memory_mib=max(0.0, (record.real_memory or 0.0) - (record.specialized_memory or 0.0)),
        gpus=record.gres,
        used_cpus=record.alloc_cpus,
        used_memory_mib=record.alloc_memory,
        used_gpus=sum(record.gres_used.values()),
        partitions=set(record.partitions),
        used_by_type=record.gres_used,
        shards=record.shards,
        used_shards=record.shards_used,
        features=frozenset(record.active_features or record.features),
    )


def _from_rows(rows: tuple[SinfoRow, ...]) -> Iterator[SlurmNode]:
    """Yield the nodes of each sinfo entry; only an entry of one node gives the use of CPUs and memory.

    The GPUs in use are the same on all nodes of a row, because sinfo groups only such nodes.
    """
    for row in rows:
        alone = len(row.nodes.nodes) == 1
        for name in row.nodes.nodes:
            yield SlurmNode(
                name=name,
                states=_states(row.node.state),
                cpus=row.cpus.minimum or 0.0,
                memory_mib=row.memory.minimum or 0.0,
                gpus=row.gres.total,
                used_cpus=row.cpus.allocated if alone or row.cpus.allocated == 0 else None,
                used_memory_mib=row.memory.allocated if alone else None,
                used_gpus=sum(row.gres.used.values()),
                partitions={row.partition.name.rstrip("*")}
                if row.partition and row.partition.name
                else set(),
                used_by_type=row.gres.used,
                shards=row.gres.shards,
                used_shards=row.gres.shards_used,
                features=frozenset(row.features.active or row.features.total),
            )


SHARD = "shard"
_PARTITION = re.compile(r"(?:(.+)_)?([0-9]g\.[0-9]+gb)")


def partition_of(kind: str) -> tuple[str, str] | None:
    """Return GPU model and MIG profile of a type such as ``a100_3g.20gb``; None for other types."""
    match = _PARTITION.fullmatch(kind)
    return (match[1] or "", match[2]) if match else None


def asks_for_part(record: JobRecord, keep_partitions: bool) -> bool:
    """Return whether a job requests GPU shards or MIG partitions."""
    parted = not keep_partitions and any(map(partition_of, types_of(record)))
    return bool(parted or shards_of(record))


def on_devices(job: SlurmJob, keep_partitions: bool) -> SlurmJob:
    """Return a job divided into tasks that each demand whole GPUs, shards of one, or one partition.

    Raises
    ------
    Unclear
        If it cannot be divided so.
    """
    record, gpus, shards = job.record, job.gpus * job.tasks, shards_of(job.record)
    kinds = {} if keep_partitions else {kind: partition_of(kind) for kind in types_of(record)}
    parted = [part for part in kinds.values() if part is not None]
    if shards:
        if gpus:
            raise UnclearDemandError("asks for GPUs and shards at once")
        nodes = nodes_of(record)
        if shards % nodes:
            raise UnclearDemandError(
                f"asks for {shards:g} shards, which are not the same on each of {nodes} nodes"
            )
        return _in_tasks(job, nodes, gpus=0.0, shards=int(shards / nodes))
    if parted:
        if len(kinds) > 1:
            raise UnclearDemandError(f"asks for several types of GPU at once: {', '.join(kinds)}")
        (model, profile), count = parted[0], max(1, round(gpus))
        return _in_tasks(job, count, gpus=0.0, profile=profile, gpu_model=model or None)
    if job.gpus != int(job.gpus):
        raise UnclearDemandError(f"asks for {gpus:g} GPUs in {job.tasks} equal shares")
    return job


def _in_tasks(job: SlurmJob, tasks: int, **changes: Any) -> SlurmJob:
    """Return a job divided into another number of equal tasks."""
    each = job.tasks / tasks
    current = spread_over(job.record, tasks) if job.current else {}
    return replace(
        job, tasks=tasks, cpus=job.cpus * each, memory_gib=job.memory_gib * each, current=current, **changes
    )


def gpus_of(node: SlurmNode, keep_partitions: bool) -> Gpus:
    """Return the GPUs of a node, with their partition geometry (MIG) and number of shards.

    Raises
    ------
    Unclear
        If their geometry or the number of shards of each is unknown.
    """
    whole, partitions = _by_partition(node.gpus, keep_partitions)
    geometry = _geometry(node, partitions) if partitions else None
    if partitions and geometry is None:
        raise UnclearDemandError(unknown_partitions(node))
    count = whole + (fewest_devices(geometry, partitions) if geometry else 0)
    check_count(count)
    if node.shards and (not whole or node.shards % whole):
        raise UnclearDemandError(
            f"has {node.shards:g} shards, which are not the same on each of {whole} GPUs"
        )
    return Gpus(count, geometry, {SHARD: int(node.shards / whole)} if node.shards else {})


def _geometry(node: SlurmNode, profiles: Collection[str]) -> str | None:
    models = (part[0] if (part := partition_of(kind)) else kind for kind in node.gpus)
    return geometry_of(" ".join(models), profiles)


def unknown_partitions(node: SlurmNode) -> str:
    """Return a text with the partitions of a node whose geometry is unknown; empty if it is known."""
    _, partitions = _by_partition(node.gpus, keep_partitions=False)
    if not partitions or _geometry(node, partitions) is not None:
        return ""
    return f"has {', '.join(node.gpus)}"


def _by_partition(gpus: Mapping[str, float], keep_partitions: bool) -> tuple[int, Counter[str]]:
    """Return the number of whole GPUs, and MIG profile → number of partitions, of a node."""
    whole, partitions = 0, Counter[str]()
    for kind, count in gpus.items():
        part = None if keep_partitions else partition_of(kind)
        if part is None:
            whole += int(count)
        elif count:
            partitions[part[1]] += int(count)
    return whole, partitions


class SlurmDevices:
    """The GPUs of all nodes as single devices, and the demands of jobs for them.

    Parameters
    ----------
    nodes, records
        All nodes and jobs of the cluster.
    keep_partitions
        Whether a partition is a GPU of its own type.

    Attributes
    ----------
    unclear
        Identity of a record → why the demand of its job is not clear.
    out
        Node → why the residual capacity of its devices is not clear.
    gpus
        Node → its devices, without the nodes in `out`.
    """

    def __init__(
        self, nodes: Sequence[SlurmNode], records: Sequence[JobRecord], keep_partitions: bool
    ) -> None:
        self.keep_partitions = keep_partitions
        self.unclear: dict[int, str] = {}
        self._jobs: dict[int, list[SlurmJob]] = {}
        self._running: dict[str, list[SlurmJob]] = defaultdict(list)
        for record in records:
            if is_waiting(record) or is_running(record):
                self._jobs[id(record)] = self._read(record)
                for job in self._jobs[id(record)]:
                    for name in job.current:
                        self._running[name].append(job)
        self.gpus: dict[str, Gpus] = {}
        self.out: dict[str, str] = {}
        self._asked: dict[tuple[int, frozenset[str]], frozenset[DeviceDemand]] = {}
        self._beside: dict[str, list[Holding]] = {}
        self._known: set[str] = set()
        self._there: set[str] = set()
        for node in nodes:
            try:
                self.gpus[node.name] = gpus_of(node, keep_partitions)
            except UnclearDemandError as error:
                self.out[node.name] = str(error)
        for node in nodes:
            try:
                if node.name in self.out:
                    continue
                listed = self._held_on(node.name, self._running[node.name])
                beside = self._not_in_queue(node, [ask for ask, _ in listed])
                self._beside[node.name] = list(map(Holding, beside))
                holdings = [*listed, *self._beside[node.name]]
                if taken(self.gpus[node.name], holdings, []) is None:
                    raise UnclearDemandError("has devices that do not hold what jobs have there")
                if known_devices_fit(self.gpus[node.name], holdings):
                    self._known.add(node.name)
            except UnclearDemandError as error:
                self.out[node.name] = str(error)
        for name in self.out:
            self.gpus.pop(name, None)

    @staticmethod
    def needed(records: Iterable[JobRecord], keep_partitions: bool) -> bool:
        """Return whether any waiting or running job requests a shard or a partition of a GPU."""
        present = (record for record in records if is_waiting(record) or is_running(record))
        return any(asks_for_part(record, keep_partitions) for record in present)

    def _read(self, record: JobRecord) -> list[SlurmJob]:
        jobs = list(jobs_of(record))
        try:
            return [on_devices(job, self.keep_partitions) for job in jobs]
        except UnclearDemandError as error:
            self.unclear[id(record)] = str(error)
            return jobs

    def _not_in_queue(self, node: SlurmNode, listed: Sequence[DeviceDemand]) -> Iterator[DeviceDemand]:
        """Yield the devices that a node lists as in use but no job of the queue holds."""
        whole, partitions = _by_partition(node.used_by_type, self.keep_partitions)
        whole -= sum(ask.whole for ask in listed)
        if whole > 0:
            yield DeviceDemand(whole=whole)
        partitions.subtract(ask.profile for ask in listed if ask.profile)
        for profile, count in partitions.items():
            yield from [DeviceDemand(profile=profile)] * min(count, MORE_THAN_DEVICES_HOLD)
        gpus = self.gpus[node.name]
        size = gpus.sizes.get(SHARD)
        shares = self._shares.get(size or 0, {})
        shards = {share: count for count, share in shares.items()}
        # The use of a node is at most its capacity.
        left = int(min(node.used_shards, node.shards)) - sum(shards.get(ask.share, 0) for ask in listed)
        while size and left > 0:
            # Their jobs are unknown; packed on full devices they leave the most capacity.
            yield self._of_shards(min(left, size), size)
            left -= size

    def is_asked(self, job: SlurmJob) -> bool:
        """Return whether a job requests GPUs, including unclear requests."""
        return bool(job.gpus or job.shards or job.profile) or id(job.record) in self.unclear

    def jobs(self, record: JobRecord) -> list[SlurmJob]:
        """Return the jobs of a record, divided into tasks that demand devices."""
        return self._jobs.get(id(record), [])

    def model(self, node: SlurmNode) -> str | None:
        """Return the GPU model of a node, None if it has none or several; MIG slices count as their GPU."""
        models = set()
        for kind, count in node.gpus.items():
            part = None if self.keep_partitions else partition_of(kind)
            models |= {part[0] if part else kind} if count else set()
        return (models.pop() or None) if len(models) == 1 else None

    def ask_of(self, job: SlurmJob, nodes: frozenset[str], planned: frozenset[str]) -> DeviceDemand | None:
        """Return the device demand of each task of a job, equal on all its nodes; None if no GPU.

        Parameters
        ----------
        nodes
            The nodes that it may use.
        planned
            All nodes that accept jobs.

        Raises
        ------
        Unclear
            If it is not clear, or no node has such devices.
        """
        if id(job.record) in self.unclear:
            raise UnclearDemandError(self.unclear[id(job.record)])
        if not (job.gpus or job.shards or job.profile):
            return None
        if job.profile not in self._there:
            check_available([self.gpus[name] for name in planned], job.profile)
            self._there.add(job.profile)
        if not job.shards:
            return self._ask(job, Gpus())
        # Thousands of jobs have the same demand on the same nodes.
        if (job.shards, nodes) not in self._asked:
            self._asked[job.shards, nodes] = self._asks_on(job, nodes)
        return common_demand(self._asked[job.shards, nodes] | self._asks_on(job, job.current))

    def _asks_on(self, job: SlurmJob, nodes: Iterable[str]) -> frozenset[DeviceDemand]:
        # In sorted order, because the first unclear node is the one that the error names.
        available = (self.gpus[name] for name in sorted(nodes) if name in self.gpus)
        asks = (self._ask(job, gpus) for gpus in available if gpus.count)
        return frozenset(ask for ask in asks if ask is not None)

    def offering(self, job: SlurmJob, nodes: Iterable[str]) -> frozenset[str]:
        """Return the names of those nodes that may satisfy a job's demand, nodes without GPUs included."""
        names = set()
        for name in nodes:
            gpus = self.gpus[name]
            lacking = (job.shards and SHARD not in gpus.sizes) or (job.profile and gpus.geometry is None)
            if not (gpus.count and lacking):
                names.add(name)
        return frozenset(names)

    def held_of(self, job: SlurmJob) -> dict[str, list[tuple[int, ...]]]:
        """Return node → the GPU indices of each task there; empty if unknown or inconsistent."""
        by_node = {name: self._held_on(name, [job]) for name in job.current if name in self.gpus}
        return {
            name: [devices if name in self._known else () for _, devices in holdings]
            for name, holdings in by_node.items()
        }

    def _held_on(self, node: str, jobs: Iterable[SlurmJob]) -> list[Holding]:
        result: list[Holding] = []
        for job in jobs:
            if id(job.record) in self.unclear:
                raise UnclearDemandError(f"holds a job of which it is not clear what it has: {job.name}")
            ask = self._ask(job, self.gpus[node])
            if ask is not None:
                tasks = min(job.current[node], MORE_THAN_DEVICES_HOLD)
                # The indices of partitions are not those of devices.
                listed = places_of(job.record, node) if ask.whole and not self.gpus[node].geometry else ()
                each = [listed[task * ask.whole : (task + 1) * ask.whole] for task in range(tasks)]
                result += [Holding(ask, own if len(listed) == tasks * ask.whole else ()) for own in each]
        return result

    def _ask(self, job: SlurmJob, gpus: Gpus) -> DeviceDemand | None:
        if job.profile:
            return DeviceDemand(profile=job.profile)
        if not job.shards:
            return DeviceDemand(whole=int(job.gpus)) if job.gpus else None
        size = gpus.sizes.get(SHARD)
        if size is None or job.shards > size:
            has = "no GPU has any" if size is None else f"a GPU has {size}"
            raise UnclearDemandError(f"asks for {job.shards} shards of one GPU, where {has}")
        return self._of_shards(job.shards, size)

    def _of_shards(self, shards: int, size: int) -> DeviceDemand:
        share = WHOLE if shards == size else self._shares[size].get(shards, -(-WHOLE * shards // size))
        return DeviceDemand(share=share) if share < WHOLE else DeviceDemand(whole=1)

    @cached_property
    def _shares(self) -> dict[int, dict[int, int]]:
        """Shards of one GPU → shards that a task requests → their thousandths of the GPU."""
        parts = {job.shards for jobs in self._jobs.values() for job in jobs if job.shards}
        sizes = {gpus.sizes[SHARD] for gpus in self.gpus.values() if SHARD in gpus.sizes}
        return {size: thousandths([part for part in parts if part < size], size) for size in sizes}

    @cached_property
    def geometries(self) -> set[str]:
        """The names of the partition geometries (MIG) of all GPUs."""
        return {gpus.geometry for gpus in self.gpus.values() if gpus.geometry}

    def worth(self, ask: DeviceDemand) -> float:
        """Return a device demand as a number of GPUs; a partition counts as a fraction."""
        return worth(ask, self.geometries)

    def document(self, node: str, planned: set[int]) -> dict[str, Any]:
        """Return the field `devices` of a server for a node; `planned` are identities of records."""
        running = self._running[node]
        own = self._held_on(node, [job for job in running if id(job.record) in planned])
        others = self._held_on(node, [job for job in running if id(job.record) not in planned])
        devices = self.gpus[node].document([*others, *self._beside[node]], own)
        return {} if devices is None else {"devices": devices}

    def sentences(self, asks: Iterable[DeviceDemand]) -> Iterator[str]:
        """Yield the assumptions on devices for the demands of the planned jobs."""
        exact = all(
            WHOLE * part == share * size
            for size, shares in self._shares.items()
            for part, share in shares.items()
        )
        asks = list(asks)
        yield from device_assumptions("job", not exact, any(ask.profile for ask in asks))
        if any(ask.profile for ask in asks):
            yield "Slurm does not partition devices: what it is to give out has to be there when it starts."
        if any(ask.share for ask in asks):
            yield (
                "Shards are spread evenly over the GPUs of a node, and what a job has of them on a node is "
                "on one GPU, as Slurm does by default; a job is placed in one share for each of its nodes."
            )

    def left_out(self, unclear: Mapping[str, str]) -> Iterator[str]:
        """Yield notes on the nodes and jobs that are left out because of their GPUs."""
        if unclear:
            are = counted(len(unclear), "job is", "jobs are")
            yield (
                f"{are} left out for what they ask for of GPUs, and stay where they run: "
                f"{list_with_reasons(unclear)}."
            )
        if self.out:
            are = counted(len(self.out), "node is", "nodes are")
            yield f"{are} left out for the GPUs, and what runs there stays: {list_with_reasons(self.out)}."
