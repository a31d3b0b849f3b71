"""Plans of consolidation as options of Slurm's sbatch and srun, a line for each job."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from ...formulations.consolidation.plan import JobPlacement
from ...instances.common.hostlist import compress_hostlist
from ...instances.consolidation.devices import Ask
from ...instances.consolidation.instance import ConsolidationInstance, Group, PlacementJob
from .actions import check_nodes

GPU = "gpu"
"""The resource that is a GPU in every instance."""

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_GPU_TYPE = re.compile(r"[A-Za-z0-9_.-]+")


def slurm_lines(instance: ConsolidationInstance, placed: Sequence[JobPlacement]) -> Iterator[str]:
    """Return for each job its name and the options, as words of a shell.

    Several groups of tasks are the parts of a heterogeneous job, with a colon between them. Jobs that come
    from Slurm and ask for GPUs are planned in shares that are not its tasks: they keep their own --ntasks.

    Raises
    ------
    InstanceError
        If a server's name cannot be a node's.
    """
    shares = are_shares(instance)
    jobs = {job.name: job for job in instance.jobs}
    for entry in placed:
        job = jobs.get(entry.job)
        parts = []
        for group, servers in entry.tasks.items():
            check_nodes(entry.job, servers, _NODE, "a Slurm node: letters, digits, '.', '_', '-'")
            gpus = _gpus_by_node(job, group, servers)
            options = _nodes(servers) if shares and gpus else _nodes_and_tasks(servers)
            number = _the_same(gpus)
            if number is not None:
                options.append(f"--gres=gpu:{_type(job) if shares else ''}{number}")
            parts.append(" ".join(map(shlex.quote, options)))
        yield f"{shlex.quote(entry.job)} {' : '.join(parts)}"


def slurm_notes(instance: ConsolidationInstance, placed: Sequence[JobPlacement]) -> Iterator[str]:
    """Say what the lines of these jobs cannot."""
    shares = are_shares(instance)
    jobs = {job.name: job for job in instance.jobs}
    parted = 0
    if any(entry.devices for entry in placed):
        yield (
            "Slurm chooses devices itself: --gres asks for as many whole ones as the plan means; shares and "
            "partitions are other resources (shard, gpu:PROFILE), which depend on the cluster's gres.conf"
        )
    for entry in placed:
        if sum(len(servers) for servers in entry.tasks.values()) > len(entry.used_servers):
            yield f"{entry.job}: several groups share a node, which Slurm's backfill may never start"
        for group, servers in entry.tasks.items():
            gpus = _gpus_by_node(jobs.get(entry.job), group, servers)
            parted += bool(gpus) and shares
            if gpus and _the_same(gpus) is None:
                listed = ", ".join(f"{server} {count:g}" for server, count in gpus.items())
                yield f"{entry.job}: one --gres cannot ask for the GPUs that the plan means: {listed}"
    if parted:
        yield (
            "Jobs keep their own --ntasks; where the number of nodes is not the one they ask for, their "
            "--ntasks-per-node, --mem and other options by node have to be changed by hand"
        )


def are_shares(instance: ConsolidationInstance) -> bool:
    """Return whether the tasks of jobs with GPUs are shares that the importer from Slurm has made."""
    from ...instances.importers.slurm.jobs import SHARES  # this loads all importers

    return any(sentence.startswith(SHARES) for sentence in instance.assumptions)


def _group(job: PlacementJob | None, name: str) -> Group | None:
    groups = job.task_groups if job else ()
    return next((group for group in groups if group.name == name), None)


def _gpus_by_node(job: PlacementJob | None, name: str, servers: Mapping[str, int]) -> dict[str, float]:
    """Return node → GPUs of a group of tasks; empty if they ask for none."""
    group = _group(job, name)
    each = group.demand.get(GPU, 0.0) + group.asks.get(GPU, Ask()).whole if group else 0.0
    return {server: count * each for server, count in servers.items()} if each else {}


def _the_same(gpus: Mapping[str, float]) -> int | None:
    """Return the integer that all nodes share, if there is one."""
    numbers = {round(count, 6) for count in gpus.values()}
    number = numbers.pop() if len(numbers) == 1 else 0.5
    return int(number) if number == int(number) else None


def _type(job: PlacementJob | None) -> str:
    model = job.gpu_model if job else None
    # Slurm takes one type; of several, the nodes that are named have one.
    return f"{model}:" if isinstance(model, str) and _GPU_TYPE.fullmatch(model) else ""


def _nodes(servers: Mapping[str, int]) -> list[str]:
    return [f"--nodelist={compress_hostlist(servers)}", f"--nodes={len(servers)}"]


def _nodes_and_tasks(servers: Mapping[str, int]) -> list[str]:
    """Return the options that put these numbers of tasks on these nodes."""
    tasks = f"--ntasks={sum(servers.values())}"
    counts = set(servers.values())
    if len(counts) == 1:
        return [*_nodes(servers), tasks, f"--ntasks-per-node={counts.pop()}"]
    # Slurm takes a node once for each task, and refuses --nodes beside this distribution.
    each = ",".join(server for server, count in servers.items() for _ in range(count))
    return [f"--nodelist={each}", tasks, "--distribution=arbitrary"]
