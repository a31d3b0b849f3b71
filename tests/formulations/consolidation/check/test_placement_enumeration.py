"""Implicit enumeration with useless prices: it still finds what is there, and proves what is not."""

from __future__ import annotations

from fractions import Fraction

import pytest
from placements import job, placement, server, three_jobs

from clusterplan.formulations.consolidation.check.classes import CheckedCluster
from clusterplan.formulations.consolidation.check.dual_bound import PriceBound
from clusterplan.formulations.consolidation.check.placement_enumeration import none_better
from clusterplan.formulations.consolidation.classes import Classes

VALUE = {"value": Fraction(1)}


def priced(classes: Classes, each: float) -> PriceBound:
    """Return the bound of equal prices for all tasks."""
    prices = [[each * float(row.sum()) for row in pieces] for pieces in classes.pieces]
    return PriceBound(classes, prices, dict(VALUE), missing=False)


@pytest.mark.parametrize("each", [0.5, 1.0])
def test_the_best_value_is_proven(each: float) -> None:
    """Six can be reached and seven cannot, for whichever prices."""
    classes = CheckedCluster(three_jobs()).classes
    bound = priced(classes, each)
    for value, answer in ((6, False), (7, True)):
        cutoff = Fraction(-value)
        assert none_better(classes, bound, VALUE, {"value": cutoff}, cutoff) is answer


def test_it_gives_up_on_what_is_too_large() -> None:
    """More jobs than it looks at, without an answer."""
    jobs = [job(f"j{k}", value=k + 1) for k in range(50)]
    classes = CheckedCluster.of(placement(["value"], [server(gpu=8)], jobs)).classes
    assert none_better(classes, priced(classes, 1.0), VALUE, {}, Fraction(0)) is None
