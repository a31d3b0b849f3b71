"""Python code that does not ask the clock is interrupted at the limit, and only inside the function."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from clusterplan.formulations.common.clock import Clock
from clusterplan.instances.common.errors import OutOfTimeError
from clusterplan.solvers.common.interrupting import interrupted

SOON_S, MUCH_LATER_S = 0.05, 30.0


def _work(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_code_that_asks_no_clock_is_interrupted() -> None:
    start = time.perf_counter()
    with pytest.raises(OutOfTimeError, match="longer than there is time for"):
        interrupted(Clock(SOON_S), lambda: _work(MUCH_LATER_S))
    assert time.perf_counter() - start < MUCH_LATER_S / 2


def test_what_a_library_makes_of_an_interruption_is_out_of_time_too() -> None:
    """Other errors stay what they are."""

    def load() -> None:
        try:
            _work(MUCH_LATER_S)
        except OutOfTimeError as error:
            raise ImportError("initialization failed") from error

    def missing() -> None:
        raise ImportError("there is no such library")

    with pytest.raises(OutOfTimeError, match="longer than there is time for"):
        interrupted(Clock(SOON_S), load)
    with pytest.raises(ImportError):
        interrupted(Clock(MUCH_LATER_S), missing)


def _destructor() -> None:
    class Closed:
        def __del__(self) -> None:
            _work(MUCH_LATER_S)

    Closed()


def _collection() -> None:
    def callback(phase: str, _info: object) -> None:
        if phase == "start":
            _work(MUCH_LATER_S)

    gc.callbacks.append(callback)
    try:
        gc.collect(0)
    finally:
        gc.callbacks.remove(callback)


def _library() -> None:
    with suppress(Exception):
        _work(MUCH_LATER_S)


@pytest.mark.parametrize("drop", [_destructor, _collection, _library])
def test_an_interruption_that_is_dropped_is_raised_again(drop: Callable[[], None]) -> None:
    """Python drops it in destructors and in callbacks of the garbage collector, libraries anywhere."""
    after = []

    def work() -> None:
        drop()
        after.append("dropped")
        _work(MUCH_LATER_S)

    with pytest.raises(OutOfTimeError):
        interrupted(Clock(SOON_S), work)
    assert after == ["dropped"]


def test_what_python_drops_of_others_is_reported_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hook is the one of before as soon as the function has ended."""
    reported: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: reported.append(dropped.exc_type))

    class Broken:
        def __del__(self) -> None:
            raise ValueError("ours")

    def work() -> None:
        with suppress(OutOfTimeError):
            _work(MUCH_LATER_S)
        Broken()

    before = sys.unraisablehook
    with suppress(OutOfTimeError):
        interrupted(Clock(SOON_S), work)
    assert sys.unraisablehook is before
    assert reported == [ValueError]


def test_it_is_interrupted_in_whichever_thread_it_runs() -> None:
    ends = []

    def other() -> None:
        try:
            interrupted(Clock(SOON_S), lambda: _work(MUCH_LATER_S))
        except OutOfTimeError:
            ends.append("interrupted")

    thread = threading.Thread(target=other)
    thread.start()
    _work(2 * SOON_S)
    thread.join(MUCH_LATER_S / 2)
    assert ends == ["interrupted"]


def test_what_ends_in_time_is_not_interrupted_later() -> None:
    for _ in range(50):
        interrupted(Clock(MUCH_LATER_S), int)
    interrupted(Clock(), lambda: _work(SOON_S))


def test_nothing_is_interrupted_outside_the_function() -> None:
    """Also where the time is up at the very end of the function."""
    for _ in range(100):
        with suppress(OutOfTimeError):
            interrupted(Clock(0.001), lambda: _work(0.001))
        _work(0.0005)


def test_errors_of_the_function_come_out_as_they_are() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        interrupted(Clock(MUCH_LATER_S), lambda: int("ours"))
