"""The information available to a policy: the jobs that have arrived, and what it may know of them."""

from __future__ import annotations

from enum import Enum

import numpy as np

from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.common.errors import ClusterplanError
from ...instances.scheduling.instance import SchedulingInstance


class Knowledge(Enum):
    """What a policy knows about the durations of jobs, besides their run times so far."""

    NOTHING = "nothing"
    PAST = "the durations of jobs that have ended"
    ESTIMATE = "what users claim"
    REMAINING = "the true remaining time"
    SPEEDS = "the speeds of configurations"
    PROGRESS = "speeds, and the work that is left"


class ForbiddenKnowledgeError(ClusterplanError):
    """Raised where a policy reads information that it has not declared in `knows`."""


class Seen:
    """An event-based policy's view of the trace up to now.

    Jobs are numbered in the order of their arrival. Rows of jobs that have not arrived hold 0. A policy must
    not write to any array; this would change its own view only, since the engine has its own data.

    Parameters
    ----------
    jobs, resources
        Numbers of jobs and resources.
    knows
        What the policy knows.

    Attributes
    ----------
    now_s
        The time of the event.
    capacity
        Amount of each resource now, shape (R,).
    arrival_s, weight, tenant
        Shape (J,); the tenant is −1 where a job has none.
    demand
        Usage of each job while it runs, shape (J, R).
    width
        Demand of each job as one number: the amount where there is one resource, else the dominant share
        times the amount of the first resource; shape (J,).
    executed_s
        Run time of each job so far, shape (J,).
    running
        The jobs that run.
    since_s
        Start of the current run of each running job, shape (J,).
    lease_s, tenant_shares
        From the instance; the shares have shape (tenants,).
    """

    def __init__(self, jobs: int, resources: int, knows: Knowledge) -> None:
        self._knows = knows
        self.now_s = 0.0
        self.capacity: Floats = np.zeros(resources)
        self.arrival_s: Floats = np.zeros(jobs)
        self.weight: Floats = np.zeros(jobs)
        self.tenant: Ints = np.full(jobs, -1)
        self.demand: Floats = np.zeros((jobs, resources))
        self.width: Floats = np.zeros(jobs)
        self.executed_s: Floats = np.zeros(jobs)
        self.since_s: Floats = np.zeros(jobs)
        self.running: Ints = np.zeros(0, dtype=np.int64)
        self.lease_s = 0.0
        self.tenant_shares: Floats = np.zeros(0)
        self._estimate_s: Floats = np.zeros(jobs)
        self._remaining_s: Floats = np.zeros(jobs)
        self._past: list[tuple[float, float]] = []

    @property
    def knows(self) -> Knowledge:
        """What the policy knows about durations; this cannot be changed."""
        return self._knows

    @property
    def estimate_s(self) -> Floats:
        """Users' estimates of the durations of their jobs in seconds, shape (J,)."""
        self._only(Knowledge.ESTIMATE)
        return self._estimate_s

    @property
    def remaining_s(self) -> Floats:
        """True remaining run times of jobs in seconds, shape (J,)."""
        self._only(Knowledge.REMAINING)
        return self._remaining_s

    @property
    def past(self) -> list[tuple[float, float]]:
        """Duration in seconds and width (GPUs) of each completed job, in order of completion."""
        self._only(Knowledge.PAST)
        return self._past

    def _only(self, needed: Knowledge) -> None:
        if self.knows is not needed:
            raise ForbiddenKnowledgeError(
                f"a policy that knows {self.knows.value} asked for {needed.value}; it must say that it does"
            )


class PolicyViewWriter:
    """Writes the data of jobs into an event-based policy's view as they arrive and complete.

    Parameters
    ----------
    order
        The jobs in the order of their arrival, as indices into the table.
    """

    def __init__(self, instance: SchedulingInstance, order: Ints, knows: Knowledge) -> None:
        table = instance.table()
        self.seen, self.knows = Seen(len(table), len(instance.pool), knows), knows
        self.seen.lease_s = instance.lease_s
        shares = [instance.tenant_shares.get(name, 1.0) for name in table.tenants]
        self.seen.tenant_shares = np.array(shares, dtype=float)
        self.demand: Floats = table.total_demand[order]
        self.width = widths(self.demand, instance.capacity_over_time[1][0])
        self.duration_s: Floats = table.duration_s[order]
        given = table.estimate_s[order]
        self._estimate_s = np.where(np.isnan(given), self.duration_s, given)
        self._others = (table.arrival_s[order], table.weight[order], table.tenant[order])

    def uncover(self, jobs: slice) -> None:
        """Write the data of arriving jobs, a slice in the order of arrival, into the policy's view."""
        seen = self.seen
        for column, own in zip((seen.arrival_s, seen.weight, seen.tenant), self._others, strict=True):
            column[jobs] = own[jobs]
        seen.demand[jobs] = self.demand[jobs]
        seen.width[jobs] = self.width[jobs]
        if self.knows is Knowledge.ESTIMATE:
            seen.estimate_s[jobs] = self._estimate_s[jobs]
        if self.knows is Knowledge.REMAINING:
            seen.remaining_s[jobs] = self.duration_s[jobs]

    def ended(self, job: int) -> None:
        """Write duration and width of a completed job into the view of a policy that knows past durations."""
        if self.knows is Knowledge.PAST:
            self.seen.past.append((float(self.duration_s[job]), float(self.width[job])))


def widths(demand: Floats, capacity: Floats) -> Floats:
    """Return the width of each job: its demand as one number (of the first resource), shape (J,).

    With several resources it is the dominant share of the cluster times the amount of the first resource.
    """
    if demand.shape[1] == 1:
        return demand[:, 0]
    available: Flags = capacity > 0
    shares: Floats = (demand[:, available] / capacity[available]).max(axis=1, initial=0.0)
    return shares * (capacity[available][0] if available.any() else 1.0)
