"""Presolve of running jobs: jobs that stay are fixed, and bounds of the problem in which no job migrates.

Running jobs that stay: they are taken out of the problem, and added to its plans and bounds again. A job that
stays decides nothing. What is left is an instance without these jobs, whose servers have less free and more
traffic, and count as used. Its plans, with the jobs that stay added, are the plans of all; each objective
differs by a constant, so that its bounds and certificates prove those of the whole. Whole plans are judged by
the formulation of the instance as it was given, which knows nothing of what is left.

Where nothing has to move: bounds from two smaller problems, neither of which says who runs where. If a plan
moves nobody and is the best in all objectives before `migrations`, then no plan that is as good moves
anybody. So these objectives are bounded as if moves cost nothing, and those after `migrations` as if all
running jobs stay.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from ...instances.common.errors import TooLargeError
from ...instances.consolidation.devices import Devices, DeviceSlot, Taken
from ...instances.consolidation.instance import ConsolidationInstance, Server
from ...instances.consolidation.job import PlacementJob
from ..common.formulation import MilpModel, ModelObjective
from ..common.objective import Diagnosis, Sense, Violation, agree, within
from .classes import ClassTable, exact
from .explain import action_of
from .formulation import ConsolidationFormulation, moved
from .formulation import formulation_of as formulation_of_rest
from .milp import milp_model
from .plan import JobPlacement, entry_of, staying, with_devices

NO_OFFSET = ("servers", "traffic")
"""Objectives in which the servers of what is left count what the jobs that stay do."""
FINEST = 10**9
"""Figures whose decimals are finer than such parts of one may be off by the rounding of a sum of floats."""

Held = dict[str, dict[str, Counter[float]]]
"""Server → resource → what a task takes → how many such tasks stay there."""


def with_or_without_fixed_jobs(instance: ConsolidationInstance) -> ConsolidationFormulation:
    """Return the formulation of an instance, with or without jobs that stay."""
    return WithFixedJobs(instance) if instance.staying else formulation_of_rest(instance)


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
    original
        The formulation of the instance as it was given, which judges and evaluates plans.
    fixed
        Where each job runs that stays.
    rest
        The formulation of the instance that is left.
    offsets
        What the jobs that stay count in each objective.
    """

    def __init__(self, instance: ConsolidationInstance) -> None:
        super().__init__(instance)
        self.original = formulation_of_rest(instance)
        jobs = {job.name: job for job in instance.jobs if job.name in instance.staying}
        named = _named(instance, self.servers) if instance.has_devices else _running(jobs)
        entries = tuple(_running(jobs) if named is None else named)
        self.without_devices = named is None or any(
            staying(group, entry, device_moves=True) < group.tasks
            for entry in entries
            for group in jobs[entry.job].task_groups
        )
        self.fixed = {entry.job: entry for entry in entries}
        self.rest = formulation_of_rest(_rest(instance, self.fixed))
        # What they count is what they would count without any other job.
        alone = formulation_of_rest(instance.model_copy(update={"jobs": tuple(jobs.values())}))
        self.offsets = tuple(
            0.0 if objective.name in NO_OFFSET else value
            for objective, value in zip(self.objectives, alone.evaluate(entries), strict=True)
        )

    def fewest(self, job: PlacementJob) -> int | None:
        """Return m_j, which depends on capacities alone; None if the job can never run."""
        return self.original.fewest(job)

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
        return tuple(None if bound is None else _with(bound, offset) for bound, offset in pairs)

    @property
    def classes(self) -> ClassTable:
        """Classes of what is left."""
        return self.rest.classes

    def violations(self, plan: Sequence[JobPlacement]) -> list[Violation]:
        """Return every constraint that the plan breaks.

        Where it is not said which devices a job holds that stays, they are the ones that were chosen for it.
        """
        return self.original.violations(plan) or [
            Violation("stays", f"job {entry.job!r} runs and stays on its devices")
            for entry in plan
            if entry.job in self.fixed and entry.devices != self.fixed[entry.job].devices
        ]

    def evaluate(self, plan: Sequence[JobPlacement]) -> tuple[float, ...]:
        """Return the value of each objective, in the instance's order."""
        return self.original.evaluate(plan)

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
            pairs = zip(self.objectives, values, self.offsets, strict=True)
            left = [_left(value, offset, objective.sense) for objective, value, offset in pairs]
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
        for name, held in _held(self.instance, self.fixed).items():
            free = self.servers[name].available
            for resource, tasks in held.items():
                amount, there = float(_sum(tasks)), free.get(resource, 0.0)
                if not within(amount, there):
                    what = f"jobs that stay hold {amount:g} {resource} of {there:g}"
                    reasons.append(f"server {name!r}: {what}")
        if reasons:
            remedy = "let these jobs move, or count what they hold as free"
            return Diagnosis(reasons=tuple(reasons), remedies=(remedy,))
        return self.rest.elementary_infeasibility()


