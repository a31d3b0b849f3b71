"""What a comparison says of schedules: figures, how completion times spread, and which policy to use."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...formulations.scheduling.formulation import SchedulingFormulation
from ...formulations.scheduling.plan import Segment
from ...instances.scheduling.instance import SchedulingInstance
from ...solvers.registry import solvers_for
from ...solvers.scheduling.methods import PolicySolver
from ...solvers.scheduling.seen import Knowledge
from ..batch.comparison_rows import ComparisonRow, Distribution, Measure, Measures
from ..reports.text import short, unit_of_time
from .plan import rounded_down

MOST_POINTS = 200
"""Of a distribution; that many quantiles look like the whole."""
UNINFORMED = (Knowledge.NOTHING, Knowledge.PAST, Knowledge.SPEEDS)
"""What says nothing of how long a job runs that has not ended."""
FAIRNESS = "Jain's index by tenant"
"""Of the tenants' mean slowdowns; 1 where all are alike."""
USUAL = "fifo"
"""What others are set beside, where it is there."""


def measures(instance: SchedulingInstance, plan: Sequence[Segment]) -> Measures:
    """Return the figures of a schedule that obeys its constraints, and its completion times."""
    formulation = SchedulingFormulation(instance)
    found = formulation.metrics(plan)
    figures = [
        Measure(name="mean", value=found.mean_s, unit="s"),
        Measure(name="median", value=found.median_s, unit="s"),
        Measure(name="95th percentile", value=found.p95_s, unit="s"),
        Measure(name="99th percentile", value=found.p99_s, unit="s"),
    ]
    if found.tenant_fairness is not None:
        figures.append(Measure(name=FAIRNESS, value=found.tenant_fairness))
    figures += [
        Measure(name="mean slowdown", value=found.mean_slowdown),
        Measure(name="mean queueing", value=found.mean_queueing_s, unit="s"),
        Measure(name="makespan", value=found.makespan_s, unit="s"),
        Measure(name="preemptions", value=found.preemptions),
    ]
    figures += [
        Measure(name=f"{name} idle while jobs wait", value=share, unit="share")
        for name, share in found.fragmentation.items()
    ]
    times = np.sort(formulation.segments(plan).completion_s - instance.table().arrival_s)
    places = np.unique(np.linspace(0, len(times) - 1, MOST_POINTS).astype(int))
    spread = Distribution(
        name="completion time",
        of="jobs",
        seconds=tuple(times[places].tolist()),
        shares=tuple(((places + 1) / len(times)).tolist()),
    )
    return Measures(figures=tuple(figures), distribution=spread)


def advice(rows: Sequence[ComparisonRow]) -> str:
    """Return which policy to use on one instance, what it saves, and what is possible; nothing without plans.

    Parameters
    ----------
    rows
        Of one instance; those without a plan, or with a wrong bound, do not count.
    """
    planned = {row.solver: row for row in rows if row.objective is not None and row.status != "error"}
    known = _policies()
    policies = {name: _value(row) for name, row in planned.items() if name in known}
    if not policies:
        return ""
    best = min(policies, key=lambda name: policies[name])
    usual = USUAL if USUAL in policies else max(policies, key=lambda name: policies[name])
    what = (planned[best].objective_name or "objective").replace("_", " ")
    unit = unit_of_time(2 * policies[best])  # beside longer times 1.5 h read better than 90 min
    said = _saved(best, usual, policies, what, unit)
    bounds = [row.bound for row in planned.values() if row.bound is not None]
    if bounds:
        said += f"; nothing can be below {_time(rounded_down(max(bounds) / unit[0]) * unit[0], unit)}"
    return said + "." + _beside(best, planned, policies, unit)


def _policies() -> dict[str, Knowledge]:
    """Return what each policy knows, by name; other solvers plan with jobs that have not come yet."""
    found = solvers_for("scheduling")
    return {solver.name: solver.knows for solver in found if isinstance(solver, PolicySolver)}


def _saved(best: str, usual: str, policies: dict[str, float], what: str, unit: tuple[float, str]) -> str:
    """Return the recommendation without its bound."""
    least, before = policies[best], policies[usual]
    if len(policies) == 1:
        return f"{best}: the {what} is {_time(least, unit)}"
    if least >= before:
        return f"Use {best}: its {what} of {_time(least, unit)} is beaten by none of {len(policies)} policies"
    saved = 100 * (before - least) / before
    less = f"{saved:.0f}" if 1 <= saved < 99 else f"{saved:.3g}"
    fall = f"from {_time(before, unit)} ({usual}) to {_time(least, unit)}"
    return f"Use {best}: the {what} falls {fall}, {less} % less"


def _beside(
    best: str, planned: dict[str, ComparisonRow], policies: dict[str, float], unit: tuple[float, str]
) -> str:
    """Return what is best without knowing how long jobs run, and what is best with knowing everything."""
    said = ""
    known = _policies()
    blind = [name for name in policies if known[name] in UNINFORMED]
    if best not in blind and blind:
        name = min(blind, key=lambda name: policies[name])
        said += f" Of the policies that need not know how long jobs run, {name} is best: "
        said += f"{_time(policies[name], unit)}."
    ahead = {name: _value(row) for name, row in planned.items() if name not in known}
    if ahead and min(ahead.values()) < policies[best]:
        name = min(ahead, key=lambda name: ahead[name])
        said += f" With all that comes known beforehand, {name} finds {_time(ahead[name], unit)}."
    return said


def _value(row: ComparisonRow) -> float:
    assert row.objective is not None
    return row.objective


def _time(seconds: float, unit: tuple[float, str]) -> str:
    return f"{short(seconds / unit[0], 4)} {unit[1]}"
