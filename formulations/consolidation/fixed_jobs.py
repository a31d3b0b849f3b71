"""Running jobs that stay: they are taken out of the problem, and added to its plans and bounds again.

A job that stays decides nothing. What is left is an instance without these jobs, whose servers have less
free and more traffic, and count as used. Its plans, with the jobs that stay added, are the plans of all;
each objective differs by a constant, so that its bounds and certificates prove those of the whole.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...instances.consolidation.devices import Devices, DeviceSlot, Taken
from ...instances.consolidation.instance import ConsolidationInstance
from ...instances.consolidation.job import PlacementJob
from ...instances.consolidation.server import Server
from ..common.milp_model import MilpModel, ModelObjective
from ..common.objective import Diagnosis, Violation
from ..common.tolerance import within
from .classes import ClassTable
from .devices.formulation import formulation_of as formulation_of_rest
from .devices.naming import with_devices
from .evaluate import VALUE_OF
from .explain import action_of
from .formulation import ConsolidationFormulation
from .milp import milp_model
from .plan import JobPlacement, entry_of

NO_OFFSET = ("servers", "traffic", "migrations")
"""Objectives that servers in use count anyway, and in which jobs that stay count nothing."""


def formulation_of(instance: ConsolidationInstance) -> ConsolidationFormulation:
    """Return the formulation of an instance, with or without jobs that stay."""
    said = instance.running or instance.pinned or any(job.movable is False for job in instance.jobs)
    if said and any(map(instance.stays, instance.jobs)):
        return WithFixedJobs(instance)
    return formulation_of_rest(instance)


def model_of(formulation: ConsolidationFormulation) -> MilpModel[JobPlacement]:
    """Return the textbook model, with or without jobs that stay.

    Raises
    ------
    TooLargeError
        If there would be too many coefficients.
    """
    if isinstance(formulation, WithFixedJobs):
        return _model_with_fixed(formulation, milp_model(formulation.rest))
    return milp_model(formulation)


class WithFixedJobs(ConsolidationFormulation):
    """The mathematics of an instance in which running jobs stay.

    Attributes
    ----------
    fixed
        Where each job runs that stays.
    rest
        The formulation of the instance that is left.
    offsets
        What the jobs that stay count in each objective.
    """

    def __init__(self, instance: ConsolidationInstance) -> None:
        super().__init__(instance)
        jobs = {job.name: job for job in instance.jobs if instance.stays(job)}
        now = [entry_of(job, {g.name: dict(g.current) for g in job.task_groups}) for job in jobs.values()]
        named = with_devices(jobs, self.servers, now) if instance.has_devices else now
        self.without_devices = named is None
        self.fixed = {entry.job: entry for entry in (now if named is None else named)}
        self.rest = formulation_of_rest(_rest(instance, self.fixed))
        entries = tuple(self.fixed.values())
        self.offsets = tuple(
            0.0 if name in NO_OFFSET else VALUE_OF[name](self, entries) for name in instance.objectives
        )

    def fewest(self, job: PlacementJob) -> int | None:
        """Return m_j, which depends on capacities alone; None if the job can never run."""
        return self.rest.fewest(job)

    def others(self, plan: Sequence[JobPlacement]) -> list[JobPlacement]:
        """Return the entries of jobs that need not stay."""
        return [entry for entry in plan if entry.job not in self.fixed]

    def whole(self, plan: Sequence[JobPlacement]) -> tuple[JobPlacement, ...]:
        """Return a plan of what is left with the jobs that stay, in the order of the instance."""
        entries = self.fixed | {entry.job: entry for entry in plan}
        return tuple(entries[job.name] for job in self.instance.jobs)

    def lifted(self, bounds: Sequence[float | None]) -> tuple[float | None, ...]:
        """Return values or bounds of what is left as those of the whole."""
        pairs = zip(bounds, self.offsets, strict=False)
        return tuple(None if bound is None else bound + offset for bound, offset in pairs)

    @property
    def classes(self) -> ClassTable:
        """Classes of what is left."""
        return self.rest.classes

    def violations(self, plan: Sequence[JobPlacement]) -> list[Violation]:
        """Return every constraint that the plan breaks."""
        found = []
        entries = {entry.job: entry for entry in plan}
        for name, right in self.fixed.items():
            entry = entries.get(name)
            if entry is None:
                found.append(Violation("one placement", f"job {name!r} is missing"))
            elif not entry.placed or entry.tasks != right.tasks or entry.devices != right.devices:
                found.append(Violation("stays", f"job {name!r} runs and stays where it is"))
        if len(entries) < len(plan):
            found.append(Violation("one placement", "a job is listed twice"))
        return found or self.rest.violations(self.others(plan))

    def evaluate(self, plan: Sequence[JobPlacement]) -> tuple[float, ...]:
        """Return the value of each objective, in the instance's order."""
        values = self.rest.evaluate(self.others(plan))
        return tuple(value + offset for value, offset in zip(values, self.offsets, strict=True))

    def finish(self, plan: Sequence[JobPlacement]) -> tuple[JobPlacement, ...]:
        """Return the plan in the order of the jobs, with reasons and with what is to be done."""
        return tuple(
            entry.model_copy(update={"action": action_of(job, entry, self.instance.device_moves)})
            for job, entry in zip(
                self.instance.jobs, self.whole(self.rest.finish(self.others(plan))), strict=True
            )
        )

    def shared_tables(self) -> str | None:
        """Return which table the check of what is left took from the methods."""
        return self.rest.shared_tables()

    def elementary_bounds(self) -> tuple[float | None, ...]:
        """Bound the objectives by counting."""
        return self.lifted(self.rest.elementary_bounds())

    def certified_bounds(
        self, certificate: Any, values: Sequence[float] | None = None
    ) -> tuple[float | None, ...]:
        """Return the bounds that prices of what is left prove."""
        left = None
        if values is not None:
            left = [value - offset for value, offset in zip(values, self.offsets, strict=True)]
        return self.lifted(self.rest.certified_bounds(certificate, left))

    def certificate_fault(self, certificate: Any) -> str | None:
        """Return what is wrong with the form of a certificate."""
        return self.rest.certificate_fault(certificate)

    def prices(self, certificate: Any, plan: Sequence[JobPlacement]) -> dict[str, float] | None:
        """Return what one more empty server of each shape adds to the value at most."""
        return self.rest.prices(certificate, self.others(plan))

    def elementary_infeasibility(self) -> Diagnosis | None:
        """Find servers that do not hold what stays on them, then what counting finds."""
        reasons = ["no devices are left for the jobs that stay"] if self.without_devices else []
        for name, used in _held(self.instance, self.fixed).items():
            free = self.servers[name].available
            reasons += [
                f"server {name!r}: jobs that stay hold {amount:g} {resource} of {free.get(resource, 0.0):g}"
                for resource, amount in used.items()
                if not within(amount, free.get(resource, 0.0))
            ]
        if reasons:
            remedy = "let these jobs move, or count what they hold as free"
            return Diagnosis(reasons=tuple(reasons), remedies=(remedy,))
        return self.rest.elementary_infeasibility()


