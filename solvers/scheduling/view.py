"""The view of a policy: the jobs that have arrived, their configurations, and what it may know of them."""

from __future__ import annotations

from enum import Enum

import numpy as np

from ...instances.common.arrays import Flags, Floats, Ints, offsets, rows_of_runs, run_of_each
from ...instances.common.errors import ClusterplanError
from ...instances.scheduling.configurations import dominant_shares
from ...instances.scheduling.instance import SchedulingInstance


class Knowledge(Enum):
    """What a policy knows about the durations of jobs, besides their run times so far."""

    NOTHING = "nothing"
    PAST = "the durations of jobs that have ended"
    ESTIMATE = "what users claim"
    REMAINING = "the true remaining time"
    SPEEDS = "the speeds of configurations"
    PROGRESS = "speeds, and the work that is left"


OF_CONFIGURATIONS = (Knowledge.SPEEDS, Knowledge.PROGRESS)
"""What only policies know that choose among the configurations of a job."""


class ForbiddenKnowledgeError(ClusterplanError):
    """Raised where a policy reads information that it has not declared in `knows`."""


class View:
    """A policy's view of the trace up to now: J jobs, and K rows of a table of all their configurations.

    Jobs are numbered in the order of their arrival. Rows of jobs that have not arrived hold 0. Where a policy
    does not choose among configurations, each job has one row, the requested one, with the number of the job.
    A policy must not write to any array; this would change its own view only, since the engine has its own
    data.

    Parameters
    ----------
    jobs, resources, rows
        J, the number of resources R, and K.
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
        Usage of each job in its requested configuration, shape (J, R).
    width
        Demand of each job as one number: the amount where there is one resource, else the dominant share
        times the amount of the first resource; shape (J,).
    first
        The configurations of job j are rows first[j] to first[j + 1] − 1, shape (J + 1,).
    usage
        Resource usage of each row, shape (K, R).
    requested
        The row of each job's requested configuration, shape (J,).
    row
        The row in which each job runs now; −1 where it does not run, shape (J,).
    executed_s
        Run time of each job so far, shape (J,).
    running
        The jobs that run.
    since_s
        Start of the current run of each running job, shape (J,).
    held
        Flags of the jobs in `running` that continue as they are, whatever the policy chooses.
    free
        Amounts of resources that the jobs which are not held may use together, shape (R,).
    waits
        Number of jobs that have arrived and wait.
    lease_s, tenant_shares
        From the instance; the shares have shape (tenants,).
    """

    def __init__(self, jobs: int, resources: int, rows: int, knows: Knowledge) -> None:
        self._knows = knows
        self.now_s = self.lease_s = 0.0
        self.waits = 0
        self.capacity: Floats = np.zeros(resources)
        self.free: Floats = np.zeros(resources)
        times: list[Floats] = [np.zeros(jobs) for _ in range(8)]
        self.arrival_s, self.weight, self.width, self.executed_s, self.since_s = times[:5]
        self._work, self._left, self._estimate_s = times[5:]
        self.tenant: Ints = np.full(jobs, -1)
        self.row: Ints = np.full(jobs, -1)
        self.requested: Ints = np.zeros(jobs, dtype=np.int64)
        self.demand: Floats = np.zeros((jobs, resources))
        self.first: Ints = np.zeros(jobs + 1, dtype=np.int64)
        self.usage: Floats = np.zeros((rows, resources))
        self._speed: Floats = np.zeros(rows)
        self.running: Ints = np.zeros(0, dtype=np.int64)
        self.held: Flags = np.zeros(0, dtype=bool)
        self.tenant_shares: Floats = np.zeros(0)
        self._past: list[tuple[float, float]] = []
        self._done: Flags = np.zeros(jobs, dtype=bool)
        self._arrived = 0
        self._refused = self.running

    @property
    def knows(self) -> Knowledge:
        """What the policy knows about durations; this cannot be changed."""
        return self._knows

    @property
    def jobs(self) -> Ints:
        """The jobs that may be given a configuration now, in order of arrival; the others are held."""
        present: Ints = np.flatnonzero(~self._done[: self._arrived])
        closed = np.concatenate([self.running[self.held], self._refused])
        return np.setdiff1d(present, closed, assume_unique=True)

    @property
    def estimate_s(self) -> Floats:
        """Users' estimates of the durations of their jobs in seconds, shape (J,)."""
        self._only(Knowledge.ESTIMATE)
        return self._estimate_s

    @property
    def remaining_s(self) -> Floats:
        """True remaining run times of jobs in seconds, shape (J,)."""
        self._only(Knowledge.REMAINING)
        return self._left

    @property
    def past(self) -> list[tuple[float, float]]:
        """Duration in seconds and width (GPUs) of each completed job, in order of completion."""
        self._only(Knowledge.PAST)
        return self._past

    @property
    def speed(self) -> Floats:
        """Work per second of each row, shape (K,)."""
        if self.knows is not Knowledge.PROGRESS:
            self._only(Knowledge.SPEEDS)
        return self._speed

    @property
    def work(self) -> Floats:
        """Total work of each job, in the unit of its speeds times seconds, shape (J,)."""
        self._only(Knowledge.PROGRESS)
        return self._work

    @property
    def left(self) -> Floats:
        """Remaining work of each job, in the unit of its speeds times seconds, shape (J,)."""
        self._only(Knowledge.PROGRESS)
        return self._left

    def rows_of(self, job: int) -> Ints:
        """Return the row indices of a job's configurations."""
        return np.arange(self.first[job], self.first[job + 1])

    def shares(self, usage: Floats) -> Floats:
        """Return the dominant share of the cluster of each resource usage; shapes (k,) and (k, R)."""
        # Usage of a resource that the cluster lacks is an infinite share.
        missing = (usage[:, self.capacity <= 0] > 0).any(axis=1)
        return np.where(missing, np.inf, dominant_shares(usage, self.capacity))

    def _only(self, needed: Knowledge) -> None:
        if self.knows is not needed:
            raise ForbiddenKnowledgeError(
                f"a policy that knows {self.knows.value} asked for {needed.value}; "
                f"it must say that it does: knows = Knowledge.{needed.name}"
            )


