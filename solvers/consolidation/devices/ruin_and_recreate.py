"""Heuristics on devices: greedy placement by dual prices, ruin and recreate, and repair of pooled plans.

Ruin and recreate (Schrimpf et al., *Record breaking optimization results using the ruin and recreate
principle*, Journal of Computational Physics 159, 2000): the jobs of a few servers, most of them with unused
devices, are removed and placed again in a random order; a result that is no worse is kept.

A plan of the pooled relaxation is repaired: tasks that do not fit on single devices are placed elsewhere.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from ....formulations.consolidation.formulation import DeviceFormulation
from ....formulations.consolidation.plan import JobPlacement, Plan, assign_devices, staying_tasks
from ....instances.common.arrays import Floats
from ....instances.common.errors import TooLargeError
from ....instances.consolidation.devices import WHOLE, HeldDevices
from ....instances.consolidation.job import PlacementJob
from ...common.base import Clock
from .partial_placement import PartialPlacement, ScoreWeights, ServerRanking
from .shape_relaxation import Cluster, DeviceJobClass, ShapeRelaxation

FEWEST_FREED, MORE_FREED, MAX_FREED = 2, 1.0, 14
"""Servers whose jobs are removed in one round: fewest, how many more on average, and most."""
MAX_UNPLACED_TRIED = 3
"""Largest number of unplaced jobs of one class that are tried in one round."""
FIRST_WEIGHTS = ScoreWeights()
OTHER_WEIGHTS = ScoreWeights(uneven=0.35, room=0.12), ScoreWeights(uneven=0.2)
"""Further score weights of the greedy method, as the best trade-off of balance and devices varies."""
SHORT_SHARE = 0.1
"""Share of the remaining time up to which further score weights are tried."""
WEIGHT_UPDATE_ROUNDS = 50
"""Rounds after which the sampling weights of servers are computed again."""
WORTHLESS_RANK = 3
"""Rank of jobs without value, which are placed last."""
OPENING_SCORE = 3.0
"""Score of opening a server if used servers are an objective, in units of a device's gap."""
COST_TOLERANCE = 1e-6


def task_sizes(cluster: Cluster) -> Floats:
    """Return the size of a task of each kind, (K,): its share of all devices and, less, of all resources."""
    total = [
        max(1, sum(s.free[r] * len(s.members) for s in cluster.shapes)) for r in range(len(cluster.resources))
    ]
    devices = sum(len(states) for server in cluster.servers for states in server.device_states.values())
    return np.array(
        [
            sum(max(1, ask.thousandths) for _, ask in kind.asks) / (1000 * max(1, devices))
            + 0.1 * float((np.array(kind.need) / total).sum())
            for kind in cluster.kinds
        ]
    )


def relative_prices(relaxed: ShapeRelaxation | None) -> Floats | None:
    """Return each task kind's extra dual cost on a server shape over its cheapest one, shape (K, S).

    Costs are scaled by their median; None without finite costs.
    """
    if relaxed is None:
        return None
    finite = np.where(np.isfinite(relaxed.worth), relaxed.worth, np.nan)
    if np.isnan(finite).all():
        return None
    extra: Floats = finite - relaxed.worth.min(axis=1, keepdims=True)
    return np.nan_to_num(extra / max(float(np.nanmedian(finite)), 1e-12))


