"""Output of schedules: text table, plain data, and a page with metrics, plots and reasons of waits.

The page begins with the objective's value and its bound. For a job that waited it tells which later jobs
ran meanwhile, and how much work was left of earlier jobs when it arrived. Beside it stand the changes of
instances that scenarios may contain, and those between two schedules.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np

from ...formulations.common.objective import rounded_up
from ...formulations.scheduling.certificate import PriceGrid
from ...formulations.scheduling.evaluation import Metrics, Usage, usage_over_time
from ...formulations.scheduling.formulation import SchedulingFormulation
from ...formulations.scheduling.plan import Plan, Segment, SegmentTable
from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.common.errors import OptionError
from ...instances.common.fields import Fields
from ...instances.scheduling.instance import SchedulingInstance
from ...solvers.common.result import Result
from ..changes import (
    REMOVE_JOB,
    Amount,
    Changes,
    ScenarioChange,
    changes_of,
    count_and_name,
    fresh_names,
    leading_resource,
    matching,
    of_resource,
    rows_of,
)
from ..output import grouped
from ..reports.page import (
    Column,
    Context,
    Table,
    figure_column,
    jobs_fact,
    number,
    seconds,
    table_of,
    text,
    text_column,
)
from ..reports.plot_style import Figure, axis, plot_of, plot_text, steps
from ..reports.text import (
    TextColumn,
    counted,
    duration,
    figure,
    in_unit,
    number_column,
    plain_column,
    short,
    unit_of_time,
)


def columns(instance: SchedulingInstance, entries: Plan) -> list[TextColumn[Segment]]:
    """Return the columns of the text table of a schedule's run segments."""
    del instance
    return [
        plain_column("job", "job"),
        number_column("starts at s", "start_s"),
        number_column("ends at s", "end_s"),
        *(
            [plain_column("configuration", "configuration")]
            if any(entry.configuration for entry in entries)
            else ()
        ),
        *(
            [("servers", False, lambda e: ", ".join(f"{n}×{s}" for s, n in e.servers.items()))]
            if any(entry.servers for entry in entries)
            else ()
        ),
    ]


def as_data(instance: SchedulingInstance, plan: Plan) -> Fields:
    """Return the run segments and the metrics of a schedule as plain data."""
    metrics = SchedulingFormulation(instance).metrics(plan)
    return {"metrics": asdict(metrics), "segments": [entry.model_dump() for entry in plan]}


def facts(metrics: Metrics) -> Iterator[tuple[str, str]]:
    """Yield the metrics of a schedule as pairs of name and text with unit."""
    times_s = {
        "mean completion time": metrics.mean_s,
        "median": metrics.median_s,
        "95th percentile": metrics.p95_s,
        "99th percentile": metrics.p99_s,
        "makespan": metrics.makespan_s,
        "mean queueing delay": metrics.mean_queueing_s,
    }
    yield from zip(times_s, map(duration, times_s.values()), strict=True)
    yield "mean slowdown", f"{metrics.mean_slowdown:.4g}"
    for name, share in metrics.utilisation.items():
        yield f"{name} in use", f"{100 * share:.1f} %"
        yield f"{name} idle while jobs wait", f"{100 * metrics.fragmentation[name]:.1f} %"
    yield "preemptions", f"{metrics.preemptions:,}"
    if metrics.tenant_fairness is not None:
        yield "Jain's index of the tenants' slowdowns", f"{metrics.tenant_fairness:.3f}"


def summary_sentences(instance: SchedulingInstance, result: Result) -> str:
    """Return the first sentences of the page: the objective's value, its bound and the mean wait."""
    plan = cast("tuple[Segment, ...]", result.plan)
    metrics = SchedulingFormulation(instance).metrics(plan)
    record = result.objectives[0]
    value = metrics.mean_s if record.value is None else record.value
    unit = unit_of_time(2 * value)  # 1.5 h read better than 90 min
    reached = in_unit(value, unit)
    if instance.objective == "makespan":
        clause = f"With {result.solver} all jobs are done after {reached}"
    else:
        weighted = "weighted " if len(set(instance.table().weight.tolist())) > 1 else ""
        clause = f"With {result.solver} a job is done {reached} after it arrives, on {weighted}average"
    queueing = duration(metrics.mean_queueing_s)
    return f"{clause}{_bound_clause(result, value, unit)}. Jobs wait {queueing} on average."