class ViewWriter:
    """The jobs and configurations of a trace, in the order of arrival, and what a policy sees of them.

    Parameters
    ----------
    order
        The jobs in the order of their arrival, as indices into the table.
    malleable
        Whether the policy chooses among configurations; otherwise only requested ones have a row.
    shown
        Flags of the configurations of the instance that policies may choose, besides the requested ones; None
        for all.

    Attributes
    ----------
    knows
        What the policy said that it knows.
    menu_row
        The row of the instance's configuration table for each row here, shape (K,).
    owner
        The job of each row, shape (K,).
    speed, work
        Work per second of each row, and total work of each job. Where there are requested configurations
        alone, work is measured in seconds, and all speeds are 1.
    """

    def __init__(
        self,
        instance: SchedulingInstance,
        order: Ints,
        knows: Knowledge,
        malleable: bool = False,
        shown: Flags | None = None,
    ) -> None:
        table, menus, jobs = instance.table(), instance.menus(), len(order)
        demand = table.total_demand[order]
        self.duration_s: Floats = table.duration_s[order]
        self.first: Ints = np.arange(jobs + 1)
        self.menu_row, self.requested = menus.requested[order], np.arange(jobs)
        self.usage, self.speed, self.work = demand, np.ones(jobs), self.duration_s
        if malleable:
            begin, end = menus.first[order], menus.first[order + 1]
            self.first, self.menu_row = offsets(end - begin), rows_of_runs(begin, end)[0]
            self.requested = menus.requested[order] - begin + self.first[:-1]
            if shown is not None:
                kept = shown[self.menu_row]
                kept[self.requested] = True
                before = offsets(kept)
                self.menu_row = self.menu_row[kept]
                self.first, self.requested = before[self.first], before[self.requested]
            self.usage, self.speed = menus.usage[self.menu_row], menus.speed[self.menu_row]
            self.work = menus.work[order]
        self.owner: Ints = run_of_each(self.first)
        given = table.estimate_s[order]
        # Kept here too, since a policy could change what its view says.
        self.knows = knows
        self.view = view = View(jobs, len(instance.pool), len(self.menu_row), knows)
        self.width = widths(demand, instance.capacity_over_time[1][0])
        self._columns = [
            (view.arrival_s, table.arrival_s[order]),
            (view.weight, table.weight[order]),
            (view.tenant, table.tenant[order]),
            (view.demand, demand),
            (view.width, self.width),
            (view.requested, self.requested),
            (view.first[1:], self.first[1:]),
        ]
        if knows is Knowledge.ESTIMATE:
            self._columns.append((view.estimate_s, np.where(np.isnan(given), self.duration_s, given)))
        if knows is Knowledge.REMAINING:
            self._columns.append((view.remaining_s, self.duration_s))
        if knows is Knowledge.PROGRESS:
            self._columns += [(view.work, self.work), (view.left, self.work)]
        self._rows = [(view.usage, self.usage)]
        if knows in OF_CONFIGURATIONS:
            self._rows.append((view.speed, self.speed))
        view.lease_s = instance.lease_s
        shares = [instance.tenant_shares.get(name, 1.0) for name in table.tenants]
        view.tenant_shares = np.array(shares, dtype=float)

    def uncover(self, jobs: slice) -> None:
        """Write the data of arriving jobs, a slice in the order of arrival, into the policy's view."""
        rows = slice(int(self.first[jobs.start]), int(self.first[jobs.stop]))
        for part, columns in ((jobs, self._columns), (rows, self._rows)):
            for shown, own in columns:
                shown[part] = own[part]
        self.view._arrived = jobs.stop

    def ended(self, jobs: Ints) -> None:
        """Write that jobs have completed; a policy that knows past durations sees those of these jobs."""
        self.view.row[jobs] = -1
        self.view._done[jobs] = True
        if self.knows is Knowledge.PAST:
            past = zip(self.duration_s[jobs].tolist(), self.width[jobs].tolist(), strict=True)
            self.view._past.extend(past)


def widths(demand: Floats, capacity: Floats) -> Floats:
    """Return the width of each job: its demand as one number (of the first resource), shape (J,).

    With several resources it is the dominant share of the cluster times the amount of the first resource.
    """
    if demand.shape[1] == 1:
        return demand[:, 0]
    available = capacity[capacity > 0]
    return dominant_shares(demand, capacity) * (available[0] if len(available) else 1.0)
