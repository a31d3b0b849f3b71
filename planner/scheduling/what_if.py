"""What a scenario may change in an instance of scheduling: the size of the cluster, and jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...instances.common.errors import OptionError
from ...instances.scheduling.instance import SchedulingInstance
from ..scenarios import ScenarioChange, amount, fresh_names, matching, rows_of, times


def what_if(instance: SchedulingInstance) -> dict[str, ScenarioChange]:
    """Return the changes that a scenario may make; each resource of a pool is one."""
    jobs = {"remove": ScenarioChange("remove=JOB", _remove)}
    if instance.servers:
        return {
            "add": ScenarioChange("add=NxSERVER", _add),
            "drain": ScenarioChange("drain=SERVER", _drain),
            **jobs,
        }
    return {name: ScenarioChange(f"{name}=+10", _resource(name)) for name in instance.resources} | jobs


def _resource(name: str) -> Callable[[SchedulingInstance, str], dict[str, Any]]:
    def fields(instance: SchedulingInstance, text: str) -> dict[str, Any]:
        new = amount(text, instance.resources[name])
        if new is None:
            raise OptionError(f"{name}={text}: a cluster has so many of them; write 32, +8, -4 or -20%")
        return {"resources": {**instance.resources, name: new}}

    return fields


def _add(instance: SchedulingInstance, text: str) -> dict[str, Any]:
    """Add servers like one row that is there."""
    count, like = times(text)
    rows = {row["name"]: row for row in rows_of(instance, "servers")}
    (name, *_) = sorted(matching(like, rows, "server"))
    (new,) = fresh_names(1, name, rows)
    return {"servers": [*rows.values(), {**rows[name], "name": new, "count": count}]}


def _drain(instance: SchedulingInstance, pattern: str) -> dict[str, Any]:
    """Take away rows of servers, or single ones of them."""
    rows = {row["name"]: row for row in rows_of(instance, "servers")}
    names = [name for server in instance.servers for name in server.names]
    gone = matching(pattern, [*rows, *names], "server")
    found = []
    for server, (row_name, row) in zip(instance.servers, rows.items(), strict=True):
        left = [] if row_name in gone else [name for name in server.names if name not in gone]
        if len(left) == server.count:
            found.append(row)
        else:
            # The others keep their names, by which events may call them.
            alone = {key: value for key, value in row.items() if key != "count"}
            found += [{**alone, "name": name} for name in left]
    if not found:
        raise OptionError("leaves no server; jobs need one at least")
    return {"servers": found}


def _remove(instance: SchedulingInstance, pattern: str) -> dict[str, Any]:
    rows = {row["name"]: row for row in rows_of(instance, "jobs")}
    gone = matching(pattern, rows, "job")
    return {"jobs": [row for name, row in rows.items() if name not in gone]}
