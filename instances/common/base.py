"""Base class of all instances: kind, name, assumptions, canonical form, hash, uncertainty intervals.

Some figures of an instance may have intervals; `at_ends` returns the instance with all of them at the
lower or upper end. A notebook shows an object as a short HTML table, without scripts, in light and dark.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import ConfigDict

from ..files.columns import frame_rows
from .errors import OptionError, refuse_faults
from .faults import validated
from .fields import (
    Checked,
    Complaint,
    Fields,
    Flag,
    Many,
    Model,
    Name,
    Positive,
    SchemaVersion,
    Text,
    require,
)

if TYPE_CHECKING:
    import pandas as pd


SCENARIOS = ("low", "middle", "high")
"""The scenarios of an uncertain instance: all figures at their lower ends, as given, at their upper ends."""
EACH = "*"


class Uncertain(Model):
    """The interval of one figure, or of several that are too small or too large together.

    Attributes
    ----------
    figure
        Where it stands in the resolved document, as a JSON pointer (RFC 6901) such as
        ``/layers/0/compute_s/h100``; ``*`` stands for all entries of a list or mapping.
    low, high
        What the figure is multiplied by at the low and the high end. Of a time `low` is below 1; of a speed,
        which is large where times are small, above.
    inside
        Whether it was predicted inside what was measured.
    basis
        What the interval rests on.
    """

    figure: Name
    low: Positive
    high: Positive
    inside: Flag = False
    basis: Text | None = None


def scale_figures(document: Any, pointer: str, factor: float) -> Iterator[Complaint]:
    """Multiply the figures that a JSON pointer names, in place; yield complaints about the pointer."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")]
    if parts[0] or len(parts) < 2:
        yield pointer, "is no pointer; write such as /layers/0/compute_s/h100"
        return
    places: list[tuple[Any, Any]] = [((document,), 0)]
    for part in parts[1:]:
        places = [(inner, key) for place, at in places for inner, key in _keys(place[at], part)]
    if not places:
        yield pointer, "names no figure of the instance"
    for holder, key in places:
        value = holder[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield pointer, f"names {type(value).__name__}, which is no number"
            return
        holder[key] = value * factor


def _keys(holder: Any, part: str) -> list[tuple[Any, Any]]:
    """Return the (container, key) pairs of the entries that one token of a JSON pointer matches."""
    if isinstance(holder, MutableMapping):
        keys: list[Any] = list(holder) if part == EACH else [part] if part in holder else []
    elif isinstance(holder, MutableSequence):
        indices = range(len(holder))
        keys = [index for index in indices if part in (EACH, str(index))]
    else:
        keys = []
    return [(holder, key) for key in keys]


MAX_ROWS = 12
CELL = 'style="text-align:{align};padding:0.15em 0.8em 0.15em 0;border:none;background:none"'


def figure(value: float | None) -> str:
    """Return a number as text with at most seven digits; a dash for None."""
    return "–" if value is None else f"{value:,.7g}"


def percent(value: float | None) -> str:
    """Return a fraction as text in per cent; a dash for None."""
    return "–" if value is None else f"{100 * value:.3g} %"


def card(
    title: str, lines: Iterable[str], columns: Sequence[str] = (), rows: Sequence[Sequence[str]] = ()
) -> str:
    """Return the HTML fragment for a notebook, with all text escaped.

    Parameters
    ----------
    title, lines
        The heading and the sentences below it.
    columns, rows
        A table; the first column is text and the others are numbers. Of many rows the first are shown.
    """
    parts = [f"<div><strong>{escape(title)}</strong>"]
    parts += [f"<div>{escape(line)}</div>" for line in lines if line]
    if rows:
        parts.append('<table style="border-collapse:collapse;font-variant-numeric:tabular-nums">')
        parts += [_row("th", columns)] if columns else []
        parts += [_row("td", row) for row in rows[:MAX_ROWS]]
        parts.append("</table>")
    if len(rows) > MAX_ROWS:
        parts.append(f"<div>… and {len(rows) - MAX_ROWS:,} more</div>")
    return "".join([*parts, "</div>"])


def _row(tag: str, cells: Sequence[str]) -> str:
    made = [
        f"<{tag} {CELL.format(align='right' if index else 'left')}>{escape(cell)}</{tag}>"
        for index, cell in enumerate(cells)
    ]
    return f"<tr>{''.join(made)}</tr>"


LARGEST_RATIO = 1e15
"""Ratio of two figures beyond which their sum loses the smaller: doubles have about 16 decimal digits."""

ProblemKind = str
"""The kind of problem: its name in the registries of instances, formulations, solvers and planner."""


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
    """Fields that options of `solve` set; a result repeats them, so that its check uses the same values."""

    schema_version: SchemaVersion = 1
    kind: ProblemKind
    name: Name
    source: Text | None = None
    assumptions: Many[Text] = ()
    uncertainty: Many[Uncertain] | None = None

    def document(self) -> Fields:
        """Return the resolved document as plain data; fields that are not set are left out."""
        return self.model_dump(mode="json", exclude_none=True)

    def chosen(self) -> Fields:
        """Return the document fields that options of `solve` can set, None where they are not set."""
        return self.model_dump(mode="json", include=set(self.chosen_with_solve))

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values for some fields of the document, validated like a new instance.

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
        """Return scenario → instance with all uncertain figures at the low ends, as given, or at the high.

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
        scenarios: dict[str, Self] = {}
        for end in SCENARIOS:
            document = self.document()
            del document["uncertainty"]
            for index, one in enumerate(self.uncertainty if end != "middle" else ()):
                wrong = scale_figures(document, one.figure, one.low if end == "low" else one.high)
                refuse_faults(self.name, ((f"uncertainty[{index}].figure", f"{p!r} {w}") for p, w in wrong))
            scenarios[end] = validated(type(self), document, f"{self.name}, {end} end")
        return scenarios

    def sha256(self) -> str:
        """Return the hash of the canonical form of the document with all its tables read in.

        Two files that mean the same have the same hash: defaults are filled in, keys are sorted.
        """
        return self._digest(self.document())

    @staticmethod
    def _digest(document: Fields) -> str:
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_frame(self) -> pd.DataFrame:
        """Return the main table of the instance, one row for each job or layer."""
        raise NotImplementedError

    def figure_notes(self) -> list[str]:
        """Return warnings about figures that were assumed, or look as if they were in another unit."""
        return []

    def scale_notes(self) -> list[str]:
        """Return warnings about columns of so wide a range that sums lose the smallest figures."""
        notes = []
        for name, column in self.to_frame().select_dtypes("number").items():
            amounts = column.abs()
            amounts = amounts[(amounts > 0) & (amounts < math.inf)]
            if len(amounts) and amounts.max() > LARGEST_RATIO * amounts.min():
                notes.append(
                    f"{name} goes from {amounts.min():g} to {amounts.max():g}; a sum keeps 16 digits, so the "
                    "smallest do not count beside the largest; bring them closer together"
                )
        return notes

    def sizes(self) -> dict[str, int]:
        """Return name of a list of the document, such as jobs or servers → its length."""
        return {
            field: len(rows)
            for field in type(self).model_fields
            if isinstance(rows := getattr(self, field), Sequence | Mapping)
            and not isinstance(rows, str)
            and field not in ("assumptions", "uncertainty", "objectives", "prices_usd_per_hour")
        }

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        lines = [f"{self.kind} instance", self.source or "", *self.assumptions]
        rows = [(name, f"{count:,}") for name, count in self.sizes().items()]
        return card(self.name, lines, (), rows)
