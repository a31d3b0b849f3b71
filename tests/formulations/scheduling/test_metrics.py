"""The figures of a schedule, on one whose figures are counted by hand.

What is used, and who waits, over time.
"""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.formulations.scheduling.evaluation import quantile, running_totals, usage_over_time
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.formulations.scheduling.plan import Segment, SegmentTable
from clusterplan.instances.scheduling.instance import SchedulingInstance


def test_figures_are_those_that_are_counted_by_hand() -> None:
    """Wide runs 0–1 and 4–7, thin 1–4, on two GPUs."""
    instance = SchedulingInstance.model_validate(
        {
            "name": "t",
            "resources": {"gpu": 2},
            "jobs": [
                {"name": "wide", "tasks": 2, "demand": {"gpu": 1}, "duration_s": 4, "tenant": "a"},
                {"name": "thin", "demand": {"gpu": 1}, "duration_s": 3, "arrival_s": 1, "tenant": "b"},
            ],
        }
    )
    segments = [("wide", 0, 1), ("thin", 1, 4), ("wide", 4, 7)]
    plan = [Segment(job=job, start_s=start, end_s=end) for job, start, end in segments]
    found = SchedulingFormulation(instance).metrics(plan)
    assert (found.mean_s, found.median_s, found.p99_s, found.makespan_s) == (5, 7, 7, 7)
    assert found.mean_queueing_s == 1.5
    assert found.mean_slowdown == pytest.approx((7 / 4 + 1) / 2)
    assert found.utilisation["gpu"] == pytest.approx(11 / 14)
    assert found.fragmentation["gpu"] == pytest.approx(3 / 14)
    assert found.preemptions == 1
    assert found.tenant_fairness == pytest.approx((1.75 + 1) ** 2 / (2 * (1.75**2 + 1)))


def test_a_quantile_is_one_of_the_values() -> None:
    """At place ⌊q n⌋, the last at most."""
    values = np.arange(200.0)
    assert quantile(values, 0.99) == 198
    assert quantile(values, 1.0) == 199
    assert quantile(values[:1], 0.99) == 0


def test_usage_is_a_step_function_of_time() -> None:
    """A job waits from its arrival to its start; amounts change with events."""
    instance = SchedulingInstance.model_validate(
        {
            "name": "t",
            "resources": {"gpu": 2},
            "events": [{"at_s": 3, "change": {"gpu": 1}}],
            "jobs": [
                {"name": "a", "demand": {"gpu": 2}, "duration_s": 4},
                {"name": "b", "demand": {"gpu": 1}, "duration_s": 2, "arrival_s": 1},
            ],
        }
    )
    plan = [Segment(job="a", start_s=0, end_s=4), Segment(job="b", start_s=3, end_s=5)]
    usage = usage_over_time(instance, SegmentTable.of(plan, {"a": 0, "b": 1}))
    assert usage.at_s.tolist() == [0, 1, 3, 4, 5]
    assert usage.used[:, 0].tolist() == [2, 2, 3, 1, 0]
    assert usage.capacity[:, 0].tolist() == [2, 2, 3, 3, 3]
    assert usage.running.tolist() == [1, 1, 2, 1, 0]
    assert usage.waiting.tolist() == [0, 1, 0, 0, 0]
    assert usage.length_s.tolist() == [1, 2, 1, 1]


def test_small_amounts_are_not_lost_beside_large_ones() -> None:
    """In doubles 10^12 + 10^-6 − 10^12 is 0; where limits are large enough, doubles will do."""
    changes = np.array([1e12, 1e-6, -1e12])
    assert running_totals(changes, 1e-6).tolist() == [1e12, 1e12 + 1e-6, 1e-6]
    assert running_totals(changes, 1e12)[-1] != 1e-6
