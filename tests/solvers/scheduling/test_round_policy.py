"""What policies of rounds have in common."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.instances.common.arrays import Floats, Ints
from clusterplan.solvers.scheduling.menu_seen import MenuSeen
from clusterplan.solvers.scheduling.round_policy import RoundPolicy, admit, rounds_over
from clusterplan.solvers.scheduling.seen import Knowledge


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
    policy.begin(MenuSeen(1, 3, 1, Knowledge.NOTHING))
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
