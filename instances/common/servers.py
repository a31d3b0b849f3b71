"""Servers of a cluster: capacities, free amounts, and rows that stand for several identical servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, TypeVar

from pydantic import ConfigDict, Field

from .fields import Amounts, Checked, Complaint, Name, NonNegative, ServerCount, repeated, require

MAX_SERVERS = 1_000_000


class AnyServer(Checked):
    """A server, or `count` identical ones that are then called NAME-0, NAME-1, ….

    Attributes
    ----------
    capacity
        What the server has of each resource.
    free
        What is left for the listed jobs, what they hold now included; all of it if not given.
    price_usd_per_hour
        What the server costs while it runs. A catalogue has it.
    """

    model_config = ConfigDict(json_schema_extra=require(or_field=("capacity", "hardware")))

    name: Name
    count: ServerCount | None = None
    hardware: Name | None = None
    capacity: Annotated[Amounts, Field(min_length=1)]
    free: Amounts | None = None
    rack: Name | None = None
    gpu_model: Name | None = None
    price_usd_per_hour: NonNegative | None = None

    def _complaints(self) -> Iterator[Complaint]:
        for name, amount in (self.free or {}).items():
            yield from self._free_amount_faults(name, amount)

    def _free_amount_faults(self, name: str, amount: float) -> Iterator[Complaint]:
        if amount > self.capacity.get(name, 0.0):
            yield f"free.{name}", f"is {amount:g}, more than the capacity {self.capacity.get(name, 0.0):g}"

    @property
    def available(self) -> dict[str, float]:
        """The amount of each resource that a plan may use."""
        return self.capacity if self.free is None else self.free


ServerT = TypeVar("ServerT", bound=AnyServer)


def each_server(servers: Sequence[ServerT]) -> Iterator[tuple[str, ServerT]]:
    """Yield the name of every single server and the row that lists it, without making the servers."""
    for server in servers:
        if server.count is None:
            yield server.name, server
        else:
            yield from ((f"{server.name}-{k}", server) for k in range(server.count))


def name_complaints(servers: Sequence[AnyServer]) -> Iterator[Complaint]:
    """Yield complaints about names that two servers have, and about too many servers."""
    yield from repeated((server.name for server in servers), "servers")
    if sum(server.count or 1 for server in servers) > MAX_SERVERS:
        yield "servers", f"more than {MAX_SERVERS:,} servers; at most that many are allowed"
        return
    names = Counter(name for name, _ in each_server(servers))
    if len(names) < names.total() and len({server.name for server in servers}) == len(servers):
        again = min(name for name, count in names.items() if count > 1)
        yield "servers", f"a count gives the name {again!r}, which another server has; rename one"
