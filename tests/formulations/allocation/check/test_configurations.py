"""The check's own configurations: against the methods' table, and what it does where that table is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from random_instances import random_allocation

import clusterplan
from clusterplan.formulations.allocation.check import configurations as check
from clusterplan.formulations.allocation.configurations import Configurations
from clusterplan.formulations.allocation.formulation import AllocationFormulation
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.allocation.instance import AllocationInstance


def made(seed: int) -> AllocationFormulation:
    """Return the formulation of a random instance: tables, restarts, deadlines, budgets, optional jobs."""
    instance = random_allocation(seed)
    assert isinstance(instance, AllocationInstance)
    return AllocationFormulation(instance)


@pytest.mark.parametrize("block", range(10))
def test_the_derivation_equals_the_table_of_the_methods(block: int) -> None:
    """On 300 random instances both list the same configurations in the same order."""
    for seed in range(30 * block, 30 * block + 30):
        formulation = made(seed)
        configs, derived = formulation.configurations, formulation.checked
        assert derived.shared is None
        assert derived.start.tolist() == configs.start.tolist()
        np.testing.assert_allclose(derived.time_s, configs.time_s, rtol=1e-12)
        np.testing.assert_allclose(derived.demand, configs.demand, rtol=1e-12)
        assert derived.resources == configs.resources
        assert derived.limit.tolist() == configs.limit.tolist()
        assert derived.cost.tolist() == configs.cost.tolist()


def certified(formulation: AllocationFormulation) -> float | None:
    """Return what a certificate of `exact` proves about the formulation's instance."""
    certificate = clusterplan.solve(formulation.instance, "exact").certificate
    return formulation.certified_bounds(certificate)[0]


def test_a_wrong_row_of_the_methods_does_not_reach_a_small_check() -> None:
    """A table whose times are too long changes nothing: the check never reads them."""
    instance = generate_allocation(5, 2, 0.5, seed=1)
    right = certified(AllocationFormulation(instance))
    wrong = AllocationFormulation(instance)
    configs = wrong.configurations
    wrong.configurations = replace(configs, time_s=2 * configs.time_s)
    assert right is not None
    assert certified(wrong) == right


def planted(configs: Configurations, what: str) -> Configurations:
    """Return the table with one wrong entry, or without one configuration, in the middle of its jobs."""
    job = configs.jobs // 2
    index = int(configs.start[job])
    if what == "time":
        time_s = configs.time_s.copy()
        time_s[index] *= 1 + 1e-9
        return replace(configs, time_s=time_s)
    if what == "demand":
        demand = configs.demand.copy()
        demand[index, 0] += 1e-6
        return replace(configs, demand=demand)
    start = configs.start - (configs.start > index)
    return replace(
        configs,
        start=start,
        time_s=np.delete(configs.time_s, index),
        demand=np.delete(configs.demand, index, axis=0),
    )


@pytest.mark.parametrize("what", ["time", "demand", "missing"])
def test_a_wrong_row_of_a_shared_table_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all jobs are sampled, any wrong row makes the certificate prove nothing, without a traceback."""
    monkeypatch.setattr(check, "MOST_DERIVED", 0)
    instance = generate_allocation(8, 2, 0.5, seed=3)
    certificate = clusterplan.solve(instance, "exact").certificate
    right = AllocationFormulation(instance)
    assert right.certified_bounds(certificate)[0] != right.elementary_bounds()[0]
    assert "all those of 8 jobs, derived again and equal" in str(right.shared_tables())
    wrong = AllocationFormulation(instance)
    wrong.configurations = planted(wrong.configurations, what)
    assert wrong.certified_bounds(certificate) == wrong.elementary_bounds()
    assert "the certificate proves nothing" in str(wrong.shared_tables())


def test_the_sample_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs are drawn until the sample is full; what was compared is said."""
    monkeypatch.setattr(check, "MOST_DERIVED", 0)
    monkeypatch.setattr(check, "MOST_SAMPLED", 100)
    formulation = AllocationFormulation(generate_allocation(50, 2, 0.5, seed=3))
    said = str(formulation.shared_tables())
    assert 0 < int(said.split("; ")[1].split(" of ", maxsplit=1)[0]) <= 100


def test_within_a_smaller_cluster_is_what_that_cluster_derives() -> None:
    """The configurations of a scaled cluster are those of the whole one that fit."""
    instance = generate_allocation(6, 3, 0.2, seed=2)
    half = {name: amount / 2 for name, amount in instance.resources.items()}
    smaller = AllocationFormulation(instance.model_copy(update={"resources": half})).checked
    cut = AllocationFormulation(instance).checked.within(smaller.capacity)
    assert cut.start.tolist() == smaller.start.tolist()
    assert cut.time_s.tolist() == smaller.time_s.tolist()
    assert cut.demand.tolist() == smaller.demand.tolist()
