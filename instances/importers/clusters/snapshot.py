"""A cluster in use, whatever manages it: its nodes and workloads, and the instance that plans them.

A front end parses what its manager prints to a `ClusterSnapshot`: the nodes that take tasks with their
amounts, and the workloads that are planned with their tasks, requests, allowed nodes and present places.
From here on all managers are the same: what is free, resources that stand for choices of nodes, values.

The value of a job is the number of GPUs that it demands, its priority, or their product. A moved job loses
a part of its value, so that a plan moves jobs only where it gains more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, get_args

from ...common.errors import some
from ...common.faults import validated
from ...common.fields import NONE_NAMED, Fields
from ...common.workload import Workload as Owner
from ...consolidation.devices import DeviceDemand
from ...consolidation.instance import ON_TIES, ConsolidationInstance, emptied_server
from ..importer import Option
from ..node_restrictions import NAMED, Choice, Restrictions, counted, numbered
from .device_inventory import DeviceInventory, TaskSet
from .device_sharing import fields_of

Amount = float | Fraction
Amounts = Mapping[str, Amount]
"""Resource of the instance → amount in its unit there, exact where the source is."""
WHOLE_NODE, SHARES = "whole node", 1000.0
"""Resource of which a job that needs nodes of its own takes all, others 1 a task; and what nodes have."""
MAX_OTHERS = 20
"""Limit of the unplanned jobs that a server names."""
MAX_SEPARATED = 50
"""Limit of the jobs for which a resource is added that keeps their tasks on separate nodes."""
CROWDED = f"needs several nodes, as do more than {MAX_SEPARATED} jobs"
"""Why further ones stay, or are left out."""
OUTSIDE = "could not start again where it runs"
"""Why running jobs stay."""

Planned = Annotated[
    Literal["gpu", "all"], Option("gpu: jobs that ask for a GPU; all: every job.", option="--plan")
]
Running = Annotated[
    Literal["stay", "move"],
    Option("stay: running jobs keep what they have; move: they may move."),
]
Drained = Annotated[
    Literal["empty", "stay"],
    Option("empty: jobs move off nodes that are being drained; stay: they keep what they have there."),
]
Spread = Annotated[
    Literal["required", "preferred", "free"],
    Option("How jobs of several tasks or pods may spread over servers."),
]

RESTART_COST_H = 0.25
"""Hours of its value that a job loses by a move: stopping, waiting, loading, and progress not yet saved."""


def move_cost_note() -> str:
    """Return the assumption on the cost of moving a running job."""
    return (
        f"A job that is moved or stopped loses {RESTART_COST_H:g} hours of its value, so that a move has to "
        "pay: an assumption; --restart-cost of solve says otherwise."
    )


def emptied_note(nodes: Collection[str], what: str) -> Iterator[str]:
    """Yield the note on the nodes to be empty; `what` they are, such as drained."""
    if nodes:
        count = counted(len(nodes), f"{what} node")
        yield f"To be empty: {count} (else --drained stay): {some(sorted(nodes))}."


Rule = Literal["gpus", "priority", "priority-then-gpus"]
Value = Annotated[
    Rule,
    Option(
        "What a job is worth. gpus: the GPUs it asks for; priority: its priority; priority-then-gpus: its "
        "priority for each GPU, so that GPUs go to the highest priority first."
    ),
]
RULES: tuple[Rule, ...] = get_args(Rule)
HIGHEST = 1000.0
"""Weight of the highest priority where the lowest has weight 1; priorities are ordinal, on any scale."""


def priority_weights(priorities: Sequence[float | None]) -> list[float]:
    """Return priorities scaled linearly to 1 to 1,000; 1 for a missing one, and if all are equal."""
    known = [priority for priority in priorities if priority is not None]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    span = high - low or 1.0
    return [
        1.0 if priority is None else round(1.0 + (HIGHEST - 1.0) * (priority - low) / span, 3)
        for priority in priorities
    ]


def worths(rule: Rule, gpus: Sequence[float], priorities: Sequence[float | None]) -> list[float]:
    """Return the objective value of placing each job; a job without GPUs counts as one GPU.

    Parameters
    ----------
    gpus, priorities
        GPUs and priority of each job; None if it has no priority.
    """
    counted = [amount or 1.0 for amount in gpus]
    if rule == "gpus":
        return counted
    if rule == "priority":
        return priority_weights(priorities)
    return [weight * amount for weight, amount in zip(priority_weights(priorities), counted, strict=True)]


def job_value_note(rule: Rule, jobs: Sequence[str], priorities: Sequence[float | None]) -> str:
    """Return the assumption on the values of jobs, with the names of jobs without a priority.

    Parameters
    ----------
    jobs
        The names of the jobs.
    """
    if rule == "gpus":
        return "A job is worth the GPUs that it asks for, one that asks for none is worth 1."
    known = [priority for priority in priorities if priority is not None]
    scale = "all are the same and count 1"
    if known and min(known) < max(known):
        scale = (
            f"the lowest, {min(known):,.0f}, counts 1, the highest, {max(known):,.0f}, counts {HIGHEST:,.0f}"
        )
    each = "" if rule == "priority" else " for each GPU that it asks for (for 1 where it asks for none)"
    without = [name for name, priority in zip(jobs, priorities, strict=True) if priority is None]
    none = f" Without a priority, and so counted as the lowest: {some(without, NAMED)}." if without else ""
    return f"A job is worth its priority{each}: {scale}.{none}"


@dataclass(eq=False)
class TaskGroup:
    """Identical tasks of a workload.

    Parameters
    ----------
    name
        The name of the group in the workload.
    demand
        The demand of one task, by resource: cpu, memory_gib, gpu, or others that the nodes have.
    nodes
        Those nodes of the snapshot that each task may use; all of them is no restriction.
    current
        Node → tasks there now, None → tasks that wait; together they are the tasks of the group.
    describe
        Returns what the nodes have in common, such as "node with nvlink", which names a resource of them.
    ask
        The demand of one task for single devices, where GPUs are shared or partitioned (`device_sharing`).
    members
        The tasks as holders of such devices.
    limits
        The demand of one task for resources that stand for rules on other tasks, as pods of Kubernetes have.
    """

    name: str
    demand: Amounts
    nodes: frozenset[str]
    current: Mapping[str | None, int]
    describe: Callable[[], str]
    ask: DeviceDemand | None = None
    members: Sequence[TaskSet] = ()
    limits: Mapping[str, float] = NONE_NAMED


@dataclass(eq=False)
class Workload:
    """Tasks that are placed together or not at all.

    Parameters
    ----------
    name
        Its name, which need not be unique.
    groups
        Its groups of tasks.
    gpus
        The GPUs that its tasks demand together, parts of them as fractions.
    priority
        On any scale; None without one.
    must_place
        Whether it runs as a whole, and so may not lose its place.
    stays
        Why it is planned where it runs and is not moved; empty if it may be, or does not run.
    gpu_model
        The GPU models that it may use; None for any.
    owner
        The object of Kubernetes that its pods belong to; None for other managers.
    exclusive, separate
        Whether it needs nodes of its own, whose demand is the least that any of them has; whether each of its
        tasks needs another node, which is a resource for each such job: the front end makes at most
        `MAX_SEPARATED`.
    assumed
        What is assumed about it, one sentence each.
    """

    name: str
    groups: list[TaskGroup]
    gpus: float
    priority: float | None
    must_place: bool
    stays: str = ""
    gpu_model: str | list[str] | None = None
    owner: Owner | None = None
    exclusive: bool = False
    separate: bool = False
    assumed: Sequence[str] = ()

    @property
    def tasks(self) -> int:
        """The number of its tasks."""
        return sum(sum(group.current.values()) for group in self.groups)

    @property
    def places(self) -> set[str | None]:
        """The nodes that its tasks have now, with None if some wait."""
        return {node for group in self.groups for node in group.current}

    @property
    def share_of_node(self) -> float:
        """What each of its tasks takes of `WHOLE_NODE`."""
        return SHARES if self.exclusive else 1.0


@dataclass(eq=False)
class SnapshotNode:
    """A node that takes tasks, or has to be empty.

    Parameters
    ----------
    name
        Its name.
    capacity
        What it has for tasks, by resource; all nodes have the same resources.
    foreign
        What unplanned tasks hold there; empty where none runs, for others keep exclusive jobs away.
    used
        What all tasks hold there, as far as the node lists it, which then counts instead of `foreign`.
    others
        The names of the unplanned jobs there.
    gpu_model, rack
        The model of its GPUs, and its rack, if they are known.
    emptied
        Whether it is drained and has to be empty, but for what cannot be moved.
    limits
        Its capacity of resources that stand for rules on other tasks.
    """

    name: str
    capacity: Amounts
    foreign: Amounts
    used: Mapping[str, Amount | None] = NONE_NAMED
    others: Sequence[str] = ()
    gpu_model: str | None = None
    rack: str | None = None
    emptied: bool = False
    limits: Mapping[str, float] = NONE_NAMED


@dataclass(frozen=True)
class ClusterSnapshot:
    """The nodes that take tasks, and the workloads that are planned.

    Parameters
    ----------
    nodes, workloads
        All of them.
    devices
        The GPUs as single devices; none if they are amounts.
    value
        What a job is worth.
    spread
        How jobs of several tasks may spread.
    """

    nodes: Sequence[SnapshotNode]
    workloads: Sequence[Workload]
    devices: DeviceInventory
    value: Rule
    spread: str

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the nodes."""
        return frozenset(node.name for node in self.nodes)

    @property
    def moving(self) -> bool:
        """Whether a planned task has a node now."""
        return any(workload.places != {None} for workload in self.workloads)

    @cached_property
    def restrictions(self) -> Restrictions:
        """The artificial resources that restrict tasks to the nodes that they may use."""
        return Restrictions(self.names, (choice for groups in self._choices for choice in groups))

    @cached_property
    def _choices(self) -> list[list[Choice]]:
        """The choice of nodes of each group of each workload, under a unique name of the workload."""
        names = numbered((workload.name for workload in self.workloads), "{} ({})")
        return [
            [Choice(name, group.nodes, group.current, group.describe) for group in workload.groups]
            for name, workload in zip(names, self.workloads, strict=True)
        ]

    @cached_property
    def _exclusive(self) -> bool:
        """Whether a workload needs nodes of its own."""
        return any(workload.exclusive for workload in self.workloads)

    @property
    def made_up(self) -> list[str]:
        """The resources that stand for restrictions, for rules, and for nodes of a job's own."""
        limits = dict.fromkeys(name for node in self.nodes for name in node.limits)
        return [*self.restrictions.names, *limits, *([WHOLE_NODE] if self._exclusive else [])]

    def planned_notes(self, choice: str, where: str, moving: str) -> Iterator[str]:
        """Yield the assumptions on which jobs are planned, and that those that run may move.

        Parameters
        ----------
        choice
            gpu or all, as the option has it.
        where
            What else selects jobs, such as " in partition x"; may be empty.
        moving
            The sentence on what it means to move a job.
        """
        which = "jobs that ask for a GPU" if choice == "gpu" else "all jobs"
        running = sum(workload.must_place for workload in self.workloads)
        planned = counted(len(self.workloads), "job")
        yield f"Planned are {which}{where}: {planned}, of which {counted(running, 'runs', 'run')}."
        if running:
            yield moving
            yield move_cost_note()

    def notes(self, tasks: str) -> Iterator[str]:
        """Yield the assumptions on values and spread; `tasks` is the word for several tasks."""
        names = [workload.name for workload in self.workloads]
        yield job_value_note(self.value, names, [workload.priority for workload in self.workloads])
        yield f"Spread is not in the source: {self.spread} for every job of several {tasks}."

    @cached_property
    def _held(self) -> dict[str | None, Counter[str]]:
        """Node → what planned tasks hold there."""
        return _held_by(self.workloads)

    @cached_property
    def _staying(self) -> dict[str | None, list[Workload]]:
        """Node → the workloads that stay there."""
        on: dict[str | None, list[Workload]] = defaultdict(list)
        for workload in self.workloads:
            if workload.stays:
                for node in workload.places:
                    on[node].append(workload)
        return on

    @cached_property
    def _members(self) -> set[TaskSet]:
        return _members_of(self.workloads)

    def servers(self) -> list[Fields]:
        """Return the nodes as servers of the document."""
        return list(map(self._server, self.nodes))

    def jobs(self) -> list[Fields]:
        """Return the workloads as jobs of the document."""
        workloads = self.workloads
        values = worths(self.value, [w.gpus for w in workloads], [w.priority for w in workloads])
        return list(map(self._job, workloads, self._choices, values))

    def _server(self, node: SnapshotNode) -> Fields:
        """Return a node as a server of the document."""
        free, busy = {}, bool(node.foreign)
        planned = self._held.get(node.name, Counter[str]())
        for name, amount in node.capacity.items():
            used = node.used.get(name)
            # The use that a node lists includes planned jobs; the sum over the other jobs does not.
            foreign = node.foreign.get(name, 0) if used is None else used - planned[name]
            busy = busy or foreign > 0
            # What planned tasks hold stays available to them, even if the node is overcommitted.
            free[name] = min(amount, max(amount - max(foreign, 0), planned[name]))
        permits = self.restrictions.permits(node.name) | dict(node.limits)
        own = {WHOLE_NODE: SHARES} if self._exclusive else {}
        server = {
            "name": node.name,
            "capacity": _numbers(node.capacity) | permits | own,
            "free": _numbers(free)
            | permits
            | {name: max(SHARES - busy, min(SHARES, planned[name])) for name in own},
            "rack": node.rack,
            "gpu_model": node.gpu_model,
            "others": node.others[:MAX_OTHERS] or None,
            **self.devices.document(node.name, self._members),
        }
        if not node.emptied:
            return server
        staying = self._staying.get(node.name)
        if not staying:
            return emptied_server(server)
        # What cannot leave, though its node is to be empty, has what it holds, and no more.
        held = _held_by(staying)[node.name]
        amounts = _numbers({name: held[name] for name in node.capacity})
        devices = self.devices.document(node.name, _members_of(staying))
        return {**server, "free": amounts | permits | own, **devices}

    def _job(self, workload: Workload, choices: Sequence[Choice], value: float) -> Fields:
        """Return a workload as a job of the document."""
        single = len(workload.groups) == 1
        fields = [
            self._tasks("task_demand" if single else "demand", workload, group, choice)
            for group, choice in zip(workload.groups, choices, strict=True)
        ]
        names = [group.name for group in workload.groups]
        return {
            "name": choices[0].job,
            "value": value,
            "must_place": workload.must_place,
            "movable": False if workload.stays else None,
            "spread": self.spread if workload.tasks > 1 else "free",
            "gpu_model": workload.gpu_model,
            "workload": workload.owner,
            "max_per_server": 1 if workload.separate else None,
            "assumed": [*workload.assumed] or None,
            **(
                fields[0]
                if single
                else {"groups": [{"name": n, **own} for n, own in zip(names, fields, strict=True)]}
            ),
        }

    def _tasks(self, word: str, workload: Workload, group: TaskGroup, choice: Choice) -> Fields:
        """Return the fields of a group of tasks in the document, in which `word` names their demand."""
        here = {
            node: count for node, count in group.current.items() if node is not None and node in self.names
        }
        demand = _numbers(group.demand) | self.restrictions.demand(choice) | dict(group.limits)
        if self._exclusive:
            demand[WHOLE_NODE] = workload.share_of_node
        held: dict[str, list[tuple[int, ...]]] = {}
        for each in group.members:
            for node in filter(here.__contains__, each.current):
                held.setdefault(node, []).extend(self.devices.held(each, node))
        tasks = sum(group.current.values())
        return {"tasks": tasks, word: demand, "current": here, **fields_of(group.ask, held)}

    def instance(
        self, name: str, source: str, assumptions: Iterable[str], path: Path
    ) -> ConsolidationInstance:
        """Return the instance; parameters as its fields, and the file that messages name."""
        document = {
            "name": name,
            "source": source,
            "assumptions": [*assumptions],
            "objectives": ["value", *(ON_TIES if self.moving else ()), "spread", "servers"],
            **({"restart_cost_h": RESTART_COST_H} if self.moving else {}),
            "servers": self.servers(),
            "restrictions": self.made_up or None,
            "jobs": self.jobs(),
        }
        return validated(ConsolidationInstance, document, str(path))


def _numbers(amounts: Amounts) -> dict[str, float]:
    return {name: float(amount) for name, amount in amounts.items()}


def _members_of(workloads: Iterable[Workload]) -> set[TaskSet]:
    """Return the tasks of some workloads as holders of devices."""
    return {member for workload in workloads for group in workload.groups for member in group.members}


def _held_by(workloads: Iterable[Workload]) -> dict[str | None, Counter[str]]:
    """Return node → what the tasks of some workloads hold there."""
    held: dict[str | None, Counter[str]] = defaultdict(Counter)
    for workload in workloads:
        for group in workload.groups:
            demand = {**group.demand, WHOLE_NODE: workload.share_of_node}
            for node, count in group.current.items():
                held[node].update({name: amount * count for name, amount in demand.items()})
    return held
