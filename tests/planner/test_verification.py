"""The claim that no plan exists: proven, refuted, or only claimed."""

from __future__ import annotations

from typing import Any

import pytest
from sample_documents import STAGING

import clusterplan
from clusterplan.formulations.common.objective import Diagnosis
from clusterplan.formulations.registry import formulate
from clusterplan.planner.findings import Findings
from clusterplan.planner.verification import check_infeasible
from clusterplan.solvers.common.conclude import library_versions
from clusterplan.solvers.run import diagnose

FEASIBLE = formulate(clusterplan.parse_instance(STAGING))
TOO_FAST = formulate(clusterplan.parse_instance({**STAGING, "throughput_floor_samples_per_s": 1e9}))
KNOWN = TOO_FAST.elementary_infeasibility()


def checked(formulation: Any, proven: str | None = None, **more: Any) -> Findings:
    """Return what the check finds."""
    found = Findings()
    given = {"diagnosis": None, "versions": library_versions(), **more}
    check_infeasible(found, formulation, proven, **given)
    return found


def test_what_counting_shows_is_confirmed() -> None:
    assert KNOWN is not None
    found = checked(TOO_FAST)
    assert found.confirmed == ["infeasible: " + "; ".join(KNOWN.reasons)]
    assert not found.faults
    assert not found.claimed


def test_a_plan_refutes_the_claim_unless_it_does_not_count() -> None:
    assert "finds a plan, with cost" in checked(FEASIBLE).faults[0]
    found = checked(FEASIBLE, counts=lambda _: False)
    assert (found.faults, found.claimed) == ([], ["that no plan exists"])


def test_a_certificate_proves_it_in_its_words() -> None:
    assert checked(FEASIBLE, "the prices prove it").confirmed == ["infeasible: the prices prove it"]


def test_a_diagnosis_has_to_say_what_counting_shows() -> None:
    assert KNOWN is not None
    silent = Diagnosis(reasons=("something else",))
    assert "does not say what counting shows" in checked(TOO_FAST, diagnosis=silent).faults[0]
    older = checked(TOO_FAST, diagnosis=silent, versions={"clusterplan": "0.0"})
    assert older.faults == []
    assert "version '0.0' wrote it" in older.claimed[0]


@pytest.mark.parametrize("extra", [(), ("and the moon is full",)])
def test_a_diagnosis_is_derived_again_word_for_word(extra: tuple[str, ...]) -> None:
    whole = diagnose(TOO_FAST, KNOWN)
    said = whole.model_copy(update={"reasons": (*reversed(whole.reasons), *extra)})  # in whatever order
    found = checked(TOO_FAST, diagnosis=said)
    assert ("the diagnosis, word for word" in found.confirmed) == (not extra)
    assert bool(found.faults or found.claimed) == bool(extra)
