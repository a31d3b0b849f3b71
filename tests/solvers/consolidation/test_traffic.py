"""The least largest traffic, by bisection."""

from __future__ import annotations

from fractions import Fraction

from placements import job, placement, server

import clusterplan
from clusterplan.formulations.consolidation.certificate import MUST_PLACE
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
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


def test_a_limit_under_which_nothing_fits_is_refuted_by_what_was_reached() -> None:
    """The only job sends more than that; later objectives are not bounded as if it were not there."""
    runs = job("runs", traffic_gbit_per_s=0.2, current={"n": 1})
    objectives = ["value", "spread", "traffic", "migrations"]
    instance = placement(objectives, [server("n", gpu=4)], [runs])
    levels = {MUST_PLACE: Fraction(0), "value": Fraction(-1), "spread": Fraction(0)}
    search = TrafficSearch(ConsolidationFormulation(instance), levels, SolveOptions(threads=1), Clock(), 0.0)
    search.run(0.2)
    assert (search.bound, search.best and search.best.most) == (0.2, 0.2)
    assert search.refuted is not None
    result = clusterplan.solve(instance, "exact", SolveOptions(threads=1))
    assert [r.value for r in result.objectives] == [1, 0, 0.2, 0]
    assert [r.certified_bound for r in result.objectives] == [1, 0, 0.2, 0]
