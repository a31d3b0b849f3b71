"""Formatting of durations, statuses and counts in reports."""

from __future__ import annotations

from ...solvers.common.result import with_limit
from ..output.text import figure

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
STATUS = {
    "optimal": "proven optimal",
    "feasible": "a plan, not proven optimal",
    "infeasible": "proven to have no plan",
    "unknown": "no plan was found",
    "error": "failed",
    "complete": "complete",
    "partial": "stopped before it was complete",
}
MARK = {"optimal": "good", "complete": "good", "infeasible": "bad", "error": "bad"}


def short(value: float | None, digits: int = 6) -> str:
    """Return a number without zeros at its end; an unknown one is a dash."""
    if value is not None and 0 < abs(value) < 1:
        return f"{value:.{digits}g}"
    written = figure(value, digits)
    return written.rstrip("0").rstrip(".") if "." in written and "e" not in written else written


def duration(seconds: float | None) -> str:
    """Return a time in the unit that suits it."""
    if seconds is None:
        return "–"
    if 0 < seconds < 0.1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 2 * MINUTE:
        return f"{seconds:.3g} s"
    unit, name = unit_of_time(seconds)
    return f"{short(seconds / unit, 4)} {name}"


def unit_of_time(seconds: float) -> tuple[float, str]:
    """Return the unit, in seconds, in which a time reads best, with its short name."""
    if seconds < 2 * MINUTE:
        return 1.0, "s"
    if seconds < 2 * HOUR:
        return MINUTE, "min"
    return (HOUR, "h") if seconds < 4 * DAY else (DAY, "days")


def status_words(status: str, limit: str) -> str:
    """Return a status in words, with the limit that was hit."""
    return with_limit(STATUS[status], status, limit)


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(names: list[str], most: int = 8) -> str:
    """Return names in a row, cut where there are many."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")
