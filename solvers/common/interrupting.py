"""Time limits for Python code of others, which does not ask our clock."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ...formulations.common.clock import Clock
from ...instances.common.errors import OutOfTimeError

_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc


class _TimeUpError(OutOfTimeError):
    """Python makes it without arguments in the thread that is interrupted."""

    def __init__(self) -> None:
        super().__init__("preparing it takes longer than there is time for")


@contextmanager
def interrupting(clock: Clock) -> Iterator[None]:
    """Interrupt the block once the time is up, between two steps of Python code.

    Modelling libraries take seconds to write a large model down, and cannot be given a limit for that. What
    they do in C is not interrupted. They have to be loaded before: one that is interrupted meanwhile stays
    broken, and may end the whole process later.

    Raises
    ------
    OutOfTimeError
        If the time is up before the block ends.
    """
    left, here = clock.remaining_s, ctypes.c_ulong(threading.get_ident())
    if left is None:
        yield
        return
    ended, turn = threading.Event(), threading.Lock()

    def watch() -> None:
        ended.wait(left)
        with turn:
            if not ended.is_set():
                _raise_in(here, ctypes.py_object(_TimeUpError))

    try:
        threading.Thread(target=watch, daemon=True).start()
        yield
    except Exception as error:
        if isinstance(error, OutOfTimeError) or not _by_interruption(error):
            raise
        raise _TimeUpError from error
    finally:
        with turn:
            ended.set()
        _raise_in(here, None)  # raised too late to interrupt anything


def _by_interruption(error: BaseException | None) -> bool:
    """Return whether an error was made of an interruption, or while one was dealt with."""
    while error is not None and not isinstance(error, _TimeUpError):
        error = error.__cause__ or error.__context__
    return error is not None
