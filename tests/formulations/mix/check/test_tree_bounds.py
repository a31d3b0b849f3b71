"""What trees prove: the optimum by their own prices, and never more, whatever they have become.

The truth is that of `mix_truth`, which knows nothing of the programme that check and methods share.
"""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from mix_truth import Values, best_values, instances_of

import clusterplan
from clusterplan.formulations.mix.certificate import Tree
from clusterplan.formulations.mix.check.tree_bounds import tree_bound
from clusterplan.formulations.mix.formulation import MixFormulation
from clusterplan.formulations.mix.program import program_of
from clusterplan.instances.common.errors import TooLargeError
from clusterplan.instances.mix.instance import MixInstance
from clusterplan.instances.mix.kind import Mix
from clusterplan.solvers.common.result import Result

Data = dict[str, Any]
FACTORS = (0.0, 0.5, 0.999, 1.001, 2.0, 1e3, 1e-9, 1e50, -1.0, math.nan, math.inf)
ORDERS = (0, 1, 2, 3, 7, 10**6, 10**9, -1)


@cache
def solved(instance: MixInstance) -> Result:
    """Return the result of `exact`."""
    return clusterplan.solve(instance, "exact")


def _tree(rng: random.Random, data: Data) -> Data:
    return rng.choice([tree for tree in data.values() if tree])


def _prices(rng: random.Random, data: Data) -> None:
    tree = _tree(rng, data)
    prices = rng.choice([tree["prices"], *(n["prices"] for n in tree["nodes"] if n.get("prices"))])
    if prices:
        place = rng.randrange(len(prices))
        prices[place] = rng.choice([*(prices[place] * factor for factor in FACTORS), rng.uniform(0, 5)])


def _all_prices(rng: random.Random, data: Data) -> None:
    tree, factor = _tree(rng, data), rng.choice(FACTORS)
    for node in rng.choice([[tree], tree["nodes"]]):
        if node.get("prices"):
            node["prices"] = [price * factor for price in node["prices"]]


def _branching(rng: random.Random, data: Data) -> None:
    node = rng.choice(_tree(rng, data)["nodes"])
    if "at_most" in node:
        node[rng.choice(["configuration", "at_most"])] = rng.choice(ORDERS)


def _new_branching(rng: random.Random, data: Data) -> None:
    nodes = _tree(rng, data)["nodes"]
    place = rng.randrange(len(nodes))
    new = {"configuration": rng.randrange(5), "at_most": rng.choice(ORDERS[:-1])}
    nodes[place : place + 1] = [new, nodes[place], copy.deepcopy(nodes[rng.randrange(len(nodes))])]


def _dropped(rng: random.Random, data: Data) -> None:
    nodes = _tree(rng, data)["nodes"]
    del nodes[rng.randrange(len(nodes))]


def _one_leaf(rng: random.Random, data: Data) -> None:
    tree = _tree(rng, data)
    tree["nodes"] = [node for node in tree["nodes"] if node.get("prices") is not None][:1]


def _shuffled(rng: random.Random, data: Data) -> None:
    rng.shuffle(_tree(rng, data)["nodes"])


def _infeasible(rng: random.Random, data: Data) -> None:
    node = rng.choice(_tree(rng, data)["nodes"])
    node["infeasible"] = not node.get("infeasible", False)


def _cut(rng: random.Random, data: Data) -> None:
    tree = _tree(rng, data)
    if not tree.get("cuts"):
        places = rng.sample(range(3), rng.randint(1, 3))
        tree["cuts"] = [{"places": places, "prices": [rng.choice([0, 0.5, 0.5, 1, 1 / 3]) for _ in places]}]
        tree["priced"] = [len(tree["prices"])]
        for node in tree["nodes"]:
            if node.get("prices") is not None:
                node["prices"].append(rng.choice([0.1, 1, 2]))
    cut = rng.choice(tree["cuts"])
    key = rng.choice(["places", "prices", "priced", "none"])
    if key == "priced":
        tree[key] = [rng.randrange(12) for _ in tree["priced"]]
    elif cut.get(key):
        changed = rng.choice([*ORDERS, *(cut["prices"][0] * factor for factor in FACTORS)])
        cut[key][rng.randrange(len(cut[key]))] = rng.choice([rng.randrange(8), changed])


def _swapped(rng: random.Random, data: Data) -> None:
    del rng
    data["first"], data["second"] = data.get("second") or data["first"], data["first"]


def _pruned(rng: random.Random, data: Data) -> None:
    """Take the second tree, or what a random field has."""
    tree = rng.choice([data, _tree(rng, data)])
    tree.pop(rng.choice([*tree]))


