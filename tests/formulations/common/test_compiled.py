"""Functions that are compiled at their first call, within the enforced time or not waited for."""

from __future__ import annotations

import math
import runpy
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clusterplan.formulations.common import compiled as module
from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.common.compiled import compiled, compiled_in_place, is_ready, watched_by
from clusterplan.instances.common.errors import OutOfTimeError


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile also what is on little data."""
    monkeypatch.setattr(module, "MOST_ENTRIES", -1)


@compiled
def _twice(number: float) -> float:
    return 2 * number


@compiled
def _sum_of_doubles(numbers: np.ndarray) -> float:
    total = 0.0
    for number in numbers:
        total += _twice(number)
    return total


@compiled
def _ratio(a: float, b: float) -> float:
    return a / b


def test_little_is_done_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the functions it calls; much is compiled, and so is little that has taken long."""
    few, many = np.ones(3), np.ones(module.MOST_ENTRIES + 1)
    found = _sum_of_doubles(few)
    assert found == 6.0
    assert type(found) is float
    assert not is_ready(_sum_of_doubles)
    assert _sum_of_doubles.plain.__globals__["_twice"] is _twice.plain
    monkeypatch.setattr(module, "MOST_S", 0.0)
    assert _ratio(3.0, 2.0) == 1.5
    assert is_ready(_ratio)
    assert _sum_of_doubles(many) == 2.0 * len(many)
    assert is_ready(_sum_of_doubles)


def test_what_is_kept_compiled_is_taken_before_much_time_has_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """But nothing is compiled for that."""
    path = tmp_path / "loops.py"
    path.write_text(
        "from clusterplan.formulations.common.compiled import compiled\n\n\n"
        "@compiled\ndef half(number):\n    return number / 2\n"
    )
    monkeypatch.setattr(module, "LOOK_S", 0.0)
    first, second, third = (runpy.run_path(str(path))["half"] for _ in range(3))
    assert first(3.0) == 1.5
    assert not is_ready(first)
    monkeypatch.setattr(module, "MOST_ENTRIES", -1)
    assert second(3.0) == 1.5
    monkeypatch.setattr(module, "MOST_ENTRIES", 1)
    assert third(3.0) == 1.5
    assert is_ready(third)


@pytest.mark.usefixtures("at_once")
def test_compiled_functions_call_each_other() -> None:
    """And give what they would give uncompiled."""
    assert _sum_of_doubles.__name__ == "_sum_of_doubles"
    assert _sum_of_doubles(np.array([1.0, 2.5])) == 7.0
    assert is_ready(_sum_of_doubles)


@compiled_in_place
def _fill(numbers: np.ndarray, number: float) -> None:
    for k in range(len(numbers)):
        numbers[k] = number


@compiled_in_place
def _fill_with_twice(numbers: np.ndarray, number: float) -> float:
    _fill(numbers, _twice(number))
    return numbers[0]


@pytest.mark.usefixtures("at_once")
def test_what_makes_no_arrays_is_compiled_without_counting_them() -> None:
    numbers = np.zeros(3)
    assert _fill_with_twice(numbers, 4.0) == 8.0
    assert numbers.tolist() == [8.0] * 3
    _fill(numbers, 1.0)  # from Python too, though another compiled function has called it
    assert numbers.tolist() == [1.0] * 3


@pytest.mark.usefixtures("at_once")
def test_whoever_watches_hears_of_the_first_call_alone() -> None:
    @compiled
    def thrice(number: float) -> float:
        return 3 * number

    heard: list[bool] = []
    with watched_by(heard.append):
        assert thrice(1.0) == 3.0
        assert thrice(2.0) == 6.0
    assert heard == [True, False]


def test_a_quotient_by_zero_is_infinite() -> None:
    assert math.isinf(_ratio(1.0, 0.0))


@pytest.mark.usefixtures("at_once")
def test_what_takes_longer_than_there_is_time_for_goes_on_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on, done = threading.Event(), threading.Event()

    def slow(self: Any, arguments: Any) -> None:
        go_on.wait(10)
        self.ready = True
        done.set()

    monkeypatch.setattr(module._AtFirstCall, "_compile", slow)
    monkeypatch.setattr(module._AtFirstCall, "dispatcher", property(lambda self: self.function))
    function = compiled(lambda: 7)
    assert not is_ready(function)
    with Clock(0.01).enforced(), pytest.raises(OutOfTimeError, match="compiling"):
        function()
    assert not is_ready(function)
    go_on.set()
    assert done.wait(10)
    assert is_ready(function)
    assert function() == 7
