"""Plans in the words of those who carry them out: JSON, Slurm options, Kubernetes node affinity.

Only a plan that passes `verify` is written. Names come from untrusted documents: they are quoted where the
format can quote them, and refused where it cannot hold them.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from ..formulations.allocation_plan import JobAllocation
from ..formulations.consolidation import JobPlacement
from ..formulations.staging import Stage
from ..instances.base import Instance
from ..instances.errors import OptionError
from ..instances.importers.slurm_hostlist import compress_hostlist
from ..instances.reading import fail
from ..instances.staging import StagingInstance
from ..solvers.result import Result
from .verification import is_frontier, of_instance, parse_result, read_results, verify_stored

PlanFormat = Literal["json", "slurm", "kubernetes"]
LONGEST_LABEL = 63

_SLURM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def verified_result(instance: Instance, path: Path) -> tuple[Result | None, Sequence[str]]:
    """Return the stored result of an instance, if it passes verification, and else what is wrong with it.

    Raises
    ------
    InstanceError
        If the file does not hold exactly one result of the instance.
    """
    source = str(path)
    found = of_instance(instance, read_results(path))
    if len(found) != 1:
        raise fail(source, f"has {len(found)} results of the instance; give a file with one")
    if is_frontier(found[0]):
        raise fail(source, "is a frontier, which has many plans; give the result of one solve")
    verification = verify_stored(instance, found[0], source)
    if not verification.ok:
        return None, verification.faults
    return parse_result(found[0], source), ()


def export_plan(instance: Instance, result: Result, format: PlanFormat) -> str:
    """Return a verified plan as text.

    Parameters
    ----------
    instance, result
        What was solved, and its result with a plan.
    format
        `json` for every kind; `slurm` and `kubernetes` for consolidation.

    Raises
    ------
    InstanceError
        If the format cannot hold a name.
    OptionError
        If the result has no plan, or the format is not for its kind.
    """
    if result.plan is None:
        raise OptionError(f"{result.instance}: the result has no plan to export; it is {result.status}")
    if format == "json":
        return json.dumps(_as_data(instance, result), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if result.kind != "consolidation":
        raise OptionError(
            f"--format {format} is for plans of consolidation; a plan of {result.kind} is exported as json"
        )
    placed = [entry for entry in result.plan if isinstance(entry, JobPlacement) and entry.placed]
    lines = _slurm_lines(placed) if format == "slurm" else _kubernetes_lines(placed)
    return "".join(line + "\n" for line in lines)


def unplaced(result: Result) -> list[tuple[str, str]]:
    """Return the jobs that a plan leaves out, with the reason."""
    return [
        (entry.job, getattr(entry, "reason", None) or "no reason is given")
        for entry in result.plan or ()
        if isinstance(entry, JobPlacement | JobAllocation) and not entry.placed
    ]


def sharing_groups(result: Result) -> list[str]:
    """Return the jobs of which several groups of tasks are on one server."""
    return [
        entry.job
        for entry in result.plan or ()
        if isinstance(entry, JobPlacement)
        and sum(len(servers) for servers in entry.tasks.values()) > len(entry.used_servers)
    ]


def _as_data(instance: Instance, result: Result) -> dict[str, Any]:
    head = {
        "instance": result.instance,
        "kind": result.kind,
        "instance_sha256": result.instance_sha256,
        "plan_sha256": result.plan_sha256,
        "status": result.status,
    }
    plan = result.plan or ()
    if isinstance(instance, StagingInstance):
        names = [layer.name for layer in instance.layers]
        stages = [
            {**entry.model_dump(), "layers": names[entry.first_layer : entry.last_layer + 1]}
            for entry in plan
            if isinstance(entry, Stage)
        ]
        return {**head, "stages": stages}
    jobs: dict[str, Any] = {}
    groups: dict[str, Any] = {}
    for entry in plan:
        if isinstance(entry, JobAllocation) and entry.placed:
            jobs[entry.job] = entry.model_dump(exclude={"job", "placed"})
        elif isinstance(entry, JobPlacement) and entry.placed:
            jobs[entry.job] = _tasks(entry)
            if entry.groups is not None:
                groups[entry.job] = entry.groups
    return {
        **head,
        "jobs": jobs,
        **({"groups": groups} if groups else {}),
        "unplaced": dict(unplaced(result)),
    }


def _tasks(entry: JobPlacement) -> dict[str, int]:
    """Return server → tasks of all groups."""
    total = Counter[str]()
    for placed in entry.tasks.values():
        total.update(placed)
    return dict(total)


def _checked(servers: dict[str, int], entry: JobPlacement, pattern: re.Pattern[str], what: str) -> None:
    for server in servers:
        if not pattern.fullmatch(server):
            raise fail("plan", f"the server {server!r} cannot be {what}", f"job {entry.job!r}")


def _slurm_lines(placed: Sequence[JobPlacement]) -> Iterator[str]:
    """Return for each job its name and the options of sbatch or srun, as words of a shell.

    Several groups of tasks are the parts of a heterogeneous job, with a colon between them.
    """
    for entry in placed:
        parts = []
        for servers in entry.tasks.values():
            _checked(servers, entry, _SLURM_NAME, "a Slurm node: letters, digits, '.', '_', '-'")
            parts.append(" ".join(map(shlex.quote, _slurm_options(servers))))
        yield f"{shlex.quote(entry.job)} {' : '.join(parts)}"


def _slurm_options(servers: dict[str, int]) -> list[str]:
    """Return the options that put these numbers of tasks on these nodes."""
    tasks = f"--ntasks={sum(servers.values())}"
    counts = set(servers.values())
    if len(counts) == 1:
        nodes = [f"--nodelist={compress_hostlist(servers)}", f"--nodes={len(servers)}"]
        return [*nodes, tasks, f"--ntasks-per-node={counts.pop()}"]
    # Slurm takes a node once for each task, and refuses --nodes beside this distribution.
    each = ",".join(server for server, count in servers.items() for _ in range(count))
    return [f"--nodelist={each}", tasks, "--distribution=arbitrary"]


def _kubernetes_lines(placed: Sequence[JobPlacement]) -> Iterator[str]:
    """Return a YAML document for each group of pods: a patch of what has the pods' template.

    Text from outside stands in double quotes, as in JSON, which YAML reads alike.
    """
    taken: set[str] = set()
    for entry in placed:
        for group, servers in entry.tasks.items():
            _checked(
                servers, entry, _LABEL_VALUE, "a Kubernetes label: at most 63 of a-z, A-Z, 0-9, '.', '_', '-'"
            )
            name = _object_name(entry.job if entry.groups is None else f"{entry.job}-{group}", taken)
            counts = ", ".join(f"{server} {count}" for server, count in servers.items())
            annotations = {"clusterplan/job": entry.job}
            if entry.groups is not None:
                annotations["clusterplan/group"] = group
            yield "---"
            yield f"# Pods per node: {counts}. Affinity alone does not hold them to these numbers."
            yield "metadata:"
            yield f"  name: {_quoted(name)}"
            yield "  annotations:"
            yield from (f"    {key}: {_quoted(value)}" for key, value in annotations.items())
            yield "spec:"
            yield "  template:"
            yield "    spec:"
            yield "      affinity:"
            yield "        nodeAffinity:"
            yield "          requiredDuringSchedulingIgnoredDuringExecution:"
            yield "            nodeSelectorTerms:"
            yield "              - matchExpressions:"
            yield "                  - key: kubernetes.io/hostname"
            yield "                    operator: In"
            yield f"                    values: [{', '.join(map(_quoted, servers))}]"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _object_name(text: str, taken: set[str]) -> str:
    """Return the DNS label nearest to a text; with a digest of it where that is another's, or too long."""
    plain = name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    digest = text
    while not name or len(name) > LONGEST_LABEL or name in taken:
        digest = hashlib.sha256(digest.encode()).hexdigest()[:8]
        name = f"{plain[: LONGEST_LABEL - 9].strip('-') or 'job'}-{digest}"
    taken.add(name)
    return name
