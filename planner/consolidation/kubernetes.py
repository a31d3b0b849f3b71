"""Export of consolidation plans to Kubernetes: a script of kubectl commands, or affinity patches.

A script needs jobs that name their Kubernetes objects; the functions that it calls are in kubernetes.sh.
Names of objects and servers consist of characters that a shell takes literally; all other text is quoted.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ...formulations.consolidation.plan import JobPlacement
from ...instances.common.errors import InstanceError, one_line
from ...instances.common.workload import Workload
from ...instances.consolidation.instance import ConsolidationInstance
from ...instances.consolidation.job import PlacementJob
from ...instances.files.reading import fail
from ..reports.text import counted, listed
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
)
from .plan import KUBERNETES_NODE, check_nodes, devices_text, running_tasks, to_carry_out, total

TEMPLATE = "spec.template.spec"
REPLICAS = {
    "jaxjobs.kubeflow.org": "jaxReplicaSpecs",
    "mpijobs.kubeflow.org": "mpiReplicaSpecs",
    "paddlejobs.kubeflow.org": "paddleReplicaSpecs",
    "pytorchjobs.kubeflow.org": "pytorchReplicaSpecs",
    "tfjobs.kubeflow.org": "tfReplicaSpecs",
    "xgboostjobs.kubeflow.org": "xgbReplicaSpecs",
}
"""Field with the pod templates, by resource of the training operators."""
SCALED = ("deployments.apps", "statefulsets.apps")
PATHS = {"jobs.batch": TEMPLATE, "pods": "spec", **dict.fromkeys(SCALED, TEMPLATE)}
JOB_SET = "jobsets.jobset.x-k8s.io"
NEVER_FITS = "never fits"
"""Beginning of the reason of a job that fits on no server."""
RESTART_NOTES = {
    "pods": "it is deleted, and made again with another affinity",
    **dict.fromkeys(SCALED, "it is scaled to 0, gets another affinity, and is scaled back"),
}
"""How pods of these objects are started elsewhere; all others are suspended, changed, and resumed."""
CHECKED = "is all as the plan supposes, would the server take each change?"
USAGE = f"""
{SCRIPT_USAGE.format(check=CHECKED, places="servers").strip()}
# TIMEOUT=600 is how many seconds pods have to end, or to start. run keeps each object as it was before in the
# folder that 'saved' names below; back needs it. It takes kubectl 1.24 or later.
#
# Fields that cannot change on what runs: the template of a Job may change only while it is suspended, so its
# pods end first, and start again with what they have saved themselves. The same holds for the jobs of the
# training operators and for JobSets. Affinity says which servers pods may use, not how many go to each: run
# waits until they are where the plan has them, and stops if they are not. It stays in the objects, after back
# too: pods that are made again later wait for these servers. Pods that are not in the plan are not held, and
# may take a place; then the script stops at that step."""


@dataclass
class ManagedObject:
    """A Kubernetes object and the jobs that are its pods: one job, or several if it is scaled as a whole.

    Attributes
    ----------
    done
        Number of its jobs that are placed or released.
    held
        Whether the steps stop it, or keep it from starting.
    """

    workload: Workload
    jobs: list[PlacementJob] = field(default_factory=list)
    entries: list[JobPlacement] = field(default_factory=list)
    done: int = 0
    held: bool = False

    @property
    def name(self) -> str:
        """The arguments that name the object in calls of the script's functions."""
        return f"{self.workload.resource} {self.workload.namespace} {self.workload.name}"

    @property
    def actions(self) -> set[str]:
        """The actions of its jobs, such as `start`, `move` or `keep`."""
        return {action_in(entry) for entry in self.entries}

    @property
    def is_known(self) -> bool:
        """Whether a script can change where its pods run."""
        resource, parts = self.workload.resource, self.workload.parts
        if resource in REPLICAS or resource == JOB_SET:
            return all(group.name in parts for job in self.jobs for group in job.task_groups)
        return resource in PATHS

    @property
    def is_whole(self) -> bool:
        """Whether the actions of its jobs agree, so that it can be stopped and placed as a whole."""
        return self.actions <= {"start", "move"} or len(self.actions) == 1

    def path(self, group: str) -> str:
        """Return the field path of a task group's pod specification in the object."""
        resource = self.workload.resource
        if resource in REPLICAS:
            return f"spec.{REPLICAS[resource]}.{self.workload.parts[group]}.template.spec"
        return self.workload.parts[group] if resource == JOB_SET else PATHS[resource]

    def paths(self) -> list[str]:
        """Return the distinct field paths of the object's pod specifications."""
        return sorted({self.path(group.name) for job in self.jobs for group in job.task_groups})

    def limits(self, placements: Iterable[Mapping[str, Mapping[str, int]]]) -> list[str]:
        """Return the allowed servers of each pod specification, as arguments `path=server,server`."""
        allowed: dict[str, set[str]] = defaultdict(set)
        for tasks in placements:
            for group, servers in tasks.items():
                allowed[self.path(group)].update(servers)
        return [f"{path}={','.join(sorted(servers))}" for path, servers in sorted(allowed.items())]


