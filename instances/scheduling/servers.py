"""Servers, and what happens to the cluster while a trace runs: amounts change, servers fail and return."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from ..common.arrays import Floats
from ..common.fields import (
    NONE_NAMED,
    Amounts,
    Complaint,
    Many,
    Model,
    Name,
    Number,
    ServerCount,
    in_slices,
    unknown_names,
)
from .job import Time


class Server(Model):
    """A server, or `count` identical ones, whose names are NAME-0, NAME-1, ….

    Attributes
    ----------
    capacity
        What one of them has of each resource.
    """

    name: Name
    count: ServerCount = 1
    capacity: Annotated[Amounts, Field(min_length=1)]
    rack: Name | None = None

    @property
    def names(self) -> Sequence[str]:
        """The name of each of them."""
        return [self.name] if self.count == 1 else [f"{self.name}-{k}" for k in range(self.count)]


class ClusterEvent(Model):
    """Something that happens to the cluster.

    Attributes
    ----------
    at_s
        When.
    change
        What is added to the amount of each resource from then on; negative where it is lost.
    server
        Whose amounts change, where there are servers.
    fails, returns
        Servers that are gone from then on, and that are back; the name of several alike stands for all of
        them. A server that is added later fails at 0.
    """

    at_s: Time
    change: Annotated[dict[Name, Number], Field(max_length=1000), in_slices(1000)] = NONE_NAMED
    server: Name | None = None
    fails: Many[Name] = ()
    returns: Many[Name] = ()


@dataclass(frozen=True)
class ServerStates:
    """What each server has over time.

    Attributes
    ----------
    names
        Of the N servers.
    amounts
        What each has at first, shape (N, R).
    changes
        When the amounts of which server change, and to what, shape (R,); sorted by time.
    """

    names: Sequence[str]
    amounts: Floats
    changes: Sequence[tuple[float, int, Floats]]

    @classmethod
    def of(
        cls, servers: Sequence[Server], events: Sequence[ClusterEvent], resources: Sequence[str]
    ) -> ServerStates:
        """Return what events make of servers; faults of events are those of `event_faults`."""
        rows = [[server.capacity.get(name, 0.0) for name in resources] for server in servers]
        counts = [server.count for server in servers]
        amounts = np.repeat(np.array(rows, dtype=float).reshape(-1, len(resources)), counts, axis=0)
        names = [name for server in servers for name in server.names]
        members = _members(servers)
        whole, up = amounts.copy(), np.ones(len(names), dtype=bool)
        changes: list[tuple[float, int, Floats]] = []
        for event in sorted(events, key=lambda event: event.at_s):
            touched = dict.fromkeys([event.server] if event.server is not None else [])
            touched |= dict.fromkeys((*event.fails, *event.returns))
            for name, is_up in (*((n, False) for n in event.fails), *((n, True) for n in event.returns)):
                up[members.get(name, [])] = is_up
            if event.server is not None:
                change = [event.change.get(name, 0.0) for name in resources]
                whole[members.get(event.server, [])] += np.array(change)
            for n in dict.fromkeys(n for name in touched for n in members.get(name, [])):
                changes.append((event.at_s, n, whole[n] * up[n]))
        return cls(names, amounts, changes)

    def in_all(self) -> tuple[Floats, Floats]:
        """Return from when on, shape (K,), all servers have how much together, shape (K, R)."""
        now = self.amounts.copy()
        times, totals = [0.0], [now.sum(axis=0)]
        for at_s, n, amounts in self.changes:
            total = totals[-1] + (amounts - now[n])
            now[n] = amounts
            if at_s == times[-1]:
                totals[-1] = total
            else:
                times.append(at_s)
                totals.append(total)
        return np.array(times), np.maximum(np.array(totals), 0.0)


def _members(servers: Sequence[Server]) -> dict[str, list[int]]:
    """Return the servers that a name stands for: one, or all that are alike."""
    found: dict[str, list[int]] = {}
    first = 0
    for server in servers:
        found[server.name] = list(range(first, first + server.count))
        found |= {name: [first + k] for k, name in enumerate(server.names) if server.count > 1}
        first += server.count
    return found


def event_faults(
    servers: Sequence[Server], events: Sequence[ClusterEvent], resources: Mapping[str, float]
) -> Iterator[Complaint]:
    """Yield events that name what is not there, or that change nothing."""
    members = _members(servers)
    down: set[int] = set()
    for index in sorted(range(len(events)), key=lambda index: events[index].at_s):
        event, path = events[index], f"events[{index}]"
        yield from unknown_names(event.change, resources, f"{path}.change", "resource", "resources")
        if not (event.change or event.fails or event.returns):
            yield path, "changes nothing; give change, fails or returns"
        if not servers:
            for field in ("server", "fails", "returns"):
                if getattr(event, field):
                    yield f"{path}.{field}", "names servers, and the cluster has none"
            continue
        if event.change and event.server is None:
            yield f"{path}.change", "does not say of which server; name it in server"
        named = {"fails": event.fails, "returns": event.returns}
        named["server"] = (event.server,) if event.server is not None else ()
        for field, names in named.items():
            known = [name for name in names if name in members]
            yield from unknown_names(names, members, f"{path}.{field}", "server", "servers")
            for n in [n for name in known if field != "server" for n in members[name]]:
                if (n in down) == (field == "fails"):
                    yield (
                        f"{path}.{field}",
                        f"{names[0]!r}: there is no change, for it is {_state(n in down)}",
                    )
                    break
            if field != "server":
                change = down.update if field == "fails" else down.difference_update
                change(n for name in known for n in members[name])


def _state(is_down: bool) -> str:
    return "down already" if is_down else "there already"
