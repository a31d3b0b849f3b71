"""Export of consolidation plans to Slurm: options of sbatch and srun, or a script for scontrol.

A script needs jobs that were imported from Slurm; the functions that it calls are in slurm.sh. Job ids and
node names consist of characters that a shell takes literally; all other text is in one-line comments or
quoted.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...formulations.consolidation.plan import JobPlacement, Placement
from ...instances.common.errors import one_line, some
from ...instances.common.hostlist import compress_hostlist
from ...instances.consolidation.devices import DeviceDemand
from ...instances.consolidation.instance import ConsolidationInstance
from ...instances.consolidation.job import PlacementJob
from ...instances.files.reading import fail
from ..output import some_lines
from .migration_steps import (
    SCRIPT_USAGE,
    Step,
    action_in,
    drain_lines,
    emptied_servers,
    not_planned_notes,
    plan_name,
    reopen_lines,
    shell_script,
    steps,
    tasks_now,
)
from .plan import check_nodes, partitions

GPU = "gpu"
"""Name of the GPU resource in every instance."""

NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
NODE_IS = "a Slurm node: letters, digits, '.', '_', '-'"
"""Description of valid node names."""
_GPU_TYPE = re.compile(r"[A-Za-z0-9_.-]+")


def slurm_lines(instance: ConsolidationInstance, placed: Sequence[JobPlacement]) -> Iterator[str]:
    """Yield a line for each job: its name and its sbatch options, quoted for a shell.

    Several groups of tasks are the parts of a heterogeneous job, separated by colons. Jobs imported from
    Slurm with GPUs are planned in shares that are not their tasks: they keep their own --ntasks.

    Raises
    ------
    InstanceError
        If a server's name is no valid node name.
    """
    shares = are_shares(instance)
    jobs = {job.name: job for job in instance.jobs}
    for entry in placed:
        job = jobs[entry.job]
        parts = []
        for group, servers in entry.tasks.items():
            check_nodes(entry.job, servers, NODE, NODE_IS)
            asks = _gpu_demand(job, group)
            options = _nodes(servers) if shares and any(asks) else _nodes_and_tasks(servers)
            gpus = _gpus_by_node(asks, servers)
            number = _common_count(gpus)
            if number is not None:
                options.append(f"--gres=gpu:{_type(job, asks) if shares or asks.profile else ''}{number}")
            parts.append(" ".join(map(shlex.quote, options)))
        yield f"{shlex.quote(entry.job)} {' : '.join(parts)}"


def slurm_notes(instance: ConsolidationInstance, placed: Sequence[JobPlacement]) -> Iterator[str]:
    """Yield notes on what the lines of sbatch options cannot express."""
    shares = are_shares(instance)
    jobs = {job.name: job for job in instance.jobs}
    own_tasks = False
    yield from _device_notes(placed, jobs)
    for entry in placed:
        if sum(len(servers) for servers in entry.tasks.values()) > len(entry.used_servers):
            yield f"{entry.job}: several groups share a node, which Slurm's backfill may never start"
        for group, servers in entry.tasks.items():
            asks = _gpu_demand(jobs[entry.job], group)
            gpus = _gpus_by_node(asks, servers)
            own_tasks |= any(asks) and shares
            if gpus and _common_count(gpus) is None:
                listed = ", ".join(f"{server} {count:g}" for server, count in gpus.items())
                yield f"{entry.job}: one --gres cannot ask for the GPUs that the plan means: {listed}"
    if own_tasks:
        yield (
            "Jobs keep their own --ntasks; where the number of nodes is not the one they ask for, their "
            "--ntasks-per-node, --mem and other options by node have to be changed by hand"
        )


def _device_notes(placed: Sequence[JobPlacement], jobs: Mapping[str, PlacementJob]) -> Iterator[str]:
    """Yield notes on how Slurm handles single GPUs, and on the GPU partitions that it needs."""
    if any(entry.devices for entry in placed):
        yield "Slurm chooses devices itself: no option names those of the plan, which --format json has"
    shared = sum(any(_gpu_demand(jobs[entry.job], group).share for group in entry.tasks) for entry in placed)
    if shared:
        have = "1 job has a share" if shared == 1 else f"{shared:,} jobs have shares"
        yield (
            f"{have} of a GPU: in Slurm these are shards, of which a GPU has as many as the cluster's "
            "gres.conf says; the lines ask for none, and jobs keep their own --gres"
        )
    parted = [
        f"{server} {', '.join(f'{count} of {profile}' for profile, count in counts.items())}"
        for server, counts in partitions(placed, jobs).items()
    ]
    yield from some_lines(
        [f"to have partitions: {line}" for line in parted], "to have partitions: {:,} more nodes"
    )


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


def _common_count(gpus: Mapping[str, float]) -> int | None:
    """Return the number of GPUs on each node if it is the same integer on all of them, else None."""
    numbers = {round(count, 6) for count in gpus.values()}
    number = numbers.pop() if len(numbers) == 1 else 0.5
    return int(number) if number == int(number) else None


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


NAMED = 20
"""Most jobs named that stay where they run."""
USAGE = f"""
{SCRIPT_USAGE.format(check="are the jobs and nodes as the plan supposes?", places="nodes").strip()}
# TIMEOUT=600 is how many seconds a job has to end, and to start. What jobs asked for before is kept in the
# folder that 'saved' names below; back needs it. It takes an operator of Slurm, or root.
#
# A job that moves is requeued: it begins anew, or from the checkpoint that it has saved itself. Jobs that
# wait are held until their turn, so that none takes a place that another is to have; those that are not in
# the plan are held while its steps are taken, and released at the end. Who comes in the meantime may still
# take a place: then the script stops at that step. Slurm chooses the GPUs of a node, and how many tasks of a
# job are on each of its nodes. A job keeps the list of nodes on which it started;
# its AdminComment says that the plan chose them, so that another plan may choose others."""