def _running(jobs: Mapping[str, PlacementJob]) -> list[JobPlacement]:
    """Return running jobs where they are."""
    return [entry_of(job, {g.name: dict(g.current) for g in job.task_groups}) for job in jobs.values()]


def _named(instance: ConsolidationInstance, servers: Mapping[str, Server]) -> list[JobPlacement] | None:
    """Return the jobs that stay with the devices that they hold; None if the servers have too few for them.

    Where it is not said which these are, they are none that another running job is said to hold, if possible.
    """
    stay = {job.name: job for job in instance.jobs if job.name in instance.staying}
    unknown = [
        group
        for job in stay.values()
        for group in job.task_groups
        if group.asks and not group.current_devices
    ]
    if unknown:
        running = {job.name: job for job in instance.jobs if any(group.current for group in job.task_groups)}
        with suppress(TooLargeError):
            every = with_devices(running, servers, _running(running)) or []
            if every and all(
                staying(group, entry, device_moves=True) == sum(group.current.values())
                for entry in every
                for group in running[entry.job].task_groups
            ):
                return [entry for entry in every if entry.job in stay]
    return with_devices(stay, servers, _running(stay))


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


def _with(bound: float, offset: float) -> float:
    """Return a bound with what the jobs that stay count; the two may cancel to nothing."""
    return float(exact(bound) + exact(offset)) if math.isfinite(bound) else bound


def _left(value: float, offset: float, sense: Sense) -> float:
    """Return what the other jobs count of a value; rounding never makes it look better than it is."""
    if not offset:
        return value
    left = exact(value) - exact(offset)
    if left.denominator > FINEST:
        slack = exact(2 * math.ulp(max(abs(value), abs(offset))))
        left = Fraction(0) if abs(left) <= slack else left + (slack if sense == "min" else -slack)
    return float(left)


def _held(instance: ConsolidationInstance, fixed: dict[str, JobPlacement]) -> Held:
    """Return what jobs that stay hold of each server."""
    held: Held = defaultdict(lambda: defaultdict(Counter))
    for job in instance.jobs:
        for group in job.task_groups if job.name in fixed else ():
            for server, count in group.current.items():
                for resource, amount in group.demand.items():
                    held[server][resource][amount] += count
    return held


def _sum(tasks: Counter[float]) -> Fraction:
    """Return what tasks take together; decimals, since a difference of floats would be off by their size."""
    return sum((count * exact(amount) for amount, count in tasks.items()), Fraction(0))


