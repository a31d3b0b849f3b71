"""Python code that does not ask the clock is interrupted at the limit, and only inside the function.

Ctrl-C in the middle of a solve: the best plan so far is the answer, checked like any other.

What searches tell while they run.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from sample_documents import ALLOCATION, DOCUMENT

import clusterplan
from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.common.objective import Objective
from clusterplan.instances.common.errors import OutOfTimeError
from clusterplan.solvers.allocation.total_time import IncumbentSearch
from clusterplan.solvers.common.base import Outcome
from clusterplan.solvers.common.search_control import (
    is_nested_solve,
    progress_callback,
    report_progress,
    run_with_time_limit,
    set_checkpoint,
    solve_interruptibly,
)
from clusterplan.solvers.consolidation.progress import Progress

SOON_S, MUCH_LATER_S = 0.05, 30.0


def _work(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_code_that_asks_no_clock_is_interrupted() -> None:
    start = time.perf_counter()
    with pytest.raises(OutOfTimeError, match="longer than there is time for"):
        run_with_time_limit(Clock(SOON_S), lambda: _work(MUCH_LATER_S))
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
        run_with_time_limit(Clock(SOON_S), load)
    with pytest.raises(ImportError):
        run_with_time_limit(Clock(MUCH_LATER_S), missing)


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
        run_with_time_limit(Clock(SOON_S), work)
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
        run_with_time_limit(Clock(SOON_S), work)
    assert sys.unraisablehook is before
    assert reported == [ValueError]


def test_it_is_interrupted_in_whichever_thread_it_runs() -> None:
    ends = []

    def other() -> None:
        try:
            run_with_time_limit(Clock(SOON_S), lambda: _work(MUCH_LATER_S))
        except OutOfTimeError:
            ends.append("interrupted")

    thread = threading.Thread(target=other)
    thread.start()
    _work(2 * SOON_S)
    thread.join(MUCH_LATER_S / 2)
    assert ends == ["interrupted"]


def test_what_ends_in_time_is_not_interrupted_later() -> None:
    for _ in range(50):
        run_with_time_limit(Clock(MUCH_LATER_S), int)
    run_with_time_limit(Clock(), lambda: _work(SOON_S))


def test_nothing_is_interrupted_outside_the_function() -> None:
    """Also where the time is up at the very end of the function."""
    for _ in range(100):
        with suppress(OutOfTimeError):
            run_with_time_limit(Clock(0.001), lambda: _work(0.001))
        _work(0.0005)


TRACED = """
import sys, time
from contextlib import suppress
from clusterplan.formulations.common.clock import Clock
from clusterplan.instances.common.errors import OutOfTimeError
from clusterplan.solvers.common.search_control import run_with_time_limit

for seconds in (0.0, 0.002, 1.0):
    with suppress(OutOfTimeError):
        run_with_time_limit(Clock(0.002), lambda: time.sleep(seconds))
