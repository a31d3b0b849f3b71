"""Deadlines as people write them: a day of the week, a date, or a date and a time."""

from __future__ import annotations

from datetime import datetime, time, timedelta

from ....instances.common.errors import OptionError

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
HOUR = timedelta(hours=1)


def hours_until(text: str, now: datetime | None = None) -> float:
    """Return the hours from now until a deadline; a day alone means its end, in local time.

    Parameters
    ----------
    text
        Such as ``friday``, ``2026-11-27`` or ``2026-11-27T18:00``; an offset such as ``+01:00`` is heeded.
    now
        When it is asked; by default, now.

    Raises
    ------
    OptionError
        If it is none of these, or is over.
    """
    asked = (now or datetime.now()).astimezone()
    given = text.strip().lower()
    if given in DAYS:
        ahead = (DAYS.index(given) - asked.weekday()) % len(DAYS)
        until = datetime.combine(asked.date() + timedelta(days=ahead + 1), time()).astimezone()
    else:
        try:
            until = datetime.fromisoformat(text.strip())
            if len(given) <= len("2026-11-27"):
                until += timedelta(days=1)
        except (ValueError, OverflowError):
            what = "write a day such as friday or 2026-11-27, or 2026-11-27T18:00"
            raise OptionError(f"--deadline {text!r:.60}: {what}") from None
        until = until.astimezone()
    hours = (until - asked) / HOUR
    if hours <= 0:
        raise OptionError(f"--deadline {text!r:.60}: is over since {-hours:.1f} h")
    return hours
