"""Slurm: the nodes and the queue of a cluster as it is, for consolidation.

The nodes are what ``scontrol show nodes --json`` or ``sinfo --json`` prints, the jobs what ``squeue --json``
does; data_parser versions from Slurm 21.08 to 26.05 are read.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

from ...common.faults import validated
from ...common.hostlist import expand_hostlist
from ...common.printable import one_line, some
from ...consolidation.instance import ConsolidationInstance
from ...files.reading import fail, read_mapping
from ..importer import Importer
from ..left_out import LeftOut, valid_entries
from ..move_cost import move_cost
from ..node_restrictions import counted
from .assumptions import assumptions, ignored, left_out, where, why_nothing
from .cluster import Cluster, SlurmOptions
from .nodes import read_nodes
from .objects import JobRecord, JobRecords


@Importer
def import_slurm(options: SlurmOptions) -> ConsolidationInstance:
    """Return the consolidation instance of a Slurm cluster."""
    nodes, queue = options.nodes, options.queue
    listed = read_nodes(nodes)
    records, invalid = _read_queue(queue)
    unread = frozenset(chain.from_iterable(map(_nodes_of, invalid.data)))
    cluster = Cluster(tuple(listed), records, options, unread)
    without = list(invalid.sentences())
    if cluster.unknown:
        names = some(sorted(cluster.unknown))
        without.append(f"What they hold is not known, and their nodes do not list it; left out are {names}.")
    if cluster.devices is not None:
        without += cluster.devices.left_out(cluster.unclear)
    if not cluster.nodes:
        out = f"{counted(len(cluster.out), 'is', 'are')} left out for their state"
        what = f"has no node that takes jobs{where(options.partitions)}; {out}"
        raise fail(str(nodes), "; ".join([what, *without]))
    if not cluster.jobs:
        gpu = " and asks for a GPU" if options.choice == "gpu" else ""
        state = "waits for resources" + (" or runs" if options.running == "move" else "")
        what = f"has no job that {state}{gpu}{where(options.partitions)}"
        if options.choice == "gpu" and cluster.asking_for_none:
            what += " (--jobs all plans the others)"
        raise fail(str(queue), "; ".join([what, why_nothing(cluster), *without]))
    moving = any(job.current for job in cluster.jobs)
    document = {
        "name": f"slurm-{queue.stem}",
        "source": f"{nodes.name} and {queue.name}, as Slurm's commands print them",
        "assumptions": [*assumptions(cluster, options), *left_out(cluster), *ignored(cluster), *without],
        "objectives": ["value", *(["migrations"] if moving else []), "spread", "servers"],
        **move_cost(moving),
        "servers": [cluster.server(node) for node in cluster.nodes],
        "jobs": [cluster.document_of(job) for job in cluster.jobs],
    }
    return validated(ConsolidationInstance, document, str(queue))


def _read_queue(path: Path) -> tuple[tuple[JobRecord, ...], LeftOut]:
    """Return the valid jobs, and the others."""
    source = str(path)
    what = "has no 'jobs'; give what squeue --json prints"
    data = read_mapping(path, what)
    if "jobs" not in data:
        nodes = {"nodes", "sinfo"} & set(data)
        raise fail(source, "the second file lists nodes; jobs are wanted" if nodes else what)
    items = validated(JobRecords, {"jobs": data["jobs"]}, source).jobs
    places = (f"jobs[{index}]" for index in range(len(items)))
    entries = ((place, _name_of(item) or place, item) for place, item in zip(places, items, strict=True))
    without = LeftOut("job")
    return tuple(valid_entries(JobRecord, entries, source, without)), without


def _name_of(job: Any) -> str:
    """Return id and name of what may be a job; empty if it has none."""
    found = (job.get("job_id"), job.get("name")) if isinstance(job, dict) else ()
    return " ".join(one_line(str(word)) for word in found if isinstance(word, str | int) and word != "")


def _nodes_of(job: Any) -> list[str]:
    """Return the nodes that what may be a job runs on; none if it has none, or they cannot be read."""
    nodes, state = (job.get("nodes"), job.get("job_state")) if isinstance(job, dict) else (None, None)
    if not isinstance(nodes, str) or (isinstance(state, str | list) and "RUNNING" not in state):
        return []
    try:
        return expand_hostlist(nodes)
    except ValueError:
        return []
