"""What a scenario may change in an instance of consolidation: servers, jobs and their values."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ...instances.common.errors import OptionError
from ...instances.consolidation.instance import ConsolidationInstance
from ..reports.text import listed
from ..scenarios import ScenarioChange, amount, fresh_names, matching, named_amount, rows_of, times

Rows = list[dict[str, Any]]


def what_if(instance: ConsolidationInstance) -> dict[str, ScenarioChange]:
    """Return the changes that a scenario may make."""
    del instance
    return {
        "drain": ScenarioChange("drain=SERVER", _drain),
        "add": ScenarioChange("add=NxSERVER or NxGPU_MODEL", _add),
        "remove": ScenarioChange("remove=JOB", _remove),
        "value": ScenarioChange("value=JOB:AMOUNT", _value),
        "must-place": ScenarioChange("must-place=JOB", _must_place),
    }


def _drain(instance: ConsolidationInstance, pattern: str) -> dict[str, Rows]:
    """Leave servers with nothing free, so that what runs there moves or stops."""
    rows, names = rows_of(instance, "servers"), [server.name for server in instance.expanded_servers]
    given = {row["name"]: row for row in rows if "count" in row}
    wanted = matching(pattern, [*names, *given], "server")
    found, single = [], iter(names)
    for row in rows:
        of_row = [next(single) for _ in range(row.get("count", 1))]
        empty = set(of_row) if row["name"] in wanted else wanted.intersection(of_row)
        if not empty:
            found.append(row)
            continue
        # Servers of one row that are no longer alike get rows of their own.
        plain = {key: value for key, value in row.items() if key != "count"}
        found += [{**(_drained(plain) if name in empty else plain), "name": name} for name in of_row]
    return {"servers": found}


def _drained(server: dict[str, Any]) -> dict[str, Any]:
    devices = server.get("devices", {})
    free = dict.fromkeys((*server["capacity"], *devices), 0)
    untaken = {name: {**each, "taken": None} for name, each in devices.items()}
    return {**server, "free": free, **({"devices": untaken} if devices else {})}


def _add(instance: ConsolidationInstance, text: str) -> dict[str, Rows]:
    """Add empty servers like one that is named, or like the commonest of a GPU model."""
    count, like = times(text)
    servers = instance.expanded_servers
    rows = {row["name"]: row for row in rows_of(instance, "servers")}
    single = {server.name: server for server in servers}
    first_of_row = f"{like}-0"  # a row whose servers an earlier change took apart
    if like in rows:
        model = rows[like]
    elif like in single or first_of_row in single:
        found = single.get(like) or single[first_of_row]
        model = found.model_dump(mode="json", exclude_none=True)
    else:
        model = _commonest(instance, like)
        like = model["name"]
    kept = {key: value for key, value in model.items() if key not in ("count", "free", "traffic_gbit_per_s")}
    for devices in kept.get("devices", {}).values():
        devices.pop("taken", None)
    made = [{**kept, "name": name} for name in fresh_names(count, like, [*single, *rows])]
    return {"servers": [*rows.values(), *made]}


def _commonest(instance: ConsolidationInstance, model: str) -> dict[str, Any]:
    """Return the row of the most servers with a GPU model, whichever way its letters are written."""
    shapes: Counter[str] = Counter()
    first: dict[str, dict[str, Any]] = {}
    for row in rows_of(instance, "servers"):
        if str(row.get("gpu_model")).lower() == model.lower():
            shape = repr((row["capacity"], row.get("devices")))
            shapes[shape] += row.get("count", 1)
            first.setdefault(shape, row)
    if not shapes:
        models = dict.fromkeys(server.gpu_model for server in instance.servers if server.gpu_model)
        names = [server.name for server in instance.servers]
        have = f"models {listed(list(models))}; " if models else ""
        raise OptionError(f"no server and no GPU model is called {model!r}; there are: {have}{listed(names)}")
    return first[shapes.most_common(1)[0][0]]


def _remove(instance: ConsolidationInstance, pattern: str) -> dict[str, Rows]:
    gone = _jobs(instance, pattern)
    return {"jobs": [row for row in rows_of(instance, "jobs") if row["name"] not in gone]}


def _value(instance: ConsolidationInstance, text: str) -> dict[str, Rows]:
    pattern, value = named_amount(text)
    chosen, worth = _jobs(instance, pattern), {job.name: job.worth for job in instance.jobs}
    return {
        "jobs": [
            {**row, "value": amount(value, worth[row["name"]])} if row["name"] in chosen else row
            for row in rows_of(instance, "jobs")
        ]
    }


def _must_place(instance: ConsolidationInstance, pattern: str) -> dict[str, Rows]:
    chosen = _jobs(instance, pattern)
    rows = rows_of(instance, "jobs")
    return {"jobs": [{**row, "must_place": True} if row["name"] in chosen else row for row in rows]}


def _jobs(instance: ConsolidationInstance, pattern: str) -> set[str]:
    return matching(pattern, (job.name for job in instance.jobs), "job")
