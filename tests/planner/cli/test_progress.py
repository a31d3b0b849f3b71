"""What stands on a terminal while one solve runs."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from clusterplan.formulations.common.objective import Objective
from clusterplan.planner.cli import progress
from clusterplan.planner.cli.progress import working
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.common.search_control import tell

COST = Objective("cost", "min", "USD")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, **options: Any) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    with working("[b]name[/b]: auto", SolveOptions(**options), False):
        tell(COST, None, 2.0)
        tell(COST, 4.0, 3.0)
    return stream.getvalue()


def test_a_terminal_shows_name_elapsed_time_and_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, Terminal(), time_limit_s=7)
    for part in ("[b]name[/b]: auto", "0:00:00", "of at most 7 s; Ctrl-C: the best plan so far"):
        assert part in text


def test_a_terminal_shows_the_best_plan_and_its_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cost 4, gap 25.00 %" in shown(monkeypatch, Terminal(), time_limit_s=7)


def test_a_solve_without_a_limit_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, Terminal())
    assert "Ctrl-C" in text
    assert "at most" not in text


def test_elsewhere_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO()) == ""


def test_compiling_is_told_where_it_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is kept on disk is loaded in no time, and nobody need know."""
    times = iter([0.0, 0.2, 1.0, 7.5])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(times))
    told = progress._Compiling()
    for lines in ([], [f"{progress.COMPILING}: 6.7 s"]):
        for now in (True, False):
            told(now)
        told.tell()
        assert capsys.readouterr().err.splitlines() == lines
