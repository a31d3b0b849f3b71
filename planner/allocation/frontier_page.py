"""The page of an allocation's frontier: clusters, and the best plan for each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...formulations.allocation.configurations import BUDGET
from ...instances.allocation.instance import AllocationInstance
from ...solvers.allocation.frontier_result import AllocationFrontier, AllocationPoint
from ...solvers.common.result import Result
from ..output.text import percent
from ..reports.page import render
from ..reports.provenance import claims, headline, instance_facts, provenance
from ..reports.tables import Cell, Column, Table, number, seconds, share
from ..reports.text import counted, duration, short, unit_of_time
from ..verification.findings import Verification
from .frontier_figure import allocation_frontier_figure, cluster_words
from .usage import Usage

MOST_POINTS = 1500
MOST_ENTRIES = 2_000_000
"""Of all plans that are shown; it takes some seconds to add them up."""
MIX = {
    "fixed": "the cluster as it is, scaled",
    "any": "any amounts of the resources that have a price",
}


def allocation_frontier_page(
    instance: AllocationInstance,
    frontier: AllocationFrontier,
    baselines: Sequence[Result],
    checked: Verification | None,
) -> str:
    """Return the page of a frontier of mean completion time against the hourly cost of the cluster."""
    del baselines
    points = _shown(frontier.points, len(instance.jobs))
    sections = [("certified", "What is certified")]
    if points:
        sections += [("plot", "Frontier"), ("cluster-of", "Cluster of a point"), ("table", "All points")]
    return render(
        "allocation_frontier.html.j2",
        scripts=("choose.js", "cluster.js"),
        data=_data(instance, frontier, points),
        title=instance.name,
        kicker="Allocation: mean completion time against the cost of the cluster",
        verdict=headline(frontier.status, frontier.limit, checked),
        claimed=claims(checked),
        lead=_lead(frontier),
        sections=[*sections, ("about", "The instance")],
        certified=list(_certified(frontier, len(points))),
        diagnosis=frontier.diagnosis,
        count=len(points),
        start=_start(frontier, points),
        has_current=frontier.current is not None,
        has_bounds=any(point.bound_s is not None for point in points),
        columns=COLUMNS,
        points=_points_table(points),
        about=[
            *instance_facts(instance),
            ("jobs", f"{len(instance.jobs):,}"),
            ("clusters", MIX[frontier.mix]),
            *[
                (f"price of {name}", f"{short(usd)} USD/h per unit")
                for name, usd in _prices(instance, frontier).items()
            ],
        ],
        assumptions=[*instance.assumptions, *frontier.assumptions],
        footer=provenance(frontier),
    )


COLUMNS = (
    Column("resource"),
    Column("units", True),
    Column("of today's cluster", True),
    Column("USD/h", True),
    Column("in use", True),
    Column("one more unit saves at most", True, "of the mean completion time"),
)


def _prices(instance: AllocationInstance, frontier: AllocationFrontier) -> Mapping[str, float]:
    return frontier.prices_usd_per_hour or instance.prices_usd_per_hour


def _shown(points: Sequence[AllocationPoint], jobs: int) -> list[AllocationPoint]:
    """Return the points that are shown, evenly from the first to the last."""
    most = max(50, min(MOST_POINTS, MOST_ENTRIES // jobs))
    if len(points) <= most:
        return list(points)
    step = (len(points) - 1) / (most - 1)
    return [points[round(index * step)] for index in range(most)]


def _start(frontier: AllocationFrontier, points: Sequence[AllocationPoint]) -> int:
    """Return the point that is best for today's money, or else the cheapest."""
    if frontier.current is None:
        return max(0, len(points) - 1)
    rate = frontier.current.rate_usd_per_hour * (1 + 1e-9)
    return next((i for i, p in enumerate(points) if p.rate_usd_per_hour <= rate), max(0, len(points) - 1))


def _data(
    instance: AllocationInstance, frontier: AllocationFrontier, points: Sequence[AllocationPoint]
) -> dict[str, Any]:
    if not points:
        return {"figures": {}}
    start = _start(frontier, points)
    plot, at = allocation_frontier_figure(instance, frontier, points, start)
    usage, unit = Usage(instance), _unit(points)
    prices = _prices(instance, frontier)
    return {
        "figures": {"frontier": plot},
        "used": 3,
        "choice": {
            "plot": "frontier",
            **at,
            "today": start,
            "start": start,
            "points": [
                {
                    "x": point.rate_usd_per_hour,
                    "y": point.mean_completion_s / unit,
                    "words": f"Point {index + 1} of {len(points)}: {_figures(point)}",
                    "figures": _texts(point),
                    "resources": _resources(instance, frontier, point, usage.of(point.plan), prices),
                }
                for index, point in enumerate(points)
            ],
        },
    }


def _unit(points: Sequence[AllocationPoint]) -> float:
    return unit_of_time(points[-1].mean_completion_s)[0]


def _figures(point: AllocationPoint) -> str:
    return (
        f"mean completion {duration(point.mean_completion_s)} for {short(point.rate_usd_per_hour, 5)} USD/h"
    )


