"""Scripts for Kubernetes that carry out plans with kubectl.

Jobs name their Kubernetes objects. The functions that a script calls are in kubernetes.sh, and for other
numbers of pods in kubernetes_sizes.sh. Names of objects and servers consist of characters that a shell takes
literally; all other text is quoted.
"""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...instances.common.errors import one_line
from ...instances.common.workload import Workload
from ...instances.files.reading import fail
from .nodes import KUBERNETES_NODE
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
RESTART_NOTES = {
    "pods": "; it is deleted, and made again with another affinity",
    **dict.fromkeys(SCALED, "; it is scaled to 0, gets another affinity, and is scaled back"),
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
SIZES = """\
# Objects get other numbers of pods while they are held. Those of a JobSet are changed in its Jobs: when it
# begins anew as a whole, it has the numbers of its own template again."""


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
    jobs: list[MovingJob] = field(default_factory=list)
    done: int = 0
    held: bool = False

    @property
    def name(self) -> str:
        """The arguments that name the object in calls of the script's functions."""
        return f"{self.workload.resource} {self.workload.namespace} {self.workload.name}"

    @property
    def actions(self) -> set[str]:
        """The actions of its jobs, such as `start`, `move` or `keep`."""
        return {job.action for job in self.jobs}

    @property
    def is_known(self) -> bool:
        """Whether a script can change where its pods run."""
        resource, parts = self.workload.resource, self.workload.parts
        if self.is_sized and resource in ("pods", *SCALED):
            return False
        if resource in REPLICAS or resource == JOB_SET:
            return all(group in parts for job in self.jobs for group in job.groups)
        return resource in PATHS

    @property
    def is_sized(self) -> bool:
        """Whether it may get another number of pods."""
        return any(job.gpus is not None for job in self.jobs)

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
        return sorted({self.path(group) for job in self.jobs for group in job.groups})

    def limits(self, placements: Iterable[Placement]) -> list[str]:
        """Return the allowed servers of each pod specification, as arguments `path=server,server`."""
        allowed: dict[str, set[str]] = defaultdict(set)
        for tasks in placements:
            for group, servers in tasks.items():
                allowed[self.path(group)].update(servers)
        return [f"{path}={','.join(sorted(servers))}" for path, servers in sorted(allowed.items())]

    def place(self, placements: Sequence[Placement]) -> str:
        """Return the call that starts its pods on these servers."""
        return " ".join(
            ["place", self.name, _counted(placements), *map(shlex.quote, self.limits(placements))]
        )

    def sizes(self, back: bool = False) -> list[str]:
        """Return the call with its planned numbers of pods, or those before; none if they stay."""
        counts: Counter[str] = Counter()
        for job in self.jobs if self.is_sized else ():
            for group in job.groups:
                path = self.path(group)
                path = "spec.parallelism" if path == TEMPLATE else path.replace("template.spec", "replicas")
                counts[path] += sum(job.planned.get(group, {}).values())
        words = [f"{path}={'before' if back else number}" for path, number in sorted(counts.items())]
        return [" ".join(["resize", self.name, *words])] if words else []


def script_lines(migration: Migration) -> Iterator[str]:
    """Yield the lines of the shell script that carries out a plan in Kubernetes.

    Raises
    ------
    InstanceError
        If a server's name is no valid node name, or a script cannot move or stop a job of the plan.
    """
    chosen, left = units_of(migration.jobs)
    units = list({unit.name: unit for unit in chosen.values()}.values())
    migration.check_nodes(KUBERNETES_NODE)
    emptied = migration.emptied
    order = steps(migration.jobs, migration.fits)
    forward = [*drain_lines(emptied), *_forward(chosen, order, len(emptied))]
    changed = [unit for unit in units if unit.held]
    yield "#!/usr/bin/env bash"
    yield f"# A plan for Kubernetes, made by clusterplan for the instance {one_line(migration.title)}."
    yield from (f"# {line}" for line in (*_summary(units, left), *map(one_line, migration.notes)))
    yield from USAGE.splitlines()[1:]
    sized = any(unit.is_sized for unit in units)
    yield from SIZES.splitlines() if sized else ()
    yield ""
    yield f"saved=${{SAVED:-{migration.name}}}"
    functions: dict[str, Iterable[str]] = {
        "checks": _checks(changed),
        "steps": forward,
        "back": [*(f"reopen {server}" for server in emptied), *_back(changed[::-1])],
    }
    yield from shell_script(("kubernetes", "kubernetes_sizes")[: 1 + sized], functions, "return 0", MAIN)


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


def units_of(jobs: Iterable[MovingJob]) -> tuple[dict[str, ManagedObject], dict[str, str]]:
    """Return the managed object by job, and by job the reason why it is left to the scheduler.

    Raises
    ------
    InstanceError
        If one of the other jobs is to move or to stop.
    """
    known_units: dict[str, ManagedObject] = {}
    left = {}
    for job in jobs:
        if job.never_starts:
            continue  # no place will be free for it, so it need not be held
        if job.workload is not None:
            unit = ManagedObject(job.workload)
            known_units.setdefault(unit.name, unit).jobs.append(job)
        elif job.action != "keep":
            left[job.name] = _why_not(job, "it does not say which object it is (workload)")
        if job.action == "keep" and total(job.planned) != total(job.now):
            left[job.name] = "it runs in part, and its other pods start where there is room"
    chosen = {}
    for unit in known_units.values():
        others = f"other pods of {unit.workload.resource} {unit.workload.name}"
        if not unit.is_known:
            why = f"nothing is known of how {unit.workload.resource} are stopped and placed"
        elif unit.actions <= {"keep", "start", "wait"}:
            why = f"{others} run and stay, so it starts where there is room"
        else:
            why = f"{others} would have to stop too"
        for job in unit.jobs:
            if unit.is_known and unit.is_whole:
                chosen[job.name] = unit
            elif job.action != "keep":
                left[job.name] = _why_not(job, why)
    return chosen, left


def _why_not(job: MovingJob, why: str) -> str:
    if job.action in ("move", "stop"):
        do = "; set movable: false for it and solve again" if job.gpus is None else ""
        raise fail("plan", f"is to {job.action}, but {why}{do}", f"job {job.name!r}")
    return why


def _summary(units: Sequence[ManagedObject], left: Mapping[str, str]) -> Iterator[str]:
    """Yield summary lines for the script: jobs by action, and the jobs left to the scheduler."""
    counts = Counter(job.action for unit in units for job in unit.jobs)
    text = ", ".join(f"{counts[action]} to {action}" for action in ("start", "move", "stop", "keep", "wait"))
    yield f"Jobs: {text}; left to the scheduler: {len(left)}."
    if any(job.holds_devices for unit in units for job in unit.jobs):
        yield "Kubernetes chooses single devices itself; those of the plan stand in --format json."
    for name, why in left.items():
        yield f"LEFT TO THE SCHEDULER: {one_line(name)}: {why}."


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
        if step.do == "stop" and (unit is None or (unit.actions == {"keep"} and len(unit.jobs) > 1)):
            what = "others need the devices that it has, but it cannot be stopped"
            raise fail("plan", what, f"job {step.job!r}")
        if unit is not None and (call := _call(unit, step)):
            number += 1
            yield f"step {number} {shlex.quote(_step_text(unit, step))}"
            yield from (*(unit.sizes() if step.do == "place" else ()), call)


def _call(unit: ManagedObject, step: Step) -> str:
    if step.do in ("hold", "stop"):
        first, unit.held = not unit.held, True
        return f"hold {unit.name}" * first
    unit.done += 1
    if unit.done < len(unit.jobs):
        return ""
    if step.do == "release":
        return f"release {unit.name}"
    return unit.place([job.planned for job in unit.jobs])


def _step_text(unit: ManagedObject, step: Step) -> str:
    """Return the description of a migration step as text."""
    name = one_line(unit.workload.name if len(unit.jobs) > 1 else step.job)
    how = RESTART_NOTES.get(unit.workload.resource, "")
    if step.do == "hold":
        return f"hold {name}: it waits, and must not take a place that is not its own{how}"
    if step.do == "stop":
        why = ": its new place is not free yet, and others wait for its old one" if step.early else ""
        return f"stop {name} on {', '.join(step.servers)}{why}{how}"
    if step.do == "release":
        return f"release {name}: it waits for room, as before"
    return f"start {name} on {', '.join(sorted({s for job in unit.jobs for s in total(job.planned)}))}"


def _counted(placements: Iterable[Placement]) -> str:
    """Return the number of pods by server as one shell-quoted word, `server count,server count`."""
    servers = sum((total(tasks) for tasks in placements), Counter[str]())
    return shlex.quote(",".join(f"{server} {count}" for server, count in sorted(servers.items())))


def _checks(units: Iterable[ManagedObject]) -> Iterator[str]:
    for unit in units:
        yield f"check {unit.name} {_counted(job.now for job in unit.jobs)}"
        limits = unit.limits(job.planned for job in unit.jobs)
        if limits:
            yield " ".join(["check_place", unit.name, *map(shlex.quote, limits)])
            yield from (f"check_{call}" for call in unit.sizes())
    servers = {server for unit in units for job in unit.jobs for server in total(job.planned)}
    yield from (f"check_server {server}" for server in sorted(servers))
    yield '[ "$wrong" = 0 ] || fail "the cluster is not as the plan supposes, or you may not change it"'


def _back(units: Iterable[ManagedObject]) -> Iterator[str]:
    """Yield the shell calls that undo the plan: all objects are held, then placed as before or released."""
    yield from (f"hold {unit.name}" for unit in units)
    yield from (call for unit in units for call in unit.sizes(back=True))
    ran = [unit for unit in units if any(job.now for job in unit.jobs)]
    yield from (unit.place([job.now for job in unit.jobs]) for unit in ran)
    for unit in units:
        if unit not in ran:
            yield " ".join(["release", unit.name, *map(shlex.quote, unit.paths())])
