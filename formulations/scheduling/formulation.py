"""Scheduling: which job runs when.

Sets
    jobs j, resources r, segments s of a plan (s ∈ S_j are those of job j)
Data
    C_r(t) amount of a resource at time t, piecewise constant
    r_j arrival [s], W_j work, ω_j weight
    K_j configurations k of the job: a_kr amount that one takes while it runs, v_k work per second
    a rigid job has one, with v = 1, and W_j is p_j, the time that it has to run [s]
    ρ_j time without progress after every start but the first [s]; 0 where preemption is free
    ℓ lease [s], the least time that a job keeps what it got
Variables
    the segments (j, b_s, e_s, k_s): job j runs from b_s to e_s in configuration k_s ∈ K_j; segments of a job
    without a pause between them, in one configuration on the same servers, are one run; C_j = max of e_s
    over S_j, its end
Objective
    minimise the mean completion time Σ ω_j (C_j − r_j) / Σ ω_j, or the makespan max C_j − min r_j
Constraints
    b_s ≥ r_j, e_s > b_s, and segments of one job do not overlap
    Σ over segments s with b_s ≤ t < e_s of a_{k_s r} ≤ C_r(t) for all t and r
    Σ over the runs of j of v_k × max(0, length − ρ_j [not the first]) ≥ W_j
    with preemption `none`: one run for each job
    every run but the last of its job is at least ℓ long

A job may keep its resources for longer than it needs, as in published simulators; that is never an advantage.
Elementary bounds: no job ends before r_j + W_j / max v_k, and the work of all jobs needs its time on the
whole cluster. Prices of time prove more of the mean completion time; see `check/price_bound.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from ...instances.common.base import ProblemKind
from ...instances.common.errors import some
from ...instances.scheduling.instance import SchedulingInstance
from ..common.formulation import Formulation
from ..common.objective import Bounds, Diagnosis, Objective, Violation
from .certificate import PriceGrid, marginal_value_text, marginal_values, read_grid
from .check.price_bound import least_makespan_s, least_mean_completion_s, price_bound
from .evaluation import Metrics, metrics_of, placement_violations, segment_violations
from .plan import Plan, Segment, SegmentTable


class SchedulingFormulation(Formulation[SchedulingInstance, Segment]):
    """Objectives, constraints and certified bounds of a scheduling instance."""

    kind: ClassVar[ProblemKind] = "scheduling"
    entry = Segment

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """The single objective, mean completion time or makespan, in seconds."""
        return (Objective(self.instance.objective, "min", "s"),)

    @cached_property
    def index(self) -> dict[str, int]:
        """Index of each job by name."""
        return dict(zip(self.instance.table().names, itertools.count(), strict=False))

    def segments(self, plan: Plan) -> SegmentTable:
        """Convert a plan to a table of segments: job, start, end and configuration as arrays."""
        return SegmentTable.of(plan, self.index, self.instance.menus())

    def violations(self, plan: Plan) -> list[Violation]:
        """Return all constraint violations of a plan, from its segments alone."""
        unknown = sorted({entry.job for entry in plan} - self.index.keys())
        if unknown:
            return [Violation("jobs", f"there is no job {name!r}") for name in unknown]
        segments = self.segments(plan)
        wrong = sorted(set(segments.job[segments.row < 0].tolist()))
        if wrong:
            return [self._no_configuration(j) for j in wrong]
        violations = list(segment_violations(self.instance, segments))
        return [*violations, *placement_violations(self.instance, segments)]

    def _no_configuration(self, j: int) -> Violation:
        menus, name = self.instance.menus(), self.instance.table().names[j]
        labels = some(menus.labels[int(menus.first[j]) : int(menus.first[j + 1])], 12)
        what = f"a segment of {name!r} names a configuration that the job has not; "
        allowed = f"it has: {labels}" if j in menus.malleable else "it is rigid, and names none"
        return Violation("configuration", what + allowed)

    def evaluate(self, plan: Plan) -> tuple[float, ...]:
        """Return the mean completion time, or the makespan, of a feasible plan, in seconds."""
        jobs, ends = self.instance.table(), self.segments(plan).completion_s
        if self.instance.objective == "makespan":
            return (float(ends.max() - jobs.arrival_s.min()),)
        return (float(jobs.relative_weight @ (ends - jobs.arrival_s) / jobs.relative_weight.sum()),)

    def metrics(self, plan: Plan) -> Metrics:
        """Return the metrics of a feasible plan, which are reported beside its objective."""
        return metrics_of(self.instance, self.segments(plan))

    def elementary_bounds(self) -> Bounds:
        """Return the elementary lower bound on the objective, in seconds, which needs no solver."""
        if self.instance.objective == "makespan":
            return (least_makespan_s(self.instance),)
        return (least_mean_completion_s(self.instance),)

    def certified_bounds(self, certificate: Any, values: Sequence[float] | None = None) -> Bounds:
        """Return the lower bound [s] that the certificate's dual prices prove, or the elementary one."""
        del values
        grid, elementary = self._grid(certificate), self.elementary_bounds()
        if grid is None:
            return elementary
        proven = price_bound(self.instance, grid)
        return tuple(max(bound or 0.0, proven) for bound in elementary)

    def read(self, certificate: Any) -> PriceGrid | str:
        """Return the dual prices over time of a certificate, or its first format error."""
        return read_grid(certificate, tuple(self.instance.pool))

    def _grid(self, certificate: Any) -> PriceGrid | None:
        """Return the dual prices of a certificate; None without valid ones, and for the makespan."""
        grid = self.read(certificate)
        return grid if isinstance(grid, PriceGrid) and self.instance.objective != "makespan" else None

    def prices(self, certificate: Any, plan: Plan) -> dict[str, float] | None:
        """Return each resource's marginal value, an upper bound in seconds of mean completion time."""
        del plan
        grid = self._grid(certificate)
        return None if grid is None else marginal_values(self.instance, grid)

    def advice(self, prices: Mapping[str, float], value: float) -> str | None:
        """Return a sentence with bounds on the savings from one more unit of the scarcest resources."""
        return marginal_value_text(self.instance, prices, value)

    def elementary_infeasibility(self) -> Diagnosis | None:
        """Return None: the validation of the instance excludes jobs that never fit."""
        return None

    def adapted(self, plan: Plan) -> tuple[Segment, ...]:
        """Return an earlier plan without the jobs that have ended."""
        return tuple(entry for entry in plan if entry.job in self.index)

    def finish(self, plan: Plan) -> tuple[Segment, ...]:
        """Return the segments of a plan in the order of their starts."""
        return tuple(sorted(plan, key=lambda entry: (entry.start_s, self.index[entry.job])))
