"""The contract of a policy, and policies that serve jobs in the order of keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from ...instances.common.arrays import Flags, Floats, Ints
from .kernels import fill, insert, remove, total
from .seen import Knowledge, Seen


class Policy(ABC):
    """Decides at each event which jobs run; made for one run of the engine.

    Attributes
    ----------
    knows
        What it may read of `Seen`.
    preempts
        Whether it stops jobs that run.
    """

    knows: Knowledge = Knowledge.NOTHING
    preempts: ClassVar[bool] = False
    seen: Seen

    def begin(self, seen: Seen) -> None:
        """Start with what the engine will uncover."""
        self.seen = seen

    @abstractmethod
    def arrived(self, jobs: Iterable[int]) -> None:
        """Note jobs that have arrived."""

    @abstractmethod
    def choose(self, held: Flags) -> Ints:
        """Return the jobs that run from now on; a policy that does not preempt, those that start.

        Parameters
        ----------
        held
            Which of `seen.running` go on in any case.
        """

    @abstractmethod
    def switched(self, stopped: Sequence[int], started: Sequence[int]) -> None:
        """Note which jobs have stopped and which have started by its choice."""

    @abstractmethod
    def waits(self) -> int:
        """Return how many jobs wait."""

    def ended(self, jobs: Sequence[int]) -> None:
        """Note jobs that have ended."""
        del jobs

    def again_s(self) -> float:
        """Return when it wants to be asked again, although nothing happens; infinite for never."""
        return np.inf

    def free(self, held: Flags) -> Floats:
        """Return what the jobs that are held leave, shape (R,)."""
        seen = self.seen
        return np.asarray(seen.capacity - total(seen.running[held], seen.demand))


class ByKey(Policy):
    """Serves jobs in the order of their keys, the least first; a job that does not fit blocks no other."""

    def begin(self, seen: Seen) -> None:
        """Start with an empty list of waiting jobs."""
        super().begin(seen)
        self._keys: Floats = np.zeros(len(seen.width))
        self._waiting: Ints = np.zeros(len(seen.width), dtype=np.int64)
        self._count = 0

    @abstractmethod
    def keys_of(self, jobs: Ints) -> Floats:
        """Return the keys that jobs have now; those of waiting jobs are asked for once."""

    def arrived(self, jobs: Iterable[int]) -> None:
        """Queue jobs by their keys."""
        self._queue(list(jobs))

    def choose(self, held: Flags) -> Ints:
        """Return the jobs with the least keys that fit."""
        seen = self.seen
        keys = np.zeros(len(seen.running)) if held.all() else self.keys_of(seen.running)
        chosen = fill(
            self._waiting, self._count, self._keys, seen.running, held, keys, seen.demand, seen.capacity
        )
        return chosen if self.preempts else chosen[int(held.sum()) :]

    def switched(self, stopped: Sequence[int], started: Sequence[int]) -> None:
        """Take jobs out of the list, and queue those that stopped."""
        for j in started:
            self._unqueue(j)
        self._queue(stopped)

    def waits(self) -> int:
        """Return the length of the list."""
        return self._count

    def _queue(self, jobs: Sequence[int]) -> None:
        if not jobs:
            return
        self._keys[jobs] = self.keys_of(np.array(jobs))
        for j in jobs:
            insert(self._waiting, self._count, self._keys, j)
            self._count += 1

    def _unqueue(self, j: int) -> None:
        remove(self._waiting, self._count, self._keys, j)
        self._count -= 1

    def _sort_again(self) -> None:
        """Give all waiting jobs new keys."""
        waiting = np.sort(self._waiting[: self._count])
        self._keys[waiting] = self.keys_of(waiting)
        self._waiting[: self._count] = waiting[np.argsort(self._keys[waiting], kind="stable")]
