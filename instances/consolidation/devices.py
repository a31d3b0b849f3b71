"""Single devices, such as GPUs: what servers have of them, what tasks ask for, and which ones they hold.

A device is whole, shared or partitioned, never two of these. A share is counted in thousandths of one device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from ..common.fields import Complaint, Count, Model, Name, in_slices, refuse
from ..common.frozen import FrozenDict, frozen
from ..common.geometries import GEOMETRIES, Geometry, Slot
from ..common.printable import shown

WHOLE = 1000
"""Thousandths of a device."""
MOST_DEVICES = 64
"""Devices of one name on a server."""

DeviceIndex = Annotated[Count, Field(lt=MOST_DEVICES)]
DeviceCount = Annotated[Count, Field(ge=1, le=MOST_DEVICES)]
Thousandths = Annotated[Count, Field(ge=1, lt=WHOLE)]


def _known_geometry(name: str) -> str:
    if name not in GEOMETRIES:
        context = {"given": shown(name), "known": ", ".join(GEOMETRIES)}
        raise PydanticCustomError("geometry", "is {given}; allowed: {known}", context)
    return name


class Taken(Model):
    """What others hold of a device: all of it, a share, or a partition.

    Attributes
    ----------
    share
        Thousandths.
    profile, slot
        The partition and where it starts.
    """

    device: DeviceIndex
    share: Annotated[Count, Field(ge=1, le=WHOLE)] | None = None
    profile: Name | None = None
    slot: Slot | None = None

    @model_validator(mode="after")
    def _check(self) -> Taken:
        complaints: list[Complaint] = []
        if (self.profile is None) != (self.slot is None):
            complaints.append(("slot", "goes with profile: give both, or none"))
        if self.share is not None and self.profile is not None:
            complaints.append(("share", "is set beside profile; a device is shared or partitioned"))
        refuse(complaints)
        return self


class Device(NamedTuple):
    """The state of one device.

    Attributes
    ----------
    mode
        `free`, `whole`, `shared` or `parted`.
    used
        Thousandths of a shared device; slots of a partitioned one, as bits of a number.
    """

    mode: str = "free"
    used: int = 0


class Devices(Model):
    """The devices of one name on a server.

    Attributes
    ----------
    geometry
        How each can be partitioned: the name of a built-in geometry, or slots and profiles.
    taken
        What others hold of them.
    """

    count: DeviceCount
    geometry: (
        Annotated[
            Annotated[Name, AfterValidator(_known_geometry), Tag("(name)")]
            | Annotated[Geometry, Tag("(geometry)")],
            Discriminator(lambda value: "(name)" if isinstance(value, str) else "(geometry)"),
        ]
        | None
    ) = None
    taken: Annotated[tuple[Taken, ...], Field(max_length=1000), in_slices(1000)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Devices:
        complaints: list[Complaint] = []
        self._states(complaints)
        refuse(complaints)
        return self

    @property
    def partitions(self) -> Geometry | None:
        """How each device can be partitioned; None if not at all."""
        return GEOMETRIES[self.geometry] if isinstance(self.geometry, str) else self.geometry

    @cached_property
    def states(self) -> tuple[Device, ...]:
        """The state of each device beside what others hold."""
        return self._states([])

    def _states(self, complaints: list[Complaint]) -> tuple[Device, ...]:
        """Return the state of each device, and note what others cannot hold at the same time."""
        states = [Device()] * self.count
        for position, taken in enumerate(self.taken or ()):
            path = f"taken[{position}]"
            if taken.device >= self.count:
                complaints.append((f"{path}.device", f"is {taken.device}; there are {self.count}, from 0 on"))
                continue
            after = self._after(states[taken.device], taken)
            if isinstance(after, str):
                complaints.append((path, after))
            else:
                states[taken.device] = after
        return tuple(states)

    def _after(self, before: Device, taken: Taken) -> Device | str:
        """Return the state of a device of which this is taken too, or why it cannot be."""
        if taken.profile is not None and taken.slot is not None:
            profile = (self.partitions.profiles if self.partitions else {}).get(taken.profile)
            if profile is None or taken.slot not in profile.starts:
                return f"no device here has {taken.profile!r} at slot {taken.slot}"
            mask = profile.mask(taken.slot)
            if before.mode not in ("free", "parted") or before.used & mask:
                return f"device {taken.device} has no room for it beside what else is taken"
            return Device("parted", before.used | mask)
        if taken.share is not None:
            used = before.used + taken.share
            if before.mode not in ("free", "shared") or used > WHOLE:
                return f"device {taken.device} has no room for it beside what else is taken"
            return Device("shared", used)
        if before.mode != "free":
            return f"device {taken.device} is not free"
        return Device("whole")


class Ask(NamedTuple):
    """What one task asks of the devices of one name: one of these.

    Attributes
    ----------
    whole
        Devices.
    share
        Thousandths of one device.
    profile
        Of a partition of one device.
    """

    whole: int = 0
    share: int = 0
    profile: str = ""

    @property
    def thousandths(self) -> int:
        """Thousandths of devices, 0 for a profile, whose size depends on the device."""
        return WHOLE * self.whole + self.share


class DeviceSlot(Model):
    """A partition: its device, and the slot at which it starts."""

    device: DeviceIndex
    slot: Slot


TaskDevices = dict[
    Name,
    Annotated[
        Annotated[tuple[DeviceIndex, ...], Field(min_length=1, max_length=MOST_DEVICES), Tag("(devices)")]
        | Annotated[DeviceSlot, Tag("(slot)")],
        Discriminator(
            lambda value: "(slot)" if isinstance(value, Mapping | DeviceSlot) else "(devices)",
        ),
    ],
]
"""What one task holds: name of devices → which ones, or the place of a partition."""
_Frozen = AfterValidator(frozen)
OnServers = Annotated[dict[Name, tuple[Annotated[TaskDevices, _Frozen], ...]], in_slices(100_000)]
"""Server → what each task there holds."""

WholeDevices = Annotated[dict[Name, DeviceCount], Field(max_length=100), _Frozen]
Shares = Annotated[dict[Name, Thousandths], Field(max_length=100), _Frozen]
Profiles = Annotated[dict[Name, Name], Field(max_length=100), _Frozen]


def asks_of(
    devices: Mapping[str, int] | None, share: Mapping[str, int] | None, profile: Mapping[str, str] | None
) -> dict[str, Ask]:
    """Return what a task asks of the devices of each name."""
    return FrozenDict(
        {name: Ask(whole=count) for name, count in (devices or {}).items()}
        | {name: Ask(share=amount) for name, amount in (share or {}).items()}
        | {name: Ask(profile=wanted) for name, wanted in (profile or {}).items()}
    )


def asked_twice(
    devices: Mapping[str, int] | None, share: Mapping[str, int] | None, profile: Mapping[str, str] | None
) -> Iterator[Complaint]:
    """Yield a complaint for each name of devices that is asked for in two ways."""
    whole, shared = devices or {}, share or {}
    for key, asked, others in (("share", shared, [whole]), ("profile", profile or {}, [whole, shared])):
        for name in asked:
            if any(name in other for other in others):
                yield f"{key}.{name}", "is asked for twice; a task has devices whole, a share, or a partition"


def current_faults(
    asks: Mapping[str, Ask],
    current: Mapping[str, int],
    held: Mapping[str, tuple[Mapping[str, tuple[int, ...] | DeviceSlot], ...]] | None,
) -> Iterator[Complaint]:
    """Yield what is wrong with the devices that tasks are said to hold now."""
    for server, tasks in (held or {}).items():
        path = f"current_devices.{server}"
        if len(tasks) != current.get(server, 0):
            there = current.get(server, 0)
            yield path, f"has {len(tasks)} tasks, but by current there are {there} on this server"
        for position, places in enumerate(tasks):
            for name, place in places.items():
                fault = form_fault(asks.get(name), place)
                if fault is not None:
                    yield f"{path}[{position}].{name}", fault
            for name in asks.keys() - places.keys():
                yield f"{path}[{position}].{name}", "is missing; the task asks for it"


def form_fault(ask: Ask | None, held: tuple[int, ...] | DeviceSlot) -> str | None:
    """Return how what a task holds differs in form from what it asks for; None if it does not."""
    if ask is None:
        return "is not asked for"
    if ask.profile:
        return None if isinstance(held, DeviceSlot) else "needs a device and a slot"
    if isinstance(held, DeviceSlot):
        return "needs a list of devices"
    wanted = ask.whole or 1
    if len(set(held)) != wanted or len(held) != wanted:
        return f"needs {wanted} different device{'s' if wanted > 1 else ''}"
    return None
