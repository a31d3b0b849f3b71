"""Frontiers of staging: search and result."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from random_instances import random_staging
from staging_instances import alone, half_serial

import clusterplan
from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.stages import Stage
from clusterplan.instances.importers import import_sailor
from clusterplan.instances.staging.generate import generate_staging
from clusterplan.planner.findings import Verification
from clusterplan.planner.pareto import frontier_table
from clusterplan.planner.staging.frontier import (
    Baseline,
    StagingFrontierCheck,
    StagingFrontierPage,
    _names,
)
from clusterplan.planner.stored_results import verify_frontier
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import solvers_for
from clusterplan.solvers.staging.frontier import Frontier, find_frontier, frontier_point

Point = tuple[float, float]
"""Stage time and cost."""


def every_plan(formulation: StagingFormulation) -> list[Point]:
    """Return stage time and cost of every feasible plan of a tiny instance, in which types have limits."""
    instance, found = formulation.instance, []
    plan: list[Stage] = []

    def extend(layer: int) -> None:
        if layer == len(instance.layers):
            if not formulation.violations(plan):
                time = formulation.stage_time_s(plan)
                found.append((time, formulation.cost_usd(time, formulation.rate_usd_per_hour(plan))))
            return
        for last in range(layer, len(instance.layers)):
            for kind in instance.types:
                for units in range(1, (kind.limit or 0) + 1):
                    plan.append(Stage(first_layer=layer, last_layer=last, type=kind.name, units=units))
                    extend(last + 1)
                    plan.pop()

    extend(0)
    return found


def behind(time: float, cost: float, points: list[Point], error: float = 0.0) -> bool:
    """Return whether some point is at least as fast and, up to the error, at most as dear."""
    least = min((c for t, c in points if t <= time * (1 + 1e-12)), default=math.inf)
    return least * (1 - error) <= cost * (1 + 1e-9)


def points_of(frontier: clusterplan.Frontier) -> list[Point]:
    return [(point.stage_time_s, point.cost_usd) for point in frontier.points]


def test_every_breakpoint_is_there_and_nothing_else() -> None:
    """On 120 tiny instances the frontier is that of all plans, and its check agrees."""
    sizes = set()
    for seed in range(120):
        instance = random_staging(seed)
        plans = every_plan(StagingFormulation(instance))
        frontier = clusterplan.pareto(instance, error=0.0)
        points = points_of(frontier)
        assert (frontier.status == "infeasible") == (not plans), seed
        assert all(behind(*plan, points) for plan in plans), seed
        assert all(behind(*point, plans) for point in points), seed
        assert verify_frontier(instance, frontier).ok, (seed, verify_frontier(instance, frontier).faults)
        if plans:
            assert frontier.certified_error == 0.0, seed
        sizes.add(len(points))
    assert max(sizes) > 3


def test_the_frontier_holds_the_optima_of_both_objectives() -> None:
    """Its ends are the cheapest and the fastest plan of the exact search."""
    instance = generate_staging(12, 3, "tight", seed=4)
    frontier = clusterplan.pareto(instance, error=1e-6)
    cheapest = clusterplan.solve(instance, "exact")
    fastest = clusterplan.solve(instance.model_copy(update={"objective": "throughput"}), "exact")
    assert frontier.status == "complete"
    assert frontier.points[-1].cost_usd == pytest.approx(cheapest.objective, rel=2e-6)
    assert frontier.points[0].throughput_samples_per_s == pytest.approx(fastest.objective, rel=2e-6)


@pytest.mark.slow
def test_a_time_limit_leaves_a_partial_frontier_with_its_error() -> None:
    """What was found in time is there, and the error that is certified is what is proven."""
    instance = generate_staging(100, 16, "tight", seed=1).model_copy(  # minutes, were it to be complete
        update={"throughput_floor_samples_per_s": None}
    )
    frontier = clusterplan.pareto(instance, SolveOptions(time_limit_s=0.5))
    assert frontier.status == "partial"
    assert frontier.limit == "time"
    assert frontier.certified_error is None or frontier.certified_error > frontier.error
    assert verify_frontier(instance, frontier).ok


LIMITS = {
    "A100-40": 3,
    "A100-80": 1,
    "GH-96": 1,
    "RTX-2080": 4,
    "RTX-3090": 2,
    "Titan-RTX": 2,
    "V100-16": 4,
}
ASSUMED_USD = {"A100-80": 5.0, "RTX-2080": 0.35, "RTX-3090": 0.6, "Titan-RTX": 0.8}
"""Of no source: assumptions, as the imported instance says."""


@pytest.mark.slow
def test_opt_350_on_seven_gpu_types_is_complete(shared_data: Path) -> None:
    """The plans of all other solvers lie on or behind the frontier."""
    profiles = shared_data / "sailor" / "profiles" / "OPT-350"
    instance = import_sailor(profiles, sorted(LIMITS), 2, LIMITS, 10, prices=ASSUMED_USD)
    assert any("A100-80" in line and "not from the source" in line for line in instance.assumptions)
    formulation = StagingFormulation(instance)
    frontier = clusterplan.pareto(instance, SolveOptions(time_limit_s=300), error=1e-3)
    assert frontier.status == "complete"
    assert frontier.certified_error == frontier.error
    points = points_of(frontier)
    small = {"genetic": {"evaluations": 2000}, "bayesian": {"evaluations": 60}}
    small |= {f"reinforce-{cell}": {"episodes": 400} for cell in ("lstm", "rnn")}
    plans = 0
    for solver in solvers_for("staging", available=True):
        if solver.name == "brute-force":
            continue
        options = SolveOptions(time_limit_s=3, seed=1, method_options=small.get(solver.name, {}))
        for objective in ("cost",) if solver.name.startswith(("milp", "cp-sat")) else ("cost", "throughput"):
            result = clusterplan.solve(
                instance.model_copy(update={"objective": objective}), solver.name, options
            )
            if result.plan is not None:
                plans += 1
                time = formulation.stage_time_s(result.plan)
                cost = formulation.cost_usd(time, formulation.rate_usd_per_hour(result.plan))
                assert behind(time, cost, points, frontier.error), solver.name
    assert plans >= 8


def test_the_frontier_of_one_layer() -> None:
    """A point for each number of units, from the fastest to the cheapest."""
    frontier = find_frontier(half_serial(3), SolveOptions(), 0.0, None)
    assert [point.cost_usd for point in frontier.points] == pytest.approx([2.0, 1.5, 1.0])
    assert [point.stage_time_s for point in frontier.points] == pytest.approx([2 / 3, 0.75, 1.0])
    assert (frontier.status, frontier.certified_error) == ("complete", 0.0)
    cheap = find_frontier(half_serial(3), SolveOptions(), 0.0, 1.6)
    assert [point.cost_usd for point in cheap.points] == pytest.approx([1.5, 1.0])


def test_unlimited_units_end_at_ten_times_the_least_cost() -> None:
    """Nineteen units cost ten dollars."""
    frontier = find_frontier(half_serial(None), SolveOptions(), 0.0, None)
    assert frontier.most_usd == pytest.approx(10.0)
    assert frontier.points[0].plan == (alone(19),)


def test_figures_of_a_point_are_computed_from_the_plan() -> None:
    """Two units: 0.75 s a sample, 3600 samples, 2 USD/h."""
    point = frontier_point(StagingFormulation(half_serial()), (alone(2),))
    assert point.stage_time_s == 0.75
    assert point.throughput_samples_per_s == pytest.approx(4 / 3)
    assert (point.time_s, point.rate_usd_per_hour, point.cost_usd) == pytest.approx((2700, 2, 1.5))


def test_a_frontier_becomes_a_table_with_short_plans() -> None:
    """As a frame and as a notebook shows it."""
    frontier = find_frontier(half_serial(2), SolveOptions(), 0.0, None)
    frame = frontier.to_frame()
    assert frame["plan"].tolist() == ["0-0:t*2", "0-0:t*1"]
    assert Frontier.model_validate_json(frontier.model_dump_json()) == frontier
    assert "frontier of 2 points, complete" in frontier._repr_html_()


SMALL = half_serial(3)


@pytest.fixture(scope="module")
def frontier() -> Frontier:
    """Return three points: 1, 1.5 and 2 USD."""
    return find_frontier(SMALL, SolveOptions(), 0.0, None)


def verify(frontier: Frontier) -> Verification:
    """Check a frontier of the instance."""
    return StagingFrontierCheck(SMALL, frontier).verification()


def test_the_error_has_a_default() -> None:
    """Where none is given."""
    assert clusterplan.pareto(SMALL).error == StagingFrontierCheck.default_error


def test_a_true_frontier_is_confirmed(frontier: Frontier) -> None:
    """Every plan and the error of the whole."""
    verification = verify(frontier)
    assert verification.faults == ()
    assert any("each of 3 plans" in line for line in verification.confirmed)
    assert any("no plan beats the points by more than 0" in line for line in verification.confirmed)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"cost_usd": 1.9}, "points[0].cost_usd is stored as 1.9; recomputed it is 2"),
        ({"stage_time_s": 0.5}, "points[0].stage_time_s"),
        ({"plan": ()}, "points[0]: broken constraint: layers"),
    ],
)
def test_altered_points_are_named(frontier: Frontier, change: dict[str, Any], fault: str) -> None:
    """By their number and the figure that is wrong."""
    wrong = frontier.points[0].model_copy(update=change)
    altered = frontier.model_copy(update={"points": (wrong, *frontier.points[1:])})
    assert any(line.startswith(fault) for line in verify(altered).faults)


def test_order_and_cost_of_points_are_checked(frontier: Frontier) -> None:
    """From the fastest to the cheapest, none beyond the dearest that was looked for."""
    backwards = frontier.model_copy(update={"points": frontier.points[::-1]})
    faults = verify(backwards).faults
    assert "points[1] is not slower and cheaper than the one before" in faults
    dear = frontier.model_copy(update={"most_usd": 1.6})
    assert "points: there are plans dearer than most_usd, 1.6" in verify(dear).faults


def test_points_that_are_left_out_are_missed(frontier: Frontier) -> None:
    """The fastest, the cheapest, or one between."""
    for points in (frontier.points[1:], frontier.points[:-1], frontier.points[::2]):
        (fault,) = verify(frontier.model_copy(update={"points": points})).faults
        assert fault.startswith("certified_error is stored as 0.0; what the certificate proves is")


def test_an_error_that_is_not_proven_is_a_fault(frontier: Frontier) -> None:
    """Without intervals nothing is."""
    empty = frontier.model_copy(update={"certificate": []})
    (fault,) = verify(empty).faults
    assert fault.startswith("certified_error is stored as 0.0; what the certificate proves is")


def test_the_table_has_a_row_for_each_point(frontier: Frontier) -> None:
    """And a line on what is certified."""
    table, lines = frontier_table(frontier)
    assert len(table.rows) == 3
    assert lines == ["certified: every plan is matched by a point as fast that costs at most 0 % more"]
    partial = frontier.model_copy(update={"status": "partial", "limit": "time", "certified_error": None})
    assert [line.split(" ")[0] for line in frontier_table(partial)[1]] == ["stopped", "not"]


def test_baselines_are_compared_with_a_point_as_fast(frontier: Frontier) -> None:
    """Two dollars against one and a half are a third dearer."""
    point = frontier.points[1]
    assert Baseline("m", frontier.points[0], point.cost_usd, 0.1).dearer == pytest.approx(1 / 3)
    assert Baseline("m", point, point.cost_usd, 0.1).words == "on the frontier"
    assert Baseline("m", point, None, 0.1).words == "–"


def test_the_figure_has_the_points_and_the_choice_of_today(frontier: Frontier) -> None:
    """The indices of its traces are those that the script changes."""
    figure, at = StagingFrontierPage(SMALL, frontier).figure()
    assert figure["data"][at["line"]]["y"] == pytest.approx([2.0, 1.5, 1.0])
    assert figure["data"][at["star"]]["y"] == pytest.approx([1.0])
    assert at["ring"] == len(figure["data"]) - 1


@pytest.mark.parametrize(("limit", "near"), [(None, False), (2.9, True), (3.1, False)])
def test_a_cost_limit_far_beyond_the_points_is_not_drawn(
    frontier: Frontier, limit: float | None, near: bool
) -> None:
    """Far is more than half as much again as the dearest point."""
    page = StagingFrontierPage(SMALL.model_copy(update={"cost_limit_usd": limit}), frontier)
    assert page.limit == (limit if near else None)


def test_the_page_tells_points_and_other_methods(frontier: Frontier) -> None:
    """With how much dearer each method's plan is."""
    result = clusterplan.solve(SMALL, "single-type")
    page = StagingFrontierPage(SMALL, frontier, [result]).html(None)
    assert "3 plans, from 1.5 samples/s for 2 USD to 1 samples/s for 1 USD." in page
    assert "single-type" in page
    assert "on the frontier" in page


def baseline(solver: str, throughput: float, cost_usd: float) -> Any:
    """Return what the names of a plot need of a plan of another method."""
    return SimpleNamespace(
        solver=solver, point=SimpleNamespace(throughput_samples_per_s=throughput, cost_usd=cost_usd)
    )


def test_methods_whose_plans_nearly_coincide_share_a_label() -> None:
    """Two labels at one place cannot be read; a plan as fast that costs more keeps its own."""
    plans = [baseline("greedy", 100, 10), baseline("genetic", 101, 10.1), baseline("single-type", 100, 30)]
    assert _names(plans, {"range": [0, 1000]}) == ["greedy, genetic", "", "single-type"]
