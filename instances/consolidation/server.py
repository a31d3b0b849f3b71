"""Servers of consolidation: what each has, and what of it is free."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field

from ..common.fields import (
    Amounts,
    Checked,
    Complaint,
    Flag,
    Name,
    NonNegative,
    ServerCount,
    only_true,
    require,
)
from ..common.frozen import frozen
from .devices import Device, Devices


class Server(Checked):
    """A server, or `count` identical ones that are then called NAME-0, NAME-1, ….

    Attributes
    ----------
    capacity
        What the server has of each resource.
    free
        What is left for the listed jobs, what they hold now included; all of it if not given.
    price_usd_per_hour
        What the server costs while it runs; plans do not depend on it, `diff` counts it. A catalogue has it.
    traffic_gbit_per_s
        Network load that is there already.
    in_use
        Something that is not listed runs on the server, so that it counts as used whatever the plan.
    devices
        Single devices, which tasks hold whole, in shares or in partitions; none is a resource as well. Where
        `free` is given and nothing is said to be taken, so many of the first devices are free.
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
    traffic_gbit_per_s: NonNegative = 0.0
    in_use: Annotated[Flag | None, AfterValidator(only_true)] = None
    devices: Annotated[dict[Name, Devices], Field(max_length=100), AfterValidator(frozen)] | None = None

    def _complaints(self) -> Iterator[Complaint]:
        for name, amount in (self.free or {}).items():
            if self.devices is not None and name in self.devices:
                yield from _free_devices_faults(name, amount, self.devices[name])
            elif amount > self.capacity.get(name, 0.0):
                what = f"is {amount:g}, more than the capacity {self.capacity.get(name, 0.0):g}"
                yield f"free.{name}", what

    @property
    def available(self) -> dict[str, float]:
        """What a plan may use of each resource."""
        if self.free is None:
            return self.capacity
        if self.devices is None:
            return self.free
        return {name: amount for name, amount in self.free.items() if name not in self.devices}

    @cached_property
    def device_states(self) -> dict[str, tuple[Device, ...]]:
        """The state of each device beside what others hold."""
        found = {}
        for name, devices in (self.devices or {}).items():
            states = devices.states
            if self.free is not None and devices.taken is None:
                free = int(self.free.get(name, 0.0))
                states = states[:free] + (Device("whole"),) * (devices.count - free)
            found[name] = states
        return found


def _free_devices_faults(name: str, amount: float, devices: Devices) -> Iterator[Complaint]:
    if devices.taken is not None:
        yield f"free.{name}", "is set beside what is taken of these devices; give one of both"
    elif amount != int(amount) or amount > devices.count:
        yield f"free.{name}", f"is {amount:g}; of {devices.count} devices a whole number is free"
