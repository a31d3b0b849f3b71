"""What the brute-force methods share: they decide one thing after the other, each in a call of its own."""

from __future__ import annotations

from ...instances.common.errors import TooLargeError

MOST = 200
"""Things that are decided one after the other; calls cannot be nested much deeper."""


def refuse_many(count: int, what: str) -> None:
    """Refuse an instance that is too large to be enumerated.

    Raises
    ------
    TooLargeError
        If there are too many of something.
    """
    if count > MOST:
        raise TooLargeError(
            f"brute-force is for tiny instances: there are {count:,} {what}, and at most {MOST} are allowed; "
            "use --solver exact"
        )
