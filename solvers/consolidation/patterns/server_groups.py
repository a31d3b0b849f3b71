"""Groups of servers on which nearly the same fits, for a relaxation that need not tell them apart.

In a cluster in use nearly every server has something else free. A k-d tree (Bentley 1975) parts the servers
of each pool until the groups are many enough: always the group in which servers differ most, by the tasks in
which they do. Which tasks fit at all matters more than how many.

Which task shapes can use the slots of which others: those that ask for no more of any resource.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from ....formulations.consolidation.classes import ClassTable, TaskShape
from ....instances.common.arrays import Floats, Ints
from ....instances.consolidation.job import GpuModels, allows, models_of

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


def hosts(shape: TaskShape, other: TaskShape) -> bool:
    """Return whether slots of one shape hold tasks of another, which asks no more of any resource."""
    # Equal shapes would host each other in a circle.
    if len(shape.demands) != len(other.demands) or shape == other:
        return False
    amounts = zip(itertools.chain(*shape.demands), itertools.chain(*other.demands), strict=True)
    return all(most >= need for most, need in amounts) and _serves(shape.gpu_model, other.gpu_model)


def hosting(shapes: Sequence[TaskShape]) -> Iterator[tuple[int, int]]:
    """Yield all pairs of shapes of which the first holds tasks of the second."""
    shared = np.array([k for k, shape in enumerate(shapes) if shape.current is None], dtype=np.int64)
    groups = np.array([len(shapes[k].demands) for k in shared.tolist()])
    alike = {g: shared[groups == g] for g in set(groups.tolist())}
    demands = {g: np.array([np.ravel(shapes[k].demands) for k in ks.tolist()]) for g, ks in alike.items()}
    models = list(dict.fromkeys(shape.gpu_model for shape in shapes))
    number = np.array([models.index(shape.gpu_model) for shape in shapes])
    served = np.array([[_serves(model, other) for other in models] for model in models])
    for k in shared.tolist():
        g = len(shapes[k].demands)
        # Pairs are many, so all shapes are compared with one at once.
        hosted = (demands[g] <= np.ravel(shapes[k].demands)).all(axis=1)
        hosted &= served[number[k], number[alike[g]]] & (alike[g] != k)
        yield from ((k, other) for other in alike[g][hosted].tolist())


def _serves(model: GpuModels, other: GpuModels) -> bool:
    """Return whether servers that one request for GPU models allows are allowed by another."""
    return all(allows(other, one) for one in models_of(model) or (None,))
