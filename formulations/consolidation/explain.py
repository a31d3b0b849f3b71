"""Explanations of jobs that are not placed: the resources that are short, or the constraints that conflict.

The sentences do not depend on the order of keys in a document, so that every copy of it gives the same ones.
Jobs that request single devices are explained by the pooled relaxation first, then by single devices.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from functools import cached_property

from ...instances.consolidation.devices import Device, states_after
from ...instances.consolidation.job import GpuModels, Group, PlacementJob, allows, models_of
from .cluster_data import ClusterData
from .fewest_servers import (
    Shape,
    Shapes,
    estimated_work,
    fewest_servers,
    shape_of,
    tasks_within,
)
from .plan import Action, JobPlacement, Plan, placed_tasks, staying_tasks

MAX_SHAPES = 4
"""Limit on the server shapes that a sentence lists."""
MAX_WORK = 5_000
"""Limit on the work for jobs with several groups of tasks, in servers; takes some seconds."""
ROUNDING_TOLERANCE = 1e-6
"""Fraction of a task's demand below which a residual amount is a rounding error."""
ROOM_PREFIX = "left out although there is room"
"""Start of a reason where there is enough residual capacity."""
TOO_COMPLEX_TEXT = "waits: how its groups of tasks fit beside each other was too much to work out"


def unplaceable_text(data: ClusterData, job: PlacementJob) -> str | None:
    """Return why a job does not fit alone on all servers, empty or as now occupied; None if it does."""
    capacity = data.shapes(job.gpu_model)
    if not capacity:
        models = sorted({s.gpu_model for s in data.servers.values() if s.gpu_model is not None})
        models_text = f"there are: {', '.join(map(repr, models))}" if models else "no server says its model"
        return f"never fits: no server has the GPU model {_models_text(job.gpu_model)}; {models_text}"
    choices = data.instance.listed_choices
    of_model = "" if job.gpu_model is None else f" with GPU model {_models_text(job.gpu_model)}"
    for group in job.task_groups:
        if not tasks_on_shapes(capacity, group):
            return f"never fits: {_shortage_by_shape_text(group, capacity, of_model, choices)}"
    for group in job.task_groups:
        holds = tasks_on_shapes(capacity, group)
        if holds < group.tasks:
            return (
                f"never fits: all servers{of_model} together hold {holds} of its {group.tasks} {group.name}"
            )
    if data.fewest(job) is None:
        return f"never fits: its groups of tasks do not fit beside each other on all servers{of_model}"
    return _waiting_text(data, job, data.shapes(job.gpu_model, free=True))


def _waiting_text(data: ClusterData, job: PlacementJob, left: Shapes, beside: bool = False) -> str | None:
    """Return why a job does not fit in residual capacities; None if it does.

    Parameters
    ----------
    beside
        Whether `left` is the residual capacity of the plan, instead of the current one.
    """
    for group in job.task_groups:
        now = tasks_on_shapes(left, group)
        if not now:
            return f"waits: {shortage_text(group, left, data.instance.listed_choices, beside)}"
        if now < group.tasks:
            few = f"only {now} of its {group.tasks} {group.name} fit"
            return f"waits: {f'beside the placed jobs {few}' if beside else f'{few} in what is free now'}"
    needed, fewest = fewest_servers(job.task_groups, left), data.fewest(job) or 0
    if needed is None:
        what = "the placed jobs leave" if beside else "is free now"
        return f"waits: its groups of tasks do not fit beside each other in what {what}"
    if data.instance.spread_of(job) == "required" and needed > fewest:
        must = f"it must run on {'a single server' if fewest == 1 else f'at most {fewest} servers'}"
        if beside:
            return f"waits: {must}; beside the placed jobs it would take {needed}"
        ever = "the fewest that could ever hold it"
        return f"waits: {must}, {ever}; with what is free now it would take {needed}"
    return None


def _models_text(models: GpuModels) -> str:
    return " or ".join(map(repr, models_of(models)))


def tasks_on_shapes(shapes: Shapes, group: Group) -> int:
    """Return the number of tasks of a task group that the servers hold without other task groups."""
    holds, count = shapes.hold(group.demand, group.tasks)
    return int(holds @ count)


