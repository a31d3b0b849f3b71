"""Python code that does not ask the clock is interrupted at the limit, and only inside the block."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import pytest

from clusterplan.formulations.common.clock import Clock
from clusterplan.instances.common.errors import OutOfTimeError
from clusterplan.solvers.common.interrupting import interrupting

SOON_S, MUCH_LATER_S = 0.05, 30.0


def _work(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_code_that_asks_no_clock_is_interrupted() -> None:
    start = time.perf_counter()
    with pytest.raises(OutOfTimeError, match="longer than there is time for"), interrupting(Clock(SOON_S)):
        _work(MUCH_LATER_S)
    assert time.perf_counter() - start < MUCH_LATER_S / 2


def test_what_a_library_makes_of_an_interruption_is_out_of_time_too() -> None:
    """Other errors stay what they are."""

    def load() -> None:
        try:
            _work(MUCH_LATER_S)
        except OutOfTimeError as error:
            raise ImportError("initialization failed") from error

    with pytest.raises(OutOfTimeError, match="longer than there is time for"), interrupting(Clock(SOON_S)):
        load()
    with pytest.raises(ImportError), interrupting(Clock(MUCH_LATER_S)):
        raise ImportError("there is no such library")


def test_it_is_interrupted_in_whichever_thread_it_runs() -> None:
    ends = []

    def other() -> None:
        try:
            with interrupting(Clock(SOON_S)):
                _work(MUCH_LATER_S)
        except OutOfTimeError:
            ends.append("interrupted")

    thread = threading.Thread(target=other)
    thread.start()
    _work(2 * SOON_S)
    thread.join(MUCH_LATER_S / 2)
    assert ends == ["interrupted"]


def test_what_ends_in_time_is_not_interrupted_later() -> None:
    for _ in range(50):
        with interrupting(Clock(MUCH_LATER_S)):
            pass
    with interrupting(Clock()):
        _work(SOON_S)


def test_nothing_is_interrupted_outside_the_block() -> None:
    """Also where the time is up at the very end of the block."""
    for _ in range(100):
        with suppress(OutOfTimeError), interrupting(Clock(0.001)):
            _work(0.001)
        _work(0.0005)


def test_errors_of_the_block_come_out_as_they_are() -> None:
    with pytest.raises(ValueError, match="ours"), interrupting(Clock(MUCH_LATER_S)):
        raise ValueError("ours")
