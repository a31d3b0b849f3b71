"""Trees, relaxations and cuts: bounds are those that the check derives, and rise to the target."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mix_truth import instances_of

from clusterplan.formulations.mix.certificate import Tree
from clusterplan.formulations.mix.check.tree_bounds import tree_bound
from clusterplan.formulations.mix.program import program_of
from clusterplan.instances.mix.generate import generate_mix
from clusterplan.instances.mix.instance import MixInstance
from clusterplan.instances.mix.kind import Mix
from clusterplan.solvers.common.base import Clock
from clusterplan.solvers.mix.branching import BranchAndBound, Goal, Proof
from clusterplan.solvers.mix.relaxation import Relaxation
from clusterplan.solvers.mix.separation import Separation


def proof_of(instance: MixInstance, goal: Goal, clock: Clock | None = None) -> Proof:
    """Return the proof of the first objective, with a goal that stays."""
    search = BranchAndBound(program_of(instance).as_floats(), lambda: goal, clock or Clock())
    return search.run(lambda _: None)


def serving() -> MixInstance:
    """Return an instance whose relaxation is far from the optimum."""
    return generate_mix(2, 2, 8, load=10, seed=2)


COST = 15.9
"""What its best plan costs at least."""


@pytest.mark.parametrize("target", [0.0, 0.98, 1.0])
def test_the_check_derives_the_same_bound(target: float) -> None:
    """Of a tree that ends at its target."""
    proof = proof_of(serving(), Goal(target=target * COST))
    checked = tree_bound(program_of(serving()), Tree.model_validate(proof.tree()), None)
    assert checked is not None
    assert float(checked) == pytest.approx(proof.bound, rel=1e-9)
    assert proof.bound >= target * COST


def test_leaves_raise_the_bound() -> None:
    """Above that of the relaxation."""
    low, high = (proof_of(serving(), Goal(target=target)).bound for target in (0.0, COST))
    assert low < high


@pytest.mark.parametrize("serves", [False, True])
def test_a_cutoff_leaves_out_what_the_check_leaves_out(serves: bool) -> None:
    """With the same bound, or that there is no better plan."""
    for instance in instances_of(serves, 50, 15):
        program = program_of(instance)
        free = proof_of(instance, Goal(target=-math.inf)).bound
        if not math.isfinite(free):
            continue
        for cutoff in (free, free + 0.5):
            proof = proof_of(instance, Goal(cutoff, math.nextafter(cutoff, math.inf)))
            checked = tree_bound(program, Tree.model_validate(proof.tree()), Fraction(cutoff))
            assert checked is None or float(checked) == pytest.approx(
                min(proof.bound, float(checked)), rel=1e-9, abs=1e-9
            )


def test_an_unfinished_tree_is_a_proof() -> None:
    """Without any time it has one leaf."""
    proof = proof_of(generate_mix(6, 3, 60, load=40, seed=1), Goal(), Clock(1e-3))
    assert len(proof.leaves()) == 1
    assert math.isfinite(proof.bound)


def test_prices_are_of_rows_and_not_of_counts() -> None:
    """One GPU more is worth a pair, although the counts of pairs have the same limit."""
    built = Mix().add_jobs("a", 99).add_hardware("g", limit=3).add_group("g", {"a": 1.0})
    instance = built.add_group("g", {"a": 0.7}, jobs={"a": 2}).build()
    assert proof_of(instance, Goal(target=-math.inf)).prices == pytest.approx([0.0, 1.4])


def relaxed(instance: MixInstance, **fields: Any) -> Any:
    """Return the relaxation of all counts."""
    program = program_of(instance).as_floats()
    return Relaxation(program, **fields).solve(np.zeros(len(program.cost)), program.most)


def test_a_relaxation() -> None:
    """The bound of its prices is its value; without time that of no prices."""
    found = relaxed(serving())
    program = program_of(serving()).as_floats()
    assert found.bound == pytest.approx(float(program.cost @ found.counts), rel=1e-6)
    assert (found.prices >= 0).all()
    assert relaxed(serving(), clock=Clock(0.0)).bound <= found.bound


def test_a_relaxation_without_a_plan() -> None:
    """Its prices prove it."""
    built = Mix(devices=1).add_requests("a", 3).add_hardware("g", 2).add_replica("g", {"a": 1.0})
    assert relaxed(built.build()).infeasible


def test_cuts_of_odd_numbers() -> None:
    """Three jobs in pairs: one pair, and not one and a half; what is cut off is stored."""
    built = Mix().add_hardware("g", limit=2)
    for name in "abc":
        built.add_jobs(name, 1)
    for a, b in ("ab", "bc", "ac"):
        built.add_group("g", {a: 0.5, b: 0.5})
    program = program_of(built.build()).as_floats()
    separation = Separation(program)
    separation.run(math.inf, Clock())
    assert Relaxation(separation.program).solve(np.zeros(3), program.most).bound == pytest.approx(-1)
    data = separation.as_data()
    assert len(data["priced"]) >= 1
    assert len(data["cuts"]) >= len(data["priced"])