def _bound_clause(result: Result, value: float, unit: tuple[float, str]) -> str:
    """Return the clause on the certified lower bound and its gap, or an empty text without a bound."""
    bound = result.objectives[0].certified_bound
    if bound is None or not 0 < bound <= value * (1 + 1e-9) or value <= 0:
        return ""
    away = 100 * max(0.0, 1 - bound / value)
    if away < 1e-4:
        return ", and no scheduler can be below that"
    far = f"{away:.1f}" if away >= 1 else figure(away, 2)
    if bound < unit[0]:
        unit = unit_of_time(2 * bound)
    no = f"; no scheduler can be below {short(rounded_down(bound / unit[0]), 4)} {unit[1]}"
    if result.certificate is None:
        return f"{no} ({far} % away), as far as the lengths of jobs alone can tell"
    return f"{no} ({far} % away)"


def rounded_down(value: float) -> float:
    """Return a bound rounded down to four significant digits, so that it stays valid."""
    if value <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - 3)
    return math.floor(value / step) * step


HOUR_S = 3600.0
LARGE_DEMAND_SHARE = 0.05
"""Share of the capacity from which on a job's demand is given as a reason of its wait."""
LATER_JOBS_SHARE = 0.5
"""Share of the usage by others during a wait from which on later jobs are given as its reason."""


@dataclass(frozen=True)
class WaitStatistics:
    """Statistics of the time that one job waited, and of other jobs' use of a resource meanwhile.

    Attributes
    ----------
    wanted, there
        Units of a resource: the job's demand, and the largest capacity.
    in_use
        Mean units used by other jobs.
    later, later_less
        Number of jobs that arrived later and ran meanwhile, and of those with less work than this job.
    later_share
        Share of the later jobs in the usage by others.
    earlier, earlier_hours
        Number of unfinished jobs at its arrival, and the unit-hours that they had left.
    """

    wanted: float
    available: float
    in_use: float
    later: int
    later_less: int
    later_share: float
    earlier: int
    earlier_hours: float

    def reason(self, resource: str) -> str:
        """Return the reasons of the job's wait in one line."""
        parts = []
        if self.wanted >= LARGE_DEMAND_SHARE * self.available:
            parts.append(f"wanted {figure(self.wanted, 4)} of {figure(self.available, 4)} {resource}")
        if self.later and self.later_share >= LATER_JOBS_SHARE:
            less = "all" if self.later_less == self.later else f"{self.later_less:,}"
            share = f"{100 * self.later_share:.0f} % of the {resource} in use"
            parts.append(
                f"{counted(self.later, 'later job')} took {share} meanwhile, {less} of them with less work"
            )
        elif self.earlier:
            hours = f"{figure(self.earlier_hours, 3)} {resource}-hours left"
            parts.append(f"came behind {counted(self.earlier, 'job')} with {hours}")
        if self.available - self.in_use >= self.wanted > 0:
            parts.append(f"{figure(self.available - self.in_use, 3)} {resource} were idle on average")
        return (
            "; ".join(parts)
            or f"others used {figure(self.in_use, 4)} of {figure(self.available, 4)} {resource}"
        )


