"""Quick methods find a plan where there is one, and never one that breaks a constraint."""

from __future__ import annotations

from typing import Any

import pytest
from sample_documents import ALLOCATION, CONSOLIDATION, STAGING

import clusterplan
from clusterplan.formulations.registry import formulate
from clusterplan.solvers.quick import find_plan


@pytest.mark.parametrize("document", [ALLOCATION, STAGING, CONSOLIDATION])
def test_a_plan_is_found_and_holds(document: dict[str, Any]) -> None:
    formulation = formulate(clusterplan.parse_instance(document))
    found = find_plan(formulation, patience_s=20.0)
    assert found is not None
    assert formulation.violations(found.plan) == []
    assert found.method
    assert find_plan(formulation, patience_s=0.0) is None


def test_where_there_is_no_plan_none_is_found() -> None:
    formulation = formulate(clusterplan.parse_instance({**STAGING, "throughput_floor_samples_per_s": 1e9}))
    assert find_plan(formulation, patience_s=20.0) is None
