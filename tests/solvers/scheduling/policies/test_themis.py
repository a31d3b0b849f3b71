"""Finish-time fairness by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.scheduling.methods import plan_of
from clusterplan.solvers.scheduling.policies.themis import Themis
from clusterplan.solvers.scheduling.rounds import RoundEngine


def instance(*jobs: tuple[float, int, float], gpus: int = 2) -> SchedulingInstance:
    """Return jobs of (arrival, GPUs, duration)."""
    rows = [
        {"name": "abcd"[k], "arrival_s": r, "tasks": g, "demand": {"gpu": 1}, "duration_s": p}
        for k, (r, g, p) in enumerate(jobs)
    ]
    return SchedulingInstance.model_validate({"name": "t", "resources": {"gpu": gpus}, "jobs": rows})


def segments(there: SchedulingInstance, **settings: Any) -> list[tuple[Any, ...]]:
    """Return what runs when, with leases of ten seconds."""
    formulation = SchedulingFormulation(there)
    plan = plan_of(there, RoundEngine(there, Themis(10.0, **settings)).run())
    assert formulation.violations(plan) == []
    return [(s.job, s.start_s, s.end_s) for s in formulation.finish(plan)]


def test_the_ratio_is_shared_over_isolated_time() -> None:
    """At 10 s a has run and needs 20 more of 30, b waits since 5 s and needs 40; each alone has one GPU."""
    seen: list[list[float]] = []

    class Watching(Themis):
        def choose(self, jobs, free):  # type: ignore[no-untyped-def]
            if self.seen.now_s == 10:
                seen.append(self.ratios(jobs).tolist())
            return super().choose(jobs, free)

    RoundEngine(instance((0, 2, 30), (5, 2, 40)), Watching(10.0)).run()
    # Two jobs that each ask for all would take twice as long on half of the cluster.
    assert seen == [pytest.approx([(10 + 20) / 60, (5 + 40) / 80])]


def test_the_worst_comes_first_when_leases_end() -> None:
    """The short job that waited for half its length is worse off than the long one."""
    assert segments(instance((0, 2, 30), (1, 2, 10))) == [("a", 0, 10), ("b", 10, 20), ("a", 20, 40)]


def test_within_a_lease_nobody_is_stopped() -> None:
    """What is free meanwhile goes to whoever fits."""
    found = segments(instance((0, 1, 25), (1, 2, 5), (2, 1, 4)))
    assert found[0][:2] == ("a", 0)
    assert ("c", 2, 6) in found


def test_only_the_worst_are_offered_what_is_free() -> None:
    """Of five jobs one at f = 0.8, and all at 0."""
    ratio = np.array([1.0, 5.0, 3.0, 5.0, 2.0])
    assert Themis(10.0).worst(np.arange(5), ratio).tolist() == [-1, 0, -1, -1, -1]
    assert Themis(10.0, 0.0).worst(np.arange(5), ratio).tolist() == [4, 0, 2, 1, 3]