class DevicePlacement:
    """Construction of a plan on devices: partial placement, job order, and dual prices as guides.

    Parameters
    ----------
    relaxed
        Solution of the relaxation by shape, whose dual prices guide the placement; None without prices.
    """

    def __init__(self, cluster: Cluster, relaxed: ShapeRelaxation | None, seed: int | None) -> None:
        self.placement, self.cluster = PartialPlacement(cluster), cluster
        self.formulation = cluster.formulation
        self.jobs = self.formulation.instance.jobs
        self.random = random.Random(seed or 0)
        relative = relative_prices(relaxed)
        self.placement.prices = None if relative is None else relative.tolist()
        size = task_sizes(self.cluster)
        self.size = [float(sum(size[k] * count for k, count in groups)) for groups in self.cluster.groups_of]
        self.order = sorted(range(len(self.jobs)), key=self._first)
        self.number = {p: c for c, alike in enumerate(self.cluster.classes) for p in alike.members}
        self.most = [self._most(job) for job in self.jobs]
        self.rank = [self._rank(alike, relaxed) for alike in self.cluster.classes]
        self.everywhere = range(len(self.cluster.servers))
        self.fresh = OPENING_SCORE if "servers" in self.formulation.instance.objectives else 0.0

    def _most(self, job: PlacementJob) -> int | None:
        """Return the maximum number of servers of a job: 0 if it never fits, None if it is unbounded."""
        if self.formulation.instance.spread_of(job) != "required":
            return None
        return self.formulation.fewest(job) or 0

    def _rank(self, alike: DeviceJobClass, relaxed: ShapeRelaxation | None) -> tuple[int, float]:
        """Return a job class's rank in the order: required jobs, those worth more than their cost, others."""
        if alike.job.must_place:
            return 0, 0.0
        if relaxed is None or not alike.job.worth:
            return 1 if alike.job.worth else WORTHLESS_RANK, 0.0
        cost = sum(count * float(relaxed.worth[k].min()) for k, count in alike.groups)
        part = cost / alike.job.worth if math.isfinite(cost) else math.inf
        return (1, 0.0) if part < 1 - COST_TOLERANCE else (2, part)

    def fill(self, servers: Sequence[int], order: Iterable[int], taste: ScoreWeights, clock: Clock) -> None:
        """Place unplaced jobs on these servers in order; after a failure, equal jobs are skipped."""
        self._one_by_one(order, lambda k: self.placement.best(k, servers, taste), taste, clock)

    def _one_by_one(
        self, order: Iterable[int], anywhere: Callable[[int], int | None], taste: ScoreWeights, clock: Clock
    ) -> None:
        """Place unplaced jobs in order, on servers that the function `anywhere` selects for their tasks."""
        failed: set[int] = set()
        for position in order:
            kind = self.number[position]
            if position in self.placement.jobs or kind in failed:
                continue
            if clock.expired:
                return
            most = self.most[position]
            if most == 0 or not self.placement.place(position, anywhere, taste, most):
                failed.add(kind)

    def greedy(self, clock: Clock, taste: ScoreWeights = FIRST_WEIGHTS) -> None:
        """Place all unplaced jobs, required ones first, then by value; each on servers of minimum score."""
        taste = replace(taste, fresh=self.fresh)
        self._one_by_one(self.order, ServerRanking(self.placement, taste).best, taste, clock)
        self.placement.log = None

    def _first(self, position: int) -> tuple[bool, float, float]:
        job = self.jobs[position]
        return not job.must_place, -job.worth, -self.size[position]

    def finish(self, clock: Clock) -> None:
        """Place all jobs that still fit on any server, such as jobs without value."""
        self.fill(self.everywhere, self.order, ScoreWeights(), clock)

    def load(self, plan: Plan) -> None:
        """Place the jobs of a plan on its servers if their devices suffice; large jobs come first."""
        positions = {job.name: p for p, job in enumerate(self.jobs)}
        number = {server.name: n for n, server in enumerate(self.cluster.servers)}
        listed = [(positions[entry.job], entry) for entry in plan if entry.placed]
        for position, entry in sorted(
            listed, key=lambda pair: (not self.jobs[pair[0]].must_place, -self.size[pair[0]])
        ):
            most = self.most[position]
            if most is not None and len(entry.used_servers) > most:
                continue  # the pooled relaxation may not know the rule on the spread of a job
            requests: list[tuple[int, int, tuple[HeldDevices, ...] | None]] = []
            for g, group in enumerate(self.jobs[position].task_groups):
                kind = self.cluster.kinds[self.cluster.groups_of[position][g][0]]
                for server, count in entry.tasks.get(group.name, {}).items():
                    named = (entry.devices or {}).get(group.name, {}).get(server)
                    held: Sequence[tuple[HeldDevices, ...] | None] = [None] * count
                    if named is not None:
                        held = [tuple(task[self.cluster.names[d]] for d, _ in kind.asks) for task in named]
                    requests += [(g, number[server], devices) for devices in held]
            self.placement.place_at(position, requests)

    def local_values(self, jobs: Iterable[int], servers: Iterable[int]) -> tuple[float, ...]:
        """Return the objectives' values for these jobs and servers alone, to compare local changes.

        They are to be minimised; traffic is ignored.
        """
        formulation, placement = self.formulation, self.placement
        names = formulation.instance.objectives
        total: dict[str, float] = defaultdict(float)
        for position in jobs:
            tasks, job = placement.jobs.get(position), self.jobs[position]
            if "migrations" in names:
                total["migrations"] -= self._stay(position)
            lost = formulation.restarts.get(job.name)
            if lost and self._stay(position) < sum(group.running_tasks for group in job.task_groups):
                total["value"] += lost
            if tasks is None:
                continue
            if "stops" in names:
                total["stops"] -= job.is_running
            used = {task.server for task in tasks}
            total["value"] -= job.worth
            if "spread" in names and formulation.instance.spread_of(job) == "preferred":
                total["spread"] += len(used) - (formulation.fewest(job) or 0)
            if "racks" in names:
                racks = {formulation.rack_of(self.cluster.servers[n].name) for n in used}
                total["racks"] += len(racks) - 1
            if "slowdown" in names:
                total["slowdown"] += job.worth * (1 - job.relative_speed(len(used)))
        if "servers" in names:
            total["servers"] = float(sum(placement.holds[n] > 0 for n in servers))
        return tuple(round(total[name], 9) for name in names)

    def _stay(self, position: int) -> int:
        """Return the number of a job's running tasks that do not move."""
        groups = self.jobs[position].task_groups
        if position not in self.placement.jobs or not self.jobs[position].is_running:
            return 0
        entry, moves = self.placement.entry(position), self.formulation.instance.device_moves
        return sum(staying_tasks(group, entry, moves) for group in groups)


