"""The result of a search over clusters, as a table and in a notebook."""

from __future__ import annotations

from clusterplan.formulations.allocation.plan import JobAllocation
from clusterplan.solvers.allocation.frontier_result import AllocationFrontier, AllocationPoint


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
