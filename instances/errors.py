"""Errors that a user can cause, and mend; each says what is wrong and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


class ClusterplanError(Exception):
    """Base of every error whose text is meant for the user."""


class OptionError(ClusterplanError):
    """An option, solver name or value that cannot be used as given."""


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
        text = ": ".join(" ".join(part.split()) for part in parts if part)
        # What is not printable could command the terminal.
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class InstanceError(ClusterplanError):
    """An input that is not a valid document; holds every fault that was found.

    Parameters
    ----------
    faults
        At least one fault; the text of the error is one line for each.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))