def best_greedy_placement(cluster: Cluster, seed: int | None, clock: Clock) -> DevicePlacement:
    """Return the best of several greedy placements (by score weights); at least one is always made."""
    candidates: list[tuple[int, tuple[float, ...], int, DevicePlacement]] = []
    began_s = clock.elapsed_s
    for taste in (FIRST_WEIGHTS, *OTHER_WEIGHTS):
        placing = DevicePlacement(cluster, None, seed)
        placing.greedy(clock, taste)
        positions = range(len(placing.jobs))
        left_out = sum(placing.jobs[p].must_place and p not in placing.placement.jobs for p in positions)
        values = placing.local_values(positions, placing.everywhere)
        candidates.append((left_out, values, len(candidates), placing))
        if clock.remaining_s is not None and clock.elapsed_s - began_s > SHORT_SHARE * clock.remaining_s:
            break
    return min(candidates)[-1]


class RuinAndRecreate:
    """Ruin and recreate: removes the jobs of a few servers from a plan and places them again.

    Attributes
    ----------
    waiting
        Unplaced jobs of each class, in a dictionary to keep their order.
    """

    def __init__(self, placing: DevicePlacement) -> None:
        self.placing, self.placement = placing, placing.placement
        self.waiting: list[dict[int, None]] = [
            {p: None for p in alike.members if p not in self.placement.jobs}
            for alike in placing.cluster.classes
        ]
        self.weights: list[float] = []
        self.rounds = 0

    def run(self, clock: Clock, most: int) -> None:
        """Improve the placement until the time limit, or for `most` rounds."""
        last = self.rounds + most
        while not clock.expired and self.rounds < last:
            self.once()
            self.rounds += 1

    def once(self) -> None:
        """Remove and re-insert the jobs of some servers; undo the change if the objectives get worse."""
        placing, placement = self.placing, self.placement
        servers = self._chosen()
        server_set = set(servers)
        freed = {
            position
            for n in servers
            for position in placement.on[n]
            if all(task.server in server_set for task in placement.jobs[position])
        }
        waiting = self._waiting(servers)
        touched = [*sorted(freed), *waiting]
        before = placing.local_values(touched, servers)
        removed = {position: placement.remove(position) for position in sorted(freed)}
        placing.fill(servers, _random_order(placing, touched), _random_weights(placing), Clock())
        placed_must = all(p in placement.jobs for p in freed if placing.jobs[p].must_place)
        if not placed_must or placing.local_values(touched, servers) > before:
            for position in touched:
                if position in placement.jobs:
                    placement.remove(position)
            for position, tasks in removed.items():
                placement.restore(position, tasks)
            return
        for position in touched:
            listed = self.waiting[placing.number[position]]
            if position in placement.jobs:
                listed.pop(position, None)
            else:
                listed[position] = None

    def _chosen(self) -> list[int]:
        """Return a random sample of servers, by index, biased to unused devices and servers of few tasks."""
        placement, rng = self.placement, self.placing.random
        if self.rounds % WEIGHT_UPDATE_ROUNDS == 0:
            fewer = "servers" in self.placing.formulation.instance.objectives
            spare = (
                0.02 + sum(min(1.0, bank.spare / WHOLE) for bank in banks.values())
                for banks in placement.device_pools
            )
            self.weights = [
                weight + (1.0 / tasks if fewer and tasks else 0.0)
                for weight, tasks in zip(spare, placement.holds, strict=True)
            ]
            self.weights = list(itertools.accumulate(self.weights))
        more = int(rng.expovariate(1 / MORE_FREED))
        count = min(len(self.weights), FEWEST_FREED + more, MAX_FREED)
        return sorted(set(rng.choices(self.placing.everywhere, cum_weights=self.weights, k=count)))

    def _waiting(self, servers: Sequence[int]) -> list[int]:
        """Return some unplaced jobs, by index, of each class that fits on one of these servers' shapes."""
        hosts, shapes = self.placement.hosts, {self.placement.shape_of[n] for n in servers}
        selected: list[int] = []
        for c, alike in enumerate(self.placing.cluster.classes):
            if not self.waiting[c] or self.placing.rank[c][0] == WORTHLESS_RANK:
                continue
            if all(any(hosts[k][s] for s in shapes) for k, _ in alike.groups):
                selected += itertools.islice(self.waiting[c], MAX_UNPLACED_TRIED)
        return selected


