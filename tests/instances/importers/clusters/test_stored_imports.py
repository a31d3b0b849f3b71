"""Clusters of which the whole import is recorded (`recorded/given/imports.json`) can be planned."""

from __future__ import annotations

import pytest
import yaml
from recorded.store import stored
from sample_documents import is_kept

import clusterplan
from clusterplan.instances.documents import parse_instance

MANAGERS = ("flux", "kubernetes", "slurm")


@pytest.mark.parametrize("manager", MANAGERS)
def test_recorded_imports_have_plans_that_hold(manager: str) -> None:
    """Each document is the same after it is written and read; what cannot be placed may wait."""
    planned = 0
    for name, outcome in stored("imports").items():
        if name.startswith(manager) and outcome["exit code"] == 0 and not outcome["files"]:
            instance = parse_instance(yaml.safe_load("\n".join(outcome["stdout"])))
            assert is_kept(instance), name
            result = clusterplan.solve(instance, solver="best-fit")
            assert result.plan is not None, name
            assert clusterplan.verify(instance, result).ok, name
            planned += any(entry.placed for entry in result.plan)
    assert planned
