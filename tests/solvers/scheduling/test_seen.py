"""A policy that reads what it may not know fails."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from clusterplan.instances.common.arrays import Flags, Floats, Ints
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.solvers.scheduling.engine import Engine
from clusterplan.solvers.scheduling.policies.first_come import FirstCome
from clusterplan.solvers.scheduling.seen import ForbiddenKnowledgeError, Knowledge, widths

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


def test_the_width_is_the_amount_or_the_dominant_share() -> None:
    """In units of the first resource where there are several."""
    assert widths(np.array([[3.0]]), np.array([8.0])).tolist() == [3.0]
    shares = widths(np.array([[1.0, 8.0], [2.0, 0.0]]), np.array([8.0, 16.0]))
    assert shares.tolist() == [4.0, 2.0]
