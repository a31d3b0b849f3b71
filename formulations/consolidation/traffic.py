"""A limit on the traffic of every server, as one more resource.

The largest traffic of a server is at most T exactly if every server has T less its existing traffic to give,
and every task takes its own. So the least T is found, and proven, by asking whether there is a plan.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ...instances.consolidation.instance import ConsolidationInstance, Server
from ...instances.consolidation.job import Group
from .classes import common_step, exact

RESOURCE = ""
"""Name of the resource, which no document can give to another."""


def traffic_step(instance: ConsolidationInstance) -> Fraction | None:
    """Return a step of which all traffic is a multiple; None if there is none, or it is too small to help."""
    # Sums of multiples of a step are multiples of it, so that only these are limits worth asking for.
    amounts = {exact(server.traffic_gbit_per_s) for server in instance.servers}
    amounts |= {exact(g.traffic_gbit_per_s) for job in instance.jobs for g in job.task_groups}
    step = common_step(amounts)
    return step if step is not None and step * 10**6 > max(amounts) else None


def limited(instance: ConsolidationInstance, most: float) -> ConsolidationInstance:
    """Return the instance in which no server has more traffic than this.

    Capacities hold all traffic there is, so that the fewest servers of a job stay the same.
    """
    everything = most + math.fsum(
        group.tasks * group.traffic_gbit_per_s for job in instance.jobs for group in job.task_groups
    )
    known: dict[int, tuple[Group, ...]] = {}
    jobs = []
    for job in instance.jobs:
        groups = known.get(id(job.task_groups))
        if groups is None:
            groups = known[id(job.task_groups)] = tuple(map(_group, job.task_groups))
        jobs.append(job.model_copy(update={"groups": groups}))
    return instance.model_copy(
        update={
            "servers": tuple(_server(server, most, everything) for server in instance.expanded_servers),
            "jobs": tuple(jobs),
            "objectives": tuple(name for name in instance.objectives if name != "traffic") or ("value",),
        }
    )


def _server(server: Server, most: float, everything: float) -> Server:
    free = {**server.available, RESOURCE: max(0.0, float(exact(most) - exact(server.traffic_gbit_per_s)))}
    return server.model_copy(update={"capacity": {**server.capacity, RESOURCE: everything}, "free": free})


def _group(group: Group) -> Group:
    return group.model_copy(update={"demand": {**group.demand, RESOURCE: group.traffic_gbit_per_s}})
