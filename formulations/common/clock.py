"""Time limits of solves: a clock, and the interruption of work that has no partial result.

A search, which has an incumbent at any time, receives a clock and polls it. Building a model, a table or a
certificate has no partial result: inside ``with clock.enforced():`` its functions call `check_time`, which
raises once the time is up. Of nested blocks the innermost counts, so that the check of a plan can be given
the time that it needs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from ...instances.common.errors import OutOfTimeError, TooLargeError

MAX_TERMS = 10_000_000
"""Maximum number of coefficients of an explicit model: some gigabytes as Python objects."""
TERMS_PER_S = 1_000_000
"""Upper bound on the coefficients of an explicit model that a machine of today builds in one second."""

CHECK_INTERVAL = 100
"""Number of items between two reads of the clock."""

ItemT = TypeVar("ItemT")


class Clock:
    """Measures the elapsed time of a solve against its time limit.

    Parameters
    ----------
    limit_s
        Seconds from now; None for no limit.
    """

    def __init__(self, limit_s: float | None = None) -> None:
        self._start = time.perf_counter()
        self.limit_s = limit_s

    @property
    def elapsed_s(self) -> float:
        """Seconds since the clock was started."""
        return time.perf_counter() - self._start

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the time limit, never negative; None without a limit."""
        return None if self.limit_s is None else max(0.0, self.limit_s - self.elapsed_s)

    @property
    def expired(self) -> bool:
        """Whether the time limit has been reached."""
        return self.limit_s is not None and self.elapsed_s >= self.limit_s

    def share(self, part: float) -> Clock:
        """Return a clock whose time limit is the given fraction of the remaining time."""
        return Clock(None if self.remaining_s is None else part * self.remaining_s)

    def at_most(self, limit_s: float) -> Clock:
        """Return a clock whose time limit is the smaller of a limit and the remaining time, in seconds."""
        return Clock(limit_s if self.remaining_s is None else min(limit_s, self.remaining_s))

    def at_least(self, limit_s: float) -> Clock:
        """Return a clock whose time limit is the larger of a limit and the remaining time, in seconds."""
        return Clock(None if self.remaining_s is None else max(limit_s, self.remaining_s))

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """Make `check_time` raise inside the block once the clock has expired, in this thread only."""
        with with_value(_enforced, self):
            yield


@contextmanager
def with_value(variable: ContextVar[ItemT], value: ItemT) -> Iterator[None]:
    """Give a variable a value inside the block, in this thread only."""
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


_enforced: ContextVar[Clock | None] = ContextVar("enforced", default=None)


def time_is_up() -> bool:
    """Return whether the clock of the enclosing `enforced()` block has expired, to end loops early."""
    clock = _enforced.get()
    return clock is not None and clock.expired


def time_left_s() -> float | None:
    """Return the seconds left on the clock of the enclosing `enforced()` block; None without a limit."""
    clock = _enforced.get()
    return None if clock is None else clock.remaining_s


def check_time() -> None:
    """Raise an error if the clock of the enclosing `enforced()` block has expired.

    Raises
    ------
    OutOfTimeError
        If it has.
    """
    if time_is_up():
        raise OutOfTimeError("preparing it takes longer than there is time for")


def until_time_limit(items: Iterable[ItemT]) -> Iterator[ItemT]:
    """Yield the items; raise an error once the clock of the enclosing `enforced()` block has expired.

    Raises
    ------
    OutOfTimeError
        If it has.
    """
    for index, item in enumerate(items):
        if index % CHECK_INTERVAL == 0:
            check_time()
        yield item


def check_model_size(terms: int, what: str) -> None:
    """Raise an error if an explicit model is too large for the memory or for the remaining time.

    Parameters
    ----------
    terms
        Number of coefficients of the model.

    Raises
    ------
    TooLargeError
        Saying how large it would be, and what to do; an `OutOfTimeError` where only the time is too short.
    """
    check_time()
    advice = "use --solver exact, which needs no such model"
    if terms > MAX_TERMS:
        raise TooLargeError(
            f"{what} would have {terms:,} coefficients, and at most {MAX_TERMS:,} are allowed; {advice}"
        )
    left = time_left_s()
    if left is not None and terms > TERMS_PER_S * left:
        raise OutOfTimeError(
            f"{what} would have {terms:,} coefficients, which cannot be written down in the {left:.3g} s "
            f"that are left of the time limit; raise it, or {advice}"
        )
