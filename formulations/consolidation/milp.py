"""The compact MILP formulation of consolidation in PuLP, on amounts and on single devices.

Symbols are those of the formulation.

For the devices i of one name on a server, with T tasks of each kind of request on that server
    a_is ≥ 0 integer: shares of size s on i;  b_ipk ∈ {0,1}: profile p from slot k on;
    q_i, p_i ∈ {0,1}: i is shared, or partitioned
    Σ_s s a_is ≤ left_i q_i;  each slot of i is taken at most p_i times;  q_i + p_i ≤ 1 where i is free
    Σ_i a_is = T_s;  Σ_ik b_ipk = T_p;  Σ w T_w ≤ Σ_i (1 − q_i − p_i)

Where moves between devices count, with n_h tasks of a group that hold devices h on the server now and x tasks
of the group on that server in the plan
    k_h ∈ {0, …, n_h}: tasks that keep h;  Σ_h k_h ≤ x
    for each device and content: Σ k_h over the h with it ≤ a_is, b_ipk, or 1 − q_i − p_i for a whole device
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...instances.consolidation.devices import WHOLE, DeviceDemand, DeviceSlot
from ...instances.consolidation.job import Group, PlacementJob
from ..common.clock import check_model_size, check_time
from ..common.formulation import MilpModel, ModelObjective, new_problem, upper_bound_row
from ..common.objective import exact_fraction
from .classes import job_value
from .cluster_data import ClusterData
from .fewest_servers import tasks_that_fit
from .plan import DeviceAssignment, JobPlacement, Plan, assign_devices, canonical_assignment, entry_of

if TYPE_CHECKING:
    import pulp


TaskKey = tuple[str, str, str]
"""Job, group and server."""
ContentKey = tuple[str, str, int, DeviceDemand, int]
"""Server, name and index of a device, contents, and the slot where a partition starts, else 0."""


def device_coefficients(data: ClusterData) -> int:
    """Return the approximate number of coefficients in the MILP constraints on devices."""
    requests: dict[str, set[DeviceDemand]] = defaultdict(set)
    for group in data.groups.values():
        for name, ask in group.asks.items():
            requests[name].add(ask)
    total = 0
    for server in data.servers.values():
        for name, devices in (server.devices or {}).items():
            shares = sum(ask.share > 0 for ask in requests[name])
            profiles = devices.profiles
            wanted = [profiles[ask.profile] for ask in requests[name] if ask.profile in profiles]
            slots = sum(len(profile.starts) * (1 + profile.size) for profile in wanted)
            total += devices.count * (4 + 2 * shares + slots)
    return total


class DeviceRows:
    """The MILP variables and constraints on the devices of all servers.

    Parameters
    ----------
    model
        Takes the variables and constraints.

    Attributes
    ----------
    contents
        Variables of how often each content is on each device.
    modes
        Binary variables: a free device is shared; it is partitioned.
    stays
        Job, group and server → devices that tasks hold now → variable of the tasks that keep them, and the
        number of tasks that hold them.
    """

    def __init__(self, model: CompactModel) -> None:
        self.data, self.tasks = model.data, model.x
        self._make, self._add, self._total = model.make, model.add, model.total
        self.contents: dict[ContentKey, Any] = {}
        self.modes: dict[tuple[str, str, int], tuple[Any, Any]] = {}
        self.stays: dict[TaskKey, dict[DeviceAssignment, tuple[Any, int]]] = {}

    def write(self) -> None:
        """Add the constraints on the devices of every server to the MILP model."""
        sorts: dict[tuple[str, str], dict[DeviceDemand, list[Any]]] = defaultdict(lambda: defaultdict(list))
        for (job, group, server), x in self.tasks.items():
            for name, ask in self.data.groups[job, group].asks.items():
                sorts[server, name][ask].append(x)
        for (server, name), by_ask in sorts.items():
            self._server_devices(server, name, by_ask)

    def _server_devices(self, server: str, name: str, by_ask: Mapping[DeviceDemand, Sequence[Any]]) -> None:
        """Add the constraints on the devices of one name on one server to the MILP model."""
        devices = (self.data.servers[server].devices or {}).get(name)
        if devices is None:
            for listed in by_ask.values():
                self._add(self._total(listed) <= 0)
            return
        unused, profiles = [], devices.profiles
        parts = [ask for ask in by_ask if ask.profile in profiles]
        covers: dict[DeviceDemand, list[Any]] = defaultdict(list)
        for i, state in enumerate(self.data.servers[server].device_states[name]):
            shared: Any = int(state.mode == "shared")
            parted: Any = int(state.mode == "parted")
            if state.mode == "free":
                shared, parted = self._make("q", 0, 1), self._make("p", 0, 1)
                self.modes[server, name, i] = shared, parted
                self._add(shared + parted <= 1)
                unused.append(1 - shared - parted)
            room, shares = WHOLE - state.used, []
            for ask in by_ask if state.mode in ("free", "shared") else ():
                if 0 < ask.share <= room:
                    a = self.contents[server, name, i, ask, 0] = self._make("a", 0, room // ask.share)
                    covers[ask].append(a)
                    shares.append(ask.share * a)
            if shares:
                self._add(self._total(shares) <= room * shared)
            slots: dict[int, list[Any]] = defaultdict(list)
            for ask in parts if state.mode in ("free", "parted") else ():
                profile = profiles[ask.profile]
                for start in profile.starts:
                    if not state.used & profile.mask(start):
                        b = self.contents[server, name, i, ask, start] = self._make("b", 0, 1)
                        covers[ask].append(b)
                        for slot in range(start, start + profile.size):
                            slots[slot].append(b)
            for partitions in slots.values():
                self._add(self._total(partitions) <= parted)
        whole = [ask.whole * x for ask, listed in by_ask.items() if ask.whole for x in listed]
        self._add(self._total(whole) <= self._total(unused))
        for ask, listed in by_ask.items():
            if not ask.whole:
                self._add(self._total(listed) == self._total(covers[ask]))

    def staying(self) -> Mapping[TaskKey, Sequence[Any]]:
        """Add the variables and constraints that count the tasks which keep their current devices.

        Returns
        -------
        stays
            Job, group and server → variables whose sum is the number of tasks that stay, where the current
            devices are known.
        """
        users: dict[ContentKey, list[Any]] = defaultdict(list)
        for (job, group_name, server), x in self.tasks.items():
            group = self.data.groups[job, group_name]
            now = (group.current_devices or {}).get(server)
            if now is None:
                continue
            counts = Counter(map(canonical_assignment, now))
            variables = self.stays[job, group_name, server] = {
                assignment: (self._make("k", 0, count), count) for assignment, count in counts.items()
            }
            self._add(self._total([k for k, _ in variables.values()]) <= x)
            for assignment, (k, _) in variables.items():
                for key in _assigned_contents(server, group, assignment):
                    users[key].append(k)
        for key, listed in users.items():
            limit = self.contents.get(key, 0)
            if key[3].whole:
                shared, parted = self.modes.get(key[:3], (1, 0))
                limit = 1 - shared - parted
            self._add(self._total(listed) <= limit)
        return {place: [k for k, _ in variables.values()] for place, variables in self.stays.items()}

    def encode(self, plan: Plan) -> list[tuple[Any, float]]:
        """Return the device variables and their values in a plan that assigns devices."""
        count: Counter[ContentKey] = Counter()
        requests: dict[tuple[str, str, int], DeviceDemand] = {}
        in_plan: dict[TaskKey, Counter[DeviceAssignment]] = {}
        for entry in plan:
            for group in self.data.jobs[entry.job].task_groups:
                for server, tasks in (entry.devices or {}).get(group.name, {}).items():
                    counts = in_plan[entry.job, group.name, server] = Counter(
                        map(canonical_assignment, tasks)
                    )
                    for assignment, times in counts.items():
                        for key in _assigned_contents(server, group, assignment):
                            count[key] += times
                            requests[key[:3]] = key[3]
        values = [(variable, float(count[key])) for key, variable in self.contents.items()]
        for device, (shared, parted) in self.modes.items():
            ask = requests.get(device, DeviceDemand())
            values += [(shared, float(ask.share > 0)), (parted, float(bool(ask.profile)))]
        for place, variables in self.stays.items():
            staying = in_plan.get(place, Counter())
            values += [(k, float(min(staying[now], most))) for now, (k, most) in variables.items()]
        return values


def _assigned_contents(server: str, group: Group, assignment: DeviceAssignment) -> Iterator[ContentKey]:
    """Yield the device contents that a task holds; each whole device is one content."""
    for name, at in assignment:
        ask = group.asks[name]
        if isinstance(at, DeviceSlot):
            yield server, name, at.device, ask, at.slot
        else:
            for i in at:
                yield server, name, i, DeviceDemand(whole=1) if ask.whole else ask, 0


class CompactModel:
    """Builds the compact MILP model: one method for each set of variables, constraints or objective."""

    def __init__(self, data: ClusterData) -> None:
        import pulp

        self.pulp, self.problem, self.data = pulp, new_problem(data.instance.name), data
        self._names, self._numbers = itertools.count(), itertools.count()
        self.number = {name: n for n, name in enumerate(data.servers)}
        self.x: dict[TaskKey, Any] = {}
        self.y: dict[tuple[str, str], Any] = {}
        self.y_of: dict[str, list[Any]] = defaultdict(list)
        self.z: dict[str, Any] = {}
        self.k: dict[str, Any] = {}
        self.rows: DeviceRows | None = None

    def add(self, constraint: Any) -> None:
        """Add a constraint to the MILP model under the next free name."""
        check_time()
        self.problem += constraint, f"c{next(self._names)}"

    def integer(self, name: str, low: int = 0, high: int = 1) -> Any:
        """Add an integer variable with a lower and an upper limit; by default it is binary."""
        return self.problem.add_variable(name, low, high, self.pulp.LpInteger)

    def make(self, letter: str, low: int, high: int) -> Any:
        """Add an integer variable with a lower and an upper limit, under the next free name."""
        return self.integer(f"{letter}_{next(self._numbers)}", low, high)

    def total(self, variables: Sequence[Any]) -> pulp.LpAffineExpression:
        """Return the sum of variables or expressions."""
        check_time()
        return self.pulp.lpSum(variables)

    def variables(self) -> None:
        """Add the variables of jobs, of servers that they use, and of tasks there."""
        for j, job in enumerate(self.data.instance.jobs):
            check_time()
            never = self.data.fewest(job) is None
            # A job that must be placed and never fits makes the model infeasible, as it should.
            must = self.data.instance.requires(job)
            low, high = int(must), int(not never or must)
            self.z[job.name] = self.integer(f"z_{j}", low, high)
            for server in [] if never else self.data.eligible(job):
                fits = {g.name: tasks_that_fit(server.available, g.demand, g.tasks) for g in job.task_groups}
                if not any(fits.values()):
                    continue
                n = self.number[server.name]
                y = self.y[job.name, server.name] = self.integer(f"y_{j}_{n}")
                tasks = []
                for g, group in enumerate(job.task_groups):
                    if fits[group.name]:
                        x = self.integer(f"x_{j}_{g}_{n}", 0, fits[group.name])
                        self.x[job.name, group.name, server.name] = x
                        self.add(x <= fits[group.name] * y)
                        tasks.append(x)
                # Without this, a server without tasks might count as used where that is worth something.
                self.add(y <= self.total(tasks))
                self.y_of[job.name].append(y)

    def constraints(self) -> None:
        """Add the constraints that place all tasks of a job or none, and those of residual capacities."""
        placed: dict[tuple[str, str], list[Any]] = defaultdict(list)
        load: dict[tuple[str, str], list[tuple[Any, float]]] = defaultdict(list)
        jobs = self.data.instance.jobs
        for (name, group_name, server_name), x in self.x.items():
            check_time()
            placed[name, group_name].append(x)
            for resource, amount in self.data.groups[name, group_name].demand.items():
                load[server_name, resource].append((x, amount))
        for job in jobs:
            for group in job.task_groups:
                self.add(self.total(placed[job.name, group.name]) == group.tasks * self.z[job.name])
            if self.data.instance.spread_of(job) == "required":
                self.add(self.used(job) <= (self.data.fewest(job) or 0) * self.z[job.name])
        for (server_name, resource), terms in load.items():
            free = self.data.servers[server_name].available.get(resource, 0.0)
            self.add(upper_bound_row([x for x, _ in terms], [a for _, a in terms], free))

    def devices(self) -> None:
        """Add the constraints on single devices to the MILP model."""
        self.rows = DeviceRows(self)
        self.rows.write()

    def used(self, job: PlacementJob) -> pulp.LpAffineExpression:
        """Return the expression Σ_n y_jn, the number of servers that the job uses."""
        return self.total(self.y_of[job.name])

    def value(self) -> pulp.LpAffineExpression:
        """Return the total value of placed jobs, less what moves lose."""
        lost = self.data.restarts
        terms = [(self.z[job.name], job.worth) for job in self.data.instance.jobs]
        stays = [(self.stays(self.data.jobs[name]), cost) for name, cost in lost.items()]
        return self.pulp.LpAffineExpression([*terms, *stays]) - sum(lost.values())

    def stays(self, job: PlacementJob) -> Any:
        """Return the binary variable that can be 1 only if no task of a running job moves."""
        if job.name not in self.k:
            k = self.k[job.name] = self.integer(f"k_{len(self.k)}")
            for place, count in current_tasks(job):
                if place in self.on_devices:
                    self.add(self.total(self.on_devices[place]) >= count * k)
                else:
                    self.add(count * k <= self.x.get(place, 0))
        return self.k[job.name]

    @cached_property
    def on_devices(self) -> Mapping[TaskKey, Any]:
        """Variables whose sum is the number of tasks that keep their devices, by job, group and server.

        Empty unless moves between devices count.
        """
        moves = self.rows if self.data.instance.device_moves else None
        return moves.staying() if moves is not None else {}

    def limit_moves(self) -> None:
        """Add the constraint on the maximum number of running jobs that move."""
        most = self.data.instance.max_moves
        if most is not None and self.data.running:
            stays = [self.stays(job) for job in self.data.running]
            self.add(self.total(stays) >= len(stays) - most)

    def spread(self) -> pulp.LpAffineExpression:
        """Return the servers that preferred jobs use beyond the fewest."""
        return self.total(
            [
                self.used(job) - (self.data.fewest(job) or 0) * self.z[job.name]
                for job in self.data.instance.jobs
                if self.data.instance.spread_of(job) == "preferred"
            ]
        )

    def servers(self) -> pulp.LpAffineExpression:
        """Return the number of used servers."""
        holds = {
            name: self.integer(f"holds_{n}", int(name in self.data.in_use)) for name, n in self.number.items()
        }
        for (_, server), y in self.y.items():
            self.add(y <= holds[server])
        return self.total(list(holds.values()))

    def racks(self) -> pulp.LpAffineExpression:
        """Return the racks of each job beyond the first."""
        used: dict[tuple[str, str], Any] = {}
        for (job, server), y in self.y.items():
            key = (job, self.data.rack_of(server))
            if key not in used:
                used[key] = self.integer(f"rack_{len(used)}")
            self.add(y <= used[key])
        return self.total([*used.values(), *(-1 * z for z in self.z.values())])

    def stops(self) -> pulp.LpAffineExpression:
        """Return the number of running jobs that stop."""
        return self.total([1 - self.z[job.name] for job in self.data.running])

    def migrations(self) -> pulp.LpAffineExpression:
        """Return the number of running tasks that move."""
        kept: list[Any] = []
        for job in self.data.running:
            for place, count in current_tasks(job):
                if place in self.on_devices:
                    kept += self.on_devices[place]
                elif place in self.x:
                    kept.append(self.make("stays", 0, count))
                    self.add(kept[-1] <= self.x[place])
        return self.data.running_tasks - self.total(kept)

    def slowdown(self) -> pulp.LpAffineExpression:
        """Return the value lost by jobs on several servers."""
        terms = []
        for j, job in enumerate(self.data.instance.jobs):
            if not job.speed_by_servers:
                continue
            most = min(len(self.y_of[job.name]), sum(group.tasks for group in job.task_groups))
            uses = {u: self.integer(f"uses_{j}_{u}") for u in range(1, most + 1)}
            self.add(self.total(list(uses.values())) == self.z[job.name])
            self.add(self.total([u * variable for u, variable in uses.items()]) == self.used(job))
            # Rounded once, for what is won and lost may cancel to nothing.
            lost = {u: float(job_value(job) * (1 - exact_fraction(job.relative_speed(u)))) for u in uses}
            terms += [lost[u] * variable for u, variable in uses.items()]
        return self.total(terms)

    def free(self) -> pulp.LpAffineExpression:
        """Return the number of freed units that count."""
        data, aim = self.data, self.data.instance.free
        assert aim is not None
        units = [self.make("f", 0, 1) for _ in data.releasable]
        freed = {n: unit for unit, names in zip(units, data.releasable.values(), strict=True) for n in names}
        running = {job.name for job in data.running}
        for (user, server), y in self.y.items():
            if server in freed:
                self.add(y + freed[server] <= 1)
            if user in running and data.closed(server):
                self.add(y <= 0)
        count = self.make("freed", 0, aim.count)
        self.add(count <= self.total(units))
        for job in data.running if aim.direct else ():
            for place, number in current_tasks(job):
                leaves = number * freed.get(place[2], 0)
                self.add(self.total([self.x.get(place, 0), leaves]) >= number)
        return 1 * count

    def traffic(self) -> pulp.LpAffineExpression:
        """Return the largest traffic of a server."""
        least = max(server.traffic_gbit_per_s for server in self.data.servers.values())
        largest = self.problem.add_variable("largest_traffic", lowBound=least)
        for load in self.loads:
            self.add(load <= largest)
        return 1 * largest

    def imbalance(self) -> pulp.LpAffineExpression:
        """Return the largest difference of the traffic of two servers."""
        difference = self.problem.add_variable("imbalance", lowBound=0.0)
        for high, low in itertools.permutations(self.loads, 2):
            self.add(high - low <= difference)
        return 1 * difference

    @cached_property
    def loads(self) -> list[Any]:
        """The traffic of each server."""
        load: dict[str, list[Any]] = {
            name: [server.traffic_gbit_per_s] for name, server in self.data.servers.items()
        }
        for (job, group, server), x in self.x.items():
            check_time()
            load[server].append(self.data.groups[job, group].traffic_gbit_per_s * x)
        return [*map(self.total, load.values())]


def current_tasks(job: PlacementJob) -> Iterator[tuple[TaskKey, int]]:
    """Yield job, group and server of the running tasks of a job, with their number."""
    for group in job.task_groups:
        for server, count in group.current.items():
            yield (job.name, group.name, server), count


def model_coefficients(data: ClusterData) -> int:
    """Return the approximate number of coefficients of the compact MILP model."""
    each, total = 5 + len(data.instance.resource_names) + 2 * len(data.objectives), 0
    for job, alike in data.distinct_jobs:
        for group in job.task_groups:
            holds, count = data.shapes(job.gpu_model, free=True).hold(group.demand, most=1)
            total += len(alike) * int(holds @ count) * each
    if data.instance.has_devices:
        total += device_coefficients(data)
    if "imbalance" in data.instance.objectives:
        total *= len(data.servers)
    return total


def milp_model(data: ClusterData) -> MilpModel[JobPlacement]:
    """Return the compact MILP model with the objectives of the instance, in lexicographic order.

    Raises
    ------
    TooLargeError
        If there would be too many coefficients.
    """
    check_model_size(model_coefficients(data), "the textbook model")
    builder = CompactModel(data)
    builder.variables()
    builder.constraints()
    if data.instance.has_devices:
        builder.devices()
    builder.limit_moves()
    rows = builder.rows
    objectives = []
    for objective in data.objectives:
        expression = getattr(builder, objective.name)()
        whole = all(x.cat == "Integer" and float(each).is_integer() for x, each in expression.items())
        objectives.append(ModelObjective(objective, expression, objective.sense, integral=whole))

    def decode(value: Callable[[Any], float]) -> tuple[JobPlacement, ...]:
        tasks: dict[str, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
        for (job, group, server), x in builder.x.items():
            tasks[job][group][server] = round(value(x))
        plan = tuple(entry_of(job, tasks[job.name]) for job in data.instance.jobs)
        named = None if rows is None else assign_devices(data.jobs, data.servers, plan)
        return plan if named is None else tuple(named)

    def encode(plan: Plan) -> Mapping[Any, float]:
        entries = {entry.job: entry for entry in plan}
        start: dict[Any, float] = {z: float(entries[name].placed) for name, z in builder.z.items()}
        for (job, group, server), x in builder.x.items():
            start[x] = float(entries[job].tasks.get(group, {}).get(server, 0))
        for (job, server), y in builder.y.items():
            start[y] = float(server in entries[job].used_servers)
        return start if rows is None else start | dict(rows.encode(plan))

    return MilpModel(builder.problem, tuple(objectives), decode, encode)
