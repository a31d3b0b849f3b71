"""Presolve of running jobs: jobs that stay are fixed, and bounds of the problem in which no job migrates.

Fixed jobs: running jobs that stay are removed from the instance. In the reduced instance, servers with such
jobs have less residual capacity and more traffic, and count as used. Its plans, with the fixed jobs added,
are the plans of the original instance; each objective differs by a constant, so that bounds and certificates
carry over. Complete plans are checked and evaluated by the formulation of the original instance.

No migration: bounds come from two smaller problems without current placements. If a plan moves no job and is
optimal in all objectives before `migrations`, then no equally good plan moves a job. So these objectives are
bounded as if moves cost nothing, and those after `migrations` as if all running jobs stay.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import starmap
from typing import Any

from ...instances.common.errors import TooLargeError, some
from ...instances.consolidation.devices import Devices, DeviceSlot, Taken
from ...instances.consolidation.instance import ConsolidationInstance, Server
from ...instances.consolidation.job import PlacementJob
from ..common.formulation import MilpModel, ModelObjective
from ..common.objective import Bounds, Diagnosis, Sense, Values, Violation, agree, exact_fraction, within
from .classes import ClassTable
from .cluster_data import TRAFFIC_RESOURCE, ClusterData
from .explain import action_of
from .formulation import ConsolidationFormulation, moving_tasks
from .formulation import formulation_of as formulation_of_rest
from .milp import milp_model
from .plan import JobPlacement, JobsByName, Plan, assign_devices, entry_of, placed_tasks, staying_tasks

OBJECTIVES_WITHOUT_OFFSET = ("servers", "traffic", "imbalance")
"""Objectives in which the reduced instance includes the contribution of the fixed jobs."""
MAX_DENOMINATOR = 10**9
"""Largest denominator of exact figures; finer fractions may come from rounded sums of floats."""

FixedDemand = dict[str, dict[str, Counter[float]]]
"""Server → resource → demand of a task → number of such tasks of fixed jobs."""


def formulation_with_fixed_jobs(instance: ConsolidationInstance) -> ConsolidationFormulation:
    """Return the formulation of an instance, with the running jobs that stay fixed in place."""
    return WithFixedJobs(instance) if instance.staying else formulation_of_rest(instance)


def model_of(formulation: ConsolidationFormulation) -> MilpModel[JobPlacement]:
    """Return the compact MILP model of a formulation, with the jobs that stay fixed in place.

    Raises
    ------
    TooLargeError
        If there would be too many coefficients.
    """
    if isinstance(formulation, WithFixedJobs):
        return _model_with_fixed(formulation, milp_model(formulation.rest))
    return milp_model(formulation)


class WithFixedJobs(ConsolidationFormulation):
    """The formulation of an instance in which some running jobs stay: reduced by these fixed jobs.

    Attributes
    ----------
    original
        The formulation of the original instance, which checks and evaluates plans.
    fixed
        Plan entries of the jobs that stay, by name.
    rest
        The formulation of the reduced instance.
    offsets
        Contribution of the jobs that stay to each objective.
    """

    def __init__(self, instance: ConsolidationInstance) -> None:
        super().__init__(instance)
        self.original = formulation_of_rest(instance)
        jobs = {job.name: job for job in instance.jobs if job.name in instance.staying}
        named = _fixed_entries(self, jobs) if instance.has_devices else _current_entries(jobs)
        entries = _current_entries(jobs) if named is None else named
        self.without_devices = named is None or any(
            staying_tasks(group, entry, device_moves=True) < group.tasks
            for entry in entries
            for group in jobs[entry.job].task_groups
        )
        self.fixed = {entry.job: entry for entry in entries}
        self.rest = formulation_of_rest(_reduced_instance(self, jobs))
        # Their contribution does not depend on other jobs.
        alone = formulation_of_rest(instance.model_copy(update={"jobs": tuple(jobs.values())}))
        self.offsets = tuple(
            0.0 if objective.name in OBJECTIVES_WITHOUT_OFFSET else value
            for objective, value in zip(self.objectives, alone.evaluate(entries), strict=True)
        )

    def fewest(self, job: PlacementJob) -> int | None:
        """Return m_j, the minimum number of servers that hold the job; None if it can never run."""
        return self.original.fewest(job)

    def others(self, plan: Plan) -> list[JobPlacement]:
        """Return the plan entries of the jobs that are not fixed."""
        return [entry for entry in plan if entry.job not in self.fixed]

    def whole(self, plan: Plan) -> tuple[JobPlacement, ...]:
        """Add the fixed jobs to a plan of the reduced instance, in the order of the jobs."""
        entries = self.fixed | {entry.job: entry for entry in plan}
        return tuple(entries[job.name] for job in self.instance.jobs)

    def lifted(self, bounds: Bounds) -> Bounds:
        """Add the contribution of the fixed jobs to objective values or bounds of the reduced instance."""
        pairs = zip(bounds, self.offsets, strict=False)
        return tuple(None if bound is None else _plus_offset(bound, offset) for bound, offset in pairs)

    @property
    def classes(self) -> ClassTable:
        """The equivalence classes of the jobs and servers of the reduced instance."""
        return self.rest.classes

    def violations(self, plan: Plan) -> list[Violation]:
        """Return every constraint violation of the plan.

        A job that stays and whose current devices are unknown must be on those that the presolve chose.
        """
        return self.original.violations(plan) or [
            Violation("stays", f"job {entry.job!r} runs and stays on its devices")
            for entry in plan
            if entry.job in self.fixed and entry.devices != self.fixed[entry.job].devices
        ]

    def evaluate(self, plan: Plan) -> tuple[float, ...]:
        """Return the value of each objective of a plan, in lexicographic order."""
        return self.original.evaluate(plan)

    def finish(self, plan: Plan) -> tuple[JobPlacement, ...]:
        """Return the plan in the order of the jobs, with actions and with explanations of jobs left out."""
        moves = self.instance.device_moves
        return tuple(
            entry.model_copy(update={"action": action_of(self.jobs[entry.job], entry, moves)})
            for entry in self.whole(self.rest.finish(self.others(plan)))
        )

    def shared_tables(self) -> str | None:
        """Return the note on tables that the check of the reduced instance shares with the solvers."""
        return self.rest.shared_tables()

    def elementary_bounds(self) -> Bounds:
        """Return a combinatorial bound on each objective; None where none is known."""
        return self.lifted(self.rest.elementary_bounds())

    def certified_bounds(self, certificate: Any, values: Values = None) -> Bounds:
        """Return the bound on each objective that dual prices for the reduced instance prove."""
        left = None
        if values is not None:
            pairs = zip(self.objectives, values, self.offsets, strict=True)
            left = [_minus_offset(value, offset, objective.sense) for objective, value, offset in pairs]
        return self.lifted(self.rest.certified_bounds(certificate, left))

    def certificate_fault(self, certificate: Any) -> str | None:
        """Return the error in the format of a certificate; None if it is valid."""
        return self.rest.certificate_fault(certificate)

    def prices(self, certificate: Any, plan: Plan) -> dict[str, float] | None:
        """Return an upper bound on the marginal value of one more empty server, by server type."""
        return self.rest.prices(certificate, self.others(plan))

    def elementary_infeasibility(self) -> Diagnosis | None:
        """Diagnose servers too small for their fixed jobs, or else infeasibility of the reduced instance.

        None if neither is the case.
        """
        on_drained: dict[str, list[str]] = defaultdict(list)
        for job, entry in self.fixed.items():
            for server in self.instance.drained.intersection(entry.used_servers):
                on_drained[server].append(job)
        if on_drained:
            reasons = [
                f"server {server!r} is to be empty, and jobs stay there: {some(jobs)}"
                for server, jobs in on_drained.items()
            ]
            given = [
                *(["--running stay"] if self.instance.running else []),
                *(f"--pin {pattern}" for pattern in self.instance.pinned or ()),
            ]
            remedies = [f"leave out {' and '.join(given)}"] if given else []
            fixed = {job.name: job for job in self.instance.jobs if job.movable is False}
            for name in dict.fromkeys(name for jobs in on_drained.values() for name in jobs if name in fixed):
                why = (fixed[name].assumed or ("It says movable: false.",))[0]
                remedies.append(f"let {name} end first, for --stop does not stop it: {why}")
            return Diagnosis(reasons=tuple(reasons), remedies=tuple(remedies))
        reasons = ["no devices are left for the jobs that stay"] if self.without_devices else []
        for name, demand in _fixed_demand(self.jobs[fixed] for fixed in self.fixed).items():
            free = self.servers[name].available
            for resource, tasks in demand.items():
                amount, available = float(_total_demand(tasks)), free.get(resource, 0.0)
                if resource != TRAFFIC_RESOURCE and not within(amount, available):
                    what = f"jobs that stay hold {amount:g} {resource} of {available:g}"
                    reasons.append(f"server {name!r}: {what}")
        if reasons:
            remedy = "let these jobs move, or count what they hold as free"
            return Diagnosis(reasons=tuple(reasons), remedies=(remedy,))
        return self.rest.elementary_infeasibility()


def _current_entries(jobs: JobsByName) -> list[JobPlacement]:
    """Return the plan entries of running jobs at their current placements."""
    return [entry_of(job, {g.name: dict(g.current) for g in job.task_groups}) for job in jobs.values()]


def _fixed_entries(data: ClusterData, stay: JobsByName) -> list[JobPlacement] | None:
    """Return the plan entries of jobs that stay, with devices; None if servers have too few devices.

    Unknown current devices are chosen among those that no other running job holds, if possible.
    """
    groups = [group for job in stay.values() for group in job.task_groups]
    if any(group.asks and not group.current_devices for group in groups):
        running = {job.name: job for job in data.running}
        with suppress(TooLargeError):
            every = assign_devices(running, data.servers, _current_entries(running)) or []
            if every and all(
                staying_tasks(group, entry, device_moves=True) == group.running_tasks
                for entry in every
                for group in running[entry.job].task_groups
            ):
                return [entry for entry in every if entry.job in stay]
    return assign_devices(stay, data.servers, _current_entries(stay))


def _model_with_fixed(formulation: WithFixedJobs, model: MilpModel[JobPlacement]) -> MilpModel[JobPlacement]:
    """Return the compact MILP model of the reduced instance as one of the original instance."""
    pairs = zip(model.objectives, formulation.offsets, strict=True)
    return MilpModel(
        model.problem,
        tuple(starmap(_lifted_objective, pairs)),
        lambda value: formulation.whole(model.decode(value)),
        lambda plan: model.encode(formulation.others(plan)),
    )


def _lifted_objective(objective: ModelObjective, offset: float) -> ModelObjective:
    """Return an objective of the MILP model with the contribution of the fixed jobs added."""
    return replace(
        objective,
        expression=objective.expression + offset,
        to_plan=lambda value: objective.to_plan(value - offset) + offset,
        integral=objective.integral and offset.is_integer(),
    )


def _plus_offset(bound: float, offset: float) -> float:
    """Return a bound plus the contribution of the fixed jobs, computed in fractions."""
    return float(exact_fraction(bound) + exact_fraction(offset)) if math.isfinite(bound) else bound


def _minus_offset(value: float, offset: float, sense: Sense) -> float:
    """Return an objective value less the contribution of the fixed jobs, rounded to the worse side."""
    if not offset:
        return value
    left = exact_fraction(value) - exact_fraction(offset)
    if left.denominator > MAX_DENOMINATOR:
        slack = exact_fraction(2 * math.ulp(max(abs(value), abs(offset))))
        left = Fraction(0) if abs(left) <= slack else left + (slack if sense == "min" else -slack)
    return float(left)


def _fixed_demand(jobs: Iterable[PlacementJob]) -> FixedDemand:
    """Return the demand of fixed jobs by server and resource, and their traffic, as tasks by demand."""
    demand: FixedDemand = defaultdict(lambda: defaultdict(Counter))
    for job in jobs:
        for group in job.task_groups:
            for server, count in group.current.items():
                for resource, amount in (group.demand | {TRAFFIC_RESOURCE: group.traffic_gbit_per_s}).items():
                    demand[server][resource][amount] += count
    return demand


def _total_demand(tasks: Counter[float]) -> Fraction:
    """Return the exact total demand of tasks, given the number of tasks of each demand."""
    return sum((count * exact_fraction(amount) for amount, count in tasks.items()), Fraction(0))


def _reduced_instance(data: WithFixedJobs, jobs: JobsByName) -> ConsolidationInstance:
    """Return the instance without the fixed jobs and without the capacity that they use."""
    instance, in_use = data.instance, _fixed_demand(jobs.values())
    taken: dict[str, dict[str, list[Taken]]] = defaultdict(lambda: defaultdict(list))
    for entry, group, server, _ in placed_tasks(data.jobs, data.fixed.values()):
        for task in (entry.devices or {}).get(group.name, {}).get(server, ()):
            for name, where in task.items():
                ask = group.asks[name]
                if isinstance(where, DeviceSlot):
                    held = [Taken(device=where.device, profile=ask.profile, slot=where.slot)]
                else:
                    held = [Taken(device=device, share=ask.share or None) for device in where]
                taken[server][name] += held
    servers = [
        _reduced_server(server, in_use[server.name], taken[server.name]) if server.name in in_use else server
        for server in instance.expanded_servers
    ]
    others = tuple(job for job in instance.jobs if job.name not in jobs)
    # What says who stays and what may move is settled, or is data of the jobs that are left.
    return instance.model_copy(
        update={"servers": tuple(servers), "jobs": others, "running": None, "pinned": None}
    )


def _reduced_server(
    server: Server, in_use: dict[str, Counter[float]], taken: dict[str, list[Taken]]
) -> Server:
    """Return a server with the resources of its fixed jobs subtracted, marked as in use."""
    free = {
        name: max(0.0, float(exact_fraction(amount) - _total_demand(in_use[name])))
        for name, amount in server.available.items()
    }
    devices = {
        name: _reduced_devices(listed, server, name, taken[name])
        for name, listed in (server.devices or {}).items()
    }
    return server.model_copy(
        update={
            "free": free,
            "devices": devices or None,
            "traffic_gbit_per_s": float(
                exact_fraction(server.traffic_gbit_per_s) + _total_demand(in_use[TRAFFIC_RESOURCE])
            ),
            "in_use": True,
        }
    )


def _reduced_devices(devices: Devices, server: Server, name: str, more: list[Taken]) -> Devices:
    """Return the devices of a server with those of the fixed jobs marked as taken."""
    before: Iterable[Taken] | None = devices.taken
    if before is None:
        # Where only a number is free, the others are taken.
        states = enumerate(server.device_states[name])
        before = (Taken(device=device) for device, state in states if state.mode == "whole")
    return devices.model_copy(update={"taken": (*before, *more)})


MIN_CELLS = 200
"""Least number of task groups times servers for which the instance without moves is solved first."""
STAYING_KEY, LEADING_KEY = "staying", "leading"
"""Keys of the certificates of the problem without moves, and of the objectives before `migrations`."""


def formulation_of(instance: ConsolidationInstance) -> ConsolidationFormulation:
    """Return the formulation of an instance, with the presolve for fixed or running jobs if it applies."""
    formulation = formulation_with_fixed_jobs(instance)
    without_parts = "migrations" not in instance.objectives or instance.has_aim
    if type(formulation) is not ConsolidationFormulation or without_parts:
        return formulation
    return formulation if without_moves(formulation) is None else WithRunningJobs(instance)


def without_moves(formulation: ConsolidationFormulation) -> ConsolidationInstance | None:
    """Return the instance in which all running jobs stay.

    None for few servers, if none can stay, or if there is an aim that moves have to reach.
    """
    staying = formulation.instance.model_copy(update={"running": "stay"})
    cells = sum(len(job.task_groups) for job in staying.jobs) * len(formulation.servers)
    return staying if cells >= MIN_CELLS and staying.staying and not staying.has_aim else None


class WithRunningJobs(ConsolidationFormulation):
    """The formulation of an instance with running jobs and the objective `migrations`.

    Bounds come from two smaller problems: the objectives before `migrations`, and no job moves.
    """

    @cached_property
    def staying(self) -> WithFixedJobs:
        """The formulation of the same instance in which all running jobs stay."""
        return WithFixedJobs(self.instance.model_copy(update={"running": "stay"}))

    @cached_property
    def before(self) -> int:
        """Number of objectives that precede `migrations`, and `stops` directly before it."""
        return self.after - 1 - (self.instance.objectives[: self.after - 1][-1:] == ("stops",))

    @property
    def after(self) -> int:
        """Number of objectives up to `migrations`."""
        return self.instance.objectives.index("migrations") + 1

    @cached_property
    def leading(self) -> ConsolidationFormulation:
        """The formulation with only the objectives before `migrations`, as if moves cost nothing."""
        jobs = tuple(
            job if job.restart_s is None else job.model_copy(update={"restart_s": None})
            for job in self.instance.jobs
        )
        objectives = self.instance.objectives[: self.before] or ("value",)
        free = {"restart_cost_h": None, "max_moves": None}
        return ConsolidationFormulation(
            self.instance.model_copy(update={"jobs": jobs, "objectives": objectives, **free})
        )

    def nothing_moves(self, values: Sequence[float], leading: Bounds) -> bool:
        """Return whether it is proven that every plan as good as a given one moves no job.

        Parameters
        ----------
        values
            Objective values of a plan.
        leading
            Bounds on the objectives before `migrations`.
        """
        known = zip(leading, values[: self.before], strict=False)
        proven = [bound is not None and agree(bound, value) for bound, value in known]
        return len(proven) == self.before and all(proven) and values[self.after - 1] == 0

    def if_nothing_moves(self, leading: Bounds, staying: Bounds) -> Bounds:
        """Return the bounds on all objectives, from those of the two problems, where no job moves."""
        return (*leading, *[0.0] * (self.after - self.before), *staying[self.after :])

    def certified_bounds(self, certificate: Any, values: Values = None) -> Bounds:
        """Return the bounds that the certificates of the two smaller problems, or a single one, prove."""
        if not _has_two_parts(certificate):
            return super().certified_bounds(certificate, values)
        bounds = super().certified_bounds(None, values)
        if values is None:
            return bounds
        leading = self.leading.certified_bounds(certificate[LEADING_KEY], values[: self.before] or None)
        pairs = zip(self.objectives, bounds, leading, strict=False)
        proven = [objective.tighter(one, other) for objective, one, other in pairs][: self.before]
        if not self.nothing_moves(values, proven):
            return (*proven, *bounds[self.before :])
        staying = self.staying.certified_bounds(certificate[STAYING_KEY], values)
        return self.if_nothing_moves(proven, staying)

    def certificate_fault(self, certificate: Any) -> str | None:
        """Return the error in the format of a certificate; None if it is valid."""
        if not _has_two_parts(certificate):
            return super().certificate_fault(certificate)
        parts = ((self.leading, certificate[LEADING_KEY]), (self.staying, certificate[STAYING_KEY]))
        faults = (part.certificate_fault(given) for part, given in parts if given is not None)
        return next(filter(None, faults), None)

    def prices(self, certificate: Any, plan: Plan) -> dict[str, float] | None:
        """Return an upper bound on the marginal value of one more empty server, by server type.

        None for a plan that moves jobs.
        """
        if not _has_two_parts(certificate):
            return super().prices(certificate, plan)
        if moving_tasks(self, plan):
            return None  # the leading objectives do not count what a move costs
        return self.leading.prices(certificate[LEADING_KEY], plan)

    def shared_tables(self) -> str | None:
        """Return the first note, over the three problems, on tables shared with the solvers; None if none."""
        parts = (super().shared_tables(), self.leading.shared_tables(), self.staying.shared_tables())
        return next(filter(None, parts), None)


def _has_two_parts(certificate: Any) -> bool:
    """Return whether a certificate consists of those of the two smaller problems."""
    return isinstance(certificate, Mapping) and certificate.keys() == {LEADING_KEY, STAYING_KEY}
