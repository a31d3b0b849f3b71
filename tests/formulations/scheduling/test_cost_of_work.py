"""The hull of configurations and the heap of work by cost, beside what is plain and slow."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.formulations.scheduling.cost_of_work import cost_hull, cost_rate, enlarged, pop, push


@pytest.mark.parametrize("seed", range(30))
def test_no_mixture_of_configurations_is_below_the_hull(seed: int) -> None:
    """At the speed of each configuration it is the least that any two, or one and idleness, cost."""
    rng = np.random.default_rng(seed)
    price, usage = rng.integers(0, 4, 2).astype(float), rng.integers(0, 5, (6, 2)).astype(float)
    speed = np.sort(rng.integers(1, 7, 6)).astype(float)
    pieces, corners = np.empty((4, 6)), np.empty((2, 7))
    count = cost_hull(price, usage, speed, pieces, corners)
    assert (np.diff(pieces[0, :count]) > 0).all()
    assert not pieces[3, :count].any()
    s, c = np.append(0.0, speed), np.array([0.0, *(cost_rate(price, row) for row in usage)])
    ends = np.append(0, 1 + pieces[2, :count].astype(int))
    assert np.diff(s[ends]) == pytest.approx(pieces[1, :count])
    assert np.diff(c[ends]) == pytest.approx(pieces[0, :count] * pieces[1, :count])
    for at in speed:
        below, above = np.nonzero(s <= at)[0][:, None], np.nonzero(s >= at)[0]
        share = np.divide(
            at - s[below],
            s[above] - s[below],
            where=s[above] > s[below],
            out=np.ones((len(below), len(above))),
        )
        least = (c[below] * (1 - share) + c[above] * share).min()
        assert np.interp(at, s[ends], c[ends]) == pytest.approx(least)


@pytest.mark.parametrize("seed", range(10))
def test_the_heap_gives_the_dearest_work_first(seed: int) -> None:
    """Whatever comes and goes; it keeps its entries where it is enlarged."""
    rng = np.random.default_rng(seed)
    heap, kept = np.empty((2, 2)), []
    for cost in rng.integers(0, 20, 60).astype(float):
        if len(kept) == heap.shape[1]:
            heap = enlarged(heap, len(kept), 1)
        push(heap, len(kept), cost, cost + 0.5)
        kept = sorted([*kept, cost])
        if rng.random() < 0.5:
            pop(heap, len(kept))
            kept.pop()
        if kept:
            assert heap[:, 0].tolist() == [kept[-1], kept[-1] + 0.5]