def _random_order(placing: DevicePlacement, positions: Sequence[int]) -> list[int]:
    """Return the jobs, by index, in a randomised order, roughly by rank and decreasing size."""
    rng, noise = placing.random, placing.random.choice((0.05, 0.2, 0.5))
    factor: dict[int, float] = {}

    by_price = rng.random() < 0.5

    def rank(position: int) -> tuple[int, float]:
        kind = placing.number[position]
        if kind not in factor:
            factor[kind] = rng.lognormvariate(0.0, noise)
        first = placing.rank[kind][0]
        return first if by_price else min(first, 1), -placing.size[position] * factor[kind]

    return sorted(positions, key=rank)


def _random_weights(placing: DevicePlacement) -> ScoreWeights:
    rng = placing.random
    return ScoreWeights(
        gap=rng.choice((0.5, 1.0, 2.0)),
        uneven=rng.choice((0.0, 0.1, 0.3, 1.0)),
        room=rng.choice((-0.05, 0.05, 0.3)),
        price=rng.choice((0.0, 0.5, 1.0)),
        fresh=placing.fresh,
    )


def repaired_plan(formulation: DeviceFormulation, plan: Plan) -> list[JobPlacement]:
    """Convert a pooled plan to a plan on devices; tasks without devices are placed elsewhere.

    Required jobs come first.
    """
    try:
        named = assign_devices(formulation.jobs, formulation.servers, plan)
    except TooLargeError:
        named = None
    if named is not None and not formulation.violations(named):
        return named
    placing = DevicePlacement(Cluster(formulation), None, None)
    placing.load(plan)
    placing.greedy(Clock())
    return placing.placement.plan()