def shortage_text(group: Group, left: Shapes, choices: Collection[str] = (), beside: bool = False) -> str:
    """Return a sentence on the resource, or the combination, that is short for a task on every server.

    Parameters
    ----------
    left
        Residual capacities of the servers; a task fits on none of them.
    choices
        Resources that stand for a choice of servers; they are named last.
    beside
        Whether `left` is the residual capacity of the plan, instead of the current one.
    """
    what = "it needs" if group.tasks == 1 else f"each of its {group.tasks} {group.name} needs"
    demand = [(resource, need) for resource, need in _ordered_demand(group, choices) if need]
    for resource, need in demand:
        most = max(dict(shape).get(resource, 0.0) for shape in left)
        if need > most:
            whose = "the placed jobs leave" if beside else "is free now"
            shown = most if most > ROUNDING_TOLERANCE * need else 0.0
            return f"{what} {need:g} {resource} on one server; the most that {whose} is {shown:g}"
    demand_text = " and ".join(f"{need:g} {resource}" for resource, need in demand)
    whose = "the placed jobs leave that on none" if beside else "none has all of that free now"
    return f"{what} {demand_text} on one server; {whose}"


def _ordered_demand(group: Group, choices: Collection[str]) -> list[tuple[str, float]]:
    return sorted(shape_of(group.demand), key=lambda item: item[0] in choices)


def _shortage_by_shape_text(group: Group, shapes: Shapes, of_model: str, choices: Collection[str]) -> str:
    """Return a sentence on the resources that are short for a task, by capacity of the servers."""
    what, demand = f"a task of {group.name!r} needs", _ordered_demand(group, choices)
    for resource, need in demand:
        largest, of = max((dict(shape).get(resource, 0.0), shape) for shape in shapes)
        if need > largest:
            if not largest:
                return f"{what} {need:g} {resource}; no server{of_model} has any"
            whole = ", ".join(f"{amount:g} {name}" for name, amount in of if name not in choices)
            return f"{what} {need:g} {resource}; the largest server{of_model} has {largest:g} ({whole})"
    lacks = Counter[str]()
    for shape, count in shapes.items():
        amounts = defaultdict(float, shape)
        short = [
            f"{'too little' if amounts[r] else 'no'} {r} ({need:g} needed)"
            for r, need in demand
            if need > amounts[r]
        ]
        lacks[" and ".join(short)] += count
    listed = sorted(lacks.items(), key=lambda item: (-item[1], item[0]))
    causes = [f"on {_server_count_text(count)}: {what}" for what, count in listed[:MAX_SHAPES]]
    more = sum(count for _, count in listed[MAX_SHAPES:])
    rest = [f"on {_server_count_text(more)}: other things"] if more else []
    return f"no server{of_model} has all that a task of {group.name!r} needs; {'; '.join([*causes, *rest])}"


def _server_count_text(servers: int) -> str:
    return "1 server" if servers == 1 else f"{servers} servers"


