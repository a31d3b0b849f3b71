"""Certificates of a mix: what cannot be read is named, and proves no more than counting."""

from __future__ import annotations

import math
from typing import Any

import pytest

from clusterplan.formulations.mix.formulation import MixFormulation
from clusterplan.instances.mix.kind import Mix

FORMULATION = MixFormulation(
    Mix().add_jobs("a", 3).add_hardware("g", limit=2).add_group("g", {"a": 1.0}).build()
)
LEAF = {"prices": [0, 1]}
CUT = {"places": [0], "prices": [0.5]}


def tree(*nodes: Any, **fields: Any) -> dict[str, Any]:
    """Return a certificate with one tree."""
    return {"first": {"prices": [0, 1], "nodes": [*nodes] or [LEAF], **fields}}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (None, "dictionary"),
        ([tree()], "dictionary"),
        ({}, "first"),
        (tree(bound=3), "bound"),
        ({"first": {"nodes": [LEAF]}}, "prices"),
        ({"first": {"prices": [0, 1], "nodes": []}}, "nodes"),
        (tree(prices=[0]), "first.prices: are 1; there are 2"),
        (tree({"prices": [0, 1, 0]}), "first.nodes.0.prices: are 3"),
        *((tree({"prices": [0, price]}), "first.nodes.0") for price in (-1, math.nan, math.inf, 1e101)),
        *((tree(node), "first.nodes.0") for node in ({}, {"configuration": 0}, {"at_most": 0})),
        (tree({"configuration": 1, "at_most": 0}, LEAF, LEAF), "first.nodes.0.configuration: is 1"),
        (tree({"configuration": 0, "at_most": -1}, LEAF, LEAF), "at_most"),
        (tree({"configuration": 0, "at_most": 0}, LEAF), "first.nodes: 1 leaves are missing"),
        (tree(LEAF, LEAF), "first.nodes.1: is beyond the end"),
        (tree(cuts=[{**CUT, "prices": []}]), "first.cuts.0: has other places than prices"),
        (tree(cuts=[{"places": [0, 0], "prices": [1, 1]}]), "first.cuts.0: has other places than prices"),
        (tree(cuts=[{**CUT, "places": [2]}]), "first.cuts.0.places: has 2; there are 2 before it"),
        (tree(cuts=[{**CUT, "prices": [-1]}]), "cuts"),
        (tree(cuts=[CUT], priced=[1]), "first.priced: has 1, which is no cut"),
        (tree(cuts=[CUT], priced=[3]), "first.priced: has 3, which is no cut"),
        (tree(cuts=[CUT], priced=[2]), "first.nodes.0.prices: are 2; there are 3"),
        ({**tree(), "second": {"prices": [], "nodes": [LEAF]}}, "second.prices: are 0"),
    ],
)
def test_what_cannot_be_read_is_named(data: Any, says: str) -> None:
    """With its place."""
    fault = FORMULATION.certificate_fault(data)
    assert fault is not None
    assert says in fault
    assert FORMULATION.certified_bounds(data) == FORMULATION.elementary_bounds()
    assert FORMULATION.prices(data, []) is None


def test_devices_of_a_model_come_after_the_configurations() -> None:
    """A branching may have them; leaves have two more prices for each model."""
    built = Mix().add_requests("a", 3).add_hardware("g", 2.0).add_replica("g", {"a": 1.0})
    formulation, leaf = MixFormulation(built.build()), {"prices": [2, 0, 0]}
    for at, says in ((0, None), (1, None), (2, "nodes.0.configuration: is 2; there are 1 and 1 totals")):
        given = tree({"configuration": at, "at_most": 0}, leaf, leaf, prices=[2])
        fault = formulation.certificate_fault(given)
        assert fault is says is None or says in str(fault)
    assert "are 1; there are 3" in str(formulation.certificate_fault(tree({"prices": [2]}, prices=[2])))


def test_what_can_be_read() -> None:
    """Two of three jobs run; the price of a device is a job."""
    assert FORMULATION.certificate_fault(tree()) is None
    assert FORMULATION.certified_bounds(tree()) == (2.0, 1.0)
    assert FORMULATION.prices(tree(), []) == {"a": 0.0, "g": 1.0}
