"""Shares and partitions of GPUs on clusters in use: demands of tasks, and the devices that they hold.

A front end reads the GPUs of each node (`Gpus`) and what tasks request of them (`GpuRequest`); a
`DeviceInventory` answers what a request means on which nodes, and which devices are in use.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from ...common.errors import TooLargeError, one_line, shortened, some
from ...common.fields import NONE_NAMED, Fields
from ...common.hardware import GEOMETRIES, MAX_SLOTS
from ...consolidation.devices import (
    MAX_DEVICES,
    WHOLE,
    Device,
    DeviceDemand,
    DeviceSlot,
    HeldDevices,
    pack,
    states_after,
)
from ..importer import Option
from ..node_restrictions import NAMED

GPU = "gpu"
"""The name of the devices."""
MAX_STEPS = 200_000
"""Limit of the steps of the knapsack that decides whether thousandths are rounded down."""
MORE_THAN_DEVICES_HOLD = MAX_DEVICES * MAX_SLOTS + 1
"""A number of tasks beyond what the devices of any node can hold."""


Mig = Annotated[
    Literal["new", "keep"],
    Option(
        "Partitions of GPUs (MIG). keep: those that nodes have now are resources; new: a plan may partition "
        "devices anew, which somebody has to do before its jobs start."
    ),
]


class UnclearDemandError(Exception):
    """A demand or a node that is not specified well enough to be planned; the message says why."""


class Holding(NamedTuple):
    """The devices of a node that one task holds.

    Attributes
    ----------
    ask
        Its demand.
    devices
        Their indices, if these are known.
    """

    ask: DeviceDemand
    devices: tuple[int, ...] = ()


class GpuRequest(NamedTuple):
    """The request of a task for GPUs, before an amount of memory or shards becomes a share of a device.

    Attributes
    ----------
    through
        The resource with which nodes offer it, which is also the unit of `memory`.
    ask
        The demand, unless it is given as memory.
    memory, cores
        Memory, or shards, of one device; and thousandths of its cores.
    """

    through: str
    ask: DeviceDemand = DeviceDemand()
    memory: int = 0
    cores: int = 0


@dataclass(frozen=True)
class Gpus:
    """The GPUs of a node, and how they can be shared and partitioned.

    Attributes
    ----------
    geometry
        Name of the built-in geometry of each device.
    sizes
        Size of one device, by the unit in which parts of it are demanded.
    names
        Name of each device, if they have names.
    offers
        The resources by which tasks get parts of them; None if any request does.
    """

    count: int = 0
    geometry: str | None = None
    sizes: Mapping[str, int] = NONE_NAMED
    names: tuple[str, ...] = ()
    offers: frozenset[str] | None = None

    def may_satisfy(self, request: GpuRequest) -> bool:
        """Return whether type and sizes permit a request; true of a node without GPUs, which never fits."""
        if not self.count:
            return True
        if request.ask.profile:
            return self.geometry is not None
        has_size = not request.memory or request.through in self.sizes
        return has_size and (self.offers is None or request.through in self.offers)

    def document(self, others: Sequence[Holding], planned: Sequence[Holding]) -> Fields | None:
        """Return the field `devices` of a server as a document has it; parameters as in `taken`."""
        if not self.count:
            return None
        # Given even if empty: devices that are not mentioned count as used where a server says what is free.
        in_use = taken(self, others, planned)
        if in_use is None:
            in_use = [{"device": device} for device in range(self.count)]
        return {GPU: {"count": self.count, "geometry": self.geometry, "taken": in_use}}


def taken(gpus: Gpus, others: Sequence[Holding], planned: Sequence[Holding]) -> list[Fields] | None:
    """Return the devices, shares and partitions that unplanned tasks hold; None if not all tasks fit.

    Parameters
    ----------
    gpus
        The devices, all of one node.
    others, planned
        Devices of tasks that are not planned, and of those that are. Unknown devices of the others are chosen
        such that the planned tasks can stay.
    """
    places = _places(gpus, [*others, *planned])
    if places is None:
        return None
    entries: list[Fields] = []
    for (ask, _), place in zip(others, places, strict=False):
        if isinstance(place, DeviceSlot):
            entries.append({"device": place.device, "profile": ask.profile, "slot": place.slot})
        else:
            share = {"share": ask.share} if ask.share else {}
            entries += [{"device": device, **share} for device in place]
    return entries


def known_devices_fit(gpus: Gpus, holdings: Sequence[Holding]) -> bool:
    """Return whether tasks with known devices leave enough room for the tasks with unknown devices."""
    return _places(gpus, holdings, as_said=True) is not None


def _places(gpus: Gpus, holdings: Sequence[Holding], as_said: bool = False) -> list[HeldDevices] | None:
    """Return the devices of each task, known ones kept if possible; None if the tasks do not fit."""
    geometry = GEOMETRIES[gpus.geometry] if gpus.geometry else None
    left: list[Device] | None = [Device()] * gpus.count
    for ask, devices in holdings:
        if devices and left is not None:
            left = states_after(left, geometry, ask, devices)
    try:
        rest = None if left is None else pack(left, geometry, [ask for ask, known in holdings if not known])
    except (TooLargeError, RecursionError):
        rest = None
    if rest is None:
        # Known devices may be of another time; then none is kept.
        unsaid = [Holding(ask) for ask, _ in holdings]
        return None if as_said or unsaid == list(holdings) else _places(gpus, unsaid)
    others = iter(rest)
    return [known or next(others) for _, known in holdings]


def check_count(count: int) -> None:
    """Raise if a server has more devices than can be planned.

    Raises
    ------
    Unclear
        If it has.
    """
    if count > MAX_DEVICES:
        raise UnclearDemandError(f"has {count} GPUs; of a node at most {MAX_DEVICES} are planned one by one")


def fields_of(ask: DeviceDemand | None, placed: Mapping[str, Sequence[tuple[int, ...]]]) -> Fields:
    """Return the document fields of identical tasks: demand for devices, and devices held now.

    Parameters
    ----------
    placed
        Server → the devices of each task there, empty if they are not known.
    """
    if ask is None:
        return {}
    known = {name: [{GPU: list(task)} for task in tasks] for name, tasks in placed.items() if all(tasks)}
    current = {"current_devices": known} if known else {}
    if ask.profile:
        return {"profile": {GPU: ask.profile}, **current}
    return ({"share": {GPU: ask.share}} if ask.share else {"devices": {GPU: ask.whole}}) | current


def worth(ask: DeviceDemand, geometries: Iterable[str]) -> float:
    """Return a device demand as a number of GPUs; of a partition, its largest fraction of a GPU's slots."""
    if not ask.profile:
        return ask.thousandths / WHOLE
    known = (GEOMETRIES[name] for name in geometries)
    sizes = [g.profiles[ask.profile].size / g.slots for g in known if ask.profile in g.profiles]
    return max(sizes, default=1.0)


