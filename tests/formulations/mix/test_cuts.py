"""Cuts: every plan keeps them, whatever their prices; odd numbers of jobs are cut off."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from mix_truth import instances_of

from clusterplan.formulations.mix.cuts import Cut, with_cuts
from clusterplan.formulations.mix.program import MixProgram, program_of
from clusterplan.solvers.mix.relaxation import Relaxation


def plans_of(program: MixProgram) -> np.ndarray:
    """Return all counts that keep the rows and serve all requests."""
    floats, most = program.as_floats(), program.most.tolist()
    weights = np.zeros((len(program.rows), len(most)))
    weights[floats.weights.column, floats.weights.configuration] = floats.weights.value
    counts = np.array(list(product(*(range(min(each, 4) + 1) for each in most))), dtype=float)
    counts = counts[(counts @ weights.T <= floats.limits + 1e-9).all(axis=1)]
    relaxation = Relaxation(floats)
    return np.array([each for each in counts if relaxation.shares(each) is not None])


@pytest.mark.parametrize("serves", [False, True])
def test_every_plan_keeps_every_cut(serves: bool) -> None:
    """Cuts of random prices, and cuts of cuts."""
    rng, kept = np.random.default_rng(1), 0
    for instance in instances_of(serves, 100, 25):
        program = program_of(instance)
        plans, places = plans_of(program), len(program.rows) + len(program.demand)
        if not len(plans) or not places:
            continue
        cuts = []
        for number in range(4):
            chosen = rng.choice(places + number, rng.integers(1, places + number + 1), replace=False).tolist()
            prices = rng.choice([0.5, 1 / 3, 0.25, 1.0, 0.7], len(chosen)).tolist()
            cuts.append(Cut(places=tuple(chosen), prices=tuple(prices)))
        wider = with_cuts(program, cuts, range(places, places + 4)).as_floats()
        weights = np.zeros((len(wider.rows), len(wider.cost)))
        weights[wider.weights.column, wider.weights.configuration] = wider.weights.value
        assert (plans @ weights.T <= wider.limits + 1e-7).all(), instance.name
        kept += len(plans)
    assert kept > 40
