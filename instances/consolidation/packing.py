"""Which devices of a server its tasks hold: exact bin packing of shares and partitions, which are few.

Whole devices, shares and partitions never meet on one device. So shares take as few free devices as they
can, partitions too, and whole devices take the others; one does not depend on the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..common.errors import TooLargeError
from ..common.geometries import Geometry, Profile
from .devices import WHOLE, Ask, Device, DeviceSlot

Held = tuple[int, ...] | DeviceSlot
"""What one task holds of the devices of one name."""
MOST_NODES = 20_000
"""Of one search; beyond, it is given up."""


def pack(devices: Sequence[Device], geometry: Geometry | None, asks: Sequence[Ask]) -> list[Held] | None:
    """Return what each task holds, or None if the devices do not hold all.

    Parameters
    ----------
    devices
        The state of each device of one name on a server.
    geometry
        How each can be partitioned.
    asks
        What each task asks for.

    Raises
    ------
    TooLargeError
        If the search takes too long.
    """
    free = [d for d, device in enumerate(devices) if device.mode == "free"]
    whole = sum(ask.whole for ask in asks)
    held: list[Held | None] = [None] * len(asks)
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
            held[task] = (bins[place],)
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
            held[task] = DeviceSlot(device=bins[place], slot=start)
    if whole > len(free):
        return None
    remaining = iter(free)
    return [
        tuple(next(remaining) for _ in range(ask.whole)) if known is None else known
        for ask, known in zip(asks, held, strict=True)
    ]


def occupied(
    devices: Sequence[Device], geometry: Geometry | None, ask: Ask, held: Held
) -> list[Device] | None:
    """Return the states of the devices once a task holds some of them; None if they are not free for it."""
    states = list(devices)
    for index in [held.device] if isinstance(held, DeviceSlot) else held:
        if index >= len(states):
            return None
        mode, used = states[index]
        after = Device("whole") if ask.whole else Device("shared", used + ask.share)
        fits = mode == "free" or (mode == "shared" and bool(ask.share))
        if isinstance(held, DeviceSlot):
            if geometry is None or ask.profile not in geometry.profiles:
                return None
            mask = geometry.profiles[ask.profile].mask(held.slot)
            fits, after = mode in ("free", "parted") and not used & mask, Device("parted", used | mask)
        if not fits or (after.mode == "shared" and after.used > WHOLE):
            return None
        states[index] = after
    return states


def pack_shares(lefts: Sequence[int], free: int, shares: Sequence[int]) -> list[int] | None:
    """Return the bin of each share such that as few free devices as possible are used.

    Parameters
    ----------
    lefts
        Thousandths left on devices that are shared already, the first bins.
    free
        Further bins that are empty.

    Raises
    ------
    TooLargeError
        If the search takes too long.
    """
    order = sorted(range(len(shares)), key=lambda t: -shares[t])
    sizes = [shares[t] for t in order]
    least = max(0, math.ceil((sum(sizes) - sum(lefts)) / WHOLE))
    for used in range(least, free + 1):
        bins = _BestFit(sizes, [*lefts, *[WHOLE] * used]).search()
        if bins is not None:
            found = [0] * len(shares)
            for task, place in zip(order, bins, strict=True):
                found[task] = place
            return _first_bins_first(found, len(lefts))
    return None


def _first_bins_first(bins: list[int], known: int) -> list[int]:
    """Return bins of which those from `known` on are numbered in the order of their use."""
    names: dict[int, int] = {}
    for place in bins:
        if place >= known:
            names.setdefault(place, known + len(names))
    return [names.get(place, place) for place in bins]


class _BestFit:
    """Depth-first search: the next share goes on the fullest device that holds it, then on others."""

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
        if self.nodes > MOST_NODES:
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
    """Return bin and first slot of each partition such that as few free devices as possible are used.

    Parameters
    ----------
    masks
        Slots that are taken on devices that are partitioned already, as bits.

    Raises
    ------
    TooLargeError
        If the search takes too long.
    """
    order = sorted(range(len(profiles)), key=lambda t: (-profiles[t].size, len(profiles[t].starts)))
    left = sum(slots - mask.bit_count() for mask in masks)
    least = max(0, math.ceil((sum(profile.size for profile in profiles) - left) / slots))
    for used in range(least, free + 1):
        search = _Slots([profiles[t] for t in order], [*masks, *[0] * used])
        if search.run(0):
            found = [(0, 0)] * len(profiles)
            for task, place in zip(order, search.places, strict=True):
                found[task] = place
            bins = _first_bins_first([place for place, _ in found], len(masks))
            return [(place, start) for place, (_, start) in zip(bins, found, strict=True)]
    return None


class _Slots:
    """Depth-first search over the slots of each partition, the largest first."""

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
        if self.nodes > MOST_NODES:
            raise TooLargeError("which slots hold these partitions takes too long to be found out")
        seen: set[int] = set()
        for place, mask in sorted(enumerate(self.masks), key=lambda pair: -pair[1].bit_count()):
            if mask in seen:
                continue
            seen.add(mask)
            # From behind, for the last slots are those that fewest profiles can use.
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
