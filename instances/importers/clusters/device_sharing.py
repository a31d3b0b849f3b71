"""Shares and partitions of GPUs on clusters in use: what tasks ask for, and which tasks hold which device."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

from ...common.errors import TooLargeError, one_line, shortened, some
from ...common.hardware import GEOMETRIES, MOST_SLOTS
from ...consolidation.devices import MOST_DEVICES, WHOLE, Ask, Device, DeviceSlot, Held, occupied, pack
from ..importer import Option

GPU = "gpu"
"""The name of the devices."""
MOST_STEPS = 200_000
"""So many steps may be taken to find out whether thousandths may be rounded down."""
MOST_HELD = MOST_DEVICES * MOST_SLOTS + 1
"""No devices of a node hold so many tasks."""
NAMED = 3
"""So many of those that are left out are named, with the reason."""

Mig = Annotated[
    Literal["new", "keep"],
    Option(
        "Partitions of GPUs (MIG). new: a plan may partition devices anew; keep: those that nodes have now "
        "are resources."
    ),
]


class Unclear(Exception):
    """What is asked for, or what a node has, is not clear enough to be planned; says why."""


class Holding(NamedTuple):
    """What a task holds on a node.

    Attributes
    ----------
    devices
        Which ones, where that is known.
    """

    ask: Ask
    devices: tuple[int, ...] = ()


@dataclass(frozen=True)
class Gpus:
    """The GPUs of a node.

    Attributes
    ----------
    geometry
        Name of the built-in geometry by which each can be partitioned.
    sizes
        What one device has, by unit in which parts of it are asked for.
    names
        Of each device, where they have any.
    """

    count: int = 0
    geometry: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    def document(self, others: Sequence[Holding], planned: Sequence[Holding]) -> dict[str, Any] | None:
        """Return the devices of a server as a document has them; the parameters are those of `taken`."""
        if not self.count:
            return None
        # Given even if empty: where a server says what is free, devices of which nothing is said are not.
        held = taken(self, others, planned)
        if held is None:
            held = [{"device": device} for device in range(self.count)]
        return {GPU: {"count": self.count, "geometry": self.geometry, "taken": held}}


def taken(gpus: Gpus, others: Sequence[Holding], planned: Sequence[Holding]) -> list[dict[str, Any]] | None:
    """Return what others hold of devices; None if these do not hold all.

    Parameters
    ----------
    gpus
        The devices, all of one node.
    others, planned
        What tasks hold that are not planned, and those that are. Where it is not known which devices, those
        of the others are such that the planned tasks can stay.
    """
    places = _places(gpus, [*others, *planned])
    if places is None:
        return None
    found: list[dict[str, Any]] = []
    for (ask, _), place in zip(others, places, strict=False):
        if isinstance(place, DeviceSlot):
            found.append({"device": place.device, "profile": ask.profile, "slot": place.slot})
        else:
            share = {"share": ask.share} if ask.share else {}
            found += [{"device": device, **share} for device in place]
    return found


def are_known(gpus: Gpus, holdings: Sequence[Holding]) -> bool:
    """Return whether the devices that some tasks are said to hold leave room for what the others do."""
    return _places(gpus, holdings, as_said=True) is not None


def _places(gpus: Gpus, holdings: Sequence[Holding], as_said: bool = False) -> list[Held] | None:
    """Return where all of them are, those that are said to be somewhere there; None if there is no room."""
    geometry = GEOMETRIES[gpus.geometry] if gpus.geometry else None
    left: list[Device] | None = [Device()] * gpus.count
    for ask, devices in holdings:
        if devices and left is not None:
            left = occupied(left, geometry, ask, devices)
    try:
        rest = None if left is None else pack(left, geometry, [ask for ask, known in holdings if not known])
    except (TooLargeError, RecursionError):
        rest = None
    if rest is None:
        # What is said may be of another time; then nothing is.
        unsaid = [Holding(ask) for ask, _ in holdings]
        return None if as_said or unsaid == list(holdings) else _places(gpus, unsaid)
    others = iter(rest)
    return [known or next(others) for _, known in holdings]


def check_count(count: int) -> None:
    """Refuse more devices than a server can have.

    Raises
    ------
    Unclear
        If these are.
    """
    if count > MOST_DEVICES:
        raise Unclear(f"has {count} GPUs; of a node at most {MOST_DEVICES} are planned one by one")


def fields_of(ask: Ask | None, held: Mapping[str, Sequence[tuple[int, ...]]]) -> dict[str, Any]:
    """Return the fields of a group of tasks that say what each asks for, and what it has now.

    Parameters
    ----------
    held
        Server → the devices of each task there, empty where they are not known.
    """
    if ask is None:
        return {}
    known = {name: [{GPU: list(task)} for task in tasks] for name, tasks in held.items() if all(tasks)}
    current = {"current_devices": known} if known else {}
    if ask.profile:
        return {"profile": {GPU: ask.profile}, **current}
    return ({"share": {GPU: ask.share}} if ask.share else {"devices": {GPU: ask.whole}}) | current


def worth(ask: Ask, geometries: Iterable[str]) -> float:
    """Return how many GPUs an ask is; a partition is its part of the slots, the largest of the geometries."""
    if not ask.profile:
        return ask.thousandths / WHOLE
    known = (GEOMETRIES[name] for name in geometries)
    sizes = [g.profiles[ask.profile].size / g.slots for g in known if ask.profile in g.profiles]
    return max(sizes, default=1.0)


def thousandths(parts: Collection[int], size: int) -> dict[int, int]:
    """Return parts of a device as thousandths of it.

    They are rounded down where then still only those parts fit on a device that fit on it now: for this the
    least thousandths are found with which parts exceed the size (a knapsack). Else they are rounded up.

    Parameters
    ----------
    parts
        All parts that are asked for, each at least 1 and below the size.
    size
        What a device has, in the same unit.
    """
    up = {part: -(-WHOLE * part // size) for part in parts}
    unit = math.gcd(*parts) if parts else 1
    down = {part // unit: WHOLE * part // size for part in parts}
    room = size // unit
    if not down or not all(down.values()) or room * len(down) > MOST_STEPS:
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
        Such as ``NVIDIA-A100-SXM4-40GB`` or ``a100``; where it names no model or size that is known, the
        profiles decide.

    Returns
    -------
    name
        None where there is none, or several that differ.
    """
    words = re.split(r"[^a-z0-9]+", model.lower())
    families = {name.partition("-")[0] for name in GEOMETRIES}
    family = next((word for word in words if word in families), "")
    size = next((word.removesuffix("gb") for word in words if re.fullmatch(r"[0-9]+gb", word)), "")
    found = [
        name
        for name, geometry in GEOMETRIES.items()
        if family in ("", name.partition("-")[0])
        and size in ("", name.partition("-")[2])
        and geometry.profiles.keys() >= set(profiles)
    ]
    alike = all(GEOMETRIES[name] == GEOMETRIES[found[0]] for name in found)
    return found[0] if found and alike else None


