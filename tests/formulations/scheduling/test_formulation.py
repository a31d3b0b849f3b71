"""Scheduling: evaluation of plans of rigid and malleable jobs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml
from malleable_instances import GROWS, broken, described, plan_of

from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.formulations.scheduling.kind import SCHEDULING
from clusterplan.formulations.scheduling.plan import SegmentTable

RIGID = """
resources: {gpu: 2}
jobs:
- {name: wide, tasks: 2, demand: {gpu: 1}, duration_s: 4}
- {name: thin, demand: {gpu: 1}, duration_s: 3, arrival_s: 1, weight: 3}
"""
MALLEABLE = """
resources: {gpu: 4}
jobs:
- {name: a, work: 12, demand: {gpu: 1}, speeds: {1: 2.0, 2: 3.0, 4: 4.0}}
- {name: b, demand: {gpu: 2}, duration_s: 2, arrival_s: 1}
"""
FAIR = (("wide", 0, 1), ("thin", 1, 4), ("wide", 4, 7))
IN_TURN = (("wide", 0, 4), ("thin", 4, 7))
# One second at speed 4, then two at 3, then one at 2.
GOOD = (("a", 0, 1, "4"), ("a", 1, 3, "2"), ("b", 1, 3), ("a", 3, 4, "1"))
NO_SUCH = "configuration: a segment of {} names a configuration that the job has not; {}"
STARTS = "preemption: {} starts {} times, and must not be interrupted"


@pytest.mark.parametrize(
    ("document", "fields", "plan", "faults"),
    [
        (RIGID, "", FAIR, []),
        (RIGID, "", (("wide", 0, 4), ("thin", 3, 6)), ["gpu: 3 gpu are used at 3 s, and there are 2"]),
        # Segments that follow each other at once are one start.
        (RIGID, "preemption: none", FAIR, [STARTS.format("'wide'", 2)]),
        (RIGID, "preemption: none", (("wide", 0, 1), ("wide", 1, 4), ("thin", 4, 7)), []),
        # A restart costs progress, but the first start is free; a segment shorter than it achieves nothing.
        (
            RIGID,
            "{preemption: costs, restart_s: 0.5}",
            FAIR,
            ["work: 'wide' runs for 3.5 s, and needs 4"],
        ),
        (RIGID, "{preemption: costs, restart_s: 0.5}", (*FAIR[:2], ("wide", 4, 7.5)), []),
        (
            RIGID,
            "{preemption: costs, restart_s: 0.5}",
            (*FAIR[:2], ("wide", 4, 4.25), ("wide", 5, 8.5)),
            [],
        ),
        (RIGID.replace("tasks", "restart_s: 0, tasks"), "{preemption: costs, restart_s: 0.5}", FAIR, []),
        # A lease must be kept by all but the last run: the end of a job ends it.
        (RIGID, "lease_s: 2", FAIR, ["lease: 'wide' runs for 1 s, and a lease is 2"]),
        (RIGID, "lease_s: 3.5", IN_TURN, []),
        # The capacity of the moment counts.
        (
            RIGID,
            "events: [{at_s: 5, change: {gpu: -1}}]",
            FAIR,
            ["gpu: 2 gpu are used at 5 s, and there are 1"],
        ),
        # Servers that no segment names are one pool.
        (RIGID, "{resources: {}, servers: [{name: s, capacity: {gpu: 2}}]}", FAIR, []),
        # Progress is length times speed: four, six and two units are the twelve that there are.
        (MALLEABLE, "", GOOD, []),
        (MALLEABLE, "", (*GOOD[:3], ("a", 3, 3.5, "1")), ["work: 'a' does 11 of 12 units of its work"]),
        # Four GPUs and two are more than there are.
        (MALLEABLE, "", (("a", 0, 3, "4"), ("b", 2, 4)), ["gpu: 6 gpu are used at 2 s, and there are 4"]),
        (
            MALLEABLE,
            "",
            (("a", 0, 3, "3"), ("b", 1, 3, "2")),
            [NO_SUCH.format("'a'", "it has: 1, 2, 4"), NO_SUCH.format("'b'", "it is rigid, and names none")],
        ),
        (MALLEABLE, "", (("a", 0, 3), ("b", 3, 5)), [NO_SUCH.format("'a'", "it has: 1, 2, 4")]),
        # A change of configuration is a start; two of them lack seconds of progress.
        (
            MALLEABLE,
            "{preemption: costs, restart_s: 1}",
            GOOD,
            ["work: 'a' does 7 of 12 units of its work"],
        ),
        (MALLEABLE, "{preemption: costs, restart_s: 1}", (*GOOD[:3], ("a", 3, 6.5, "1")), []),
        (
            MALLEABLE,
            "{preemption: costs, restart_s: 1}",
            (("a", 0, 2, "4"), ("a", 2, 3, "4"), ("b", 3, 5)),
            [],
        ),
        (MALLEABLE, "preemption: none", GOOD, [STARTS.format("'a'", 3)]),
        (MALLEABLE, "preemption: none", (("a", 0, 4, "2"), ("b", 1, 3)), []),
        (MALLEABLE, "lease_s: 2", GOOD, ["lease: 'a' runs for 1 s, and a lease is 2"]),
    ],
)
def test_the_constraints_of_a_plan(document: str, fields: str, plan: Any, faults: list[str]) -> None:
    """A broken one is named with the job, the time and the figures."""
    assert broken(described(document, fields), *plan) == faults


@pytest.mark.parametrize(
    ("segments", "fault"),
    [
        ((("wide", 0, 4), ("thin", 0.5, 3.5)), "arrival: 'thin' starts at 0.5 s and arrives at 1"),
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
def test_a_broken_constraint_is_among_others(segments: Any, fault: str) -> None:
    """Where one fault leads to others."""
    assert fault in broken(described(RIGID), *segments)


@pytest.mark.parametrize(
    ("wide", "faults"),
    [
        ({"s-0": 1, "s-1": 1}, []),
        ({"s-0": 2}, ["servers: 2 gpu of 's-0' are used at 0 s, and it has 1"]),
        ({"s-0": 1}, ["servers: 1 tasks of 'wide' have servers, and it has 2"]),
        ({"s-0": 1, "x": 1}, ["servers: there is no server 'x', on which 'wide' runs"]),
    ],
)
def test_servers_that_are_named_must_hold_their_tasks(wide: dict[str, int], faults: list[str]) -> None:
    """Tasks add up, servers exist, and each has its own capacity."""
    there = described(RIGID, "{resources: {}, servers: [{name: s, count: 2, capacity: {gpu: 1}}]}")
    assert broken(there, ("wide", 0, 4, "", wide), ("thin", 4, 7, "", {"s-1": 1})) == faults


def test_a_feasible_plan_has_a_value() -> None:
    """(1 × 7 + 3 × 3) / 4 with weights; the makespan from the first arrival on."""
    rigid, malleable = (SchedulingFormulation(described(text)) for text in (RIGID, MALLEABLE))
    assert rigid.evaluate(plan_of(*FAIR)) == (4.0,)
    makespan = SchedulingFormulation(described(RIGID, objective="makespan"))
    assert makespan.evaluate(plan_of(*FAIR)) == (7.0,)
    assert malleable.evaluate(plan_of(*GOOD)) == ((4 + 2) / 2,)
    metrics = malleable.metrics(plan_of(*GOOD))
    assert (metrics.utilisation["gpu"], metrics.preemptions) == ((1 * 4 + 2 * 4 + 1) / 16, 2)


def test_segments_are_taken_in_any_order() -> None:
    """A plan is shown in the order of its starts; rows of the menu follow the sorted segments."""
    rigid, malleable = (SchedulingFormulation(described(text)) for text in (RIGID, MALLEABLE))
    assert rigid.finish(plan_of(*FAIR[::-1])) == plan_of(*FAIR)
    table = malleable.segments(plan_of(*GOOD[::-1]))
    assert table.row.tolist() == [2, 1, 0, 3]
    assert table.begins.all()
    assert np.array_equal(table.runs[2], [1, 2, 1, 2])


@pytest.mark.parametrize(
    ("document", "objective", "bound"),
    [
        # The mean of the durations; the work over the cluster.
        (RIGID, "mean_completion_time", (4 + 3 * 3) / 4),
        (RIGID, "makespan", (8 + 3) / 2),
        # Work over the best speed: three seconds, and two.
        (MALLEABLE, "mean_completion_time", 2.5),
        (MALLEABLE, "makespan", 3.0),
        # Twenty jobs of 12 units need 6 GPU-seconds each, on one GPU; the cluster gives 4 in a second.
        (
            yaml.safe_dump(
                {"resources": {"gpu": 4}, "jobs": [{**GROWS, "name": f"a{k}"} for k in range(20)]}
            ),
            "makespan",
            20 * 6 / 4,
        ),
    ],
)
def test_no_plan_beats_the_elementary_bound(document: str, objective: str, bound: float) -> None:
    """It is rounded down."""
    (found,) = SchedulingFormulation(described(document, objective=objective)).elementary_bounds()
    assert found == pytest.approx(bound, rel=1e-5)
    assert found is not None
    assert found <= bound


def test_there_is_a_formulation_and_no_compact_model() -> None:
    """Time would have to be cut into slots."""
    assert SCHEDULING.formulation is SchedulingFormulation
    assert SCHEDULING.milp_model is None


def test_segments_without_a_pause_are_one_run() -> None:
    """Unless the job moves to other servers; segments of jobs that nobody knows are left out."""
    index = {"a": 0, "b": 1}
    found = SegmentTable.of(plan_of(("b", 5, 6), ("a", 2, 3), ("a", 0, 2), ("a", 4, 5)), index)
    assert [column.tolist() for column in found.runs] == [[0, 2, 3], [0, 0, 1], [3, 1, 1], [3, 5, 6]]
    rows = [("a", k, k + 1, "", {name: 1}) for k, name in enumerate("xxyy")]
    assert SegmentTable.of(plan_of(*rows), index).runs[2].tolist() == [2, 2]
    found = SegmentTable.of(plan_of(("a", 1, 2), ("a", 5, 7), ("who", 0, 9)), index)
    assert found.completion_s.tolist() == [7, float("-inf")]
    assert found.running_s.tolist() == [3, 0]
