"""A heuristic's plan is for the case that the time limit ends the search; else no limit changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from staging_graphs import diamond

import clusterplan
from clusterplan.formulations.common import compiled
from clusterplan.instances.common.errors import OutOfTimeError
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.staging import exact, graph_exact
from clusterplan.solvers.staging import search as staging_search

INSTANCES = {
    "unlimited": generate_staging(24, 6, "none", seed=7),
    "tight": generate_staging(12, 4, "tight", seed=2),
    "loose": generate_staging(6, 3, "loose", seed=0),
    "graph": diamond(3, objective="cost", throughput_floor_samples_per_s=0.18),
    "devices": diamond(3),
}


class _Counts:
    """How often the search bounds an interval with prices and without, and heuristics are asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        self._count(monkeypatch, staging_search, "solve_dual")
        self._count(monkeypatch, staging_search.Search, "_examine")
        self._count(monkeypatch, exact, "_heuristic_plan")
        self._count(monkeypatch, graph_exact, "_heuristic_plan")

    def _count(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def counted(*arguments: Any) -> Any:
            self.steps.append(name)
            return original(*arguments)

        monkeypatch.setattr(owner, name, counted)

    def of(self, name: str, limit_s: float | None) -> tuple[Sequence[str], Any, Any]:
        """Return the steps of a solve, its plan and its certificate."""
        self.steps.clear()
        result = clusterplan.solve(INSTANCES[name], "exact", SolveOptions(time_limit_s=limit_s))
        assert result.limit == "none"
        return list(self.steps), result.plan, result.certificate


@pytest.mark.parametrize("name", INSTANCES)
def test_a_limit_that_does_not_cut_in_costs_no_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MOST_ENTRIES", -1)
    clusterplan.solve(INSTANCES[name], "exact")  # loops are compiled
    counts = _Counts(monkeypatch)
    free = counts.of(name, None)
    assert "_heuristic_plan" not in free[0]
    for limit_s in (5.0, 60.0, 61.0):
        assert counts.of(name, limit_s) == free


@pytest.mark.parametrize("name", INSTANCES)
def test_whether_loops_are_compiled_changes_no_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before they are, a short limit asks a heuristic; the search does not know its plan."""
    clusterplan.solve(INSTANCES[name], "exact")
    counts = _Counts(monkeypatch)
    free = counts.of(name, None)
    monkeypatch.setattr(exact, "is_ready", lambda _: False)
    monkeypatch.setattr(graph_exact, "is_ready", lambda _: False)
    assert counts.of(name, 60.0) == free
    assert counts.of(name, 9.0) == (["_heuristic_plan", *free[0]], *free[1:])


def test_heuristics_have_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the limit was that the search used up."""
    given: list[float] = []

    def none(formulation: Any, clock: Any) -> None:
        given.append(clock.limit_s)

    def late(*_: Any) -> None:
        raise OutOfTimeError("no time")

    monkeypatch.setattr(exact, "_heuristic_plan", none)
    monkeypatch.setattr(staging_search.Segments, "of", late)
    for limit_s in (0.5, 5.0, 60.0, 3600.0):
        monkeypatch.setattr(exact, "is_ready", lambda _: False)
        result = clusterplan.solve(INSTANCES["tight"], "exact", SolveOptions(time_limit_s=limit_s))
        assert (result.status, result.limit) == ("unknown", "time")
    assert len(given) == 6  # before the search too where the limit is short
    assert max(given) <= exact.FIRST_PLAN_S
    assert given[0] <= exact.FIRST_PLAN_SHARE * 0.5


@pytest.mark.parametrize("name", ["loose", "graph"])
def test_a_search_without_a_plan_ends_with_that_of_a_heuristic(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it never began, or was cut short before it had one; the bound is on all plans."""
    best = clusterplan.solve(INSTANCES[name], "exact")

    def late(*_: Any) -> None:
        raise OutOfTimeError("no time")

    for owner, method in ((staging_search.Segments, "of"), (staging_search.Search, "_examine")):
        with monkeypatch.context() as patched:
            patched.setattr(owner, method, late)
            result = clusterplan.solve(INSTANCES[name], "exact", SolveOptions(time_limit_s=60))
        assert (result.status, result.limit) == ("feasible", "time")
        assert clusterplan.verify(INSTANCES[name], result).ok
        assert result.bound is not None
        assert best.objective is not None
        assert min(result.bound, best.objective) == pytest.approx(result.bound)
