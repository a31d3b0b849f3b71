"""What a scenario changes in an instance of allocation."""

from __future__ import annotations

from typing import Any

import pytest
from sample_documents import ALLOCATION

import clusterplan
from clusterplan.instances.common.errors import InstanceError
from clusterplan.planner.allocation.what_if import what_if


def changed(key: str, text: str, **document: Any) -> Any:
    """Return the document after one change."""
    instance = clusterplan.parse_instance({**ALLOCATION, **document})
    return instance.replace(**what_if(instance)[key].fields(instance, text)).document()


def test_each_resource_is_a_change() -> None:
    assert changed("gpu", "+4")["resources"] == {"cpu": 10, "gpu": 8}
    assert changed("cpu", "50%")["resources"] == {"cpu": 5, "gpu": 4}
    with pytest.raises(InstanceError, match="gpu"):
        changed("gpu", "none")


def test_the_budget_is_set_changed_or_lifted() -> None:
    prices = {"prices_usd_per_hour": {"gpu": 2}}
    assert changed("budget", "6", **prices)["budget_usd_per_hour"] == 6
    assert changed("budget", "-1", **prices, budget_usd_per_hour=6)["budget_usd_per_hour"] == 5
    assert "budget_usd_per_hour" not in changed("budget", "none", **prices, budget_usd_per_hour=6)


def test_jobs_are_removed_added_and_weighed() -> None:
    assert [job["name"] for job in changed("remove", "j")["jobs"]] == ["k"]
    assert [job["weight"] for job in changed("weight", "k:3")["jobs"]] == [1, 3]
    now = {**ALLOCATION["jobs"][1], "current": {"variant": "t", "workers": 1}}
    jobs = changed("add", "2xk", jobs=[now])["jobs"]
    assert [job["name"] for job in jobs] == ["k", "k-added-1", "k-added-2"]
    assert ["current" in job for job in jobs] == [True, False, False]
