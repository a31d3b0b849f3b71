"""Rejected entries of a file: they are left out, counted and reported; the valid ones are imported."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from ..common.errors import Fault, Faults, one_line, shortened, some
from ..common.faults import faults_of
from ..common.fields import Model
from .node_restrictions import NAMED, counted

MAX_INVALID = 1_000
"""Number of invalid entries at the start of a file after which it is refused as a whole."""

ModelT = TypeVar("ModelT", bound=Model)
Entry = tuple[str, str, Any]
"""Path in the source, name, and data of an entry."""


@dataclass
class RejectedEntries:
    """The rejected entries of one list of a file.

    Parameters
    ----------
    entry
        The word for an entry, such as pod.
    data
        The data of the rejected entries.
    reasons
        Names of the first few, each with its fault.
    """

    entry: str
    data: list[Any] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def add(self, data: Any, name: str, fault: Fault) -> None:
        """Add a rejected entry, with name and fault if it is one of the first."""
        self.data.append(data)
        if not self.names_enough:
            wrong = f"{fault.path} {fault.what}".strip()
            self.reasons.append(shortened(one_line(f"{name} ({wrong})"), 200))

    @property
    def names_enough(self) -> bool:
        """Whether no further entries are named."""
        return len(self.reasons) > NAMED

    def sentences(self) -> Iterator[str]:
        """Yield a note on the number of rejected entries, with the first few names and faults."""
        if self.data:
            are = counted(len(self.data), f"{self.entry} is", f"{self.entry}s are")
            yield f"{are} invalid and left out: {some(self.reasons, NAMED)}."


def valid_entries(
    model: type[ModelT],
    entries: Iterable[Entry],
    source: str,
    left_out: RejectedEntries,
    key: Callable[[ModelT], Hashable] | None = None,
) -> Iterator[ModelT]:
    """Yield the valid entries of a list as a `model`; reject the others, and duplicates by `key`.

    Raises
    ------
    InstanceError
        If none of them, or none of the first thousand, is valid; one fault a line.
    """
    faults = Faults()
    taken = set[Hashable]()
    for path, name, data in entries:
        try:
            valid = model.model_validate(data)
        except ValidationError as error:
            # Formatting a fault takes longer than finding it; of a million only the first are named.
            if taken and left_out.names_enough:
                left_out.data.append(data)
                continue
            wrong = faults_of(error, model, source)
            left_out.add(data, name, wrong.faults[0])
            faults.add_all(wrong, path)
            if not taken and len(left_out.data) >= MAX_INVALID:
                break
        else:
            identity = len(taken) if key is None else key(valid)
            if identity in taken:
                left_out.add(data, name, Fault(source, "", "is listed twice"))
                continue
            taken.add(identity)
            yield valid
    if not taken:
        faults.refuse()
