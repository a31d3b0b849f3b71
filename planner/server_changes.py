"""Changes of the servers of an instance in scenarios, and of what they hold between two plans."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

from ..instances.common.errors import OptionError
from ..instances.common.fields import Fields
from ..instances.common.servers import each_server
from .changes import Amount, count_and_name, fresh_names, matching, rows_of
from .reports.servers import ServersInUse
from .reports.text import listed

Rows = list[Fields]


def chosen_servers(instance: Any, pattern: str) -> tuple[list[str], set[str]]:
    """Return the single servers that a pattern means, by their names, rows or racks, and what it matches.

    Raises
    ------
    OptionError
        If it means none.
    """
    singles = each_server(instance.servers)
    names = {name: (name, row.name, row.rack or row.name) for name, row in singles}
    chosen = matching(pattern, chain(names, *names.values()), "server or rack")
    return [name for name, known in names.items() if not chosen.isdisjoint(known)], chosen


def added_servers(instance: Any, text: str) -> dict[str, Rows]:
    """Return the changed list of servers, with empty ones like a server or a GPU model's most common one."""
    count, like = count_and_name(text)
    rows, single = rows_of(instance, "servers"), dict(each_server(instance.servers))
    if like in rows:
        model = rows[like]
    elif like in single:
        model = single[like].model_dump(mode="json", exclude_none=True)
    else:
        model = _most_common_server(instance, like)
        like = model["name"]
    kept = {key: value for key, value in model.items() if key not in ("count", "free", "traffic_gbit_per_s")}
    for devices in kept.get("devices", {}).values():
        devices.pop("taken", None)
    made = [{**kept, "name": name} for name in fresh_names(count, like, [*single, *rows])]
    return {"servers": [*rows.values(), *made]}


def _most_common_server(instance: Any, model: str) -> Fields:
    """Return the document entry of the most common server type with a GPU model, ignoring case."""
    shapes: Counter[str] = Counter()
    first: dict[str, Fields] = {}
    for row in rows_of(instance, "servers").values():
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


def server_changes(before: ServersInUse, after: ServersInUse) -> tuple[Amount, Fields]:
    """Return the number of servers in use, and the further fields of differences between two plans.

    These are the servers of whose resource the plans use different amounts.
    """
    places = [
        Amount(
            name,
            row.used,
            after.rows[name].used,
            row.capacity - row.taken,
            "to be empty" if row.drained else "",
        )
        for name, row in before.rows.items()
    ]
    return Amount("servers in use", before.busy, after.busy, len(after.rows)), {
        "places": [place for place in places if place.differs],
        "place": f"{after.resource} on server",
    }