class WaitAnalysis:
    """Explains the waits of jobs in a schedule by the usage of one resource.

    Parameters
    ----------
    usage
        Usage over time of the same segments.
    r
        Index of the resource considered.
    """

    def __init__(self, instance: SchedulingInstance, segments: SegmentTable, usage: Usage, r: int) -> None:
        jobs = instance.table()
        self._arrival_s, self._segments = jobs.arrival_s, segments
        self._takes = instance.menus().usage[segments.row][:, r]
        self._wants = jobs.total_demand[:, r]
        # What is done of a job, in units × seconds, stands for its work: all do the same in one schedule.
        self._work = np.bincount(segments.job, self._takes * segments.length_s, segments.jobs)
        self._available = float(usage.capacity[:, r].max())

    def of(self, j: int) -> WaitStatistics:
        """Return the statistics of the wait of job `j` (index)."""
        segments, at = self._segments, float(self._arrival_s[j])
        own, came = segments.job == j, self._arrival_s[segments.job]
        waited_s, wait_s = self._waited_during(own, at)
        used = np.where(own, 0.0, self._takes * waited_s)
        later = ~own & (waited_s > 0) & (came > at)
        overtook = np.unique(segments.job[later])
        after_s = np.clip(segments.end_s - np.maximum(segments.start_s, at), 0.0, None)
        before = ~own & (after_s > 0) & (came <= at)
        total = float(used.sum())
        return WaitStatistics(
            wanted=float(self._wants[j]),
            available=self._available,
            in_use=total / wait_s if wait_s > 0 else 0.0,
            later=len(overtook),
            later_less=int((self._work[overtook] < self._work[j]).sum()),
            later_share=float(used[later].sum()) / total if total > 0 else 0.0,
            earlier=len(np.unique(segments.job[before])),
            earlier_hours=float((self._takes * after_s)[before].sum()) / HOUR_S,
        )

    def _waited_during(self, own: Flags, arrival_s: float) -> tuple[Floats, float]:
        """Return the seconds that the job with its own segments waited while each one ran, and in all."""
        start_s, end_s = self._segments.start_s, self._segments.end_s
        # Up to each of these moments it has waited so long; it waits until a start, and not until an end.
        moments = np.append(arrival_s, np.column_stack([start_s[own], end_s[own]]))
        lengths = np.diff(moments)
        lengths[1::2] = 0.0
        waited = np.append(0.0, np.cumsum(lengths))
        return np.interp(end_s, moments, waited) - np.interp(start_s, moments, waited), float(waited[-1])


MAX_POINTS = 1_000
"""Most points of a curve over time, each the maximum of its interval."""
FEW_WAIT = 5
MAX_BARS = 60
"""Most jobs drawn in a Gantt chart."""
TICKS = {
    **{f"{n} s": n for n in (1, 2, 5, 10, 20, 30)},
    **{f"{n} min": 60 * n for n in (1, 2, 5, 10, 20, 30)},
    **{f"{n} h": 3600 * n for n in (1, 2, 5, 10)},
    **{counted(n, "day"): 86400 * n for k in range(9) for n in (10**k, 2 * 10**k, 5 * 10**k)},
}
"""Labels of the ticks of a logarithmic time axis, with their seconds."""
MAX_TICKS = 9
MAX_JOBS = 50
"""Most jobs in the table of those that waited longest."""


def scheduling_parts(instance: SchedulingInstance, result: Result) -> Context:
    """Return the variables of `plan_scheduling.html.j2`, the template of a result's page."""
    about = [
        ("objective", instance.objective.replace("_", " ")),
        jobs_fact(instance),
        ("cluster", ", ".join(f"{amount:,g} {name}" for name, amount in instance.pool.items())),
        ("preemption", instance.preemption),
    ]
    if result.plan is None:
        return {"data": {"figures": {}}, "about": about}
    plan = cast("tuple[Segment, ...]", result.plan)
    formulation = SchedulingFormulation(instance)
    segments = formulation.segments(plan)
    usage = usage_over_time(instance, segments)
    resource = leading_resource(instance.pool)
    r, name = list(instance.pool).index(resource), plot_text(resource)
    figures = {
        "queue": _queue(usage),
        "use": _use(usage, r, name),
        "times": _times(segments.completion_s - instance.table().arrival_s),
    }
    grid = None if result.certificate is None else formulation.read(result.certificate)
    if isinstance(grid, PriceGrid) and grid.price[:, r].any():
        figures["price"] = _price(grid, r, name, usage)
    if len(instance.jobs) <= MAX_BARS:
        figures["gantt"] = _gantt(instance, segments)
    return {
        "data": {"figures": figures},
        "about": about,
        "summary": [*facts(formulation.metrics(plan)), *_worth(result)],
        "resource": resource,
        "waited": _waited(instance, segments, WaitAnalysis(instance, segments, usage, r), name),
    }


