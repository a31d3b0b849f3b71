"""Comparison of scheduling policies: measures of their schedules, and advice on which one to use."""

from __future__ import annotations

from collections.abc import Sequence

from ...formulations.scheduling.formulation import SchedulingFormulation
from ...formulations.scheduling.plan import Plan
from ...instances.scheduling.instance import SchedulingInstance
from ...solvers.registry import solvers_for
from ...solvers.scheduling.policy_solvers import PolicySolver
from ...solvers.scheduling.view import Knowledge
from ..batch.comparison_rows import ComparisonRow, Distribution, Measure, Measures, Unit
from ..reports.text import in_unit, unit_of_time
from .plan import distribution_of, rounded_down

MAX_POINTS = 200
"""Most quantiles stored of a distribution."""
UNINFORMED = (Knowledge.NOTHING, Knowledge.PAST, Knowledge.SPEEDS)
"""Levels of knowledge without the durations of unfinished jobs."""
FAIRNESS = "Jain's index by tenant"
"""Name of Jain's index of the tenants' mean slowdowns; 1 if all are equal."""
BASELINE_POLICY = "fifo"
"""Policy that the best one is compared with, if it is among the solvers."""


def measures(instance: SchedulingInstance, plan: Plan) -> Measures:
    """Return the measures of a feasible schedule, and the distribution of its completion times."""
    formulation = SchedulingFormulation(instance)
    metrics = formulation.metrics(plan)
    known: list[tuple[str, float | None, Unit]] = [
        ("mean", metrics.mean_s, "s"),
        ("median", metrics.median_s, "s"),
        ("95th percentile", metrics.p95_s, "s"),
        ("99th percentile", metrics.p99_s, "s"),
        (FAIRNESS, metrics.tenant_fairness, "number"),
        ("mean slowdown", metrics.mean_slowdown, "number"),
        ("mean queueing", metrics.mean_queueing_s, "s"),
        ("makespan", metrics.makespan_s, "s"),
        ("preemptions", metrics.preemptions, "number"),
        *((f"{name} idle while jobs wait", share, "share") for name, share in metrics.fragmentation.items()),
    ]
    times = formulation.segments(plan).completion_s - instance.table().arrival_s
    quantiles, counts = distribution_of(times, MAX_POINTS)
    spread = Distribution(
        name="completion time",
        of="jobs",
        seconds=tuple(quantiles.tolist()),
        shares=tuple((counts / len(times)).tolist()),
    )
    figures = [Measure(name=name, value=value, unit=unit) for name, value, unit in known if value is not None]
    return Measures(figures=tuple(figures), distribution=spread)


def advice(rows: Sequence[ComparisonRow]) -> str:
    """Return advice on the best policy for an instance, its saving and the bound; empty without plans.

    Parameters
    ----------
    rows
        Of one instance; those without a plan, or with a wrong bound, do not count.
    """
    rows = [row for row in rows if row.objective is not None and row.status != "error"]
    values = {row.solver: row.objective for row in rows if row.objective is not None}
    # Other solvers know everything.
    known = {each.name: each.knows for each in solvers_for("scheduling") if isinstance(each, PolicySolver)}
    policies = {name: value for name, value in values.items() if name in known}
    if not policies:
        return ""
    best = min(policies, key=policies.__getitem__)
    usual = BASELINE_POLICY if BASELINE_POLICY in policies else max(policies, key=policies.__getitem__)
    what = (rows[0].objective_name or "objective").replace("_", " ")
    unit = unit_of_time(2 * policies[best])  # beside longer times 1.5 h read better than 90 min
    text = _saving_text(best, usual, policies, what, unit)
    bounds = [row.bound for row in rows if row.bound is not None]
    if bounds:
        text += f"; nothing can be below {in_unit(rounded_down(max(bounds) / unit[0]) * unit[0], unit)}"
    text += "."
    blind = {name: value for name, value in policies.items() if known[name] in UNINFORMED}
    if blind and best not in blind:
        name = min(blind, key=blind.__getitem__)
        text += f" Of the policies that need not know how long jobs run, {name} is best: "
        text += f"{in_unit(blind[name], unit)}."
    ahead = {name: value for name, value in values.items() if name not in known}
    if ahead and min(ahead.values()) < policies[best]:
        name = min(ahead, key=ahead.__getitem__)
        text += f" With all that comes known beforehand, {name} finds {in_unit(ahead[name], unit)}."
    return text


def _saving_text(
    best: str, usual: str, policies: dict[str, float], what: str, unit: tuple[float, str]
) -> str:
    """Return the recommended policy, and its saving compared with the baseline policy, as text."""
    least, before = policies[best], policies[usual]
    if len(policies) == 1:
        return f"{best}: the {what} is {in_unit(least, unit)}"
    if least >= before:
        return (
            f"Use {best}: its {what} of {in_unit(least, unit)} is beaten by none of {len(policies)} policies"
        )
    saved = 100 * (before - least) / before
    less = f"{saved:.0f}" if 1 <= saved < 99 else f"{saved:.3g}"
    fall = f"from {in_unit(before, unit)} ({usual}) to {in_unit(least, unit)}"
    return f"Use {best}: the {what} falls {fall}, {less} % less"
