"""Single devices, such as GPUs, of servers and tasks, and exact bin packing of tasks on devices.

A device is whole, shared or partitioned, never two of these. A share is counted in thousandths of one
device.

Tasks are assigned to devices of a server by packing shares and partitions, which are few. Whole devices,
shares and partitions never use one device together. So shares and partitions are packed on as few free
devices as possible, independently of each other, and whole devices are taken from the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from ..common.errors import TooLargeError, shown
from ..common.fields import Complaint, Count, FrozenDict, Model, Name, frozen, refuse, validated_in_batches
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
    taken: Annotated[tuple[Taken, ...], Field(max_length=1000), validated_in_batches(1000)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Devices:
        complaints: list[Complaint] = []
        self._states(complaints)
        refuse(complaints)
        return self

    @property
    def partitions(self) -> Geometry | None:
        """The geometry by which each device can be partitioned; None if not at all."""
        return GEOMETRIES[self.geometry] if isinstance(self.geometry, str) else self.geometry

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


def device_demands(
    devices: Mapping[str, int] | None, share: Mapping[str, int] | None, profile: Mapping[str, str] | None
) -> dict[str, DeviceDemand]:
    """Return the demand of a task for the devices of each name."""
    return FrozenDict(
        {name: DeviceDemand(whole=count) for name, count in (devices or {}).items()}
        | {name: DeviceDemand(share=amount) for name, amount in (share or {}).items()}
        | {name: DeviceDemand(profile=wanted) for name, wanted in (profile or {}).items()}
    )


def duplicate_demands(
    devices: Mapping[str, int] | None, share: Mapping[str, int] | None, profile: Mapping[str, str] | None
) -> Iterator[Complaint]:
    """Yield a complaint for each name of devices that a task demands in two ways."""
    whole, shared = devices or {}, share or {}
    for key, asked, others in (("share", shared, [whole]), ("profile", profile or {}, [whole, shared])):
        for name in asked:
            if any(name in other for other in others):
                yield f"{key}.{name}", "is asked for twice; a task has devices whole, a share, or a partition"


def current_faults(
    asks: Mapping[str, DeviceDemand],
    current: Mapping[str, int],
    current_devices: Mapping[str, tuple[Mapping[str, tuple[int, ...] | DeviceSlot], ...]] | None,
) -> Iterator[Complaint]:
    """Yield complaints about current devices of tasks that contradict their demand or number."""
    for server, tasks in (current_devices or {}).items():
        path = f"current_devices.{server}"
        if len(tasks) != current.get(server, 0):
            number = current.get(server, 0)
            yield path, f"has {len(tasks)} tasks, but by current there are {number} on this server"
        for position, places in enumerate(tasks):
            for name, place in places.items():
                fault = demand_mismatch(asks.get(name), place)
                if fault is not None:
                    yield f"{path}[{position}].{name}", fault
            for name in asks.keys() - places.keys():
                yield f"{path}[{position}].{name}", "is missing; the task asks for it"


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
    shares = [t for t, ask in enumerate(asks) if ask.share]
    if shares:
        shared = [d for d, device in enumerate(devices) if device.mode == "shared"]
        lefts = [WHOLE - devices[d].used for d in shared]
        places = pack_shares(lefts, len(free) - whole, [asks[t].share for t in shares])
        if places is None:
            return None
        taken = max(0, 1 + max(places) - len(shared))
        bins, free = shared + free[:taken], free[taken:]
        for task, place in zip(shares, places, strict=True):
            placements[task] = (bins[place],)
    parts = [t for t, ask in enumerate(asks) if ask.profile]
    if parts:
        if geometry is None or any(asks[t].profile not in geometry.profiles for t in parts):
            return None
        parted = [d for d, device in enumerate(devices) if device.mode == "parted"]
        masks = [devices[d].used for d in parted]
        profiles = [geometry.profiles[asks[t].profile] for t in parts]
        slots = pack_profiles(masks, len(free) - whole, geometry.slots, profiles)
        if slots is None:
            return None
        taken = max(0, 1 + max(place for place, _ in slots) - len(parted))
        bins, free = parted + free[:taken], free[taken:]
        for task, (place, start) in zip(parts, slots, strict=True):
            placements[task] = DeviceSlot(device=bins[place], slot=start)
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
    for index in [placement.device] if isinstance(placement, DeviceSlot) else placement:
        if index >= len(states):
            return None
        mode, used = states[index]
        after = Device("whole") if ask.whole else Device("shared", used + ask.share)
        fits = mode == "free" or (mode == "shared" and bool(ask.share))
        if isinstance(placement, DeviceSlot):
            if geometry is None or ask.profile not in geometry.profiles:
                return None
            mask = geometry.profiles[ask.profile].mask(placement.slot)
            fits, after = mode in ("free", "parted") and not used & mask, Device("parted", used | mask)
        if not fits or (after.mode == "shared" and after.used > WHOLE):
            return None
        states[index] = after
    return states


def pack_shares(lefts: Sequence[int], free: int, shares: Sequence[int]) -> list[int] | None:
    """Return a device for each demanded share that minimise the newly used devices; None if they do not fit.

    Parameters
    ----------
    lefts
        Thousandths left on devices that are shared already, which are the first bins.
    free
        Number of further, empty bins.

    Raises
    ------
    TooLargeError
        If the search exceeds its node limit.
    """
    order = sorted(range(len(shares)), key=lambda t: -shares[t])
    sizes = [shares[t] for t in order]
    least = max(0, math.ceil((sum(sizes) - sum(lefts)) / WHOLE))
    for used in range(least, free + 1):
        bins = _BestFit(sizes, [*lefts, *[WHOLE] * used]).search()
        if bins is not None:
            bin_of = [0] * len(shares)
            for task, place in zip(order, bins, strict=True):
                bin_of[task] = place
            return _renumbered_bins(bin_of, len(lefts))
    return None


def _renumbered_bins(bins: list[int], known: int) -> list[int]:
    """Renumber the newly used devices, those from `known` on, in the order of their first use."""
    names: dict[int, int] = {}
    for place in bins:
        if place >= known:
            names.setdefault(place, known + len(names))
    return [names.get(place, place) for place in bins]


class _BestFit:
    """Depth-first search for a packing of shares of devices (bin packing), best fit first."""

    def __init__(self, sizes: Sequence[int], lefts: list[int]) -> None:
        self.sizes, self.lefts = sizes, lefts
        self.places: list[int] = []
        self.failed: set[tuple[int, ...]] = set()
        self.nodes = 0

    def search(self) -> list[int] | None:
        return self.places if self._from(0) else None

    def _from(self, item: int) -> bool:
        if item == len(self.sizes):
            return True
        state = (item, *sorted(self.lefts))
        if state in self.failed:
            return False
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise TooLargeError("which devices hold these shares takes too long to be found out")
        size, seen = self.sizes[item], set()
        for place in sorted(range(len(self.lefts)), key=self.lefts.__getitem__):
            left = self.lefts[place]
            if left < size or left in seen:
                continue
            seen.add(left)
            self.lefts[place] -= size
            self.places.append(place)
            if self._from(item + 1):
                return True
            self.places.pop()
            self.lefts[place] += size
        self.failed.add(state)
        return False


def pack_profiles(
    masks: Sequence[int], free: int, slots: int, profiles: Sequence[Profile]
) -> list[tuple[int, int]] | None:
    """Return (device, first slot) of each partition with minimum newly used devices; None if not all fit.

    Parameters
    ----------
    masks
        Bit masks of the occupied slots of devices that are partitioned already.

    Raises
    ------
    TooLargeError
        If the search exceeds its node limit.
    """
    order = sorted(range(len(profiles)), key=lambda t: (-profiles[t].size, len(profiles[t].starts)))
    left = sum(slots - mask.bit_count() for mask in masks)
    least = max(0, math.ceil((sum(profile.size for profile in profiles) - left) / slots))
    for used in range(least, free + 1):
        search = _Slots([profiles[t] for t in order], [*masks, *[0] * used])
        if search.run(0):
            place_of = [(0, 0)] * len(profiles)
            for task, place in zip(order, search.places, strict=True):
                place_of[task] = place
            bins = _renumbered_bins([place for place, _ in place_of], len(masks))
            return [(place, start) for place, (_, start) in zip(bins, place_of, strict=True)]
    return None


class _Slots:
    """Depth-first search for the device slots of each partition, the largest partition first."""

    def __init__(self, profiles: Sequence[Profile], masks: list[int]) -> None:
        self.profiles, self.masks = profiles, masks
        self.places: list[tuple[int, int]] = []
        self.failed: set[tuple[int, ...]] = set()
        self.nodes = 0

    def run(self, item: int) -> bool:
        if item == len(self.profiles):
            return True
        state = (item, *sorted(self.masks))
        if state in self.failed:
            return False
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise TooLargeError("which slots hold these partitions takes too long to be found out")
        seen: set[int] = set()
        for place, mask in sorted(enumerate(self.masks), key=lambda pair: -pair[1].bit_count()):
            if mask in seen:
                continue
            seen.add(mask)
            # In reverse, because the fewest profiles can use the last slots.
            for start in sorted(self.profiles[item].starts, reverse=True):
                taken = self.profiles[item].mask(start)
                if mask & taken:
                    continue
                self.masks[place] |= taken
                self.places.append((place, start))
                if self.run(item + 1):
                    return True
                self.places.pop()
                self.masks[place] = mask
        self.failed.add(state)
        return False
