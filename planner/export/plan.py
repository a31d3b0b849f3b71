"""Plans in the words of those who carry them out: JSON, Slurm options, Kubernetes node affinity.

Only a plan that passes `verify` is written. Names come from untrusted documents: they are quoted where the
format can quote them, and refused where it cannot hold them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from ...formulations.allocation.plan import JobAllocation
from ...formulations.consolidation.plan import JobPlacement
from ...formulations.staging.plan import Stage
from ...instances.common.base import Instance
from ...instances.common.errors import OptionError
from ...instances.consolidation.instance import ConsolidationInstance
from ...instances.files.reading import fail
from ...instances.staging.instance import StagingInstance
from ...solvers.common.result import Result
from ..consolidation.kubernetes import kubernetes_lines
from ..consolidation.slurm import slurm_lines, slurm_notes
from ..verification.findings import Verification
from ..verification.result import is_frontier, of_instance, parse_result, read_results, verify_stored

PlanFormat = Literal["json", "slurm", "kubernetes"]
MOST_NAMED = 20
"""Jobs of one kind that are named on stderr."""


def verified_result(instance: Instance, path: Path) -> tuple[Result | None, Verification]:
    """Return the stored result of an instance, unless something in it is false, and what its check found.

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
        return None, verification
    return parse_result(found[0], source), verification


def export_plan(
    instance: Instance,
    result: Result,
    format: PlanFormat,
    every: bool = False,
    checked: Verification | None = None,
) -> str:
    """Return a verified plan as text.

    Parameters
    ----------
    instance, result
        What was solved, and its result with a plan.
    format
        `json` for every kind; `slurm` and `kubernetes` for consolidation.
    every
        Where jobs run already, `slurm` and `kubernetes` hold those to start and to move; with this every
        job that is placed.
    checked
        What the check of the result found: `json` and `kubernetes` say what is only claimed; a line of
        `slurm` has no place for it.

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
        data = {**_as_data(instance, result), **_claims(checked)}
        return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if not isinstance(instance, ConsolidationInstance):
        raise OptionError(
            f"--format {format} is for plans of consolidation; a plan of {result.kind} is exported as json"
        )
    placed = _to_write(result, every)
    if format == "slurm":
        return "".join(line + "\n" for line in slurm_lines(instance, placed))
    comments = [] if checked is None else [f"# ONLY CLAIMED: {_plain(line)}" for line in checked.claimed]
    return "".join(line + "\n" for line in [*comments, *kubernetes_lines(placed)])


def _plain(text: str) -> str:
    """Return text that stays within its line, whoever wrote it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _claims(checked: Verification | None) -> dict[str, Any]:
    return {} if checked is None else {"complete": checked.complete, "claimed": list(checked.claimed)}


def notes(instance: Instance, result: Result, format: PlanFormat, every: bool = False) -> Iterator[str]:
    """Say what the text of a plan does not: what runs on, stops or moves, is left out, or cannot be said."""
    if isinstance(instance, ConsolidationInstance):
        yield from _actions(instance, result)
        if format == "slurm":
            yield from slurm_notes(instance, _to_write(result, every))
    out = [f"not placed: {job}: {reason}" for job, reason in unplaced(result)]
    yield from _some(out, "not placed: {} more; the result says why")


def _to_write(result: Result, every: bool) -> list[JobPlacement]:
    entries = [entry for entry in result.plan or () if isinstance(entry, JobPlacement) and entry.placed]
    return [entry for entry in entries if every or entry.action in (None, "start", "move")]


def _some(lines: Sequence[str], more: str) -> Iterator[str]:
    yield from lines[:MOST_NAMED]
    if len(lines) > MOST_NAMED:
        yield more.format(f"{len(lines) - MOST_NAMED:,}")


def _actions(instance: ConsolidationInstance, result: Result) -> Iterator[str]:
    """Say which jobs run on, which are to be stopped, and which move."""
    entries = [entry for entry in result.plan or () if isinstance(entry, JobPlacement)]
    keep = sum(entry.action == "keep" for entry in entries)
    if keep:
        yield "1 job keeps running where it is" if keep == 1 else f"{keep:,} jobs keep running where they are"
    now = _now(instance)
    stops = [
        f"to stop: {e.job}: runs on {_counts(_total(now[e.job]))}" for e in entries if e.action == "stop"
    ]
    yield from _some(stops, "to stop: {} more")
    moves = [f"to move: {e.job}: {_move(now[e.job], e)}" for e in entries if e.action == "move"]
    yield from _some(moves, "to move: {} more")


def _now(instance: ConsolidationInstance) -> dict[str, dict[str, Counter[str]]]:
    """Return job → group → server → tasks there now."""
    return {
        job.name: {group.name: Counter(group.current) for group in job.task_groups} for job in instance.jobs
    }


def _total(groups: dict[str, Counter[str]]) -> Counter[str]:
    return sum(groups.values(), Counter[str]())


def _move(now: dict[str, Counter[str]], entry: JobPlacement) -> str:
    """Say which tasks leave which servers for which."""
    planned = {group: Counter(servers) for group, servers in entry.tasks.items()}
    leaving = _total({group: counts - planned.get(group, Counter()) for group, counts in now.items()})
    coming = _total({group: counts - now.get(group, Counter()) for group, counts in planned.items()})
    parts = [f"from {_counts(leaving)}" if leaving else "", f"to {_counts(coming)}" if coming else ""]
    return " ".join(filter(None, parts))


def _counts(servers: Counter[str]) -> str:
    return ", ".join(f"{server} {count}" for server, count in servers.items())


def unplaced(result: Result) -> list[tuple[str, str]]:
    """Return the jobs that a plan leaves out, with the reason."""
    return [
        (entry.job, getattr(entry, "reason", None) or "no reason is given")
        for entry in result.plan or ()
        if isinstance(entry, JobPlacement | JobAllocation) and not entry.placed
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
    actions: dict[str, str] = {}
    for entry in plan:
        if isinstance(entry, JobAllocation) and entry.placed:
            jobs[entry.job] = entry.model_dump(exclude={"job", "placed"})
        elif isinstance(entry, JobPlacement) and entry.placed:
            jobs[entry.job] = _tasks(entry)
            if entry.groups is not None:
                groups[entry.job] = entry.groups
        if isinstance(entry, JobPlacement) and entry.action is not None:
            actions[entry.job] = entry.action
    now = _now(instance) if actions and isinstance(instance, ConsolidationInstance) else {}
    runs = {job: dict(_total(now[job])) for job, action in actions.items() if action in ("move", "stop")}
    return {
        **head,
        "jobs": jobs,
        **({"groups": groups} if groups else {}),
        **({"actions": actions, "runs_now_on": runs} if actions else {}),
        "unplaced": dict(unplaced(result)),
    }


def _tasks(entry: JobPlacement) -> dict[str, int]:
    """Return server → tasks of all groups."""
    total = Counter[str]()
    for placed in entry.tasks.values():
        total.update(placed)
    return dict(total)
