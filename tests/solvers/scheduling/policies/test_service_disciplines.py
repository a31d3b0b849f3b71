"""Time slicing, and attained service."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from malleable_instances import rigid_trace, rows_of, segments_of

from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.solvers.scheduling.engine import Engine
from clusterplan.solvers.scheduling.policies.service_disciplines import (
    Gittins,
    RoundRobin,
    TimeSlice,
    gittins_index,
    limit_reached,
    turn_s,
)
from clusterplan.solvers.scheduling.policy_solvers import plan_of


def segments(*jobs: tuple[float, int, float], gpus: int) -> list[tuple[Any, ...]]:
    """Return what runs when, in quanta of ten seconds, of jobs of (arrival, GPUs, duration)."""
    there = rigid_trace(*jobs, gpus=gpus)
    return segments_of(there, plan_of(there, Engine(there, TimeSlice(10.0)).run()))


def test_where_all_fit_all_run() -> None:
    """Nobody is stopped."""
    assert segments((0, 1, 35), (3, 1, 9), gpus=2) == [("a", 0, 35), ("b", 3, 12)]


def test_jobs_of_one_width_take_turns() -> None:
    """The job that comes within a quantum waits for its end."""
    found = segments((0, 1, 20), (5, 1, 20), gpus=1)
    assert found == [("a", 0, 10), ("b", 10, 20), ("a", 20, 30), ("b", 30, 40)]


def test_each_width_has_the_share_that_it_asks_for() -> None:
    """Two jobs of two GPUs ask for twice what two of one GPU do, on three GPUs: one of each at a time."""
    found = segments((0, 2, 20), (0, 2, 20), (0, 1, 20), (0, 1, 20), gpus=3)
    at_first = sorted(j for j, b, _ in found if b == 0)
    assert [sum(j in pair for j in at_first) for pair in ("ab", "cd")] == [1, 1]
    assert max(e for _, _, e in found) == 40


def test_turns_are_longer_in_long_traces() -> None:
    """Whole minutes."""
    assert turn_s(0.0) == turn_s(480_000.0) == 60
    assert turn_s(9_408_690.0) == 1200


@pytest.mark.parametrize(
    "events", [[], [{"at_s": 5e4, "change": {"gpu": -12}}, {"at_s": 9e4, "change": {"gpu": 12}}]]
)
def test_who_is_full_need_not_sort_those_who_wait(events: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a turn the schedule is the same as if everybody's place were looked at again."""
    there = generate_scheduling(120, 16, load=2.0, seed=6).replace(events=events)
    found = Engine(there, TimeSlice(600.0)).run()
    asked = []
    monkeypatch.setattr(TimeSlice, "_no_waiting_job_fits", lambda *_: bool(asked.append(1)))
    expected = Engine(there, TimeSlice(600.0)).run()
    assert len(asked) > 20
    assert plan_of(there, found) == plan_of(there, expected)


def test_a_job_that_comes_within_a_round_waits_for_its_end() -> None:
    """The second comes at 2 s, and runs from 10 s on."""
    found = Engine(rigid_trace((0, 1, 15), (2, 1, 3), gpus=1), RoundRobin(10.0)).run()
    assert rows_of(found) == [(0, 0, 10), (0, 13, 18), (1, 10, 13)]


def test_a_limit_is_reached_up_to_rounding() -> None:
    """An infinite one never is; long after time 0 a moment is less exact."""
    limits = np.array([10.0, 10.0, np.inf])
    service, width = np.array([10 - 1e-9, 9.9, 1e9]), np.ones(3)
    assert limit_reached(service, limits, width, 0.0).tolist() == [True, False, False]
    assert limit_reached(np.array([10 - 1e-6]), limits[:1], width[:1], 0.0).tolist() == [False]
    assert limit_reached(np.array([10 - 1e-6]), limits[:1], width[:1], 1.5e9).tolist() == [True]


def test_the_index_is_the_best_chance_for_the_time_spent() -> None:
    """Sup over Δ of P(S − a ≤ Δ | S > a) / E[min(S − a, Δ) | S > a], tried at every sample."""
    services = np.sort(np.random.default_rng(3).exponential(5, 60))
    for attained in (0.0, 1.0, 4.5, float(services[-2])):
        beyond = services[services > attained] - attained
        tried = [(beyond <= d).mean() / np.minimum(beyond, d).mean() for d in beyond]
        assert gittins_index(services, attained) == pytest.approx(max(tried))
        enough = [chance for chance, d in zip(tried, beyond, strict=True) if d >= 3.0]
        assert gittins_index(services, attained, 3.0) == pytest.approx(max([*enough, tried[-1]]))


class Eager(Gittins):
    """Is asked at every level that a job reaches, although nobody waits."""

    def again_s(self) -> float:
        """Return when the next job reaches a level."""
        waits, self.view.waits = self.view.waits, 1
        until_s = super().again_s()
        self.view.waits = waits
        return until_s


@pytest.mark.parametrize("load", [0.5, 0.9, 1.5])
def test_levels_are_of_no_concern_while_nobody_waits(load: float) -> None:
    """Jobs rise by several levels at once then, and the schedule is the same."""
    instance = generate_scheduling(150, 32, load=load, seed=4)
    found, expected = (Engine(instance, policy).run() for policy in (Gittins(), Eager()))
    assert found.job.tolist() == expected.job.tolist()
    assert found.end_s == pytest.approx(expected.end_s, rel=1e-12)