_ID = re.compile(r"([0-9]+(?:_[0-9]+)?)(?: .*)?", re.DOTALL)


def script_lines(instance: ConsolidationInstance, entries: Sequence[JobPlacement]) -> Iterator[str]:
    """Yield the lines of the shell script that carries out a plan in Slurm.

    Parameters
    ----------
    entries
        All entries of the plan.

    Raises
    ------
    InstanceError
        If a job has no Slurm job id, or a server's name is no valid node name.
    """
    ids = _ids(instance)
    jobs = {job.name: job for job in instance.jobs}
    now = {name: tasks_now(job) for name, job in jobs.items()}
    emptied = emptied_servers(instance, entries)
    check_nodes("drain", emptied, NODE, NODE_IS)
    for entry in entries:
        places = [*now[entry.job].values(), *entry.tasks.values()]
        check_nodes(entry.job, {server for placed in places for server in placed}, NODE, NODE_IS)
    taken = steps(instance, entries)
    yield "#!/usr/bin/env bash"
    yield f"# {one_line(instance.name)}: carries out a plan in Slurm."
    yield "#"
    yield from USAGE.strip("\n").split("\n")
    yield from (f"# {one_line(note)}" for note in not_planned_notes(instance, entries))
    stay = [one_line(job.name) for job in instance.jobs if instance.stays(job)]
    if stay:
        yield "#"
        yield f"# Stay where they run, for they cannot be requeued or must not move: {some(stay, NAMED)}."
    yield ""
    yield f"saved=${{SAVED:-{plan_name(instance)}.saved}}"
    yield f"planned={shlex.quote(' '.join(ids.values()))}"
    held = [ids[step.job] for step in taken if step.do == "hold"]
    yield f"held={shlex.quote(' '.join(held))}"
    waiting = [*held, *(ids[step.job] for step in taken if step.do == "stop")]
    yield f"waiting={shlex.quote(' '.join(waiting))}"
    functions: dict[str, Iterable[str]] = {
        "check_all": _checks(taken, ids, now),
        "take_steps": [*drain_lines(emptied), *_forward(taken, ids, len(emptied))],
        "go_back": _back(taken, ids, entries, now, emptied),
    }
    yield from shell_script("slurm", functions, ":", MAIN)


