"""Brute force of a mix: another enumeration finds the same; what is not tiny is refused."""

from __future__ import annotations

import pytest
from mix_truth import best_values, instances_of

import clusterplan
from clusterplan.formulations.mix.formulation import MixFormulation
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.instances.mix.generate import generate_mix
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.common.result import SolveOptions
from clusterplan.solvers.mix.brute_force import MixBruteForce


@pytest.mark.parametrize("serves", [False, True])
def test_it_finds_the_best_plan(serves: bool) -> None:
    """Of both objectives."""
    for instance in instances_of(serves, 700, 20):
        result, best = clusterplan.solve(instance, "brute-force"), best_values(instance)
        values = tuple(record.value for record in result.objectives)
        assert values == pytest.approx(best or (), rel=1e-9, abs=1e-9)


def test_what_is_not_tiny_is_refused() -> None:
    """With the number of plans."""
    with pytest.raises(TooLargeError, match="tiny instances"):
        MixBruteForce().solve(MixFormulation(generate_mix()), SolveOptions(), Clock())