def _rest(instance: ConsolidationInstance, fixed: dict[str, JobPlacement]) -> ConsolidationInstance:
    """Return the instance without the jobs that stay."""
    held = _held(instance, fixed)
    traffic: dict[str, Counter[float]] = defaultdict(Counter)
    taken: dict[str, dict[str, list[Taken]]] = defaultdict(lambda: defaultdict(list))
    used = set()
    for job in instance.jobs:
        if job.name not in fixed:
            continue
        for group in job.task_groups:
            used |= set(group.current)
            for server, count in group.current.items():
                traffic[server][group.traffic_gbit_per_s] += count
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
    server: Server, held: dict[str, Counter[float]], traffic: Counter[float], taken: dict[str, list[Taken]]
) -> Server:
    """Return a server on which something stays: less is free, and it is in use."""
    free = {
        name: max(0.0, float(exact(amount) - _sum(held[name]))) if name in held else amount
        for name, amount in server.available.items()
    }
    devices = None
    if server.devices:
        devices = {
            name: _taken(listed, server, name, taken.get(name, [])) for name, listed in server.devices.items()
        }
    return server.model_copy(
        update={
            "free": free,
            "devices": devices,
            "traffic_gbit_per_s": float(exact(server.traffic_gbit_per_s) + _sum(traffic)),
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


FEWEST_CELLS = 200
"""Groups of tasks times servers from which on it is worth while."""
STAYING, LEADING = "staying", "leading"
"""Certificates of the problem in which all running jobs stay, and of the objectives before `migrations`."""


def formulation_of(instance: ConsolidationInstance) -> ConsolidationFormulation:
    """Return the formulation of an instance, with or without running jobs and jobs that stay."""
    formulation = with_or_without_fixed_jobs(instance)
    if type(formulation) is not ConsolidationFormulation or "migrations" not in instance.objectives:
        return formulation
    staying = instance.model_copy(update={"running": "stay"})
    cells = sum(len(job.task_groups) for job in instance.jobs) * len(formulation.servers)
    if cells < FEWEST_CELLS or not any(map(staying.stays, instance.jobs)):
        return formulation
    return WithRunningJobs(instance)


class WithRunningJobs(ConsolidationFormulation):
    """The mathematics of an instance in which some jobs run, and moves come after other objectives."""

    @cached_property
    def staying(self) -> WithFixedJobs:
        """The formulation in which all running jobs stay."""
        return WithFixedJobs(self.instance.model_copy(update={"running": "stay"}))

    @cached_property
    def before(self) -> int:
        """How many objectives come before `migrations`."""
        return self.instance.objectives.index("migrations")

    @cached_property
    def leading(self) -> ConsolidationFormulation:
        """The formulation of the objectives before `migrations`, as if moves cost nothing."""
        jobs = tuple(
            job if job.restart_s is None else job.model_copy(update={"restart_s": None})
            for job in self.instance.jobs
        )
        objectives = self.instance.objectives[: self.before] or ("value",)
        free = {"restart_cost_h": None, "max_moves": None}
        return ConsolidationFormulation(
            self.instance.model_copy(update={"jobs": jobs, "objectives": objectives, **free})
        )

    def nothing_moves(self, values: Sequence[float], leading: Sequence[float | None]) -> bool:
        """Return whether no plan as good moves anybody.

        Parameters
        ----------
        values
            Of a plan.
        leading
            Bounds on the objectives before `migrations`.
        """
        known = zip(leading, values[: self.before], strict=False)
        proven = [bound is not None and agree(bound, value) for bound, value in known]
        return len(proven) == self.before and all(proven) and values[self.before] == 0

    def certified_bounds(
        self, certificate: Any, values: Sequence[float] | None = None
    ) -> tuple[float | None, ...]:
        """Return the bounds that the certificates of the two smaller problems prove, or that of the whole."""
        if not _is_double(certificate):
            return super().certified_bounds(certificate, values)
        bounds = super().certified_bounds(None, values)
        if values is None:
            return bounds
        leading = self.leading.certified_bounds(certificate[LEADING], values[: self.before] or None)
        pairs = zip(self.objectives, bounds, leading, strict=False)
        found = [objective.tighter(one, other) for objective, one, other in pairs][: self.before]
        if not self.nothing_moves(values, found):
            return (*found, *bounds[self.before :])
        staying = self.staying.certified_bounds(certificate[STAYING], values)
        return (*found, 0.0, *staying[self.before + 1 :])

    def certificate_fault(self, certificate: Any) -> str | None:
        """Return what is wrong with the form of a certificate."""
        if not _is_double(certificate):
            return super().certificate_fault(certificate)
        parts = ((self.leading, certificate[LEADING]), (self.staying, certificate[STAYING]))
        faults = (part.certificate_fault(given) for part, given in parts if given is not None)
        return next((fault for fault in faults if fault is not None), None)

    def prices(self, certificate: Any, plan: Sequence[JobPlacement]) -> dict[str, float] | None:
        """Return what one more empty server of each shape adds to the value at most."""
        if not _is_double(certificate):
            return super().prices(certificate, plan)
        if any(True for _ in moved(self, plan)):
            return None  # the leading objectives do not count what a move costs
        return self.leading.prices(certificate[LEADING], plan)

    def shared_tables(self) -> str | None:
        """Return which table the check took from the methods, in any of the problems."""
        parts = (super().shared_tables(), self.leading.shared_tables(), self.staying.shared_tables())
        return next((said for said in parts if said is not None), None)


def _is_double(certificate: Any) -> bool:
    """Return whether a certificate is one of the two smaller problems."""
    return isinstance(certificate, Mapping) and certificate.keys() == {LEADING, STAYING}
