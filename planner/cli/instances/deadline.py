"""Deadlines as people write them: a day of the week, a date, or a date and a time."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta

from ....instances.common.errors import OptionError

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
NEAR = ("today", "tomorrow")
HOUR = timedelta(hours=1)


def hours_until(text: str, now: datetime | None = None) -> float:
    """Return the hours from now until a deadline; a day alone means its end, in local time.

    Parameters
    ----------
    text
        Such as ``friday``, ``tomorrow``, ``2026-11-27`` or ``2026-11-27T18:00``; an offset (``+01:00``) is
        heeded.
    now
        When it is asked; by default, now.

    Raises
    ------
    OptionError
        If it is none of these, or is over.
    """
    asked = (now or datetime.now()).astimezone()
    try:
        until = _until(text.strip(), asked.date()).astimezone()
    except (ValueError, OverflowError):
        what = "write a day such as friday, tomorrow or 2026-11-27, or 2026-11-27T18:00"
        raise OptionError(f"--deadline {text!r:.60}: {what}") from None
    hours = (until - asked) / HOUR
    if hours <= 0:
        raise OptionError(f"--deadline {text!r:.60}: is over since {-hours:.1f} h")
    return hours


def _until(text: str, today: date) -> datetime:
    """Return a time, or the end of a day."""
    if text.lower() in DAYS:
        day = today + timedelta(days=(DAYS.index(text.lower()) - today.weekday()) % len(DAYS))
    elif text.lower() in NEAR:
        day = today + timedelta(days=NEAR.index(text.lower()))
    else:
        try:
            day = date.fromisoformat(text)
        except ValueError:
            return datetime.fromisoformat(text)
    return datetime.combine(day + timedelta(days=1), time())
