"""Certificates for methods that make none, and wrong answers that they refute."""

from __future__ import annotations

import pytest
from staging_instances import half_serial

from clusterplan.formulations.staging.formulation import StagingFormulation
from clusterplan.formulations.staging.plan import Stage
from clusterplan.solvers.common.base import Clock, Outcome
from clusterplan.solvers.staging.certify import certify


def units(count: int) -> Stage:
    return Stage(first_layer=0, last_layer=0, type="t", units=count)


def test_a_bound_gets_a_certificate_that_proves_it() -> None:
    """A method that says that one dollar is the least cost is right, and 1.2 is refuted."""
    formulation = StagingFormulation(half_serial(4))
    right = Outcome((units(1),), (1.0,))
    certify(formulation, right, Clock())
    assert formulation.certified_bounds(right.certificate) == (pytest.approx(1.0, rel=1e-8),)
    wrong = Outcome((units(2),), (1.2,))
    certify(formulation, wrong, Clock())
    assert (wrong.bounds, wrong.certificate) == ((), None)
    assert "refutes" in (wrong.message or "")


def test_a_wrong_proof_that_there_is_no_plan_is_left_out() -> None:
    """The search finds one."""
    outcome = Outcome(infeasible=True)
    certify(StagingFormulation(half_serial(4)), outcome, Clock())
    assert not outcome.infeasible
