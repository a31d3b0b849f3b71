"""Infeasible is a result that says which resource, how much is missing, and what would help."""

from __future__ import annotations

from typing import Any

import clusterplan
from clusterplan.instances.common.base import Instance


def allocation(capacity: dict[str, float], jobs: list[dict[str, float]], **job: Any) -> Instance:
    """Return an instance of jobs with one worker each."""
    return clusterplan.parse_instance(
        {
            "schema_version": 1,
            "kind": "allocation",
            "name": "a",
            "resources": capacity,
            "jobs": [
                {
                    "name": f"j{index}",
                    "remaining_steps": 10,
                    **job,
                    "variants": [
                        {
                            "name": "v",
                            "worker_demand": demand,
                            "speed": {"model": "table", "rows": [{"workers": 1, "steps_per_s": 1}]},
                        }
                    ],
                }
                for index, demand in enumerate(jobs)
            ],
        }
    )


def reasons(instance: Instance, solver: str = "auto") -> str:
    """Return why the instance has no plan, after checking that this is what the result says."""
    result = clusterplan.solve(instance, solver)
    assert result.status == "infeasible"
    assert result.diagnosis is not None
    assert clusterplan.verify(instance, result).ok
    return " | ".join([*result.diagnosis.reasons, *result.diagnosis.remedies])


def test_a_job_larger_than_the_cluster() -> None:
    """The job, the resource and the missing amount are named."""
    text = reasons(allocation({"gpu": 4, "cpu": 9}, [{"gpu": 6, "cpu": 1}]))
    assert "'j0'" in text
    assert "6 gpu, 2 more than the 4 there are" in text
    assert "cpu" not in text


def test_jobs_that_are_too_large_together() -> None:
    """The resource that the smallest configurations overfill is named with what it needs."""
    text = reasons(allocation({"gpu": 4}, [{"gpu": 3}, {"gpu": 3}]))
    assert "need 6, 2 more than the 4 there are" in text
    assert "raise gpu to at least 6" in text


def test_a_deadline_that_nothing_meets() -> None:
    """The deadline is named."""
    assert "deadline of 5 s" in reasons(allocation({"gpu": 4}, [{"gpu": 1}], deadline_s=5))


def test_a_conflict_of_resources_that_counting_does_not_see() -> None:
    """Each resource alone would do; the relaxed model says what is missing of both together."""
    rows = {"gpu": 2, "cpu": 2}
    jobs = []
    for index in range(2):
        variants = [
            {
                "name": name,
                "worker_demand": {name: 2, other: 1},
                "speed": {"model": "table", "rows": [{"workers": 1, "steps_per_s": 1}]},
            }
            for name, other in (("gpu", "cpu"), ("cpu", "gpu"))
        ]
        jobs.append({"name": f"j{index}", "remaining_steps": 1, "variants": variants})
    instance = clusterplan.parse_instance(
        {"schema_version": 1, "kind": "allocation", "name": "a", "resources": rows, "jobs": jobs}
    )
    text = reasons(instance)
    assert "more than the 2 there are would be needed" in text


def staging(**fields: Any) -> Instance:
    """Return two layers of one second on one type with two units."""
    layer = {"compute_s": {"t": 1.0}, "compute_parallel": 1.0}
    return clusterplan.parse_instance(
        {
            "schema_version": 1,
            "kind": "staging",
            "name": "s",
            "training": {"samples": 10},
            "probe_batch": 1,
            "types": [{"name": "t", "price_usd_per_hour": 1, "limit": 2, "memory_gib": 2}],
            "layers": [{"name": "a", **layer}, {"name": "b", **layer}],
            **fields,
        }
    )


def test_a_floor_that_a_layer_cannot_reach() -> None:
    """The layers and the highest throughput that no plan exceeds are named."""
    text = reasons(staging(throughput_floor_samples_per_s=3))
    assert "layer 'a': at most 2 samples/s" in text
    assert "no floor above 2 samples/s" in text


def test_a_floor_that_only_the_whole_plan_misses() -> None:
    """The highest throughput that the limits allow is computed."""
    assert "the highest throughput within the limits is 1 samples/s, and the floor is 1.5" in reasons(
        staging(throughput_floor_samples_per_s=1.5)
    )


def test_must_place_jobs_that_do_not_go_together() -> None:
    """The result says how many fit and which to leave out."""
    instance = clusterplan.parse_instance(
        {
            "schema_version": 1,
            "kind": "consolidation",
            "name": "c",
            "servers": [{"name": "n", "count": 2, "capacity": {"gpu": 3}}],
            "jobs": [
                {"name": f"j{i}", "tasks": 1, "task_demand": {"gpu": 2}, "must_place": True} for i in range(3)
            ],
        }
    )
    text = reasons(instance)
    assert "2 of the 3 jobs that must be placed" in text


def test_a_must_place_job_that_never_fits() -> None:
    """The resource of the largest server that is short is named."""
    instance = clusterplan.parse_instance(
        {
            "schema_version": 1,
            "kind": "consolidation",
            "name": "c",
            "servers": [{"name": "n", "capacity": {"gpu": 4}}],
            "jobs": [{"name": "j", "tasks": 1, "task_demand": {"gpu": 8}, "must_place": True}],
        }
    )
    assert "needs 8 gpu; the largest server has 4 (4 gpu)" in reasons(instance)
