"""Single devices, such as GPUs, of servers and tasks, and exact bin packing of tasks on devices.

A device is whole, shared or partitioned, never two of these. A share is counted in thousandths of one
device.

Tasks are assigned to devices of a server by packing shares and partitions, which are few. Whole devices,
shares and partitions never use one device together. So shares and partitions are packed on as few free
devices as possible, independently of each other, and whole devices are taken from the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from ..common.errors import TooLargeError, shown
from ..common.fields import (
    Checked,
    Complaint,
    Count,
    Model,
    Name,
    entries,
    frozen,
    validated_in_batches,
)
from ..common.hardware import GEOMETRIES, Geometry, Profile, Slot

WHOLE = 1000
"""Thousandths of a device."""
MAX_DEVICES = 64
"""Devices of one name on a server."""

DeviceIndex = Annotated[Count, Field(lt=MAX_DEVICES)]
DeviceCount = Annotated[Count, Field(ge=1, le=MAX_DEVICES)]
Thousandths = Annotated[Count, Field(ge=1, lt=WHOLE)]


def _known_geometry(name: str) -> str:
    if name not in GEOMETRIES:
        context = {"given": shown(name), "known": ", ".join(GEOMETRIES)}
        raise PydanticCustomError("geometry", "is {given}; allowed: {known}", context)
    return name


class Taken(Checked):
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

    def _complaints(self) -> Iterator[Complaint]:
        if (self.profile is None) != (self.slot is None):
            yield "slot", "goes with profile: give both, or none"
        if self.share is not None and self.profile is not None:
            yield "share", "is set beside profile; a device is shared or partitioned"


class Device(NamedTuple):
    """The state of one device: its mode, and how much of it is used.

    Attributes
    ----------
    mode
        `free`, `whole`, `shared` or `parted`.
    used
        Thousandths of a shared device; bit mask of the slots of a partitioned one.
    """

    mode: str = "free"
    used: int = 0

    def after(self, mode: str, amount: int = 0) -> Device | None:
        """Return the state after another use: whole, or an amount as in `used`; None if there is no room."""
        if self.mode not in ("free", mode) or self.mode == "whole":
            return None
        full = self.used & amount if mode == "parted" else self.used + amount > WHOLE
        return None if full else Device(mode, self.used + amount)


class Devices(Checked):
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
    taken: Annotated[tuple[Taken, ...], *entries(1000)] | None = None

    def _complaints(self) -> list[Complaint]:
        complaints: list[Complaint] = []
        self._states(complaints)
        return complaints

    @property
    def partitions(self) -> Geometry | None:
        """The geometry by which each device can be partitioned; None if not at all."""
        return GEOMETRIES[self.geometry] if isinstance(self.geometry, str) else self.geometry

    @property
    def profiles(self) -> Mapping[str, Profile]:
        """The partitions into which each device can be cut, by name; empty if none."""
        return self.partitions.profiles if self.partitions else {}

    @cached_property
    def states(self) -> tuple[Device, ...]:
        """The state of each device without the listed jobs: only what the entries of `taken` use."""
        return self._states([])

    def _states(self, complaints: list[Complaint]) -> tuple[Device, ...]:
        """Return the state of each device; append complaints about entries of `taken` that conflict."""
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
        """Return the state of a device after another entry of `taken`, or a message why they conflict."""
        if taken.profile is not None and taken.slot is not None:
            profile = self.profiles.get(taken.profile)
            if profile is None or taken.slot not in profile.starts:
                return f"no device here has {taken.profile!r} at slot {taken.slot}"
            after = before.after("parted", profile.mask(taken.slot))
        elif taken.share is not None:
            after = before.after("shared", taken.share)
        else:
            return before.after("whole") or f"device {taken.device} is not free"
        return after or f"device {taken.device} has no room for it beside what else is taken"


class DeviceDemand(NamedTuple):
    """The demand of one task for the devices of one name: whole devices, a share or a partition.

    Attributes
    ----------
    whole
        Number of whole devices.
    share
        Thousandths of one device.
    profile
        Name of the profile of a partition of one device.
    """

    whole: int = 0
    share: int = 0
    profile: str = ""

    @property
    def thousandths(self) -> int:
        """The demand in thousandths of devices; 0 for a partition, whose size depends on the device."""
        return WHOLE * self.whole + self.share


class DeviceSlot(Model):
    """A partition: its device, and the slot at which it starts."""

    device: DeviceIndex
    slot: Slot


TaskDevices = dict[
    Name,
    Annotated[
        Annotated[tuple[DeviceIndex, ...], Field(min_length=1, max_length=MAX_DEVICES), Tag("(devices)")]
        | Annotated[DeviceSlot, Tag("(slot)")],
        Discriminator(
            lambda value: "(slot)" if isinstance(value, Mapping | DeviceSlot) else "(devices)",
        ),
    ],
]
"""Devices of one task: name of devices → indices of whole or shared ones, or the place of a partition."""
_Frozen = AfterValidator(frozen)
OnServers = Annotated[dict[Name, tuple[Annotated[TaskDevices, _Frozen], ...]], validated_in_batches(100_000)]
"""Server → devices of each task there."""

WholeDevices = Annotated[dict[Name, DeviceCount], Field(max_length=100), _Frozen]
Shares = Annotated[dict[Name, Thousandths], Field(max_length=100), _Frozen]
Profiles = Annotated[dict[Name, Name], Field(max_length=100), _Frozen]


def demand_mismatch(ask: DeviceDemand | None, placement: tuple[int, ...] | DeviceSlot) -> str | None:
    """Return a message if a task's devices lack the form that it demands; None if they have it."""
    if ask is None:
        return "is not asked for"
    if ask.profile:
        return None if isinstance(placement, DeviceSlot) else "needs a device and a slot"
    if isinstance(placement, DeviceSlot):
        return "needs a list of devices"
    wanted = ask.whole or 1
    if len(set(placement)) != wanted or len(placement) != wanted:
        return f"needs {wanted} different device{'s' if wanted > 1 else ''}"
    return None