CHANGES: list[Callable[[random.Random, Data], None]] = [
    *(_prices, _prices, _all_prices, _branching, _new_branching, _dropped, _one_leaf, _shuffled),
    *(_infeasible, _cut, _cut, _swapped, _pruned),
]


def forged(rng: random.Random, certificates: list[Data], own: Data) -> Data:
    """Return a certificate with one to three faults, or that of another instance."""
    data: Data = json.loads(json.dumps(own if rng.random() < 0.9 else rng.choice(certificates)))
    for change in rng.sample(CHANGES, rng.randint(1, 3)):
        if data.get("first") and all(
            tree.get("prices") and tree.get("nodes") for tree in data.values() if tree
        ):
            change(rng, data)
    return data


def proves_no_more(formulation: MixFormulation, certificate: Data, best: Values | None) -> bool:
    """Whether a certificate is read without an error, and its bounds say nothing that is not true.

    With the values of the best plan, of a worse one, and without any.
    """
    fault = formulation.certificate_fault(certificate)
    worse = (
        (0.0, 0.0) if best is None or not formulation.instance.serves else (1.5 * best[0] + 1, best[1] + 2)
    )
    for values in (None, best, worse):
        bounds = formulation.certified_bounds(certificate, values)
        if best is not None:
            for objective, value, bound in zip(formulation.objectives, best, bounds, strict=True):
                assert bound is None or not objective.better(value, bound), (values, bound)
                assert bound is None or math.isfinite(bound)
        if fault is not None:
            assert bounds == formulation.elementary_bounds()
    return fault is None


@pytest.mark.parametrize("serves", [False, True])
@pytest.mark.parametrize(
    ("first", "count"), [(0, 20), *(pytest.param(5000 * k, 100, marks=pytest.mark.slow) for k in (1, 2))]
)
def test_forged_certificates_prove_nothing_wrong(serves: bool, first: int, count: int) -> None:
    """Five of each instance; most can be read, or the test would show nothing."""
    instances = instances_of(serves, first, count)
    certificates = [c for each in instances if (c := solved(each).certificate) is not None]
    rng, read, tried = random.Random(first), 0, 0
    for instance in instances:
        own, formulation, best = solved(instance).certificate, MixFormulation(instance), best_values(instance)
        for _ in range(5 if own is not None else 0):
            forgery = forged(rng, certificates, own)
            read += proves_no_more(formulation, forgery, best)
            tried += 1
    assert read > tried / 4
    assert read < tried


@pytest.mark.parametrize("serves", [False, True])
def test_own_certificates_prove_the_optimum(serves: bool) -> None:
    """Read from JSON, and as well that there is no plan."""
    found = {True: 0, False: 0}
    for instance in instances_of(serves, 300, 40):
        result, best, formulation = solved(instance), best_values(instance), MixFormulation(instance)
        if result.certificate is None:
            continue
        found[best is None] += 1
        bounds = formulation.certified_bounds(json.loads(json.dumps(result.certificate)), best)
        if best is None:
            assert all(math.isinf(bound) for bound in bounds if bound is not None)
        else:
            assert bounds == pytest.approx(best, rel=1e-8, abs=1e-8)
    assert all(found.values())


def triangle(**fields: Any) -> MixInstance:
    """Return three jobs, of which any two may share one of two devices."""
    built = Mix("triangle", **fields).add_hardware("g", limit=2)
    for name in "abc":
        built.add_jobs(name, 1)
    for a, b in ("ab", "bc", "ac"):
        built.add_group("g", {a: 0.5, b: 0.5})
    return built.build()


HALF: Data = {"prices": [0.5, 0.5, 0.5, 0], "nodes": [{"prices": [0.5, 0.5, 0.5, 0]}]}
"""Prices of the relaxation: half a pair of each."""
ODD: Data = {"places": [0, 1, 2], "prices": [0.5, 0.5, 0.5]}
"""Of three jobs at most one pair is made."""
CUT: Data = {"prices": [0] * 4, "nodes": [{"prices": [0, 0, 0, 0, 1]}], "cuts": [ODD], "priced": [4]}
TREE: Data = {
    "prices": [0.5, 0.5, 0.5, 0],
    "nodes": [
        {"configuration": 0, "at_most": 0},
        {"configuration": 1, "at_most": 0},
        {"prices": [0, 0, 1, 0]},
        {"prices": [0, 1, 0, 0]},
        {"prices": [1, 0, 0, 0]},
    ],
}


@pytest.mark.parametrize(
    ("tree", "bound"),
    [
        pytest.param(HALF, -1.5, id="one leaf"),
        pytest.param(CUT, -1.0, id="a cut"),
        pytest.param(TREE, -2.0, id="a tree with a poor leaf"),
        pytest.param({**TREE, "nodes": [*TREE["nodes"][:4], {"prices": [1, 1, 0, 0]}]}, -2.0, id="a tree"),
    ],
)
def test_a_bound_by_hand(tree: Data, bound: float) -> None:
    """Three jobs in pairs: 1.5 pairs by the relaxation, one with a cut for odd numbers."""
    assert tree_bound(program_of(triangle()), Tree.model_validate(tree), None) == Fraction(bound)


