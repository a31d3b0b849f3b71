"""Where tasks of a segment run: the constraints of plans that name servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...instances.common.arrays import Flags, Floats, Ints
from ...instances.scheduling.instance import SchedulingInstance
from ...instances.scheduling.jobs import JobTable
from ..common.objective import Violation
from ..common.tolerance import all_loosened
from .plan import Segment
from .usage import running_totals

MOST_NAMED = 20
"""Faults of one sort that are named."""


def server_names(instance: SchedulingInstance) -> dict[str, dict[str, float]]:
    """Return the capacity of each server by its name; of several alike, NAME-0, NAME-1, …."""
    return {name: server.capacity for server in instance.servers for name in server.names}


@dataclass(frozen=True)
class Pieces:
    """The tasks of segments on servers, one row for each segment and server.

    Attributes
    ----------
    segment, server, tasks
        Index into the plan, index of the server, and how many tasks of the job are there; shape (P,).
    """

    segment: Ints
    server: Ints
    tasks: Ints


def broken_placements(instance: SchedulingInstance, plan: Sequence[Segment]) -> Iterator[Violation]:
    """Yield what is wrong with the servers that segments name.

    A plan that names none takes them as one pool, where no job is slower for being spread.
    """
    if not any(entry.servers for entry in plan):
        spreading = instance.table().spreading
        if instance.servers and spreading is not None and (spreading.profile >= 0).any():
            yield Violation("servers", "no segment names any, and jobs are slower on several servers")
        return
    states = instance.server_states
    index = {name: n for n, name in enumerate(states.names)}
    faults = list(_named_wrongly(instance, plan, index))
    yield from faults[:MOST_NAMED]
    if len(faults) > MOST_NAMED:
        yield Violation("servers", f"{len(faults) - MOST_NAMED:,} more of this sort")
    if not faults:
        yield from _overfull(instance, plan, index)


def _named_wrongly(
    instance: SchedulingInstance, plan: Sequence[Segment], index: dict[str, int]
) -> Iterator[Violation]:
    table = instance.table()
    jobs = {name: j for j, name in enumerate(table.names)}
    for entry in plan:
        there, tasks = sum(entry.servers.values()), tasks_in(table, jobs[entry.job], entry.configuration)
        if there != tasks:
            yield Violation("servers", f"{there} tasks of {entry.job!r} have servers, and it has {tasks}")
        for name in entry.servers:
            if name not in index:
                yield Violation("servers", f"there is no server {name!r}, on which {entry.job!r} runs")


def tasks_in(table: JobTable, j: int, configuration: str) -> int:
    """Return how many tasks a job has in a configuration: one on one server where these are not alike."""
    job = table.malleable.get(j)
    if job is None:
        return int(table.tasks[j])
    return int(configuration) if job.speeds is not None and configuration.isdecimal() else 1


def _overfull(
    instance: SchedulingInstance, plan: Sequence[Segment], index: dict[str, int]
) -> Iterator[Violation]:
    """Yield servers on which more is used than they have at some time."""
    states, table = instance.server_states, instance.table()
    jobs = {name: j for j, name in enumerate(table.names)}
    rows = [(s, index[name], n) for s, entry in enumerate(plan) for name, n in entry.servers.items()]
    pieces = Pieces(*np.array(rows, dtype=np.int64).T)
    job = np.array([jobs[entry.job] for entry in plan])
    row = instance.menus().rows(job, [entry.configuration for entry in plan])
    pairs = zip(job.tolist(), plan, strict=True)
    tasks = np.array([tasks_in(table, j, entry.configuration) for j, entry in pairs])
    demand = np.where(
        np.isin(job, instance.menus().malleable)[:, None],
        instance.menus().usage[row] / tasks[:, None],
        table.demand[job],
    )
    start = np.array([entry.start_s for entry in plan])[pieces.segment]
    end = np.array([entry.end_s for entry in plan])[pieces.segment]
    amount = demand[pieces.segment] * pieces.tasks[:, None]
    changes = states.changes
    at = np.array([c[0] for c in changes])
    what = np.array([c[2] for c in changes]).reshape(-1, amount.shape[1])
    # At one moment ends and changes of what there is come before starts.
    moment = np.concatenate([end, at, start])
    server = np.concatenate([pieces.server, np.array([c[1] for c in changes], dtype=np.int64), pieces.server])
    order = np.lexsort((np.repeat([0, 1, 2], [len(end), len(at), len(start)]), moment, server))
    used = np.concatenate([-amount, np.zeros_like(what), amount])[order]
    server, moment = server[order], moment[order]
    first = np.r_[True, server[1:] != server[:-1]]
    last = np.r_[(server[1:] != server[:-1]) | (moment[1:] != moment[:-1]), True]
    there = np.where(first[:, None], states.amounts[server], np.nan)
    is_change = (order >= len(end)) & (order < len(end) + len(at))
    there[is_change] = what[order[is_change] - len(end)]
    # What a server has holds until it changes.
    given = np.where(first | is_change, np.arange(len(order)), 0)
    there = there[np.maximum.accumulate(given)]
    for r, name in enumerate(table.resources):
        least = float(there[:, r].min())
        in_use = _sums_of_groups(used[:, r], first, least)
        has = there[:, r]
        for k in np.flatnonzero(last & (in_use > all_loosened(has)))[:MOST_NAMED].tolist():
            amounts = f"{in_use[k]:g} {name} of {states.names[int(server[k])]!r}"
            yield Violation("servers", f"{amounts} are used at {moment[k]:g} s, and it has {has[k]:g}")


def _sums_of_groups(values: Floats, first: Flags, least: float) -> Floats:
    """Return running totals that begin anew at each first row."""
    starts = np.flatnonzero(first).tolist()
    groups = np.split(values, starts[1:])
    return np.concatenate([running_totals(group, least) for group in groups])
