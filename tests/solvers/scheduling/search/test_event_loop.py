"""The heap of the event loop; the loop itself is compared with the engine in `test_serve.py`."""

from __future__ import annotations

import numpy as np

from clusterplan.solvers.scheduling.search.event_loop import pop, push


def test_jobs_leave_a_heap_by_key_then_number() -> None:
    """In a part of a longer list, whatever comes in between."""
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 5, 50).astype(float)
    waiting, held = np.full(60, -1), list[int]()
    for j in rng.permutation(50).tolist():
        push(waiting, 7, len(held), keys, j)
        held.append(j)
        if rng.random() < 0.4:
            first = min(held, key=lambda j: (keys[j], j))
            assert waiting[7] == first
            pop(waiting, 7, len(held), keys)
            held.remove(first)
    assert (waiting[:7] == -1).all()
