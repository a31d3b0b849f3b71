"""Control of running searches: time limits for foreign code, keyboard interrupts, and reports of progress."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from ...formulations.common.clock import Clock
from ...formulations.common.objective import Objective
from ...instances.common.errors import OutOfTimeError
from .base import Outcome

AGAIN_S = 0.1
"""After an interruption, seconds until the next; what libraries do as they end takes less."""

_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc

AnswerT = TypeVar("AnswerT")


class _TimeUpError(OutOfTimeError):
    """Python makes it without arguments in the thread that is interrupted."""

    def __init__(self) -> None:
        super().__init__("preparing it takes longer than there is time for")


def interrupted(clock: Clock, work: Callable[[], AnswerT]) -> AnswerT:
    """Return what a function returns; interrupt it once the time is up, between two steps of Python code.

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
    left, here = clock.remaining_s, ctypes.c_ulong(threading.get_ident())
    if left is None:
        return work()
    ended, turn, pending = threading.Event(), threading.Lock(), threading.Event()

    def watch() -> None:
        if ended.wait(left):
            return
        with _dropped_unreported():
            while not ended.is_set():
                with turn:
                    if not ended.is_set():
                        pending.set()
                        _raise_in(here, ctypes.py_object(_TimeUpError))
                ended.wait(AGAIN_S)

    watcher = threading.Thread(target=watch, daemon=True)
    # A function, not a block: an interruption between the end of a block and what its context manager does
    # then would leave nobody to end the interruptions.
    try:
        watcher.start()
        return work()
    except Exception as error:
        if isinstance(error, OutOfTimeError) or not _by_interruption(error):
            raise
        raise _TimeUpError from error
    finally:
        while True:
            try:
                with turn:
                    ended.set()
                if pending.is_set():
                    # The last one may have come too late to interrupt anything. It is not taken back, but
                    # raised here: Python 3.11 would go on to look for it at each call, and never end under
                    # a debugger.
                    pending.clear()
                    _raise_in(here, ctypes.py_object(_TimeUpError))
                    while True:
                        pass
                break
            except _TimeUpError:
                continue
        if watcher.ident is not None:
            watcher.join()  # whose hook is gone then


def _by_interruption(error: BaseException | None) -> bool:
    """Return whether an error was made of an interruption, or while one was dealt with."""
    while error is not None and not isinstance(error, _TimeUpError):
        error = error.__cause__ or error.__context__
    return error is not None


@contextmanager
def _dropped_unreported() -> Iterator[None]:
    """Keep Python from printing the interruptions that it drops, for they are raised again."""
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
class _Kept:
    """The last answer to one formulation."""

    formulation: Any
    outcome: Callable[[], Outcome] | None = None


_kept: ContextVar[_Kept | None] = ContextVar("kept", default=None)


def is_part_of_a_solve() -> bool:
    """Return whether this solve is a part of another one, which needs its whole answer."""
    return _kept.get() is not None


def keep(formulation: Any, outcome: Callable[[], Outcome]) -> None:
    """Keep a way to the answer of a search that is interrupted; the last one counts, and is called then.

    Parameters
    ----------
    formulation
        What it answers; answers to parts of the problem are no answers to the whole.
    """
    kept = _kept.get()
    if kept is not None and kept.formulation is formulation:
        kept.outcome = outcome


def stoppable(formulation: Any, solve: Callable[[], Outcome]) -> Outcome:
    """Return the outcome of a solve; after Ctrl-C what its search has kept.

    Raises
    ------
    KeyboardInterrupt
        If it has kept nothing yet.
    """
    kept = _Kept(formulation)
    before = _kept.set(kept)
    try:
        return solve()
    except KeyboardInterrupt:
        if kept.outcome is None:
            raise
        outcome = kept.outcome()
        outcome.limit = "interrupt"
        return outcome
    finally:
        _kept.reset(before)


Listener = Callable[[Objective, float | None, float | None], None]
"""Takes the objective that a search is at, the value of the incumbent and the bound, None where unknown."""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Let what searches tell inside the block reach a listener; in this thread only."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def tell(objective: Objective, value: float | None, bound: float | None) -> None:
    """Tell of an incumbent or a bound; nothing happens where nobody listens."""
    listener = _listener.get()
    if listener is not None:
        listener(objective, value, bound)