def _texts(point: AllocationPoint) -> dict[str, str]:
    """Return the figures of a point by the id of their place."""
    bound = point.bound_s
    gap = None if bound is None else max(0.0, 1 - bound / point.mean_completion_s)
    placed = sum(entry.placed for entry in point.plan)
    return {
        "is-rate": f"{short(point.rate_usd_per_hour)} USD/h",
        "is-mean": duration(point.mean_completion_s),
        "is-bound": duration(bound),
        "is-gap": percent(gap),
        "is-placed": f"{placed:,} of {len(point.plan):,}",
    }


def _resources(
    instance: AllocationInstance,
    frontier: AllocationFrontier,
    point: AllocationPoint,
    used: Mapping[str, float],
    usd: Mapping[str, float],
) -> list[dict[str, Any]]:
    """Return the rows of the table of a cluster: cells as in `COLUMNS`, and the share in use."""
    rows = []
    for name, amount in point.capacities.items():
        today, taken = instance.resources.get(name, 0.0), used.get(name, 0.0)
        busy = min(1.0, taken / amount) if amount else 0.0
        cells = [
            short(amount),
            f"{100 * amount / today:.0f} %" if today else "–",
            short(amount * usd[name]) if usd.get(name) else "–",
            f"{short(taken)}, {100 * busy:.0f} %",
            _saves(frontier, point, name),
        ]
        rows.append({"name": name, "cells": cells, "share": round(busy, 4)})
    if (point.prices or {}).get(BUDGET):
        cells = [
            short(point.rate_usd_per_hour),
            "–",
            short(point.rate_usd_per_hour),
            "–",
            _saves(frontier, point, BUDGET),
        ]
        rows.append({"name": "budget [USD/h]", "cells": cells, "share": None})
    return rows


def _saves(frontier: AllocationFrontier, point: AllocationPoint, name: str) -> str:
    """Return by how much one more unit lowers the mean: the dual price, and the distance to the bound."""
    if point.prices is None:
        return "–"
    price = point.prices.get(name, 0.0) / frontier.weight
    rest = 0.0 if point.bound_s is None else max(0.0, point.mean_completion_s - point.bound_s)
    if price <= 0 and rest <= 1e-9 * point.mean_completion_s:
        return "nothing"
    return duration(price) + (f" + {duration(rest)}" if rest > 1e-3 * price else "")


def _lead(frontier: AllocationFrontier) -> str:
    if not frontier.points:
        return "There is no point."
    fast, cheap = frontier.points[0], frontier.points[-1]
    if len(frontier.points) == 1:
        return f"One cluster beats all others: {_figures(fast)}."
    return f"{counted(len(frontier.points), 'cluster')}, from {_figures(fast)} to {_figures(cheap)}."


def _certified(frontier: AllocationFrontier, count: int) -> Iterator[str]:
    """Return what is proven, and how today's cluster compares, a sentence each."""
    limit = frontier.most_usd_per_hour
    most = "" if limit is None else f" of at most {short(limit)} USD/h"
    if frontier.status == "infeasible":
        yield f"It is proven that no cluster{most} has a plan."
        return
    if frontier.certified_error is not None:
        yield (
            f"Certified by our own check, which trusts no solver: for every cluster{most} there is a point "
            f"that costs no more, and no plan for the cluster has a mean completion time more than "
            f"{percent(frontier.certified_error)} below the point’s."
        )
    elif frontier.points:
        yield f"Not certified: that clusters{most} that are cheaper than the cheapest point have no plan."
    if frontier.status == "complete":
        yield f"The search ended by itself; it was asked for an error of at most {percent(frontier.error)}."
    else:
        stopped = "" if frontier.limit == "none" else f" ({frontier.limit} limit)"
        yield f"The search was stopped{stopped}: points are plans, but better ones may be missing."
    yield from _about_current(frontier)
    if count < len(frontier.points):
        yield f"{count:,} of {len(frontier.points):,} points are on this page, evenly chosen."


def _about_current(frontier: AllocationFrontier) -> Iterator[str]:
    now = frontier.current
    if now is None:
        return
    text = f"Today’s cluster: {_figures(now)}"
    as_fast = [p for p in frontier.points if p.mean_completion_s <= now.mean_completion_s * (1 + 1e-9)]
    cheapest = min((p.rate_usd_per_hour for p in as_fast), default=math.inf)
    if cheapest < now.rate_usd_per_hour * (1 - 1e-9):
        text += f"; a cluster of {short(cheapest, 5)} USD/h would be as fast"
    yield text + "."


def _points_table(points: Sequence[AllocationPoint]) -> Table:
    columns = [
        Column("point", True),
        Column("USD/h", True),
        Column("mean completion", True),
        Column("bound", True),
        Column("gap", True),
        Column("cluster", wide=True),
    ]
    rows = []
    for index, point in enumerate(points):
        bound = point.bound_s
        gap = None if bound is None else max(0.0, 1 - bound / point.mean_completion_s)
        rows.append(
            [
                number(index + 1),
                number(point.rate_usd_per_hour),
                seconds(point.mean_completion_s),
                seconds(bound),
                share(gap),
                Cell(cluster_words(point)),
            ]
        )
    return Table("points", "Points of the frontier, from the dearest to the cheapest", columns, rows)
