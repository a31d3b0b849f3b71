"""The devices of one name on one server, while tasks come and go."""

from __future__ import annotations

from collections.abc import Sequence

from ....instances.common.hardware import Geometry
from ....instances.consolidation.devices import WHOLE, Ask, Device, DeviceSlot, Held

FREE, TAKEN, SHARED, PARTED = range(4)
MODES = {"free": FREE, "whole": TAKEN, "shared": SHARED, "parted": PARTED}


class Bank:
    """The devices of one name on one server.

    Attributes
    ----------
    mode, used
        Of each device: how it is held; thousandths of a shared one, slots of a partitioned one as bits.
    fixed
        Whether others hold a part of the device, so that it is never free.
    free, spare, room
        Free devices, thousandths left on these and on shared ones, and the most that is left on a shared one.
    """

    __slots__ = ("fixed", "free", "geometry", "mode", "most", "room", "spare", "used")

    def __init__(self, states: Sequence[Device], geometry: Geometry | None) -> None:
        self.mode = [MODES[state.mode] for state in states]
        self.used = [state.used for state in states]
        self.fixed = [state.mode != "free" for state in states]
        self.geometry = geometry
        self.free = self.mode.count(FREE)
        shared = (WHOLE - state.used for state in states if state.mode == "shared")
        self.spare = WHOLE * self.free + sum(shared)
        self.most = max(1, self.spare)
        self._measure()

    def _measure(self) -> None:
        """Find the most that is left on a shared device."""
        pairs = zip(self.mode, self.used, strict=True)
        self.room = max((WHOLE - used for mode, used in pairs if mode == SHARED), default=0)

    def gap(self, ask: Ask) -> float | None:
        """Return how much is left beside what is asked, 1 for a free device; None if it does not fit."""
        if ask.whole:
            return (self.free - ask.whole) / 8 if ask.whole <= self.free else None
        if ask.share:
            if ask.share <= self.room:
                place = self._shared(ask.share)
                return (WHOLE - self.used[place] - ask.share) / WHOLE
            return 1.0 - ask.share / (2 * WHOLE) if self.free else None
        if self._slot(ask.profile) is not None:
            return 0.0
        known = self.geometry is not None and ask.profile in self.geometry.profiles
        return 1.0 if self.free and known else None

    def _shared(self, share: int) -> int:
        """Return the fullest shared device that holds a share; there has to be one."""
        best, most, limit = -1, -1, WHOLE - share
        for place, used in enumerate(self.used):
            if most < used <= limit and self.mode[place] == SHARED:
                best, most = place, used
        return best

    def _slot(self, wanted: str) -> tuple[int, int] | None:
        """Return where on a partitioned device a partition fits, the fullest device first."""
        if self.geometry is None or wanted not in self.geometry.profiles:
            return None
        profile = self.geometry.profiles[wanted]
        parted = [place for place, mode in enumerate(self.mode) if mode == PARTED]
        for place in sorted(parted, key=lambda i: -self.used[i].bit_count()):
            # From behind, for the last slots are those that fewest profiles can use.
            for start in sorted(profile.starts, reverse=True):
                if not self.used[place] & profile.mask(start):
                    return place, start
        return None

    def choose(self, ask: Ask) -> Held:
        """Return the devices that a task takes; there has to be room."""
        if ask.whole:
            free = (place for place, mode in enumerate(self.mode) if mode == FREE)
            return tuple(place for _, place in zip(range(ask.whole), free, strict=False))
        if ask.share:
            return (self._shared(ask.share) if ask.share <= self.room else self.mode.index(FREE),)
        found = self._slot(ask.profile)
        if found is not None:
            return DeviceSlot(device=found[0], slot=found[1])
        assert self.geometry is not None
        start = max(self.geometry.profiles[ask.profile].starts)
        return DeviceSlot(device=self.mode.index(FREE), slot=start)

    def take(self, ask: Ask, held: Held) -> None:
        """Take what a task holds."""
        for place in [held.device] if isinstance(held, DeviceSlot) else held:
            if self.mode[place] == FREE:
                self.free -= 1
                self.spare -= 0 if ask.share else WHOLE
            self.mode[place] = TAKEN if ask.whole else SHARED if ask.share else PARTED
            self.used[place] += self._size(ask, held)
        self.spare -= ask.share
        if ask.share:
            self._measure()

    def give(self, ask: Ask, held: Held) -> None:
        """Give back what a task held."""
        self.spare += ask.share
        for place in [held.device] if isinstance(held, DeviceSlot) else held:
            self.used[place] -= self._size(ask, held)
            if not self.used[place] and not self.fixed[place]:
                self.mode[place] = FREE
                self.free += 1
                self.spare += 0 if ask.share else WHOLE
        if ask.share:
            self._measure()

    def _size(self, ask: Ask, held: Held) -> int:
        """Return what a task adds to the figure of its device; slots do not overlap, so that bits add up."""
        if isinstance(held, DeviceSlot):
            assert self.geometry is not None
            return self.geometry.profiles[ask.profile].mask(held.slot)
        return ask.share