def about_unknown(unknown: Mapping[str, str]) -> Iterable[str]:
    """Say that partitions are kept, as these nodes have some of which it is not known how they can change."""
    if unknown:
        yield (
            "Partitions are not planned anew but are resources, as nodes have them, for the geometry of some "
            f"is not known: {because(unknown)}."
        )


def fewest_devices(geometry: str, partitions: Mapping[str, int]) -> int:
    """Return how many devices at least have these partitions: profile → how many.

    Raises
    ------
    Unclear
        If there are more than a server can have.
    """
    known = GEOMETRIES[geometry]
    slots = sum(known.profiles[profile].size * count for profile, count in partitions.items())
    asks: list[Holding] = []
    for count in range(-(-slots // known.slots), MOST_DEVICES + 1):
        # Not earlier, for a file may list more than there is memory for.
        asks = asks or [Holding(Ask(profile=profile)) for profile, n in partitions.items() for _ in range(n)]
        if taken(Gpus(count, geometry), asks, []) is not None:
            return count
    raise Unclear(f"has more partitions than {MOST_DEVICES} devices, which is the most that are planned")


def check_there(gpus: Iterable[Gpus], profile: str) -> None:
    """Refuse what no node has.

    Parameters
    ----------
    gpus
        The devices of the nodes that are planned.
    profile
        Of the partition that is asked for; empty where it is none.

    Raises
    ------
    Unclear
        If there are no devices, or none that can be partitioned so.
    """
    there = [devices.geometry for devices in gpus if devices.count]
    if not there:
        raise Unclear("asks for a GPU, of which no node has any")
    if profile and not any(name and profile in GEOMETRIES[name].profiles for name in set(there)):
        raise Unclear(f"asks for a partition {profile}, which the devices of no node have")


def the_same(asks: Iterable[Ask]) -> Ask:
    """Return what a task asks for on whatever node.

    Raises
    ------
    Unclear
        If that depends on the node, or no node says it.
    """
    found = set(asks)
    if not found:
        raise Unclear("may use no node that says how large its devices are")
    if len(found) > 1:
        raise Unclear("asks for another part of a device on other nodes")
    return found.pop()


def because(reasons: Mapping[str, str]) -> str:
    """List the first few names, each with the reason."""
    return some((shortened(one_line(f"{name} ({why})"), 200) for name, why in reasons.items()), NAMED)


def about_devices(task: str, rounded: bool, parted: bool) -> Iterable[str]:
    """Say how devices are planned.

    Parameters
    ----------
    task
        What holds them, such as pod.
    rounded
        Whether some share is no whole number of thousandths.
    parted
        Whether partitions are asked for.
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
