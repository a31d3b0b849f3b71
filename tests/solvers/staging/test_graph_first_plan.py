"""First plans of graphs: valid, never better than the best, and there without compiled loops."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from staging_graphs import GraphTruth, diamond, random_graph

from clusterplan.formulations.staging.graph_formulation import GraphFormulation
from clusterplan.instances.documents import parse_instance, save
from clusterplan.instances.staging.instance import StagingInstance
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import find_solver
from clusterplan.solvers.run import solve_with
from clusterplan.solvers.staging.graph_heuristic import MEASURES, _Row, first_plan


def formulation_of(document: dict[str, Any]) -> GraphFormulation:
    instance = parse_instance(document)
    assert isinstance(instance, StagingInstance)
    return GraphFormulation(instance)


def test_diamond() -> None:
    """In the order a, b, c, d two units are best with a and b, then c and d; the other order is no better."""
    found = first_plan(GraphFormulation(diamond()), Clock())
    assert found is not None
    assert found.time_s == 5
    assert [stage.members for stage in found.plan] == [(0, 1), (2, 3)]


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
        assert not formulation.violations(first.plan), seed
        (value,) = formulation.evaluate(first.plan)
        sign = -1 if document["objective"] == "throughput" else 1
        assert sign * (value - truth) >= -1e-9 * abs(truth), seed
        assert first.time_s == max(formulation.times_of_stages_s(first.plan)), seed
        found, best = found + 1, best + math.isclose(value, truth, rel_tol=1e-9)
    assert found >= 0.85 * possible
    assert best >= 0.4 * possible


@pytest.mark.parametrize("measure", MEASURES)
def test_stages_are_as_fast_as_asked(measure: str) -> None:
    """By the times of the formulation, which adds up other sums."""
    for seed in range(40):
        formulation = formulation_of(random_graph(seed))
        row, one = _Row(formulation), formulation.of_one_order()
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
    assert result.bound is not None
    assert 0 < result.bound <= (result.objective or 0.0)


@pytest.mark.slow
def test_loops_that_are_not_compiled(tmp_path: Path) -> None:
    """A limit shorter than compiling them takes returns a plan, and says so."""
    save(diamond(), tmp_path / "graph.yaml")
    code = (
        "from clusterplan.formulations.common import compiled; compiled.MOST_ENTRIES = -1;"
        "import clusterplan; o = clusterplan.SolveOptions(time_limit_s=0.2);"
        f"r = clusterplan.solve({str(tmp_path / 'graph.yaml')!r}, 'exact', o);"
        "print(r.status, r.objective, r.bound, r.message)"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("feasible")
    assert "there was no time to" in done.stdout