def _worth(result: Result) -> Iterator[tuple[str, str]]:
    """Yield resource and dual price (seconds per job that one more unit saves at most) as text."""
    for name, price in (result.prices or {}).items():
        yield f"one more {name} saves at most", f"{short(rounded_up(price))} s a job, and the certified gap"


def thinned(at_s: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Downsample a step function to at most `MAX_POINTS` points, the maximum of each time interval."""
    if len(at_s) <= MAX_POINTS:
        return at_s, values
    edges = np.linspace(at_s[0], at_s[-1], MAX_POINTS)
    first = np.unique(np.searchsorted(at_s, edges, side="right") - 1)
    return at_s[first], np.maximum.reduceat(values, first)


def _over_time(
    at_s: Floats, title: str, *curves: tuple[int, Floats, str], hover: str = "", **ticks: Any
) -> Figure:
    """Return the plot of step functions of time: the colour, the values and the name of each.

    The text at the cursor is `hover` or, without one, made from the name.
    """
    unit = unit_of_time(float(at_s[-1] - at_s[0]))
    traces = []
    for index, values, name in curves:
        times, kept = thinned(at_s, values)
        x = np.round((times - at_s[0]) / unit[0], 5).tolist()
        text = hover or f"%{{y:,}} {name} after %{{x:,}} {unit[1]}<extra></extra>"
        named: dict[str, Any] = {"name": name} if name else {}
        traces.append(steps(x, kept.tolist(), index, hovertemplate=text, **named))
    return plot_of(traces, axis(f"time [{unit[1]}]"), axis(title, rangemode="tozero", **ticks), 300)


def _queue(usage: Usage) -> Figure:
    """Return the plot of the number of waiting jobs over time."""
    # Ticks at halves of a job make no sense.
    ticks: dict[str, Any] = {"dtick": 1} if usage.waiting.max(initial=0) <= FEW_WAIT else {}
    curve = (0, usage.waiting.astype(float), "jobs wait")
    return _over_time(usage.at_s, "jobs that wait", curve, **ticks)


def _use(usage: Usage, r: int, name: str) -> Figure:
    """Return the plot of the usage and the capacity of the resource with index `r` over time."""
    capacity = (1, np.round(usage.capacity[:, r], 5), f"{name} there")
    used = (0, np.round(usage.used[:, r], 5), f"{name} in use")
    return _over_time(usage.at_s, f"{name} in use", capacity, used)


def _price(grid: PriceGrid, r: int, name: str, usage: Usage) -> Figure:
    """Return the plot of a resource's dual price over time, from the certificate of the lower bound."""
    first, last = usage.at_s[[0, -1]].tolist()
    inside = (grid.edges_s > first) & (grid.edges_s < last)
    at_s = np.concatenate([[first], grid.edges_s[inside], [last]])
    price = np.array([float(f"{value:.5g}") for value in grid.at(at_s)[:, r].tolist()])
    hover = f"one {name} more for a second saves at most %{{y:.4g}} job-seconds<extra></extra>"
    return _over_time(at_s, f"price of one {name}", (2, price, ""), hover=hover)


def _gantt(instance: SchedulingInstance, segments: SegmentTable) -> Figure:
    """Return the Gantt chart of the jobs' waiting and running times, in the order of arrival."""
    jobs = instance.table()
    order = np.argsort(jobs.arrival_s, kind="stable")
    line = np.argsort(order)
    begin = float(jobs.arrival_s.min())
    unit = unit_of_time(float(segments.completion_s.max() - begin))
    moments = (jobs.arrival_s, segments.completion_s, segments.start_s, segments.end_s)
    arrival, done, start, end = ((moment - begin) / unit[0] for moment in moments)
    traces = [
        _bars("there, and waits", "@edge", 2, line, arrival, done),
        _bars("runs", "@s0", 8, line[segments.job], start, end),
    ]
    names = [plot_text(jobs.names[j]) for j in order.tolist()]
    y_axis = axis(
        "",
        tickvals=list(range(len(names))),
        ticktext=names,
        range=[len(names) - 0.5, -0.5],
        tickfont={"size": 10, "color": "@muted"},
    )
    return plot_of(traces, axis(f"time [{unit[1]}]"), y_axis, 90 + 15 * len(names))


def _bars(name: str, color: str, width: int, line: Ints, start: Floats, end: Floats) -> Figure:
    """Return the trace of horizontal bars from start to end, each on its line, with None after each."""
    ends = [(round(a, 5), round(b, 5), None) for a, b in zip(start.tolist(), end.tolist(), strict=True)]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [x for bar in ends for x in bar],
        "y": [y for at in line.tolist() for y in (at, at, None)],
        "line": {"color": color, "width": width},
        "hoverinfo": "skip",
    }


