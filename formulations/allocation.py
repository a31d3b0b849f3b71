"""Allocation: how many parameter servers and workers for each job (Optimus, EuroSys'18, section 4.2).

Sets
    jobs j, resources r, configurations k ∈ K_j: (variant, p, w), or unplaced where the job is optional
Data
    t_jk = Q_j / f_j(p, w) [s], plus restart_s if k is not the current configuration; ω_j weight;
    a_jkr = p·N_jr + w·O_jr, what k takes of r; C_r capacity; the hourly budget is one more row
Variables
    x_jk ∈ {0, 1}: job j runs with configuration k
Objective
    `total_completion_time`: minimise Σ_jk ω_j t_jk x_jk [weighted job-seconds]
    `makespan`: minimise T with T ≥ Σ_k t_jk x_jk for every j [s]
Constraints
    Σ_k x_jk = 1 for every j;  Σ_jk a_jkr x_jk ≤ C_r for every r
    (configurations later than the job's deadline are not in K_j; staying unplaced is never late)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ..instances.allocation import AllocationInstance, Job, Variant
from ..instances.base import Kind
from ..instances.fields import Count, Flag, Model, Name
from ..instances.speed import SpeedTable
from .allocation_menu import (
    BUDGET,
    UNPLACED,
    Menu,
    build_menu,
    capacity_rows,
    completion_time_s,
    task_demands,
)
from .base import Diagnosis, Formulation, Objective, Violation, within
from .textbook import ModelObjective, TextbookModel, at_most, new_problem


class JobAllocation(Model):
    """What one job gets; a job that is not placed has no variant and no tasks."""

    job: Name
    placed: Flag = True
    variant: Name | None = None
    ps: Count = 0
    workers: Count = 0


class AllocationFormulation(Formulation[AllocationInstance, JobAllocation]):
    """The mathematics of an allocation instance."""

    kind: ClassVar[Kind] = "allocation"
    entry = JobAllocation

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """The single objective, in seconds."""
        unit = "s" if self.instance.objective == "makespan" else "job-s"
        return (Objective(self.instance.objective, "min", unit),)

    @cached_property
    def menu(self) -> Menu:
        """Every configuration of every job, in columns."""
        return build_menu(self.instance)

    def plan_of(self, chosen: Sequence[int]) -> tuple[JobAllocation, ...]:
        """Return the plan that picks these rows of the menu, one for each job in order."""
        menu = self.menu
        return tuple(
            JobAllocation(job=job.name, placed=False)
            if menu.variant[k] == UNPLACED
            else JobAllocation(
                job=job.name,
                variant=job.variants[int(menu.variant[k])].name,
                ps=int(menu.ps[k]),
                workers=int(menu.workers[k]),
            )
            for job, k in zip(self.instance.jobs, chosen, strict=True)
        )

    def rows_of(self, plan: Sequence[JobAllocation]) -> list[int]:
        """Return the rows of the menu that a feasible plan picks, one for each job in order."""
        entries = {entry.job: entry for entry in plan}
        chosen, menu = [], self.menu
        for j, job in enumerate(self.instance.jobs):
            entry = entries[job.name]
            names = [variant.name for variant in job.variants]
            wanted = (
                names.index(entry.variant) if entry.variant is not None else UNPLACED,
                entry.ps,
                entry.workers,
            )
            rows = menu.of(j)
            keys = zip(menu.variant[rows], menu.ps[rows], menu.workers[rows], strict=True)
            chosen.append(next(k for k, key in zip(rows, keys, strict=True) if key == wanted))
        return chosen

    def violations(self, plan: Sequence[JobAllocation]) -> list[Violation]:
        """Return every constraint that the plan breaks."""
        jobs = {job.name: job for job in self.instance.jobs}
        found: list[Violation] = []
        usage = np.zeros(len(capacity_rows(self.instance)[0]))
        seen: set[str] = set()
        for entry in plan:
            if entry.job not in jobs:
                found.append(Violation("job", f"{entry.job!r} is not in the instance"))
                continue
            if entry.job in seen:
                found.append(Violation("one configuration", f"job {entry.job!r} is listed twice"))
                continue
            seen.add(entry.job)
            faults = _entry_violations(jobs[entry.job], entry)
            found += faults
            if not faults and entry.placed:
                variant = _variant(jobs[entry.job], entry)
                ps_row, worker_row = task_demands(self.instance, variant)
                usage += entry.ps * ps_row + entry.workers * worker_row
        found += [Violation("one configuration", f"job {n!r} is missing") for n in jobs if n not in seen]
        return found + self._overuse(usage)

    def _overuse(self, usage: Any) -> list[Violation]:
        names, limits = capacity_rows(self.instance)
        return [
            Violation(
                "budget" if name == BUDGET else f"capacity of {name}",
                f"the plan takes {used:g}, {used - limit:g} more than the {limit:g} there are",
            )
            for name, used, limit in zip(names, usage.tolist(), limits.tolist(), strict=True)
            if not within(used, limit)
        ]

    def completion_times_s(self, plan: Sequence[JobAllocation]) -> list[float]:
        """Return the completion time of each entry of a feasible plan."""
        jobs = {job.name: job for job in self.instance.jobs}
        return [_time_s(jobs[entry.job], entry) for entry in plan]

    def evaluate(self, plan: Sequence[JobAllocation]) -> tuple[float, ...]:
        """Return the weighted sum of completion times, or the largest, in seconds."""
        times = self.completion_times_s(plan)
        if self.instance.objective == "makespan":
            return (max(times),)
        weights = {job.name: job.weight for job in self.instance.jobs}
        return (math.fsum(weights[entry.job] * t for entry, t in zip(plan, times, strict=True)),)

    def finish(self, plan: Sequence[JobAllocation]) -> tuple[JobAllocation, ...]:
        """Return the plan in the order of the jobs."""
        order = {job.name: index for index, job in enumerate(self.instance.jobs)}
        return tuple(sorted(plan, key=lambda entry: order[entry.job]))

    def elementary_bounds(self) -> tuple[float | None, ...]:
        """Return what the plan would be worth if every job were alone in the cluster."""
        menu = self.menu
        if (np.diff(menu.start) == 0).any():
            return (None,)
        if self.instance.objective == "makespan":
            return (float(np.minimum.reduceat(menu.time_s, menu.start[:-1]).max()),)
        return (math.fsum(np.minimum.reduceat(menu.cost, menu.start[:-1])),)

    def elementary_infeasibility(self) -> Diagnosis | None:
        """Find a job that cannot run alone, or a resource that the smallest configurations overfill."""
        menu = self.menu
        alone = [
            reason
            for j, job in enumerate(self.instance.jobs)
            if menu.start[j] == menu.start[j + 1]
            for reason in _why_never(self.instance, job)
        ]
        if alone:
            remedy = "make the job optional with unplaced_s, or change what is named above"
            return Diagnosis(reasons=tuple(alone), remedies=(remedy,))
        least = np.minimum.reduceat(menu.demand, menu.start[:-1], axis=0).sum(axis=0)
        reasons, remedies = [], []
        for name, need, limit in zip(menu.rows, least.tolist(), menu.capacity.tolist(), strict=True):
            if not within(need, limit):
                short = f"{need - limit:g} more than the {limit:g} there are"
                reasons.append(f"{name}: the smallest configurations of all jobs need {need:g}, {short}")
                remedies.append(f"raise {name} to at least {need:g}, or make jobs optional")
        return Diagnosis(reasons=tuple(reasons), remedies=tuple(remedies)) if reasons else None

    def textbook(self) -> TextbookModel[JobAllocation]:
        """Return the multiple-choice model of the module's docstring."""
        import pulp

        menu = self.menu
        problem = new_problem(self.instance.name)
        x = [
            problem.add_variable(f"x_{j}_{k - menu.start[j]}", cat=pulp.LpBinary)
            for j in range(len(self.instance.jobs))
            for k in menu.of(j)
        ]
        for j in range(len(self.instance.jobs)):
            problem += pulp.lpSum(x[k] for k in menu.of(j)) == 1, f"one_configuration_{j}"
        for r in range(len(menu.rows)):
            problem += at_most(x, menu.demand[:, r].tolist(), float(menu.capacity[r])), f"capacity_{r}"
        if self.instance.objective == "makespan":
            latest = problem.add_variable("makespan", lowBound=0)
            for j in range(len(self.instance.jobs)):
                times = pulp.lpSum(float(menu.time_s[k]) * x[k] for k in menu.of(j))
                problem += times <= latest, f"completion_{j}"
            expression = pulp.LpAffineExpression([(latest, 1.0)])
        else:
            expression = pulp.LpAffineExpression(list(zip(x, menu.cost.tolist(), strict=True)))

        def decode(value: Callable[[Any], float]) -> tuple[JobAllocation, ...]:
            best = [max(menu.of(j), key=lambda k: value(x[k])) for j in range(len(self.instance.jobs))]
            return self.plan_of(best)

        def encode(plan: Sequence[JobAllocation]) -> Mapping[Any, float]:
            chosen = set(self.rows_of(plan))
            start: dict[Any, float] = {x[k]: float(k in chosen) for k in range(len(x))}
            if self.instance.objective == "makespan":
                start[latest] = self.evaluate(plan)[0]
            return start

        objective = ModelObjective(self.objectives[0], expression, "min")
        return TextbookModel(problem, (objective,), decode, encode)


