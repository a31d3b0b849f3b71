"""Synthetic instances are reproducible, say that they are synthetic, and are as asked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import clusterplan
from clusterplan.instances.base import Instance
from clusterplan.instances.document import to_text
from clusterplan.instances.generators.allocation import generate_allocation
from clusterplan.instances.generators.consolidation import generate_consolidation
from clusterplan.instances.generators.staging import generate_staging

MAKERS: list[Callable[[int], Instance]] = [
    lambda seed: generate_allocation(20, 4, 0.8, 0.2, seed),
    lambda seed: generate_staging(8, 3, "tight", True, True, seed),
    lambda seed: generate_consolidation(16, 30, 8, 1.2, seed=seed),
]


@pytest.mark.parametrize("make", MAKERS)
def test_a_seed_decides_everything(make: Callable[[int], Instance]) -> None:
    """The same seed gives the same document, another seed another, and both say synthetic."""
    assert make(1).sha256() == make(1).sha256()
    assert make(1).sha256() != make(2).sha256()
    assert "synthetic" in make(1).name
    assert make(1).assumptions
    assert "synthetic" in to_text(make(1))


@pytest.mark.parametrize("make", MAKERS)
def test_generated_instances_have_plans(make: Callable[[int], Instance]) -> None:
    """The kind's heuristic or prover finds a plan within seconds."""
    for seed in range(3):
        result = clusterplan.solve(make(seed), "auto", clusterplan.SolveOptions(time_limit_s=5))
        assert result.plan is not None, (seed, result.message, result.diagnosis)


def test_load_is_met() -> None:
    """GPUs asked over GPUs free is what was asked for."""
    instance = generate_consolidation(64, 80, 8, load=1.4, seed=3)
    free = sum(server.available["gpu"] for server in instance.expanded_servers)
    asked = sum(job.worth for job in instance.jobs)
    assert asked / free == pytest.approx(max(1.4, asked / (64 * 8)), rel=0.02)


@pytest.mark.parametrize(
    "call",
    [
        lambda: generate_allocation(0),
        lambda: generate_allocation(3, 9),
        lambda: generate_allocation(3, tightness=2),
        lambda: generate_staging(0, 1),
        lambda: generate_consolidation(1, 1, load=-1),
        lambda: generate_consolidation(1, 1, required_share=0.8, preferred_share=0.8),
    ],
)
def test_parameters_out_of_range_are_refused(call: Callable[[], Instance]) -> None:
    """The error says what is allowed."""
    with pytest.raises(clusterplan.OptionError, match="must"):
        call()
