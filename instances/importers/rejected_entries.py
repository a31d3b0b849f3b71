"""Entries of a file that cannot be used: left out, counted, and said why; the others are imported."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from ..common.errors import Fault, Faults, one_line, shortened, some
from ..common.faults import faults_of
from ..common.fields import Model
from .node_restrictions import counted

NAMED = 3
"""So many of those that are left out are named, with what is wrong."""
MOST_WRONG = 1_000
"""A file that begins with so many wrong entries is another one than was asked for."""

ModelT = TypeVar("ModelT", bound=Model)
Entry = tuple[str, str, Any]
"""Path in the source, name, and data of an entry."""


@dataclass
class LeftOut:
    """What is left out of one list of a file.

    Parameters
    ----------
    entry
        What an entry is called, such as pod.
    data
        What is left out.
    reasons
        The first few by name, each with what is wrong with it.
    """

    entry: str
    data: list[Any] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def add(self, data: Any, name: str, fault: Fault) -> None:
        """Leave an entry out, and name it if it is one of the first."""
        self.data.append(data)
        if not self.names_enough:
            wrong = f"{fault.path} {fault.what}".strip()
            self.reasons.append(shortened(one_line(f"{name} ({wrong})"), 200))

    @property
    def names_enough(self) -> bool:
        """Whether the first few are named."""
        return len(self.reasons) > NAMED

    def sentences(self) -> Iterator[str]:
        """Say how many are left out, why, and which come first."""
        if self.data:
            are = counted(len(self.data), f"{self.entry} is", f"{self.entry}s are")
            yield f"{are} invalid and left out: {some(self.reasons, NAMED)}."


def valid_entries(
    model: type[ModelT],
    entries: Iterable[Entry],
    source: str,
    left_out: LeftOut,
    key: Callable[[ModelT], Hashable] | None = None,
) -> Iterator[ModelT]:
    """Yield each entry that is a `model`; leave out the others, and those with a key that an earlier one has.

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
            # To say what is wrong takes longer than to find it; of a million only the first are named.
            if taken and left_out.names_enough:
                left_out.data.append(data)
                continue
            wrong = faults_of(error, model, source)
            left_out.add(data, name, wrong.faults[0])
            faults.add_all(wrong, path)
            if not taken and len(left_out.data) >= MOST_WRONG:
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