HeldDevices = tuple[int, ...] | DeviceSlot
"""Devices of one name that one task holds: their indices, or the place of a partition."""
MAX_NODES = 20_000
"""Node limit of one search."""


def pack(
    devices: Sequence[Device], geometry: Geometry | None, asks: Sequence[DeviceDemand]
) -> list[HeldDevices] | None:
    """Assign the devices of a server to tasks; return the devices of each, None if not all tasks fit.

    Parameters
    ----------
    devices
        The state of each device of one name on a server.
    geometry
        The geometry by which each can be partitioned.
    asks
        The demand of each task.

    Raises
    ------
    TooLargeError
        If the search exceeds its node limit.
    """
    free = [d for d, device in enumerate(devices) if device.mode == "free"]
    whole = sum(ask.whole for ask in asks)
    placements: list[HeldDevices | None] = [None] * len(asks)
    for mode, tasks in (
        ("shared", [t for t, ask in enumerate(asks) if ask.share]),
        ("parted", [t for t, ask in enumerate(asks) if ask.profile]),
    ):
        if not tasks:
            continue
        pieces = [_options(asks[task], geometry) for task in tasks]
        if not all(pieces):
            return None
        bins = [d for d, device in enumerate(devices) if device.mode == mode]
        size = geometry.slots if mode == "parted" and geometry is not None else WHOLE
        places = _Packing(mode, size, pieces).on([devices[d].used for d in bins], len(free) - whole)
        if places is None:
            return None
        taken = max(0, 1 + max(place for place, _ in places) - len(bins))
        bins, free = bins + free[:taken], free[taken:]
        for task, (place, start) in zip(tasks, places, strict=True):
            device = bins[place]
            placements[task] = DeviceSlot(device=device, slot=start) if mode == "parted" else (device,)
    if whole > len(free):
        return None
    remaining = iter(free)
    return [
        tuple(next(remaining) for _ in range(ask.whole)) if known is None else known
        for ask, known in zip(asks, placements, strict=True)
    ]