def script_lines(instance: ConsolidationInstance, entries: Sequence[JobPlacement]) -> Iterator[str]:
    """Yield the lines of the shell script that carries out a plan in Kubernetes.

    Parameters
    ----------
    entries
        All entries of the plan.

    Raises
    ------
    InstanceError
        If a server's name is no valid node name, or a script cannot move or stop a job of the plan.
    """
    jobs = {job.name: job for job in instance.jobs}
    entries = [_without_restart(jobs[entry.job], entry) for entry in entries]
    units, left = _units(instance, entries)
    for entry in entries:
        check_nodes(entry.job, entry.used_servers, *KUBERNETES_NODE)
    emptied = emptied_servers(instance, entries)
    check_nodes("drain", emptied, *KUBERNETES_NODE)
    forward = [*drain_lines(emptied), *_forward(units, steps(instance, entries), len(emptied))]
    yield "#!/usr/bin/env bash"
    yield f"# A plan for Kubernetes, made by clusterplan for the instance {one_line(instance.name)}."
    notes = map(one_line, not_planned_notes(instance, entries))
    yield from (f"# {line}" for line in (*_summary(units, left), *notes))
    yield from USAGE.splitlines()[1:]
    yield ""
    yield f"saved=${{SAVED:-{plan_name(instance)}}}"
    functions: dict[str, Iterable[str]] = {
        "checks": _checks(instance, units.values()),
        "steps": forward,
        "back": [*reopen_lines(emptied), *_back(instance, units.values())],
    }
    yield from shell_script("kubernetes", functions, "return 0", MAIN)


def scheduler_notes(instance: ConsolidationInstance, entries: Sequence[JobPlacement]) -> Iterator[str]:
    """Yield a note on the planned starts that the script leaves to the scheduler, if there are any.

    Nothing where no script can be written.
    """
    jobs = {job.name: job for job in instance.jobs}
    if all(job.workload is None for job in instance.jobs):
        return
    with suppress(InstanceError):
        left = _units(instance, [_without_restart(jobs[entry.job], entry) for entry in entries])[1]
        starts = [entry.job for entry in entries if entry.placed and entry.job in left]
        if starts:
            yield f"{counted(len(starts), 'start is', 'starts are')} left to the scheduler: {listed(starts)}"


def _without_restart(job: PlacementJob, entry: JobPlacement) -> JobPlacement:
    """Return a job's plan entry, with action `keep` if its running tasks stay and others only start."""
    planned = {name: Counter(servers) for name, servers in entry.tasks.items()}
    stays = all(Counter(group.current) <= planned.get(group.name, Counter()) for group in job.task_groups)
    if entry.action != "move" or not stays or entry.devices:
        return entry
    return entry.model_copy(update={"action": "keep"})


MAIN = """mode=${1:-} from=${2:-1}
case $from in '' | *[!0-9]*) fail "'$from' is no number of a step" ;; esac
case $mode in
  check) checks ;;
  print) steps ;;
  run)
    if [ "$from" -le 1 ]; then checks; fi
    steps
    ;;
  back) back ;;
  *)
    sed -n '/^# A plan/,/^$/s/^# \\{0,1\\}//p' "$0"
    exit 2
    ;;
esac"""


def _units(
    instance: ConsolidationInstance, entries: Sequence[JobPlacement]
) -> tuple[dict[str, ManagedObject], dict[str, str]]:
    """Return the managed object by job, and by job the reason why it is left to the scheduler.

    Raises
    ------
    InstanceError
        If one of the other jobs is to move or to stop.
    """
    jobs = {job.name: job for job in instance.jobs}
    now = running_tasks(instance)
    known_units: dict[str, ManagedObject] = {}
    left = {}
    for entry in entries:
        workload = jobs[entry.job].workload
        if (entry.reason or "").startswith(NEVER_FITS) and not _may_start_in_part(instance, jobs[entry.job]):
            continue  # no place will be free for it, so it need not be held
        if workload is not None:
            key = f"{workload.resource} {workload.namespace} {workload.name}"
            unit = known_units.setdefault(key, ManagedObject(workload))
            unit.jobs.append(jobs[entry.job])
            unit.entries.append(entry)
        elif action_in(entry) != "keep":
            left[entry.job] = _why_not(entry, "it does not say which object it is (workload)")
        if entry.action == "keep" and total(entry.tasks) != total(now[entry.job]):
            left[entry.job] = "it runs in part, and its other pods start where there is room"
    chosen = {}
    for unit in known_units.values():
        others = f"other pods of {unit.workload.resource} {unit.workload.name}"
        if not unit.is_known:
            why = f"nothing is known of how {unit.workload.resource} are stopped and placed"
        elif unit.actions <= {"keep", "start", "wait"}:
            why = f"{others} run and stay, so it starts where there is room"
        else:
            why = f"{others} would have to stop too"
        for entry in unit.entries:
            if unit.is_known and unit.is_whole:
                chosen[entry.job] = unit
            elif action_in(entry) != "keep":
                left[entry.job] = _why_not(entry, why)
    return chosen, left


