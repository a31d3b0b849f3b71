"""Where the ascent begins."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.formulations.scheduling.plan import Segment, SegmentTable
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.common.options import SolveOptions
from clusterplan.solvers.scheduling.dual.evaluation import TimeDual
from clusterplan.solvers.scheduling.dual.start import first_prices, time_grid
from clusterplan.solvers.scheduling.methods import POLICIES


def schedule_of(instance: SchedulingInstance) -> SegmentTable:
    """Return the schedule of the first policy."""
    formulation = SchedulingFormulation(instance)
    plan = POLICIES[0].solve(formulation, SolveOptions(), Clock()).plan
    assert plan is not None
    return formulation.segments(plan)


def test_the_grid_spans_the_schedule_and_has_the_times_of_events() -> None:
    """Large traces have more cells than small ones."""
    sizes = []
    for jobs in (5, 200):
        plain = generate_scheduling(jobs, 8, load=1.2)
        middle = float(plain.table().arrival_s.max() / 2)
        instance = plain.replace(events=[{"at_s": middle, "change": {"gpu": 1.0}}])
        segments = schedule_of(instance)
        edges = time_grid(instance, segments)
        assert (np.diff(edges) > 0).all()
        assert (edges[0], edges[-1]) == (0, segments.completion_s.max())
        assert middle in edges
        sizes.append(len(edges))
    assert sizes[0] < sizes[1]


def test_a_gpu_costs_most_where_most_jobs_wait() -> None:
    """Two jobs one after the other on one GPU: while the first runs, one waits."""
    document = {
        "schema_version": 1,
        "name": "two",
        "resources": {"gpu": 1.0},
        "jobs": [{"name": name, "duration_s": 4.0, "demand": {"gpu": 1}} for name in "ab"],
    }
    instance = SchedulingInstance.model_validate(document)
    plan = [Segment(job="a", start_s=0, end_s=4), Segment(job="b", start_s=4, end_s=8)]
    segments = SchedulingFormulation(instance).segments(plan)
    edges = np.array([0.0, 2.0, 4.0, 6.0, 8.0])
    capacity = TimeDual(instance, edges).capacity
    first = next(first_prices(instance, segments, edges, capacity))
    assert first[:, 0] == pytest.approx([0.25, 0.25, 0, 0])
