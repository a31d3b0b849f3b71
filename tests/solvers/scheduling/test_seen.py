"""A policy that reads what it may not know fails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from clusterplan.instances.common.arrays import Flags, Floats, Ints
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.instances.scheduling.instance import SchedulingInstance
from clusterplan.solvers.scheduling import engine
from clusterplan.solvers.scheduling.engine import Engine, PolicyError
from clusterplan.solvers.scheduling.policies.service_disciplines import FirstCome, ShortestRemaining
from clusterplan.solvers.scheduling.seen import (
    ForbiddenKnowledgeError,
    Knowledge,
    PolicyViewWriter,
    Seen,
    widths,
)

TRACE = generate_scheduling(20, 8, load=2.0, seed=2)


class Peeking(FirstCome):
    """Reads one of the things that it may not know."""

    def __init__(self, what: str, knows: Knowledge) -> None:
        self._what, self.knows = what, knows

    def keys_of(self, jobs: Ints) -> Floats:
        """Look, and go on as before."""
        getattr(self.seen, self._what)
        return super().keys_of(jobs)


READABLE = {"estimate_s": Knowledge.ESTIMATE, "remaining_s": Knowledge.REMAINING, "past": Knowledge.PAST}


@pytest.mark.parametrize("knows", Knowledge)
@pytest.mark.parametrize("what", READABLE)
def test_only_what_a_policy_says_that_it_knows_can_be_read(what: str, knows: Knowledge) -> None:
    """Anything else raises, and names both."""
    engine = Engine(TRACE, Peeking(what, knows))
    if READABLE[what] is knows:
        engine.run()
    else:
        with pytest.raises(ForbiddenKnowledgeError, match=f"knows {knows.value} asked for"):
            engine.run()


class Watching(FirstCome):
    """Notes what it sees of jobs that have not arrived, and of how long those run that have."""

    knows = Knowledge.REMAINING

    def arrived(self, jobs: Iterable[int]) -> None:
        """Look at the rows of later jobs."""
        listed = list(jobs)
        later = slice(max(listed) + 1, None)
        seen = self.seen
        for column in (seen.arrival_s, seen.demand, seen.width, seen.weight, seen.remaining_s):
            assert not column[later].any()
        assert (seen.tenant[later] == -1).all()
        super().arrived(listed)

    def choose(self, held: Flags) -> Ints:
        """Look at what is left of jobs that run."""
        assert (self.seen.remaining_s[self.seen.running] > 0).all()
        return super().choose(held)


def test_jobs_that_have_not_arrived_cannot_be_seen() -> None:
    """Their rows hold nothing, even for a policy that knows how long jobs run."""
    schedule = Engine(TRACE, Watching()).run()
    assert len(np.unique(schedule.job)) == 20


def test_an_array_of_the_trace_itself_is_never_handed_out() -> None:
    """Writing to what is seen changes no instance."""
    policy = Watching()
    Engine(TRACE, policy).run()
    policy.seen.demand[:] = 99
    policy.seen.remaining_s[:] = 99
    assert TRACE.table().total_demand.max() < 99
    assert TRACE.table().duration_s.min() != 99


class Spy(FirstCome):
    """Looks for durations of jobs, and for amounts that are to come, in all that it can reach."""

    def __init__(self, secrets: Floats) -> None:
        self.secrets = secrets
        self.found: list[str] = []

    def begin(self, seen: Seen) -> None:
        """Try to be one that knows more."""
        super().begin(seen)
        self.knows = Knowledge.REMAINING
        with pytest.raises(AttributeError):
            seen.knows = Knowledge.REMAINING  # type: ignore[misc]
        seen._knows = Knowledge.REMAINING

    def choose(self, held: Flags) -> Ints:
        """Look at every attribute, private ones too, and at what arrays are parts of."""
        self._look("held", held)
        for name, value in vars(self.seen).items():
            self._look(name, value)
        return super().choose(held)

    def ended(self, jobs: Sequence[int]) -> None:
        """Take it that the duration of a job that has ended is no secret."""
        super().ended(jobs)
        self.secrets[jobs] = np.nan

    def _look(self, name: str, value: object) -> None:
        while isinstance(value, np.ndarray):
            if np.isin(self.secrets, value).any():
                self.found.append(f"{name} at {self.seen.now_s:g} s")
            value = value.base
        if isinstance(value, list) and value:
            self.found.append(name)
        assert not isinstance(value, PolicyViewWriter | Engine | SchedulingInstance)


def test_a_spy_finds_nothing_in_its_reach() -> None:
    """Neither durations of jobs, nor what the cluster will have."""
    plain = [job.model_dump(exclude_none=True) for job in TRACE.jobs]
    jobs = [{**job, "duration_s": job["duration_s"] + 0.377 + 0.01 * k} for k, job in enumerate(plain)]
    middle = float(TRACE.table().arrival_s.max()) / 2
    events = [{"at_s": middle, "change": {"gpu": 0.5}}, {"at_s": 9e8, "change": {"gpu": 0.123}}]
    there = TRACE.replace(jobs=jobs, events=events)
    order = np.argsort(there.table().arrival_s, kind="stable")
    spy = Spy(np.append(there.table().duration_s[order], 8.623))
    Engine(there, spy).run()
    assert np.isnan(spy.secrets[:-1]).all()
    assert spy.found == []


class Vandal(ShortestRemaining):
    """Writes to all that it sees."""

    def choose(self, held: Flags) -> Ints:
        """Choose first, and write then."""
        chosen = super().choose(held)
        seen = self.seen
        for name in ("capacity", "executed_s", "since_s", "arrival_s", "remaining_s", "demand"):
            getattr(seen, name)[:] = 1e-3
        seen.running[:] = 0
        seen.now_s = 1e6
        return chosen


def test_what_a_policy_writes_deceives_nobody_else() -> None:
    """The engine goes by what it knows itself: a choice that does not fit is refused, a job runs its time."""
    with pytest.raises(PolicyError, match=r"do not fit|twice"):
        Engine(TRACE, Vandal()).run()
    alone = TRACE.replace(jobs=TRACE.jobs[:1])
    schedule = Engine(alone, Vandal()).run()
    assert schedule.end_s - schedule.start_s == pytest.approx(alone.table().duration_s)


class AsksForEver(FirstCome):
    """Wants to be asked again at the same moment."""

    def again_s(self) -> float:
        """Return the time that it is."""
        return self.seen.now_s


def test_a_policy_that_asks_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even without a time limit."""
    monkeypatch.setattr(engine, "MAX_STOPS", 1000)
    with pytest.raises(PolicyError, match="without end"):
        Engine(TRACE, AsksForEver()).run()


