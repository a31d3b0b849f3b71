"""What several threads of one process share."""

from __future__ import annotations

import _thread
import signal
import threading
import time
import warnings
from collections.abc import Iterator

import highspy
import pytest

from clusterplan.solvers.backends.base import no_warnings, run_highs, wait_for_those_left_behind, within
from clusterplan.solvers.common.base import Clock


def test_warnings_are_silent_inside_and_heard_again_after() -> None:
    with no_warnings():
        warnings.warn("not heard", stacklevel=1)  # an error in these tests, if it were heard
    with pytest.warns(UserWarning, match="heard"):
        warnings.warn("heard", stacklevel=1)


def one_variable() -> highspy.Highs:
    """Return x to be minimised, at least 2."""
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    model.addVar(2.0, 7.0)
    model.changeColCost(0, 1.0)
    return model


def test_highs_runs_in_the_main_thread_and_in_others(capsys: pytest.CaptureFixture[str]) -> None:
    here, there = one_variable(), one_variable()
    assert run_highs(here, Clock())
    thread = threading.Thread(target=run_highs, args=(there, Clock(60.0)))
    thread.start()
    thread.join()
    assert here.getInfo().objective_function_value == there.getInfo().objective_function_value == 2.0
    assert (here.HandleUserInterrupt, there.HandleUserInterrupt) == (True, False)
    assert capsys.readouterr().out == ""


def test_a_call_that_ignores_its_limit_is_left_behind() -> None:
    let_go, cancelled = threading.Event(), list[bool]()

    def stubborn() -> str:
        let_go.wait(60.0)
        return "too late"

    assert within(Clock(0.01), stubborn, lambda: cancelled.append(True)) is None
    assert cancelled == [True]
    threading.Timer(0.1, let_go.set).start()
    wait_for_those_left_behind()
    assert let_go.is_set()


def test_a_call_without_limit_is_waited_for_and_its_error_is_raised_here() -> None:
    assert within(Clock(), lambda: 7, lambda: None) == 7
    with pytest.raises(ZeroDivisionError):
        within(Clock(60.0), lambda: 1 // 0, lambda: None)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let Ctrl-C interrupt this process even if it was started where it is ignored, as in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_cancels_the_call_and_keeps_its_answer() -> None:
    cancelled = threading.Event()

    def until_cancelled() -> str:
        # As if the user pressed Ctrl-C while the call runs, and is waited for.
        time.sleep(0.05)
        _thread.interrupt_main()
        return "the best so far" if cancelled.wait(60.0) else "never cancelled"

    assert within(Clock(), until_cancelled, cancelled.set) == "the best so far"
