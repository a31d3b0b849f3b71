"""What is missing where an allocation has no plan."""

from __future__ import annotations

from typing import Any

import clusterplan
from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.solvers.allocation.exact import diagnose
from clusterplan.solvers.common.base import Clock


def either(gpu: float, cpu: float) -> AllocationFormulation:
    """Return four jobs that need two GPUs, or two CPUs, each."""

    def job(name: str) -> dict[str, Any]:
        speed = {"model": "ring_allreduce", "theta": [1, 0, 0, 0], "batch": 1}
        one = {"workers": {"min": 1, "max": 1}, "speed": speed}
        variants = [{"name": r, "worker_demand": {r: 2}, **one} for r in ("gpu", "cpu")]
        return {"name": name, "remaining_steps": 1, "variants": variants}

    made = clusterplan.parse_instance(
        {
            "schema_version": 1,
            "kind": "allocation",
            "name": "either",
            "resources": {"gpu": gpu, "cpu": cpu},
            "jobs": [job(name) for name in "abcd"],
        }
    )
    assert isinstance(made, AllocationInstance)
    return AllocationFormulation(made)


def test_the_least_missing_capacity_is_named() -> None:
    """Two units are missing; relative to what there is, two CPUs are fewer than two GPUs."""
    formulation = either(2, 4)
    assert formulation.elementary_infeasibility() is None
    found = diagnose(formulation, None, Clock(None))
    assert found is not None
    assert found.reasons == ("cpu: 2 more than the 4 there are would be needed",)
    assert found.remedies == ("raise cpu to 6",)


def test_what_is_known_is_kept_and_a_feasible_instance_misses_nothing() -> None:
    """The elastic model is only solved where nothing is known."""
    known = either(1, 1).elementary_infeasibility()
    assert known is not None
    assert diagnose(either(1, 1), known, Clock(None)) is known
    assert diagnose(either(4, 4), None, Clock(None)) is None
