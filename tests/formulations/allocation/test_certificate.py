"""The form of a certificate: what is written, read and refused.

The marginal value of resources, in words.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from clusterplan.formulations.allocation.certificate import (
    certificate_fault,
    certificate_of,
    marginal_value_text,
    read_prices,
)
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.instance import AllocationInstance
from clusterplan.planner.api import solve


def test_a_cutoff_lies_just_below_the_bound() -> None:
    """So that the plan itself is not below it; None claims that there is no plan."""
    written = certificate_of(("cpu", "gpu"), np.array([1.5, 0.0]), 100.0)
    assert written["prices"] == {"cpu": 1.5, "gpu": 0.0}
    assert 100 * (1 - 1e-9) < written["cutoff"] < 100
    assert certificate_of(("cpu",), np.zeros(1), None)["cutoff"] is None


def test_prices_that_are_no_prices_are_written_as_such() -> None:
    """Negative ones and NaN as 0, infinite ones as the largest allowed."""
    written = certificate_of(("a", "b", "c"), np.array([-1.0, math.nan, math.inf]), 1.0)
    assert read_prices(written) == {"a": 0, "b": 0, "c": 1e100}


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ({"prices": {"cpu": 1.0}, "cutoff": 2.0}, None),
        ({"prices": {"gpu": 1.0}}, "prices.gpu: there is no such resource"),
        ({"prices": {"cpu": -1.0}}, "prices.cpu: "),
        ({"cutoff": 2.0}, "prices: "),
        ({"prices": {}, "cutoff": math.inf}, "cutoff: "),
        ([], ": "),
    ],
)
def test_a_fault_names_its_place(data: Any, fault: str | None) -> None:
    """And a right form has none."""
    found = certificate_fault(("cpu",), data)
    assert found is None if fault is None else found is not None and found.startswith(fault)


def priced(**usd: float) -> AllocationInstance:
    """Return an instance with cpu and gpu."""
    return generate_allocation(3, 2, seed=1).model_copy(update={"prices_usd_per_hour": usd})


@pytest.mark.parametrize(
    ("prices", "beyond", "ending"),
    [
        ({"cpu": 0.0, "gpu": 0.0}, 0.0, "nothing is scarce: one more unit of anything saves nothing"),
        ({"cpu": 0.0}, 7200.0, "nothing is scarce: one more unit saves at most 2 job-hours"),
        (
            {"cpu": 3600.0, "gpu": 7200.0},
            0.0,
            "one more gpu saves at most 2 job-hours, one more cpu at most 1",
        ),
        ({"cpu": 3600.0}, 1800.0, "one more cpu saves at most 1.5 job-hours"),
        ({"cpu": 3600.01}, 0.0, "one more cpu saves at most 1.001 job-hours"),
        ({"cpu": 0.0}, 3780.0, "nothing is scarce: one more unit saves at most 1.1 job-hours"),
        ({"budget_usd_per_hour": 3600.0}, 0.0, "one more USD/h of budget saves at most 1 job-hours"),
    ],
)
def test_prices_are_said_in_job_hours_from_the_highest(
    prices: dict[str, float], beyond: float, ending: str
) -> None:
    """The distance to the bound is added where there is one."""
    assert marginal_value_text(priced(), prices, beyond) == f"in the configurations that fit now, {ending}"


def test_the_resource_to_buy_saves_most_for_each_usd() -> None:
    """One whose dual price is within the distance to the bound is not recommended."""
    prices: dict[str, Any] = {"cpu": 3600.0, "gpu": 7200.0}
    assert marginal_value_text(priced(cpu=1, gpu=4), prices, 0.0).endswith(
        "buy cpu next: it saves most for its price, at most 1 job-hours per USD/h"
    )
    assert "buy gpu next" in marginal_value_text(priced(cpu=1, gpu=4), prices, 5400.0)
    assert "buy" not in marginal_value_text(priced(cpu=1, gpu=4), prices, 10000.0)


@pytest.mark.parametrize(("gpus", "budget", "said"), [(1, 9, True), (2, 9, False), (2, 2, True)])
def test_configurations_too_large_for_the_cluster_or_the_budget_are_said(
    gpus: int, budget: float, said: bool
) -> None:
    """With two GPUs the job takes half as long; with one, no price knows of that."""
    rows = [{"workers": n, "steps_per_s": n} for n in (1, 2)]
    variant = {"name": "v", "worker_demand": {"gpu": 1}, "speed": {"model": "table", "rows": rows}}
    instance = AllocationInstance.model_validate(
        {
            "name": "one",
            "resources": {"gpu": gpus},
            "jobs": [{"name": "a", "remaining_steps": 10, "variants": [variant]}],
            "prices_usd_per_hour": {"gpu": 2},
            "budget_usd_per_hour": budget,
        }
    )
    message = solve(instance, "exact").message or ""
    nothing = "nothing is scarce: one more unit of anything saves nothing"
    assert message == (f"in the configurations that fit now, {nothing}" if said else nothing)
