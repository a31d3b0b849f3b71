"""What a policy may know and reach, the contract of policies, and the former contracts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clusterplan.instances.common.arrays import Floats, Ints
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.registry import solvers_for
from clusterplan.solvers.scheduling.engine import Engine, PolicyError
from clusterplan.solvers.scheduling.policies.contract import KeyPolicy, Policy, admit, rounds_over
from clusterplan.solvers.scheduling.policies.dl2_policy import DL2
from clusterplan.solvers.scheduling.policies.fairness import MaxMin, Themis
from clusterplan.solvers.scheduling.policies.optimus import Optimus, OptimusExact
from clusterplan.solvers.scheduling.policies.service_disciplines import (
    FirstCome,
    ShortestRemaining,
)
from clusterplan.solvers.scheduling.policy_solvers import PolicySolver
from clusterplan.solvers.scheduling.view import ForbiddenKnowledgeError, Knowledge, View, ViewWriter


class LastFirst(KeyPolicy):
    """Serves the job that came last."""

    preempts = True

    def key(self, view: View, jobs: Ints) -> Floats:
        """Return minus the number."""
        del view
        return -jobs.astype(float)


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


RIGID = generate_scheduling(20, 8, load=2.0, seed=2)
MALLEABLE = generate_scheduling(20, 8, load=2.0, seed=2, malleable=True)
READABLE = {
    Knowledge.NOTHING: set[str](),
    Knowledge.PAST: {"past"},
    Knowledge.ESTIMATE: {"estimate_s"},
    Knowledge.REMAINING: {"remaining_s"},
    Knowledge.SPEEDS: {"speed"},
    Knowledge.PROGRESS: {"speed", "work", "left"},
}


class Peeking(LastFirst):
    """Reads one of the things that it may not know."""

    def __init__(self, what: str, knows: Knowledge) -> None:
        self._what, self.knows = what, knows

    def choose(self, view: View) -> Ints:
        """Look, and go on as before."""
        getattr(view, self._what)
        return super().choose(view)


@pytest.mark.parametrize("knows", Knowledge)
@pytest.mark.parametrize("what", sorted(set.union(*READABLE.values())))
def test_only_what_a_policy_says_that_it_knows_can_be_read(what: str, knows: Knowledge) -> None:
    """Anything else raises, and names both."""
    for trace in (RIGID, MALLEABLE):
        engine = Engine(trace, Peeking(what, knows))
        if what in READABLE[knows]:
            engine.run()
        else:
            with pytest.raises(ForbiddenKnowledgeError, match=f"knows {knows.value} asked for"):
                engine.run()


def silent(policy: type[Policy], *settings: Any) -> Policy:
    """Return a policy that does not say what it knows."""

    class Silent(policy):  # type: ignore[misc, valid-type]
        knows = Knowledge.NOTHING
        malleable = True

    return Silent(*settings)


ROUNDS: dict[str, tuple[Any, ...]] = {
    "optimus": (Optimus, 60),
    "optimus-exact": (OptimusExact, 60),
    "themis": (Themis, 60),
    "max-min": (MaxMin, 60),
    "dl2": (DL2, 60, lambda state, allowed: int(allowed.argmax())),
}
"""Of the policies with rounds all but gandiva-timeslice, which knows nothing."""


@pytest.mark.parametrize("name", ROUNDS)
def test_policies_need_what_they_say(name: str) -> None:
    """One that forgets to say it fails."""
    with pytest.raises(ForbiddenKnowledgeError):
        Engine(MALLEABLE, silent(*ROUNDS[name])).run()


def watched(policy: Policy, secrets: Floats, durations: bool) -> Policy:
    """Return a policy that looks for secrets in all that it can reach of the trace, at each decision.

    Parameters
    ----------
    durations
        Whether the first secrets are durations of jobs, which are none when the jobs have ended.
    """
    choose, ended = policy.choose, policy.ended

    def looking(view: View) -> Ints:
        """Look at every attribute, private ones too, and at what arrays are parts of."""
        for name, held in vars(view).items():
            # How long a job ran that has ended is no secret.
            value = held[view.jobs] if name == "executed_s" else held
            assert not isinstance(value, ViewWriter | Engine | SchedulingInstance)
            assert not callable(value)
            while isinstance(value, np.ndarray):
                assert not np.isin(secrets, value).any(), f"{name} at {view.now_s:g} s"
                value = value.base
        return choose(view)

    def forgetting(jobs: Ints) -> None:
        if durations:
            secrets[jobs] = np.nan
        ended(jobs)

    policy.choose, policy.ended = looking, forgetting  # type: ignore[method-assign]
    return policy


def test_a_policy_cannot_say_later_that_it_knows_more() -> None:
    """Neither to the engine nor to its view."""
    policy = FirstCome()
    engine = Engine(RIGID, policy)
    with pytest.raises(AttributeError):
        engine._view.knows = Knowledge.REMAINING  # type: ignore[misc]
    engine._view._knows = policy.knows = Knowledge.REMAINING
    engine.run()
    assert not policy.view.remaining_s.any()


SOLVERS = {solver.name: solver for solver in solvers_for("scheduling") if isinstance(solver, PolicySolver)}


def made(name: str, there: SchedulingInstance) -> Policy:
    """Return a policy of the package with its default settings; DL² has learned nothing."""
    if name in ROUNDS:
        make, *settings = ROUNDS[name]
        policy: Policy = make(*settings)
        return policy
    settings = {key: option.default for key, option in SOLVERS[name].method_options.items()}
    return SOLVERS[name].policy(there, settings, SolveOptions(), Clock())


@pytest.mark.parametrize("name", SOLVERS)
def test_no_policy_can_reach_what_it_may_not_know(name: str) -> None:
    """Amounts that are to come; work, durations and speeds where it does not say that it knows them."""
    knows, chooses = made(name, RIGID).knows, made(name, RIGID).malleable or name in ROUNDS
    trace, field = (MALLEABLE, "work") if chooses else (RIGID, "duration_s")
    plain = [job.model_dump(exclude_none=True) for job in trace.jobs]
    jobs = [{**job, field: job[field] + 0.377 + 0.01 * k} for k, job in enumerate(plain)]
    middle_s = float(trace.table().arrival_s.max()) / 2
    events = [{"at_s": middle_s, "change": {"gpu": 0.5}}, {"at_s": 9e8, "change": {"gpu": 0.123}}]
    there = trace.replace(jobs=jobs, events=events)
    secrets, blind = list[float](), knows in (Knowledge.NOTHING, Knowledge.PAST)
    if blind and not chooses:
        secrets += there.table().duration_s[np.argsort(there.table().arrival_s, kind="stable")].tolist()
    if chooses and knows is not Knowledge.PROGRESS:
        secrets += there.menus().work.tolist()
    if chooses and blind:
        secrets += [speed for speed in there.menus().speed.tolist() if speed % 1]
    policy = watched(made(name, there), np.array([*secrets, 8.623]), blind and not chooses)
    assert len(np.unique(Engine(there, policy).run().job)) == 20


class Watching(KeyPolicy):
    """First come, first served; looks at jobs that have not arrived, and at how long those run that have."""

    def __init__(self, knows: Knowledge) -> None:
        self.knows = knows

    def key(self, view: View, jobs: Ints) -> Floats:
        """Return the time of arrival."""
        return view.arrival_s[jobs]

    def choose(self, view: View) -> Ints:
        """Look at the rows of later jobs, and at what is left of those that are there."""
        last = int((view.arrival_s[1:] > 0).sum()) + 1
        columns = [view.arrival_s, view.demand, view.width, view.weight, view.requested, view.first[1:]]
        if self.knows is Knowledge.PROGRESS:
            columns += [view.work, view.left]
            assert not view.speed[int(view.first[last]) :].any()
        left = view.left if self.knows is Knowledge.PROGRESS else view.remaining_s
        assert not any(column[last:].any() for column in (*columns, left))
        assert not view.usage[int(view.first[last]) :].any()
        assert (view.tenant[last:] == -1).all()
        assert (left[view.jobs] > 0).all()
        assert last == len(view.arrival_s) or view.now_s < 1e9
        return super().choose(view)


@pytest.mark.parametrize("knows", [Knowledge.REMAINING, Knowledge.PROGRESS])
def test_jobs_that_have_not_arrived_cannot_be_seen(knows: Knowledge) -> None:
    """Their rows hold nothing, even for a policy that knows how long jobs run."""
    trace = MALLEABLE if knows is Knowledge.PROGRESS else RIGID
    policy = Watching(knows)
    assert len(np.unique(Engine(trace, policy).run().job)) == 20
    # Writing to what is seen changes no instance.
    for column in (policy.view.demand, policy.view.usage, policy.view._left, policy.view._speed):
        column[:] = 1e9
    assert max(column.max() for column in (trace.table().total_demand, trace.menus().speed)) < 1e9
    assert max(trace.table().duration_s.max(), trace.menus().work.max()) < 1e9


class Vandal(ShortestRemaining):
    """Writes to all that it sees."""

    def choose(self, view: View) -> Ints:
        """Choose first, and write then."""
        chosen = super().choose(view)
        for name in ("capacity", "executed_s", "since_s", "arrival_s", "remaining_s", "demand", "usage"):
            getattr(view, name)[:] = 1e-3
        view.running[:] = view.row[:] = 0
        view.now_s = 1e6
        return chosen


def test_what_a_policy_writes_deceives_nobody_else() -> None:
    """The engine goes by what it knows itself: a choice that does not fit is refused, a job runs its time."""
    with pytest.raises(PolicyError, match=r"do not fit|twice"):
        Engine(RIGID, Vandal()).run()
    alone = RIGID.replace(jobs=RIGID.jobs[:1])
    schedule = Engine(alone, Vandal()).run()
    assert schedule.end_s - schedule.start_s == pytest.approx(alone.table().duration_s)
