"""Bin-centric packing: one server after the other is filled with the jobs that align best with its room.

The dot product of demand and room has a weight for each resource, the mean demand (Panigrahy, Talwar, Uyeda
and Wieder 2011, Heuristics for vector bin packing). The largest server comes first. Jobs that no server
holds whole are placed before, those for which no server has room whole afterwards, both on the servers that
hold most of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np

from ....formulations.common.clock import time_is_up
from ....formulations.consolidation.formulation import ConsolidationFormulation
from ....instances.common.arrays import Flags, Floats
from .placer import LOOSE, Piece, Request, request_of
from .scored_fit import BestFitDotProduct, LargestDotProduct

_Asked = tuple[Request, int | None]
"""What a job asks for, and on how many servers it may be."""


class BinCentricCapacity(LargestDotProduct):
    """Servers that were filled before any job asks; equal requests are interchangeable."""

    def __init__(self, formulation: ConsolidationFormulation) -> None:
        super().__init__(formulation)
        columns = {name: r for r, name in enumerate(formulation.instance.resource_names)}
        self._kept: dict[_Asked, list[list[Piece]]] = defaultdict(list)
        whole: dict[bool, Counter[_Asked]] = {True: Counter(), False: Counter()}
        several: dict[bool, list[_Asked]] = {True: [], False: []}
        for job in formulation.instance.jobs:
            fewest = formulation.fewest(job)
            required = formulation.instance.spread_of(job) == "required"
            asked = request_of(job, columns), fewest if required else None
            if fewest == 1:
                whole[job.must_place][asked] += 1
            elif fewest is not None:
                several[job.must_place].append(asked)
        demand = sum(
            (
                _total(request, len(columns)) * n
                for kind in whole.values()
                for (request, _), n in kind.items()
            ),
            start=np.zeros(len(columns)),
        )
        room = self.left.sum(axis=0)
        self._weights: Floats = np.divide(demand, room, out=np.zeros_like(room), where=room > 0)
        order = np.argsort(-(self.left @ self._weights), kind="stable").tolist()
        for must in (True, False):
            for asked in several[must]:
                pieces = None if time_is_up() else super().place(*asked)
                if pieces is not None:
                    self._kept[asked].append(pieces)
            self._fill(whole[must], order)

    def place(self, request: Request, most_servers: int | None) -> list[Piece] | None:
        """Take what was kept for the request; else the servers that hold most."""
        kept = self._kept[request, most_servers]
        return kept.pop(0) if kept else super().place(request, most_servers)

    def _fill(self, waiting: Counter[_Asked], order: list[int]) -> None:
        """Fill servers with whole jobs, as long as any fits."""
        kinds = list(waiting)
        if not kinds:
            return
        count = np.array([waiting[kind] for kind in kinds])
        demand = np.array([_total(request, self.left.shape[1]) for request, _ in kinds])
        eligible: Flags = np.array([self.eligible(request.gpu_model) for request, _ in kinds])
        for server in order:
            while not time_is_up():
                fits = eligible[:, server] & (count > 0)
                fits &= ((demand <= self.left[server] * LOOSE) | (demand == 0)).all(axis=1)
                if not fits.any():
                    break
                per_unit = self.per_unit[server]
                aligned = demand * per_unit @ (self._weights * self.left[server] * per_unit)
                best = int(np.where(fits, aligned, -np.inf).argmax())
                count[best] -= 1
                self.left[server] -= demand[best]
                self.used[server] = True
                self._kept[kinds[best]].append([(server, kinds[best][0].tasks)])


class BinCentric(BestFitDotProduct):
    """Fill one server after the other."""

    name = "bin-centric"
    what = "one server after the other, each with the jobs whose weighted demand aligns best with its room"

    def capacity(self, formulation: ConsolidationFormulation) -> BinCentricCapacity:
        """Return what is free."""
        return BinCentricCapacity(formulation)


def _total(request: Request, resources: int) -> Floats:
    """Return what all tasks take of each resource, shape (R,)."""
    total = np.zeros(resources)
    for demand, tasks in zip(request.demands, request.tasks, strict=True):
        for resource, amount in demand:
            total[resource] += tasks * amount
    return total
