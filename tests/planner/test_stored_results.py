"""Results that were stored once prove what they proved then, to the last digits and in as many steps."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any

import pytest
from recorded.certificates import FORGERIES, effort, forged, verdict
from recorded.store import given, stored

from clusterplan.formulations.common.compiled import interpreted
from clusterplan.formulations.registry import KINDS
from clusterplan.instances.documents import parse_instance

SHARES = 5
SHARE = [*range(SHARES - 1), pytest.param(SHARES - 1, marks=pytest.mark.slow)]
"""Those with most to check are among the slow tests."""
ROUNDING = 1e-14
"""Of a bound, relatively; processors may add numbers in another order."""


@cache
def pairs() -> dict[str, Any]:
    """Return name → instance and result."""
    return given("certificates")


@cache
def names(kind: str) -> list[str]:
    """Return the stored results of a kind, those with little to check first."""
    steps = {name: record["steps"] for name, record in stored("effort").items()}
    found = [name for name, pair in pairs().items() if pair["result"]["kind"] == kind]
    return sorted(found, key=lambda name: (steps.get(name, 0), name))


def share_of(listed: list[str], share: int) -> list[str]:
    """Return one of the shares, which have equally many entries each."""
    return listed[share * len(listed) // SHARES : (share + 1) * len(listed) // SHARES]


@contextmanager
def ending(longest_s: float) -> Iterator[None]:
    """Raise an AssertionError where it takes more of the processor's time, as a loop without an end does."""
    before = signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, longest_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def _too_long(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise AssertionError("takes many times as long as usual")


@pytest.mark.parametrize("share", SHARE)
@pytest.mark.parametrize("kind", KINDS)
def test_certificates_prove_the_recorded_bounds_in_as_many_steps_in_python(kind: str, share: int) -> None:
    """`make record PART=effort` records them anew where a check does more or less on purpose."""
    recorded = stored("effort")
    listed = share_of([name for name in names(kind) if name in recorded], share)
    for name in listed:
        found = effort(**pairs()[name], most=recorded[name]["steps"])
        assert found["bounds"] == pytest.approx(recorded[name]["bounds"], rel=ROUNDING, abs=0), name
        assert found["steps"] == recorded[name]["steps"], name


@pytest.mark.parametrize("share", SHARE)
@pytest.mark.parametrize("kind", KINDS)
def test_results_and_forgeries_are_judged_as_they_were_in_python(kind: str, share: int) -> None:
    """Whatever is altered: ten forgeries of each result."""
    recorded = stored("certificates")
    with interpreted(), ending(8.0 if share + 1 < SHARES else 80.0):
        for name in share_of(names(kind), share):
            instance, result = (pairs()[name][key] for key in ("instance", "result"))
            instance = parse_instance(instance)
            assert verdict(instance, result) == recorded[name]["result"], name
            found = [verdict(instance, forged(f"{name}:{k}", result)) for k in range(FORGERIES)]
            assert found == recorded[name]["forgeries"], name


LIMITS = {
    "consolidation.check.classes.MAX_PIECES": "consolidation-consolidation-servers-3-jobs-4-seed-0-exact",
    "consolidation.check.placement_enumeration.MAX_STAY_SETS": "consolidation-drawn-045-exact",
    "consolidation.check.classes.MAX_WORK": "consolidation-drawn-008-exact",
    "consolidation.check.server_prices.MAX_RESIDUALS": "consolidation-drawn-016-exact",
    "staging.check.graph_stages.MAX_IDEALS": "staging-drawn-003-exact",
}
"""Limit of effort → a stored result whose check is stopped where nothing is allowed."""


@pytest.mark.parametrize("limit", LIMITS)
def test_what_would_take_too_long_is_left_out_in_python(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check ends early, and proves with what it has."""
    name = LIMITS[limit]
    monkeypatch.setattr(f"clusterplan.formulations.{limit}", 0)
    assert effort(**pairs()[name])["steps"] < stored("effort")[name]["steps"]
