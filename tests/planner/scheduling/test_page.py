"""The page of a schedule: curves over time keep their peaks, and those who waited most come first."""

from __future__ import annotations

import numpy as np

from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.planner.scheduling.page import MOST_POINTS, scheduling_parts, thinned
from clusterplan.solvers.common.conclude import conclude
from clusterplan.solvers.common.options import SolveOptions
from clusterplan.solvers.common.result import Result
from clusterplan.solvers.scheduling.methods import POLICIES


def test_a_thinned_curve_keeps_its_peaks() -> None:
    """Of many points few are left, in order, and the largest value is among them."""
    at_s = np.sort(np.random.default_rng(1).uniform(0, 100, 20_000))
    values = np.zeros(20_000)
    values[7_777] = 5
    times, kept = thinned(at_s, values)
    assert len(times) <= MOST_POINTS
    assert (np.diff(times) > 0).all()
    assert kept.max() == 5
    assert thinned(at_s[:9], values[:9])[0].tolist() == at_s[:9].tolist()


def made() -> tuple[SchedulingFormulation, Result]:
    """Return a trace and its result by first come, first served."""
    formulation = SchedulingFormulation(generate_scheduling(40, 8, load=3.0, seed=2))
    outcome = POLICIES[0].solve(formulation, SolveOptions(), Clock())
    return formulation, conclude(formulation, "fifo", SolveOptions(), outcome, 0.1)


def test_the_page_shows_the_queue_and_who_waited_most() -> None:
    """The longest wait stands in the first row; at its peak the curve of the queue is the longest queue."""
    formulation, result = made()
    parts = scheduling_parts(formulation.instance, result)
    assert set(parts["data"]["figures"]) == {"queue", "use", "times", "gantt"}
    (queue,) = parts["data"]["figures"]["queue"]["data"]
    assert max(queue["y"]) > 1
    waits = [row[5].value for row in parts["waited"].rows]
    assert waits == sorted(waits, reverse=True)
    assert waits[0] > 0


def test_without_a_plan_the_page_says_what_the_instance_is() -> None:
    """And shows no curves."""
    formulation, result = made()
    parts = scheduling_parts(formulation.instance, result.model_copy(update={"plan": None}))
    assert parts["data"] == {"figures": {}}
    assert ("jobs", "40") in parts["about"]


def test_prices_of_a_certificate_are_shown() -> None:
    """Over the time of the schedule; a Gantt chart has a line for each job and a bar for each segment."""
    formulation, result = made()
    assert result.plan is not None
    prices = {"edges_s": [0.0, 100.0, 200.0], "prices": {"gpu": [3.0, 1.5, 0.0]}}
    priced = result.model_copy(update={"certificate": prices})
    figures = scheduling_parts(formulation.instance, priced)["data"]["figures"]
    assert figures["price"]["data"][0]["y"][:2] == [3.0, 1.5]
    there, runs = figures["gantt"]["data"]
    assert len(there["x"]) == 3 * 40
    assert len(runs["x"]) == 3 * len(result.plan)
