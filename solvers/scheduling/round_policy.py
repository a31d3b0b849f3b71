"""The contract of a policy that decides anew from time to time: in which configuration each job runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...formulations.common.compiled import compiled
from ...instances.common.arrays import Flags, Floats, Ints
from .menu_seen import MenuSeen
from .seen import Knowledge

SLACK = 1e-9
"""What may be taken more than there is, relatively."""
NEAR = 1e-9
"""A round that is over up to this, relatively, is over."""


class RoundPolicy(ABC):
    """Decides at the end of each round which jobs run and how; made for one run of the engine.

    Parameters
    ----------
    round_s
        How long a round is; rounds are counted from time 0.

    Attributes
    ----------
    knows
        What it may read of `MenuSeen`.
    reacts
        Whether it decides at arrivals and ends too.
    migrates
        Whether jobs that run move to other servers to make room for others.
    order
        In which order jobs of the last choice find places on servers, as indices into those it was asked
        about; None for the order of their arrival.
    """

    knows: ClassVar[Knowledge] = Knowledge.NOTHING
    reacts: bool = False
    migrates: ClassVar[bool] = False
    seen: MenuSeen
    order: Ints | None = None

    def __init__(self, round_s: float) -> None:
        self.round_s = round_s

    def begin(self, seen: MenuSeen) -> None:
        """Start with what the engine will uncover."""
        self.seen = seen

    @abstractmethod
    def choose(self, jobs: Ints, free: Floats) -> Ints:
        """Return the row of the configuration in which each of these jobs runs from now on, −1 for none.

        Where jobs find no place on servers it is asked again at the same moment, without them; then the last
        answer counts.

        Parameters
        ----------
        jobs
            Those that are there and whose configuration is free to choose, in the order of their arrival.
        free
            What they may use together, shape (R,).
        """

    def ended(self, jobs: Sequence[int]) -> None:
        """Note jobs that have ended."""
        del jobs

    def again_s(self) -> float:
        """Return when it wants to be asked again: at the end of the round."""
        return float((rounds_over(self.seen.now_s, self.round_s) + 1) * self.round_s)

    def summary(self) -> str | None:
        """Return what is to be said of the whole run, if anything."""
        return None

    def shares(self, usage: Floats) -> Floats:
        """Return the dominant share of the cluster of each of these usages, shapes (k, R) and (k,)."""
        there: Flags = self.seen.capacity > 0
        share = usage[:, there] / self.seen.capacity[there]
        # What the cluster has not is more than all of it.
        missing = (usage[:, ~there] > 0).any(axis=1)
        return np.where(missing, np.inf, share.max(axis=1, initial=0.0))


def rounds_over(now_s: float, round_s: float, since_s: Floats | float = 0.0) -> Floats:
    """Return how many rounds are over since some moment, as exactly as moments can tell.

    Moments get coarser with time, so that the quotient may fall short of a round whose end is reached. The
    end of the next one, `since_s` + (rounds + 1) × `round_s`, is always later than now.
    """
    over = np.floor((now_s - since_s) / round_s + NEAR)
    return np.asarray(over + (since_s + (over + 1) * round_s <= now_s))


def admit(usage: Floats, free: Floats, capacity: Floats) -> Flags:
    """Return which usages, shape (k, R), are served in their order; one that does not fit blocks no other.

    Parameters
    ----------
    free, capacity
        What there is for them, and in all, shape (R,).
    """
    return served_in_order(usage, free + SLACK * capacity)


@compiled
def served_in_order(usage: Floats, room: Floats) -> Flags:
    """Return which usages fit beside those before them that do, shapes (k, R), (R,) and (k,)."""
    served = np.zeros(len(usage), dtype=np.bool_)
    left = room.copy()
    for k in range(len(usage)):
        fits = True
        for r in range(len(left)):
            fits = fits and usage[k, r] <= left[r]
        if fits:
            served[k] = True
            for r in range(len(left)):
                left[r] -= usage[k, r]
    return served
