"""List heuristics for vector bin packing: jobs are placed one after the other in residual capacities.

Capacities have a tolerance for the rounding of floating-point sums, within that of the check. Placed jobs are
not moved, so residual capacities only shrink: where a job did not fit, an equal one is not tried.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from ....formulations.common.clock import check_time
from ....formulations.common.objective import TOLERANCE
from ....formulations.consolidation.formulation import ConsolidationFormulation
from ....formulations.consolidation.plan import JobPlacement, Placement, entry_of
from ....instances.common.errors import OutOfTimeError
from ....instances.consolidation.instance import Server
from ....instances.consolidation.job import GpuModels, PlacementJob
from ...common.base import Clock, Outcome, Solver
from ...common.result import Limit, SolveOptions

Counts = tuple[int, ...]
"""Number of tasks of each group."""
Demand = tuple[tuple[int, float], ...]
"""Index and amount of each resource that a task takes."""
Piece = tuple[int, Counts]
"""Index of a server, and the tasks of a job on it."""

CAPACITY_TOLERANCE = 1 + TOLERANCE / 2


@dataclass(frozen=True)
class Request:
    """The demand of a job: tasks of each group with their demands, and allowed GPU models.

    Attributes
    ----------
    demands, tasks
        Demand of one task, and number of tasks, of each group.
    gpu_model
        Allowed GPU models; None: any.
    """

    demands: tuple[Demand, ...]
    tasks: Counts
    gpu_model: GpuModels

    def load(self, waiting: Counts, left: Sequence[float]) -> Counts:
        """Return the tasks of each group that fit on a server with residual capacity `left`, in order.

        At most the remaining tasks are taken.
        """
        counts = []
        for demand, most in zip(self.demands, waiting, strict=True):
            fit = most
            for resource, amount in demand:
                if fit * amount > left[resource] * CAPACITY_TOLERANCE:
                    fit = max(0, int(left[resource] * CAPACITY_TOLERANCE / amount))
            counts.append(fit)
            if len(waiting) > 1 and fit:
                left = self._less(left, demand, fit)
        return tuple(counts)

    def after(self, counts: Counts, left: Sequence[float]) -> tuple[float, ...]:
        """Return the residual capacity of a server after these numbers of tasks, for each resource."""
        for demand, count in zip(self.demands, counts, strict=True):
            left = self._less(left, demand, count)
        return tuple(left)

    @staticmethod
    def _less(left: Sequence[float], demand: Demand, count: int) -> list[float]:
        less = list(left)
        for resource, amount in demand:
            less[resource] -= count * amount
        return less


class FreeCapacity(ABC):
    """Residual capacities of the servers, and a rule for placing jobs on them.

    Parameters
    ----------
    formulation
        Formulation with servers, in the order of the instance, and jobs.
    """

    def __init__(self, formulation: ConsolidationFormulation) -> None:
        jobs, resources = formulation.instance.jobs, formulation.instance.resource_names
        self.servers = list(formulation.servers.values())
        models = any(job.gpu_model is not None for job in jobs)
        self.models = [server.gpu_model if models else None for server in self.servers]
        self.capacity = [self._vector(server.capacity, resources) for server in self.servers]
        self.free = [self._vector(server.available, resources) for server in self.servers]

    @staticmethod
    def _vector(amounts: dict[str, float], resources: Sequence[str]) -> tuple[float, ...]:
        return tuple(amounts.get(name, 0.0) for name in resources)

    @abstractmethod
    def place(self, request: Request, most_servers: int | None) -> list[Piece] | None:
        """Place all tasks of a job on at most `most_servers` servers, by index; None if impossible."""


def free_capacity_shares(formulation: ConsolidationFormulation) -> list[dict[str, float]]:
    """Return each job's total demand for each resource as a share of the total free capacity."""
    free = {
        name: math.fsum(server.available.get(name, 0.0) for server in formulation.servers.values())
        for name in formulation.instance.resource_names
    }
    shares_of_jobs = []
    for job in formulation.instance.jobs:
        shares: dict[str, float] = {}
        for group in job.task_groups:
            for name, amount in group.demand.items():
                if amount:
                    share = group.tasks * amount / free[name] if free[name] else math.inf
                    shares[name] = shares.get(name, 0.0) + share
        shares_of_jobs.append(shares)
    return shares_of_jobs


class ListHeuristic(Solver[ConsolidationFormulation]):
    """Places one job after the other, required jobs first; a job that does not fit is left out."""

    kinds = ("consolidation",)
    capacities: type[FreeCapacity]
    """Class of the residual capacities of all servers, with the heuristic's rule of placement."""

    @abstractmethod
    def sizes(self, formulation: ConsolidationFormulation) -> list[tuple[float, ...]]:
        """Return the sort key of each job, descending; required jobs come first in any case."""

    def most_servers(self, formulation: ConsolidationFormulation, job: PlacementJob) -> int | None:
        """Return an upper bound on the number of servers of a job by its spread rule; None if unbounded."""
        required = formulation.instance.spread_of(job) == "required"
        return formulation.fewest(job) if required else None

    def solve(self, formulation: ConsolidationFormulation, options: SolveOptions, clock: Clock) -> Outcome:
        """Place one job after the other in a fixed order, without moving any of them again."""
        del options
        jobs = formulation.instance.jobs
        capacity = self.capacities(formulation)
        columns = {name: index for index, name in enumerate(formulation.instance.resource_names)}
        placed: dict[int, JobPlacement] = {}
        waiting: set[tuple[Request, int | None]] = set()
        limit: Limit = "none"
        for position in self._order(formulation):
            job = jobs[position]
            request = job_request(job, columns)
            try:
                with clock.enforced():
                    check_time()
                    most = self.most_servers(formulation, job)
                    # Capacities only shrink, so what did not fit before does not fit now.
                    never = (request, most) in waiting or formulation.fewest(job) is None
                    pieces = None if never else capacity.place(request, most)
            except OutOfTimeError:
                if job.must_place:
                    return Outcome(limit="time")
                limit = "time"
                break
            if pieces is not None:
                placed[position] = entry_of(job, _tasks(job, capacity.servers, pieces))
            elif job.must_place:
                return Outcome(message=self._no_room(job, most))
            else:
                waiting.add((request, most))
        plan = [placed.get(j) or entry_of(job, {}) for j, job in enumerate(jobs)]
        return Outcome(plan, limit=limit)

    def _order(self, formulation: ConsolidationFormulation) -> list[int]:
        sizes = zip(formulation.instance.jobs, self.sizes(formulation), strict=True)
        ranks = [(not job.must_place, *(-figure for figure in size)) for job, size in sizes]
        return sorted(range(len(ranks)), key=ranks.__getitem__)

    def _no_room(self, job: PlacementJob, most: int | None) -> str:
        where = "" if most is None else f" on {most} server{'s' if most > 1 else ''}"
        return f"{self.name}: no room is left{where} for job {job.name!r}, which must be placed"


def job_request(job: PlacementJob, columns: dict[str, int]) -> Request:
    """Return a job's tasks and demands as a `Request`; `columns` maps resource names to indices."""
    groups = job.task_groups
    return Request(
        tuple(
            tuple((columns[name], amount) for name, amount in group.demand.items() if amount)
            for group in groups
        ),
        tuple(group.tasks for group in groups),
        job.gpu_model,
    )


def _tasks(job: PlacementJob, servers: Sequence[Server], pieces: Sequence[Piece]) -> Placement:
    return {
        group.name: {servers[server].name: counts[g] for server, counts in pieces if counts[g]}
        for g, group in enumerate(job.task_groups)
    }
