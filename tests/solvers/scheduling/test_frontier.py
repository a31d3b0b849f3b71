"""The frontier of sizes: every point is a plan, every bound is a bound, and the error follows from them."""

from __future__ import annotations

from typing import Any

import pytest

from clusterplan.formulations.common.frontier import Sizes, proven_error
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.planner.pareto import frontier_table, pareto
from clusterplan.planner.scheduling.frontier import SchedulingFrontierCheck
from clusterplan.solvers import frontier as frontier_search
from clusterplan.solvers.common.result import Result, SolveOptions
from clusterplan.solvers.run import solve_with
from clusterplan.solvers.scheduling.frontier import (
    SchedulingFrontier,
    find_frontier,
    with_resource_amount,
)

TRACE = generate_scheduling(40, 32, load=2.0, seed=3)


def found(error: float = 0.1, **settings: float) -> SchedulingFrontier:
    """Return the frontier of a trace that fits on 32 GPUs."""
    return find_frontier(TRACE, SolveOptions(), error, None, **{"least": 32, "most": 128, **settings})


def test_points_are_plans_for_their_sizes() -> None:
    """Larger is faster, and no plan is below the bound."""
    frontier = found()
    assert frontier.least == frontier.points[-1].size == 32
    assert [p.size for p in frontier.points] == sorted((p.size for p in frontier.points), reverse=True)
    for point in frontier.points:
        formulation = SchedulingFormulation(with_resource_amount(TRACE, "gpu", point.size))
        assert formulation.violations(point.plan) == []
        assert formulation.evaluate(point.plan) == (point.mean_completion_s,)
        assert point.bound_s <= point.mean_completion_s
    assert SchedulingFrontierCheck(TRACE, frontier).verification().ok


def test_each_size_is_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A size is solved again only where there was no time for a plan."""
    solved = []

    def counted(cluster: SchedulingInstance, *others: Any) -> Result:
        solved.append(cluster.pool["gpu"])
        return solve_with(cluster, *others)

    monkeypatch.setattr(frontier_search, "solve_with", counted)
    found()
    assert len(solved) == len(set(solved)) >= 2


def test_the_error_holds_between_sizes_too() -> None:
    """A bound holds for smaller sizes, a plan for larger ones: from 10 to 20 the best is 8 against 5."""
    sizes = Sizes(10, 20)
    assert proven_error(sizes, {10: 8.0, 20: 6.0}, {10: 7.0, 20: 5.0}) == pytest.approx(1 - 5 / 8)
    assert proven_error(Sizes(10, 10), {10: 8.0}, {10: 8.0}) == 0
    assert proven_error(sizes, {20: 6.0}, {10: 7.0, 20: 5.0}) is None
    assert proven_error(sizes, {10: 6.0, 20: 7.0}, {10: 2.0, 20: 3.0}) == 0.5


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"mean_completion_s": 1.0}, "mean_completion_s is stored as 1"),
        ({"bound_s": 1e9}, "bound_s is stored as 1000000000; the check derives"),
        ({"size": 31.0}, "size is 31, and sizes go from 32 to 128 gpu"),
        ({"plan": ()}, "broken constraint"),
    ],
)
def test_what_is_altered_is_found(change: dict[str, object], fault: str) -> None:
    """In a point."""
    frontier = found()
    points = (*frontier.points[:-1], frontier.points[-1].model_copy(update=change))
    answer = SchedulingFrontierCheck(TRACE, frontier.model_copy(update={"points": points})).verification()
    assert any(fault in line for line in answer.faults), answer.faults


def test_a_smaller_error_is_refused() -> None:
    """The check derives it from the bounds."""
    frontier = found().model_copy(update={"certified_error": 0.0})
    (fault,) = SchedulingFrontierCheck(TRACE, frontier).verification().faults
    assert fault.startswith("certified_error is stored as 0.0; what the certificates prove is")


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"resource": "cpu"}, "--resource 'cpu' is unknown; there are: gpu"),
        ({"least": 3}, "--from 3: .* give --from "),
        ({"least": 64, "most": 32}, "the smaller first"),
        ({"most": 40.5}, "sizes are whole numbers"),
        ({"prices": {"cpu": 1.0}}, "--price cpu: there is no such resource; there are: gpu"),
    ],
)
def test_wrong_options(settings: dict[str, object], fault: str) -> None:
    """One line each."""
    with pytest.raises(OptionError, match=fault):
        pareto(TRACE, **settings)  # type: ignore[arg-type]


def test_prices_are_a_second_axis() -> None:
    """And limit the size, if that is asked for."""
    frontier = pareto(TRACE, prices={"gpu": 2.0}, least=32, most_usd=100)
    assert isinstance(frontier, SchedulingFrontier)
    assert frontier.most == 50
    assert [point.rate_usd_per_hour for point in frontier.points] == [2 * p.size for p in frontier.points]
    table, lines = frontier_table(frontier)
    assert [column.title for column in table.columns][:3] == ["gpu", "USD/h", "mean completion"]
    assert any("on 32 gpu no scheduler averages less than" in line for line in lines)
    assert len(frontier.to_frame()) == len(frontier.points)
    with pytest.raises(OptionError, match="--most-usd needs the price of gpu"):
        pareto(TRACE, most_usd=100)


def test_a_budget_buys_all_that_decimals_say() -> None:
    """As floats, 1.2 / 0.1 and 6.3 / 0.1 are a hair below 12 and 63."""
    for most_usd, size in ((3.6, 36), (6.3, 63), (5.0, 50)):
        frontier = pareto(TRACE, prices={"gpu": 0.1}, least=32, most_usd=most_usd)
        assert isinstance(frontier, SchedulingFrontier)
        assert frontier.most == size


def test_a_size_that_was_cut_off_is_solved_again_in_the_time_that_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two neighbouring sizes leave nothing to divide; each is solved twice, and the better bound is kept."""
    limits: dict[float, list[float]] = {}

    def cut_off(cluster: SchedulingInstance, solver: Any, options: SolveOptions) -> Result:
        limits.setdefault(cluster.pool["gpu"], []).append(options.time_limit_s or 0.0)
        result = solve_with(cluster, solver, SolveOptions(time_limit_s=30))
        return result.model_copy(update={"limit": "time"})

    monkeypatch.setattr(frontier_search, "solve_with", cut_off)
    frontier = find_frontier(TRACE, SolveOptions(time_limit_s=400), 0.0, None, least=32, most=33)
    assert frontier.certified_error is not None
    assert frontier.certified_error > 0
    assert all(first == 50 < second for first, second in limits.values())
    assert len(limits) == 2


def test_an_interrupted_size_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solve returns its incumbent after Ctrl-C, and the frontier the sizes so far."""

    def interrupted(*arguments: Any) -> Result:
        return solve_with(*arguments).model_copy(update={"limit": "interrupt"})

    monkeypatch.setattr(frontier_search, "solve_with", interrupted)
    frontier = found()
    assert (frontier.status, frontier.limit, len(frontier.points)) == ("partial", "interrupt", 1)
