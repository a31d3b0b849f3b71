"""Schedules of the jobs of an instance that are served by keys."""

from __future__ import annotations

import numpy as np

from ...formulations.scheduling.constraints import restarts_s
from ...instances.common.arrays import Floats, Ints
from ...instances.scheduling.instance import SchedulingInstance
from .engine import Schedule
from .event_state import Rule, Trace
from .seen import widths
from .simulator import Simulator


class Server:
    """Serves the jobs of one instance by rules.

    Attributes
    ----------
    order
        The jobs in the order of their arrival, as indices into the table; everything else is in this order.
    width
        What each job takes as one figure, as in `Seen`; shape (J,).
    weight
        Shape (J,).
    trace, simulator
        What the event loop works on, and what runs it.
    """

    def __init__(self, instance: SchedulingInstance) -> None:
        table = instance.table()
        self.order: Ints = np.argsort(table.arrival_s, kind="stable")
        demand = np.ascontiguousarray(table.total_demand[self.order])
        changes, amounts = instance.capacity_over_time
        self.width: Floats = widths(demand, amounts[0])
        self.weight: Floats = table.weight[self.order]
        of_class, first = classes_of(demand)
        self.trace = Trace(
            arrival_s=table.arrival_s[self.order],
            duration_s=table.duration_s[self.order],
            restart_s=restarts_s(instance)[self.order],
            demand=demand,
            least=demand.min(axis=0),
            of_class=of_class,
            first=first,
            change_s=changes,
            capacity=amounts,
            lease_s=float(instance.lease_s),
            interruptible=instance.preemption != "none",
        )
        self.simulator = Simulator(self.trace)

    def schedule(self, rule: Rule) -> Schedule:
        """Return the schedule of a rule; raises what the simulator does."""
        segments = self.simulator.segments(rule)
        return Schedule(self.order[segments.job], segments.start_s, segments.end_s)


def classes_of(demand: Floats) -> tuple[Ints, Ints]:
    """Return the class of each job, and where each class begins in a list of all jobs; see `Trace`."""
    _, of_class = np.unique(demand, axis=0, return_inverse=True)
    of_class = of_class.reshape(-1)  # NumPy 2.0 returned it in another shape
    return of_class, np.append(0, np.cumsum(np.bincount(of_class)))


def first_come(server: Server) -> Rule:
    """Return first come, first served."""
    return Rule(np.arange(len(server.order), dtype=float), 0.0, 1.0, preempts=False, blocks=True)


def shortest(server: Server) -> Rule:
    """Return shortest job first."""
    return Rule(np.ones(len(server.order)), 1.0, 1.0, preempts=False, blocks=False)


def shortest_remaining(server: Server) -> Rule:
    """Return shortest remaining time first."""
    return Rule(np.ones(len(server.order)), 1.0, 1.0, preempts=True, blocks=False)


def shortest_service(server: Server) -> Rule:
    """Return least remaining time × width first."""
    return Rule(server.width, 1.0, 1.0, preempts=True, blocks=False)