def _may_start_in_part(instance: ConsolidationInstance, job: PlacementJob) -> bool:
    """Return whether a single task of a job has room on an empty server, of whatever GPU model."""
    return any(
        all(server.capacity.get(name, 0.0) >= amount for name, amount in group.demand.items())
        for group in job.task_groups
        for server in instance.servers
    )


def _why_not(entry: JobPlacement, why: str) -> str:
    if entry.action in ("move", "stop"):
        raise fail(
            "plan",
            f"is to {entry.action}, but {why}; set movable: false for it and solve again",
            f"job {entry.job!r}",
        )
    return why


def _summary(units: Mapping[str, ManagedObject], left: Mapping[str, str]) -> Iterator[str]:
    """Yield summary lines for the script: jobs by action, and the jobs left to the scheduler."""
    counts = Counter(action_in(e) for unit in _distinct(units.values()) for e in unit.entries)
    text = ", ".join(f"{counts[action]} to {action}" for action in ("start", "move", "stop", "keep", "wait"))
    yield f"Jobs: {text}; left to the scheduler: {len(left)}."
    if any(entry.devices for unit in _distinct(units.values()) for entry in unit.entries):
        yield "Kubernetes chooses single devices itself; those of the plan stand in --format json."
    for job, why in left.items():
        yield f"LEFT TO THE SCHEDULER: {one_line(job)}: {why}."


def _distinct(units: Iterable[ManagedObject]) -> list[ManagedObject]:
    return list({unit.name: unit for unit in units}.values())


def _changed(units: Iterable[ManagedObject]) -> list[ManagedObject]:
    return [unit for unit in _distinct(units) if unit.held]


def _forward(units: Mapping[str, ManagedObject], order: Sequence[Step], number: int) -> Iterator[str]:
    """Yield the shell calls of the migration steps.

    An object is held with the first of its jobs, and placed with the last.

    Parameters
    ----------
    number
        Number of the step before.
    """
    for step in order:
        unit = units.get(step.job)
        alone = unit is not None and (unit.actions != {"keep"} or len(unit.jobs) == 1)
        if step.do == "stop" and not alone:
            raise fail(
                "plan", "others need the devices that it has, but it cannot be stopped", f"job {step.job!r}"
            )
        call = "" if unit is None else _call(unit, step)
        if unit is not None and call:
            number += 1
            yield f"step {number} {shlex.quote(_step_text(unit, step))}"
            yield call


def _call(unit: ManagedObject, step: Step) -> str:
    if step.do in ("hold", "stop"):
        first, unit.held = not unit.held, True
        return f"hold {unit.name}" * first
    unit.done += 1
    if unit.done < len(unit.jobs):
        return ""
    if step.do == "release":
        return f"release {unit.name}"
    placements = [entry.tasks for entry in unit.entries]
    return " ".join(["place", unit.name, _counted(placements), *map(shlex.quote, unit.limits(placements))])


def _step_text(unit: ManagedObject, step: Step) -> str:
    """Return the description of a migration step as text."""
    name = one_line(unit.workload.name if len(unit.jobs) > 1 else step.job)
    how = f"; {RESTART_NOTES[unit.workload.resource]}" if unit.workload.resource in RESTART_NOTES else ""
    if step.do == "hold":
        return f"hold {name}: it waits, and must not take a place that is not its own{how}"
    if step.do == "stop":
        why = ": its new place is not free yet, and others wait for its old one" if step.early else ""
        return f"stop {name} on {', '.join(step.servers)}{why}{how}"
    if step.do == "release":
        return f"release {name}: it waits for room, as before"
    return f"start {name} on {', '.join(sorted({s for e in unit.entries for s in e.used_servers}))}"


