"""First plans of chains and of graphs."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from staging_instances import GraphTruth, diamond, random_graph

import clusterplan
from clusterplan.formulations.common import compiled
from clusterplan.formulations.staging.formulation import GraphFormulation
from clusterplan.instances.common.errors import OutOfTimeError
from clusterplan.instances.documents import save
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.instances.staging.instance import StagingInstance
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import find_solver
from clusterplan.solvers.run import solve_with
from clusterplan.solvers.staging import exact, graph_exact
from clusterplan.solvers.staging import search as staging_search
from clusterplan.solvers.staging.graph_heuristic import MEASURES, _BlockSequence, first_plan

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
        self._count(monkeypatch, graph_exact.ExactOnGraphs, "heuristic_plan")

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
    monkeypatch.setattr(compiled, "MAX_INTERPRETED_ENTRIES", -1)
    clusterplan.solve(INSTANCES[name], "exact")  # loops are compiled
    counts = _Counts(monkeypatch)
    free = counts.of(name, None)
    assert "heuristic_plan" not in free[0]
    for limit_s in (5.0, 60.0, 61.0):
        assert counts.of(name, limit_s) == free


@pytest.mark.parametrize("name", INSTANCES)
def test_whether_loops_are_compiled_changes_no_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before they are, a short limit asks a heuristic; the search does not know its plan."""
    clusterplan.solve(INSTANCES[name], "exact")
    counts = _Counts(monkeypatch)
    free = counts.of(name, None)
    monkeypatch.setattr(exact, "is_compiled", lambda _: False)
    monkeypatch.setattr(graph_exact, "is_compiled", lambda _: False)
    assert counts.of(name, 60.0) == free
    assert counts.of(name, 9.0) == (["heuristic_plan", *free[0]], *free[1:])


def test_heuristics_have_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the limit was that the search used up."""
    given: list[float] = []

    def none(_: Any, formulation: Any, clock: Any) -> None:
        given.append(clock.limit_s)

    def late(*_: Any) -> None:
        raise OutOfTimeError("no time")

    monkeypatch.setattr(graph_exact.ExactOnGraphs, "heuristic_plan", none)
    monkeypatch.setattr(staging_search.Segments, "of", late)
    for limit_s in (0.5, 5.0, 60.0, 3600.0):
        monkeypatch.setattr(exact, "is_compiled", lambda _: False)
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
        assert min(result.bound, best.objective) == pytest.approx(result.bound)


def formulation_of(document: dict[str, Any]) -> GraphFormulation:
    instance = StagingInstance.model_validate(document)
    return GraphFormulation(instance)


def test_diamond() -> None:
    """In the order a, b, c, d two units are best with a and b, then c and d; the other order is no better."""
    found = first_plan(GraphFormulation(diamond()), Clock())
    assert [stage.members for stage in found] == [(0, 1), (2, 3)]


def test_plans_hold_and_are_no_better_than_the_best() -> None:
    """Most graphs, of all kinds, have one; many of these are the best."""
    found = best = possible = 0
    for seed in range(60):
        document = random_graph(seed)
        truth, formulation = GraphTruth(document).best(), formulation_of(document)
        if truth is None:
            continue
        possible += 1
        first = first_plan(formulation, Clock())
        if first is None:
            continue
        assert not formulation.violations(first), seed
        (value,) = formulation.evaluate(first)
        sign = -1 if document["objective"] == "throughput" else 1
        assert sign * (value - truth) >= -1e-9 * abs(truth), seed
        found, best = found + 1, best + math.isclose(value, truth, rel_tol=1e-9)
    assert found >= 0.85 * possible
    assert best >= 0.4 * possible


@pytest.mark.parametrize("measure", MEASURES)
def test_stages_are_as_fast_as_asked(measure: str) -> None:
    """By the times of the formulation, which adds up other sums."""
    for seed in range(40):
        formulation = formulation_of(random_graph(seed))
        row, one = _BlockSequence(formulation), formulation.restricted_to_one_order()
        for slowest in (0.7, 2.0, 9.0):
            stages = row.stages(slowest, measure) or []
            plan = [one.stage(first, end - 1, t, units) for first, end, t, units in stages]
            assert all(time <= slowest * (1 + 1e-9) for time in formulation.times_of_stages_s(plan)), seed
            assert [first for first, *_ in stages] == [0, *(end for _, end, *_ in stages)][: len(stages)]


def broad(branches: int, length: int, **fields: Any) -> StagingInstance:
    """Return parallel branches between two layers."""
    names = [f"{branch} {place}" for branch in range(branches) for place in range(length)]
    ends = [name for name in names if name.endswith(f" {length - 1}")]
    starts = [name for name in names if name.endswith(" 0")]
    pairs = [(f"{b} {p}", f"{b} {p + 1}") for b in range(branches) for p in range(length - 1)]
    pairs += [("first", name) for name in starts] + [(name, "last") for name in ends]
    layers = [
        {"name": name, "compute_s": {"gpu": 1 + index % 7}, "compute_parallel": 0.9, "output_bytes": 1e6}
        for index, name in enumerate(["first", *names, "last"])
    ]
    edges = [{"source": a, "target": b} for a, b in pairs]
    types = [{"name": "gpu", "price_usd_per_hour": 1.0, "limit": 8}]
    return diamond(layers=layers, edges=edges, types=types, most_units_per_stage=None, **fields)


@pytest.mark.parametrize("objective", ["time", "cost"])
def test_more_ideals_than_are_looked_at(objective: str) -> None:
    """There is a plan, however short the time is, and a bound."""
    instance = broad(18, 4, objective=objective)
    result = solve_with(instance, find_solver("exact", "staging"), SolveOptions(time_limit_s=0.01))
    assert result.status in ("feasible", "optimal")
    assert result.plan is not None
    assert 0 < result.bound <= (result.objective or 0.0)


@pytest.mark.slow
def test_loops_that_are_not_compiled(tmp_path: Path) -> None:
    """A limit shorter than compiling them takes returns a plan, and says so."""
    save(diamond(), tmp_path / "graph.yaml")
    code = (
        "from clusterplan.formulations.common import compiled; compiled.MAX_INTERPRETED_ENTRIES = -1;"
        "import clusterplan; o = clusterplan.SolveOptions(time_limit_s=0.2);"
        f"r = clusterplan.solve({str(tmp_path / 'graph.yaml')!r}, 'exact', o);"
        "print(r.status, r.objective, r.bound, r.message)"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("feasible")
    assert "there was no time to" in done.stdout
