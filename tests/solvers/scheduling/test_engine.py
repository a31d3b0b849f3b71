"""The engine, with policies that choose at every event or in rounds; and the compiled loops."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from malleable_instances import (
    GROWS,
    RIGID,
    RULES,
    on_several_resources,
    random_trace,
    rigid_trace,
    rows_of,
    segments_of,
)

from clusterplan.instances.common.arrays import Ints
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.scheduling import engine
from clusterplan.solvers.scheduling.engine import Engine, EvictionError, PolicyError
from clusterplan.solvers.scheduling.kernels import fill
from clusterplan.solvers.scheduling.placement import best_fit
from clusterplan.solvers.scheduling.policies.contract import Policy, in_order
from clusterplan.solvers.scheduling.policies.service_disciplines import (
    FirstCome,
    Shortest,
    ShortestRemaining,
    ShortestService,
)
from clusterplan.solvers.scheduling.policy_solvers import plan_of, rule_of
from clusterplan.solvers.scheduling.search.event_loop import PriorityScheduler
from clusterplan.solvers.scheduling.view import Knowledge, View


def instance(**others: object) -> SchedulingInstance:
    """Return two jobs that each want both GPUs; the second comes at 2 s and is shorter."""
    rows = [
        {"name": "a", "demand": {"gpu": 2}, "duration_s": 9},
        {"name": "b", "arrival_s": 2, "demand": {"gpu": 2}, "duration_s": 3},
    ]
    return SchedulingInstance.model_validate({"name": "t", "resources": {"gpu": 2}, "jobs": rows, **others})


class Chooses(Policy):
    """Starts the same jobs at every event."""

    def __init__(self, *jobs: Any) -> None:
        self._jobs = jobs

    def choose(self, view: View) -> Ints:
        """Return them."""
        del view
        return np.array(self._jobs) if self._jobs else np.zeros(0, dtype=np.int64)


@pytest.mark.parametrize(
    ("jobs", "fault"),
    [
        ((), "nothing will ever happen"),
        ((1,), "row 1, of job 'b', which has not arrived, at 0 s"),
        ((0, 0), "row 0, of job 'a', which is chosen twice, at 0 s"),
        ((0,), "row 0, of job 'a', which goes on as it is, at 2 s"),
        ((True,), "1 dimensions of bool; it must return numbers of rows"),
        (((0,),), "2 dimensions of int64"),
        ((-1,), "a configuration that no job has at 0 s"),
        ((2,), "a configuration that no job has at 0 s"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(jobs: tuple[Any, ...], fault: str) -> None:
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


def test_a_job_that_loses_its_place_goes_on_later() -> None:
    """When the cluster has recovered; what it has done is not lost."""
    events = [{"at_s": 1, "change": {"gpu": -1}}, {"at_s": 6, "change": {"gpu": 1}}]
    assert by_remaining_time(instance(events=events)) == [(0, 0, 1), (0, 9, 17), (1, 6, 9)]


class Says(Policy):
    """At each decision gives the jobs the configurations of a list, by their places in the menus.

    Parameters
    ----------
    rows
        Of each decision the place for each job, −1 for none; the last one is repeated.
    """

    preempts = True
    malleable = True

    def __init__(self, round_s: float, *rows: tuple[int, ...], reacts: bool = False) -> None:
        self.round_s, self._rows, self.reacts = round_s, list(rows), reacts

    def choose(self, view: View) -> Ints:
        """Return what is said of the jobs that may change."""
        said = self._rows.pop(0) if len(self._rows) > 1 else self._rows[0]
        rows = [said[j] + view.first[j] if said[j] >= 0 else -1 for j in view.jobs.tolist()]
        return in_order(np.array(rows))


def malleable(*jobs: dict[str, Any], **others: Any) -> SchedulingInstance:
    """Return a malleable and a rigid job on four GPUs, or others."""
    return instance(**{"resources": {"gpu": 4}, "jobs": list(jobs) or [GROWS, RIGID], **others})


def segments(there: SchedulingInstance, policy: Policy) -> list[tuple[Any, ...]]:
    """Return the segments of a policy's plan, which must be feasible."""
    return segments_of(there, plan_of(there, Engine(there, policy).run()), "configuration")


def test_a_policy_is_asked_at_the_end_of_each_round() -> None:
    """And a job that arrives waits for it."""
    found = segments(malleable(), Says(2, (2, -1), (1, 0)))
    assert found == [("a", 0, 2, "4"), ("a", 2, 2 + 4 / 3, "2"), ("b", 2, 4, "")]


