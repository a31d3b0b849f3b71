"""Importer of Slurm: nodes and queue of a cluster in use as a consolidation instance.

The nodes are what ``scontrol show nodes --json`` or ``sinfo --json`` prints, the jobs what ``squeue
--json`` does; data_parser versions from Slurm 21.08 to 26.05 are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from ...allocation.instance import AllocationInstance
from ...common.errors import one_line, some
from ...common.faults import validated
from ...common.hostlist import expand_hostlist
from ...consolidation.devices import DeviceDemand
from ...consolidation.instance import ConsolidationInstance
from ...files.reading import fail, read_mapping
from ..elastic import Speeds, elastic_instance
from ..importer import Importer, RejectedEntries, at, valid_entries
from ..node_restrictions import counted, gpu_model_note, note
from .device_inventory import DeviceInventory
from .device_sharing import list_with_reasons, unknown_geometry_note
from .slurm_cluster import Cluster, SlurmOptions
from .slurm_jobs import (
    EQUAL_SHARES,
    MAX_ARRAY_TASKS,
    JobRecord,
    JobRecords,
    SlurmJob,
    array_tasks,
    is_running,
    is_waiting,
    jobs_of,
    needed_nodes,
    unmodelled,
    waits_for_resources,
)
from .slurm_nodes import read_nodes, read_reservations
from .snapshot import MAX_SEPARATED, ClusterSnapshot, emptied_note

NAMED = 5
"""Number of jobs that a note names."""


def partitions_phrase(partitions: Sequence[str]) -> str:
    """Return a phrase with the selected partitions; empty if all are."""
    return f" in partition {', '.join(partitions)}" if partitions else ""


def _partitions_there(options: SlurmOptions, used: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the partitions that nodes or jobs have, where only some are selected."""
    names = sorted(set(chain.from_iterable(used)))
    if options.partitions and names:
        yield f"there are the partitions {some(names)}"


def _names(jobs: Iterable[SlurmJob]) -> list[str]:
    return [job.name for job in jobs]


def assumptions(cluster: Cluster) -> Iterator[str]:
    """Yield the assumptions under which the instance describes the cluster."""
    options, snapshot = cluster.options, cluster.snapshot
    moving = (
        "A job that runs must stay placed, but may be moved to nodes of its GPU model, which in Slurm means "
        "to requeue it."
    )
    yield from snapshot.planned_notes(options.choice, partitions_phrase(options.partitions), moving)
    stay = [f"{workload.name} ({workload.stays})" for workload in snapshot.workloads if workload.stays]
    yield from note(stay, "running job stays where it is", "running jobs stay where they are", most=NAMED)
    yield "What jobs hold that are not planned is not free."
    yield (
        f"{EQUAL_SHARES}: one for each task or node where it asks for GPUs by task or node, "
        "else one for each GPU, and one for each task where it asks for none. A job that asks for GPUs by "
        "node has each share on a node of its own; of others several may be on one."
    )
    rest = (
        f"for GPUs by node beyond the {MAX_SEPARATED} whose shares are kept apart: what waits is left "
        "out, what runs stays"
    )
    yield from note(_names(cluster.crowd), "job asks", "jobs ask", rest, NAMED)
    yield from snapshot.notes("shares")
    grouped = [node for node in cluster.nodes if node.used_cpus is None or node.used_memory_mib is None]
    if grouped:
        yield (
            f"What is held of CPUs or memory is not listed for {counted(len(grouped), 'node')} and added up "
            "from the queue, each job evenly over its nodes; nodes that sinfo lists together count with "
            "the least CPUs and memory of any. scontrol show nodes --json says it node by node."
        )
    yield from snapshot.restrictions.sentences("partition, nodes asked for or excluded", "share", "node")
    yield from gpu_model_note(cluster.by_models)
    yield from unknown_geometry_note(cluster.sharing.unknown_partitions)
    if cluster.sharing.by_device:
        yield from device_notes(cluster.devices, cluster.asks)


def device_notes(devices: DeviceInventory, asks: Sequence[DeviceDemand]) -> Iterator[str]:
    """Yield the assumptions on GPUs that jobs share or demand in parts."""
    yield from devices.sentences(asks)
    if any(ask.profile for ask in asks):
        yield "Slurm does not partition devices: what it is to give out has to be there when it starts."
    if any(ask.share for ask in asks):
        yield (
            "Shards are spread evenly over the GPUs of a node, and what a job has of them on a node is "
            "on one GPU, as Slurm does by default; a job is placed in one share for each of its nodes."
        )


