"""Pairs of names and numbers, as options take them."""

from __future__ import annotations

from typing import Any

from ....instances.common.errors import OptionError


def pairs(text: str, option: str, kind: type) -> dict[str, Any]:
    """Return the numbers of NAME=NUMBER,NAME=NUMBER.

    Parameters
    ----------
    option
        What faults call it.
    kind
        int or float.

    Raises
    ------
    OptionError
        If a part is no pair, or a name stands twice.
    """
    found = {}
    for part in text.split(","):
        name, sign, number = part.strip().partition("=")
        try:
            if not (sign and name):
                raise ValueError
            value = kind(number)
        except ValueError:
            raise OptionError(
                f"{option} {part.strip()!r}: write NAME=NUMBER, several separated by commas"
            ) from None
        if name in found:
            raise OptionError(f"{option} {part.strip()!r}: {name} stands twice; each name may stand once")
        found[name] = value
    return found
