"""Mix: what breaks which constraint, objectives, what counting proves."""

from __future__ import annotations

import math
from typing import Any

import pytest

from clusterplan.formulations.mix.formulation import MixFormulation
from clusterplan.formulations.mix.plan import Copies
from clusterplan.instances.mix.kind import Mix


def jobs(**fields: Any) -> MixFormulation:
    """Return two jobs of a and one of b, alone, together, and two of a on two devices."""
    built = Mix(**fields).add_jobs("a", 2, weight=2).add_jobs("b", 1).add_hardware("g", 3, limit=2)
    built.add_group("g", {"a": 1.0}, name="a").add_group("g", {"b": 0.5}, name="b")
    built.add_group("g", {"a": 0.6, "b": 0.7}, name="ab")
    return MixFormulation(built.add_group("g", {"a": 0.9}, jobs={"a": 2}, devices=2, name="aa").build())


def requests(**fields: Any) -> MixFormulation:
    """Return 3 and 1 requests/s, and replicas for both and for one."""
    built = Mix(**fields).add_requests("a", 3).add_requests("b", 1).add_hardware("g", 2, limit=3)
    built.add_replica("g", {"a": 2, "b": 4}, name="both")
    return MixFormulation(built.add_replica("g", {"a": 3}, devices=2, name="one").build())


def plan(*entries: tuple[Any, ...]) -> list[Copies]:
    """Return a plan of names, counts and rates."""
    keys = ("configuration", "count", "requests_per_s")
    return [Copies(**dict(zip(keys, entry, strict=False))) for entry in entries]


BOTH = ("both", 2, {"a": 3, "b": 1})


@pytest.mark.parametrize(
    ("formulation", "entries", "constraints"),
    [
        (jobs(), [], []),
        (jobs(), [("ab", 1), ("a", 1)], []),
        (jobs(), [("ab", 1), ("a", 2)], ["a", "g"]),
        (jobs(), [("nothing", 1)], ["configuration"]),
        (jobs(), [("a", 1), ("a", 1)], ["configuration"]),
        (jobs(must_run=True), [("ab", 1)], ["a"]),
        (jobs(must_run=True), [("ab", 1), ("a", 1)], []),
        (jobs(devices=1), [("aa", 1)], ["devices"]),
        (jobs(budget_usd_per_hour=5.9), [("aa", 1)], ["budget_usd_per_hour"]),
        (jobs(budget_usd_per_hour=6), [("aa", 1)], []),
        (jobs(least_progress=0.65), [("ab", 1)], ["least_progress"]),
        (jobs(), [("a", 1, {"a": 1})], ["requests_per_s"]),
        (requests(), [BOTH], []),
        (requests(), [], ["a", "b"]),
        (requests(), [("both", 1, {"a": 3, "b": 1})], ["both"]),
        (requests(), [("both", 2, {"a": 2.9, "b": 1})], ["a"]),
        (requests(), [("both", 2, {"a": 3 * (1 - 5e-10), "b": 1})], []),
        (requests(), [BOTH, ("one", 1, {"b": 1})], ["g", "requests_per_s"]),
        (requests(), [("both", 2)], ["requests_per_s", "a", "b"]),
        (requests(devices=1), [BOTH], ["devices"]),
        (requests(budget_usd_per_hour=3), [BOTH], ["budget_usd_per_hour"]),
    ],
)
def test_violations(formulation: MixFormulation, entries: list[Any], constraints: list[str]) -> None:
    """Each is named after what has the limit."""
    assert [each.constraint for each in formulation.violations(plan(*entries))] == constraints


def test_objectives() -> None:
    """Weighted progress and the least; cost and devices."""
    assert jobs().evaluate(plan(("ab", 1), ("a", 1))) == pytest.approx((2 * 0.6 + 0.7 + 2, 0.6))
    assert jobs().evaluate([]) == (0.0, 0.0)
    assert requests().evaluate(plan(("both", 2, {}), ("one", 1, {}))) == (8.0, 4.0)


def test_bounds_by_counting() -> None:
    """Each type where it fares best."""
    assert jobs().elementary_bounds() == pytest.approx((2 * 2 * 1 + 0.7, 1.0))
    assert requests().elementary_bounds() == pytest.approx((2 * 3 / 2 + 2 / 4, 3 / 2 + 1 / 4))


def test_what_nothing_serves_is_named() -> None:
    """Where no configuration within the limits has it."""
    assert jobs(must_run=True, least_progress=0.9).elementary_infeasibility() is not None
    diagnosis = MixFormulation(
        Mix()
        .add_requests("a", 1)
        .add_requests("b", 0)
        .add_hardware("g", 1)
        .add_replica("g", {"b": 1})
        .build()
    ).elementary_infeasibility()
    assert diagnosis is not None
    assert "a: no configuration" in diagnosis.reasons[0]
    assert requests().elementary_infeasibility() is None


def test_rates_of_a_plan_are_those_that_come() -> None:
    """Shares that serve more are reduced, and idle ones left out."""
    formulation = requests()
    (entry,) = formulation.copies([2, 0], [1.75, 0.25, 1e-20])
    assert entry.requests_per_s == pytest.approx({"a": 3.0, "b": 1.0})
    assert formulation.violations([entry]) == []
    assert math.isclose(formulation.served([entry])["a"], 3.0)
