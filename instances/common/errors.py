"""Errors that a user can cause, and mend; each says what is wrong and what is allowed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .printable import one_line, shortened

MOST_FAULTS = 100
"""Faults that an error names; the others are counted."""
LONGEST_PART = 2_000
"""Characters of each part of a fault."""


class ClusterplanError(Exception):
    """Base of every error whose text is meant for the user."""


class OptionError(ClusterplanError):
    """An option, solver name or value that cannot be used as given."""


class RefusedError(OptionError):
    """A question that can be understood, to which nothing that was named is an answer."""


class UnavailableError(ClusterplanError):
    """A solver or library that is known but not installed or not loadable here."""


class TooLargeError(ClusterplanError):
    """An instance whose explicit model would not fit this method's stated size."""


class OutOfTimeError(TooLargeError):
    """Work that the time limit did not suffice for, and that has nothing to show before its end."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong in an input.

    Parameters
    ----------
    source
        File name, or what the input is called where there is no file.
    path
        Where inside it, such as ``jobs[3].variants[0].speed.theta``; empty for the whole.
    what
        What is wrong and what is allowed, in one line.
    """

    source: str
    path: str
    what: str

    def __str__(self) -> str:
        parts = (self.source, self.path, self.what)
        return ": ".join(one_line(shortened(part, LONGEST_PART)) for part in parts if part)


class InstanceError(ClusterplanError):
    """An input that is not a valid document; holds the first hundred faults that were found.

    Parameters
    ----------
    faults
        At least one fault; the text of the error is one line for each.
    more
        How many more there are.
    stopped
        Whether reading stopped before the end of the input, so that nobody knows how many more there are.

    Attributes
    ----------
    faults
        The faults that the text names.
    """

    def __init__(self, faults: Iterable[Fault], more: int = 0, stopped: bool = False) -> None:
        found = iter(faults)
        self.faults = tuple(itertools.islice(found, MOST_FAULTS))
        self.more = more + sum(1 for _ in found)
        self.stopped = stopped
        super().__init__("\n".join([*map(str, self.faults), *self._rest()]))

    def _rest(self) -> Iterator[str]:
        if self.more:
            yield f"… and {self.more:,} more fault{'s' if self.more > 1 else ''}"
        if self.stopped:
            yield "… and perhaps more: reading stopped here"


def refuse_faults(source: str, complaints: Iterable[tuple[str, str]]) -> None:
    """Raise one fault for each complaint, which is a path inside the source and what is wrong there.

    Raises
    ------
    InstanceError
        If there is any.
    """
    faults = [Fault(source, path, what) for path, what in complaints]
    if faults:
        raise InstanceError(faults)


class Faults:
    """The faults that are found while a long input is read: as many are kept as an error names.

    A reader that finds one fault after the other stops once it has enough of them.
    """

    def __init__(self) -> None:
        self._kept: list[Fault] = []
        self._more = 0
        self._stopped = False

    def add(self, fault: Fault) -> None:
        """Note a fault."""
        if len(self._kept) >= MOST_FAULTS:
            self._more += 1
        else:
            self._kept.append(fault)

    def add_all(self, error: InstanceError, place: str = "") -> None:
        """Note the faults of an error, whose paths start at `place`."""
        for fault in error.faults:
            path = f"{place}.{fault.path}".strip(".") if place else fault.path
            self.add(Fault(fault.source, path, fault.what))
        self._more += error.more
        self._stopped |= error.stopped

    def stop(self) -> bool:
        """Return whether reading ends here, for there are as many as an error names; it will say so."""
        self._stopped |= len(self._kept) >= MOST_FAULTS
        return len(self._kept) >= MOST_FAULTS

    def refuse(self) -> None:
        """Raise the faults as an error; do nothing where there is none.

        Raises
        ------
        InstanceError
            If there is a fault.
        """
        if self._kept:
            raise InstanceError(self._kept, self._more, self._stopped)
