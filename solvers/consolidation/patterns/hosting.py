"""Which task shapes can use the slots of which others: those that ask for no more of any resource."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from ....formulations.consolidation.classes import TaskShape
from ....instances.consolidation.job import GpuModels, allows, models_of


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
