"""The engine of policies by keys, and its compiled loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from malleable_instances import rows_of

from clusterplan.instances.common.arrays import Flags, Ints
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.scheduling.engine import Engine, PolicyError
from clusterplan.solvers.scheduling.kernels import (
    add_to,
    backfill,
    best_fit,
    changes,
    earliest,
    fill,
    insert,
    most_tasks,
    remove,
    total,
)
from clusterplan.solvers.scheduling.policies.service_disciplines import FirstCome, ShortestRemaining


def instance(**others: object) -> SchedulingInstance:
    """Return two jobs that each want both GPUs; the second comes at 2 s and is shorter."""
    rows = [
        {"name": "a", "demand": {"gpu": 2}, "duration_s": 9},
        {"name": "b", "arrival_s": 2, "demand": {"gpu": 2}, "duration_s": 3},
    ]
    return SchedulingInstance.model_validate({"name": "t", "resources": {"gpu": 2}, "jobs": rows, **others})


class Chooses(FirstCome):
    """Starts the same jobs at every event."""

    def __init__(self, *jobs: int) -> None:
        self._jobs = jobs

    def choose(self, held: Flags) -> Ints:
        """Return them."""
        del held
        return np.array(self._jobs, dtype=np.int64)


@pytest.mark.parametrize(
    ("jobs", "fault"),
    [
        ((), "nothing will ever happen"),
        ((1,), "has not arrived at 0 s"),
        ((0, 0), "a job twice at 0 s"),
        ((-1,), "not arrived"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(jobs: tuple[int, ...], fault: str) -> None:
    """With the moment."""
    with pytest.raises(PolicyError, match=fault):
        Engine(instance(), Chooses(*jobs)).run()


def by_remaining_time(there: SchedulingInstance) -> list[tuple[int, float, float]]:
    """Return the segments of shortest remaining time first."""
    return rows_of(Engine(there, ShortestRemaining()).run())


def test_a_restart_takes_its_time() -> None:
    """The first job makes no progress for a second after it comes back."""
    there = instance(preemption="costs", restart_s=1)
    assert by_remaining_time(there) == [(0, 0, 2), (0, 5, 13), (1, 2, 5)]


def test_a_lease_holds_a_job() -> None:
    """To its end, at which the policy decides anew."""
    assert by_remaining_time(instance(lease_s=4)) == [(0, 0, 4), (0, 7, 12), (1, 4, 7)]


def test_without_preemption_a_job_runs_to_its_end() -> None:
    """Whatever the policy would rather do."""
    assert by_remaining_time(instance(preemption="none")) == [(0, 0, 9), (1, 9, 12)]


def test_a_job_that_loses_its_place_goes_on_later() -> None:
    """When the cluster has recovered; what it has done is not lost."""
    events = [{"at_s": 1, "change": {"gpu": -1}}, {"at_s": 6, "change": {"gpu": 1}}]
    assert by_remaining_time(instance(events=events)) == [(0, 0, 1), (0, 9, 17), (1, 6, 9)]


def test_a_list_stays_sorted_by_key_then_job() -> None:
    """Whatever is inserted and removed."""
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 5, 40).astype(float)
    waiting, held = np.zeros(40, dtype=np.int64), set[int]()
    for j in rng.integers(0, 40, 300).tolist():
        if j in held:
            remove(waiting, len(held), keys, j)
            held.remove(j)
        else:
            insert(waiting, len(held), keys, j)
            held.add(j)
        assert waiting[: len(held)].tolist() == sorted(held, key=lambda j: (keys[j], j))


def test_those_with_the_least_keys_run_and_nobody_blocks() -> None:
    """Beside those that are held, by a list of all that is sorted in Python."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        demand = rng.integers(1, 5, (12, 2)).astype(float)
        keys = rng.integers(0, 6, 12).astype(float)
        running, waiting = np.arange(4), np.array(sorted(range(4, 12), key=lambda j: (keys[j], j)))
        held = rng.random(4) < 0.4
        capacity = np.array([12.0, 16.0])
        chosen = fill(waiting, 8, keys, running, held, keys[:4], demand, capacity)
        expected = running[held].tolist()
        for j in sorted(set(range(12)) - set(expected), key=lambda j: (keys[j], j)):
            if (demand[[*expected, j]].sum(axis=0) <= capacity).all():
                expected.append(j)
        assert chosen.tolist() == expected


