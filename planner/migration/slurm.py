"""Scripts for Slurm that carry out plans with scontrol.

Names of jobs begin with their numbers in Slurm. The functions that a script calls are in slurm.sh, and for
other numbers of tasks in slurm_sizes.sh. Job ids and node names consist of characters that a shell takes
literally; all other text is in one-line comments or quoted.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...instances.common.errors import one_line, some
from ...instances.files.reading import fail
from .nodes import SLURM_NODE
from .steps import (
    SCRIPT_USAGE,
    Migration,
    MovingJob,
    Placement,
    Step,
    drain_lines,
    shell_script,
    steps,
    total,
)

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

SIZES = """
#
# Jobs get other numbers of tasks. One that only leaves nodes shrinks while it runs, unless its script is on
# one of these; all others are requeued with other --ntasks, and the GPUs that they ask for on each node. They
# have to read how many tasks they have from Slurm's variables. A task keeps its number of CPUs.
"""
_ID = re.compile(r"([0-9]+(?:_[0-9]+)?)(?: .*)?", re.DOTALL)


def script_lines(migration: Migration) -> Iterator[str]:
    """Yield the lines of the shell script that carries out a plan in Slurm.

    Raises
    ------
    InstanceError
        If a job has no Slurm job id, or a server's name is no valid node name.
    """
    ids, emptied = _ids(migration), migration.emptied
    migration.check_nodes(SLURM_NODE)
    taken = steps(migration.jobs, migration.fits, shrinking=True)
    yield "#!/usr/bin/env bash"
    yield f"# {one_line(migration.title)}: carries out a plan in Slurm."
    yield "#"
    yield from USAGE.strip("\n").split("\n")
    sized = any(job.gpus is not None for job in migration.jobs)
    yield from SIZES.strip("\n").split("\n") if sized else ()
    yield from (f"# {one_line(note)}" for note in migration.notes)
    if migration.stay:
        stay = map(one_line, migration.stay)
        yield "#"
        yield f"# Stay where they run, for they cannot be requeued or must not move: {some([*stay], NAMED)}."
    yield ""
    yield f"saved=${{SAVED:-{migration.name}.saved}}"
    held = [ids[step.job] for step in taken if step.do == "hold"]
    waiting = [*held, *(ids[step.job] for step in taken if step.do in ("stop", "shrink"))]
    for name, some_jobs in {"planned": ids.values(), "held": held, "waiting": waiting}.items():
        yield f"{name}={shlex.quote(' '.join(some_jobs))}"
    jobs = {job.name: job for job in migration.jobs}
    functions: dict[str, Iterable[str]] = {
        "check_all": _checks(taken, ids, jobs),
        "take_steps": [*drain_lines(emptied), *_forward(taken, ids, jobs, len(emptied))],
        "go_back": _back(taken, ids, jobs, emptied),
    }
    yield from shell_script(("slurm", "slurm_sizes")[: 1 + sized], functions, ":", MAIN)


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


def _ids(migration: Migration) -> dict[str, str]:
    """Return the Slurm job id by job name; the importer begins the name with the id.

    Raises
    ------
    InstanceError
        If a job has none, or two have the same.
    """
    ids: dict[str, str] = {}
    taken: dict[str, str] = {}
    for job in migration.jobs:
        match = _ID.fullmatch(job.name)
        if match is None:
            what = f"begins with no number of a job in Slurm{migration.instead}"
            raise fail("plan", what, f"job {job.name!r}")
        if match[1] in taken:
            raise fail("plan", f"has the number of {taken[match[1]]!r}", f"job {job.name!r}")
        ids[job.name] = match[1]
        taken[match[1]] = job.name
    return ids


def _node_list(tasks: Placement) -> str:
    """Return the sorted nodes of a job's tasks as a comma-separated list."""
    return ",".join(sorted(total(tasks)))


def common_count(numbers: Iterable[float]) -> int | None:
    """Return the number of GPUs on each node if it is the same integer on all of them, else None."""
    (number, *others) = {round(number, 6) for number in numbers} or {0.5}
    return None if others or number != int(number) else int(number)


def _size(job: MovingJob) -> str:
    """Return the number of tasks, and of GPUs on each node, or ``-`` where this differs between nodes."""
    gpus = common_count((job.gpus or {}).values())
    return f"{total(job.planned).total()} {'-' if gpus is None else gpus}"


def _checks(taken: Sequence[Step], ids: Mapping[str, str], jobs: Mapping[str, MovingJob]) -> Iterator[str]:
    """Yield the shell commands that check the state of the cluster before the first migration step."""
    nodes = dict.fromkeys(server for step in taken if step.do == "place" for server in step.servers)
    yield "step=0"
    yield from (f"check_node {node}" for node in nodes)
    for name in dict.fromkeys(step.job for step in taken):
        current_nodes = _node_list(jobs[name].now)
        yield f"check {ids[name]} {shlex.quote(f'RUNNING {current_nodes}' if current_nodes else 'PENDING')}"
    yield from (f"check_requeue {ids[step.job]}" for step in taken if step.do in ("stop", "shrink"))
    for step in taken:
        if step.do == "place" and jobs[step.job].gpus is not None:
            yield f"check_size {ids[step.job]} {_size(jobs[step.job])} {len(step.servers)}"
    yield '[ "$wrong" = 0 ] || fail "the cluster is not as the plan supposes: nothing was changed; plan anew"'


WORDS = {
    "hold": "hold {job}",
    "stop": "stop {job} on {nodes}",
    "shrink": "shrink {job} to {nodes}",
    "place": "start {job} on {nodes}",
    "release": "release {job}",
}


def _forward(
    taken: Sequence[Step], ids: Mapping[str, str], jobs: Mapping[str, MovingJob], first: int
) -> Iterator[str]:
    for number, step in enumerate(taken, start=first + 1):
        nodes, job = _node_list(step.tasks), jobs[step.job]
        text = WORDS[step.do].format(job=one_line(step.job), nodes=nodes)
        if step.early:
            text += " before its new place is free, as others wait for this one"
        yield f"step {number} {shlex.quote(text)}"
        words = [step.do, ids[step.job], *([nodes] if nodes else [])]
        if step.do == "shrink":
            words.insert(2, _node_list(job.now))
            words += [str(len(step.servers)), _size(job)]
        elif step.do == "place" and job.gpus is not None:
            yield f"resize {ids[step.job]} {_size(job)}"
        yield " ".join([*words, str(len(step.servers))] if step.do == "place" else words)


def _back(
    taken: Sequence[Step], ids: Mapping[str, str], jobs: Mapping[str, MovingJob], emptied: Sequence[str]
) -> Iterator[str]:
    """Yield the shell commands that undo the plan.

    Placed jobs leave, stopped jobs return, and others wait again.
    """
    placed = {step.job: step for step in taken if step.do in ("place", "shrink")}
    stopped = [step.job for step in taken if step.do in ("stop", "shrink")]
    for name in stopped:
        if name not in placed:
            yield f"leave_elsewhere {ids[name]} {_node_list(jobs[name].now)}"
    yield from (f"leave {ids[name]} {_node_list(step.tasks)}" for name, step in reversed(placed.items()))
    yield from (f"resize_back {ids[name]}" for name in placed if jobs[name].gpus is not None)
    yield from (f"reopen {server}" for server in emptied)
    for name in stopped:
        servers = _node_list(jobs[name].now)
        yield f"return_to {ids[name]} {servers} {servers.count(',') + 1}"
    yield from (f"let_wait {ids[step.job]}" for step in taken if step.do == "hold")