def left_out_notes(cluster: Cluster) -> Iterator[str]:
    """Yield notes on the nodes and jobs that are not in the instance."""
    rest = "(state, or no partition) and {} left out"
    yield from note(
        cluster.out,
        f"node takes no jobs {rest.format('is')}",
        f"nodes take no jobs {rest.format('are')}",
        most=10,
    )
    yield from emptied_note(cluster.emptied, "drained")
    which = "left out or to be empty" if cluster.emptied else "left out"
    yield from note(
        [next(jobs_of(record)).name for record in cluster.stranded],
        f"running job holds a node that is {which}; it stays where it is",
        f"running jobs hold a node that is {which}; they stay where they are",
        most=10,
    )
    reasons: dict[str, list[str]] = {}
    for record in cluster.unready:
        name = next(jobs_of(record)).name
        reasons.setdefault(record.reason, []).append(name)
    if reasons:
        commonest = sorted(reasons.items(), key=lambda item: -len(item[1]))
        listed = some(f"{reason} {len(names)} ({some(names, NAMED)})" for reason, names in commonest)
        are = counted(len(cluster.unready), "job is left out that waits", "jobs are left out that wait")
        yield f"{are} for other things than resources: {listed}."
    yield from note(
        [f"{name} ({why})" for name, why in cluster.unmodelled.items()],
        "job waits and is",
        "jobs wait and are",
        "left out, for Slurm might refuse to start what the plan places",
        NAMED,
    )
    long = sum(len(array_tasks(record)) > MAX_ARRAY_TASKS for record in cluster.chosen)
    if long:
        yield f"Of {counted(long, 'job array')} only the first {MAX_ARRAY_TASKS:,} tasks are planned."
    cut = sum("..." in record.array_task_string for record in cluster.chosen)
    if cut:
        yield f"Of {counted(cut, 'job array')} Slurm lists only some tasks; the others are left out."


def reasons_for_no_jobs(cluster: Cluster) -> str:
    """Return the reasons why no job of the queue is planned, with the number of jobs for each."""
    if not cluster.records:
        return "the queue is empty"
    reasons = Counter(_why_not(cluster, record) for record in cluster.records)
    listed = some(f"{reason} {count}" for reason, count in reasons.most_common())
    return f"of {counted(len(cluster.records), 'job')}: {listed}"


def _why_not(cluster: Cluster, record: JobRecord) -> str:
    if not (is_waiting(record) or is_running(record)):
        return f"{'+'.join(record.job_state) or 'without a state'}"
    if not cluster.in_partition(record.partition):
        return "in another partition"
    if is_waiting(record) and not waits_for_resources(record):
        return f"waiting for {record.reason}"
    if is_waiting(record) and unmodelled(record):
        return unmodelled(record)
    if is_running(record) and cluster.options.running == "stay":
        return "running and to stay"
    if is_running(record) and not cluster.names.issuperset(record.nodes):
        return "running on a node that is left out or not listed"
    if any(job.name in cluster.unclear for job in jobs_of(record)):
        return "not clear in what it asks for of GPUs"
    return "asking for no GPU"


def ignored_feature_notes(cluster: Cluster) -> Iterator[str]:
    """Yield notes on the Slurm features that the plan ignores, with the names of the affected jobs."""
    jobs = list({id(job.record): job for job in cluster.jobs}.values())
    rest = "for certain nodes and may use no others, though the plan need not use each of them"
    yield from note(
        _names(job for job in jobs if needed_nodes(job.record)), "job asks", "jobs ask", rest, NAMED
    )
    if cluster.options.reservations is None:
        yield "Whether nodes are reserved for later is not in the source; --reservations has it read."
    reserved = sorted(cluster.reserved & cluster.names)
    if reserved:
        are = counted(len(reserved), "node is", "nodes are")
        yield f"{are} reserved, now or later: no job starts there or moves there ({some(reserved, NAMED)})."
    yield from _qos_notes(jobs)
    mixed = [node.name for node in cluster.nodes if cluster.models[node.name] is None and node.is_mixed]
    if mixed:
        have = counted(len(mixed), "node that has", "nodes that have")
        what = (
            "A job that names no type of GPU is not planned" if cluster.types else "Types are not told apart"
        )
        yield f"{what} on {have} several: {some(mixed)}."


def _qos_notes(jobs: Sequence[SlurmJob]) -> Iterator[str]:
    """Yield notes on jobs with limits or preemption by QOS or partition, which the files do not contain."""
    qos: dict[str, list[SlurmJob]] = {}
    for job in jobs:
        qos.setdefault(job.record.qos, []).append(job)
    named = [f"{name}: {some(_names(own), NAMED)}" for name, own in qos.items() if name not in ("", "normal")]
    if named:
        yield f"Limits and preemption of a QOS are not in the source ({some(named)})."
    partitions = dict.fromkeys(",".join(job.record.partition) for job in jobs)
    if len(partitions) > 1:
        yield (
            "Whose jobs partitions preempt or prefer (PreemptMode, PriorityTier) is not in the source, so no "
            f"job is stopped for another; there are {some(partitions)}."
        )