def test_what_stops_and_what_starts() -> None:
    """And the marks are as they were."""
    mark = np.zeros(6, dtype=bool)
    stop, start = changes(np.array([1, 2, 3]), np.array([3, 5, 1]), mark)
    assert stop.tolist() == [2]
    assert start.tolist() == [5]
    assert not mark.any()


def test_the_first_end_and_totals() -> None:
    """Of some jobs only."""
    times = np.array([5.0, 2.0, 7.0])
    assert earliest(np.array([0, 2]), times) == 5
    assert earliest(np.array([], dtype=np.int64), times) == np.inf
    add_to(np.array([0, 2]), 1.5, times)
    assert times.tolist() == [6.5, 2, 8.5]
    assert total(np.array([0, 2]), np.array([[1.0, 2], [9, 9], [3, 4]])).tolist() == [4, 6]


def test_backfilling_keeps_the_promise_to_the_head() -> None:
    """Job 1 is promised 10 s; job 2 ends by then, job 3 leaves it what it needs, job 4 does neither."""
    estimate = np.array([10.0, 5.0, 8.0, 99.0, 99.0])
    for last, expected in ((1.0, [2, 3, 4]), (2.0, [2, 3])):
        chosen = backfill(
            np.array([1, 2, 3, 4]),
            np.array([[3.0], [4.0], [1.0], [1.0], [last]]),
            np.array([3.0]),
            np.array([6.0]),
            np.array([0]),
            np.array([10.0, 0, 0, 0, 0]),
            1.0,
            estimate,
        )
        assert chosen.tolist() == expected


def fitted(free: list[list[float]], demand: list[float], tasks: int, most: int) -> dict[int, int]:
    """Return what best fit puts where."""
    room = np.array(free)
    servers, counts = best_fit(room, 5e-10 * room, room, np.array(demand), tasks, most)
    return dict(zip(servers.tolist(), counts.tolist(), strict=True))


def test_the_server_that_is_filled_best_is_taken() -> None:
    """Of those that hold all tasks; else the one that holds most."""
    assert fitted([[8], [4], [5]], [2], 2, 2) == {1: 2}
    assert fitted([[8], [4], [5]], [2], 5, 9) == {0: 4, 1: 1}
    assert fitted([[1], [1]], [2], 1, 9) == {}
    assert fitted([[4], [4]], [4], 2, 1) == {}


def test_several_resources_are_all_kept() -> None:
    """The scarcest says how many tasks fit."""
    free, none = np.array([8.0, 3.0]), np.zeros(2)
    assert most_tasks(free, none, np.array([1.0, 1.0]), 9) == 3
    assert most_tasks(free, none, np.array([2.0, 0.0]), 9) == 4
    assert fitted([[8, 1], [2, 2]], [1, 1], 2, 2) == {1: 2}


@pytest.mark.parametrize("seed", range(30))
def test_no_other_way_needs_fewer_servers(seed: int) -> None:
    """On three servers with two resources."""
    rng = np.random.default_rng(seed)
    free, demand = rng.integers(0, 7, (3, 2)).astype(float), rng.integers(1, 4, 2).astype(float)
    tasks = int(rng.integers(1, 5))
    ways = [
        way
        for way in itertools.product(range(tasks + 1), repeat=3)
        if sum(way) == tasks and (np.outer(way, demand) <= free).all()
    ]
    fewest = min((sum(map(bool, way)) for way in ways), default=None)
    found = fitted(free.tolist(), demand.tolist(), tasks, 3)
    assert (len(found) or None) == fewest
    assert sum(found.values()) == (tasks if ways else 0)
    assert fewest is None or not fitted(free.tolist(), demand.tolist(), tasks, fewest - 1)
