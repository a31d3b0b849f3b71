"""The page of a frontier of sizes."""

from __future__ import annotations

from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.planner.pareto import pareto
from clusterplan.planner.reports.result_page import frontier_page
from clusterplan.planner.scheduling.frontier import SchedulingFrontierPage
from clusterplan.solvers.scheduling.frontier_result import SchedulingFrontier, SizeBound

TRACE = generate_scheduling(40, 32, load=2.0, seed=3)


def test_it_says_what_no_scheduler_can_beat() -> None:
    """For as much as there is."""
    frontier = pareto(TRACE, least=32, most=64, prices={"gpu": 2.0})
    page = frontier_page(TRACE, frontier)
    assert "On 32 gpu no scheduler averages less than" in page
    assert "USD/h" in page
    assert len(page) < 1_500_000


def test_the_bound_of_a_size_holds_down_to_the_next_smaller_one() -> None:
    """As steps: where each begins, and how high it is."""
    frontier = pareto(TRACE, least=32, most=64)
    assert isinstance(frontier, SchedulingFrontier)
    others = (SizeBound(size=32, bound_s=90), SizeBound(size=40, bound_s=70), SizeBound(size=64, bound_s=80))
    page = SchedulingFrontierPage(TRACE, frontier)
    page.frontier = frontier.model_copy(update={"points": (), "others": others})
    assert page._bounds() == [(32, 90), (33, 80), (41, 80)]


def test_it_says_where_the_instance_asks_for_something_else() -> None:
    """The makespan is not what the frontier shows."""
    for objective, said in (("makespan", True), ("mean_completion_time", False)):
        trace = TRACE.replace(objective=objective)
        page = frontier_page(trace, pareto(trace, least=32, most=64))
        assert ("the instance asks for the makespan" in page) == said
