"""Nodes of Slurm, from either layout of its commands, and their GPUs as devices with shards and partitions.

Several shards are one GPU; partitions (MIG) are types of GPU. According to Slurm's documentation of generic
resources (gres.html), shards are spread evenly over the GPUs of a node; the shards of a job on a node are
on one GPU; a GPU is used as a whole or in shards, never both. Partitions exist before Slurm starts, with
the profile in the name of their type.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...common.errors import refuse_faults
from ...common.faults import validated
from ...common.fields import NONE_NAMED, repeated
from ...common.hostlist import expand_hostlist
from ...consolidation.devices import DeviceDemand
from ...files.reading import fail, read_mapping, read_text
from .device_inventory import DeviceInventory, ListedUse, TaskSet, gpus_of_nodes
from .device_sharing import GpuRequest, Gpus, UnclearDemandError, check_count, fewest_devices, geometry_of
from .slurm_jobs import (
    JobRecord,
    NodeRecord,
    NodeRecords,
    ReservationRecords,
    SinfoRow,
    SinfoRows,
    SlurmJob,
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
        The GPUs that its jobs hold, by type.
    partitions
        The partitions that contain it.
    shards, used_shards
        Shards of its GPUs, and those that its jobs use.
    features
        The active features.
    """

    name: str
    states: frozenset[str]
    cpus: float
    memory_mib: float
    gpus: Mapping[str, float]
    used_cpus: float | None
    used_memory_mib: float | None
    used_gpus: Mapping[str, float] = NONE_NAMED
    partitions: set[str] = field(default_factory=set)
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
    def is_mixed(self) -> bool:
        """Whether it has several types of GPU, such as partitions (MIG) beside whole ones."""
        return sum(count > 0 for count in self.gpus.values()) > 1


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
        records = validated(NodeRecords, data, source).nodes
        twice = "{value!r} is listed twice; each node may stand once"
        refuse_faults(source, repeated((record.name for record in records), "nodes", what=twice))
        return list(map(_from_record, records))
    nodes: dict[str, SlurmNode] = {}
    for node in _from_rows(validated(SinfoRows, data, source).sinfo):
        nodes.setdefault(node.name, node).partitions |= node.partitions
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
        gpus=record.gres.gpus,
        used_cpus=record.alloc_cpus,
        used_memory_mib=record.alloc_memory,
        partitions=set(record.partitions),
        used_gpus=record.gres_used.gpus,
        shards=record.gres.shards,
        used_shards=record.gres_used.shards,
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
                gpus=row.gres.total.gpus,
                used_cpus=row.cpus.allocated if alone or row.cpus.allocated == 0 else None,
                used_memory_mib=row.memory.allocated if alone else None,
                partitions={row.partition.name.rstrip("*")}
                if row.partition and row.partition.name
                else set(),
                used_gpus=row.gres.used.gpus,
                shards=row.gres.total.shards,
                used_shards=row.gres.used.shards,
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


def gpu_model_of(node: SlurmNode, keep_partitions: bool) -> str | None:
    """Return the GPU model of a node, None if it has none or several; partitions count as their GPU."""
    models = set()
    for kind, count in node.gpus.items():
        part = None if keep_partitions else partition_of(kind)
        models |= {part[0] if part else kind} if count else set()
    return (models.pop() or None) if len(models) == 1 else None


def jobs_on_devices(record: JobRecord, keep_partitions: bool) -> list[SlurmJob]:
    """Return the jobs of a record, divided into tasks that demand devices; unclear ones as they are."""
    jobs = list(jobs_of(record))
    try:
        return [on_devices(job, keep_partitions) for job in jobs]
    except UnclearDemandError as error:
        return [replace(job, unclear=str(error)) for job in jobs]


def device_inventory(
    nodes: Sequence[SlurmNode], jobs: Iterable[SlurmJob], keep_partitions: bool
) -> DeviceInventory:
    """Return the GPUs of all nodes as single devices, and the tasks of jobs as their holders.

    Parameters
    ----------
    jobs
        All that run or wait, divided into tasks that demand devices.
    keep_partitions
        Whether a partition is a GPU of its own type.
    """
    gpus, out = gpus_of_nodes(nodes, lambda node: gpus_of(node, keep_partitions))
    in_use = {}
    for node in nodes:
        whole, partitions = _by_partition(node.used_gpus, keep_partitions)
        # The use of a node is at most its capacity.
        in_use[node.name] = ListedUse(whole, partitions, int(min(node.used_shards, node.shards)), SHARD)
    tasks = {id(job): _tasks_of(job, gpus) for job in jobs}
    return DeviceInventory(gpus, out, tasks, "job", _lacking, in_use)


def _tasks_of(job: SlurmJob, gpus: Mapping[str, Gpus]) -> TaskSet:
    """Return the tasks of a job as holders of devices."""
    request, places = None, dict[str, tuple[int, ...]]()
    if job.profile:
        request = GpuRequest("gpu", DeviceDemand(profile=job.profile))
    elif job.shards:
        request = GpuRequest(SHARD, memory=job.shards)
    elif job.gpus:
        request = GpuRequest("gpu", DeviceDemand(whole=int(job.gpus)))
        # The indices of partitions are not those of devices.
        known = (name for name in job.current if name in gpus and not gpus[name].geometry)
        places = {name: places_of(job.record, name) for name in known}
    return TaskSet(job.name, request, job.current, places, job.unclear)


def _lacking(request: GpuRequest, size: int | None) -> str:
    has = "no GPU has any" if size is None else f"a GPU has {size}"
    return f"asks for {request.memory} shards of one GPU, where {has}"
