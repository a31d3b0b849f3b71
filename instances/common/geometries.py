"""How devices can be partitioned: slots, and for each profile how many it takes and where it may start.

The built-in geometries are those of NVIDIA's Multi-Instance GPU (MIG). A slot is a memory slice. Profiles
are those of the *NVIDIA Multi-Instance GPU User Guide*, section "Supported MIG Profiles"; sizes and starts
are what ``nvidia-smi mig -lgipp`` lists there under "Getting Started with MIG", as for an A100 of 40 GB::

    Profile ID 19 Placements: {0,1,2,3,4,5,6}:1     1g.5gb
    Profile ID 15 Placements: {0,2,4,6}:2           1g.10gb
    Profile ID 14 Placements: {0,2,4}:2             2g.10gb
    Profile ID  9 Placements: {0,4}:4               3g.20gb
    Profile ID  5 Placement : {0}:4                 4g.20gb
    Profile ID  0 Placement : {0}:8                 7g.40gb

An A100 or H100 of 80 GB lists the same under names of twice the memory; an A30 has four slots. Profiles with
media extensions (``+me``) are not among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field, model_validator

from .fields import Complaint, Count, Model, Name, in_slices, refuse

MOST_SLOTS = 64
Slot = Annotated[Count, Field(lt=MOST_SLOTS)]
Slots = Annotated[Count, Field(ge=1, le=MOST_SLOTS)]


class Profile(Model):
    """A part of a device that can be asked for.

    Attributes
    ----------
    size
        Slots that it takes.
    starts
        Slots at which it may start.
    """

    size: Slots
    starts: Annotated[tuple[Slot, ...], Field(min_length=1, max_length=MOST_SLOTS)]

    def mask(self, start: int) -> int:
        """Return the slots that it takes from a start on, as bits of a number."""
        return ((1 << self.size) - 1) << start


class Geometry(Model):
    """How one device can be partitioned."""

    slots: Slots
    profiles: Annotated[dict[Name, Profile], Field(min_length=1, max_length=100), in_slices(100)]

    @model_validator(mode="after")
    def _check(self) -> Geometry:
        refuse(self._complaints())
        return self

    def _complaints(self) -> Iterator[Complaint]:
        for name, profile in self.profiles.items():
            beyond = [start for start in profile.starts if start + profile.size > self.slots]
            if beyond:
                what = f"{profile.size} slots from {beyond[0]} on are more than the {self.slots} there are"
                yield f"profiles.{name}.starts", what

    def most(self, profile: str, taken: int = 0) -> int:
        """Return how many instances of one profile fit beside the slots that are taken."""
        if profile not in self.profiles:
            return 0
        count, wanted = 0, self.profiles[profile]
        # All are of one size, so the one that ends first is never a mistake.
        for start in sorted(wanted.starts):
            if not taken & wanted.mask(start):
                taken |= wanted.mask(start)
                count += 1
        return count


def _mig(slots: int, placements: Mapping[str, tuple[int, tuple[int, ...]]]) -> Geometry:
    profiles = {name: Profile(size=size, starts=starts) for name, (size, starts) in placements.items()}
    return Geometry(slots=slots, profiles=profiles)


def _of_eight(names: str) -> Geometry:
    """Return the geometry of an A100 or H100, whose profiles have these names."""
    starts = ((1, tuple(range(7))), (2, (0, 2, 4, 6)), (2, (0, 2, 4)), (4, (0, 4)), (4, (0,)), (8, (0,)))
    return _mig(8, dict(zip(names.split(), starts, strict=True)))


GEOMETRIES: Mapping[str, Geometry] = {
    "a30-24": _mig(4, {"1g.6gb": (1, (0, 1, 2, 3)), "2g.12gb": (2, (0, 2)), "4g.24gb": (4, (0,))}),
    "a100-40": _of_eight("1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb"),
    "a100-80": _of_eight("1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
    "h100-80": _of_eight("1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
}
"""Geometries that documents can name."""
