"""The library call `pareto`: the Pareto frontier of an instance under two objectives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from ..instances.common.base import Instance
from ..instances.common.errors import OptionError
from ..solvers.common.conclude import hard_deadline
from ..solvers.common.result import AnyFrontier, SolveOptions
from .output import thinned
from .registry import frontier_kinds
from .reports.frontier_page import FrontierNotes, is_certified
from .reports.page import Table, table_of

SUPPORTED = frozenset({"time_limit_s", "gap", "threads", "seed"})


def pareto(
    instance: Instance,
    options: SolveOptions | None = None,
    *,
    error: float | None = None,
    most_usd: float | None = None,
    mix: Literal["fixed", "any"] | None = None,
    prices: Mapping[str, float] | None = None,
    resource: str | None = None,
    least: float | None = None,
    most: float | None = None,
    per: Literal["server", "rack"] | None = None,
) -> AnyFrontier:
    """Return the Pareto frontier of an instance under two objectives, with its certified error.

    Staging: cost against throughput. The instance's floor, limits, memory and budgets hold for every point;
    its objective plays no part. Allocation: mean completion time of the jobs against the hourly cost of the
    cluster; the instance's objective and budget play no part. Scheduling: mean completion time against the
    size of the cluster, with the bound of each size. Consolidation: tasks moved against servers or racks
    freed, with the bound of each number; no job is stopped. Mix: cost against the requests that are served,
    in per cent of the instance's, or devices against the progress of jobs.

    Parameters
    ----------
    options
        Time limit, threads and seed.
    error
        ε. Staging (1e-4 unless given): for every feasible plan there is a point at least as fast that costs
        at most 1/(1 − ε) times as much. Allocation (0.01): for every cluster there is a point that costs no
        more, and no plan for the cluster has a mean completion time below 1 − ε times the point's. Scheduling
        (0.1): the same of sizes. Consolidation (0.05): the same of moves. Mix (0.1): the same of the cost of
        requests, and of the progress on so many devices. 0 asks for every breakpoint.
    most_usd
        Largest cost considered, in USD, or for allocation in USD per hour. By default staging stops at the
        instance's cost limit; where units are unlimited and there is no budget, at ten times the cost of the
        cheapest plan. Allocation stops where every job is as fast as it can be.
    mix
        Allocation: `fixed` (the default) scales the instance's cluster, `any` takes any amounts of the
        resources that have a price.
    prices
        Allocation, scheduling: USD per hour of one unit, by resource; they go before those of the instance.
    resource, least, most
        Scheduling: the resource whose amount varies, and its smallest and largest amount; by default from
        half of the current amount to twice as much. Consolidation: the fewest and the most servers or racks
        that are freed; by default from 1 to all on which tasks run. Mix: the smallest and the largest per
        cent of the requests, by default 10 and 200, or number of devices, by default a tenth of all and all.
    per
        Consolidation: whether servers or racks are freed; by default as the instance says, or servers.

    Raises
    ------
    OptionError
        If the instance has no such trade-off, or an option has no meaning here.
    TooLargeError
        If an allocation has too many configurations where nothing limits the cluster.
    """
    if error is not None and not 0 <= error < 1:
        raise OptionError(f"error is {error:g}; it must be at least 0 and below 1")
    if most_usd is not None and not 0 < most_usd < math.inf:
        raise OptionError(f"most_usd is {most_usd:g}; it must be above 0")
    options = options or SolveOptions()
    for name in sorted(options.model_fields_set - SUPPORTED):
        if getattr(options, name):
            raise OptionError(f"a frontier does not support {name}; leave it out")
    given = _given(mix=mix, prices=prices, resource=resource, per=per, least=least, most=most)
    if instance.kind not in frontier_kinds():
        raise OptionError(f"a frontier is for {_listed(frontier_kinds())} instances, not for {instance.kind}")
    traded = frontier_kinds()[instance.kind]
    for name in given:
        if name not in traded.settings:
            raise OptionError(f"{_setting(name)}; leave it out")
    with hard_deadline(options).enforced():
        default = traded.check.default_error
        return traded.find(instance, options, default if error is None else error, most_usd, **given)


def _given(**settings: Any) -> dict[str, Any]:
    """Return the settings that are given."""
    return {name: value for name, value in settings.items() if value not in (None, {})}


def _setting(name: str) -> str:
    """Return a text on which problem kinds support a setting of `pareto`."""
    able = {
        kind: traded.settings[name] for kind, traded in frontier_kinds().items() if name in traded.settings
    }
    (what,) = set(able.values())
    return f"{what} is for {_listed(able)} instances"


def frontier_table(frontier: AnyFrontier) -> tuple[Table, list[str]]:
    """Return the table of the frontier's points for texts, thinned if there are many, and its footnotes."""
    traded = frontier_kinds()[frontier.kind]
    points = thinned(frontier.points, lambda p: (getattr(p, frontier.slow), getattr(p, frontier.dear)))
    table = table_of("points", "Points of the frontier", points, traded.page.columns(frontier))
    return table, [*_lines(frontier, len(points), traded.page.sentences(frontier))]


def _lines(frontier: AnyFrontier, shown_points: int, notes: FrontierNotes) -> Iterator[str]:
    total = len(frontier.points)
    if shown_points < total:
        yield f"{shown_points} of {total} points are shown; --output DIR writes all, with their plans"
    if frontier.status == "infeasible":
        yield notes.none
        if frontier.diagnosis is not None:
            yield from frontier.diagnosis.reasons
            yield from (f"remedy: {remedy}" for remedy in frontier.diagnosis.remedies)
    yield from notes.about
    if frontier.status == "infeasible":
        return
    if frontier.status == "partial":
        stopped = "" if frontier.limit == "none" else f"stopped by the {frontier.limit} limit; "
        yield f"{stopped}the points are plans, but better ones may be missing"
    yield notes.certified if is_certified(frontier) else notes.uncertified


def _listed(kinds: Iterable[str]) -> str:
    """Return names joined as in a sentence: a, b and c."""
    *others, last = kinds
    return f"{', '.join(others)} and {last}" if others else last
