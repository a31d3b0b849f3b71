"""Groups of servers on which nearly the same fits, for a relaxation that need not tell them apart.

In a cluster in use nearly every server has something else free. A k-d tree (Bentley 1975) parts the servers
of each pool until the groups are many enough: always the group in which servers differ most, by the tasks in
which they do. Which tasks fit at all matters more than how many.
"""

from __future__ import annotations

import heapq

import numpy as np

from ....formulations.consolidation.classes import ClassTable
from ....instances.common.arrays import Floats, Ints

OF_COUNT = 0.01
"""What a task more counts beside the first one of its shape."""


def server_groups(classes: ClassTable, held: Floats, sizes: Floats, most: int) -> list[list[int]]:
    """Return the numbers of the classes of servers in groups of one pool each.

    Parameters
    ----------
    held
        How many of the tasks of each kind a server of each class holds alone; shape (classes, kinds).
    sizes
        How large a task of each kind is; shape (kinds,).
    most
        Groups at most, but for one of each pool.
    """
    numbers = range(len(classes.servers))
    features = (np.minimum(held, 1.0) + OF_COUNT * held) * sizes
    count = np.array([len(server.members) for server in classes.servers])
    pools = [[n for n in numbers if classes.servers[n].pool == pool] for pool in classes.pools]
    groups = [_ranked(members, features, count) for members in pools if members]
    heapq.heapify(groups)
    while len(groups) < most and groups[0][0] < 0:
        _, members = heapq.heappop(groups)
        for part in _halves(members, features):
            heapq.heappush(groups, _ranked(part, features, count))
    return sorted(members for _, members in groups)


def _ranked(members: list[int], features: Floats, count: Ints) -> tuple[float, list[int]]:
    """Return a group behind its place in the queue: how much its servers differ together, negative."""
    return -float(np.ptp(features[members], axis=0).sum() * count[members].sum()), members


def _halves(members: list[int], features: Floats) -> tuple[list[int], list[int]]:
    """Part a group at the middle of the feature in which its servers differ most."""
    own = features[members]
    widest = own[:, int(np.ptp(own, axis=0).argmax())]
    above = (widest > (widest.min() + widest.max()) / 2).tolist()
    return (
        [n for n, larger in zip(members, above, strict=True) if not larger],
        [n for n, larger in zip(members, above, strict=True) if larger],
    )
