"""Ctrl-C in the middle of a solve: the best plan so far is the answer, checked like any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sample_documents import ALLOCATION

import clusterplan
from clusterplan.solvers.allocation.incumbent import IncumbentSearch
from clusterplan.solvers.common.base import Outcome
from clusterplan.solvers.common.stopping import is_part_of_a_solve, keep, stoppable
from clusterplan.solvers.consolidation.progress import Progress

WHOLE, PART = object(), object()


def interrupted(after: Callable[[], object]) -> Callable[[], Outcome]:
    """Return a solve that does something, and is stopped then."""

    def solve() -> Outcome:
        after()
        raise KeyboardInterrupt

    return solve


def test_the_last_answer_to_the_whole_is_kept() -> None:
    def found() -> None:
        for number in (1, 2):
            keep(WHOLE, lambda number=number: Outcome([number]))
        keep(PART, lambda: Outcome([3]))

    outcome = stoppable(WHOLE, interrupted(found))
    assert (outcome.plan, outcome.limit) == ([2], "interrupt")
    assert stoppable(WHOLE, lambda: Outcome([4])).limit == "none"


def test_without_an_answer_it_is_interrupted() -> None:
    with pytest.raises(KeyboardInterrupt):
        stoppable(WHOLE, interrupted(lambda: keep(PART, lambda: Outcome([3]))))
    assert not is_part_of_a_solve()
    keep(WHOLE, lambda: Outcome([1]))  # outside of a solve nothing happens


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
    stopped_after(monkeypatch, Progress, "offer")
    result = clusterplan.solve(clusterplan.parse_instance(document))
    assert (result.limit, result.plan is not None) == ("interrupt", True)
    assert len(result.plan or ()) == len(document["jobs"])