def _model_with_fixed(formulation: WithFixedJobs, model: MilpModel[JobPlacement]) -> MilpModel[JobPlacement]:
    """Return the textbook model of what is left as one of the whole instance."""
    pairs = zip(model.objectives, formulation.offsets, strict=True)
    objectives = tuple(_lifted(objective, offset) for objective, offset in pairs)
    return MilpModel(
        model.problem,
        objectives,
        lambda value: formulation.whole(model.decode(value)),
        lambda plan: model.encode(formulation.others(plan)),
    )


def _lifted(objective: ModelObjective, offset: float) -> ModelObjective:
    """Return an objective with what the jobs that stay count."""
    return replace(
        objective,
        expression=objective.expression + offset,
        to_plan=lambda value: objective.to_plan(value - offset) + offset,
        integral=objective.integral and offset.is_integer(),
    )


def _held(instance: ConsolidationInstance, fixed: dict[str, JobPlacement]) -> dict[str, dict[str, float]]:
    """Return server → resource → what jobs that stay hold there."""
    amounts: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for job in instance.jobs:
        for group in job.task_groups if job.name in fixed else ():
            for server, count in group.current.items():
                for resource, amount in group.demand.items():
                    amounts[server][resource].append(count * amount)
    return {
        name: {resource: math.fsum(listed) for resource, listed in held.items()}
        for name, held in amounts.items()
    }


def _rest(instance: ConsolidationInstance, fixed: dict[str, JobPlacement]) -> ConsolidationInstance:
    """Return the instance without the jobs that stay."""
    held = _held(instance, fixed)
    traffic: dict[str, list[float]] = defaultdict(list)
    taken: dict[str, dict[str, list[Taken]]] = defaultdict(lambda: defaultdict(list))
    used = set()
    for job in instance.jobs:
        if job.name not in fixed:
            continue
        for group in job.task_groups:
            used |= set(group.current)
            for server, count in group.current.items():
                traffic[server].append(count * group.traffic_gbit_per_s)
            for server, tasks in ((fixed[job.name].devices or {}).get(group.name) or {}).items():
                for name, where in ((name, where) for task in tasks for name, where in task.items()):
                    ask = group.asks[name]
                    if isinstance(where, DeviceSlot):
                        taken[server][name].append(
                            Taken(device=where.device, profile=ask.profile, slot=where.slot)
                        )
                    else:
                        share = ask.share or None
                        taken[server][name] += [Taken(device=device, share=share) for device in where]
    servers = [
        _less(server, held.get(server.name, {}), traffic[server.name], taken[server.name])
        if server.name in used
        else server
        for server in instance.expanded_servers
    ]
    jobs = tuple(job for job in instance.jobs if job.name not in fixed)
    # What says who stays and what may move is settled, or is data of the jobs that are left.
    return instance.model_copy(
        update={"servers": tuple(servers), "jobs": jobs, "running": None, "pinned": None}
    )


def _less(
    server: Server, held: dict[str, float], traffic: list[float], taken: dict[str, list[Taken]]
) -> Server:
    """Return a server on which something stays: less is free, and it is in use."""
    free = {name: max(0.0, amount - held.get(name, 0.0)) for name, amount in server.available.items()}
    devices = None
    if server.devices:
        devices = {
            name: _taken(listed, server, name, taken.get(name, [])) for name, listed in server.devices.items()
        }
    return server.model_copy(
        update={
            "free": free,
            "devices": devices,
            "traffic_gbit_per_s": math.fsum([server.traffic_gbit_per_s, *traffic]),
            "in_use": True,
        }
    )


def _taken(devices: Devices, server: Server, name: str, more: list[Taken]) -> Devices:
    """Return devices of which more is taken."""
    before = list(devices.taken or ())
    if devices.taken is None:
        # Where only a number is free, the others are held by somebody.
        states = enumerate(server.device_states[name])
        before = [Taken(device=device) for device, state in states if state.mode == "whole"]
    return devices.model_copy(update={"taken": (*before, *more)})