def states_after(
    devices: Sequence[Device], geometry: Geometry | None, ask: DeviceDemand, placement: HeldDevices
) -> list[Device] | None:
    """Return the device states after a task is placed on these devices; None if they lack room for it."""
    states = list(devices)
    mode, amount = ("whole", 0) if ask.whole else ("shared", ask.share)
    if isinstance(placement, DeviceSlot):
        if geometry is None or ask.profile not in geometry.profiles:
            return None
        mode, amount = "parted", geometry.profiles[ask.profile].mask(placement.slot)
    for index in [placement.device] if isinstance(placement, DeviceSlot) else placement:
        after = states[index].after(mode, amount) if index < len(states) else None
        if after is None:
            return None
        states[index] = after
    return states


Piece = Sequence[tuple[int, int]]
"""What a task may take of a device: first slot, 0 for a share, and what that adds to its use."""


def _options(ask: DeviceDemand, geometry: Geometry | None) -> Piece:
    """Return the ways to take a share or a partition of a device; none if it cannot be partitioned so."""
    if not ask.profile:
        return [(0, ask.share)]
    profile = geometry.profiles.get(ask.profile) if geometry is not None else None
    # In reverse, because the fewest profiles can use the last slots.
    return [(start, profile.mask(start)) for start in sorted(profile.starts, reverse=True)] if profile else []


class _Packing:
    """Depth-first search for the devices of shares or partitions, all the devices of one size.

    The largest piece comes first, and it goes to the fullest device first.

    Parameters
    ----------
    mode
        `shared` or `parted`.
    size
        Thousandths or slots of a device.
    """

    def __init__(self, mode: str, size: int, pieces: Sequence[Piece]) -> None:
        self.parted, self.size = mode == "parted", size
        self.filled: Callable[[int], int] = int.bit_count if self.parted else int
        self.order = sorted(range(len(pieces)), key=lambda t: (-self.filled(pieces[t][0][1]), len(pieces[t])))
        self.pieces = [pieces[t] for t in self.order]

    def on(self, used: Sequence[int], free: int) -> list[tuple[int, int]] | None:
        """Return (device, first slot) of each piece with minimum newly used devices; None if not all fit.

        Parameters
        ----------
        used
            Use of the devices of this mode, which are the first ones.
        free
            Number of further, empty devices.

        Raises
        ------
        TooLargeError
            If the search exceeds its node limit.
        """
        room = sum(self.size - self.filled(one) for one in used)
        asked = sum(self.filled(piece[0][1]) for piece in self.pieces)
        for more in range(max(0, math.ceil((asked - room) / self.size)), free + 1):
            self.used, self.nodes = [*used, *[0] * more], 0
            self.places: list[tuple[int, int]] = []
            self.failed: set[tuple[int, ...]] = set()
            if self._from(0):
                return self._numbered(len(used))
        return None

    def _numbered(self, known: int) -> list[tuple[int, int]]:
        """Return the places in the order of tasks, new devices numbered in the order of their first use."""
        names = {place: place for place in range(known)}
        by_task = sorted(zip(self.order, self.places, strict=True))
        return [(names.setdefault(place, len(names)), start) for _, (place, start) in by_task]

    def _from(self, item: int) -> bool:
        if item == len(self.pieces):
            return True
        state = (item, *sorted(self.used))
        if state in self.failed:
            return False
        self.nodes += 1
        if self.nodes > MAX_NODES:
            what = "slots hold these partitions" if self.parted else "devices hold these shares"
            raise TooLargeError(f"which {what} takes too long to be found out")
        filled, seen = self.filled, set[int]()
        for place, used in sorted(enumerate(self.used), key=lambda pair: -filled(pair[1])):
            if used in seen:
                continue
            seen.add(used)
            for start, amount in self.pieces[item]:
                if used & amount if self.parted else used + amount > WHOLE:
                    continue
                self.used[place] += amount
                self.places.append((place, start))
                if self._from(item + 1):
                    return True
                self.places.pop()
                self.used[place] = used
        self.failed.add(state)
        return False
