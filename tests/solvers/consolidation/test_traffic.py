"""The least largest traffic, by bisection."""

from __future__ import annotations

from fractions import Fraction

from placements import job, placement, server

from clusterplan.formulations.consolidation.certificate import MUST_PLACE
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.options import SolveOptions
from clusterplan.solvers.consolidation.traffic import TrafficSearch


def searched(bound: float) -> TrafficSearch:
    """Return the search for four tasks of 1 Gbit/s and one of 3 on two servers, all placed."""
    jobs = [job(f"j{k}", traffic_gbit_per_s=1.0) for k in range(4)] + [job("big", traffic_gbit_per_s=3.0)]
    instance = placement(["value", "traffic"], [{**server(gpu=4), "count": 2}], jobs)
    levels = {MUST_PLACE: Fraction(0), "value": Fraction(-5)}
    search = TrafficSearch(
        ConsolidationFormulation(instance), levels, SolveOptions(threads=1), Clock(), bound
    )
    search.run(7.0)
    return search


def test_the_least_limit_is_found_and_the_next_refuted() -> None:
    """Seven Gbit/s on two servers are four and three; three at most do not do."""
    search = searched(0.0)
    assert search.bound == 4
    assert search.best is not None
    assert search.best.most == 4
    assert search.best.solution is not None
    assert search.refuted is not None
    assert search.refuted.most == 3


def test_a_bound_that_is_reached_needs_no_refutation() -> None:
    """Only the plan under it is looked for."""
    search = searched(7.0)
    assert (search.bound, search.refuted) == (7.0, None)
    assert search.best is not None