def _counted(placements: Iterable[Mapping[str, Mapping[str, int]]]) -> str:
    """Return the number of pods by server as one shell-quoted word, `server count,server count`."""
    servers = sum((total(tasks) for tasks in placements), Counter[str]())
    return shlex.quote(",".join(f"{server} {count}" for server, count in sorted(servers.items())))


def _checks(instance: ConsolidationInstance, units: Iterable[ManagedObject]) -> Iterator[str]:
    now = running_tasks(instance)
    changed = _changed(units)
    for unit in changed:
        yield f"check {unit.name} {_counted(now[job.name] for job in unit.jobs)}"
        limits = unit.limits(entry.tasks for entry in unit.entries if entry.placed)
        if limits:
            yield " ".join(["check_place", unit.name, *map(shlex.quote, limits)])
    servers = {server for unit in changed for entry in unit.entries for server in entry.used_servers}
    yield from (f"check_server {server}" for server in sorted(servers))
    yield '[ "$wrong" = 0 ] || fail "the cluster is not as the plan supposes, or you may not change it"'


def _back(instance: ConsolidationInstance, units: Iterable[ManagedObject]) -> Iterator[str]:
    """Yield the shell calls that undo the plan: all objects are held, then placed as before or released."""
    now = running_tasks(instance)
    changed = list(reversed(_changed(units)))
    ran = [unit for unit in changed if any(total(now[job.name]) for job in unit.jobs)]
    yield from (f"hold {unit.name}" for unit in changed)
    for unit in ran:
        placements = [now[job.name] for job in unit.jobs]
        yield " ".join(["place", unit.name, _counted(placements), *map(shlex.quote, unit.limits(placements))])
    for unit in changed:
        if unit not in ran:
            yield f"release {unit.name} {' '.join(map(shlex.quote, unit.paths()))}"


LONGEST_LABEL = 63
AFFINITY = [
    "spec:",
    "  template:",
    "    spec:",
    "      affinity:",
    "        nodeAffinity:",
    "          requiredDuringSchedulingIgnoredDuringExecution:",
    "            nodeSelectorTerms:",
]
TERM = [
    "              - matchFields:",
    "                  - key: metadata.name",
    "                    operator: In",
]
"""Lines of a patch that confines pods to nodes, and those of a term, which names one node."""


def kubernetes_plan(instance: ConsolidationInstance, entries: Sequence[JobPlacement]) -> Iterator[str]:
    """Return the lines of a script, or if no job names its Kubernetes object, of YAML affinity patches."""
    if any(job.workload is not None for job in instance.jobs):
        return script_lines(instance, entries)
    return kubernetes_lines(instance, to_carry_out(entries, every=False))


def kubernetes_lines(instance: ConsolidationInstance, placed: Sequence[JobPlacement]) -> Iterator[str]:
    """Yield the lines of a YAML patch of the pod template for each task group of each job.

    External text is in double quotes, as in JSON, which YAML reads alike. Each term names one node, and a
    node need match only one of the terms.

    Raises
    ------
    InstanceError
        If a server's name is no valid node name.
    """
    jobs = {job.name: {group.name: group.asks for group in job.task_groups} for job in instance.jobs}
    taken: set[str] = set()
    for entry in placed:
        for group, servers in entry.tasks.items():
            check_nodes(entry.job, servers, *KUBERNETES_NODE)
            name = _object_name(entry.job if entry.groups is None else f"{entry.job}-{group}", taken)
            counts = ", ".join(f"{server} {count}" for server, count in servers.items())
            annotations = {"clusterplan/job": entry.job}
            if entry.groups is not None:
                annotations["clusterplan/group"] = group
            yield "---"
            yield f"# Pods per node: {counts}. Affinity alone does not hold them to these numbers."
            for server, tasks in (entry.devices or {}).get(group, {}).items():
                devices = devices_text(tasks, jobs[entry.job][group])
                yield f"# Devices on {server}: {devices}. Affinity does not choose devices."
            yield "metadata:"
            yield f"  name: {_quoted(name)}"
            yield "  annotations:"
            yield from (f"    {key}: {_quoted(value)}" for key, value in annotations.items())
            yield from AFFINITY
            for server in servers:
                yield from TERM
                yield f"                    values: [{_quoted(server)}]"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _object_name(text: str, taken: set[str]) -> str:
    """Return a DNS label similar to a text, with a digest if it is already taken or too long."""
    plain = name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    digest = text
    while not name or len(name) > LONGEST_LABEL or name in taken:
        digest = hashlib.sha256(digest.encode()).hexdigest()[:8]
        name = f"{plain[: LONGEST_LABEL - 9].strip('-') or 'job'}-{digest}"
    taken.add(name)
    return name
