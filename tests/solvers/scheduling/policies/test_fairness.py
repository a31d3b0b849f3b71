"""Fair shares by hand: water, and linear programs.

Finish-time fairness by hand.

Queues of tenants: a job that does not fit blocks its own queue alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from malleable_instances import rigid_trace, segments_of

from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.scheduling.engine import Engine
from clusterplan.solvers.scheduling.policies.fairness import (
    MaxMin,
    TenantQueues,
    Themis,
    max_min_shares,
    water_filling,
)
from clusterplan.solvers.scheduling.policy_solvers import plan_of


@pytest.mark.parametrize(
    ("most", "weight", "room", "found"),
    [
        ([1, 1], [1, 1], 3, [1, 1]),
        ([1, 4, 8], [1, 1, 1], 9, [1, 4, 4]),
        ([1, 4, 8], [1, 1, 1], 6, [1, 2.5, 2.5]),
        ([4, 4], [1, 3], 4, [1, 3]),
        ([4, 1], [1, 3], 4, [3, 1]),
        ([2, 2], [1, 1], 0, [0, 0]),
    ],
)
def test_water(most: list[float], weight: list[float], room: float, found: list[float]) -> None:
    """A job that cannot have as much as the others leaves the rest to them."""
    assert water_filling(np.array(most), np.array(weight), room).tolist() == pytest.approx(found)


@pytest.mark.parametrize("seed", range(10))
def test_the_program_finds_the_level_of_the_water(seed: int) -> None:
    """On one resource the least throughput is that of water-filling, and nothing is wasted."""
    rng = np.random.default_rng(seed)
    wide, room = rng.integers(1, 9, 5).astype(float), 12.0
    throughput = max_min_shares(wide, wide[:, None], np.arange(5), np.array([room])) * wide
    by_hand = water_filling(wide, np.ones(5), room)
    assert throughput.min() == pytest.approx(by_hand.min(), rel=1e-6)
    assert throughput.sum() == pytest.approx(by_hand.sum(), rel=1e-6)


def test_two_resources_by_hand() -> None:
    """The first job can run on either GPU and is twice as fast on the new one, the second six times.

    With X of its time on the new GPU, the first does 2 X + (1 − X), and the second 6 (1 − X) + X, of what
    each does on an old one. Both are equal where 1 + X = 6 − 5 X, at 5/6.
    """
    old_or_new = np.tile(np.eye(2), (2, 1))
    shares = max_min_shares(
        np.array([1.0, 2.0, 1.0, 6.0]), old_or_new, np.array([0, 0, 1, 1]), np.array([1.0, 1.0])
    )
    assert shares.tolist() == pytest.approx([1 / 6, 5 / 6, 5 / 6, 1 / 6], rel=1e-5)


def segments(*jobs: dict[str, Any], gpus: int = 2) -> list[tuple[Any, ...]]:
    """Return what runs when, in rounds of ten seconds."""
    rows = [{"name": "abcdefg"[k], "demand": {"gpu": 1}, **job} for k, job in enumerate(jobs)]
    document = {"name": "t", "resources": {"gpu": gpus}, "jobs": rows}
    there = SchedulingInstance.model_validate(document)
    return segments_of(there, plan_of(there, Engine(there, MaxMin(10.0)).run()))


@pytest.mark.parametrize(
    "menu", [{"duration_s": 100}, {"work": 100, "speeds": {1: 1.0, 2: 2.0}, "requested": 1}]
)
def test_jobs_without_weight_take_nothing_from_the_others(menu: dict[str, Any]) -> None:
    """After a first round for each, these have the shares of their weights, a quarter and three."""
    weights = [1, 3, *[0] * 5]
    found = segments(*({**menu, "weight": weight} for weight in weights), gpus=1)
    last = {job: end_s for job, _, end_s in found}
    assert last["b"] == pytest.approx(70 + 120, abs=20)
    assert last["a"] == pytest.approx(250, abs=20)
    assert min(last[job] for job in "cdefg") > last["a"]


def test_rounds_follow_the_shares() -> None:
    """Two jobs share one GPU: each has every second round."""
    found = segments({"duration_s": 20}, {"duration_s": 20}, gpus=1)
    assert found == [("a", 0, 10), ("b", 10, 20), ("a", 20, 30), ("b", 30, 40)]


def test_a_wide_job_has_less_of_the_time() -> None:
    """Each has 2/3 of a GPU on average: the wide job a third of the rounds, the others two thirds."""
    found = segments({"tasks": 2, "duration_s": 20}, {"duration_s": 20}, {"duration_s": 20})
    narrow = [(job, *times) for times in ((0, 10), (20, 30)) for job in "bc"]
    assert sorted(found) == sorted([("a", 10, 20), ("a", 30, 40), *narrow])


def themis_segments(there: SchedulingInstance, **settings: Any) -> list[tuple[Any, ...]]:
    """Return what runs when, with leases of ten seconds."""
    return segments_of(there, plan_of(there, Engine(there, Themis(10.0, **settings)).run()))


def test_the_ratio_is_shared_over_isolated_time() -> None:
    """At 10 s a has run and needs 20 more of 30, b waits since 5 s and needs 40; each alone has one GPU."""
    seen: list[list[float]] = []

    class Watching(Themis):
        def choose(self, view):  # type: ignore[no-untyped-def]
            if view.now_s == 10:
                seen.append(self.ratios(view.jobs).tolist())
            return super().choose(view)

    Engine(rigid_trace((0, 2, 30), (5, 2, 40)), Watching(10.0)).run()
    # Two jobs that each ask for all would take twice as long on half of the cluster.
    assert seen == [pytest.approx([(10 + 20) / 60, (5 + 40) / 80])]


def test_the_worst_comes_first_when_leases_end() -> None:
    """The short job that waited for half its length is worse off than the long one."""
    assert themis_segments(rigid_trace((0, 2, 30), (1, 2, 10))) == [
        ("a", 0, 10),
        ("b", 10, 20),
        ("a", 20, 40),
    ]


def test_within_a_lease_nobody_is_stopped() -> None:
    """What is free meanwhile goes to whoever fits."""
    found = themis_segments(rigid_trace((0, 1, 25), (1, 2, 5), (2, 1, 4)))
    assert found[0][:2] == ("a", 0)
    assert ("c", 2, 6) in found


def test_only_its_own_queue_is_blocked() -> None:
    """The second job of x would fit beside the first ones, and waits behind a wide one; y does not."""
    rows = [
        {"name": "x0", "tenant": "x", "tasks": 2, "demand": {"gpu": 1}, "duration_s": 9},
        {"name": "x1", "tenant": "x", "tasks": 4, "demand": {"gpu": 1}, "duration_s": 9},
        {"name": "x2", "tenant": "x", "demand": {"gpu": 1}, "duration_s": 9},
        {"name": "y0", "tenant": "y", "demand": {"gpu": 1}, "duration_s": 9},
        {"name": "free", "demand": {"gpu": 1}, "duration_s": 9},
    ]
    document = {"name": "t", "resources": {"gpu": 4}, "jobs": rows}
    found = Engine(SchedulingInstance.model_validate(document), TenantQueues(guaranteed=True)).run()
    starts = dict(zip(found.job.tolist(), found.start_s.tolist(), strict=True))
    assert starts == {0: 0, 1: 9, 2: 18, 3: 0, 4: 0}
