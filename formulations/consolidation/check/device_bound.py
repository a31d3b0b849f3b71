"""The check of certificates on single devices: Lagrangian bounds from prices by shape of server.

Prices are rounded to integer multiples of a fine unit first. Any prices prove a bound, so rounding only makes
it slightly weaker.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ....instances.common.hardware import Geometry
from ....instances.consolidation.devices import WHOLE, Device, DeviceDemand
from ....instances.consolidation.instance import ConsolidationInstance, Server
from ....instances.consolidation.job import Group, PlacementJob, allows
from ...common.clock import check_time
from ...common.formulation import parsed_certificate
from ...common.objective import Bounds, Objective, Values, agree, common_divisor, exact_fraction, loosened
from ..certificate import PRICED_BY_SHAPE, DeviceCertificate, DevicePrices, PricedGoal, ShapePrices
from ..classes import job_value
from .bounds import LEVEL_TOLERANCE

PRICE_SCALE = 2**50
"""Denominator of the integers to which prices are rounded."""


def integer_price(value: float) -> int:
    """Return a dual price as a rounded integer multiple of 1/PRICE_SCALE."""
    return round(Fraction(value) * PRICE_SCALE)


@dataclass(frozen=True)
class ServerShape:
    """Servers of equal GPU model, residual capacities and device states, with their number.

    Attributes
    ----------
    free
        Residual capacity of each resource, with the tolerance for rounding.
    """

    first: Server
    count: int
    free: dict[str, Fraction]


def server_shapes(instance: ConsolidationInstance) -> list[ServerShape]:
    """Group the servers of equal GPU model, residual capacities and devices, in instance order."""
    alike: dict[object, list[Server]] = defaultdict(list)
    for server in instance.expanded_servers if instance.drain else instance.servers:
        devices = tuple(
            (name, states, repr((server.devices or {})[name].partitions))
            for name, states in sorted(server.device_states.items())
        )
        alike[server.gpu_model, tuple(sorted(server.available.items())), devices].append(server)
    return [
        ServerShape(
            servers[0],
            sum(server.count or 1 for server in servers),
            {name: exact_fraction(loosened(amount)) for name, amount in servers[0].available.items()},
        )
        for servers in alike.values()
    ]


class _ShapePriceBound:
    """The dual prices on servers of one shape, as integers, and what they imply for tasks and servers."""

    def __init__(self, shape: ServerShape, prices: ShapePrices) -> None:
        self.shape = shape
        self.resources = {name: integer_price(p) for name, p in prices.resources.items()}
        self.devices = prices.devices

    def of_task(self, group: Group) -> Fraction | None:
        """Return the price of a task on a server of this shape, in 1/PRICE_SCALE; None if it does not fit."""
        paid = Fraction(0)
        for name, amount in group.demand.items():
            need = exact_fraction(amount)
            if need > self.shape.free.get(name, 0):
                return None
            paid += self.resources.get(name, 0) * need
        for name, ask in group.asks.items():
            devices = (self.shape.first.devices or {}).get(name)
            states = self.shape.first.device_states
            if devices is None or not _can_hold(ask, states[name], devices.partitions):
                return None
            paid += _request_price(ask, self.devices.get(name, DevicePrices()))
        return paid

    def of_server(self) -> Fraction:
        """Return an upper bound on the total price of tasks on a server of this shape, in 1/PRICE_SCALE."""
        paid = Fraction(0)
        for name, each in self.resources.items():
            paid += each * self.shape.free.get(name, 0)
        for name, devices in (self.shape.first.devices or {}).items():
            prices, states = self.devices.get(name, DevicePrices()), self.shape.first.device_states[name]
            for state, count in Counter(states).items():
                paid += count * max_device_price(state, prices, devices.partitions)
        return paid


def _can_hold(ask: DeviceDemand, states: Sequence[Device], geometry: Geometry | None) -> bool:
    """Return whether the devices of a server, in the given states, can hold one task's request."""
    if ask.whole:
        return ask.whole <= sum(state.mode == "free" for state in states)
    if ask.share:
        return any(mode in ("free", "shared") and used + ask.share <= WHOLE for mode, used in states)
    if geometry is None or ask.profile not in geometry.profiles:
        return False
    profile = geometry.profiles[ask.profile]
    masks = {used for mode, used in states if mode in ("free", "parted")}
    return any(not mask & profile.mask(start) for mask in masks for start in profile.starts)


def _request_price(ask: DeviceDemand, prices: DevicePrices) -> int:
    if ask.whole:
        return ask.whole * integer_price(prices.whole)
    if ask.share:
        return integer_price(prices.shares.get(ask.share, 0.0))
    return integer_price(prices.profiles.get(ask.profile, 0.0))


def max_device_price(state: Device, prices: DevicePrices, geometry: Geometry | None) -> int:
    """Return the maximum total price of tasks on one device (whole, shared or partitioned).

    The unit is 1/PRICE_SCALE.
    """
    best = integer_price(prices.whole) if state.mode == "free" else 0
    if state.mode in ("free", "shared"):
        best = max(best, _max_share_price(WHOLE - state.used, prices.shares))
    if state.mode in ("free", "parted") and geometry is not None:
        best = max(best, _max_partition_price(state.used, prices.profiles, geometry))
    return best


