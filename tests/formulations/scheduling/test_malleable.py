"""Malleable jobs: what their segments do, what they use, and how soon they can end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.formulations.scheduling.plan import Segment
from clusterplan.instances.scheduling.instance import SchedulingInstance

GROWS = {"name": "a", "work": 12, "demand": {"gpu": 1}, "speeds": {1: 2.0, 2: 3.0, 4: 4.0}}
RIGID = {"name": "b", "demand": {"gpu": 2}, "duration_s": 2, "arrival_s": 1}
Row = tuple[str, float, float, str]


def formulation(**others: Any) -> SchedulingFormulation:
    """Return a malleable and a rigid job on four GPUs."""
    document = {"name": "t", "resources": {"gpu": 4}, "jobs": [GROWS, RIGID], **others}
    return SchedulingFormulation(SchedulingInstance.model_validate(document))


def plan(*rows: Row) -> tuple[Segment, ...]:
    """Return segments."""
    return tuple(Segment(job=j, start_s=b, end_s=e, configuration=k) for j, b, e, k in rows)


def broken(there: SchedulingFormulation, *rows: Row) -> list[str]:
    """Return the broken constraints of a plan, in words."""
    return [str(one) for one in there.violations(plan(*rows))]


# One second at speed 4, then two at 3, then one at 2.
GOOD: tuple[Row, ...] = (("a", 0, 1, "4"), ("a", 1, 3, "2"), ("b", 1, 3, ""), ("a", 3, 4, "1"))


def test_progress_is_length_times_speed() -> None:
    """Four, six and two units are the twelve that there are."""
    there = formulation()
    assert broken(there, *GOOD) == []
    assert there.evaluate(plan(*GOOD)) == ((4 + 2) / 2,)
    short = (*GOOD[:3], ("a", 3, 3.5, "1"))
    assert broken(there, *short) == ["work: 'a' does 11 of 12 units of its work"]
    usage = there.metrics(plan(*GOOD)).utilisation["gpu"]
    assert usage == (4 + 2 * 4 + 1) / 16
    assert there.metrics(plan(*GOOD)).preemptions == 2


def test_a_configuration_uses_what_it_takes() -> None:
    """Four GPUs and two are more than there are."""
    found = broken(formulation(), ("a", 0, 3, "4"), ("b", 2, 4, ""))
    assert found == ["gpu: 6 gpu are used at 2 s, and there are 4"]


def test_a_job_has_the_configurations_of_its_menu() -> None:
    """A rigid one has none with a name."""
    found = broken(formulation(), ("a", 0, 3, "3"), ("b", 1, 3, "2"))
    what = "configuration: a segment of {} names a configuration that the job has not; {}"
    assert found == [
        what.format("'a'", "it has: 1, 2, 4"),
        what.format("'b'", "it is rigid, and names none"),
    ]
    assert broken(formulation(), ("a", 0, 3, ""), ("b", 3, 5, "")) == found[:1]


def test_a_change_of_configuration_is_a_start() -> None:
    """It costs a restart, but the first is free; two changes of a second lack seconds of progress."""
    there = formulation(preemption="costs", restart_s=1)
    assert broken(there, *GOOD) == ["work: 'a' does 7 of 12 units of its work"]
    assert broken(there, *GOOD[:3], ("a", 3, 6.5, "1")) == []
    # Segments that follow each other in one configuration are one run.
    assert broken(there, ("a", 0, 2, "4"), ("a", 2, 3, "4"), ("b", 3, 5, "")) == []


def test_without_preemption_a_job_keeps_its_configuration() -> None:
    """Also where it never stops."""
    there = formulation(preemption="none")
    assert broken(there, *GOOD) == ["preemption: 'a' starts 3 times, and must not be interrupted"]
    assert broken(there, ("a", 0, 4, "2"), ("b", 1, 3, "")) == []


def test_a_lease_keeps_the_configuration() -> None:
    """A change within it breaks it."""
    there = formulation(lease_s=2)
    assert broken(there, *GOOD) == ["lease: 'a' runs for 1 s, and a lease is 2"]


@pytest.mark.parametrize(("objective", "bound"), [("mean_completion_time", 2.5), ("makespan", 3.0)])
def test_no_job_is_faster_than_its_best_configuration(objective: str, bound: float) -> None:
    """Work over the best speed: three seconds, and two."""
    found = formulation(objective=objective).elementary_bounds()[0]
    assert found == pytest.approx(bound, rel=1e-6)
    assert found is not None
    assert found <= bound


def test_work_needs_its_least_usage() -> None:
    """Twenty jobs of 12 units need 6 GPU-seconds each, on one GPU; the cluster gives 4 in a second."""
    jobs = [{**GROWS, "name": f"a{k}"} for k in range(20)]
    found = formulation(jobs=jobs, objective="makespan").elementary_bounds()[0]
    assert found == pytest.approx(20 * 6 / 4, rel=1e-6)


def test_segments_are_read_in_any_order() -> None:
    """Rows of the menu follow the sorted segments."""
    table = formulation().segments(plan(*GOOD[::-1]))
    assert table.row.tolist() == [2, 1, 0, 3]
    assert table.begins.all()
    assert np.array_equal(table.runs[1], [1, 2, 1, 2])
