"""Why not all jobs that must be placed go together."""

from __future__ import annotations

from placements import job, placement, server

from clusterplan.formulations.common.objective import Diagnosis
from clusterplan.formulations.consolidation.formulation import ConsolidationFormulation
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.consolidation.exact import diagnose


def test_the_largest_part_that_fits_is_named() -> None:
    """Three jobs of two GPUs on two servers of three: one is left out, though six GPUs are free."""
    jobs = [job(f"j{k}", 1, {"gpu": 2}, must_place=True) for k in range(3)]
    servers = [{**server(gpu=3), "count": 2}]
    found = diagnose(ConsolidationFormulation(placement(["value"], servers, jobs)), None, Clock())
    assert found is not None
    assert found.reasons[0] == "2 of the 3 jobs that must be placed were found to fit together"
    assert len(found.reasons) == 2


def test_what_counting_found_is_enough() -> None:
    """Nothing is searched then."""
    known = Diagnosis(reasons=("known",))
    formulation = ConsolidationFormulation(placement(["value"], [server(gpu=3)], [job("a")]))
    assert diagnose(formulation, known, Clock()) is known
    assert diagnose(formulation, None, Clock()) is None
