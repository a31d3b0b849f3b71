"""Why jobs waited: told apart on schedules that are small enough to see it."""

from __future__ import annotations

import pytest

from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.formulations.scheduling.plan import Segment
from clusterplan.formulations.scheduling.usage import usage_over_time
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.planner.scheduling.waits import Wait, Waits


def waits_of(jobs: dict[str, tuple[float, int, float]], runs: list[tuple[str, float, float]]) -> Waits:
    """Return the waits of jobs (arrival, GPUs, duration) on four GPUs that run at these times."""
    rows = [
        {"name": name, "arrival_s": at, "tasks": gpus, "demand": {"gpu": 1}, "duration_s": length}
        for name, (at, gpus, length) in jobs.items()
    ]
    document = {"kind": "scheduling", "name": "t", "resources": {"gpu": 4}, "jobs": rows}
    instance = SchedulingInstance.model_validate(document)
    plan = [Segment(job=name, start_s=start, end_s=end) for name, start, end in runs]
    formulation = SchedulingFormulation(instance)
    assert not formulation.violations(plan)
    segments = formulation.segments(plan)
    return Waits(instance, segments, usage_over_time(instance, segments), 0)


def test_a_queue_that_was_there_is_the_reason() -> None:
    """Two jobs of an hour on all GPUs are before the third; one of them has run for half an hour."""
    jobs = {"a": (0.0, 4, 3600.0), "b": (0.0, 4, 3600.0), "c": (1800.0, 1, 60.0)}
    runs = [("a", 0.0, 3600.0), ("b", 3600.0, 7200.0), ("c", 7200.0, 7260.0)]
    wait = waits_of(jobs, runs).of(2)
    assert (wait.earlier, wait.earlier_hours, wait.later) == (2, pytest.approx(6.0), 0)
    assert wait.in_use == pytest.approx(4.0)
    assert wait.reason("gpu") == "wanted 1 of 4 gpu; came behind 2 jobs with 6 gpu-hours left"


def test_later_jobs_that_overtake_are_the_reason() -> None:
    """A wide job is stopped for two that come later, of which one has less work."""
    jobs = {"wide": (0.0, 4, 100.0), "short": (10.0, 4, 20.0), "long": (20.0, 4, 300.0)}
    runs = [("wide", 0.0, 10.0), ("short", 10.0, 30.0), ("long", 30.0, 330.0), ("wide", 330.0, 420.0)]
    wait = waits_of(jobs, runs).of(0)
    assert (wait.later, wait.later_less, wait.later_share) == (2, 1, 1.0)
    assert "2 later jobs took 100 % of the gpu in use meanwhile, 1 of them with less work" in wait.reason(
        "gpu"
    )


def test_what_was_idle_is_said() -> None:
    """Where nothing else ran, too."""
    jobs = {"a": (0.0, 2, 100.0), "b": (0.0, 1, 50.0)}
    wait = waits_of(jobs, [("a", 0.0, 100.0), ("b", 100.0, 150.0)]).of(1)
    assert wait.reason("gpu").endswith("2 gpu were idle on average")
    lazy = waits_of({"a": (0.0, 2, 100.0)}, [("a", 50.0, 150.0)]).of(0)
    assert lazy.in_use == 0.0
    assert lazy.reason("gpu") == "wanted 2 of 4 gpu; 4 gpu were idle on average"
    assert Wait(1.0, 100.0, 99.5, 0, 0, 0.0, 0, 0.0).reason("gpu") == "others used 99.50 of 100 gpu"
