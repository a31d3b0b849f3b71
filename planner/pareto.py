"""The frontier of cost against throughput: found, checked, shown and written."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..formulations.base import agree
from ..formulations.staging import StagingFormulation
from ..formulations.staging_frontier import Corner, certified_error
from ..instances.base import Instance
from ..instances.errors import OptionError
from ..instances.staging import StagingInstance
from ..solvers.frontier import Frontier, FrontierPoint, describe, find_frontier
from ..solvers.options import SolveOptions
from .output import csv_line, figure, percent, safe_cell, table
from .verification import Verification

if TYPE_CHECKING:
    from rich.table import Table

DEFAULT_ERROR = 1e-4
MOST_ROWS = 40
SUPPORTED = frozenset({"time_limit_s", "gap", "threads", "seed"})


def pareto(
    instance: Instance,
    options: SolveOptions | None = None,
    *,
    error: float = DEFAULT_ERROR,
    most_usd: float | None = None,
) -> Frontier:
    """Return every plan of a staging instance that no other beats in both cost and throughput.

    The instance's floor, limits, memory and budgets hold for every point; its objective plays no part.

    Parameters
    ----------
    options
        Time limit, threads and seed.
    error
        ε: for every feasible plan there is a point at least as fast that costs at most 1/(1 − ε) times as
        much. 0 asks for every breakpoint.
    most_usd
        Look for no dearer plans. By default the instance's cost limit; where units are unlimited and there
        is no budget, ten times the cost of the cheapest plan.

    Raises
    ------
    OptionError
        If the instance is not of staging, or an option has no meaning here.
    """
    if not isinstance(instance, StagingInstance):
        raise OptionError("a frontier of cost against throughput is for staging instances")
    if not 0 <= error < 1:
        raise OptionError(f"error is {error:g}; it must be at least 0 and below 1")
    if most_usd is not None and not 0 < most_usd < math.inf:
        raise OptionError(f"most_usd is {most_usd:g}; it must be above 0")
    options = options or SolveOptions()
    unused = sorted(options.model_fields_set - SUPPORTED)
    for name in unused:
        if getattr(options, name):
            raise OptionError(f"a frontier does not support {name}; leave it out")
    return find_frontier(instance, options, error, most_usd)


def verify_frontier(instance: Instance, frontier: Frontier) -> Verification:
    """Check a frontier against its instance: every plan, every figure, and the error that it proves."""
    name = instance.name
    if not isinstance(instance, StagingInstance):
        fault = f"the frontier is of a staging instance; {name} is of kind {instance.kind}"
        return Verification(instance=name, ok=False, faults=(fault,))
    faults = list(_faults(instance, frontier))
    confirmed, claimed = [], []
    if not faults:
        confirmed.append(f"every constraint holds for each of {len(frontier.points)} plans")
        if frontier.certified_error is not None:
            most = "" if frontier.most_usd is None else f" of at most {frontier.most_usd:g} USD"
            confirmed.append(f"no plan{most} beats the points by more than {frontier.certified_error:g}")
    if frontier.status == "complete" and frontier.certified_error != frontier.error:
        claimed.append(f"that no plan beats the points by more than {frontier.error:g}")
    if frontier.status == "infeasible":
        claimed.append("that there is no plan")
    return Verification(
        instance=name, ok=not faults, faults=tuple(faults), confirmed=tuple(confirmed), claimed=tuple(claimed)
    )


def _faults(instance: StagingInstance, frontier: Frontier) -> Iterator[str]:
    if frontier.instance_sha256 != instance.sha256():
        yield "instance_sha256 does not agree: the frontier is of another instance, or it was changed since"
    formulation, broken = StagingFormulation(instance), False
    for index, point in enumerate(frontier.points):
        for violation in formulation.violations(point.plan):
            broken = True
            yield f"points[{index}]: broken constraint: {violation}"
    if broken:
        return
    for index, point in enumerate(frontier.points):
        derived = describe(formulation, point.plan)
        for field in sorted(set(FrontierPoint.model_fields) - {"plan"}):
            old, new = getattr(point, field), getattr(derived, field)
            if not agree(old, new):
                yield f"points[{index}].{field} is stored as {old:.10g}; recomputed it is {new:.10g}"
    corners = [Corner(point.stage_time_s, point.cost_usd) for point in frontier.points]
    for index, (a, b) in enumerate(itertools.pairwise(corners)):
        if not (a.time_s < b.time_s and a.cost_usd > b.cost_usd):
            yield f"points[{index + 1}] is not slower and cheaper than the one before"
    proven = None
    if corners:
        proven = certified_error(
            formulation, corners, frontier.error, frontier.most_usd, frontier.certificate
        )
    stored = frontier.certified_error
    if stored is not None and (proven is None or proven > stored * (1 + 1e-9)):
        yield f"certified_error is stored as {stored}; what the certificate proves is {proven}"


def frontier_rows(frontier: Frontier) -> tuple[list[str], list[list[Any]]]:
    """Return titles and rows of a table with one line for each point."""
    frame = frontier.to_frame()
    return list(frame.columns), frame.astype(object).to_numpy().tolist()


def to_csv(frontier: Frontier) -> str:
    """Return the points as CSV."""
    titles, rows = frontier_rows(frontier)
    lines = [csv_line(titles), *(csv_line([safe_cell(cell) for cell in row]) for row in rows)]
    return "\n".join(lines) + "\n"


def write(frontier: Frontier, folder: Path) -> tuple[Path, Path]:
    """Write `frontier.csv` and `frontier.json` into a folder, which is made if it is missing.

    Raises
    ------
    OptionError
        If they cannot be written.
    """
    paths = folder / "frontier.csv", folder / "frontier.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, (to_csv(frontier), frontier.to_json() + "\n"), strict=True):
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        where = error.filename or folder
        raise OptionError(f"{where}: cannot be written: {error.strerror or error}") from None
    return paths


def shown(frontier: Frontier) -> tuple[Table, list[str]]:
    """Return the points as a table for people, thinned where they are many, and lines about the whole."""
    points = _thinned(frontier.points)
    columns = [("samples/s", True), ("USD", True), ("hours", True), ("USD/h", True)]
    columns.append(("stages: units of each type, in order", False))
    rows = [
        [
            figure(point.throughput_samples_per_s, 6),
            figure(point.cost_usd, 6),
            figure(point.time_s / 3600, 5),
            figure(point.rate_usd_per_hour, 6),
            _stages(point),
        ]
        for point in points
    ]
    return table(columns, rows), list(_lines(frontier, len(points)))


def _thinned(points: Sequence[FrontierPoint]) -> list[FrontierPoint]:
    """Return at most `MOST_ROWS` points, evenly along the frontier as it looks on logarithmic axes."""
    if len(points) <= MOST_ROWS:
        return list(points)
    fastest, cheapest = points[0], points[-1]
    gain = math.log(fastest.throughput_samples_per_s / cheapest.throughput_samples_per_s)
    price = math.log(fastest.cost_usd / cheapest.cost_usd) if cheapest.cost_usd > 0 else 0.0
    chosen = {0: fastest, len(points) - 1: cheapest}
    for index, point in enumerate(points):
        along = math.log(fastest.throughput_samples_per_s / point.throughput_samples_per_s) / gain
        if price > 0:
            along = (along + math.log(fastest.cost_usd / point.cost_usd) / price) / 2
        if along * (MOST_ROWS - 1) >= len(chosen) - 1:
            chosen[index] = point
    return [chosen[index] for index in sorted(chosen)][:MOST_ROWS]


def _stages(point: FrontierPoint) -> str:
    text = " → ".join(f"{stage.units} {stage.type}" for stage in point.plan[:6])
    return text + (f" … ({len(point.plan)} stages)" if len(point.plan) > 6 else "")


def _lines(frontier: Frontier, shown_points: int) -> Iterator[str]:
    total = len(frontier.points)
    if shown_points < total:
        yield f"{shown_points} of {total} points are shown; --output DIR writes all, with their plans"
    if frontier.status == "infeasible":
        yield "no plan exists"
        if frontier.diagnosis is not None:
            yield from frontier.diagnosis.reasons
            yield from (f"remedy: {remedy}" for remedy in frontier.diagnosis.remedies)
        return
    most = "" if frontier.most_usd is None else f" of at most {figure(frontier.most_usd)} USD"
    if frontier.status == "partial":
        yield f"stopped by the {frontier.limit} limit; the points are plans, but better ones may be missing"
    if frontier.certified_error is None:
        yield f"not certified: that no plan{most} is faster than the fastest point"
    else:
        error = percent(frontier.certified_error)
        yield f"certified: every plan{most} is matched by a point as fast that costs at most {error} more"
