"""The checks prove the optimum of tiny instances, and never more, whatever the certificate says."""

from __future__ import annotations

import random
from typing import Any

import pytest
from fuzz.checks import findings
from fuzz.forging import certified, forged_certificates
from fuzz.kinds import KINDS
from fuzz.lanes import scales_apart
from fuzz.truth import TooManyPlansError

from clusterplan.instances.documents import parse_instance
from clusterplan.planner.api import solve
from clusterplan.planner.verification.result import verify
from clusterplan.solvers.common.options import SolveOptions

AT_ONCE = 8
OPEN = {"allocation": 0, "staging": 0, "consolidation": 2, "scheduling": AT_ONCE}
"""Of so many instances at once, of how many something may be left open: single devices, and all schedules."""


@pytest.mark.parametrize("part", range(10))
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