def distribution_of(values: Floats, most: int) -> tuple[Floats, Ints]:
    """Return at most so many quantiles, evenly spaced, and the number of values up to each."""
    ordered = np.sort(values)
    places = np.unique(np.linspace(0, len(ordered) - 1, most).astype(int))
    return ordered[places], places + 1


def _times(times: Floats) -> Figure:
    """Return the plot of the cumulative distribution of completion times, on a logarithmic axis."""
    quantiles, counts = distribution_of(times, MAX_POINTS)
    unit = unit_of_time(float(quantiles[-1]))
    curve = steps(
        np.round(quantiles, 3).tolist(),
        np.round(100 * counts / len(times), 3).tolist(),
        0,
        customdata=np.round(quantiles / unit[0], 6).tolist(),
        hovertemplate=f"%{{y}} % within %{{customdata:,}} {unit[1]}<extra></extra>",
    )
    x = _time_axis(float(quantiles[0]), float(quantiles[-1]))
    return plot_of([curve], x, axis("share of the jobs [%]", range=[0, 102]), 300)


def _time_axis(least_s: float, most_s: float) -> Figure:
    """Return a logarithmic axis of completion times in seconds, with ticks at round durations."""
    ticks = [(name, at_s) for name, at_s in TICKS.items() if least_s <= at_s <= most_s]
    if len(ticks) > MAX_TICKS:
        ticks = [(name, at_s) for name, at_s in ticks if name.split()[0].replace(",", "").strip("0") == "1"]
    names, values = [name for name, _ in ticks], [at_s for _, at_s in ticks]
    return axis("completion time", type="log", tickvals=values, ticktext=names)


def _waited(instance: SchedulingInstance, segments: SegmentTable, why: WaitAnalysis, resource: str) -> Table:
    """Return the table of the jobs that waited longest, with the reasons."""
    jobs = instance.table()
    times = segments.completion_s - jobs.arrival_s
    waits = times - segments.running_s
    longest: Sequence[int] = np.argsort(-waits, kind="stable")[:MAX_JOBS].tolist()
    names = (*(jobs.tenants or ()), None)  # -1 is no tenant
    return table_of(
        "longest",
        "Jobs that waited longest",
        longest,
        [
            text_column("job", lambda j: jobs.names[j]),
            *([(Column("tenant"), lambda j: text(names[jobs.tenant[j]]))] if jobs.tenants else []),
            figure_column("tasks", lambda j: float(jobs.tasks[j])),
            (Column("arrives [s]", True), lambda j: number(float(jobs.arrival_s[j]), 9)),
            figure_column("needs", lambda j: float(jobs.duration_s[j]), seconds),
            figure_column("waits", lambda j: float(waits[j]), seconds),
            (Column("slowdown", True), lambda j: number(float(times[j] / jobs.duration_s[j]), 4)),
            text_column("why", lambda j: why.of(j).reason(resource) if waits[j] > 0 else None, wide=True),
        ],
    )


