"""Libraries in threads: calls that end in time, and global state that threads take in turns."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ..common.base import Clock

GLOBAL_STATE = threading.RLock()
"""Held while warnings are silenced, or PyTorch's and Optuna's settings are changed."""

T = TypeVar("T")

GRACE, GRACE_S = 0.05, 0.3
"""A library is left, without an answer, this share of its time limit and so many seconds after it."""
LOOK_S = 0.1
"""Seconds between two looks whether a call has ended; Ctrl-C waits for the next."""
LAST_WAIT_S = 10.0
"""Seconds that the interpreter waits at its end for calls that were left behind."""

_left_behind: list[threading.Event] = []


@contextlib.contextmanager
def no_warnings() -> Iterator[None]:
    """Silence warnings; the filters are those of the whole process, so threads take turns."""
    with GLOBAL_STATE, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@atexit.register
def wait_for_those_left_behind() -> None:
    """Wait for calls that were asked to stop, before the interpreter ends.

    A library that comes back to an interpreter that has ended aborts the process.
    """
    end = time.perf_counter() + LAST_WAIT_S
    for ended in _left_behind:
        ended.wait(max(0.0, end - time.perf_counter()))


def within(clock: Clock, call: Callable[[], T], cancel: Callable[[], None]) -> T | None:
    """Return what a call of a library returns, None where it went on well after its time.

    The call runs in a thread of its own, which is then left behind: what libraries do between two looks at
    their limit can take longer than the limit, and cannot be stopped from outside. In the main thread Ctrl-C
    cancels the call, so that it keeps its plan.

    Parameters
    ----------
    cancel
        Asks the library to stop.
    """
    answers, raised, left = list[T](), list[BaseException](), clock.remaining_s
    ended = threading.Event()

    def run() -> None:
        try:
            answers.append(call())
        except BaseException as error:  # noqa: BLE001 - raised below, in the thread that waits
            raised.append(error)
        finally:
            ended.set()

    threading.Thread(target=run, daemon=True).start()
    end = None if left is None else time.perf_counter() + (1 + GRACE) * left + GRACE_S
    # Not `join`: interrupted, it may take a thread for ended that runs (python/cpython#90882).
    while not ended.is_set():
        try:
            wait_s = LOOK_S if end is None else min(LOOK_S, end - time.perf_counter())
            if wait_s < 0:
                _left_behind[:] = [one for one in _left_behind if not one.is_set()] + [ended]
                cancel()
                return None
            ended.wait(wait_s)
        except KeyboardInterrupt:
            cancel()
    if raised:
        raise raised[0]
    return answers[0]


def run_highs(model: Any, clock: Clock) -> bool:
    """Run HiGHS on its model; return whether it ended in time."""
    # Looking for it costs time, and other threads get no Ctrl-C.
    model.HandleUserInterrupt = threading.current_thread() is threading.main_thread()
    return within(clock, model.solve, model.cancelSolve) is not None
