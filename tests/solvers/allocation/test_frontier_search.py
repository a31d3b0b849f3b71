"""The search of allocation frontiers, and its result."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from types import SimpleNamespace
from typing import cast

import pytest

import clusterplan
from clusterplan.formulations.allocation.cluster_grids import cluster_grid_of, proven_error
from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.formulations.allocation.plan import JobAllocation
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.solvers.allocation.frontier import (
    Bound,
    ClusterSearch,
    Incumbent,
    _bound_of,
    find_allocation_frontier,
    point_of,
    weighted_mean_s,
)
from clusterplan.solvers.allocation.frontier_result import AllocationFrontier, AllocationPoint
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import Result, SolveOptions

PRICES = {"cpu": 1.0, "gpu": 3.0}


def search(error: float = 0.05) -> ClusterSearch:
    """Return a search over scaled clusters of five jobs."""
    grid = cluster_grid_of(generate_allocation(5, 2, 0.5, seed=6), "fixed", PRICES, None)
    return ClusterSearch(grid, SolveOptions(threads=1), error, Clock(None))


def test_the_search_ends_where_the_error_is_proven() -> None:
    """Values fall as clusters grow, no bound exceeds a value, and the certificates prove the error."""
    run = search()
    run.run()
    values = run.values()
    steps = sorted(values)
    assert len(steps) > 2
    assert all(run.incumbents[x].rate < run.incumbents[y].rate for x, y in itertools.pairwise(steps))
    for step, bound in run.bounds.items():
        assert bound.certified <= bound.claimed * (1 + 1e-9)
        if step in values:
            assert bound.certified <= values[step] * (1 + 1e-9)
    proven = proven_error(run.grid, values, {x: b.certified for x, b in run.bounds.items()})
    assert proven <= 0.05


def test_a_weaker_bound_replaces_none() -> None:
    """Of two bounds of a step the better one stays."""
    run, step = search(), Fraction(1)
    run._update_bound(step, Bound(5.0, 4.0, None))
    run._update_bound(step, Bound(3.0, 3.0, None))
    assert run.bounds[step].certified == 4
    run._update_bound(step, Bound(5.0, 4.5, None))
    assert run.bounds[step].certified == 4.5


def test_a_mean_is_per_weight_and_none_where_there_is_no_plan() -> None:
    """Five jobs of weight 1."""
    grid = search().grid
    assert weighted_mean_s(10.0, grid) == 2
    assert weighted_mean_s(math.inf, grid) is None


def test_the_frontier_is_put_together_from_the_search() -> None:
    """Points from the dearest, each slower and cheaper than the one before; JSON and back without loss."""
    instance = generate_allocation(5, 2, 0.5, seed=6)
    grid = cluster_grid_of(instance, "fixed", PRICES, None)
    frontier = find_allocation_frontier(instance, grid, SolveOptions(threads=1), 0.05, Clock(None))
    assert frontier.status == "complete"
    assert frontier.certified_error == pytest.approx(0.05, abs=0.05)
    rates = [point.rate_usd_per_hour for point in frontier.points]
    means = [point.mean_completion_s for point in frontier.points]
    assert rates == sorted(rates, reverse=True)
    assert means == sorted(means)
    assert AllocationFrontier.model_validate_json(frontier.model_dump_json()) == frontier


def test_a_bound_above_its_plan_by_rounding_is_what_its_certificate_proves() -> None:
    """The plan may belong to a cheaper step; a point's bounds are no more than its own plan's value."""
    instance = generate_allocation(20, 3, 0.5, seed=1)
    formulation, solved = AllocationFormulation(instance), clusterplan.solve(instance, "exact")
    assert solved.objective is not None
    proven = formulation.certified_bounds(solved.certificate)[0]
    given = {
        "objective": 7.0,
        "bound": 7.0,
        "certificate": solved.certificate,
        "prices": None,
        "limit": "none",
    }
    own, other = (SimpleNamespace(**given, certified_bound=bound) for bound in (7.0, 5.0))
    assert _bound_of(formulation, cast(Result, own)).certified == proven
    assert _bound_of(formulation, cast(Result, other)).certified == 5.0
    grid = cluster_grid_of(instance, "any", {"gpu": 1.0}, None)
    value, plan = solved.objective, tuple(solved.plan or ())
    found = Incumbent(value, instance.resources, grid.own_rate(), plan)
    point = point_of(grid, found, Bound(2 * value, 1.5 * value, solved.certificate))
    assert point.bound_s == point.certified_bound_s == point.mean_completion_s


def frontier() -> AllocationFrontier:
    """Return two points with one job."""
    plan = (JobAllocation(job="a", variant="v", workers=1, completion_s=9.0),)
    points = tuple(
        AllocationPoint(
            rate_usd_per_hour=rate,
            capacities={"gpu": rate / 2},
            mean_completion_s=time,
            prices={"gpu": 3.0} if rate == 4 else None,
            plan=plan,
        )
        for rate, time in ((4.0, 9.0), (2.0, 18.0))
    )
    data = AllocationFrontier.model_construct(instance="one", status="complete", points=points)
    return data.model_copy(update={"certified_error": 0.01})


def test_a_frame_has_a_row_for_each_point() -> None:
    """Capacities and dual prices are columns."""
    frame = frontier().to_frame()
    assert frame["rate_usd_per_hour"].tolist() == [4, 2]
    assert frame["capacity.gpu"].tolist() == [2, 1]
    assert frame["price.gpu"].tolist()[0] == 3
    assert frame["price.gpu"].isna().tolist() == [False, True]


def test_a_notebook_shows_the_points() -> None:
    """With the certified error."""
    html = frontier()._repr_html_()
    assert "frontier of 2 clusters" in html
    assert "1 %" in html
    assert "2 gpu" in html
