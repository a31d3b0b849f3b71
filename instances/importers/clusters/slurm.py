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

from ...common.errors import one_line, some
from ...common.faults import validated
from ...common.hostlist import expand_hostlist
from ...consolidation.instance import ON_TIES, ConsolidationInstance
from ...files.reading import fail, read_mapping
from ..importer import Importer
from ..node_restrictions import counted, gpu_model_note
from ..rejected_entries import RejectedEntries, valid_entries
from .device_sharing import unknown_geometry_note
from .job_values import job_value_note, move_cost, move_cost_note
from .slurm_cluster import MAX_SEPARATED, Cluster, SlurmOptions
from .slurm_jobs import (
    MAX_ARRAY_TASKS,
    SHARES,
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


def _names(jobs: Iterable[SlurmJob]) -> str:
    return some((job.name for job in jobs), NAMED)


def assumptions(cluster: Cluster, options: SlurmOptions) -> Iterator[str]:
    """Yield the assumptions under which the instance describes the cluster."""
    running = sum(bool(job.current) for job in cluster.jobs)
    which = "jobs that ask for a GPU" if options.choice == "gpu" else "all jobs"
    yield (
        f"Planned are {which}{partitions_phrase(options.partitions)}: {counted(len(cluster.jobs), 'job')}, "
        f"of which {counted(running, 'runs', 'run')}."
    )
    if running:
        yield (
            "A job that runs must stay placed, but may be moved to nodes of its GPU model, which in Slurm "
            "means to requeue it."
        )
        yield move_cost_note()
    yield from _unmovable_note(cluster)
    yield "What jobs hold that are not planned is not free."
    yield (
        f"{SHARES}: one for each task or node where it asks for GPUs by task or node, "
        "else one for each GPU, and one for each task where it asks for none. A job that asks for GPUs by "
        "node has each share on a node of its own; of others several may be on one."
    )
    if cluster.crowd:
        are = counted(len(cluster.crowd), "job asks", "jobs ask")
        yield (
            f"{are} for GPUs by node beyond the {MAX_SEPARATED} whose shares are kept apart: what waits is "
            f"left out, what runs stays: {_names(cluster.crowd)}."
        )
    names = [job.name for job in cluster.jobs]
    yield job_value_note(options.value, names, [job.record.priority for job in cluster.jobs])
    yield f"Spread is not in the source: {options.spread} for every job of several shares."
    grouped = [node for node in cluster.nodes if node.used_cpus is None or node.used_memory_mib is None]
    if grouped:
        yield (
            f"What is held of CPUs or memory is not listed for {counted(len(grouped), 'node')} and added up "
            "from the queue, each job evenly over its nodes; nodes that sinfo lists together count with "
            "the least CPUs and memory of any. scontrol show nodes --json says it node by node."
        )
    yield from cluster.restrictions.sentences("partition, nodes asked for or excluded", "share", "node")
    yield from gpu_model_note(cluster.by_models)
    yield from unknown_geometry_note(cluster.unknown_partitions)
    if cluster.devices is not None:
        yield from cluster.devices.sentences(cluster.asks)


def _unmovable_note(cluster: Cluster) -> Iterator[str]:
    """Yield a note on the running jobs that cannot be moved."""
    stay = {job.name: why for job in cluster.jobs if job.current and (why := cluster.why_it_stays(job))}
    if stay:
        jobs = counted(len(stay), "running job stays where it is", "running jobs stay where they are")
        yield f"{jobs}: {some((f'{name} ({why})' for name, why in stay.items()), NAMED)}."


def left_out_notes(cluster: Cluster) -> Iterator[str]:
    """Yield notes on the nodes and jobs that are not in the instance."""
    if cluster.out:
        out = counted(len(cluster.out), "node takes", "nodes take")
        are = "is" if len(cluster.out) == 1 else "are"
        yield f"{out} no jobs (state, or no partition) and {are} left out: {some(cluster.out)}."
    if cluster.emptied:
        nodes = counted(len(cluster.emptied), "drained node")
        yield f"To be empty: {nodes} (else --drained stay): {some(sorted(cluster.emptied))}."
    if cluster.stranded:
        jobs = counted(len(cluster.stranded), "running job holds", "running jobs hold")
        does = "it stays where it is" if len(cluster.stranded) == 1 else "they stay where they are"
        names = some(next(jobs_of(record)).name for record in cluster.stranded)
        which = "left out or to be empty" if cluster.emptied else "left out"
        yield f"{jobs} a node that is {which}; {does}: {names}."
    if cluster.unready:
        reasons: dict[str, list[str]] = {}
        for record in cluster.unready:
            name = next(jobs_of(record)).name
            reasons.setdefault((record.state_reason or "").split(",")[0], []).append(name)
        commonest = sorted(reasons.items(), key=lambda item: -len(item[1]))
        listed = some(f"{reason} {len(names)} ({some(names, NAMED)})" for reason, names in commonest)
        are = counted(len(cluster.unready), "job is left out that waits", "jobs are left out that wait")
        yield f"{are} for other things than resources: {listed}."
    if cluster.unmodelled:
        listed = some((f"{name} ({why})" for name, why in cluster.unmodelled.items()), NAMED)
        are = counted(len(cluster.unmodelled), "job waits and is", "jobs wait and are")
        yield f"{are} left out, for Slurm might refuse to start what the plan places: {listed}."
    long = sum(len(array_tasks(record)) > MAX_ARRAY_TASKS for record in cluster.chosen)
    if long:
        yield f"Of {counted(long, 'job array')} only the first {MAX_ARRAY_TASKS:,} tasks are planned."
    cut = sum("..." in (record.array_task_string or "") for record in cluster.chosen)
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
        return f"waiting for {(record.state_reason or '').split(',')[0]}"
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
    named = [job for job in jobs if needed_nodes(job.record)]
    if named:
        ask = counted(len(named), "job asks", "jobs ask")
        yield (
            f"{ask} for certain nodes and may use no others, though the plan need not use each of them: "
            f"{_names(named)}."
        )
    if cluster.options.reservations is None:
        yield "Whether nodes are reserved for later is not in the source; --reservations has it read."
    reserved = sorted(cluster.reserved & cluster.names)
    if reserved:
        are = counted(len(reserved), "node is", "nodes are")
        yield f"{are} reserved, now or later: no job starts there or moves there ({some(reserved, NAMED)})."
    yield from _qos_notes(jobs)
    mixed = [
        node.name
        for node in cluster.nodes
        if cluster.models[node.name] is None and sum(count > 0 for count in node.gpus.values()) > 1
    ]
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
        qos.setdefault(job.record.qos or "", []).append(job)
    named = [f"{name}: {_names(own)}" for name, own in qos.items() if name not in ("", "normal")]
    if named:
        yield f"Limits and preemption of a QOS are not in the source ({some(named)})."
    partitions = dict.fromkeys(",".join(job.record.partition) for job in jobs)
    if len(partitions) > 1:
        yield (
            "Whose jobs partitions preempt or prefer (PreemptMode, PriorityTier) is not in the source, so no "
            f"job is stopped for another; there are {some(partitions)}."
        )


@Importer
def import_slurm(options: SlurmOptions) -> ConsolidationInstance:
    """Return the consolidation instance of a Slurm cluster."""
    nodes, queue = options.nodes, options.queue
    listed = read_nodes(nodes)
    records, invalid = _read_queue(queue)
    unread = frozenset(chain.from_iterable(map(_nodes_of, invalid.data)))
    cluster = Cluster(tuple(listed), records, options, unread, read_reservations(options.reservations))
    without = list(invalid.sentences())
    if cluster.unknown:
        names = some(sorted(cluster.unknown))
        without.append(f"What they hold is not known, and their nodes do not list it; left out are {names}.")
    if cluster.devices is not None:
        without += cluster.devices.left_out(cluster.unclear)
    if not cluster.nodes:
        out = f"{counted(len(cluster.out), 'is', 'are')} left out for their state"
        what = f"has no node that takes jobs{partitions_phrase(options.partitions)}; {out}"
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
    moving = any(job.current for job in cluster.jobs)
    document = {
        "name": f"slurm-{queue.stem}",
        "source": f"{nodes.name} and {queue.name}, as Slurm's commands print them",
        "assumptions": [
            *assumptions(cluster, options),
            *left_out_notes(cluster),
            *ignored_feature_notes(cluster),
            *without,
        ],
        "objectives": ["value", *(ON_TIES if moving else ()), "spread", "servers"],
        **move_cost(moving),
        "servers": [cluster.server(node) for node in cluster.nodes],
        "restrictions": cluster.made_up or None,
        "jobs": [cluster.document_of(job) for job in cluster.jobs],
    }
    return validated(ConsolidationInstance, document, str(queue))


def _read_queue(path: Path) -> tuple[tuple[JobRecord, ...], RejectedEntries]:
    """Return the valid jobs, and the rejected entries."""
    source = str(path)
    what = "has no 'jobs'; give what squeue --json prints"
    data = read_mapping(path, what)
    if "jobs" not in data:
        nodes = {"nodes", "sinfo"} & set(data)
        raise fail(source, "the second file lists nodes; jobs are wanted" if nodes else what)
    items = validated(JobRecords, {"jobs": data["jobs"]}, source).jobs
    places = (f"jobs[{index}]" for index in range(len(items)))
    entries = ((place, _name_of(item) or place, item) for place, item in zip(places, items, strict=True))
    without = RejectedEntries("job")
    return tuple(valid_entries(JobRecord, entries, source, without)), without


def _name_of(job: Any) -> str:
    """Return id and name of an unvalidated job entry; empty if it has none."""
    words = (job.get("job_id"), job.get("name")) if isinstance(job, dict) else ()
    return " ".join(one_line(str(word)) for word in words if isinstance(word, str | int) and word != "")


def _nodes_of(job: Any) -> list[str]:
    """Return the nodes of an unvalidated job entry; empty if it has none or they cannot be read."""
    nodes, state = (job.get("nodes"), job.get("job_state")) if isinstance(job, dict) else (None, None)
    if not isinstance(nodes, str) or (isinstance(state, str | list) and "RUNNING" not in state):
        return []
    try:
        return expand_hostlist(nodes)
    except ValueError:
        return []
