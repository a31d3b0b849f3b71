"""All servers by how well they suit one more task: only what has changed is looked at again."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from .board import Board, Taste

MOST_HEAPS = 16
"""Kinds of tasks whose servers stay in order; jobs that are alike mostly follow each other."""


class Ranking:
    """The best server of all for one more task of a kind, while tasks are placed one after the other."""

    def __init__(self, board: Board, taste: Taste, prices: Sequence[Sequence[float]] | None) -> None:
        self.board, self.taste, self.prices = board, taste, prices
        self.log: list[int] = []
        board.log = self.log
        self.seen: dict[int, int] = {}
        self.heaps: dict[int, list[tuple[float, int]]] = {}
        self.scores: dict[int, list[float]] = {}

    def best(self, k: int) -> int | None:
        """Return the best server for one more task of a kind, the first of equals; None if none holds it."""
        if k not in self.heaps:
            self._build(k)
        else:
            for server in sorted(set(self.log[self.seen[k] :])):
                score = self._score(k, server)
                self.scores[k][server] = score
                if score < math.inf:
                    heapq.heappush(self.heaps[k], (score, server))
        self.seen[k] = len(self.log)
        heap, scores = self.heaps[k], self.scores[k]
        while heap and scores[heap[0][1]] != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][1] if heap else None

    def _build(self, k: int) -> None:
        """Order all servers; those of a shape on which nothing is placed are equal."""
        if len(self.heaps) == MOST_HEAPS:
            oldest = min(self.seen, key=self.seen.__getitem__)
            del self.heaps[oldest], self.scores[oldest], self.seen[oldest]
        scores = self.scores[k] = [math.inf] * len(self.board.shape_of)
        for s, shape in enumerate(self.board.cluster.shapes):
            untouched: float | None = None
            for server in shape.members if self.board.hosts[k][s] else ():
                if self.board.holds[server]:
                    scores[server] = self._score(k, server)
                else:
                    if untouched is None:
                        untouched = self._score(k, server)
                    scores[server] = untouched
        heap = [(score, server) for server, score in enumerate(scores) if score < math.inf]
        heapq.heapify(heap)
        self.heaps[k] = heap

    def _score(self, k: int, server: int) -> float:
        score = self.board.score(k, server, self.taste, self.prices)
        return math.inf if score is None else score