def test_a_policy_may_react_to_arrivals_and_ends() -> None:
    """At one second and at three."""
    found = segments(malleable(), Says(100, (2, -1), (1, 0), (2, 0), reacts=True))
    assert found == [("a", 0, 1, "4"), ("a", 1, 3, "2"), ("b", 1, 3, ""), ("a", 3, 3.5, "4")]


def test_a_change_of_configuration_costs_a_restart() -> None:
    """Of four units that are left after the first change, none is done in the first second."""
    there = malleable(preemption="costs", restart_s=1)
    found = segments(there, Says(2, (2, -1), (1, 0), (1, 0)))
    assert found == [("a", 0, 2, "4"), ("a", 2, 2 + 1 + 4 / 3, "2"), ("b", 2, 4, "")]


def test_what_a_job_has_it_keeps_for_its_lease() -> None:
    """The policy is not asked about it."""
    found = segments(malleable(lease_s=3), Says(1, (1, -1), (2, 0)))
    assert found == [("a", 0, 3, "2"), ("b", 1, 3, ""), ("a", 3, 3.75, "4")]


def test_without_preemption_to_its_end() -> None:
    """Whatever the policy would rather do."""
    found = segments(malleable(preemption="none"), Says(1, (0, -1), (2, 0)))
    assert found == [("a", 0, 6, "1"), ("b", 1, 3, "")]


def test_a_job_that_must_not_be_interrupted_is_not_evicted() -> None:
    """The plan fails at the moment of the change."""
    events = [{"at_s": 1, "change": {"gpu": -2}}, {"at_s": 2, "change": {"gpu": 2}}]
    there = malleable(GROWS, preemption="none", events=events)
    with pytest.raises(EvictionError, match="lose their place at 1 s"):
        Engine(there, Says(10, (2,))).run()
    # Within a lease it loses its place, and the policy is asked anew.
    leased = malleable(GROWS, lease_s=5, events=events)
    assert segments(leased, Says(10, (2,), (1,)))[0] == ("a", 0, 1, "4")


def test_configurations_that_do_not_fit_are_refused() -> None:
    """With the moment."""
    with pytest.raises(PolicyError, match="chose jobs that do not fit at 1 s"):
        Engine(malleable(), Says(1, (2, 0))).run()


def test_a_policy_knows_what_is_shown_here() -> None:
    """Remaining times are those of configurations."""

    class Clairvoyant(Says):
        knows = Knowledge.REMAINING

    with pytest.raises(PolicyError, match="of configurations no policy knows the true remaining time"):
        Engine(malleable(), Clairvoyant(1, (0, 0)))


class TakesTurns(Policy):
    """Lets jobs take turns, a round each; it asks for the end of each or, without rounds, for each second."""

    preempts = True

    def __init__(self, turn_s: float, in_rounds: bool) -> None:
        self._turn_s, self.round_s = turn_s, turn_s if in_rounds else 0.0

    def choose(self, view: View) -> Ints:
        """Return the job whose turn it is."""
        turn = int(view.now_s / self._turn_s) % len(view.jobs)
        return view.requested[view.jobs[turn : turn + 1]]

    def again_s(self) -> float:
        """Return the end of the turn."""
        return super().again_s() if self.round_s else self.view.now_s + 1


