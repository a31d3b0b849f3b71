"""The checks prove the optimum of tiny instances, and never more, whatever the certificate says."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from fuzz.checks import findings
from fuzz.forging import certified, forged_certificates
from fuzz.kinds import KINDS
from fuzz.lanes import scales_apart
from fuzz.truth import TooManyPlansError

from clusterplan.formulations.common import compiled
from clusterplan.formulations.common.compiled import interpreted
from clusterplan.formulations.registry import formulate
from clusterplan.instances.common.base import Instance
from clusterplan.instances.documents import parse_instance
from clusterplan.planner.api import solve
from clusterplan.planner.verification import verify
from clusterplan.solvers.common.result import Result, SolveOptions

AT_ONCE = 8
OPEN = {"allocation": 0, "staging": 0, "consolidation": 2, "scheduling": AT_ONCE}
"""Of so many instances at once, of how many something may be left open: single devices, and all schedules."""


@pytest.mark.parametrize("part", [0, 1, 2, *(pytest.param(k, marks=pytest.mark.slow) for k in range(3, 10))])
@pytest.mark.parametrize("kind", OPEN)
def test_the_check_proves_the_optimum_and_no_more(kind: str, part: int) -> None:
    """All plans are looked through by code of its own; certificates are also tampered with."""
    left = []
    for number in range(part * AT_ONCE, (part + 1) * AT_ONCE):
        rng = random.Random(f"optima:{number}")
        data: dict[str, Any] = KINDS[kind].document(rng)
        try:
            truth = KINDS[kind].truth(data)
        except TooManyPlansError:
            continue
        instance = parse_instance(data)
        if truth.unclear:
            continue
        result = solve(instance, "exact", SolveOptions(threads=1, seed=1, gap=0.0, time_limit_s=10))
        assert list(findings(truth, result)) == [], number
        verification = verify(instance, result)
        assert verification.ok, (number, verification.faults)
        if verification.claimed and not scales_apart(data):
            left.append(number)
        for forged in forged_certificates(rng, result, result.certificate):
            assert list(certified(instance, truth, forged)) == [], number
    assert len(left) <= OPEN[kind], left


@pytest.mark.parametrize("part", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 4))])
@pytest.mark.parametrize("kind", ["staging", "scheduling"])
def test_compiled_loops_prove_the_same_in_python(
    kind: str, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they would leave an array, or compute with what was never set, Python raises an error."""
    proven = {}
    with interpreted():
        for number in range(part * AT_ONCE, (part + 1) * AT_ONCE):
            instance = parse_instance(KINDS[kind].document(random.Random(f"optima:{number}")))
            result = solve(instance, "exact", SolveOptions(threads=1, seed=1, gap=0.0, time_limit_s=10))
            proven[number] = instance, result, bounds_of(instance, result)
    monkeypatch.setattr(compiled, "MAX_INTERPRETED_ENTRIES", -1)
    for number, (instance, result, bounds) in proven.items():
        assert bounds_of(instance, result) == pytest.approx(bounds, rel=0, abs=0, nan_ok=True), number


def bounds_of(instance: Instance, result: Result) -> list[float]:
    """Return what the certificate of a result proves of each objective."""
    values = [record.value for record in result.objectives] if result.plan is not None else None
    found = formulate(instance).certified_bounds(result.certificate, values)
    return [math.nan if bound is None else bound for bound in found]
