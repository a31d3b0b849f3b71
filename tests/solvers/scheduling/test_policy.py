"""Contracts of policies: by keys, and by rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clusterplan.instances.common.arrays import Floats, Ints
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.registry import solvers_for
from clusterplan.solvers.scheduling.policies.dl2_policy import DL2
from clusterplan.solvers.scheduling.policies.fairness import MaxMin, Themis
from clusterplan.solvers.scheduling.policies.optimus import Optimus, OptimusExact
from clusterplan.solvers.scheduling.policies.service_disciplines import TimeSlice
from clusterplan.solvers.scheduling.policy import (
    ByKey,
    ConfigurationView,
    ConfigurationViewWriter,
    RoundPolicy,
    admit,
    rounds_over,
)
from clusterplan.solvers.scheduling.policy_solvers import PolicySolver
from clusterplan.solvers.scheduling.round_engine import RoundEngine
from clusterplan.solvers.scheduling.seen import ForbiddenKnowledgeError, Knowledge, Seen


class LastFirst(ByKey):
    """Serves the job that came last."""

    preempts = True

    def keys_of(self, jobs: Ints) -> Floats:
        """Return minus the number."""
        return -jobs.astype(float)


def test_jobs_are_chosen_by_key_and_queued_again_when_they_stop() -> None:
    """On two GPUs, each job wants one."""
    seen = Seen(4, 1, Knowledge.NOTHING)
    seen.capacity, seen.demand[:] = np.array([2.0]), 1.0
    policy = LastFirst()
    policy.begin(seen)
    policy.arrived([0, 1, 2])
    assert policy.choose(np.zeros(0, dtype=bool)).tolist() == [2, 1]
    policy.switched([], [2, 1])
    seen.running = np.array([2, 1])
    policy.arrived([3])
    assert policy.waits() == 2
    assert policy.choose(np.array([False, False])).tolist() == [3, 2]
    assert policy.choose(np.array([False, True])).tolist() == [1, 3]
    policy.switched([1], [3])
    assert policy.waits() == 2
    assert policy.again_s() == np.inf


def one_by_one(usage: Floats, free: Floats) -> list[bool]:
    """Return who is served, the plain way."""
    left, found = free.copy(), []
    for amounts in usage:
        fits = bool((amounts <= left).all())
        left -= amounts if fits else 0
        found.append(fits)
    return found


@pytest.mark.parametrize("seed", range(30))
def test_a_usage_that_does_not_fit_blocks_no_other(seed: int) -> None:
    """As if they were served one by one."""
    rng = np.random.default_rng(seed)
    usage = rng.integers(0, 6, (int(rng.integers(0, 15)), 2)).astype(float)
    free = rng.integers(0, 20, 2).astype(float)
    assert admit(usage, free, np.array([20.0, 20.0])).tolist() == one_by_one(usage, free)


class Idle(RoundPolicy):
    """Does nothing."""

    def choose(self, jobs: Ints, free: Floats) -> Ints:
        """Return nothing for any."""
        del free
        return np.full(len(jobs), -1)


def test_shares_and_rounds() -> None:
    """The dominant share; rounds are counted from 0, and one that is just over is over."""
    policy = Idle(60)
    policy.begin(ConfigurationView(1, 3, 1, Knowledge.NOTHING))
    policy.seen.capacity = np.array([4.0, 8.0, 0.0])
    usage = np.array([[1.0, 4.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert policy.shares(usage).tolist() == [0.5, 0.25, np.inf]
    assert policy.again_s() == 60
    policy.seen.now_s = 60 - 1e-9
    assert policy.again_s() == 120
    assert policy.summary() is None


@pytest.mark.parametrize("round_s", [1.0, 1.1, 45.7, 61.3, 301.9, 1200.7])
@pytest.mark.parametrize("since_s", [0.0, 1.6e9 + 0.1])
def test_the_next_round_ends_later_than_now(round_s: float, since_s: float) -> None:
    """Also at the very end of one, as exactly as late moments can be told."""
    rng = np.random.default_rng(0)
    for _ in range(1000):
        now_s = since_s + float(rng.uniform(0, 1e11))
        for _ in range(3):
            over = float(rounds_over(now_s, round_s, since_s))
            assert now_s - 1.001 * round_s - 1e-4 <= since_s + over * round_s
            end_s = since_s + (over + 1) * round_s
            assert end_s > now_s
            now_s = end_s


NOT_IN_ROUNDS = {
    *("fifo", "fifo-backfill", "yarn-cs", "fair", "drf", "sjf", "srtf", "srsf", "las", "gittins"),
}
TRACE = generate_scheduling(20, 8, load=2.0, seed=2, malleable=True)
ALLOWED = {
    Knowledge.NOTHING: set[str](),
    Knowledge.SPEEDS: {"speed"},
    Knowledge.PROGRESS: {"speed", "work", "left"},
}


def peeking(what: str, knowledge: Knowledge) -> TimeSlice:
    """Return a policy that reads one of the things that it may not know."""

    class Peeking(TimeSlice):
        knows = knowledge

        def choose(self, jobs: Ints, free: Floats) -> Ints:
            getattr(self.seen, what)
            return super().choose(jobs, free)

    return Peeking(60)


@pytest.mark.parametrize("knows", ALLOWED)
@pytest.mark.parametrize("what", ["speed", "work", "left", "estimate_s", "remaining_s", "past"])
def test_only_what_a_policy_says_that_it_knows_can_be_read(what: str, knows: Knowledge) -> None:
    """Anything else raises, and names both."""
    engine = RoundEngine(TRACE, peeking(what, knows))
    if what in ALLOWED[knows]:
        engine.run()
    else:
        with pytest.raises(ForbiddenKnowledgeError, match=f"knows {knows.value} asked for"):
            engine.run()


def silent(policy: type[RoundPolicy], *settings: Any) -> RoundPolicy:
    """Return a policy that does not say what it knows."""

    class Silent(policy):  # type: ignore[misc, valid-type]
        knows = Knowledge.NOTHING

    return Silent(*settings)


def no_allocation(menus: Any, there: Floats) -> tuple[list[int], bool]:
    """Give everybody the slowest configuration."""
    del there
    return [len(costs) - 1 for _, costs, _ in menus], False


ROUNDS: dict[str, tuple[Any, ...]] = {
    "optimus": (Optimus, 60),
    "optimus-exact": (OptimusExact, no_allocation, 60),
    "themis": (Themis, 60),
    "max-min": (MaxMin, 60),
    "dl2": (DL2, 60, lambda state, allowed: int(allowed.argmax())),
}
"""Of the policies of rounds all but gandiva-timeslice, which knows nothing."""


@pytest.mark.parametrize("name", ROUNDS)
def test_policies_need_what_they_say(name: str) -> None:
    """One that forgets to say it fails."""
    with pytest.raises(ForbiddenKnowledgeError):
        RoundEngine(TRACE, silent(*ROUNDS[name])).run()


def everywhere(policy: RoundPolicy, secrets: Floats) -> RoundPolicy:
    """Return a policy that looks for secrets in all that it can reach of the trace, at each decision."""
    choose, found = policy.choose, list[str]()

    def looking(jobs: Ints, free: Floats) -> Ints:
        for name, held in vars(policy.seen).items():
            # How long a job ran that has ended is no secret.
            value = held[jobs] if name == "executed_s" else held
            while isinstance(value, np.ndarray):
                if np.isin(secrets, value).any():
                    found.append(f"{name} at {policy.seen.now_s:g} s")
                value = value.base
            assert not isinstance(value, ConfigurationViewWriter | RoundEngine | SchedulingInstance)
        assert found == []
        return choose(jobs, free)

    policy.choose = looking  # type: ignore[method-assign]
    return policy


@pytest.mark.parametrize("name", [*ROUNDS, "gandiva-timeslice"])
def test_no_policy_can_reach_what_it_may_not_know(name: str) -> None:
    """Amounts that are to come; work and speeds where it does not say that it knows them."""
    make, *settings = ROUNDS.get(name, (TimeSlice, 60))
    policy = make(*settings)
    plain = [job.model_dump(exclude_none=True) for job in TRACE.jobs]
    jobs = [{**job, "work": job["work"] + 0.377 + 0.01 * k} for k, job in enumerate(plain)]
    last_s = float(TRACE.table().arrival_s.max())
    there = TRACE.replace(jobs=jobs, events=[{"at_s": last_s + 1e9, "change": {"gpu": 0.123}}])
    secrets = [8.123]
    if policy.knows is not Knowledge.PROGRESS:
        secrets += there.menus().work.tolist()
    if policy.knows is Knowledge.NOTHING:
        secrets += [speed for speed in there.menus().speed.tolist() if speed % 1]
    schedule = RoundEngine(there, everywhere(policy, np.array(secrets))).run()
    assert len(np.unique(schedule.job)) == 20


def test_all_policies_of_rounds_are_here() -> None:
    """A new one is added above."""
    made = {
        solver.name
        for solver in solvers_for("scheduling")
        if isinstance(solver, PolicySolver) and solver.name not in NOT_IN_ROUNDS
    }
    assert made == {*ROUNDS, "gandiva-timeslice"}


def test_jobs_that_have_not_arrived_cannot_be_seen() -> None:
    """Nor their menus, even by a policy that knows what is left."""

    class Watching(Optimus):
        def choose(self, jobs: Ints, free: Floats) -> Ints:
            seen = self.seen
            last = int((TRACE.table().arrival_s <= seen.now_s).sum())
            later = slice(last, None)
            for column in (seen.arrival_s, seen.work, seen.left, seen.requested, seen.first[1:]):
                assert not column[later].any()
            rows = slice(int(seen.first[last]), None)
            assert not seen.usage[rows].any()
            assert not seen.speed[rows].any()
            assert (seen.left[jobs] > 0).all()
            return super().choose(jobs, free)

    assert len(np.unique(RoundEngine(TRACE, Watching(600)).run().job)) == 20


def test_rows_are_those_of_the_menus_in_the_order_of_arrival() -> None:
    """The last job comes first here."""
    order = np.arange(20)[::-1]
    sight, menus = ConfigurationViewWriter(TRACE, order, Knowledge.PROGRESS), TRACE.menus()
    sight.uncover(slice(0, 20))
    assert np.array_equal(sight.seen.speed, menus.speed[sight.menu_row])
    assert np.array_equal(sight.seen.usage, menus.usage[sight.menu_row])
    assert np.array_equal(menus.owner[sight.menu_row[sight.seen.requested]], order)
    assert np.array_equal(sight.menu_row[sight.seen.requested], menus.requested[order])
    assert menus.owner[sight.menu_row[sight.seen.rows_of(3)]].tolist() == [16] * len(sight.seen.rows_of(3))
    sight.seen.speed[:] = 99
    assert menus.speed.max() < 99
