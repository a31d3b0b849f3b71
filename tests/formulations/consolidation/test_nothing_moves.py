"""Where nothing has to move: certificates of two smaller problems, and what they do not prove."""

from __future__ import annotations

from typing import Any

import pytest

import clusterplan
from clusterplan.formulations.consolidation.nothing_moves import (
    LEADING,
    STAYING,
    WithRunningJobs,
    formulation_of,
)
from clusterplan.instances.consolidation.instance import ConsolidationInstance
from clusterplan.planner.verification import verify
from clusterplan.solvers.common.options import SolveOptions

OPTIONS = SolveOptions(threads=1)


def cluster(waiting: int = 2, **more: Any) -> ConsolidationInstance:
    """Return 60 servers with running jobs of CPUs on several of them, and some of GPUs that wait."""
    jobs: list[dict[str, Any]] = [
        {
            "name": f"runs-{k}",
            "tasks": 40 + k,
            "task_demand": {"cpu": 1, "memory": 4.0 + k / 8},
            "spread": "preferred",
            "current": {f"n-{k}": 20, f"n-{k + 9}": 20 + k},
        }
        for k in range(3)
    ]
    jobs += [{"name": f"waits-{k}", "tasks": 2, "task_demand": {"gpu": 3 + k}} for k in range(waiting)]
    capacity = {"gpu": 4, "cpu": 64, "memory": 256}
    document = {
        "schema_version": 1,
        "kind": "consolidation",
        "name": "cluster",
        "objectives": ["value", "migrations", "spread", "servers"],
        "servers": [{"name": "n", "count": 60, "capacity": capacity}],
        "jobs": jobs,
        **more,
    }
    return ConsolidationInstance.model_validate(document)


def test_only_large_instances_with_running_jobs_and_migrations_are_taken_apart() -> None:
    assert isinstance(formulation_of(cluster()), WithRunningJobs)
    for more in ({"objectives": ["value", "servers"]}, {"running": "stay"}):
        assert not isinstance(formulation_of(cluster(**more)), WithRunningJobs)
    idle = [job.model_copy(update={"current": None}) for job in cluster().jobs]
    assert not isinstance(
        formulation_of(cluster(jobs=[j.model_dump(exclude_none=True) for j in idle])), WithRunningJobs
    )


def test_all_objectives_are_certified_where_nothing_moves() -> None:
    instance = cluster()
    found = clusterplan.solve(instance, "exact", OPTIONS)
    assert found.certificate is not None
    assert found.certificate.keys() == {LEADING, STAYING}
    assert [(r.name, r.value, r.certified_bound) for r in found.objectives] == [
        ("value", 14, 14),
        ("migrations", 0, 0),
        ("spread", 3, 3),
        ("servers", 6, 6),
    ]
    checked = verify(instance, found)
    assert checked.ok
    assert checked.complete


def test_nothing_after_migrations_is_proven_if_something_moves_or_a_better_plan_is_open() -> None:
    formulation = formulation_of(cluster())
    assert isinstance(formulation, WithRunningJobs)
    certificate = {LEADING: None, STAYING: None}
    elementary = formulation.elementary_bounds()
    for values in ([14.0, 1.0, 3.0, 6.0], [13.0, 0.0, 3.0, 6.0]):
        assert formulation.certified_bounds(certificate, values)[1:3] == elementary[1:3]
    assert formulation.certified_bounds(certificate, [14.0, 0.0, 3.0, 6.0])[2] == 3


def test_a_certificate_that_is_malformed_in_either_part_is_refused() -> None:
    formulation = formulation_of(cluster())
    good: dict[str, Any] = {"goals": []}
    assert formulation.certificate_fault({LEADING: good, STAYING: good}) is None
    assert formulation.certificate_fault({LEADING: None, STAYING: None}) is None
    for part in (LEADING, STAYING):
        assert formulation.certificate_fault({LEADING: good, STAYING: good, part: {"goals": 3}}) is not None


@pytest.mark.parametrize("more", [{"max_moves": 0}, {"restart_cost_h": 2.0}, {}])
def test_a_move_that_is_worth_it_is_still_found(more: dict[str, Any]) -> None:
    """One server holds the large job once the small ones share the other."""
    jobs = [
        {"name": f"runs-{k}", "tasks": 1, "task_demand": {"gpu": 1}, "current": {f"n-{k}": 1}}
        for k in range(60)
    ]
    instance = cluster(jobs=[*jobs, {"name": "waits", "tasks": 1, "task_demand": {"gpu": 4}}], **more)
    found = clusterplan.solve(instance, "exact", OPTIONS)
    assert [r.value for r in found.objectives][:2] == (
        [60, 0] if "max_moves" in more else [64 - more.get("restart_cost_h", 0), 1]
    )
    assert verify(instance, found).ok
    assert found.objectives[1].proven
