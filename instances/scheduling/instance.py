"""Scheduling instances: jobs that arrive over time at a shared cluster, whose capacity may change.

Events change the cluster over time: amounts rise and fall, servers fail and return.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from ..common.arrays import Floats
from ..common.base import Instance
from ..common.faults import misspelt_resources
from ..common.fields import (
    NONE_NAMED,
    Amounts,
    Complaint,
    Many,
    Model,
    Name,
    Number,
    Positive,
    ServerCount,
    Share,
    entries,
    repeated,
    require,
    rows_or,
    unknown_names,
    unless,
)
from .configurations import (
    JobConfigurations,
    Menus,
    as_requested,
    configuration_faults,
    configurations_of,
    in_columns,
    that_ever_fit,
)
from .jobs import Duration, JobTable, SchedulingJob, Time

if TYPE_CHECKING:
    import pandas as pd


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
        """The names of the single servers."""
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
    change: Annotated[dict[Name, Number], *entries(1000)] = NONE_NAMED
    server: Name | None = None
    fails: Many[Name] = ()
    returns: Many[Name] = ()


Moments = NDArray[np.inexact[Any]]
"""Times of a cluster in seconds; or of its servers as n + i·s, s seconds on server n, sorted by server."""


@dataclass(frozen=True)
class ServerStates:
    """The capacity of each server over time.

    Attributes
    ----------
    names
        Names of the N servers.
    amounts
        Capacity of each at the start, shape (N, R).
    changes
        Changes as time, index of the server and its new amounts, shape (R,); sorted by time.
    """

    names: Sequence[str]
    amounts: Floats
    changes: Sequence[tuple[float, int, Floats]]

    @classmethod
    def of(
        cls, servers: Sequence[Server], events: Sequence[ClusterEvent], resources: Sequence[str]
    ) -> ServerStates:
        """Return the states of servers under events; invalid events are reported by `event_faults`."""
        rows = [in_columns(server.capacity, resources) for server in servers]
        counts = [server.count for server in servers]
        amounts = np.repeat(np.array(rows, dtype=float).reshape(-1, len(resources)), counts, axis=0)
        names = [name for server in servers for name in server.names]
        members = _members(servers)
        whole, up = amounts.copy(), np.ones(len(names), dtype=bool)
        changes: list[tuple[float, int, Floats]] = []
        for event in sorted(events, key=lambda event: event.at_s):
            parts = ([event.server] if event.server is not None else (), event.fails, event.returns)
            server, down, back = ([n for name in part for n in members.get(name, ())] for part in parts)
            whole[server] += in_columns(event.change, resources)
            up[down], up[back] = False, True
            changes += [(event.at_s, n, whole[n] * up[n]) for n in dict.fromkeys((*server, *down, *back))]
        return cls(names, amounts, changes)

    def over_time(self) -> tuple[Moments, Floats]:
        """Return the moments from which a server has other amounts, shape (K,), and these amounts, (K, R)."""
        moments = np.array([*range(len(self.names)), *(n + at_s * 1j for at_s, n, _ in self.changes)])
        amounts = np.vstack([self.amounts, *(amounts for _, _, amounts in self.changes)])
        order = np.argsort(moments, kind="stable")
        return moments[order].astype(complex), amounts[order]

    def in_all(self) -> tuple[Floats, Floats]:
        """Return the times of changes, shape (K,), and total capacity from each on, shape (K, R)."""
        now = self.amounts.copy()
        total = now.sum(axis=0)
        totals = {0.0: total}
        for at_s, n, amounts in self.changes:
            total = total + (amounts - now[n])
            now[n] = amounts
            totals[at_s] = total
        return np.array([*totals]), np.maximum(np.array([*totals.values()]), 0.0)


def _members(servers: Sequence[Server]) -> dict[str, list[int]]:
    """Return name in an event → indices of its servers: a single one, or all identical ones."""
    indices: dict[str, list[int]] = {}
    first = 0
    for server in servers:
        indices[server.name] = list(range(first, first + server.count))
        indices |= {name: [first + k] for k, name in enumerate(server.names)}
        first += server.count
    return indices


def event_faults(
    servers: Sequence[Server], events: Sequence[ClusterEvent], resources: Mapping[str, float]
) -> Iterator[Complaint]:
    """Yield complaints about events that name unknown objects or change nothing."""
    members = _members(servers)
    down: set[int] = set()
    for index in sorted(range(len(events)), key=lambda index: events[index].at_s):
        event, path = events[index], f"events[{index}]"
        yield from unknown_names(event.change, resources, f"{path}.change", "resource")
        if not (event.change or event.fails or event.returns):
            yield path, "changes nothing; give change, fails or returns"
        if not servers:
            for field in ("server", "fails", "returns"):
                if getattr(event, field):
                    yield f"{path}.{field}", "names servers, and the cluster has none"
            continue
        if event.change and event.server is None:
            yield f"{path}.change", "does not say of which server; name it in server"
        for field in ("fails", "returns"):
            names = getattr(event, field)
            yield from unknown_names(names, members, f"{path}.{field}", "server")
            named = {n for name in names for n in members.get(name, ())}
            if named & down if field == "fails" else named - down:
                there = "down" if field == "fails" else "there"
                yield f"{path}.{field}", f"{names[0]!r}: there is no change, for it is {there} already"
            down = down | named if field == "fails" else down - named
        if event.server is not None:
            yield from unknown_names([event.server], members, f"{path}.server", "server")


MAX_COMPLAINTS = 100
TIME_RESOLUTION = 4e-15
"""Relative resolution of times as doubles."""


def _first(wrong: Any) -> list[int]:
    """Return the first of the marked rows, as many as are named in complaints."""
    rows: list[int] = np.flatnonzero(wrong)[:MAX_COMPLAINTS].tolist()
    return rows


if TYPE_CHECKING:
    Rows = Sequence[SchedulingJob]
else:
    Rows = tuple[SchedulingJob, ...]  # the type in documents; a job table is not validated again

Jobs = Annotated[Rows, *rows_or(JobTable)]
"""A tuple of jobs; at scale a `JobTable`, which holds them in columns."""


class SchedulingInstance(Instance):
    """Which job runs when?

    Attributes
    ----------
    objective
        `mean_completion_time`, Σ ω_j (C_j − r_j) / Σ ω_j, or `makespan`, max C_j − min r_j; both in seconds.
    resources
        C_r, how much of each resource the cluster has, as one pool.
    servers
        Instead of `resources`: the servers whose capacities make up the pool.
    preemption
        `free`: a job may be stopped and goes on later without loss; `costs`: every start but the first
        makes no progress for `restart_s`; `none`: a job that has started runs to its end.
    restart_s
        Of jobs that have no figure of their own; counts where preemption costs.
    lease_s
        The least time a job keeps what it got, unless it ends before.
    events
        What happens to the cluster: amounts change, servers fail and return. A job that has no room any more
        loses its place; it is stopped and goes on later.
    evict
        Where `preemption: none`: whether it is an `error` that a job loses its place, or it may `restart`.
    checkpoint_s
        A job that is stopped when amounts fall, of the cluster or of its servers, loses the work since the
        last multiple of so many seconds of its work. Without it all of its work is lost where
        `preemption: none`, and otherwise nothing.
    skew_threshold
        Tiresias consolidates jobs whose `skew` is above this; by default 0.3.
    tenant_shares
        What tenants are guaranteed, relative to each other; 1 for those that are not named.
    """

    model_config = ConfigDict(
        json_schema_extra=require("schema_version", "kind", or_field=("resources", "servers"))
    )

    kind: Literal["scheduling"] = "scheduling"
    objective: Literal["mean_completion_time", "makespan"] = "mean_completion_time"
    resources: Amounts = {}
    servers: Many[Server] = ()
    preemption: Literal["free", "costs", "none"] = "free"
    restart_s: Time = 0.0
    lease_s: Time = 0.0
    events: Many[ClusterEvent] = ()
    evict: Annotated[Literal["error", "restart"] | None, unless("error")] = None
    checkpoint_s: Duration | None = None
    skew_threshold: Share | None = None
    tenant_shares: Annotated[dict[Name, Positive], *entries(10_000)] = {}
    jobs: Jobs

    def _complaints(self) -> Iterator[Complaint]:
        if bool(self.resources) == bool(self.servers):
            yield "resources", "give the resources of the cluster, or its servers, and not both"
            return
        yield from repeated((server.name for server in self.servers), "servers")
        table = self._columns
        yield from repeated(table.names, "jobs")
        unknown = list(self._unknown_resources(self.pool))
        yield from unknown
        if not table.weight.sum() > 0:
            yield "jobs", "have weights that add up to 0; at least one job must count"
        if unknown:
            return
        wrong = list(configuration_faults(table, self._choices, bool(self.servers)))
        yield from wrong or itertools.chain(self._amount_faults(self.table()), self._misspelt_resources())

    def _unknown_resources(self, known: Amounts) -> Iterator[Complaint]:
        table = self._columns
        objects = table.malleable if isinstance(self.jobs, JobTable) else dict(enumerate(self.jobs))
        for j, job in objects.items():
            for path, demand in job.demands():
                yield from unknown_names(demand, known, f"jobs[{j}].{path}", "resource")
        if isinstance(self.jobs, JobTable):
            yield from unknown_names(self.jobs.resources, known, "jobs", "resource")
        yield from event_faults(self.servers, self.events, known)
        yield from unknown_names(self.tenant_shares, table.tenants, "tenant_shares", "tenant")

    def _misspelt_resources(self) -> Iterator[Complaint]:
        table = self.table()
        asked = [name for r, name in enumerate(table.resources) if table.demand[:, r].any()]
        asked += [name for job in table.malleable.values() for _, demand in job.demands() for name in demand]
        return misspelt_resources(
            self.servers,
            self.pool,
            dict.fromkeys(asked),
            lambda server: dict.fromkeys(server.capacity, "capacity"),
        )

    def _amount_faults(self, table: JobTable) -> Iterator[Complaint]:
        """Yield complaints about jobs with no, tiny or too large demands, and negative capacities."""
        times, amounts = self.capacity_over_time
        for at_s, n, left in self.server_states.changes[:MAX_COMPLAINTS]:
            if left.min() < 0:
                what = f"{left.min():g} {table.resources[left.argmin()]} of {self.server_states.names[n]!r}"
                yield "events", f"leave {what} at {at_s:g} s; there cannot be less than 0"
        for k, r in np.argwhere(amounts < 0)[:MAX_COMPLAINTS].tolist():
            what = f"{amounts[k, r]:g} {table.resources[r]} at {times[k]:g} s"
            yield "events", f"leave {what}; there cannot be less than 0"
        demand = table.total_demand
        for j in _first(~(demand > 0).any(axis=1)):
            yield f"jobs[{j}].demand", "asks for nothing; at least one amount must be above 0"
        # Times are doubles, whose resolution decreases with the time since 0.
        last = float(table.arrival_s.max() + table.duration_s.sum())
        for j in _first(table.duration_s < TIME_RESOLUTION * last):
            what = f"{table.duration_s[j]:g} s, too short beside moments of {last:g} s"
            yield f"jobs[{j}]", f"{table.names[j]!r} takes {what}; count times from a later moment"
        never = ~that_ever_fit(demand, amounts)
        most = amounts.max(axis=0)
        for j in _first(never):
            lacks = demand[j] > most + 1e-9 * most
            r = int(lacks.argmax())
            what = f"{table.names[j]!r} asks for {demand[j, r]:g} {table.resources[r]}, and the cluster has "
            never_at_once = ", but never all that it asks for at the same time"
            yield f"jobs[{j}]", f"{what}{most[r]:g}" + ("" if lacks.any() else never_at_once)
        if self.servers and not never.any():
            yield from self._shape_faults(table)

    def _shape_faults(self, table: JobTable) -> Iterator[Complaint]:
        """Yield complaints about jobs whose tasks do not fit even on all servers, empty and up."""
        capacity = self._single_servers
        # The capacity of a server after a change counts in addition to that at the start.
        count = np.ones(len(capacity))
        count[: len(self.servers)] = [server.count for server in self.servers]
        shapes, of = np.unique(table.demand, axis=0, return_inverse=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            rooms = np.floor(capacity[None] * (1 + 1e-9) / shapes[:, None])
        room = (np.where(shapes[:, None] > 0, rooms, np.inf).min(axis=2) @ count)[of.ravel()]
        for j in _first(table.tasks > room):
            what = f"{table.names[j]!r} has {table.tasks[j]:,} tasks, and all servers together hold"
            yield f"jobs[{j}]", f"{what} {room[j]:g} of them; a task runs on one server"

    @cached_property
    def pool(self) -> dict[str, float]:
        """Resource → its total amount in the cluster at the start."""
        if not self.servers:
            return dict(self.resources)
        totals: dict[str, float] = {}
        for server in self.servers:
            for name, amount in server.capacity.items():
                totals[name] = totals.get(name, 0.0) + server.count * amount
        return totals

    @cached_property
    def server_states(self) -> ServerStates:
        """The capacity of each server over time, with amounts in the order of `pool`."""
        return ServerStates.of(self.servers, self.events, tuple(self.pool))

    @cached_property
    def capacity_over_time(self) -> tuple[Floats, Floats]:
        """Times of changes, shape (K,), and total capacity from each on, shape (K, R)."""
        if self.servers:
            return self.server_states.in_all()
        now = np.array([*self.pool.values()])
        totals = {0.0: now}
        for event in sorted(self.events, key=lambda event: event.at_s):
            now = now + in_columns(event.change, self.pool)
            totals[event.at_s] = now
        return np.array([*totals]), np.array([*totals.values()])

    def table(self) -> JobTable:
        """Return the jobs as a column-oriented table, with demands in the order of `pool`.

        Malleable jobs are given in their requested configuration.
        """
        return self._table

    @cached_property
    def _table(self) -> JobTable:
        return as_requested(self._columns, self._menus)

    @cached_property
    def _columns(self) -> JobTable:
        return JobTable.of(self.jobs, tuple(self.pool))

    @cached_property
    def _choices(self) -> dict[int, JobConfigurations]:
        return configurations_of(self._columns, self.capacity_over_time[1], self._single_servers)

    @cached_property
    def _single_servers(self) -> Floats:
        """Capacity of each distinct server, or of the pool, at the start and after changes, (S, R)."""
        if not self.servers:
            return self.capacity_over_time[1]
        rows = [in_columns(server.capacity, self.pool) for server in self.servers]
        return np.vstack([rows, *(changed for _, _, changed in self.server_states.changes)])

    def menus(self) -> Menus:
        """Return the configuration tables of all jobs, in the order of `table`."""
        return self._menus

    @cached_property
    def _menus(self) -> Menus:
        return Menus.of(self._columns, self._choices)

    def sha256(self) -> str:
        """Return the hash of the canonical document, the same for jobs in columns and as objects."""
        digest = JobTable.of(self.jobs, tuple(sorted(self.pool))).sha256()
        document = self.model_dump(mode="json", exclude_none=True, exclude={"jobs"})
        return self._digest(document | {"jobs": digest})

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row for each job; a malleable one as requested."""
        frame, menus = self.table().to_frame(), self.menus()
        if menus.malleable:
            frame["work"] = menus.work
            frame["configurations"] = np.diff(menus.first)
            frame["requested"] = [menus.labels[row] for row in menus.requested.tolist()]
        return frame