sys.settrace(lambda frame, event, argument: None)
print((lambda: "traced")())
"""


def test_a_debugger_works_after_an_interruption() -> None:
    """In Python 3.11, calls that are traced never end while an interruption is due that nobody gets."""
    assert subprocess.check_output([sys.executable, "-c", TRACED], text=True, timeout=60) == "traced\n"


def test_errors_of_the_function_come_out_as_they_are() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        run_with_time_limit(Clock(MUCH_LATER_S), lambda: int("ours"))


WHOLE, PART = object(), object()


def stopping_interrupted(after: Callable[[], object]) -> Callable[[], Outcome]:
    """Return a solve that does something, and is stopped then."""

    def solve() -> Outcome:
        after()
        raise KeyboardInterrupt

    return solve


def test_the_last_answer_to_the_whole_is_kept() -> None:
    def found() -> None:
        for number in (1, 2):
            set_checkpoint(WHOLE, lambda number=number: Outcome([number]))
        set_checkpoint(PART, lambda: Outcome([3]))

    outcome = solve_interruptibly(WHOLE, stopping_interrupted(found))
    assert (outcome.plan, outcome.limit) == ([2], "interrupt")
    assert solve_interruptibly(WHOLE, lambda: Outcome([4])).limit == "none"


def test_without_an_answer_it_is_interrupted() -> None:
    with pytest.raises(KeyboardInterrupt):
        solve_interruptibly(WHOLE, stopping_interrupted(lambda: set_checkpoint(PART, lambda: Outcome([3]))))
    assert not is_nested_solve()
    set_checkpoint(WHOLE, lambda: Outcome([1]))  # outside of a solve nothing happens


def stopped_after(monkeypatch: pytest.MonkeyPatch, where: type, method: str) -> None:
    """Interrupt a search right after a method has improved its incumbent."""
    original: Callable[..., Any] = getattr(where, method)

    def then_stop(self: Any, plan: Any) -> Any:
        before = getattr(self, "values", None), getattr(self, "value", None)
        answer = original(self, plan)
        if (getattr(self, "values", None), getattr(self, "value", None)) != before:
            raise KeyboardInterrupt
        return answer

    monkeypatch.setattr(where, method, then_stop)


def test_an_allocation_keeps_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped_after(monkeypatch, IncumbentSearch, "update_incumbent")
    result = clusterplan.solve(clusterplan.parse_instance(ALLOCATION))
    assert (result.limit, result.plan is not None) == ("interrupt", True)
    assert result.status in ("feasible", "optimal")


RUNS = {"name": "r", "tasks": 1, "task_demand": {"gpu": 2}, "current": {"n-0": 1}}


@pytest.mark.parametrize("fields", [{}, {"jobs": 0}, {"jobs": 0, "running": "stay"}])
def test_a_consolidation_keeps_its_plan(fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where jobs run, or stay and are taken out of the problem."""
    waits = [{"name": f"w{k}", "tasks": 2, "task_demand": {"gpu": 1 + k}} for k in range(3)]
    document = {
        "schema_version": 1,
        "kind": "consolidation",
        "name": "x",
        "objectives": ["value", "migrations", "spread"] if fields else ["value", "spread"],
        "servers": [{"name": "n", "count": 3, "capacity": {"gpu": 4}}],
        **fields,
        "jobs": [RUNS, *waits] if fields else waits,
    }
    stopped_after(monkeypatch, Progress, "update_incumbent")
    result = clusterplan.solve(clusterplan.parse_instance(document))
    assert (result.limit, result.plan is not None) == ("interrupt", True)
    assert len(result.plan or ()) == len(document["jobs"])


TIME = Objective("time", "min", "s")


def test_a_listener_hears_what_is_told_inside_its_block_only() -> None:
    heard: list[tuple[str, float | None, float | None]] = []
    report_progress(TIME, 3.0, 1.0)
    with progress_callback(lambda objective, *figures: heard.append((objective.name, *figures))):
        report_progress(TIME, 2.0, None)
    report_progress(TIME, 1.0, 1.0)
    assert heard == [("time", 2.0, None)]


@pytest.mark.parametrize("kind", ["allocation", "staging", "consolidation"])
def test_exact_tells_of_plans_that_get_better_and_never_beyond_its_bound(kind: str) -> None:
    heard: list[tuple[Objective, float | None, float | None]] = []
    with progress_callback(lambda *found: heard.append(found)):
        result = clusterplan.solve(clusterplan.parse_instance(DOCUMENT[kind]), solver="exact")
    assert result.status == "optimal"
    assert heard
    final = {record.name: record.value for record in result.objectives}
    for objective, value, bound in heard:
        sign = 1 if objective.sense == "min" else -1
        best = sign * final[objective.name]
        slack = 1e-9 * max(1.0, abs(best))
        # Of later objectives a bound may hold only for plans that are as good in the earlier ones.
        if objective.name == result.objectives[0].name:
            assert value is None or sign * value >= best - slack
            assert bound is None or sign * bound <= best + slack
