"""Results that were stored once prove today what they proved then, to the last digits of every bound."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
from loops_in_python import ending, in_python
from recorded.certificates import FORGERIES, forged, verdict
from recorded.store import given, stored

from clusterplan.formulations.registry import KINDS, formulate
from clusterplan.instances.documents import parse_instance
from clusterplan.planner.verification.stored import parse_result

SHARES = 3
ROUNDING = 1e-9
"""Of a bound, relatively; where loops have another order it may differ by that."""


@cache
def pairs() -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Return kind → name, and what is stored of it: instance and result; in a random order."""
    found: dict[str, list[tuple[str, dict[str, Any]]]] = {kind: [] for kind in KINDS}
    for name, pair in sorted(given("certificates").items()):
        found[pair["result"]["kind"]].append((name, pair))
    for listed in found.values():
        random.Random(1).shuffle(listed)
    return found


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_and_verdicts_are_those_stored_in_python(kind: str, share: int) -> None:
    """Those that `solve` derived when the results were stored; nothing is compiled."""
    with in_python(kind), ending():
        for name, pair in pairs()[kind][share::SHARES]:
            instance, result = parse_instance(pair["instance"]), parse_result(pair["result"], "stored")
            formulation = formulate(instance)
            plan = None if result.plan is None else formulation.parse_plan(pair["result"]["plan"])
            values = None if plan is None else formulation.evaluate(plan)
            bounds = formulation.certified_bounds(result.certificate, values)
            for bound, record in zip(bounds, result.objectives, strict=False):
                assert bound == pytest.approx(record.certified_bound, rel=ROUNDING), (name, record.name)
            assert verdict(instance, pair["result"]) == stored("certificates")[name]["result"], name


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("kind", KINDS)
def test_forgeries_are_judged_as_they_were_in_python(kind: str, share: int) -> None:
    """Whatever is altered: ten forgeries of each result."""
    with in_python(kind), ending():
        for name, pair in pairs()[kind][share::SHARES]:
            instance = parse_instance(pair["instance"])
            found = [verdict(instance, forged(f"{name}:{k}", pair["result"])) for k in range(FORGERIES)]
            assert found == stored("certificates")[name]["forgeries"], name
