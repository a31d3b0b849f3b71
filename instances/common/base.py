"""What every planning instance has: a kind, a name, its assumptions, a canonical form and its hash."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import ConfigDict

from ..files.frames import frame_rows
from .errors import OptionError, refuse_faults
from .faults import validated
from .fields import Checked, Many, Name, SchemaVersion, Text, require
from .html_summary import card
from .uncertainty import ENDS, Uncertain, scaled

if TYPE_CHECKING:
    import pandas as pd

TOLD_APART = 1e15
"""Doubles have 53 bits, about 16 decimal digits."""

ProblemKind = str
"""Which decision is to be made: the name of a kind in the registry of each floor."""


class Instance(Checked):
    """Base of all kinds of planning instance.

    Attributes
    ----------
    schema_version
        Version of the document format.
    kind
        Which decision is to be made.
    name
        What reports call this instance.
    source
        Where the figures come from.
    assumptions
        Everything that the source does not say and somebody assumed, in plain sentences.
    uncertainty
        Intervals of figures that were predicted; `solve --robust` plans at their ends.
    """

    model_config = ConfigDict(json_schema_extra=require("schema_version", "kind"))
    chosen_with_solve: ClassVar[tuple[str, ...]] = ()
    """Fields that options of `solve` set; a result repeats them, so that it is checked against the same."""

    schema_version: SchemaVersion = 1
    kind: ProblemKind
    name: Name
    source: Text | None = None
    assumptions: Many[Text] = ()
    uncertainty: Many[Uncertain] | None = None

    def document(self) -> dict[str, Any]:
        """Return the resolved document as plain data; fields that are not set are left out."""
        return self.model_dump(mode="json", exclude_none=True)

    def chosen(self) -> dict[str, Any]:
        """Return the fields that options of `solve` set as plain data, None where they say nothing."""
        return self.model_dump(mode="json", include=set(self.chosen_with_solve))

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values for some fields of the document, checked like a new instance.

        A list may also be given as a pandas table, with the columns of CSV files.

        Raises
        ------
        InstanceError
            If anything is wrong.
        """
        kept = self.model_dump(mode="json", exclude_none=True, exclude=set(changes))
        given = {name: frame_rows(value, f"{self.name}: {name}") for name, value in changes.items()}
        return validated(type(self), {**kept, **given}, self.name)

    def at_ends(self) -> dict[str, Self]:
        """Return the instance with all uncertain figures at their low ends, as it is, and at their high ends.

        Raises
        ------
        OptionError
            If it has no uncertain figures.
        InstanceError
            If a pointer names none, or an end is no valid instance.
        """
        if not self.uncertainty:
            raise OptionError(
                f"{self.name}: has no intervals, so that all ends are one; give the field uncertainty, "
                "or make the instance with 'clusterplan predict --output'"
            )
        found: dict[str, Self] = {}
        for end in ENDS:
            document = self.document()
            del document["uncertainty"]
            for index, one in enumerate(self.uncertainty if end != "middle" else ()):
                wrong = scaled(document, one.figure, one.low if end == "low" else one.high)
                refuse_faults(self.name, ((f"uncertainty[{index}].figure", f"{p!r} {w}") for p, w in wrong))
            found[end] = validated(type(self), document, f"{self.name}, {end} end")
        return found

    def sha256(self) -> str:
        """Return the hash of the resolved canonical document, tables included.

        Two files that mean the same have the same hash: defaults are filled in, keys are sorted.
        """
        return self._digest(self.document())

    @staticmethod
    def _digest(document: dict[str, Any]) -> str:
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_frame(self) -> pd.DataFrame:
        """Return the main table of the instance, one row for each job or layer."""
        raise NotImplementedError

    def figure_notes(self) -> list[str]:
        """Say which figures nobody gave, or look as if they were in another unit than the field's."""
        return []

    def scale_notes(self) -> list[str]:
        """Say which figures are so unlike that doubles lose the smaller ones when all are added up."""
        notes = []
        for name, column in self.to_frame().select_dtypes("number").items():
            amounts = column.abs()
            amounts = amounts[(amounts > 0) & (amounts < math.inf)]
            if len(amounts) and amounts.max() > TOLD_APART * amounts.min():
                notes.append(
                    f"{name} goes from {amounts.min():g} to {amounts.max():g}; a sum keeps 16 digits, so the "
                    "smallest do not count beside the largest; bring them closer together"
                )
        return notes

    def sizes(self) -> dict[str, int]:
        """Return how many rows each list of the document has, such as jobs and servers."""
        return {
            field: len(rows)
            for field in type(self).model_fields
            if isinstance(rows := getattr(self, field), Sequence | Mapping)
            and not isinstance(rows, str)
            and field not in ("assumptions", "uncertainty", "objectives", "prices_usd_per_hour")
        }

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        lines = [f"{self.kind} instance", self.source or "", *self.assumptions]
        rows = [(name, f"{count:,}") for name, count in self.sizes().items()]
        return card(self.name, lines, (), rows)
