"""Schedules are checked and judged from their segments alone."""

from __future__ import annotations

from typing import Any

import pytest

from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.formulations.scheduling.plan import Segment
from clusterplan.instances.scheduling.instance import SchedulingInstance

WIDE = {"name": "wide", "tasks": 2, "demand": {"gpu": 1}, "duration_s": 4}
THIN = {"name": "thin", "demand": {"gpu": 1}, "duration_s": 3, "arrival_s": 1, "weight": 3}


def formulation(**others: Any) -> SchedulingFormulation:
    """Return two jobs on two GPUs."""
    document = {"name": "t", "resources": {"gpu": 2}, "jobs": [WIDE, THIN], **others}
    return SchedulingFormulation(SchedulingInstance.model_validate(document))


def plan(*segments: tuple[str, float, float]) -> tuple[Segment, ...]:
    """Return segments."""
    return tuple(Segment(job=job, start_s=start, end_s=end) for job, start, end in segments)


FAIR = (("wide", 0, 1), ("thin", 1, 4), ("wide", 4, 7))


def broken(there: SchedulingFormulation, *segments: tuple[str, float, float]) -> list[str]:
    """Return the broken constraints of a plan, in words."""
    return [str(one) for one in there.violations(plan(*segments))]


def test_a_feasible_plan_has_no_violation_and_a_value() -> None:
    """(1 × 7 + 3 × 3) / 4 with weights; the makespan from the first arrival on."""
    assert broken(formulation(), *FAIR) == []
    assert formulation().evaluate(plan(*FAIR)) == (4.0,)
    assert formulation(objective="makespan").evaluate(plan(*FAIR)) == (7.0,)


@pytest.mark.parametrize(
    ("segments", "fault"),
    [
        ((("wide", 0, 4), ("thin", 0.5, 3.5)), "arrival: 'thin' starts at 0.5 s and arrives at 1"),
        ((("wide", 0, 4), ("thin", 3, 6)), "gpu: 3 gpu are used at 3 s, and there are 2"),
        ((("wide", 0, 3.9), ("thin", 4, 7)), "work: 'wide' runs for 3.9 s, and needs 4"),
        ((("wide", 0, 4),), "work: 'thin' runs for 0 s, and needs 3"),
        (
            (("wide", 0, 4), ("thin", 4, 6), ("thin", 5, 7)),
            "one at a time: 'thin' starts at 5 s, while it runs",
        ),
        ((("wide", 4, 4), *FAIR), "time: 'wide' ends when it starts, or before"),
        ((("who", 0, 4),), "jobs: there is no job 'who'"),
    ],
)
def test_a_broken_constraint_is_named(segments: Any, fault: str) -> None:
    """With the job, the time and the figures."""
    assert fault in broken(formulation(), *segments)


def test_preemption_may_be_forbidden() -> None:
    """Segments that follow each other at once are one start."""
    there = formulation(preemption="none")
    assert broken(there, *FAIR) == ["preemption: 'wide' starts 2 times, and must not be interrupted"]
    assert broken(there, ("wide", 0, 1), ("wide", 1, 4), ("thin", 4, 7)) == []


def test_a_restart_costs_progress_but_the_first_start_is_free() -> None:
    """Also where a segment is shorter than a restart, which then achieves nothing."""
    there = formulation(preemption="costs", restart_s=0.5)
    assert broken(there, *FAIR) == ["work: 'wide' runs for 3.5 s, and needs 4"]
    assert broken(there, *FAIR[:2], ("wide", 4, 7.5)) == []
    assert broken(there, *FAIR[:2], ("wide", 4, 4.25), ("wide", 5, 8.5)) == []
    own = formulation(preemption="costs", restart_s=0.5, jobs=[{**WIDE, "restart_s": 0}, THIN])
    assert broken(own, *FAIR) == []


def test_a_lease_must_be_kept_by_all_but_the_last_run() -> None:
    """The end of a job ends its lease."""
    assert broken(formulation(lease_s=2), *FAIR) == ["lease: 'wide' runs for 1 s, and a lease is 2"]
    assert broken(formulation(lease_s=3.5), ("wide", 0, 4), ("thin", 4, 7)) == []


def test_the_capacity_of_the_moment_counts() -> None:
    """A GPU that fails takes its job's place away."""
    there = formulation(events=[{"at_s": 5, "change": {"gpu": -1}}])
    assert broken(there, *FAIR) == ["gpu: 2 gpu are used at 5 s, and there are 1"]


def test_servers_that_are_named_must_hold_their_tasks() -> None:
    """Tasks add up, servers exist, and each has its own capacity."""
    servers = [{"name": "s", "count": 2, "capacity": {"gpu": 1}}]
    there = formulation(resources={}, servers=servers)

    def placed(wide: dict[str, int]) -> list[str]:
        segments = list(plan(("wide", 0, 4), ("thin", 4, 7)))
        segments[0] = Segment(job="wide", start_s=0, end_s=4, servers=wide)
        segments[1] = Segment(job="thin", start_s=4, end_s=7, servers={"s-1": 1})
        return [str(one) for one in there.violations(segments)]

    assert placed({"s-0": 1, "s-1": 1}) == []
    assert placed({"s-0": 2}) == ["servers: 2 gpu of 's-0' are used at 0 s, and it has 1"]
    assert placed({"s-0": 1}) == ["servers: 1 tasks of 'wide' have servers, and it has 2"]
    assert placed({"s-0": 1, "x": 1}) == ["servers: there is no server 'x', on which 'wide' runs"]


def test_a_plan_is_shown_in_the_order_of_its_starts() -> None:
    """Whatever order a method returns."""
    assert formulation().finish(plan(*FAIR[::-1])) == plan(*FAIR)


def test_no_plan_beats_the_elementary_bound() -> None:
    """It is the mean of the durations here, and the work over the cluster for the makespan."""
    assert formulation().elementary_bounds()[0] == pytest.approx((4 + 3 * 3) / 4)
    (bound,) = formulation(objective="makespan").elementary_bounds()
    assert bound == pytest.approx((8 + 3) / 2, rel=1e-5)