MAIN = """
mode=${1:-} from=${2:-1}
case $mode in
  check | print | run | back) ;;
  *) fail "say what to do: check, print, run, or back" ;;
esac
case $from in '' | *[!0-9]*) fail "'$from' is no number of a step" ;; esac
case $mode in
  check) check_all ;;
  print) take_steps ;;
  run)
    [ "$from" -gt 1 ] || check_all
    # Later steps find the jobs of the plan as earlier ones have left them.
    if [ "$from" -gt 1 ]; then hold_all; else hold_all $held; fi
    take_steps
    release_others
    ;;
  back)
    from=1
    [ -d "$saved" ] || fail "there is no folder '$saved': nothing was changed from here"
    hold_all $waiting
    go_back
    for job in "${late[@]}"; do let_wait "$job"; done
    release_others
    ;;
esac
echo "$0: $mode: done" >&2
"""


def _ids(instance: ConsolidationInstance) -> dict[str, str]:
    """Return the Slurm job id by job name; the importer begins the name with the id.

    Raises
    ------
    InstanceError
        If a job has none, or two have the same.
    """
    ids: dict[str, str] = {}
    taken: dict[str, str] = {}
    for job in instance.jobs:
        match = _ID.fullmatch(job.name)
        if match is None:
            what = "begins with no number of a job in Slurm; --format slurm-options writes options of sbatch"
            raise fail("plan", what, f"job {job.name!r}")
        if match[1] in taken:
            raise fail("plan", f"has the number of {taken[match[1]]!r}", f"job {job.name!r}")
        ids[job.name] = match[1]
        taken[match[1]] = job.name
    return ids


def _node_list(tasks: Placement) -> str:
    """Return the sorted nodes of a job's tasks as a comma-separated list."""
    return ",".join(sorted({server for placed in tasks.values() for server in placed}))


def _checks(taken: Sequence[Step], ids: Mapping[str, str], now: Mapping[str, Placement]) -> Iterator[str]:
    """Yield the shell commands that check the state of the cluster before the first migration step."""
    nodes = dict.fromkeys(server for step in taken if step.do == "place" for server in step.servers)
    yield "step=0"
    yield from (f"check_node {node}" for node in nodes)
    for name in dict.fromkeys(step.job for step in taken):
        current_nodes = _node_list(now[name])
        yield f"check {ids[name]} {shlex.quote(f'RUNNING {current_nodes}' if current_nodes else 'PENDING')}"
    yield from (f"check_requeue {ids[step.job]}" for step in taken if step.do == "stop")
    yield '[ "$wrong" = 0 ] || fail "the cluster is not as the plan supposes: nothing was changed; plan anew"'


WORDS = {
    "hold": "hold {job}",
    "stop": "stop {job} on {nodes}",
    "place": "start {job} on {nodes}",
    "release": "release {job}",
}


def _forward(taken: Sequence[Step], ids: Mapping[str, str], first: int) -> Iterator[str]:
    for number, step in enumerate(taken, start=first + 1):
        nodes = _node_list(step.tasks)
        text = WORDS[step.do].format(job=one_line(step.job), nodes=nodes)
        if step.early:
            text += " before its new place is free, as others wait for this one"
        yield f"step {number} {shlex.quote(text)}"
        words = [step.do, ids[step.job], *([nodes] if nodes else [])]
        yield " ".join([*words, str(len(step.servers))] if step.do == "place" else words)


def _back(
    taken: Sequence[Step],
    ids: Mapping[str, str],
    entries: Sequence[JobPlacement],
    now: Mapping[str, Placement],
    emptied: Sequence[str],
) -> Iterator[str]:
    """Yield the shell commands that undo the plan.

    Placed jobs leave, stopped jobs return, and others wait again.
    """
    waited = [entry.job for entry in entries if action_in(entry) in ("start", "wait")] if taken else []
    placed = {step.job: step for step in taken if step.do == "place"}
    stopped = dict.fromkeys(step.job for step in taken if step.do == "stop")
    for name in stopped:
        if name not in placed:
            yield f"leave_elsewhere {ids[name]} {_node_list(now[name])}"
    yield from (f"leave {ids[name]} {_node_list(step.tasks)}" for name, step in reversed(placed.items()))
    yield from reopen_lines(emptied)
    for name in stopped:
        servers = _node_list(now[name])
        yield f"return_to {ids[name]} {servers} {servers.count(',') + 1}"
    yield from (f"let_wait {ids[name]}" for name in waited)
