"""The compact MILP formulation of consolidation in PuLP; symbols as in the formulation."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...instances.consolidation.job import GpuModels, PlacementJob
from ..common.clock import check_time, refuse_beyond
from ..common.milp_model import MilpModel, ModelObjective, at_most, new_problem
from ..common.tolerance import all_loosened
from .classes import exact, worth_of
from .cluster_data import ClusterData
from .device_milp import DeviceRows, device_terms
from .device_placement import with_devices
from .fewest_servers import tasks_that_fit
from .plan import JobPlacement, entry_of

if TYPE_CHECKING:
    import pulp


class _Builder:
    """Holds the variables while the model is written down, one method for each part of it."""

    def __init__(self, data: ClusterData) -> None:
        import pulp

        self.data, self.pulp = data, pulp
        self.problem = new_problem(data.instance.name)
        self.number = {name: n for n, name in enumerate(data.servers)}
        self.x: dict[tuple[str, str, str], Any] = {}
        self.y: dict[tuple[str, str], Any] = {}
        self.y_of: dict[str, list[Any]] = defaultdict(list)
        self.z: dict[str, Any] = {}
        self.k: dict[str, Any] = {}
        self._names = itertools.count()
        self.rows: DeviceRows | None = None

    def add(self, constraint: Any) -> None:
        """Add a constraint under the next free name."""
        check_time()
        self.problem += constraint, f"c{next(self._names)}"

    def total(self, variables: Sequence[Any]) -> pulp.LpAffineExpression:
        check_time()
        return self.pulp.lpSum(variables)

    def variables(self) -> None:
        for j, job in enumerate(self.data.instance.jobs):
            check_time()
            never = self.data.fewest(job) is None
            # A job that must be placed and never fits makes the model infeasible, as it should.
            low, high = int(job.must_place), int(not never or job.must_place)
            self.z[job.name] = self.problem.add_variable(f"z_{j}", low, high, self.pulp.LpInteger)
            for server in [] if never else self.data.eligible(job):
                fits = {g.name: tasks_that_fit(server.available, g.demand, g.tasks) for g in job.task_groups}
                if not any(fits.values()):
                    continue
                n = self.number[server.name]
                y = self.y[job.name, server.name] = self.problem.add_variable(
                    f"y_{j}_{n}", cat=self.pulp.LpBinary
                )
                tasks = []
                for g, group in enumerate(job.task_groups):
                    if fits[group.name]:
                        name = f"x_{j}_{g}_{n}"
                        x = self.problem.add_variable(name, 0, fits[group.name], self.pulp.LpInteger)
                        self.x[job.name, group.name, server.name] = x
                        self.add(x <= fits[group.name] * y)
                        tasks.append(x)
                # Without this, a server without tasks might count as used where that is worth something.
                self.add(y <= self.total(tasks))
                self.y_of[job.name].append(y)

    def constraints(self) -> None:
        placed: dict[tuple[str, str], list[Any]] = defaultdict(list)
        load: dict[tuple[str, str], list[tuple[Any, float]]] = defaultdict(list)
        jobs = self.data.instance.jobs
        demand = {(job.name, group.name): group.demand for job in jobs for group in job.task_groups}
        for (name, group_name, server_name), x in self.x.items():
            check_time()
            placed[name, group_name].append(x)
            for resource, amount in demand[name, group_name].items():
                load[server_name, resource].append((x, amount))
        for job in jobs:
            for group in job.task_groups:
                self.add(self.total(placed[job.name, group.name]) == group.tasks * self.z[job.name])
            if self.data.instance.spread_of(job) == "required":
                self.add(self.used(job) <= (self.data.fewest(job) or 0) * self.z[job.name])
        for (server_name, resource), terms in load.items():
            free = self.data.servers[server_name].available.get(resource, 0.0)
            self.add(at_most([x for x, _ in terms], [a for _, a in terms], free))

    def devices(self) -> None:
        """Write down which contents the devices of each server have."""
        names = itertools.count()

        def variable(letter: str, low: int, high: int) -> Any:
            return self.problem.add_variable(f"{letter}_{next(names)}", low, high, self.pulp.LpInteger)

        self.rows = DeviceRows(variable, self.add, self.total)
        self.rows.write(self.data.jobs, self.data.servers, self.x)

    def used(self, job: PlacementJob) -> pulp.LpAffineExpression:
        """Return Σ_n y_jn, the servers that the job uses."""
        return self.total(self.y_of[job.name])

    def value(self) -> tuple[Any, bool]:
        lost = self.data.restarts
        whole = all(value.is_integer() for job in self.data.instance.jobs for value in (float(job.worth),))
        whole = whole and all(cost.is_integer() for cost in lost.values())
        terms = [(self.z[job.name], job.worth) for job in self.data.instance.jobs]
        stays = [(self.stays(self.data.jobs[name]), cost) for name, cost in lost.items()]
        return self.pulp.LpAffineExpression([*terms, *stays]) - sum(lost.values()), whole

    def stays(self, job: PlacementJob) -> Any:
        """Return the variable that says that no task of a running job moves."""
        if job.name not in self.k:
            k = self.k[job.name] = self.problem.add_variable(f"k_{len(self.k)}", cat=self.pulp.LpBinary)
            for place, count in places_now(job):
                if place in self.on_devices:
                    self.add(self.total(self.on_devices[place]) >= count * k)
                else:
                    self.add(count * k <= self.x.get(place, 0))
        return self.k[job.name]

    @cached_property
    def on_devices(self) -> Mapping[tuple[str, str, str], Any]:
        """Tasks that keep their devices, where these count."""
        moves = self.rows if self.data.instance.device_moves else None
        return moves.staying(self.data.jobs, self.x) if moves is not None else {}

    def limit_moves(self) -> None:
        """Write down that no more than so many running jobs move."""
        most = self.data.instance.max_moves
        if most is not None and self.data.running:
            stays = [self.stays(job) for job in self.data.running]
            self.add(self.total(stays) >= len(stays) - most)

    def spread(self) -> tuple[Any, bool]:
        preferred = [
            job for job in self.data.instance.jobs if self.data.instance.spread_of(job) == "preferred"
        ]
        return self.total(
            [self.used(job) - (self.data.fewest(job) or 0) * self.z[job.name] for job in preferred]
        ), True

    def servers(self) -> tuple[Any, bool]:
        holds = {
            name: self.problem.add_variable(
                f"holds_{n}", int(name in self.data.in_use), 1, self.pulp.LpInteger
            )
            for name, n in self.number.items()
        }
        for (_, server), y in self.y.items():
            self.add(y <= holds[server])
        return self.total(list(holds.values())), True

    def racks(self) -> tuple[Any, bool]:
        used: dict[tuple[str, str], Any] = {}
        for (job, server), y in self.y.items():
            key = (job, self.data.rack_of(server))
            if key not in used:
                used[key] = self.problem.add_variable(f"rack_{len(used)}", cat=self.pulp.LpBinary)
            self.add(y <= used[key])
        return self.total([*used.values(), *(-1 * z for z in self.z.values())]), True

    def migrations(self) -> tuple[Any, bool]:
        there = 0
        kept: list[Any] = []
        for job in self.data.instance.jobs:
            for group in job.task_groups:
                there += sum(group.current.values())
                for server, count in group.current.items():
                    place = job.name, group.name, server
                    x = self.x.get(place)
                    if place in self.on_devices:
                        kept += self.on_devices[place]
                    elif x is not None:
                        stays = self.problem.add_variable(f"stays_{len(kept)}", 0, count, self.pulp.LpInteger)
                        self.add(stays <= x)
                        kept.append(stays)
        return there - self.total(kept), True

    def slowdown(self) -> tuple[Any, bool]:
        terms = []
        for j, job in enumerate(self.data.instance.jobs):
            if not job.speed_by_servers:
                continue
            most = min(len(self.y_of[job.name]), sum(group.tasks for group in job.task_groups))
            uses = {
                u: self.problem.add_variable(f"uses_{j}_{u}", cat=self.pulp.LpBinary)
                for u in range(1, most + 1)
            }
            self.add(self.total(list(uses.values())) == self.z[job.name])
            self.add(self.total([u * variable for u, variable in uses.items()]) == self.used(job))
            # Rounded once, for what is won and lost may cancel to nothing.
            lost = {u: float(worth_of(job) * (1 - exact(job.relative_speed(u)))) for u in uses}
            terms += [lost[u] * variable for u, variable in uses.items()]
        return self.total(terms), False

    def traffic(self) -> tuple[Any, bool]:
        load: dict[str, list[Any]] = defaultdict(list)
        for job in self.data.instance.jobs:
            check_time()
            traffic = {group.name: group.traffic_gbit_per_s for group in job.task_groups}
            for group in job.task_groups:
                for server in self.data.eligible(job):
                    x = self.x.get((job.name, group.name, server.name))
                    if x is not None:
                        load[server.name].append(traffic[group.name] * x)
        least = max(server.traffic_gbit_per_s for server in self.data.servers.values())
        largest = self.problem.add_variable("largest_traffic", lowBound=least)
        for name, terms in load.items():
            self.add(self.data.servers[name].traffic_gbit_per_s + self.total(terms) <= largest)
        return self.pulp.LpAffineExpression([(largest, 1.0)]), False


def places_now(job: PlacementJob) -> Iterator[tuple[tuple[str, str, str], int]]:
    """Yield job, group and server of the tasks that run now, and how many they are."""
    for group in job.task_groups:
        for server, count in group.current.items():
            yield (job.name, group.name, server), count


def model_terms(data: ClusterData) -> int:
    """Return how many coefficients a model with named servers has, roughly."""
    names = data.instance.resource_names
    more = 2 * len(data.objectives)
    total = 0
    free: dict[GpuModels, tuple[NDArray[np.float64], NDArray[np.int64]]] = {}
    for job, alike in data.distinct_jobs:
        model = job.gpu_model
        if model not in free:
            shapes = data.shapes(model, free=True)
            amounts = [[dict(shape).get(name, 0.0) for name in names] for shape in shapes]
            free[model] = np.array(amounts).reshape(-1, len(names)), np.array([*shapes.values()], dtype=int)
        there, count = free[model]
        for group in job.task_groups:
            needs = np.array([group.demand.get(name, 0.0) for name in names])
            holds = int(count[(all_loosened(there) >= needs).all(axis=1)].sum())
            total += len(alike) * holds * (5 + len(names) + more)
    if data.instance.has_devices:
        total += device_terms(data.instance.jobs, data.servers.values())
    return total


def milp_model(data: ClusterData) -> MilpModel[JobPlacement]:
    """Return the compact formulation with one objective for each that the instance lists.

    Raises
    ------
    TooLargeError
        If there would be too many coefficients.
    """
    refuse_beyond(model_terms(data), "the textbook model")
    builder = _Builder(data)
    builder.variables()
    builder.constraints()
    if data.instance.has_devices:
        builder.devices()
    builder.limit_moves()
    rows = builder.rows
    objectives = []
    for objective in data.objectives:
        expression, whole = getattr(builder, objective.name)()
        objectives.append(ModelObjective(objective, expression, objective.sense, integral=whole))

    def decode(value: Callable[[Any], float]) -> tuple[JobPlacement, ...]:
        tasks: dict[str, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
        for (job, group, server), x in builder.x.items():
            tasks[job][group][server] = round(value(x))
        plan = tuple(entry_of(job, tasks[job.name]) for job in data.instance.jobs)
        named = None if rows is None else with_devices(data.jobs, data.servers, plan)
        return plan if named is None else tuple(named)

    def encode(plan: Sequence[JobPlacement]) -> Mapping[Any, float]:
        entries = {entry.job: entry for entry in plan}
        start: dict[Any, float] = {z: float(entries[name].placed) for name, z in builder.z.items()}
        for (job, group, server), x in builder.x.items():
            start[x] = float(entries[job].tasks.get(group, {}).get(server, 0))
        for (job, server), y in builder.y.items():
            start[y] = float(server in entries[job].used_servers)
        return start if rows is None else start | dict(rows.encode(data.jobs, plan))

    return MilpModel(builder.problem, tuple(objectives), decode, encode)
