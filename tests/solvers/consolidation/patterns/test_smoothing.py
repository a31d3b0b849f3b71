"""Where to price next."""

from __future__ import annotations

import numpy as np
import pytest

from clusterplan.solvers.consolidation.patterns.master import DualPrices
from clusterplan.solvers.consolidation.patterns.smoothing import Smoothing, mixed


def prices(figure: float, **earlier: float) -> DualPrices:
    """Return prices that are all the same."""
    return DualPrices((np.full(2, figure),), np.full(1, figure), np.full(3, figure), earlier)


def test_a_mixture_by_hand() -> None:
    """A quarter of the first; an earlier goal that only one of them has counts as 0 in the other."""
    found = mixed(prices(4.0, value=8.0), prices(0.0, spread=4.0), 0.25)
    assert found.pieces[0].tolist() == [1, 1]
    assert found.servers.tolist() == [1]
    assert found.jobs.tolist() == [1, 1, 1]
    assert found.earlier == {"spread": 3, "value": 2}


def test_misses_take_prices_away_from_the_center() -> None:
    """Until they are the relaxation's own, which are at last searched to the end."""
    smoothing, own = Smoothing(prices(1.0), share=0.7), prices(0.0)
    figures = []
    for improved in (True, False, False, False, False):
        at, search = smoothing.next(own, improved)
        figures.append((at.pieces[0][0], search))
    assert [figure for figure, _ in figures] == pytest.approx([0.7, 0.4, 0.1, 0, 0])
    assert [search for _, search in figures] == [False, False, False, False, True]
    assert smoothing.next(own, True)[0].pieces[0][0] == pytest.approx(0.7)


def test_own_prices_are_the_same_object() -> None:
    """So that whoever asks can tell that they are no mixture."""
    smoothing, own = Smoothing(prices(1.0), share=0.0), prices(0.0)
    assert smoothing.next(own, True)[0] is own