class Reasons:
    """Explanations why a plan leaves out jobs; equal jobs share an explanation."""

    def __init__(self, data: ClusterData, plan: Plan) -> None:
        self.data, self.plan = data, plan
        self._known: dict[int, str] = {}
        self._left_by_model: dict[GpuModels, Shapes] = {}
        self._work = 0
        self._alike = {p: number for number, (_, ps) in enumerate(data.distinct_jobs) for p in ps}

    def why(self, position: int) -> str:
        """Return why the plan leaves out the job at a position of the instance, as a sentence."""
        job = self.data.instance.jobs[position]
        now, stopped = [server for group in job.task_groups for server in sorted(group.current)], ""
        if now:
            where = ", ".join(dict.fromkeys(now[:MAX_SHAPES])) + (", …" if len(now) > MAX_SHAPES else "")
            stopped = f"would be stopped where it runs now ({where}); "
        number = self._alike[position]
        if number not in self._known:
            job = self.data.distinct_jobs[number][0]
            # Reasons are worked out for each request once, and only as long as this takes seconds.
            self._work += estimated_work(job.task_groups, self.data.shapes(job.gpu_model))
            if self._work > MAX_WORK:
                self._known[number] = TOO_COMPLEX_TEXT
            else:
                self._known[number] = unplaceable_text(self.data, job) or self._beside(job)
        return stopped + self._known[number]

    def _beside(self, job: PlacementJob) -> str:
        """Return why a job that can run alone does not run beside the placed jobs, as a sentence."""
        waits = _waiting_text(self.data, job, self.left(job.gpu_model), beside=True)
        first = self.data.objectives[0].name
        return waits or f"{ROOM_PREFIX}: {first} comes first, or the method did not get to it"

    def left(self, gpu_model: GpuModels) -> Shapes:
        """Count the servers of the given GPU models by residual capacity under the plan."""
        if gpu_model not in self._left_by_model:
            self._left_by_model[gpu_model] = Shapes(
                shape for model, shape in self._left if allows(gpu_model, model)
            )
        return self._left_by_model[gpu_model]

    @cached_property
    def _left(self) -> list[tuple[str | None, Shape]]:
        """The GPU model and the residual capacity under the plan of each server."""
        used: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for _, group, server, count in placed_tasks(self.data.jobs, self.plan):
            for resource, amount in group.demand.items():
                used[server][resource] += count * amount
        residual = []
        for name, server_data in self.data.servers.items():
            amounts = server_data.available
            if name in used:
                # Rounding may leave a little less than nothing, or than what would just fit.
                amounts = {r: max(0.0, a * (1 + 1e-9) - used[name][r]) for r, a in amounts.items()}
            residual.append((server_data.gpu_model, shape_of(amounts)))
        return residual


def action_of(job: PlacementJob, entry: JobPlacement, device_moves: bool | None = None) -> Action:
    """Return the action of a plan on a job: start, keep, move, stop or wait.

    A move between devices of one server may count as a move.
    """
    now = {group.name: group.current for group in job.task_groups if group.current}
    if not entry.placed:
        return "stop" if now else "wait"
    if not now:
        return "start"
    if now != {name: placed for name, placed in entry.tasks.items() if placed}:
        return "move"
    stay = (staying_tasks(group, entry, device_moves) == group.running_tasks for group in job.task_groups)
    return "keep" if all(stay) else "move"


DEVICES_SHORT_TEXT = "waits: beside the placed jobs no single devices hold its tasks, though their sum would"


class DeviceReasons(Reasons):
    """Explanations why a plan leaves out jobs that request devices.

    They look at pooled amounts first, then at single devices.

    Parameters
    ----------
    data, relaxed
        The instance, and its pooled relaxation.
    """

    def __init__(self, data: ClusterData, relaxed: ClusterData, plan: Plan) -> None:
        super().__init__(relaxed, plan)
        self.on_devices = data

    def _beside(self, job: PlacementJob) -> str:
        reason = super()._beside(job)
        with_devices = self.on_devices.jobs[job.name]
        if not reason.startswith(ROOM_PREFIX) or all(
            self._can_hold(with_devices, group) for group in with_devices.task_groups
        ):
            return reason
        return DEVICES_SHORT_TEXT

    def _can_hold(self, job: PlacementJob, group: Group) -> bool:
        """Return whether the devices left by the plan hold all tasks of one task group without others."""
        left = group.tasks
        for server in self.on_devices.eligible(job):
            left -= tasks_within(server, group, *self._residual[server.name], left)
            if left <= 0:
                return True
        return False

    @cached_property
    def _residual(self) -> dict[str, tuple[dict[str, float], dict[str, list[Device]]]]:
        """Residual capacity of each server under the plan, and the states of its devices."""
        residual: dict[str, tuple[dict[str, float], dict[str, list[Device]]]] = {
            name: (defaultdict(float, server.available), {k: [*v] for k, v in server.device_states.items()})
            for name, server in self.on_devices.servers.items()
        }
        for entry, group, server, count in placed_tasks(self.on_devices.jobs, self.plan):
            amounts, states = residual[server]
            for resource, amount in group.demand.items():
                amounts[resource] -= count * amount
            available = self.on_devices.servers[server].devices or {}
            for task in (entry.devices or {}).get(group.name, {}).get(server, ()):
                for name, places in task.items():
                    after = states_after(states[name], available[name].partitions, group.asks[name], places)
                    states[name] = states[name] if after is None else after
        return residual
