"""Slurm: the nodes and the queue of a cluster as it is, for consolidation.

The nodes are what ``scontrol show nodes --json`` or ``sinfo --json`` prints, the jobs what ``squeue --json``
does; data_parser versions from Slurm 21.08 to 26.05 are read.
"""

from __future__ import annotations

from pathlib import Path

from ...common.faults import validated
from ...consolidation.instance import ConsolidationInstance
from ...files.reading import fail, read_mapping
from ..importer import Importer
from ..node_restrictions import counted
from .assumptions import assumptions, ignored, left_out, where, why_nothing
from .cluster import Cluster, SlurmOptions
from .nodes import read_nodes
from .objects import JobRecord, JobRecords


@Importer
def import_slurm(options: SlurmOptions) -> ConsolidationInstance:
    """Return the consolidation instance of a Slurm cluster."""
    nodes, queue = options.nodes, options.queue
    cluster = Cluster(tuple(read_nodes(nodes)), _read_queue(queue), options)
    if not cluster.nodes:
        out = f"{counted(len(cluster.out), 'is', 'are')} left out for their state"
        raise fail(str(nodes), f"has no node that takes jobs{where(options.partitions)}; {out}")
    if not cluster.jobs:
        gpu = " and asks for a GPU" if options.choice == "gpu" else ""
        state = "waits for resources" + (" or runs" if options.running == "move" else "")
        what = f"has no job that {state}{gpu}{where(options.partitions)}"
        raise fail(str(queue), f"{what}; {why_nothing(cluster)}")
    moving = any(job.current for job in cluster.jobs)
    document = {
        "name": f"slurm-{queue.stem}",
        "source": f"{nodes.name} and {queue.name}, as Slurm's commands print them",
        "assumptions": [*assumptions(cluster, options), *left_out(cluster), *ignored(cluster)],
        "objectives": ["value", *(["migrations"] if moving else []), "spread", "servers"],
        "servers": [cluster.server(node) for node in cluster.nodes],
        "jobs": [cluster.document_of(job) for job in cluster.jobs],
    }
    return validated(ConsolidationInstance, document, str(queue))


def _read_queue(path: Path) -> tuple[JobRecord, ...]:
    source = str(path)
    what = "has no 'jobs'; give what squeue --json prints"
    data = read_mapping(path, what)
    if "jobs" not in data:
        nodes = {"nodes", "sinfo"} & set(data)
        raise fail(source, "the second file lists nodes; jobs are wanted" if nodes else what)
    return validated(JobRecords, {"jobs": data["jobs"]}, source).jobs
