"""Objectives and violations, and the tolerances of their figures."""

from __future__ import annotations

from typing import Any

import pytest

import clusterplan
from clusterplan.formulations.common.objective import Objective, loosened, within
from clusterplan.solvers.registry import solvers_for

LEAST, MOST = Objective("cost", "min", "USD"), Objective("value", "max", "USD")


@pytest.mark.parametrize(
    ("value", "bound", "gap"),
    [(10, 9, 0.1), (-10, -11, 0.1), (0, 0, 0.0), (0, -1, None), (None, 1, None), (1, None, None)],
)
def test_the_gap_is_relative_to_the_value(
    value: float | None, bound: float | None, gap: float | None
) -> None:
    assert LEAST.gap(value, bound) == MOST.gap(value, bound) == gap


def test_a_gap_beyond_all_floats_is_unknown() -> None:
    assert LEAST.gap(1e-200, 1e200) is None


def test_better_is_less_or_more_but_never_a_rounding() -> None:
    assert LEAST.better(1, 2)
    assert not MOST.better(1, 2)
    assert MOST.better(2, 1)
    assert not LEAST.better(1, 1 + 1e-12)
    assert not MOST.better(1 + 1e-12, 1)


def test_the_tighter_bound_is_nearer_to_the_optimum() -> None:
    assert LEAST.tighter(3, 4) == 4
    assert MOST.tighter(3, 4) == 3
    assert LEAST.tighter(None, 4) == MOST.tighter(4, None) == 4
    assert LEAST.tighter(None, None) is None


def everywhere(kind: str, document: dict[str, Any]) -> dict[str, tuple[str, float | None]]:
    """Return status and first value from every proving solver."""
    instance = clusterplan.parse_instance({"schema_version": 1, "kind": kind, "name": "x", **document})
    found = {}
    for solver in solvers_for(kind, available=True):
        if solver.proves:
            result = clusterplan.solve(instance, solver.name)
            found[solver.name] = (result.status, result.objectives[0].value if result.objectives else None)
    return found


def test_sums_that_are_a_rounding_beyond_a_limit_keep_it() -> None:
    assert within(0.1 + 0.2, 0.3)
    assert within(-1.0, -1.0)
    assert not within(0.3 + 1e-8, 0.3)
    assert not within(1e-6, 0.0)


@pytest.mark.parametrize("limit", [-7.5, 0.0, 1e-12, 0.3, 1e12])
def test_the_loosened_limit_is_the_largest_amount_within(limit: float) -> None:
    most = loosened(limit)
    assert within(most, limit)
    assert not within(most + 1e-6 * max(abs(limit), 1e-6), limit)


@pytest.mark.parametrize("must", [False, True])
def test_a_limit_that_is_a_rounding_short_is_kept_by_all(must: bool) -> None:
    """1 − 0.9 holds a demand of 0.1 for the check, and so for every solver."""
    found = everywhere(
        "consolidation",
        {
            "objectives": ["value"],
            "servers": [{"name": "n", "capacity": {"gpu": 1}, "free": {"gpu": 1 - 0.9}}],
            "jobs": [{"name": "j", "tasks": 1, "task_demand": {"gpu": 0.1}, "value": 3, "must_place": must}],
        },
    )
    assert set(found.values()) == {("optimal", 3.0)}, found


def test_groups_of_very_different_units() -> None:
    """Memory in bytes gives GPUs no slack: three tasks need the servers that they need."""
    groups = [
        {"name": name, "tasks": 1, "demand": demand}
        for name, demand in (("ps", {"gpu": 1}), ("w", {"gpu": 1}), ("e", {"memory_bytes": 1e9}))
    ]
    found = everywhere(
        "consolidation",
        {
            "objectives": ["value"],
            "servers": [{"name": "n", "count": 3, "capacity": {"gpu": 1, "memory_bytes": 64e9}}],
            "jobs": [{"name": "j", "spread": "required", "must_place": True, "groups": groups}],
        },
    )
    assert set(found.values()) == {("optimal", 2.0)}, found


def test_a_free_type_that_cannot_run_every_layer() -> None:
    """The bound of a layer looks only at the types that can run it."""
    found = everywhere(
        "staging",
        {
            "training": {"samples": 3600},
            "probe_batch": 1,
            "types": [
                {"name": "free", "price_usd_per_hour": 0, "limit": 2},
                {"name": "gpu", "price_usd_per_hour": 1, "limit": 2},
            ],
            "layers": [
                {"name": "a", "compute_s": {"gpu": 1.0}, "compute_parallel": 1},
                {"name": "b", "compute_s": {"gpu": 1.0, "free": 1.0}, "compute_parallel": 1},
            ],
        },
    )
    assert {status for status, _ in found.values()} == {"optimal"}, found


def test_a_tiny_cost_is_not_proven_by_being_tiny() -> None:
    """A plan far from the optimum keeps its gap, however small its cost."""
    layers = [{"name": n, "compute_s": {"x": 1.0, "y": 2.0}, "compute_parallel": 0.5} for n in "ab"]
    document = {
        "training": {"samples": 1e-8},
        "probe_batch": 1,
        "types": [
            {"name": "x", "price_usd_per_hour": 5, "limit": 2},
            {"name": "y", "price_usd_per_hour": 1, "limit": 2},
        ],
        "layers": layers,
    }
    found = everywhere("staging", document)
    best = min(value for _, value in found.values() if value is not None)
    assert all(
        status != "optimal" or value == pytest.approx(best, rel=1e-6) for status, value in found.values()
    )