def _variant(job: Job, entry: JobAllocation) -> Variant:
    return next(variant for variant in job.variants if variant.name == entry.variant)


def _time_s(job: Job, entry: JobAllocation) -> float:
    if not entry.placed:
        assert job.unplaced_s is not None
        return job.unplaced_s
    index = [variant.name for variant in job.variants].index(entry.variant or "")
    return float(completion_time_s(job, index, np.array([entry.ps]), np.array([entry.workers]))[0])


def _entry_violations(job: Job, entry: JobAllocation) -> list[Violation]:
    """Check what concerns one job alone: placement, variant, ranges and deadline."""
    if not entry.placed:
        found = [] if job.optional else [Violation("placement", f"job {job.name!r} is not optional")]
        if entry.variant is not None or entry.ps or entry.workers:
            found.append(Violation("placement", f"job {job.name!r} is not placed, but has tasks"))
        return found
    if entry.variant not in {variant.name for variant in job.variants}:
        return [Violation("variant", f"job {job.name!r} has no variant {entry.variant!r}")]
    variant = _variant(job, entry)
    if isinstance(variant.speed, SpeedTable):
        if (entry.ps, entry.workers) not in {(row.ps, row.workers) for row in variant.speed.rows}:
            what = f"job {job.name!r}: ps={entry.ps}, workers={entry.workers} is not in the table"
            return [Violation("configuration", what)]
    else:
        for key, count, allowed in (
            ("ps", entry.ps, variant.ps),
            ("workers", entry.workers, variant.workers),
        ):
            low, high = (allowed.min, allowed.max) if allowed else (0, 0)
            if not low <= count <= high:
                what = f"job {job.name!r} has {count} {key}; allowed: {low} to {high}"
                return [Violation(f"range of {key}", what)]
    time = _time_s(job, entry)
    if job.deadline_s is not None and not within(time, job.deadline_s):
        what = f"job {job.name!r} takes {time:g} s; its deadline is {job.deadline_s:g} s"
        return [Violation("deadline", what)]
    return []


def _why_never(instance: AllocationInstance, job: Job) -> list[str]:
    """Say for each variant of a job that cannot run alone what is short, and by how much."""
    reasons = []
    for variant in job.variants:
        ps_row, worker_row = task_demands(instance, variant)
        if isinstance(variant.speed, SpeedTable):
            p, w, _ = variant.speed.configurations()
            least = (p[:, None] * ps_row + w[:, None] * worker_row).min(axis=0)
        else:
            assert variant.workers is not None
            least = (variant.ps.min if variant.ps else 0) * ps_row + variant.workers.min * worker_row
        names, limits = capacity_rows(instance)
        short = [
            f"{need:g} {name}, {need - limit:g} more than the {limit:g} there are"
            for name, need, limit in zip(names, least.tolist(), limits.tolist(), strict=True)
            if not within(need, limit)
        ]
        what = f"needs at least {'; '.join(short)}" if short else _too_late(job)
        reasons.append(f"job {job.name!r}, variant {variant.name!r}: {what}")
    return reasons


def _too_late(job: Job) -> str:
    if job.deadline_s is None:
        return "none of its configurations fits in the cluster"
    return f"no configuration that fits in the cluster meets the deadline of {job.deadline_s:g} s"
