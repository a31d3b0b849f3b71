"""The former contracts of policies: by keys, by events and by rounds; plug-ins may use them for one version.

New policies are written by `clusterplan.solvers.scheduling.policies.contract`.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...instances.common.arrays import Flags, Floats, Ints
from .policies import contract
from .view import Knowledge, View

ConfigurationView = View


class Policy(ABC):
    """Event-based policy by the former contract: chooses the jobs that run at each event."""

    knows: Knowledge = Knowledge.NOTHING
    preempts: bool = False
    seen: View

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if cls.__module__ != __name__:
            warnings.warn(
                f"the policy {cls.__name__} is written by a contract that the next version will not know; "
                "see the guide on scheduling policies",
                FutureWarning,
                stacklevel=2,
            )

    def begin(self, seen: View) -> None:
        """Initialise the policy with its view of the trace, before the first event."""
        self.seen = seen

    def arrived(self, jobs: Iterable[int]) -> None:
        """Record jobs that have just arrived."""
        del jobs

    @abstractmethod
    def choose(self, held: Flags) -> Ints:
        """Return the jobs that run from now on or, without preemption, the jobs that start now."""

    def switched(self, stopped: Sequence[int], started: Sequence[int]) -> None:
        """Record the jobs that stopped and those that started by the policy's last choice."""
        del stopped, started

    def waits(self) -> int:
        """Return the number of jobs that have arrived and wait."""
        return self.seen.waits

    def ended(self, jobs: Sequence[int]) -> None:
        """Record jobs that have just completed."""
        del jobs

    def again_s(self) -> float:
        """Return the time in seconds of the next timer event of the policy, infinite without one."""
        return np.inf

    def free(self, held: Flags) -> Floats:
        """Return the amounts of resources that the running jobs flagged in `held` leave free, shape (R,)."""
        used: Floats = self.seen.demand[self.seen.running[held]].sum(axis=0)
        return self.seen.capacity - used


class _Keys(contract.KeyPolicy):
    """Serves jobs by the keys of a policy of the former contract."""

    def __init__(self, policy: ByKey) -> None:
        self._policy = policy

    def key(self, view: View, jobs: Ints) -> Floats:
        """Return the current priority key of each job, shape (jobs,)."""
        del view
        return self._policy.keys_of(jobs)


class ByKey(Policy):
    """Priority policy by the former contract: serves jobs in ascending order of keys."""

    def begin(self, seen: View) -> None:
        """Initialise the policy with an empty queue of waiting jobs."""
        super().begin(seen)
        self._by_keys = _Keys(self)
        self._by_keys.begin(seen)

    @abstractmethod
    def keys_of(self, jobs: Ints) -> Floats:
        """Return the current priority key of each job, shape (jobs,); the smallest is served first."""

    def arrived(self, jobs: Iterable[int]) -> None:
        """Insert arriving jobs into the queue by their keys."""
        self._by_keys.arrived(np.array(list(jobs), dtype=np.int64))

    def choose(self, held: Flags) -> Ints:
        """Return the jobs that run (start, without preemption), in ascending order of keys while they fit."""
        chosen = self._by_keys.choose(self.seen)
        return np.append(self.seen.running[held], chosen) if self.preempts else chosen

    def switched(self, stopped: Sequence[int], started: Sequence[int]) -> None:
        """Remove started jobs from the queue, and insert stopped ones by their keys."""
        self._by_keys.switched(np.array(stopped, dtype=np.int64), np.array(started, dtype=np.int64))


class RoundPolicy(Policy):
    """Round-based policy by the former contract: chooses each job's configuration at the end of a round."""

    preempts = True
    reacts: bool = False
    migrates: bool = False
    order: Ints | None = None

    def __init__(self, round_s: float) -> None:
        self.round_s = round_s

    @abstractmethod
    def choose(self, jobs: Ints, free: Floats) -> Ints:  # type: ignore[override]  # as that contract had it
        """Return the configuration (row of the table) in which each job runs, −1 for a job that waits."""

    def again_s(self) -> float:
        """Return the time in seconds of the next timer event of the policy: the end of the round."""
        return float((contract.rounds_over(self.seen.now_s, self.round_s) + 1) * self.round_s)

    def summary(self) -> str | None:
        """Return a message about the whole simulation, None without one."""
        return None

    def shares(self, usage: Floats) -> Floats:
        """Return the dominant share of the cluster of each resource usage; shapes (k,) and (k, R)."""
        return self.seen.shares(usage)


class FormerPolicy(contract.Policy):
    """A policy of a former contract by the present one."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self.knows, self.preempts = policy, policy.knows, policy.preempts
        if isinstance(policy, RoundPolicy):
            self.malleable, self.round_s = True, policy.round_s
            self.reacts, self.migrates = policy.reacts, policy.migrates
            self.summary = policy.summary  # type: ignore[method-assign]  # as it is; so is the next one
        self.again_s = policy.again_s  # type: ignore[method-assign]

    def begin(self, view: View) -> None:
        """Initialise the policy with its view of the trace, before the first event."""
        self._policy.begin(view)

    def choose(self, view: View) -> Ints:
        """Return the rows that the policy chooses, without jobs that are held."""
        if isinstance(self._policy, RoundPolicy):
            rows = np.asarray(self._policy.choose(view.jobs, view.free), dtype=np.int64)
            return contract.in_order(rows, self._policy.order)
        jobs = np.asarray(self._policy.choose(view.held), dtype=np.int64)
        return jobs[~np.isin(jobs, view.running[view.held])] if self.preempts else jobs

    def arrived(self, jobs: Ints) -> None:
        """Record jobs that have just arrived."""
        self._policy.arrived(jobs.tolist())

    def ended(self, jobs: Ints) -> None:
        """Record jobs that have just completed."""
        self._policy.ended(jobs.tolist())

    def switched(self, stopped: Ints, started: Ints) -> None:
        """Record the jobs that stopped and those that started by the policy's last choice."""
        self._policy.switched(stopped.tolist(), started.tolist())