class StopsForEver(FirstCome):
    """Lets two jobs take turns of a second."""

    preempts = True

    def choose(self, held: Flags) -> Ints:
        """Return the job whose second it is."""
        del held
        there = sorted({*self.seen.running.tolist(), *self._waiting[: self._count].tolist()})
        turn = int(self.seen.now_s) % max(len(there), 1)
        return np.array(there[turn : turn + 1], dtype=np.int64)

    def again_s(self) -> float:
        """Return the next second."""
        return self.seen.now_s + 1


def test_a_policy_that_lets_no_job_work_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a restart takes longer than its turns; where they bring some work, however little, it ends."""
    monkeypatch.setattr(engine, "MAX_STOPS", 1000)
    jobs = [{"name": name, "demand": {"gpu": 1}, "duration_s": 3} for name in "ab"]
    there = SchedulingInstance.model_validate(
        {"name": "t", "resources": {"gpu": 1}, "preemption": "costs", "restart_s": 2, "jobs": jobs}
    )
    with pytest.raises(PolicyError, match="stops jobs before they do any work"):
        Engine(there, StopsForEver()).run()
    assert Engine(there.replace(restart_s=0.99), StopsForEver()).run().end_s.max() > 100


def test_the_width_is_the_amount_or_the_dominant_share() -> None:
    """In units of the first resource where there are several."""
    assert widths(np.array([[3.0]]), np.array([8.0])).tolist() == [3.0]
    shares = widths(np.array([[1.0, 8.0], [2.0, 0.0]]), np.array([8.0, 16.0]))
    assert shares.tolist() == [4.0, 2.0]