class ElasticSlurmOptions(SlurmOptions):
    """Elastic jobs on the nodes of a Slurm cluster: an allocation instance."""

    ORDER = ("nodes", "queue", "speeds")

    speeds: Speeds


@Importer
def import_slurm(options: SlurmOptions) -> ConsolidationInstance:
    """Return the consolidation instance of a Slurm cluster."""
    return _planned(options)[0]


@Importer
def import_slurm_elastic(options: ElasticSlurmOptions) -> AllocationInstance:
    """Return the allocation instance of the elastic jobs of a Slurm cluster."""
    return elastic_instance(*_planned(options), options.speeds)


def _planned(options: SlurmOptions) -> tuple[ConsolidationInstance, ClusterSnapshot]:
    """Return the consolidation instance of a Slurm cluster, and the snapshot of which it is made.

    Raises
    ------
    InstanceError
        If a file is wrong, or there is nothing to plan.
    """
    nodes, queue = options.nodes, options.queue
    listed = read_nodes(nodes)
    records, invalid = _read_queue(queue)
    unread = frozenset(chain.from_iterable(map(_nodes_of, invalid.data)))
    cluster = Cluster(tuple(listed), records, options, unread, read_reservations(options.reservations))
    without = list(invalid.sentences())
    if cluster.unknown:
        names = some(sorted(cluster.unknown))
        without.append(f"What they hold is not known, and their nodes do not list it; left out are {names}.")
    rest = "left out for what they ask for of GPUs, and stay where they run"
    without += note(list_with_reasons(cluster.unclear), "job is", "jobs are", rest)
    rest = "left out for the GPUs, and what runs there stays"
    without += note(list_with_reasons(cluster.devices.out), "node is", "nodes are", rest)
    if not cluster.nodes:
        what = (
            f"has no node that takes jobs{partitions_phrase(options.partitions)}; "
            f"{counted(len(cluster.out), 'is', 'are')} left out for their state"
        )
        there = _partitions_there(options, (node.partitions for node in listed))
        raise fail(str(nodes), "; ".join([what, *there, *without]))
    if not cluster.jobs:
        gpu = " and asks for a GPU" if options.choice == "gpu" else ""
        state = "waits for resources" + (" or runs" if options.running == "move" else "")
        what = f"has no job that {state}{gpu}{partitions_phrase(options.partitions)}"
        if options.choice == "gpu" and cluster.asking_for_none:
            what += " (--plan all plans the others)"
        there = _partitions_there(options, (record.partition for record in records))
        raise fail(str(queue), "; ".join([what, reasons_for_no_jobs(cluster), *there, *without]))
    notes = [*assumptions(cluster), *left_out_notes(cluster), *ignored_feature_notes(cluster), *without]
    source = f"{nodes.name} and {queue.name}, as Slurm's commands print them"
    return cluster.snapshot.instance(f"slurm-{queue.stem}", source, notes, queue), cluster.snapshot


def _read_queue(path: Path) -> tuple[tuple[JobRecord, ...], RejectedEntries]:
    """Return the valid jobs, and the rejected entries."""
    source = str(path)
    what = "has no 'jobs'; give what squeue --json prints"
    data = read_mapping(path, what)
    if "jobs" not in data:
        nodes = {"nodes", "sinfo"} & set(data)
        raise fail(source, "the second file lists nodes; jobs are wanted" if nodes else what)
    items = validated(JobRecords, data, source).jobs
    places = (f"jobs[{index}]" for index in range(len(items)))
    entries = ((place, _name_of(item) or place, item) for place, item in zip(places, items, strict=True))
    without = RejectedEntries("job")
    return tuple(valid_entries(JobRecord, entries, source, without)), without


def _name_of(job: Any) -> str:
    """Return id and name of an unvalidated job entry; empty if it has none."""
    words = at(job, "job_id"), at(job, "name")
    return " ".join(one_line(str(word)) for word in words if isinstance(word, str | int) and word != "")


def _nodes_of(job: Any) -> list[str]:
    """Return the nodes of an unvalidated job entry; empty if it has none or they cannot be read."""
    nodes, state = at(job, "nodes"), at(job, "job_state")
    if not isinstance(nodes, str) or (isinstance(state, str | list) and "RUNNING" not in state):
        return []
    try:
        return expand_hostlist(nodes)
    except ValueError:
        return []