WHOLE: Data = {
    "prices": [0, 0],
    "nodes": [
        {"configuration": 2, "at_most": 1},
        {"prices": [0.5, 0.5, 1, 0], "infeasible": True},
        {"prices": [0, 0, 0, 1]},
    ],
}
"""At most one device, or at least two. Prices of both types, and of devices in use: no fewer, and no more."""


def test_a_branching_on_devices_by_hand() -> None:
    """One and a half devices serve all, three quarters of each replica: whole ones are two."""
    built = Mix().add_requests("a", 1.5).add_requests("b", 1.5).add_hardware("g", 1.0)
    built.add_replica("g", {"a": 2, "b": 1}, name="for a").add_replica("g", {"a": 1, "b": 2}, name="for b")
    instance = built.build()
    assert tree_bound(program_of(instance), Tree.model_validate(WHOLE), None) == 2
    assert MixFormulation(instance).certified_bounds({"first": WHOLE}) == (2.0, pytest.approx(1.5))
    one_leaf = {**WHOLE, "nodes": WHOLE["nodes"][2:]}
    assert tree_bound(program_of(instance), Tree.model_validate(one_leaf), None) == 0
    tree = (clusterplan.solve(instance, "exact").certificate or {})["first"]
    assert len(tree["nodes"]) <= 3


def test_reduced_costs_exclude_within_the_cutoff() -> None:
    """Prices of 0.7, 0.5 and 0.5 have the bound 1.7, and two of the pairs lose 0.2: 1.6 leaves both out."""
    tree = Tree.model_validate({"prices": [0.7, 0.5, 0.5, 0], "nodes": [{"prices": [0, 1, 0, 0]}]})
    program = program_of(triangle())
    assert tree_bound(program, tree, None) == tree_bound(program, tree, Fraction(-1)) == -2
    assert tree_bound(program, tree, Fraction("-1.6")) == -1
    assert tree_bound(program, tree, Fraction("-1.8")) is None


def test_a_leaf_without_a_plan_says_nothing_of_costs() -> None:
    """If all three have to run there is no plan: a ray proves it, and is no bound where they need not."""
    ray = [0, 0, 0, 1, 0, 1, 0]  # a, b and c at most and at least once, then the devices
    whole = {"prices": ray, "nodes": [{"prices": ray, "infeasible": True}]}
    odd = {
        "prices": [0] * 7,
        "nodes": [{"prices": [0, 1, 0, 1, 0, 1, 0, 2], "infeasible": True}],
        "cuts": [{"places": [0, 2, 4], "prices": [0.5, 0.5, 0.5]}],
        "priced": [7],
    }
    must = program_of(triangle(must_run=True))
    assert tree_bound(must, Tree.model_validate(whole), None) is not None
    assert tree_bound(must, Tree.model_validate(odd), None) is None
    formulation = MixFormulation(triangle(must_run=True))
    assert formulation.certified_bounds({"first": odd}) == (-math.inf, -math.inf)


def test_prices_that_prove_less_than_counting_are_not_said() -> None:
    """They would be taken for what one more device is worth."""
    built = Mix().add_requests("a", 5).add_hardware("g", 2.0, limit=9).add_replica("g", {"a": 1.0})
    instance = built.build()
    formulation, result = MixFormulation(instance), clusterplan.solve(instance)
    assert formulation.prices(result.certificate, result.plan or ()) is not None
    forged = {**(result.certificate or {})}
    forged["first"] = {**forged["first"], "prices": [price + 1e6 for price in forged["first"]["prices"]]}
    assert formulation.prices(forged, result.plan or ()) is None


def test_cuts_of_cuts_cannot_grow_without_end() -> None:
    """Each multiplies the one before by a large price."""
    instance = (
        Mix().add_jobs("a", 3).add_hardware("g", limit=2).add_group("g", {"a": 1.0}, jobs={"a": 2}).build()
    )
    cuts = [{"places": [k], "prices": [1e100]} for k in range(1, 200)]
    tree = {"prices": [0.0, 0.0], "nodes": [{"prices": [0.0, 0.0]}], "cuts": cuts}
    with pytest.raises(TooLargeError, match="too large to check"):
        tree_bound(program_of(instance), Tree.model_validate(tree), None)
    formulation = MixFormulation(instance)
    assert formulation.certified_bounds({"first": tree}, (1.0, 1.0)) == formulation.elementary_bounds()
