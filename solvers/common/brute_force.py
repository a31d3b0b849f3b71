"""The size limit of brute force, whose recursion is as deep as there are decisions."""

from __future__ import annotations

from ...instances.common.errors import TooLargeError

MOST = 200
"""Decisions, each a recursive call; Python cannot nest calls much deeper."""


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
