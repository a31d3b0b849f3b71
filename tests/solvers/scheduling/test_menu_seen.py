"""A policy that reads of configurations what it may not know fails."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.instances.common.arrays import Floats, Ints
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.solvers.scheduling.menu_seen import MenuSight
from clusterplan.solvers.scheduling.policies.gandiva import TimeSlice
from clusterplan.solvers.scheduling.policies.max_min import MaxMin
from clusterplan.solvers.scheduling.policies.optimus import Optimus
from clusterplan.solvers.scheduling.policies.themis import Themis
from clusterplan.solvers.scheduling.rounds import RoundEngine
from clusterplan.solvers.scheduling.seen import ForbiddenKnowledgeError, Knowledge

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


@pytest.mark.parametrize("policy", [Optimus, Themis, MaxMin])
def test_policies_need_what_they_say(policy: type[Optimus | Themis | MaxMin]) -> None:
    """One that forgets to say it fails."""

    class Silent(policy):  # type: ignore[misc, valid-type]
        knows = Knowledge.NOTHING

    with pytest.raises(ForbiddenKnowledgeError):
        RoundEngine(TRACE, Silent(60)).run()


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
    sight, menus = MenuSight(TRACE, order, Knowledge.PROGRESS), TRACE.menus()
    sight.uncover(slice(0, 20))
    assert np.array_equal(sight.seen.speed, menus.speed[sight.menu_row])
    assert np.array_equal(sight.seen.usage, menus.usage[sight.menu_row])
    assert np.array_equal(menus.owner[sight.menu_row[sight.seen.requested]], order)
    assert np.array_equal(sight.menu_row[sight.seen.requested], menus.requested[order])
    assert menus.owner[sight.menu_row[sight.seen.rows_of(3)]].tolist() == [16] * len(sight.seen.rows_of(3))
    sight.seen.speed[:] = 99
    assert menus.speed.max() < 99
