"""What several threads of one process share."""

from __future__ import annotations

import threading
import warnings

import highspy
import pytest

from clusterplan.solvers.backends.threads import no_warnings, run_highs


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
    run_highs(here)
    thread = threading.Thread(target=run_highs, args=(there,))
    thread.start()
    thread.join()
    assert here.getInfo().objective_function_value == there.getInfo().objective_function_value == 2.0
    assert (here.HandleKeyboardInterrupt, there.HandleKeyboardInterrupt) == (True, False)
    assert capsys.readouterr().out == ""
