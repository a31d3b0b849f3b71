"""Hardware catalogues: what one can rent, with its price."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    in_slices,
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
        """Return the price of one GPU's share of the machine, or of one vCPU's where it has no GPU."""
        return self.price_usd_per_hour / (self.gpus or self.vcpus or 1)

    def unit_memory_gib(self) -> float | None:
        """Return the memory of one GPU, or one vCPU's share where the machine has no GPU; None if unknown."""
        if self.gpus:
            return self.gpu_memory_gib
        return self.memory_gib / (self.vcpus or 1)

    def capacity(self) -> dict[str, float]:
        """Return what one machine offers, under the resource names gpu, cpu and memory_gib."""
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
        tuple[HardwareType, ...], Field(min_length=1, max_length=20_000), in_slices(20_000), TABLE_FILE
    ]

    def _complaints(self) -> Iterable[Complaint]:
        return repeated((machine.name for machine in self.types), "types")

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each machine."""
        import pandas as pd

        return pd.DataFrame([machine.model_dump() for machine in self.types])


def fill_from_catalogue(data: Any, table: str, figures: Mapping[str, Callable[[HardwareType], Any]]) -> Any:
    """Fill figures that the rows of `table` leave out from the catalogue entry that they name.

    Parameters
    ----------
    data
        An instance document before validation.
    table
        The key of the list whose rows may have a `hardware` field.
    figures
        Field of the row → what the entry gives for it.
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
        rows.append({field: figure(machine) for field, figure in figures.items()} | dict(row))
    refuse(complaints)
    return {**data, table: rows, "catalogue": None}
