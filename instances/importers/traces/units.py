"""Units of time in which a column may count: said by an option, or by the column's name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

TimeUnit = Literal["us", "ms", "s", "min", "h", "d"]

WORDS: dict[TimeUnit, str] = {
    "us": "microseconds",
    "ms": "milliseconds",
    "s": "seconds",
    "min": "minutes",
    "h": "hours",
    "d": "days",
}
_SECONDS: dict[TimeUnit, tuple[int, int]] = {
    "us": (1, 10**6),
    "ms": (1, 1000),
    "s": (1, 1),
    "min": (60, 1),
    "h": (3600, 1),
    "d": (86400, 1),
}
"""Seconds of a unit as a fraction: dividing by 1,000 rounds once, and multiplying by 0.001 twice."""
_NAMES: dict[str, TimeUnit] = {
    **dict.fromkeys(("us", "µs", "usec", "usecs", "micros", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("ms", "msec", "msecs", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
}
_WORD = re.compile(r"[A-Zµ]?[a-zµ]+|[A-Zµ]+")


@dataclass(frozen=True)
class ColumnUnit:
    """The unit of a column, and how it is known.

    Attributes
    ----------
    unit
        In which its numbers count.
    why
        Follows the sentence that says so.
    """

    unit: TimeUnit
    why: str

    @classmethod
    def of(cls, column: str, given: TimeUnit | None, option: str) -> ColumnUnit:
        """Return the unit of a column: the one of the option, else that of its name, else seconds."""
        if given is not None:
            return cls(given, f", by {option}")
        named = unit_of_name(column)
        if named is None:
            return cls("s", f"; its name has no unit, and {option} takes another")
        return cls(named, f", as its name says; {option} takes another")

    def in_seconds(self, value: float) -> float:
        """Return a number of the column in seconds."""
        many, parts = _SECONDS[self.unit]
        return value * many / parts

    def sentence(self, column: str) -> str:
        """Return the assumption about the column."""
        return f"Column {column!r} is in {WORDS[self.unit]}{self.why}."


def unit_of_name(column: str) -> TimeUnit | None:
    """Return the unit that ends the name of a column, such as ``runtime_min``, ``waitMs`` or ``time [h]``.

    None where there is none; a single ``m`` may be minutes, months or more, and is none.
    """
    words = _WORD.findall(column)
    return _NAMES.get(words[-1].lower()) if words else None
