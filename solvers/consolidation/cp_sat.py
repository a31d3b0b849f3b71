"""Consolidation on CP-SAT: integer tasks on servers, with literals for used servers, racks and jobs.

It is both a method and the compact model with named servers, in which other methods continue from the first
objective that classes of servers do not settle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from ...formulations.common.clock import check_model_size, check_time
from ...formulations.consolidation.classes import exact_fraction, job_value
from ...formulations.consolidation.fewest_servers import tasks_that_fit
from ...formulations.consolidation.formulation import ConsolidationFormulation
from ...formulations.consolidation.milp import (
    DeviceRows,
    TaskKey,
    current_tasks,
    freed_count,
    kept_tasks,
    model_coefficients,
)
from ...formulations.consolidation.plan import JobPlacement, assign_devices, entry_of
from ...instances.common.errors import TooLargeError
from ...instances.consolidation.job import PlacementJob
from ..backends import cp_sat
from ..common.base import Clock, Outcome
from ..common.result import SolveOptions
from .progress import SETTINGS


class ConsolidationCpSat(cp_sat.CpSat[ConsolidationFormulation]):
    """Solves the compact placement model (integer tasks on named servers) on CP-SAT."""

    kinds = ("consolidation",)
    what = "tasks on servers, objective after objective, on OR-Tools CP-SAT"

    def model(self, formulation: ConsolidationFormulation) -> cp_sat.CpModel:
        """Return the CP-SAT model of an instance, with named servers."""
        check_model_size(model_coefficients(formulation), "the model for CP-SAT")
        return _Model(formulation).finished_model()


class _Model:
    """Builder of the CP-SAT model of a consolidation instance, with one method for each objective."""

    def __init__(self, formulation: ConsolidationFormulation) -> None:
        from ortools.sat.python import cp_model

        self.f, self.m = formulation, cp_model.CpModel()
        self.x: dict[TaskKey, Any] = {}
        self.y: dict[str, dict[str, Any]] = {job.name: {} for job in formulation.instance.jobs}
        self.z: dict[str, Any] = {}
        self.k: dict[str, Any] = {}
        for job in formulation.instance.jobs:
            self._place(job)
        self._capacities()
        self.rows: DeviceRows | None = None
        if formulation.instance.has_devices:
            self._devices()
        self._limit_moves()

    def _variable(self, letter: str, low: int, high: int) -> Any:
        """Add an integer variable with a lower and an upper limit."""
        check_time()
        return self.m.new_int_var(low, high, letter)

    def _devices(self) -> None:
        """Add the constraints on the contents of each server's devices (single GPUs)."""
        self.rows = DeviceRows(self._variable, self.m.add, sum)
        self.rows.write(self.f.jobs, self.f.servers, self.x)

    def _place(self, job: PlacementJob) -> None:
        fewest = self.f.fewest(job)
        z = self.z[job.name] = self.m.new_bool_var(f"z {job.name}")
        if self.f.instance.requires(job):
            self.m.add(z == 1)
        by_group: dict[str, list[Any]] = {group.name: [] for group in job.task_groups}
        for server in self.f.eligible(job) if fewest is not None else []:
            check_time()
            on_server = []
            for group in job.task_groups:
                fits = tasks_that_fit(server.available, group.demand, group.tasks)
                if fits:
                    x = self.m.new_int_var(0, fits, f"x {job.name} {group.name} {server.name}")
                    self.x[job.name, group.name, server.name] = x
                    by_group[group.name].append(x)
                    on_server.append(x)
            if on_server:
                y = self.y[job.name][server.name] = self.m.new_bool_var(f"y {job.name} {server.name}")
                self.m.add(sum(on_server) >= 1).only_enforce_if(y)
                self.m.add(sum(on_server) == 0).only_enforce_if(~y)
        for group in job.task_groups:
            self.m.add(sum(by_group[group.name]) == group.tasks * z)
        if self.f.instance.spread_of(job) == "required":
            self.m.add(sum(self.y[job.name].values()) <= (fewest or 0) * z)

    def _capacities(self) -> None:
        load: dict[tuple[str, str], list[tuple[Any, float]]] = defaultdict(list)
        for job in self.f.instance.jobs:
            for group in job.task_groups:
                check_time()
                for server in self.f.eligible(job):
                    x = self.x.get((job.name, group.name, server.name))
                    for resource, amount in group.demand.items() if x is not None else ():
                        load[server.name, resource].append((x, amount))
        for (server_name, resource), terms in load.items():
            check_time()
            free = self.f.servers[server_name].available.get(resource, 0.0)
            weights, limit = cp_sat.integer_row([a for _, a in terms], free)
            self.m.add(sum(w * x for (x, _), w in zip(terms, weights, strict=True)) <= limit)

    def _integer_sum(self, pairs: Sequence[tuple[Any, float]], sense: str) -> tuple[Any, float]:
        """Return Σ cᵢxᵢ over (literal, coefficient) pairs, scaled to integers, and the scale factor."""
        terms = cp_sat.integer_terms([c for _, c in pairs], sense, sum(abs(c) for _, c in pairs) or 1.0)
        return sum(w * x for (x, _), w in zip(pairs, terms.numbers, strict=True)), terms.scale

    def value(self) -> tuple[Any, float]:
        pairs: list[tuple[Any, float]] = [(self.z[job.name], job.worth) for job in self.f.instance.jobs]
        lost = self.f.restarts
        pairs += [(self._stays(self.f.jobs[name]), cost) for name, cost in lost.items()]
        # All restarts are paid, but for jobs that stay.
        return self._integer_sum([*pairs, *((-1, cost) for cost in lost.values())], "max")

    def _stays(self, job: PlacementJob) -> Any:
        """Return the literal that is true only if no task of a running job moves."""
        if job.name not in self.k:
            k = self.k[job.name] = self.m.new_bool_var(f"stays {job.name}")
            for place, count in current_tasks(job):
                if place in self.on_devices:
                    self.m.add(sum(self.on_devices[place]) >= count * k)
                else:
                    self.m.add(self.x.get(place, 0) >= count * k)
        return self.k[job.name]

    @cached_property
    def on_devices(self) -> Mapping[TaskKey, Any]:
        """Variables of the tasks that stay on their devices, by job, task group and server."""
        moves = self.rows if self.f.instance.device_moves else None
        return moves.staying(self.f.jobs, self.x) if moves is not None else {}

    def _limit_moves(self) -> None:
        """Add the constraint on the maximum number of running jobs that migrate."""
        most = self.f.instance.max_moves
        if most is not None and self.f.running:
            stays = [self._stays(job) for job in self.f.running]
            self.m.add(sum(stays) >= len(stays) - most)

    def spread(self) -> tuple[Any, float]:
        preferred = [job for job in self.f.instance.jobs if self.f.instance.spread_of(job) == "preferred"]
        return sum(
            sum(self.y[job.name].values()) - (self.f.fewest(job) or 0) * self.z[job.name] for job in preferred
        ), 1.0

    def servers(self) -> tuple[Any, float]:
        holds = []
        for server in self.f.servers:
            check_time()
            users = [y[server] for y in self.y.values() if server in y]
            if users and server not in self.f.in_use:
                holds.append(self.m.new_bool_var(f"holds {server}"))
                self.m.add_max_equality(holds[-1], users)
        return sum(holds) + len(self.f.in_use), 1.0

    def racks(self) -> tuple[Any, float]:
        used = []
        for job, on in self.y.items():
            check_time()
            racks: dict[str, list[Any]] = defaultdict(list)
            for server, y in on.items():
                racks[self.f.rack_of(server)].append(y)
            for rack, ys in racks.items():
                used.append(self.m.new_bool_var(f"rack {job} {rack}"))
                self.m.add_max_equality(used[-1], ys)
        return sum(used) - sum(self.z.values()), 1.0

    def stops(self) -> tuple[Any, float]:
        return sum(1 - self.z[job.name] for job in self.f.running), 1.0

    def migrations(self) -> tuple[Any, float]:
        kept = kept_tasks(self.f, self.x, self.on_devices, self._variable, self.m.add)
        return self.f.running_tasks - sum(kept), 1.0

    def free(self) -> tuple[Any, float]:
        used = {(server, job): y for job, on in self.y.items() for server, y in on.items()}
        return freed_count(self.f, self.x, used, self._variable, self.m.add, sum), 1.0

    def slowdown(self) -> tuple[Any, float]:
        pairs: list[tuple[Any, float]] = []
        for job in self.f.instance.jobs:
            if not job.speed_by_servers:
                continue
            check_time()
            most = min(len(self.y[job.name]), sum(group.tasks for group in job.task_groups))
            uses = {u: self.m.new_bool_var(f"uses {job.name} {u}") for u in range(1, most + 1)}
            self.m.add(sum(uses.values()) == self.z[job.name])
            self.m.add(sum(u * literal for u, literal in uses.items()) == sum(self.y[job.name].values()))
            # Rounded once, for what is won and lost may cancel to nothing.
            lost = {u: float(job_value(job) * (1 - exact_fraction(job.relative_speed(u)))) for u in uses}
            pairs += [(literal, lost[u]) for u, literal in uses.items()]
        return self._integer_sum(pairs, "min")

    def traffic(self) -> tuple[Any, float]:
        rate = {
            (job.name, g.name): g.traffic_gbit_per_s for job in self.f.instance.jobs for g in job.task_groups
        }
        existing = {name: server.traffic_gbit_per_s for name, server in self.f.servers.items()}
        tasks = sum(group.tasks for job in self.f.instance.jobs for group in job.task_groups)
        most = max(existing.values()) + tasks * max(rate.values()) or 1.0
        keys, figures = [*rate, *existing], [*rate.values(), *existing.values()]
        terms = cp_sat.integer_terms(figures, "min", most)
        whole = dict(zip(keys, terms.numbers, strict=True))
        largest = self.m.new_int_var(
            max(whole[n] for n in existing), round(most * terms.scale) + 1, "traffic"
        )
        load: dict[str, list[Any]] = defaultdict(list)
        for (job, group, server), x in self.x.items():
            load[server].append(whole[job, group] * x)
        for server, parts in load.items():
            check_time()
            self.m.add(whole[server] + sum(parts) <= largest)
        return largest, terms.scale

    def finished_model(self) -> cp_sat.CpModel:
        """Return the CP-SAT model with the instance's objectives and with decoder and hints of plans."""
        objectives = []
        for objective in self.f.objectives:
            expression, scale = getattr(self, objective.name)()
            objectives.append(
                cp_sat.CpObjective(objective, expression, objective.sense, lambda b, scale=scale: b / scale)  # type: ignore[misc]
            )
        return cp_sat.CpModel(self.m, objectives, self._decode, self._hint)

    def _decode(self, value: Callable[[Any], int]) -> Sequence[Any]:
        tasks: dict[str, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
        for (job, group, server), x in self.x.items():
            tasks[job][group][server] = value(x)
        plan = [entry_of(job, tasks[job.name]) for job in self.f.instance.jobs]
        named = None if self.rows is None else assign_devices(self.f.jobs, self.f.servers, plan)
        return plan if named is None else named

    def _hint(self, plan: Sequence[Any]) -> list[tuple[Any, int]]:
        entries = {entry.job: entry for entry in plan}
        placed = [
            (x, entries[job].tasks.get(group, {}).get(server, 0))
            for (job, group, server), x in self.x.items()
        ]
        placed += [(z, int(entries[job].placed)) for job, z in self.z.items()]
        device_values = [] if self.rows is None else self.rows.encode(self.f.jobs, plan)
        return [*placed, *((variable, int(count)) for variable, count in device_values)]


def solve(
    formulation: ConsolidationFormulation,
    plan: Sequence[JobPlacement] | None,
    settled: Sequence[float],
    options: SolveOptions,
    clock: Clock,
) -> Outcome:
    """Optimise the objectives that are not settled, with the settled ones fixed, from a warm-start plan.

    Raises
    ------
    TooLargeError
        If there are too many jobs and servers.
    """
    groups, servers = _group_count(formulation), len(formulation.servers)
    if is_too_large(formulation):
        raise TooLargeError(f"{groups:,} groups of tasks on {servers:,} servers are too many to be named")
    model = ConsolidationCpSat().model(formulation)
    search = cp_sat.LexicographicCpSat(model, options.starting_from(plan), clock)
    return search.run(formulation, cp_sat.version_text(), settled)


def is_too_large(formulation: ConsolidationFormulation) -> bool:
    """Return whether the compact model, with a variable per task group and server, would be too large."""
    return named_cells(formulation) > SETTINGS.most_named_cells


def named_cells(formulation: ConsolidationFormulation) -> int:
    """Return the number of variables of the compact model: task groups times servers."""
    return _group_count(formulation) * len(formulation.servers)


def _group_count(formulation: ConsolidationFormulation) -> int:
    return sum(len(job.task_groups) for job in formulation.instance.jobs)