def _max_share_price(room: int, prices: Mapping[int, float]) -> int:
    """Return the maximum total price of shares in the room of a device: an unbounded knapsack."""
    unit = math.gcd(*(share for share, p in prices.items() if p > 0)) or WHOLE
    paid = [(share // unit, integer_price(p)) for share, p in prices.items() if p > 0]
    best = [0] * (room // unit + 1)
    for cell in range(1, len(best)):
        # What the best contents leave is less than any share: it lies in the first cells, which hold none.
        best[cell] = max((best[cell - share] + p for share, p in paid if share <= cell), default=0)
    return best[-1]


def _max_partition_price(occupied: int, prices: Mapping[str, float], geometry: Geometry) -> int:
    """Return the maximum total price of partitions in the free slots of a device, by dynamic programming."""
    paid = [
        (geometry.profiles[name], integer_price(p)) for name, p in prices.items() if name in geometry.profiles
    ]
    best = [0] * (geometry.slots + 1)
    for slot in range(geometry.slots - 1, -1, -1):
        values = [
            p + best[slot + profile.size]
            for profile, p in paid
            if slot in profile.starts and not occupied & profile.mask(slot)
        ]
        best[slot] = max([best[slot + 1], *values])
    return best[0]


class ShapeBound:
    """The Lagrangian bound on one objective at dual prices by shape of server.

    Parameters
    ----------
    jobs
        One of the jobs with equal demands, and the number of such jobs.
    """

    def __init__(
        self, shapes: Sequence[ServerShape], jobs: Sequence[tuple[PlacementJob, int]], goal: PricedGoal
    ) -> None:
        self.jobs, self.goal = jobs, goal
        self.shapes = [_ShapePriceBound(*pair) for pair in zip(shapes, goal.shapes, strict=True)]

    def value(self, levels: Mapping[str, Fraction]) -> Fraction | None:
        """Return a lower bound on the objective, in minimisation form; None if there is no plan.

        Parameters
        ----------
        levels
            Upper limits of the earlier objectives, to be minimised.
        """
        weights = {name: Fraction(m) for name, m in self.goal.multipliers.items() if name in levels}
        weights[self.goal.objective] = Fraction(1)
        total = Fraction(0)
        for job, count in self.jobs:
            check_time()
            paid = self._job_price(job)
            if paid is None:
                if job.must_place:
                    return None
                continue
            cost = paid - weights.get("value", 0) * job_value(job)
            total += count * (cost if job.must_place else min(Fraction(0), cost))
        used = weights.get("servers", 0)
        for bound in self.shapes:
            received = Fraction(bound.of_server(), PRICE_SCALE)
            total += bound.shape.count * min(Fraction(0), used - received)
        earlier = sum(
            (weights[name] * level for name, level in levels.items() if name in weights), Fraction(0)
        )
        return total - earlier

    def _job_price(self, job: PlacementJob) -> Fraction | None:
        """Return the minimum total price of the tasks of a job; None if one of them fits on no server."""
        paid = Fraction(0)
        for group in job.task_groups:
            prices = [
                of_task
                for bound in self.shapes
                if allows(job.gpu_model, bound.shape.first.gpu_model)
                and (of_task := bound.of_task(group)) is not None
            ]
            if not prices:
                return None
            paid += group.tasks * min(prices)
        return paid / PRICE_SCALE


def group_jobs(instance: ConsolidationInstance) -> list[tuple[PlacementJob, int]]:
    """Group jobs of equal demands, value and GPU model: one job of each group, and its size."""
    alike: dict[object, list[PlacementJob]] = defaultdict(list)
    for job in instance.jobs:
        alike[job.requests, job.worth, job.must_place, job.gpu_model].append(job)
    return [(jobs[0], len(jobs)) for jobs in alike.values()]


def round_up_bound(instance: ConsolidationInstance, objective: str, least: Fraction) -> Fraction:
    """Round a lower bound up to the next value that an objective, to be minimised, can take."""
    step = common_divisor({job_value(job) for job in instance.jobs}) if objective == "value" else Fraction(1)
    return least if step is None else math.ceil(least / step) * step


def read_device_certificate(instance: ConsolidationInstance, data: Any) -> DeviceCertificate | str:
    """Return the parsed certificate on single devices, or the error in its format."""
    certificate = parsed_certificate(DeviceCertificate, data)
    if isinstance(certificate, str):
        return certificate
    shapes = len(server_shapes(instance))
    for goal in certificate.devices:
        if len(goal.shapes) != shapes:
            return f"the prices of {goal.objective} are of {len(goal.shapes)} shapes of servers, not {shapes}"
    return certificate


def shape_bounds(
    instance: ConsolidationInstance,
    objectives: Sequence[Objective],
    goals: Sequence[PricedGoal],
    values: Values,
    known: Bounds,
) -> Bounds:
    """Return the bound on each objective that dual prices by server shape prove, or the known one if tighter.

    A bound that depends on the values of earlier objectives counts only if all of these but the last are
    proven optimal.

    Parameters
    ----------
    values
        Objective values of the plan of the certificate; None if there is no plan.
    known
        Bounds that are proven without these prices.
    """
    by_name: dict[str, PricedGoal] = {goal.objective: goal for goal in goals}
    shapes, jobs = server_shapes(instance), group_jobs(instance)
    levels: dict[str, Fraction] = {}
    bounds: list[float | None] = []
    certain = True
    for index, objective in enumerate(objectives):
        goal = by_name.get(objective.name)
        proven = None
        if goal is not None and set(goal.multipliers) <= set(levels):
            least = ShapeBound(shapes, jobs, goal).value(levels)
            if least is not None:
                least = round_up_bound(instance, objective.name, least)
                proven = float(-least if objective.name == "value" else least)
        best = objective.tighter(known[index], proven)
        bounds.append(best)
        if values is None:
            continue
        if certain and objective.name in PRICED_BY_SHAPE:
            reached = exact_fraction(values[index]) * (-1 if objective.name == "value" else 1)
            levels[objective.name] = reached + abs(reached) * LEVEL_TOLERANCE
        certain = certain and best is not None and agree(best, values[index])
    return tuple(bounds)
