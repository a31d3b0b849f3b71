"""Certificates for methods that write none."""

from __future__ import annotations

import pytest

from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.solvers.allocation.brute_force import AllocationBruteForce
from clusterplan.solvers.allocation.certify import certify
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.options import SolveOptions


@pytest.mark.parametrize("objective", ["total_completion_time", "makespan"])
def test_the_bound_of_brute_force_is_certified(objective: str) -> None:
    """The certificate proves its optimum, up to the margin of a cutoff; a bound above it is not proven."""
    instance = generate_allocation(4, 2, 0.6, seed=4).model_copy(update={"objective": objective})
    formulation = AllocationFormulation(instance)
    outcome = AllocationBruteForce().solve(formulation, SolveOptions(), Clock(None))
    optimum = outcome.bounds[0]
    assert optimum is not None
    certify(formulation, outcome, Clock(None))
    assert formulation.certified_bounds(outcome.certificate)[0] == pytest.approx(optimum, rel=1e-8)
    outcome.bounds = (1.1 * optimum,)
    certify(formulation, outcome, Clock(None))
    proven = formulation.certified_bounds(outcome.certificate)[0]
    assert proven is not None
    assert proven <= optimum
