"""Plans of consolidation as a script of scontrol commands, for jobs that were imported from Slurm.

The functions that the script calls stand in slurm.sh. Numbers of jobs and names of nodes are of alphabets
that a shell takes as they are; all other text stands in comments of one line, or is quoted.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from ...formulations.consolidation.plan import JobPlacement, Placement
from ...instances.common.printable import one_line, some
from ...instances.consolidation.instance import ConsolidationInstance
from ...instances.files.reading import fail
from .actions import check_nodes
from .shell import functions
from .slurm import NODE, NODE_IS
from .steps import Step, action_in, steps, tasks_now

NAMED = 20
"""So many jobs that stay are named."""
USAGE = """
#   bash {name} check   changes nothing: are the jobs and nodes as the plan supposes?
#   bash {name} print   changes nothing: writes every command
#   bash {name} run     checks, then takes the steps in their order, and stops at the first that fails
#   bash {name} run 3   goes on with step 3
#   bash {name} back    the way back: what ran returns to its nodes, what waited waits as before
#
# TIMEOUT=600 is how many seconds a job has to end, and to start. What jobs asked for before is kept in the
# folder that 'saved' names below; back needs it. It takes an operator of Slurm, or root.
#
# A job that moves is requeued: it begins anew, or from the checkpoint that it has saved itself. Jobs that
# wait are held until their turn, so that none takes a place that another is to have. Who is not in the plan
# is not held, and may still take one: then the script stops at that step. Slurm chooses the GPUs of a node,
# and how many tasks of a job are on each of its nodes. A job keeps the list of nodes on which it started;
# its AdminComment says that the plan chose them, so that another plan may choose others."""

_ID = re.compile(r"([0-9]+(?:_[0-9]+)?)(?: .*)?", re.DOTALL)


def script_lines(instance: ConsolidationInstance, entries: Sequence[JobPlacement]) -> Iterator[str]:
    """Return the script that carries out a plan.

    Parameters
    ----------
    entries
        All entries of the plan.

    Raises
    ------
    InstanceError
        If a job has no number of Slurm, or a server's name cannot be a node's.
    """
    ids = _ids(instance)
    jobs = {job.name: job for job in instance.jobs}
    now = {name: tasks_now(job) for name, job in jobs.items()}
    for entry in entries:
        places = [*now[entry.job].values(), *entry.tasks.values()]
        check_nodes(entry.job, {server for placed in places for server in placed}, NODE, NODE_IS)
    name = f"plan-{instance.sha256()[:12]}"
    taken = steps(instance, entries)
    yield "#!/usr/bin/env bash"
    yield f"# {one_line(instance.name)}: carries out a plan in Slurm."
    yield "#"
    yield from USAGE.format(name=f"{name}.sh").strip("\n").split("\n")
    stay = [one_line(job.name) for job in instance.jobs if instance.stays(job)]
    if stay:
        yield "#"
        yield f"# Stay where they run, for they cannot be requeued or must not move: {some(stay, NAMED)}."
    yield ""
    yield f"saved=${{SAVED:-{name}.saved}}"
    yield from functions("slurm")
    yield from _function("check_all", _checks(taken, ids, now))
    yield from _function("take_steps", _forward(taken, ids))
    yield from _function("go_back", _back(taken, ids, entries, now))
    yield from MAIN.strip("\n").split("\n")


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
    take_steps
    ;;
  back)
    from=1
    [ -d "$saved" ] || fail "there is no folder '$saved': nothing was changed from here"
    go_back
    ;;
esac
echo "$0: $mode: done" >&2
"""


def _function(name: str, lines: Iterator[str]) -> Iterator[str]:
    yield f"{name}() {{"
    yield from (f"  {line}" for line in (*lines, ":"))
    yield "}"
    yield ""


def _ids(instance: ConsolidationInstance) -> dict[str, str]:
    """Return name → number in Slurm, with which the importer begins names.

    Raises
    ------
    InstanceError
        If a job has none, or two have the same.
    """
    found: dict[str, str] = {}
    taken: dict[str, str] = {}
    for job in instance.jobs:
        match = _ID.fullmatch(job.name)
        if match is None:
            what = "begins with no number of a job in Slurm; --format slurm-options writes options of sbatch"
            raise fail("plan", what, f"job {job.name!r}")
        if match[1] in taken:
            raise fail("plan", f"has the number of {taken[match[1]]!r}", f"job {job.name!r}")
        found[job.name] = match[1]
        taken[match[1]] = job.name
    return found


def _nodes(tasks: Placement) -> str:
    """Return the nodes of a job in the order in which the script compares them."""
    return ",".join(sorted({server for placed in tasks.values() for server in placed}))


def _checks(taken: Sequence[Step], ids: Mapping[str, str], now: Mapping[str, Placement]) -> Iterator[str]:
    """Yield what has to hold before the first step."""
    nodes = dict.fromkeys(server for step in taken if step.do == "place" for server in step.servers)
    yield "step=0"
    yield from (f"check_node {node}" for node in nodes)
    for name in dict.fromkeys(step.job for step in taken):
        there = _nodes(now[name])
        yield f"check {ids[name]} {shlex.quote(f'RUNNING {there}' if there else 'PENDING')}"
    yield from (f"check_requeue {ids[step.job]}" for step in taken if step.do == "stop")
    yield '[ "$wrong" = 0 ] || fail "the cluster is not as the plan supposes: nothing was changed; plan anew"'


WORDS = {
    "hold": "hold {job}",
    "stop": "stop {job} on {nodes}",
    "place": "start {job} on {nodes}",
    "release": "release {job}",
}


def _forward(taken: Sequence[Step], ids: Mapping[str, str]) -> Iterator[str]:
    for number, step in enumerate(taken, start=1):
        nodes = _nodes(step.tasks)
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
) -> Iterator[str]:
    """Yield the way back: all that was placed leaves, then what ran returns, then what waited is released."""
    placed = {step.job: step for step in taken if step.do == "place"}
    stopped = dict.fromkeys(step.job for step in taken if step.do == "stop")
    yield from (f"leave {ids[name]} {_nodes(step.tasks)}" for name, step in reversed(placed.items()))
    for name in stopped:
        servers = _nodes(now[name])
        yield f"return_to {ids[name]} {servers} {servers.count(',') + 1}"
    waited = (entry.job for entry in entries if action_in(entry) in ("start", "wait"))
    if taken:
        yield from (f"let_wait {ids[name]}" for name in waited)
