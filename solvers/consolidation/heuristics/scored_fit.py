"""Best fit by a score: each job on the server that fits it best by a norm or by how demand and room align.

The scores are of Panigrahy, Talwar, Uyeda and Wieder (2011, Heuristics for vector bin packing): the L2 norm
of what is left, and the dot product, which is the alignment of Tetris (Grandl et al., SIGCOMM 2014) too. The
dot product over the norms, the cosine, is one of those that Mommessin, Erlebach and Shakhlevich (2025,
Classification and evaluation of the algorithms for vector bin packing) compare. As in bin packing, a server
is opened only if no server that is open has room.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from ....formulations.common.clock import check_time
from ....formulations.consolidation.formulation import ConsolidationFormulation
from ....instances.common.arrays import Flags, Floats, Ints
from ....instances.consolidation.job import GpuModels, allows
from .placer import LOOSE, Counts, FreeCapacity, ListHeuristic, Piece, Request, shares_of_free


class ScoredCapacity(FreeCapacity):
    """Servers with a score for each request; the smallest is taken.

    Attributes
    ----------
    left
        Of each server and resource, shape (N, R).
    used
        Servers that hold a job, shape (N,).
    """

    def __init__(self, formulation: ConsolidationFormulation) -> None:
        super().__init__(formulation)
        self.left: Floats = np.array(self.free)
        self.used: Flags = np.zeros(len(self.left), dtype=bool)
        whole = np.array(self.capacity)
        self.per_unit: Floats = np.divide(1.0, whole, out=np.zeros_like(whole), where=whole > 0)
        self._eligible: dict[GpuModels, Flags] = {}

    @abstractmethod
    def score(self, asked: Floats, room: Floats) -> Floats:
        """Return the score of each server, shape (N,).

        Parameters
        ----------
        asked, room
            What goes on a server and what is left before, in shares of its capacity, shape (N, R).
        """

    def eligible(self, gpu_model: GpuModels) -> Flags:
        """Return which servers a job may use, shape (N,)."""
        if gpu_model not in self._eligible:
            self._eligible[gpu_model] = np.array([allows(gpu_model, model) for model in self.models])
        return self._eligible[gpu_model]

    def place(self, request: Request, most_servers: int | None) -> list[Piece] | None:
        """Take the servers that hold most of what is waiting, and of these the one with the best score."""
        waiting, taken = request.tasks, dict[int, Counts]()
        open_to_it = self.eligible(request.gpu_model).copy()
        while any(waiting):
            check_time()
            if len(taken) == most_servers:
                return None
            counts, amounts = self._loads(request, waiting)
            held = np.where(open_to_it, counts.sum(axis=1), 0)
            if not held.any():
                return None
            best = np.flatnonzero(held == held.max())
            if self.used[best].any():
                best = best[self.used[best]]
            per_unit = self.per_unit[best]
            scores = self.score(amounts[best] * per_unit, self.left[best] * per_unit)
            server = int(best[scores.argmin()])
            taken[server] = tuple(counts[server].tolist())
            open_to_it[server] = False
            waiting = tuple(most - count for most, count in zip(waiting, taken[server], strict=True))
        for server, here in taken.items():
            self.left[server] = request.after(here, self.left[server])
            self.used[server] = True
        return list(taken.items())

    def _loads(self, request: Request, waiting: Counts) -> tuple[Ints, Floats]:
        """Return how many tasks of each group go on each server, and what they take; see `Request.load`."""
        left, counts = self.left.copy(), np.zeros((len(self.left), len(waiting)), dtype=np.int64)
        for g, (demand, most) in enumerate(zip(request.demands, waiting, strict=True)):
            fit = np.full(len(left), float(most))
            for resource, amount in demand:
                room = left[:, resource] * LOOSE
                fit = np.where(fit * amount > room, np.maximum(0.0, np.floor(room / amount)), fit)
            counts[:, g] = fit
            for resource, amount in demand:
                left[:, resource] -= fit * amount
        return counts, self.left - left


class LeastNorm(ScoredCapacity):
    """What is left is short."""

    def score(self, asked: Floats, room: Floats) -> Floats:
        """Return the square of the L2 norm of what is left afterwards."""
        return np.asarray(((room - asked) ** 2).sum(axis=1))


class LargestDotProduct(ScoredCapacity):
    """Much is asked for of what much is left of."""

    def score(self, asked: Floats, room: Floats) -> Floats:
        """Return the dot product, negative."""
        return np.asarray(-(asked * room).sum(axis=1))


class LargestCosine(ScoredCapacity):
    """What is asked for has the direction of what is left."""

    def score(self, asked: Floats, room: Floats) -> Floats:
        """Return the dot product over the norms, negative."""
        norms = np.sqrt((asked**2).sum(axis=1) * (room**2).sum(axis=1))
        return np.asarray(-(asked * room).sum(axis=1) / np.maximum(norms, np.finfo(float).tiny))


class _ScoredFit(ListHeuristic):
    """Jobs that must be placed first, then by the sum of the shares of what is free, as in FFDSum."""

    def sizes(self, formulation: ConsolidationFormulation) -> list[tuple[float, ...]]:
        """Return the sum of the shares of what is free of each resource, for each job."""
        return [(math.fsum(shares.values()),) for shares in shares_of_free(formulation)]


class BestFitNorm(_ScoredFit):
    """Best fit by the L2 norm of what is left."""

    name = "best-fit-l2"
    what = "the largest jobs first, each where the L2 norm of what is left is least"

    def capacity(self, formulation: ConsolidationFormulation) -> LeastNorm:
        """Return what is free."""
        return LeastNorm(formulation)


class BestFitDotProduct(_ScoredFit):
    """Best fit by the dot product of what is asked for and what is left."""

    name = "best-fit-dot"
    what = "the largest jobs first, each where the dot product of demand and room is largest (Tetris)"

    def capacity(self, formulation: ConsolidationFormulation) -> LargestDotProduct:
        """Return what is free."""
        return LargestDotProduct(formulation)


class BestFitCosine(_ScoredFit):
    """Best fit by the cosine of the angle between what is asked for and what is left."""

    name = "best-fit-cosine"
    what = "the largest jobs first, each where the dot product over the norms is largest"

    def capacity(self, formulation: ConsolidationFormulation) -> LargestCosine:
        """Return what is free."""
        return LargestCosine(formulation)
