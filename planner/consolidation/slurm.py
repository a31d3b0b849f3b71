"""Export of consolidation plans to Slurm: options of sbatch and srun, or a script for scontrol."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ...formulations.consolidation.plan import JobsByName, Plan
from ...instances.common.hostlist import compress_hostlist
from ...instances.consolidation.devices import DeviceDemand
from ...instances.consolidation.instance import ConsolidationInstance
from ...instances.consolidation.job import PlacementJob
from ..migration import slurm
from ..migration.nodes import SLURM_NODE, check_nodes
from ..migration.slurm import common_count
from ..output import some_lines
from ..reports.text import counted
from .migration_steps import migration_of
from .plan import named_jobs, partitions

GPU = "gpu"
"""Name of the GPU resource in every instance."""

_GPU_TYPE = re.compile(r"[A-Za-z0-9_.-]+")


def slurm_lines(instance: ConsolidationInstance, placed: Plan) -> Iterator[str]:
    """Yield a line for each job: its name and its sbatch options, quoted for a shell.

    Several groups of tasks are the parts of a heterogeneous job, separated by colons. Jobs imported from
    Slurm with GPUs are planned in shares that are not their tasks: they keep their own --ntasks.

    Raises
    ------
    InstanceError
        If a server's name is no valid node name.
    """
    shares = are_shares(instance)
    jobs = named_jobs(instance)
    for entry in placed:
        job = jobs[entry.job]
        parts = []
        for group, servers in entry.tasks.items():
            check_nodes(entry.job, servers, SLURM_NODE)
            asks = _gpu_demand(job, group)
            options = _nodes(servers) if shares and any(asks) else _nodes_and_tasks(servers)
            gpus = _gpus_by_node(asks, servers)
            number = common_count(gpus.values())
            if number is not None:
                options.append(f"--gres=gpu:{_type(job, asks) if shares or asks.profile else ''}{number}")
            parts.append(" ".join(map(shlex.quote, options)))
        yield f"{shlex.quote(entry.job)} {' : '.join(parts)}"


def slurm_notes(instance: ConsolidationInstance, placed: Plan) -> Iterator[str]:
    """Yield notes on what the lines of sbatch options cannot express."""
    shares = are_shares(instance)
    jobs = named_jobs(instance)
    own_tasks = False
    yield from _device_notes(placed, jobs)
    for entry in placed:
        if sum(len(servers) for servers in entry.tasks.values()) > len(entry.used_servers):
            yield f"{entry.job}: several groups share a node, which Slurm's backfill may never start"
        for group, servers in entry.tasks.items():
            asks = _gpu_demand(jobs[entry.job], group)
            gpus = _gpus_by_node(asks, servers)
            own_tasks |= any(asks) and shares
            if gpus and common_count(gpus.values()) is None:
                listed = ", ".join(f"{server} {count:g}" for server, count in gpus.items())
                yield f"{entry.job}: one --gres cannot ask for the GPUs that the plan means: {listed}"
    if own_tasks:
        yield (
            "Jobs keep their own --ntasks; where the number of nodes is not the one they ask for, their "
            "--ntasks-per-node, --mem and other options by node have to be changed by hand"
        )


def _device_notes(placed: Plan, jobs: JobsByName) -> Iterator[str]:
    """Yield notes on how Slurm handles single GPUs, and on the GPU partitions that it needs."""
    if any(entry.devices for entry in placed):
        yield "Slurm chooses devices itself: no option names those of the plan, which --format json has"
    shared = sum(any(_gpu_demand(jobs[entry.job], group).share for group in entry.tasks) for entry in placed)
    if shared:
        have = counted(shared, "job has a share", "jobs have shares")
        yield (
            f"{have} of a GPU: in Slurm these are shards, of which a GPU has as many as the cluster's "
            "gres.conf says; the lines ask for none, and jobs keep their own --gres"
        )
    parted = [
        f"to have partitions: {server} "
        + ", ".join(f"{count} of {profile}" for profile, count in counts.items())
        for server, counts in partitions(placed, jobs).items()
    ]
    yield from some_lines(parted, "to have partitions: {:,} more nodes")


def are_shares(instance: ConsolidationInstance) -> bool:
    """Return whether the Slurm importer divided the jobs with GPUs into shares that are not their tasks."""
    from ...instances.importers.clusters.slurm_jobs import EQUAL_SHARES  # this loads all importers

    return any(sentence.startswith(EQUAL_SHARES) for sentence in instance.assumptions)


class _GpuDemand(NamedTuple):
    """GPU demand of each task of a group: a number of GPUs or partitions, or a share."""

    number: float
    share: int
    profile: str


def _gpu_demand(job: PlacementJob, name: str) -> _GpuDemand:
    group = next(group for group in job.task_groups if group.name == name)
    ask = group.asks.get(GPU, DeviceDemand())
    return _GpuDemand(group.demand.get(GPU, 0.0) + ask.whole + bool(ask.profile), ask.share, ask.profile)


def _gpus_by_node(asks: _GpuDemand, servers: Mapping[str, int]) -> dict[str, float]:
    """Return the number of GPUs that a task group uses on each node; empty if it needs none."""
    return {server: count * asks.number for server, count in servers.items()} if asks.number else {}


def _type(job: PlacementJob, asks: _GpuDemand) -> str:
    """Return the GPU or partition type of a job for `--gres`, with a colon; empty if there is none."""
    model = job.gpu_model
    # Slurm takes one type; of several, the nodes that are named have one.
    known = model if isinstance(model, str) and _GPU_TYPE.fullmatch(model) else ""
    # Slurm's documentation names partitions so: gpu:a100_3g.20gb.
    kind = f"{known}_{asks.profile}" if known and asks.profile else known or asks.profile
    return f"{kind}:" if _GPU_TYPE.fullmatch(kind) else ""


def _nodes(servers: Mapping[str, int]) -> list[str]:
    return [f"--nodelist={compress_hostlist(servers)}", f"--nodes={len(servers)}"]


def _nodes_and_tasks(servers: Mapping[str, int]) -> list[str]:
    """Return the sbatch options that place these numbers of tasks on these nodes."""
    tasks = f"--ntasks={sum(servers.values())}"
    counts = set(servers.values())
    if len(counts) == 1:
        return [*_nodes(servers), tasks, f"--ntasks-per-node={counts.pop()}"]
    # Slurm takes a node once for each task, and refuses --nodes beside this distribution.
    each = ",".join(server for server, count in servers.items() for _ in range(count))
    return [f"--nodelist={each}", tasks, "--distribution=arbitrary"]


def script_lines(instance: ConsolidationInstance, entries: Plan) -> Iterator[str]:
    """Yield the lines of the shell script that carries out all entries of a plan in Slurm.

    Raises
    ------
    InstanceError
        If a job has no Slurm job id, or a server's name is no valid node name.
    """
    return slurm.script_lines(migration_of(instance, entries))
