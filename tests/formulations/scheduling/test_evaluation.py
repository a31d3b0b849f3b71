"""Violated constraints and reported metrics of schedules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from malleable_instances import broken, described, plan_of

from clusterplan.formulations.scheduling.evaluation import (
    MAX_NAMED,
    checkpoint_interval_s,
    checkpointed_progress_s,
    cumulative_sums,
    evicted_runs,
    runs_without_break,
    usage_over_time,
    work_tolerance,
)
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.formulations.scheduling.plan import SegmentTable
from clusterplan.instances.scheduling.generate import generate_scheduling

# A job of 5 s at full speed, which has half of it on any server; s0 fails from 3 to 4 s.
FAILS = """
servers: [{name: s0, capacity: {gpu: 1}}, {name: s1, capacity: {gpu: 1}}]
events: [{at_s: 3, fails: [s0]}, {at_s: 4, returns: [s0]}]
jobs: [{name: a, demand: {gpu: 1}, duration_s: 5, speed_by_servers: {1: 0.5}}]
"""
COUNTED = """
resources: {gpu: 2}
jobs:
- {name: wide, tasks: 2, demand: {gpu: 1}, duration_s: 4, tenant: a}
- {name: thin, demand: {gpu: 1}, duration_s: 3, arrival_s: 1, tenant: b}
"""


def test_of_many_faults_the_first_are_named() -> None:
    """And the others are counted."""
    found = broken(generate_scheduling(100, 8))
    assert len(found) == MAX_NAMED + 1
    assert found[-1] == "work: 80 more of this sort"


def test_the_slack_is_relative_to_the_time_since_the_first_arrival() -> None:
    """So that a date in seconds since 1970 does not hide a second of work."""
    jobs = "jobs: [{{name: a, arrival_s: {}, demand: {{gpu: 1}}, duration_s: 10000}}]"
    for arrival in (0.0, 1.5e9):
        slack = work_tolerance(
            described("resources: {gpu: 1}", jobs.format(arrival)), np.array([arrival + 1e5])
        )
        assert slack.max() < 1e-2


@pytest.mark.parametrize(
    ("interval", "slack", "kept"), [(0, 0, 7), (math.inf, 0, 0), (3, 0, 6), (7.1, 0, 0), (7.1, 0.2, 7)]
)
def test_the_work_since_the_last_checkpoint_is_lost(interval: float, slack: float, kept: float) -> None:
    """Of 7 s; nothing with checkpoints all the time, all without any."""
    assert checkpointed_progress_s(7.0, interval, slack) == kept


@pytest.mark.parametrize(
    ("fields", "interval", "at_once"),
    [
        ("", 0, False),
        ("preemption: none", math.inf, True),
        ("checkpoint_s: 7", 7, False),
        ("{preemption: none, evict: restart}", math.inf, True),
        ("{preemption: none, evict: restart, checkpoint_s: 1.0}", 1, False),
        ("{preemption: none, evict: restart, checkpoint_s: 1.0, events: []}", 1, True),
    ],
)
def test_only_what_must_not_stop_loses_all_its_work(fields: str, interval: float, at_once: bool) -> None:
    """So that it runs at once, unless it may go on from a checkpoint; a named interval counts for all."""
    assert checkpoint_interval_s(described(FAILS, fields)) == interval
    assert runs_without_break(described(FAILS, fields)) == at_once


@pytest.mark.parametrize(
    ("server", "at_s", "fields", "evicted"),
    [
        ("s0", 3, "", True),
        ("", 3, "", True),
        ("s1", 3, "", False),
        ("s0", 4, "", False),
        ("x", 3, "", False),
        ("", 4, "", False),
        ("s0", 3, "events: []", False),
    ],
)
def test_only_those_on_a_server_that_fails_are_hit(
    server: str, at_s: float, fields: str, evicted: bool
) -> None:
    """And only if they go on later; without names they are in the pool."""
    first, last = ({name: 1} if server else {} for name in (server, "s0"))
    table = SegmentTable.of(plan_of(("a", 5, 12, "", last), ("a", 0, at_s, "", first)), {"a": 0})
    assert evicted_runs(described(FAILS, fields), table).tolist() == [evicted, False]


@pytest.mark.parametrize(
    ("fields", "runs", "faults"),
    [
        # Half a second of work in a second; of 1.5 s at 3 s, 1 s is kept with checkpoints each second.
        ("", ((0, 3, "s0"), (3, 10, "s1")), []),
        ("", ((0, 3, "s0"), (3, 9.9, "s1")), ["work: 'a' runs for 4.95 s, and needs 5"]),
        ("checkpoint_s: 1", ((0, 3, "s0"), (3, 11, "s1")), []),
        ("checkpoint_s: 1", ((0, 3, "s0"), (3, 10.9, "s1")), ["work: 'a' runs for 4.95 s, and needs 5"]),
        (
            "checkpoint_s: 1",
            ((0, 3, "s1"), (3, 10, "s0")),
            ["servers: 1 gpu of 's0' are used at 3 s, and it has 0"],
        ),
        ("{preemption: none, evict: restart}", ((0, 3, "s0"), (3, 13, "s1")), []),
        (
            "{preemption: none, evict: restart}",
            ((0, 2, "s0"), (2, 13, "s1")),
            ["preemption: 'a' starts 2 times, and must not be interrupted"],
        ),
    ],
)
def test_the_check_knows_speeds_and_losses(fields: str, runs: Any, faults: list[str]) -> None:
    """A plan that names no servers leaves open how slow its jobs are."""
    rows = [("a", start, end, "", {server: 1}) for start, end, server in runs]
    assert broken(described(FAILS, fields), *rows) == faults
    (open_,) = broken(described(FAILS), ("a", 0, 9))
    assert "jobs are slower on several servers" in open_


def test_figures_are_those_that_are_counted_by_hand() -> None:
    """Wide runs 0–1 and 4–7, thin 1–4, on two GPUs."""
    plan = plan_of(("wide", 0, 1), ("thin", 1, 4), ("wide", 4, 7))
    found = SchedulingFormulation(described(COUNTED)).metrics(plan)
    assert (found.mean_s, found.median_s, found.p99_s, found.makespan_s) == (5, 7, 7, 7)
    assert (found.mean_queueing_s, found.preemptions) == (1.5, 1)
    assert found.mean_slowdown == pytest.approx((7 / 4 + 1) / 2)
    assert [found.utilisation["gpu"], found.fragmentation["gpu"]] == pytest.approx([11 / 14, 3 / 14])
    assert found.tenant_fairness == pytest.approx((1.75 + 1) ** 2 / (2 * (1.75**2 + 1)))


def test_usage_is_a_step_function_of_time() -> None:
    """A job waits from its arrival to its start; amounts change with events."""
    instance = described(COUNTED, "events: [{at_s: 3, change: {gpu: 1}}]")
    table = SegmentTable.of(plan_of(("wide", 0, 4), ("thin", 3, 5)), {"wide": 0, "thin": 1})
    usage = usage_over_time(instance, table)
    assert usage.at_s.tolist() == [0, 1, 3, 4, 5]
    assert usage.used[:, 0].tolist() == [2, 2, 3, 1, 0]
    assert usage.capacity[:, 0].tolist() == [2, 2, 3, 3, 3]
    assert usage.running.tolist() == [1, 1, 2, 1, 0]
    assert usage.waiting.tolist() == [0, 1, 0, 0, 0]


def test_small_amounts_are_not_lost_beside_large_ones() -> None:
    """In doubles 10^12 + 10^-6 − 10^12 is 0; where limits are large enough, doubles will do."""
    changes = np.array([1e12, 1e-6, -1e12])
    assert cumulative_sums(changes, 1e-6).tolist() == [1e12, 1e12 + 1e-6, 1e-6]
    assert cumulative_sums(changes, 1e12)[-1] != 1e-6
    # Parts of 1/1024 are added without rounding, whatever the limit.
    assert cumulative_sums(np.array([2.0**20, 0.25, -(2.0**20)]), 0.0).tolist() == [
        2.0**20,
        2.0**20 + 0.25,
        0.25,
    ]
