"""Frontiers of a mix: their points against single solves of every size, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from mix_instances import serving, sharing

import clusterplan
from clusterplan.instances.common.errors import InstanceError, OptionError
from clusterplan.instances.mix.kind import Mix
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.mix.frontier import MixFrontier, with_size


def best(instance: Any, size: int) -> float:
    """Return the least cost or the most progress of a size."""
    value = clusterplan.solve(with_size(instance, size)).objectives[0].value
    assert value is not None
    return value


@pytest.mark.parametrize("error", [0.0, 0.2])
def test_every_load_has_a_point_that_costs_hardly_more(error: float) -> None:
    found = clusterplan.pareto(serving(), least=90, most=120, error=error)
    assert isinstance(found, MixFrontier)
    assert found.certified_error is not None
    for size in range(90, 121):
        value = min(point.value for point in found.points if point.size >= size)
        least = best(serving(), size)
        assert least <= value * (1 + 1e-9)
        assert least >= value * (1 - found.certified_error - 1e-9) >= value * (1 - error - 2e-9)


@pytest.mark.parametrize("error", [0.0, 0.2])
def test_every_number_of_devices_has_a_point_with_hardly_less_progress(error: float) -> None:
    found = clusterplan.pareto(sharing(), error=error)
    assert (found.least, found.most, found.status) == (2, 14, "complete")
    for size in range(2, 15):
        value = max(point.value for point in found.points if point.size <= size)
        most = best(sharing(), size)
        assert value <= most * (1 + 1e-9)
        assert value >= most * (1 - error - 1e-9)


def test_the_first_load_without_a_plan_is_found() -> None:
    found = clusterplan.pareto(serving(), least=100, most=400)
    largest = found.points[0].size
    missing = [step.size for step in found.others if step.result.plan is None]
    assert min(missing) == largest + 1
    assert clusterplan.solve(with_size(serving(), largest)).plan is not None


def test_where_all_must_run_few_devices_have_no_plan() -> None:
    """Five devices hold all jobs, and four do not; the seven there are do not more."""
    kept = sharing(must_run=True).document()
    groups = [one for one in kept["configurations"] if "wide" not in one["jobs"]]
    types = [{"name": "a", "count": 5}, {"name": "b", "count": 2}]
    made = sharing().model_validate(kept | {"types": types, "configurations": groups})
    found = clusterplan.pareto(made, least=1, most=7)
    assert [point.size for point in found.points] == [7, 5]
    assert found.certified_error == 0


@pytest.mark.parametrize(
    ("instance", "options", "said"),
    [
        (
            serving(),
            {"least": 0},
            "give whole per cent of the requests from 1 to 1,000,000,000",
        ),
        (serving(), {"least": 20.5}, "give whole per cent"),
        (
            sharing(),
            {"least": 9, "most": 8},
            "give whole numbers of devices from 1 to",
        ),
        (serving(), {"most_usd": 9}, "give the instance budget_usd_per_hour"),
        (serving(), {"resource": "gpu"}, "a resource is for scheduling instances"),
        (serving(), {"most": 1e12}, "give whole per cent"),
    ],
)
def test_what_is_no_size_is_refused(instance: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises((OptionError, InstanceError), match=said):
        clusterplan.pareto(instance, **options)


def test_a_largest_load_beyond_what_plans_can_state_is_refused() -> None:
    """Now 9·10⁸ copies, at 200 % too many."""
    mix = Mix().add_requests("a", 9e8).add_hardware("g", 1.0).add_replica("g", {"a": 1})
    with pytest.raises(InstanceError, match="would take 1,000,000,000 copies or more"):
        clusterplan.pareto(mix.build())


def test_a_stopped_search_keeps_what_it_has() -> None:
    found = clusterplan.pareto(serving(), SolveOptions(time_limit_s=1e-3))
    assert (found.status, found.limit) == ("partial", "time")
