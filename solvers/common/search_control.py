"""Control of running searches: time limits for foreign code, keyboard interrupts, and progress reports."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from ...formulations.common.clock import Clock, with_value
from ...formulations.common.objective import Objective
from ...instances.common.errors import OutOfTimeError
from .base import Outcome

INTERRUPT_INTERVAL_S = 0.1
"""Seconds between two interruptions, longer than libraries take to clean up."""

_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc

AnswerT = TypeVar("AnswerT")


class _TimeUpError(OutOfTimeError):
    """Raised asynchronously in a thread at its time limit; Python creates it without arguments."""

    def __init__(self) -> None:
        super().__init__("preparing it takes longer than there is time for")


def run_with_time_limit(clock: Clock, work: Callable[[], AnswerT]) -> AnswerT:
    """Return the result of a function, interrupted between Python instructions at the time limit.

    Modelling libraries take seconds to write a large model down, and cannot be given a limit for that. What
    they do in C is not interrupted. They have to be loaded before: one that is interrupted meanwhile stays
    broken, and may end the whole process later.

    Python drops an exception that it meets in a destructor or in a callback of the garbage collector, and
    libraries catch some. Therefore the function is interrupted again and again until it has ended.

    Raises
    ------
    OutOfTimeError
        If the time is up before the function ends.
    """
    remaining_s, thread_id = clock.remaining_s, ctypes.c_ulong(threading.get_ident())
    if remaining_s is None:
        return work()
    ended, lock, pending = threading.Event(), threading.Lock(), threading.Event()

    def watch() -> None:
        if ended.wait(remaining_s):
            return
        with _suppressed_interrupt_reports():
            while not ended.is_set():
                with lock:
                    if not ended.is_set():
                        pending.set()
                        _raise_in(thread_id, ctypes.py_object(_TimeUpError))
                ended.wait(INTERRUPT_INTERVAL_S)

    watcher = threading.Thread(target=watch, daemon=True)
    # A function, not a block: an interruption between the end of a block and what its context manager does
    # then would leave the interruptions running forever.
    try:
        watcher.start()
        return work()
    except Exception as error:
        if isinstance(error, OutOfTimeError) or not _is_caused_by_interrupt(error):
            raise
        raise _TimeUpError from error
    finally:
        while True:
            try:
                with lock:
                    ended.set()
                if pending.is_set():
                    # The last one may have come too late to interrupt anything. It is not taken back, but
                    # raised here: Python 3.11 would go on to look for it at each call, and never end under
                    # a debugger.
                    pending.clear()
                    _raise_in(thread_id, ctypes.py_object(_TimeUpError))
                    while True:
                        pass
                break
            except _TimeUpError:
                continue
        if watcher.ident is not None:
            watcher.join()  # whose hook is gone then


def _is_caused_by_interrupt(error: BaseException | None) -> bool:
    """Return whether an interruption caused an error, directly or while it was handled."""
    while error is not None and not isinstance(error, _TimeUpError):
        error = error.__cause__ or error.__context__
    return error is not None


@contextmanager
def _suppressed_interrupt_reports() -> Iterator[None]:
    """Suppress Python's reports of dropped interruptions, which are raised again later."""
    report = sys.unraisablehook

    def report_others(dropped: Any) -> None:
        if not isinstance(dropped.exc_value, _TimeUpError):
            report(dropped)

    sys.unraisablehook = report_others
    try:
        yield
    finally:
        sys.unraisablehook = report


@dataclass
class _Checkpoint:
    """The latest incumbent of a formulation's search, returned after a keyboard interrupt."""

    formulation: Any
    outcome: Callable[[], Outcome] | None = None


_checkpoint: ContextVar[_Checkpoint | None] = ContextVar("kept", default=None)


def is_nested_solve() -> bool:
    """Return whether this solve runs inside another one, which handles keyboard interrupts itself."""
    return _checkpoint.get() is not None


def set_checkpoint(formulation: Any, outcome: Callable[[], Outcome]) -> None:
    """Set the function that returns the incumbent's outcome if the search is interrupted.

    Parameters
    ----------
    formulation
        The formulation that is solved; incumbents of sub-problems are ignored.
    """
    kept = _checkpoint.get()
    if kept is not None and kept.formulation is formulation:
        kept.outcome = outcome


def solve_interruptibly(formulation: Any, solve: Callable[[], Outcome]) -> Outcome:
    """Return the outcome of a solve, or after Ctrl-C that of its latest incumbent.

    Raises
    ------
    KeyboardInterrupt
        If there is no incumbent yet.
    """
    kept = _Checkpoint(formulation)
    with with_value(_checkpoint, kept):
        try:
            return solve()
        except KeyboardInterrupt:
            if kept.outcome is None:
                raise
            outcome = kept.outcome()
            outcome.limit = "interrupt"
            return outcome


ProgressCallback = Callable[[Objective, float | None, float | None], None]
"""Callback for the current objective, the incumbent's value and the bound; None where unknown."""

_progress_callback: ContextVar[ProgressCallback | None] = ContextVar("listener", default=None)


def progress_callback(listener: ProgressCallback) -> AbstractContextManager[None]:
    """Install a callback for progress reports, in this thread and inside the block only."""
    return with_value(_progress_callback, listener)


def report_progress(objective: Objective, value: float | None, bound: float | None) -> None:
    """Report an incumbent or a bound to the progress callback, if one is installed."""
    listener = _progress_callback.get()
    if listener is not None:
        listener(objective, value, bound)