@pytest.mark.parametrize("in_rounds", [False, True])
def test_a_policy_that_lets_no_job_work_is_stopped(in_rounds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a restart takes longer than its turns; where they bring some work, it ends."""
    monkeypatch.setattr(engine, "MAX_STOPS", 1000)
    jobs = [{"name": name, "demand": {"gpu": 4}, "duration_s": 5} for name in "ab"]
    there = malleable(*jobs, preemption="costs", restart_s=2)
    with pytest.raises(PolicyError, match="stops jobs before they do any work"):
        Engine(there, TakesTurns(1, in_rounds)).run()
    assert len(segments(there, TakesTurns(3, in_rounds))) > 2
    assert Engine(there.replace(restart_s=0.99), TakesTurns(1, in_rounds)).run().end_s.max() > 100


class AsksForEver(FirstCome):
    """Wants to be asked again at the same moment."""

    def again_s(self) -> float:
        """Return the time that it is."""
        return self.view.now_s


def test_a_policy_that_asks_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even without a time limit."""
    monkeypatch.setattr(engine, "MAX_STOPS", 1000)
    with pytest.raises(PolicyError, match="without end"):
        Engine(instance(), AsksForEver()).run()


@pytest.mark.parametrize("blocks", [False, True])
def test_those_with_the_least_keys_run(blocks: bool) -> None:
    """Beside those that are held, by a list of all that is sorted in Python; some block those after them."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        demand = rng.integers(1, 5, (12, 2)).astype(float)
        keys = rng.integers(0, 6, 12).astype(float)
        running, queue = np.arange(4), np.array(sorted(range(4, 12), key=lambda j: (keys[j], j)))
        held = rng.random(4) < 0.4
        free = np.array([12.0, 16.0]) - demand[running[held]].sum(axis=0)
        chosen = fill(queue, keys, running, held, keys[:4], demand, free, 1e-9 * free, blocks)
        expected: list[int] = []
        for j in sorted(set(range(12)) - set(running[held].tolist()), key=lambda j: (keys[j], j)):
            if (demand[[*expected, j]].sum(axis=0) <= free).all():
                expected.append(j)
            elif blocks:
                break
        assert chosen.tolist() == expected


def fitted(free: list[list[float]], demand: list[float], tasks: int, most: int) -> dict[int, int]:
    """Return what best fit puts where."""
    room = np.array(free)
    place = best_fit(room, 5e-10 * room, room, np.array(demand), tasks, most)
    return {} if place is None else dict(zip(*(column.tolist() for column in place), strict=True))


def test_several_resources_are_all_kept() -> None:
    """The scarcest says how many tasks fit."""
    assert fitted([[8, 3], [9, 9]], [1, 1], 12, 2) == {0: 3, 1: 9}
    assert fitted([[8, 3]], [2, 0], 4, 1) == {0: 4}
    assert fitted([[8, 3]], [2, 0], 5, 1) == {}
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


def test_it_goes_on_from_a_moment_that_was_kept() -> None:
    """As often as one likes, with leases and restarts."""
    rules = {"preemption": "costs", "restart_s": 30, "lease_s": 120}
    there = generate_scheduling(200, 32, load=1.5, seed=4).replace(**rules)
    server, rule = PriorityScheduler(there), rule_of(there, ShortestRemaining())
    state = server.start
    expected = server.run(rule).end_s
    for until_s in np.linspace(0, expected.max(), 9):
        state = server.run(rule, state, float(until_s))
        assert state.now_s[0] < max(until_s, 1e-300)
        assert (server.run(rule, state).end_s == expected).all()
    assert not server.start.counts.any()


@pytest.mark.parametrize("rules", RULES, ids=["free", "none", "costs", "lease", "events"])
@pytest.mark.parametrize("policy", [FirstCome, Shortest, ShortestRemaining, ShortestService])
def test_a_rule_gives_the_segments_of_the_policy(policy: Any, rules: dict[str, Any]) -> None:
    """To the last bit, on one resource and on several, and where many keys are equal."""
    traces = [generate_scheduling(300, 32, load=1.5, seed=4).replace(**rules)]
    if "events" not in rules:
        equal = [random_trace(seed, 40, whole=True) for seed in range(5)]
        traces += [t.replace(**{"preemption": "free", **rules}) for t in (on_several_resources(), *equal)]
    for there in traces:
        server, rule = PriorityScheduler(there), rule_of(there, policy())
        schedule = server.schedule(rule)
        assert rows_of(schedule) == rows_of(Engine(there, policy()).run())
        ends = np.full(len(server.order), -np.inf)
        np.maximum.at(ends, schedule.job, schedule.end_s)
        assert (server.run(rule).end_s == ends[server.order]).all()


def test_jobs_that_wait_for_ever_and_those_that_lose_their_place_are_said() -> None:
    """With the moment."""
    shrinks: dict[str, Any] = {"events": [{"at_s": 5, "change": {"gpu": -1}}]}
    there = rigid_trace((0, 2, 9), (0, 2, 9), **shrinks)
    rule = rule_of(there, Shortest())
    with pytest.raises(PolicyError, match="2 jobs wait, and nothing will ever happen"):
        PriorityScheduler(there).schedule(rule._replace(preempts=True))
    with pytest.raises(EvictionError, match="lose their place at 5 s"):
        PriorityScheduler(there.replace(preemption="none")).run(rule)
