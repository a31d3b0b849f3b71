"""Scheduling: evaluation of plans of rigid and malleable jobs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from malleable_instances import GROWS, RIGID

from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.formulations.scheduling.kind import SCHEDULING
from clusterplan.formulations.scheduling.plan import Segment, SegmentTable
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


def test_there_is_a_formulation_and_no_compact_model() -> None:
    """Time would have to be cut into slots."""
    assert SCHEDULING.formulation is SchedulingFormulation
    assert SCHEDULING.milp_model is None


def table(*rows: tuple[str, float, float, dict[str, int]]) -> SegmentTable:
    """Return segments of jobs a and b."""
    plan = [Segment(job=job, start_s=b, end_s=e, servers=servers) for job, b, e, servers in rows]
    return SegmentTable.of(plan, {"a": 0, "b": 1})


def test_segments_without_a_pause_are_one_run() -> None:
    """Unless the job moves to other servers."""
    found = table(("b", 5, 6, {}), ("a", 2, 3, {}), ("a", 0, 2, {}), ("a", 4, 5, {}))
    of, length, end = found.runs
    assert end.tolist() == [3, 5, 6]
    assert of.tolist() == [0, 0, 1]
    assert length.tolist() == [3, 1, 1]
    moved = table(("a", 0, 2, {"x": 1}), ("a", 2, 3, {"y": 1}), ("a", 3, 4, {"y": 1}))
    assert moved.runs[1].tolist() == [2, 2]


def test_ends_and_running_times_of_jobs() -> None:
    """Infinite for a job without segments; those of jobs that nobody knows are left out."""
    found = table(("a", 1, 2, {}), ("a", 5, 7, {}), ("who", 0, 9, {}))
    assert found.completion_s.tolist() == [7, float("-inf")]
    assert found.running_s.tolist() == [3, 0]


Row = tuple[str, float, float, str]


def malleable_formulation(**others: Any) -> SchedulingFormulation:
    """Return a malleable and a rigid job on four GPUs."""
    document = {"name": "t", "resources": {"gpu": 4}, "jobs": [GROWS, RIGID], **others}
    return SchedulingFormulation(SchedulingInstance.model_validate(document))


def malleable_plan(*rows: Row) -> tuple[Segment, ...]:
    """Return segments."""
    return tuple(Segment(job=j, start_s=b, end_s=e, configuration=k) for j, b, e, k in rows)


def malleable_broken(there: SchedulingFormulation, *rows: Row) -> list[str]:
    """Return the broken constraints of a plan, in words."""
    return [str(one) for one in there.violations(malleable_plan(*rows))]


# One second at speed 4, then two at 3, then one at 2.
GOOD: tuple[Row, ...] = (("a", 0, 1, "4"), ("a", 1, 3, "2"), ("b", 1, 3, ""), ("a", 3, 4, "1"))


def test_progress_is_length_times_speed() -> None:
    """Four, six and two units are the twelve that there are."""
    there = malleable_formulation()
    assert malleable_broken(there, *GOOD) == []
    assert there.evaluate(malleable_plan(*GOOD)) == ((4 + 2) / 2,)
    short = (*GOOD[:3], ("a", 3, 3.5, "1"))
    assert malleable_broken(there, *short) == ["work: 'a' does 11 of 12 units of its work"]
    usage = there.metrics(malleable_plan(*GOOD)).utilisation["gpu"]
    assert usage == (4 + 2 * 4 + 1) / 16
    assert there.metrics(malleable_plan(*GOOD)).preemptions == 2


def test_a_configuration_uses_what_it_takes() -> None:
    """Four GPUs and two are more than there are."""
    found = malleable_broken(malleable_formulation(), ("a", 0, 3, "4"), ("b", 2, 4, ""))
    assert found == ["gpu: 6 gpu are used at 2 s, and there are 4"]


def test_a_job_has_the_configurations_of_its_menu() -> None:
    """A rigid one has none with a name."""
    found = malleable_broken(malleable_formulation(), ("a", 0, 3, "3"), ("b", 1, 3, "2"))
    what = "configuration: a segment of {} names a configuration that the job has not; {}"
    assert found == [
        what.format("'a'", "it has: 1, 2, 4"),
        what.format("'b'", "it is rigid, and names none"),
    ]
    assert malleable_broken(malleable_formulation(), ("a", 0, 3, ""), ("b", 3, 5, "")) == found[:1]


def test_a_change_of_configuration_is_a_start() -> None:
    """It costs a restart, but the first is free; two changes of a second lack seconds of progress."""
    there = malleable_formulation(preemption="costs", restart_s=1)
    assert malleable_broken(there, *GOOD) == ["work: 'a' does 7 of 12 units of its work"]
    assert malleable_broken(there, *GOOD[:3], ("a", 3, 6.5, "1")) == []
    # Segments that follow each other in one configuration are one run.
    assert malleable_broken(there, ("a", 0, 2, "4"), ("a", 2, 3, "4"), ("b", 3, 5, "")) == []


def test_without_preemption_a_job_keeps_its_configuration() -> None:
    """Also where it never stops."""
    there = malleable_formulation(preemption="none")
    assert malleable_broken(there, *GOOD) == ["preemption: 'a' starts 3 times, and must not be interrupted"]
    assert malleable_broken(there, ("a", 0, 4, "2"), ("b", 1, 3, "")) == []


def test_a_lease_keeps_the_configuration() -> None:
    """A change within it breaks it."""
    there = malleable_formulation(lease_s=2)
    assert malleable_broken(there, *GOOD) == ["lease: 'a' runs for 1 s, and a lease is 2"]


@pytest.mark.parametrize(("objective", "bound"), [("mean_completion_time", 2.5), ("makespan", 3.0)])
def test_no_job_is_faster_than_its_best_configuration(objective: str, bound: float) -> None:
    """Work over the best speed: three seconds, and two."""
    found = malleable_formulation(objective=objective).elementary_bounds()[0]
    assert found == pytest.approx(bound, rel=1e-6)
    assert found is not None
    assert found <= bound


def test_work_needs_its_least_usage() -> None:
    """Twenty jobs of 12 units need 6 GPU-seconds each, on one GPU; the cluster gives 4 in a second."""
    jobs = [{**GROWS, "name": f"a{k}"} for k in range(20)]
    found = malleable_formulation(jobs=jobs, objective="makespan").elementary_bounds()[0]
    assert found == pytest.approx(20 * 6 / 4, rel=1e-6)


def test_segments_are_read_in_any_order() -> None:
    """Rows of the menu follow the sorted segments."""
    table = malleable_formulation().segments(malleable_plan(*GOOD[::-1]))
    assert table.row.tolist() == [2, 1, 0, 3]
    assert table.begins.all()
    assert np.array_equal(table.runs[1], [1, 2, 1, 2])