def what_if(instance: SchedulingInstance) -> dict[str, ScenarioChange]:
    """Return the types of scenario change by key; each resource is a key if there are no servers."""
    jobs = {"remove": REMOVE_JOB}
    if instance.servers:
        return {
            "add": ScenarioChange("add=NxSERVER", _add),
            "drain": ScenarioChange("drain=SERVER", _drain),
            **jobs,
        }
    return {name: of_resource(name, f"{name}=+10") for name in instance.resources} | jobs


def _add(instance: SchedulingInstance, text: str) -> Fields:
    """Return the changed list of server entries, with new servers like those of an existing entry."""
    count, like = count_and_name(text)
    rows = rows_of(instance, "servers")
    (name, *_) = sorted(matching(like, rows, "server"))
    (new,) = fresh_names(1, name, rows)
    return {"servers": [*rows.values(), {**rows[name], "name": new, "count": count}]}


def _drain(instance: SchedulingInstance, pattern: str) -> Fields:
    """Return the changed list of server entries, without the entries or single servers that match."""
    rows = rows_of(instance, "servers")
    names = [name for server in instance.servers for name in server.names]
    gone = matching(pattern, [*rows, *names], "server")
    remaining = []
    for server, (row_name, row) in zip(instance.servers, rows.items(), strict=True):
        left = [] if row_name in gone else [name for name in server.names if name not in gone]
        if len(left) == server.count:
            remaining.append(row)
        else:
            # The others keep their names, by which events may call them.
            remaining += [{**row, "name": name, "count": 1} for name in left]
    if not remaining:
        raise OptionError("leaves no server; jobs need one at least")
    return {"servers": remaining}


def answer(instance: SchedulingInstance, plan: Plan) -> str:
    """Return a one-sentence summary of a schedule: mean completion time, mean wait and makespan."""
    stats = SchedulingFormulation(instance).metrics(plan)
    return (
        f"{counted(len(instance.jobs), 'job')} take {duration(stats.mean_s)} on average, of which they wait "
        f"{duration(stats.mean_queueing_s)}; the last ends after {duration(stats.makespan_s)}."
    )


def changes(instance: SchedulingInstance, before: Plan | None, after: Plan) -> Changes:
    """Return the jobs that run at other times in the second schedule, and the changes of the metrics.

    Raises
    ------
    OptionError
        If `before` is None: scheduling instances do not describe a running plan.
    """
    if before is None:
        raise OptionError("an instance of scheduling does not say what runs now; give two results to compare")
    formulation = SchedulingFormulation(instance)
    old, new = formulation.metrics(before), formulation.metrics(after)
    amounts = [
        Amount("mean completion time [s]", old.mean_s, new.mean_s),
        Amount("99th percentile [s]", old.p99_s, new.p99_s),
        Amount("makespan [s]", old.makespan_s, new.makespan_s),
        Amount("preemptions", old.preemptions, new.preemptions),
    ]
    return changes_of("job", "move", _run_times(before), _run_times(after), amounts)


def _run_times(plan: Plan) -> dict[str, str]:
    """Return the first start and the last end of each job, in seconds, as text."""
    segments = grouped((entry.job, entry) for entry in plan)
    return {
        job: f"{figure(min(e.start_s for e in entries))}–{figure(max(e.end_s for e in entries))} s"
        + (f" in {len(entries)} parts" if len(entries) > 1 else "")
        for job, entries in segments.items()
    }