def thousandths(parts: Collection[int], size: int) -> dict[int, int]:
    """Return each demanded share of a device, in memory units or shards → its thousandths of the device.

    They are rounded down if then no combination fits on a device that does not fit now; a knapsack finds
    the least sum of thousandths of parts that exceed the size. Else they are rounded up.

    Parameters
    ----------
    parts
        All demanded parts, each at least 1 and below the size.
    size
        The size of a device, in the same unit.
    """
    up = {part: -(-WHOLE * part // size) for part in parts}
    unit = math.gcd(*parts) if parts else 1
    down = {part // unit: WHOLE * part // size for part in parts}
    room = size // unit
    if not down or not all(down.values()) or room * len(down) > MAX_STEPS:
        return up
    least = [0]
    for exceeded in range(1, room + 2):
        least.append(min(least[max(0, exceeded - part)] + weight for part, weight in down.items()))
    return {part: down[part // unit] for part in parts} if least[-1] > WHOLE else up


def geometry_of(model: str, profiles: Collection[str]) -> str | None:
    """Return the built-in geometry of a GPU model that has these profiles.

    Parameters
    ----------
    model
        Such as ``NVIDIA-A100-SXM4-40GB`` or ``a100``; if model or size is unknown, the profiles decide.

    Returns
    -------
    name
        None if there is none, or several that differ.
    """
    words = re.split(r"[^a-z0-9]+", model.lower())
    families = {name.partition("-")[0] for name in GEOMETRIES}
    family = next((word for word in words if word in families), "")
    size = next((word.removesuffix("gb") for word in words if re.fullmatch(r"[0-9]+gb", word)), "")
    candidates = [
        name
        for name, geometry in GEOMETRIES.items()
        if family in ("", name.partition("-")[0])
        and size in ("", name.partition("-")[2])
        and geometry.profiles.keys() >= set(profiles)
    ]
    alike = all(GEOMETRIES[name] == GEOMETRIES[candidates[0]] for name in candidates)
    return candidates[0] if candidates and alike else None


def unknown_geometry_note(unknown: Mapping[str, str]) -> Iterable[str]:
    """Yield the note that partitions are kept as resources, because some geometries are unknown."""
    if unknown:
        yield (
            "Partitions are not planned anew but are resources, as nodes have them, for the geometry of some "
            f"is not known: {some(list_with_reasons(unknown), NAMED)}."
        )


def fewest_devices(geometry: str, partitions: Mapping[str, int]) -> int:
    """Return the minimum number of devices that can hold these partitions, given as profile → count.

    Raises
    ------
    Unclear
        If a server cannot have so many devices.
    """
    known = GEOMETRIES[geometry]
    slots = sum(known.profiles[profile].size * count for profile, count in partitions.items())
    asks: list[Holding] = []
    for count in range(-(-slots // known.slots), MAX_DEVICES + 1):
        # Not earlier, because a file may list more than fits into memory.
        asks = asks or [
            Holding(DeviceDemand(profile=profile)) for profile, n in partitions.items() for _ in range(n)
        ]
        if taken(Gpus(count, geometry), asks, []) is not None:
            return count
    raise UnclearDemandError(
        f"has more partitions than {MAX_DEVICES} devices, which is the most that are planned"
    )


def check_available(gpus: Iterable[Gpus], profile: str) -> None:
    """Raise if no node has GPUs, or none has devices with a profile.

    Parameters
    ----------
    gpus
        The devices of the nodes that are planned.
    profile
        Profile of the demanded partition; empty if none is demanded.

    Raises
    ------
    Unclear
        If there are no devices, or none that can be partitioned that way.
    """
    geometries = [devices.geometry for devices in gpus if devices.count]
    if not geometries:
        raise UnclearDemandError("asks for a GPU, of which no node has any")
    if profile and not any(name and profile in GEOMETRIES[name].profiles for name in set(geometries)):
        raise UnclearDemandError(f"asks for a partition {profile}, which the devices of no node have")


def common_demand(asks: Iterable[DeviceDemand]) -> DeviceDemand:
    """Return the device demand of a task; refuse demands that differ between its allowed nodes.

    Raises
    ------
    Unclear
        If it differs between nodes, or no node has known device sizes.
    """
    requests = set(asks)
    if not requests:
        raise UnclearDemandError("may use no node that says how large its devices are")
    if len(requests) > 1:
        raise UnclearDemandError("asks for another part of a device on other nodes")
    return requests.pop()


def list_with_reasons(reasons: Mapping[str, str]) -> list[str]:
    """Return names, each with its reason."""
    return [shortened(one_line(f"{name} ({why})"), 200) for name, why in reasons.items()]


def device_assumptions(task: str, rounded: bool, parted: bool) -> Iterable[str]:
    """Yield the assumptions on how devices are planned.

    Parameters
    ----------
    task
        The word for what holds devices, such as pod.
    rounded
        Whether some shares are rounded to thousandths.
    parted
        Whether partitions are demanded.
    """
    yield (
        f"GPUs are single devices, each whole, shared or partitioned. Where the source does not say which of "
        f"them a {task} holds now, those of {task}s that are not planned are such that the planned ones can "
        "stay."
    )
    if rounded:
        yield (
            f"Shares are rounded to thousandths of a device: down where exactly the same {task}s then fit on "
            "one, else up."
        )
    if parted:
        yield (
            "A plan partitions devices anew, by their slots and whatever partitions nodes have now, and a "
            "partition is worth its part of the slots. Its partitions have to be made before; with "
            "--mig keep it uses those that there are."
        )
