"""Catalogues of hardware types with their prices, and the geometries into which devices can be partitioned.

A geometry has slots, and for each profile its size in slots and the slots where it may start. The built-in
geometries are those of NVIDIA's Multi-Instance GPU (MIG). A slot is a memory slice. Profiles are those of
the *NVIDIA Multi-Instance GPU User Guide*, section "Supported MIG Profiles"; sizes and starts are what
``nvidia-smi mig -lgipp`` lists there under "Getting Started with MIG", as for an A100 of 40 GB::

    Profile ID 19 Placements: {0,1,2,3,4,5,6}:1     1g.5gb
    Profile ID 15 Placements: {0,2,4,6}:2           1g.10gb
    Profile ID 14 Placements: {0,2,4}:2             2g.10gb
    Profile ID  9 Placements: {0,4}:4               3g.20gb
    Profile ID  5 Placement : {0}:4                 4g.20gb
    Profile ID  0 Placement : {0}:8                 7g.40gb

An A100 or H100 of 80 GB lists the same under names of twice the memory; an A30 has four slots. Profiles
with media extensions (``+me``) are not among them.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationError

from .faults import faults_of
from .fields import (
    TABLE_FILE,
    Checked,
    Complaint,
    Count,
    Model,
    Name,
    NonNegative,
    Positive,
    SchemaVersion,
    Text,
    entries,
    refuse,
    repeated,
)

if TYPE_CHECKING:
    import pandas as pd


GIB = 2**30
"""Bytes of a GiB."""


class HardwareType(Model):
    """One rentable machine.

    Attributes
    ----------
    price_usd_per_hour
        On-demand price of the whole machine.
    gpu_memory_gib
        Memory of one GPU.
    """

    name: Name
    price_usd_per_hour: NonNegative
    vcpus: Count
    memory_gib: NonNegative
    gpus: Count = 0
    gpu_model: Name | None = None
    gpu_memory_gib: Positive | None = None
    network_gbit_per_s: Positive | None = None

    def unit_price_usd_per_hour(self) -> float:
        """Return the price of one GPU's share of the machine, or of one vCPU's if it has no GPU."""
        return self.price_usd_per_hour / (self.gpus or self.vcpus or 1)

    def unit_memory_gib(self) -> float | None:
        """Return the memory of one GPU, or one vCPU's share if the machine has no GPU; None if unknown."""
        if self.gpus:
            return self.gpu_memory_gib
        return self.memory_gib / (self.vcpus or 1)

    def capacity(self) -> dict[str, float]:
        """Return the capacity of one machine for the resources gpu, cpu and memory_gib."""
        return {"gpu": float(self.gpus), "cpu": float(self.vcpus), "memory_gib": self.memory_gib}


class HardwareCatalogue(Checked):
    """A price list of machines.

    Attributes
    ----------
    source, date
        Who published the prices, and the day they were read.
    """

    schema_version: SchemaVersion = 1
    kind: Literal["catalogue"] = "catalogue"
    name: Name
    source: Text
    date: datetime.date
    region: Name | None = None
    types: Annotated[
        tuple[HardwareType, ...],
        *entries(20_000, least=1),
        TABLE_FILE,
    ]

    def _complaints(self) -> Iterable[Complaint]:
        return repeated((machine.name for machine in self.types), "types")

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row for each machine."""
        import pandas as pd

        return pd.DataFrame([machine.model_dump() for machine in self.types])


def fill_from_catalogue(
    data: Any, table: str, figures: Callable[[HardwareType, Mapping[str, Any]], Mapping[str, Any]]
) -> Any:
    """Fill in missing figures of the rows of `table` from the catalogue entries that they name.

    Parameters
    ----------
    data
        An instance document before validation.
    table
        The key of the list whose rows may have a `hardware` field.
    figures
        Returns the fields that an entry gives a row, which the row may give itself.
    """
    if not isinstance(data, Mapping) or data.get("catalogue") is None:
        return data
    catalogue, rows_given = data["catalogue"], data.get(table)
    if not isinstance(catalogue, HardwareCatalogue):
        try:
            catalogue = HardwareCatalogue.model_validate(catalogue)
        except ValidationError as error:
            faults = faults_of(error, HardwareCatalogue, "").faults
            refuse((f"catalogue.{fault.path}" if fault.path else "catalogue", fault.what) for fault in faults)
    if not isinstance(rows_given, Sequence) or isinstance(rows_given, str):
        return data
    machines = {machine.name: machine for machine in catalogue.types}
    rows, complaints = [], []
    for index, row in enumerate(rows_given):
        if not isinstance(row, Mapping) or not isinstance(row.get("hardware"), str):
            rows.append(row)
            continue
        machine = machines.get(row["hardware"])
        if machine is None:
            what = f"{row['hardware']!r} is not in the catalogue {catalogue.name!r}"
            complaints.append(
                (f"{table}[{index}].hardware", f"{what}; it has {', '.join(list(machines)[:8])}, …")
            )
            continue
        rows.append({**figures(machine, row), **row})
    refuse(complaints)
    return {**data, table: rows, "catalogue": None}


MAX_SLOTS = 64
Slot = Annotated[Count, Field(lt=MAX_SLOTS)]
Slots = Annotated[Count, Field(ge=1, le=MAX_SLOTS)]


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
    starts: Annotated[tuple[Slot, ...], Field(min_length=1, max_length=MAX_SLOTS)]

    def mask(self, start: int) -> int:
        """Return a bit mask of the slots that a partition of this profile occupies from slot `start` on."""
        return ((1 << self.size) - 1) << start


class Geometry(Checked):
    """How one device can be partitioned."""

    slots: Slots
    profiles: Annotated[dict[Name, Profile], *entries(100, least=1)]

    def _complaints(self) -> Iterator[Complaint]:
        for name, profile in self.profiles.items():
            beyond = [start for start in profile.starts if start + profile.size > self.slots]
            if beyond:
                what = f"{profile.size} slots from {beyond[0]} on are more than the {self.slots} there are"
                yield f"profiles.{name}.starts", what

    def most(self, profile: str, taken: int = 0) -> int:
        """Return how many more partitions of a profile fit, given the bit mask of occupied slots."""
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
    """Return the partition geometry (MIG, 8 memory slots) of an A100 or H100 with these profile names."""
    starts = ((1, tuple(range(7))), (2, (0, 2, 4, 6)), (2, (0, 2, 4)), (4, (0, 4)), (4, (0,)), (8, (0,)))
    return _mig(8, dict(zip(names.split(), starts, strict=True)))


GEOMETRIES: Mapping[str, Geometry] = {
    "a30-24": _mig(4, {"1g.6gb": (1, (0, 1, 2, 3)), "2g.12gb": (2, (0, 2)), "4g.24gb": (4, (0,))}),
    "a100-40": _of_eight("1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb"),
    "a100-80": _of_eight("1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
    "h100-80": _of_eight("1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
}
"""Geometries that documents can name."""
