"""Changes of a schedule: scenario changes of its data, and differences between two schedules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from ...formulations.scheduling.formulation import SchedulingFormulation
from ...formulations.scheduling.plan import Segment
from ...instances.common.errors import OptionError
from ...instances.scheduling.instance import SchedulingInstance
from ..changes import (
    REMOVE_JOB,
    Amount,
    Changes,
    ScenarioChange,
    changes_of,
    count_and_name,
    fresh_names,
    matching,
    of_resource,
    rows_of,
)
from ..reports.text import counted, duration, figure


def what_if(instance: SchedulingInstance) -> dict[str, ScenarioChange]:
    """Return the types of scenario change by key; each resource is a key if there are no servers."""
    jobs = {"remove": REMOVE_JOB}
    if instance.servers:
        return {
            "add": ScenarioChange("add=NxSERVER", _add),
            "drain": ScenarioChange("drain=SERVER", _drain),
            **jobs,
        }
    return {name: of_resource(name, f"{name}=+10", limited=True) for name in instance.resources} | jobs


def _add(instance: SchedulingInstance, text: str) -> dict[str, Any]:
    """Return the changed list of server entries, with new servers like those of an existing entry."""
    count, like = count_and_name(text)
    rows = rows_of(instance, "servers")
    (name, *_) = sorted(matching(like, rows, "server"))
    (new,) = fresh_names(1, name, rows)
    return {"servers": [*rows.values(), {**rows[name], "name": new, "count": count}]}


def _drain(instance: SchedulingInstance, pattern: str) -> dict[str, Any]:
    """Return the changed list of server entries, without the entries or single servers that match."""
    rows = rows_of(instance, "servers")
    names = [name for server in instance.servers for name in server.names]
    gone = matching(pattern, [*rows, *names], "server")
    remaining = []
    for server, (row_name, row) in zip(instance.servers, rows.items(), strict=True):
        left = [] if row_name in gone else [name for name in server.names if name not in gone]
        if len(left) == server.count:
            remaining.append(row)
        else:
            # The others keep their names, by which events may call them.
            alone = {key: value for key, value in row.items() if key != "count"}
            remaining += [{**alone, "name": name} for name in left]
    if not remaining:
        raise OptionError("leaves no server; jobs need one at least")
    return {"servers": remaining}


def answer(instance: SchedulingInstance, plan: Sequence[Segment]) -> str:
    """Return a one-sentence summary of a schedule: mean completion time, mean wait and makespan."""
    stats = SchedulingFormulation(instance).metrics(plan)
    return (
        f"{counted(len(instance.jobs), 'job')} take {duration(stats.mean_s)} on average, of which they wait "
        f"{duration(stats.mean_queueing_s)}; the last ends after {duration(stats.makespan_s)}."
    )


def changes(
    instance: SchedulingInstance, before: Sequence[Segment] | None, after: Sequence[Segment]
) -> Changes:
    """Return the jobs that run at other times in the second schedule, and the changes of the metrics.

    Raises
    ------
    OptionError
        If `before` is None: scheduling instances do not describe a running plan.
    """
    if before is None:
        raise OptionError("an instance of scheduling does not say what runs now; give two results to compare")
    formulation = SchedulingFormulation(instance)
    old, new = formulation.metrics(before), formulation.metrics(after)
    amounts = [
        Amount("mean completion time [s]", old.mean_s, new.mean_s),
        Amount("99th percentile [s]", old.p99_s, new.p99_s),
        Amount("makespan [s]", old.makespan_s, new.makespan_s),
        Amount("preemptions", old.preemptions, new.preemptions),
    ]
    return changes_of("job", "move", _run_times(before), _run_times(after), amounts)


def _run_times(plan: Sequence[Segment]) -> dict[str, str]:
    """Return the first start and the last end of each job, in seconds, as text."""
    segments: dict[str, list[Segment]] = defaultdict(list)
    for entry in plan:
        segments[entry.job].append(entry)
    return {
        job: f"{figure(min(e.start_s for e in entries))}–{figure(max(e.end_s for e in entries))} s"
        + (f" in {len(entries)} parts" if len(entries) > 1 else "")
        for job, entries in segments.items()
    }
