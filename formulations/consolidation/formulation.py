"""Consolidation: which servers each job runs on (Tiresias, NSDI'19, section 3.3).

Sets
    servers n, resources r, jobs j with groups g of identical tasks; E_j eligible servers (GPU model);
    racks k; P_j preferred and Q_j required jobs
Data
    F_nr free; d_gr demand of a task; a_g tasks; v_j value; m_j fewest servers the job could ever use;
    b_n existing traffic and c_g traffic of a task [Gbit/s]; s_j(u) relative speed on u servers;
    ρ_j hours of its value that a running job loses if it moves
Variables
    x_gn ≥ 0 integer: tasks of group g on server n;  y_jn ∈ {0,1}: job j uses n;  z_j ∈ {0,1}: j is placed;
    k_j ∈ {0,1}: no task of running job j moves
Constraints
    Σ_n x_gn = a_g z_j;  Σ_g d_gr x_gn ≤ F_nr;  x_gn ≤ min(a_g, what fits) y_jn;  y_jn ≤ Σ_g x_gn
    Σ_n y_jn ≤ m_j z_j for required jobs;  z_j = 1 for jobs that must be placed
    x_gn = c_gn for running jobs that stay
    x_gn ≥ c_gn k_j with c_gn tasks there now;  Σ over running jobs of (1 − k_j) ≤ the most that may move
Objectives, lexicographic in the order that the instance lists
    value       max Σ v_j z_j − Σ over running jobs of v_j ρ_j (1 − k_j)
    spread      min Σ over preferred jobs of (Σ_n y_jn − m_j z_j)
    servers     min number of servers with y_jn = 1 for some j
    racks       min Σ_j (racks used − z_j); a server without a rack is a rack of its own
    stops       min Σ over running jobs of (1 − z_j)
    migrations  min Σ over groups with a current placement of tasks not where they are now; on other
                devices of their server only if the instance says that this counts
    slowdown    min Σ v_j (1 − s_j(Σ_n y_jn)) over placed jobs
    traffic     min of the largest b_n + Σ c_g x_gn over servers
    imbalance   min of the largest less the smallest b_n + Σ c_g x_gn over servers
    free        max min(count, number of units with no task): servers or racks that hold running tasks now.
                What runs with all its tasks is placed. Tasks leave only servers of freed units, unless
                chains are allowed; running tasks go to servers that are empty now only with `into_empty`
On single devices
    each task holds named devices of its server; a device is whole, shared or partitioned, never two of
    these; shares of a device come to 1000 thousandths at most; partitions start where their geometry
    allows it, and do not overlap. Bounds are those of the pooled relaxation and of prices by shape of
    server.

The value of each objective is computed from the plan alone.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from ...instances.common.base import ProblemKind
from ...instances.common.errors import OptionError, TooLargeError
from ...instances.consolidation.instance import ConsolidationInstance, Server
from ...instances.consolidation.job import GpuModels, PlacementJob, allows, models_of
from ..common.formulation import Formulation
from ..common.objective import Bounds, Diagnosis, Values, Violation, exact_fraction, refute_all_plans, within
from .build_classes import ClassifiedCluster
from .certificate import MUST_PLACE
from .check.bounds import (
    elementary_bounds,
    elementary_infeasibility,
    price_bounds,
    read_certificate,
    server_value_bounds,
)
from .check.classes import CheckedCluster, ClassMismatch
from .check.device_bound import read_device_certificate, shape_bounds
from .classes import ClassTable, job_value, restart_loss
from .cluster_data import ClusterData
from .explain import DeviceReasons, Reasons, action_of
from .fewest_servers import fewest_on_devices, group_servers, pooled_relaxation
from .plan import JobPlacement, Plan, device_violations, placed_tasks, staying_tasks


def _placed_entries(data: ClusterData, plan: Plan) -> Iterator[tuple[PlacementJob, JobPlacement]]:
    return ((data.jobs[entry.job], entry) for entry in plan if entry.placed)


def moving_tasks(data: ClusterData, plan: Plan) -> Counter[str]:
    """Return the number of running tasks that move or stop, by job; only jobs that have such tasks."""
    entries, moving = {entry.job: entry for entry in plan}, Counter[str]()
    for job in data.running:
        entry = entries.get(job.name, JobPlacement(job=job.name, placed=False))
        moving[job.name] = sum(
            group.running_tasks - staying_tasks(group, entry, data.instance.device_moves)
            for group in job.task_groups
        )
    return +moving


def _value(data: ClusterData, plan: Plan) -> float:
    if not data.restarts:
        return math.fsum(job.worth for job, _ in _placed_entries(data, plan))
    # In fractions, for what is won and lost may cancel to nothing.
    worth = Counter(job_value(job) for job, _ in _placed_entries(data, plan))
    worth.subtract(restart_loss(data.instance, data.jobs[name]) for name in moving_tasks(data, plan))
    return float(sum((n * amount for amount, n in worth.items()), Fraction(0)))


def _spread(data: ClusterData, plan: Plan) -> int:
    return sum(
        len(entry.used_servers) - (data.fewest(job) or 0)
        for job, entry in _placed_entries(data, plan)
        if data.instance.spread_of(job) == "preferred"
    )


def _used_servers(plan: Plan) -> set[str]:
    return {server for entry in plan if entry.placed for server in entry.used_servers}


def _servers(data: ClusterData, plan: Plan) -> int:
    return len(_used_servers(plan) | data.in_use)


def _racks(data: ClusterData, plan: Plan) -> int:
    return sum(len(set(map(data.rack_of, entry.used_servers))) - 1 for entry in plan if entry.placed)


def _stops(data: ClusterData, plan: Plan) -> int:
    placed = {entry.job for entry in plan if entry.placed}
    return sum(job.name not in placed for job in data.running)


def _migrations(data: ClusterData, plan: Plan) -> int:
    return moving_tasks(data, plan).total()


def _slowdown(data: ClusterData, plan: Plan) -> float:
    # In fractions, for what is won and lost may cancel to nothing.
    counts = Counter(
        (job_value(job), job.relative_speed(len(entry.used_servers)))
        for job, entry in _placed_entries(data, plan)
        if job.speed_by_servers
    )
    return float(
        sum((n * worth * (1 - exact_fraction(speed)) for (worth, speed), n in counts.items()), Fraction(0))
    )


def freed_units(data: ClusterData, plan: Plan) -> list[str]:
    """Return the units that the plan empties, of those that the objective `free` counts."""
    used = _used_servers(plan)
    return [unit for unit, servers in data.releasable.items() if used.isdisjoint(servers)]


def _free(data: ClusterData, plan: Plan) -> int:
    return min(data.most_freed, len(freed_units(data, plan)))


def _loads(data: ClusterData, plan: Plan) -> Collection[Fraction]:
    """Return the traffic of each server [Gbit/s], exactly, since loads may differ by little."""
    loads = {name: exact_fraction(server.traffic_gbit_per_s) for name, server in data.servers.items()}
    for _, group, server, count in placed_tasks(data.jobs, plan):
        loads[server] += count * exact_fraction(group.traffic_gbit_per_s)
    return loads.values()


def _traffic(data: ClusterData, plan: Plan) -> float:
    return float(max(_loads(data, plan)))


def _imbalance(data: ClusterData, plan: Plan) -> float:
    loads = _loads(data, plan)
    return float(max(loads) - min(loads))


EVALUATORS: dict[str, Callable[[ClusterData, Plan], float]] = {
    "value": _value,
    "spread": _spread,
    "servers": _servers,
    "racks": _racks,
    "stops": _stops,
    "migrations": _migrations,
    "slowdown": _slowdown,
    "traffic": _traffic,
    "imbalance": _imbalance,
    "free": _free,
}
"""The evaluation function of each objective."""


class ConsolidationFormulation(ClassifiedCluster, Formulation[ConsolidationInstance, JobPlacement]):
    """The formulation of a consolidation instance: constraints, objectives, bounds and certificates."""

    kind: ClassVar[ProblemKind] = "consolidation"
    entry = JobPlacement

    def violations(self, plan: Plan) -> list[Violation]:
        """Return every constraint violation of the plan."""
        violations: list[Violation] = []
        seen: set[str] = set()
        for entry in plan:
            job = self.jobs.get(entry.job)
            if job is None:
                violations.append(Violation("job", f"{entry.job!r} is not in the instance"))
            elif entry.job in seen:
                violations.append(Violation("one placement", f"job {entry.job!r} is listed twice"))
            else:
                seen.add(entry.job)
                violations += self._entry_violations(job, entry)
        violations += [
            Violation("one placement", f"job {name!r} is missing") for name in self.jobs if name not in seen
        ]
        return violations or [*self._overuse(plan), *self._wrong_moves(plan)]

    def _wrong_moves(self, plan: Plan) -> Iterator[Violation]:
        """Yield too many moves, tasks on drained servers, and wrong moves where servers are freed."""
        most = self.instance.max_moves
        if most is not None:
            count = len(moving_tasks(self, plan))
            if count > most:
                yield Violation("max_moves", f"{count} running jobs move or stop; at most {most} may")
        for entry in plan:
            for server in self.instance.drained.intersection(entry.used_servers):
                yield Violation("drain", f"job {entry.job!r} is on {server!r}, which is to be empty")
        aim = self.instance.free
        if aim is None:
            return
        freed = {server for unit in freed_units(self, plan) for server in self.releasable[unit]}
        entries = {entry.job: entry for entry in plan}
        for job in self.running:
            for group in job.task_groups:
                placed = entries[job.name].tasks.get(group.name, {})
                for server, count in group.current.items():
                    if aim.direct and server not in freed and placed.get(server, 0) < count:
                        what = f"job {job.name!r} leaves {server!r}, which is not freed: that needs chains"
                        yield Violation("free", what)
                for server in placed:
                    if self.closed(server):
                        what = f"job {job.name!r} moves to {server!r}, which is empty: that needs into_empty"
                        yield Violation("free", what)

    def _entry_violations(self, job: PlacementJob, entry: JobPlacement) -> Iterator[Violation]:
        several, name = job.groups is not None, job.name
        if not entry.placed:
            if self.instance.requires(job):
                yield Violation("must_place", f"job {name!r} must be placed")
            if entry.tasks:
                yield Violation("all or nothing", f"job {name!r} is not placed, but has tasks on servers")
        elif (entry.groups is not None) != several or (several and entry.servers):
            listed = "groups" if several else "servers"
            yield Violation("groups", f"job {name!r} must list {listed}")
        else:
            yield from _task_count_violations(job, entry)
            # What runs and stays is right.
            if name not in self.instance.staying:
                yield from self._server_violations(job, entry.used_servers)
        if name in self.instance.staying and not _keeps_placement(job, entry):
            yield Violation("stays", f"job {name!r} runs and stays where it is")

    def fitting(self, plan: Plan) -> dict[str, JobPlacement]:
        """Return the entries, by job, of placed jobs that break no constraint together, the first ones first.

        The plan may be of another instance. Two jobs on one device, or too many moves, are not found.
        """
        fitting: dict[str, JobPlacement] = {}
        used = Counter[tuple[str, str]]()
        for entry in plan:
            job = self.jobs.get(entry.job)
            if job is None or not entry.placed or any(self._entry_violations(job, entry)):
                continue
            if device_violations(self.jobs, self.servers, [entry]):
                continue
            more = Counter[tuple[str, str]]()
            for _, group, server, count in placed_tasks(self.jobs, [entry]):
                more.update({(server, name): count * amount for name, amount in group.demand.items()})
            if all(
                within(used[server, name] + amount, self.servers[server].available.get(name, 0.0))
                for (server, name), amount in more.items()
            ):
                used.update(more)
                fitting[entry.job] = entry
        return fitting

    def _server_violations(self, job: PlacementJob, used: set[str]) -> Iterator[Violation]:
        """Yield servers that a job may not use, and too many of them."""
        for server in sorted(used):
            if server not in self.servers:
                yield Violation("server", f"job {job.name!r}: there is no server {server!r}")
            elif not allows(job.gpu_model, self.servers[server].gpu_model):
                wanted = " or ".join(models_of(job.gpu_model))
                what = f"job {job.name!r} needs {wanted}; {server!r} has another model"
                yield Violation("gpu_model", what)
        fewest = self.fewest(job) if self.instance.spread_of(job) == "required" else None
        if fewest is not None and len(used) > fewest:
            what = f"job {job.name!r} uses {len(used)} servers; at most {fewest} are allowed"
            yield Violation("required spread", what)

    def _overuse(self, plan: Plan) -> Iterator[Violation]:
        """Yield the violations of the servers' residual capacities.

        Jobs that stay and all other jobs are compared apart, each with a tolerance of its own size.
        """
        by_others: dict[tuple[str, str], list[float]] = defaultdict(list)
        by_staying: dict[tuple[str, str], list[Fraction]] = defaultdict(list)
        for entry, group, server, count in placed_tasks(self.jobs, plan):
            for resource, amount in group.demand.items():
                if entry.job in self.instance.staying:
                    by_staying[server, resource].append(count * exact_fraction(amount))
                else:
                    by_others[server, resource].append(count * amount)
        for server, resource in dict.fromkeys((*by_others, *by_staying)):
            limit = self.servers[server].available.get(resource, 0.0)
            kept = sum(by_staying[server, resource], Fraction(0))
            used, left = math.fsum(by_others[server, resource]), max(0.0, float(exact_fraction(limit) - kept))
            if not within(float(kept), limit) or not within(used, left):
                total = float(kept) + used
                what = f"the plan takes {total:g}, {total - limit:g} more than the {limit:g} free"
                yield Violation(f"free {resource} of server {server}", what)

    def evaluate(self, plan: Plan) -> tuple[float, ...]:
        """Return the value of each objective of a plan, in lexicographic order."""
        return tuple(float(EVALUATORS[objective.name](self, plan)) for objective in self.objectives)

    def finish(self, plan: Plan) -> tuple[JobPlacement, ...]:
        """Return the plan in the order of the jobs, with an explanation for each job left out."""
        entries = {entry.job: entry for entry in plan}
        reasons = self._reasons(plan)
        finished = []
        for position, job in enumerate(self.instance.jobs):
            entry = entries[job.name]
            action = action_of(job, entry, self.instance.device_moves) if self.running else None
            if not entry.placed:
                entry = JobPlacement(job=job.name, placed=False, reason=reasons.why(position), action=action)
            elif entry.action != action or entry.reason is not None:
                entry = entry.model_copy(update={"action": action, "reason": None})
            finished.append(entry)
        return tuple(finished)

    def _reasons(self, plan: Plan) -> Reasons:
        """Return the generator of explanations for the jobs that the plan leaves out."""
        return Reasons(self, plan)

    @cached_property
    def _checked(self) -> CheckedCluster:
        """What the check derives for combinatorial bounds, and for those by prices of classes."""
        return CheckedCluster(self)

    def shared_tables(self) -> str | None:
        """Return a note on tables that differ from the solvers', or on m_j that are not verified.

        None without either.
        """
        checked = self._checked
        if checked.fault is not None:
            return f"classes: {checked.fault}; so prices prove nothing"
        if not checked.too_large:
            return None
        share = f"{checked.too_large:,} of {checked.requests:,}"
        return f"fewest servers of jobs: shared with the methods for {share} requests; the others are equal"

    def elementary_bounds(self) -> Bounds:
        """Return a combinatorial bound on each objective; None where none is known."""
        return elementary_bounds(self._checked)

    def certified_bounds(self, certificate: Any, values: Values = None) -> Bounds:
        """Return the bound on each objective that dual prices prove, or the combinatorial one."""
        elementary = elementary_bounds(self._checked, values)
        proven = price_bounds(self._checked, certificate, values, elementary)
        if proven.get(MUST_PLACE, 0) > 0:
            return tuple(math.inf if o.sense == "min" else -math.inf for o in self.objectives)
        return tuple(
            objective.tighter(bound, proven.get(objective.name))
            for objective, bound in zip(self.objectives, elementary, strict=True)
        )

    def read(self, certificate: Any) -> Any:
        """Return a certificate in its types, or its first format error as text."""
        try:
            return read_certificate(self._checked, certificate)
        except (TooLargeError, ClassMismatch) as error:
            return str(error)

    def prices(self, certificate: Any, plan: Plan) -> dict[str, float] | None:
        """Return an upper bound on the marginal value of one more empty server, by server type."""
        if certificate is None:
            return None
        # The plan may be of another instance; that is found out elsewhere.
        value = EVALUATORS["value"](self, [entry for entry in plan if entry.job in self.jobs])
        return server_value_bounds(self._checked, certificate, value) or None

    def advice(self, prices: Mapping[str, float], value: float) -> str | None:
        """Return a sentence that names the server type with the largest bound on its marginal value."""
        name = max(prices, key=lambda name: prices[name])
        if prices[name] <= 0:
            return "no further server of a shape that is there would add to the value"
        return f"one more {name} would add at most {prices[name]:g} to the value of {value:g}"

    def elementary_infeasibility(self) -> Diagnosis | None:
        """Diagnose required jobs that never fit, or a resource whose capacity they exceed together.

        None if neither is the case.
        """
        return elementary_infeasibility(self._checked.cluster)


def _keeps_placement(job: PlacementJob, entry: JobPlacement) -> bool:
    """Return whether all tasks of a running job keep their current servers and devices."""
    return entry.placed and all(
        entry.tasks.get(group.name) == group.current
        and staying_tasks(group, entry, device_moves=True) == group.tasks
        for group in job.task_groups
    )


def _task_count_violations(job: PlacementJob, entry: JobPlacement) -> Iterator[Violation]:
    wanted = {group.name: group.tasks for group in job.task_groups}
    for group in set(entry.tasks) - set(wanted):
        yield Violation("groups", f"job {job.name!r} has no group {group!r}")
    for group, count in wanted.items():
        placed = sum(entry.tasks.get(group, {}).values())
        if placed != count:
            yield Violation("all or nothing", f"job {job.name!r} has {placed} of {count} {group} on servers")


def formulation_of(instance: ConsolidationInstance) -> ConsolidationFormulation:
    """Return the formulation of an instance: with single devices if it has any, else with amounts."""
    return DeviceFormulation(instance) if instance.has_devices else ConsolidationFormulation(instance)


class DeviceFormulation(ConsolidationFormulation):
    """The formulation of a consolidation instance with single devices."""

    @cached_property
    def pooled(self) -> ConsolidationFormulation:
        """The formulation of the relaxation in which the devices of a server are one divisible amount."""
        relaxed = pooled_relaxation(self.instance)
        others = ConsolidationFormulation(relaxed)
        jobs = []
        for job, plain in zip(self.instance.jobs, relaxed.jobs, strict=True):
            ruled = self.instance.spread_of(job) != "free"
            if ruled and any(g.asks for g in job.task_groups) and self.fewest(job) != others.fewest(plain):
                # Fewer servers hold the amounts, which must not forbid what the devices need.
                plain = plain.model_copy(update={"spread": "free"})  # noqa: PLW2901
            jobs.append(plain)
        return ConsolidationFormulation(relaxed.model_copy(update={"jobs": tuple(jobs)}))

    @property
    def classes(self) -> ClassTable:
        """Raise OptionError, because equivalence classes count amounts and ignore single devices."""
        raise OptionError("this method does not place single devices; take exact, best-fit or milp")

    def _fewest_servers(self, job: PlacementJob) -> int | None:
        if not any(group.asks for group in job.task_groups):
            return super()._fewest_servers(job)
        if job.gpu_model not in self._alike:
            self._alike[job.gpu_model] = group_servers(self.eligible(job))
        return fewest_on_devices(job.task_groups, self._alike[job.gpu_model])

    @cached_property
    def _alike(self) -> dict[GpuModels, list[tuple[Server, int]]]:
        return {}

    def violations(self, plan: Plan) -> list[Violation]:
        """Return every constraint violation; those of devices only if there are no others."""
        violations = super().violations(plan)
        return violations or device_violations(self.jobs, self.servers, plan)

    def _reasons(self, plan: Plan) -> Reasons:
        return DeviceReasons(self, self.pooled, plan)

    @property
    def _checked(self) -> CheckedCluster:
        """What the check derives with devices pooled to amounts."""
        return self.pooled._checked

    def certified_bounds(self, certificate: Any, values: Values = None) -> Bounds:
        """Return, by objective, the tighter bound of the pooled relaxation and of prices by server shape."""
        parsed = read_device_certificate(self.instance, certificate)
        if isinstance(parsed, str):
            return self.elementary_bounds()
        bounds = self.pooled.certified_bounds(parsed.pooled, values)
        if refute_all_plans(bounds):
            return bounds
        return shape_bounds(self.instance, self.objectives, parsed.devices, values, bounds)

    def certificate_fault(self, certificate: Any) -> str | None:
        """Return the error in the format of a certificate; None if it is valid."""
        parsed = read_device_certificate(self.instance, certificate)
        if isinstance(parsed, str):
            return parsed
        return None if parsed.pooled is None else self.pooled.certificate_fault(parsed.pooled)

    def prices(self, certificate: Any, plan: Plan) -> dict[str, float] | None:
        """Return None: prices of the pooled relaxation would include devices that hold no task."""
        del certificate, plan
        return None
