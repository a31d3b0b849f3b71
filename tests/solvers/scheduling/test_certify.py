"""Nothing is added to what the check derives by itself."""

from __future__ import annotations

from clusterplan.formulations.common.clock import Clock
from clusterplan.formulations.common.objective import Diagnosis
from clusterplan.formulations.scheduling.formulation import SchedulingFormulation
from clusterplan.instances.scheduling.generate import generate_scheduling
from clusterplan.solvers.common.base import Outcome
from clusterplan.solvers.scheduling.certify import certify, diagnose


def test_there_is_no_certificate_and_no_further_diagnosis() -> None:
    """What is known stays."""
    formulation, outcome = SchedulingFormulation(generate_scheduling(3, 2)), Outcome(bounds=(1.0,))
    certify(formulation, outcome, Clock())
    assert outcome.certificate is None
    known = Diagnosis(reasons=("so",))
    assert diagnose(formulation, known, Clock()) is known
