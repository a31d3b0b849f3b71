"""Rules for a mix: what each does on an example by hand, and of which sort of instance."""

from __future__ import annotations

import pytest

import clusterplan
from clusterplan.instances.common.errors import OptionError
from clusterplan.instances.mix.instance import MixInstance
from clusterplan.instances.mix.kind import Mix
from clusterplan.solvers.mix.baselines import (
    BestFirst,
    CheapestForEachType,
    MatchingRounds,
    NobodyShares,
    OneConfiguration,
)
from clusterplan.solvers.mix.kind import MIX

JOBS = (BestFirst.name, MatchingRounds.name, NobodyShares.name)
REQUESTS = (OneConfiguration.name, CheapestForEachType.name)


def jobs() -> MixInstance:
    """Return two jobs of each type on two GPUs, where the best pair leaves a poor one."""
    built = Mix().add_jobs("a", 2).add_jobs("b", 2).add_hardware("g", limit=2)
    built.add_group("g", {"a": 1.0}).add_group("g", {"b": 0.9})
    built.add_group("g", {"a": 0.8}, jobs={"a": 2}).add_group("g", {"b": 0.3}, jobs={"b": 2})
    return built.add_group("g", {"a": 0.75, "b": 0.7}).build()


def requests() -> MixInstance:
    """Return two types, a replica for both and one for each."""
    built = Mix().add_requests("a", 3).add_requests("b", 1).add_hardware("g", 2).add_hardware("h", 3)
    built.add_replica("g", {"a": 1, "b": 1}, name="both").add_replica("h", {"a": 3}, name="a")
    return built.add_replica("g", {"b": 0.5}, name="b").build()


@pytest.mark.parametrize(
    ("name", "value"),
    [("best-pair-first", 1.6 + 0.9), ("matching-rounds", 2.9), ("nobody-shares", 2.0), ("exact", 2.9)],
)
def test_rules_of_jobs(name: str, value: float) -> None:
    """The best pair, 1.6, leaves 0.9; a matching makes two pairs of 1.45."""
    result = clusterplan.solve(jobs(), name)
    assert result.objectives[0].value == pytest.approx(value)


@pytest.mark.parametrize(
    ("name", "value"), [("one-configuration", 8.0), ("cheapest-for-each-type", 5.0), ("exact", 5.0)]
)
def test_rules_of_requests(name: str, value: float) -> None:
    """Four for both, or one for each type."""
    assert clusterplan.solve(requests(), name).objectives[0].value == pytest.approx(value)


def test_a_plan_has_no_more_copies_than_it_can_state() -> None:
    """Two types whose copies are too many together: the rule says which requests are not served."""
    built = Mix().add_requests("a", 8e8).add_requests("b", 8e8).add_hardware("g", 2.0, limit=10**9)
    result = clusterplan.solve(built.add_replica("g", {"a": 1, "b": 1}).build(), CheapestForEachType.name)
    assert result.plan is None
    assert result.status == "unknown"


@pytest.mark.parametrize("name", [*JOBS, *REQUESTS])
def test_each_is_for_one_sort(name: str) -> None:
    """And says so."""
    instance = requests() if name in JOBS else jobs()
    with pytest.raises(OptionError, match=f"{name}' is for types of .*, and these are"):
        clusterplan.solve(instance, name)


def test_all_rules_are_solvers() -> None:
    """The kind has them, and says what it tries first."""
    assert {*JOBS, *REQUESTS} < {solver.name for solver in MIX.solvers}
    assert {name for name, _ in MIX.quick} < {*JOBS, *REQUESTS}
