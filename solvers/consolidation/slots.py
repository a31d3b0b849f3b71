"""Rooms for pieces on named servers, and which of them a job gets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

Node = tuple[int, int]
"""A kind and one of its pieces."""


class Rooms:
    """Gives a job the next rooms of the sizes that it needs, in the order of servers.

    Parameters
    ----------
    free
        For each kind of room the servers that have one, as often as they have.
    """

    def __init__(self, free: Mapping[Node, Iterable[int]]) -> None:
        self.free = {node: sorted(servers, reverse=True) for node, servers in free.items()}

    def take(self, needs: Mapping[Node, int], here: Collection[int]) -> dict[Node, list[int]]:
        """Return a server for each room that is needed.

        Parameters
        ----------
        here
            Servers that the job is on already.
        """
        del here
        return {node: [self.free[node].pop() for _ in range(count)] for node, count in needs.items()}


class RackRooms(Rooms):
    """Gives a job rooms on as few racks as it can see.

    The rack with least to spare of those that have all it needs; if there is none, the racks that have
    most of it, one after the other.

    Parameters
    ----------
    racks
        Number of the rack of each server.
    """

    def __init__(self, free: Mapping[Node, Iterable[int]], racks: Sequence[int]) -> None:
        self.racks = racks
        self.nodes = {node: row for row, node in enumerate(free)}
        self.counts = np.zeros((len(self.nodes), max(racks) + 1), dtype=np.int64)
        self.by_rack: dict[tuple[Node, int], list[int]] = {}
        for node, servers in free.items():
            for server in sorted(servers, reverse=True):
                self.by_rack.setdefault((node, racks[server]), []).append(server)
                self.counts[self.nodes[node], racks[server]] += 1

    def take(self, needs: Mapping[Node, int], here: Collection[int]) -> dict[Node, list[int]]:
        """Return a server for each room that is needed, on few racks together with those it is on."""
        rows = [self.nodes[node] for node in needs]
        wanted = np.array(list(needs.values()))
        taken: dict[Node, list[int]] = {node: [] for node in needs}
        for rack in sorted({self.racks[server] for server in here}):
            wanted = self._take_from(rack, list(needs), rows, wanted, taken)
        while wanted.any():
            covered = np.minimum(self.counts[rows], wanted[:, None]).sum(axis=0)
            spare = self.counts[rows].sum(axis=0)
            rack = int(np.lexsort((spare, -covered))[0])
            wanted = self._take_from(rack, list(needs), rows, wanted, taken)
        return taken

    def _take_from(
        self,
        rack: int,
        nodes: Sequence[Node],
        rows: Sequence[int],
        wanted: np.ndarray,
        taken: dict[Node, list[int]],
    ) -> np.ndarray:
        left = wanted.copy()
        for place, (node, row) in enumerate(zip(nodes, rows, strict=True)):
            for _ in range(min(int(left[place]), int(self.counts[row, rack]))):
                taken[node].append(self.by_rack[node, rack].pop())
                self.counts[row, rack] -= 1
                left[place] -= 1
        return left
